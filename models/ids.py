"""Ids in the form that models take."""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor


def as_batch(model: str, ids: Any, device: str) -> Tensor:
    """Ids (batch, length) on a device. Raises ValueError, with the model's name, for anything else."""
    found = tt.asarray(ids, device=device)
    if found.ndim != 2 or found.dtype.kind not in "iu":
        raise ValueError(f"{model}: expected integer ids (batch, length), got {found.dtype} of shape {found.shape}")
    return found
