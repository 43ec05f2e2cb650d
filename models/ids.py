"""Ids in the form that models take."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import tinytensor as tt
from tinytensor import Tensor

NONE = -1  # fills places without an id: padding in every batch, also for a model without a pad_id
Ends = int | Sequence[int] | None  # the ids that end a text: one, several or none


def as_batch(model: str, ids: Any, device: Any, fill: int = NONE) -> Tensor:
    """Ids (batch, length) on a device; lists may be of different lengths, which `fill` makes equal.

    Raises ValueError, with the model's name, for anything else.
    """
    if isinstance(ids, (list, tuple)) and {type(row) for row in ids} <= {list, tuple} and len({*map(len, ids)}) > 1:
        ids = list(zip(*zip_longest(*ids, fillvalue=fill)))
    found = tt.asarray(ids, device=device)
    if found.ndim != 2 or found.dtype.kind not in "iu":
        raise ValueError(f"{model}: expected integer ids (batch, length), got {found.dtype} of shape {found.shape}")
    return found


def is_padding(ids: Tensor, pad_id: int | None) -> Tensor:
    """True where ids are padding: `NONE`, or pad_id if there is one."""
    return ids == NONE if pad_id is None else (ids == NONE) | (ids == pad_id)


def ends(eos_id: Ends) -> tuple[int, ...]:
    """The ids that end a text."""
    return () if eos_id is None else (eos_id,) if isinstance(eos_id, int) else tuple(eos_id)
