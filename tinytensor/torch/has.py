"""`python -m tinytensor.torch.has NAME ...`: which of PyTorch's names the room lacks, and why, a line for each.

A name is `torch.nn.Linear`, or `.sum` for a method of a Tensor.
"""

from __future__ import annotations

import sys
from inspect import getattr_static
from types import ModuleType
from typing import Any

import tinytensor as tt


def why_not(name: str) -> str | None:
    """Why the room lacks a name; None if it has it."""
    if name.startswith("."):
        found = getattr_static(tt.Tensor, name[1:], None)
        lacks = found is None or isinstance(found, tt.missing.Missing)
        return f"a Tensor of tinytensor has no {name[1:]}" if lacks else None
    place: Any = sys.modules[__package__]
    for part in name.split(".")[1:]:
        try:
            place = getattr(place, part)
        except AttributeError as error:
            return str(error)
        if not isinstance(place, ModuleType):
            break
    return None


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        if why := why_not(asked):
            print(f"{asked} {' '.join(why.split())}")
