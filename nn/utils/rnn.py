"""Sequences of different lengths, as one padded Tensor and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from ..functional.windows import pad

INSTEAD = "the recurrent layers take padded sequences and their lengths: nn.GRU(...)(x, lengths=lengths)"
"""What takes the place of PyTorch's packed sequences."""


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences as one Tensor, filled up to the longest.

    Shapes: each (length, ...), the rest alike -> (longest, batch, ...), or (batch, longest, ...) with `batch_first`.

    Args:
        padding_value: what it is filled up with.
        padding_side: "right" to fill behind the sequences, "left" to fill in front of them.

    Raises ValueError for no sequences, and where they differ in more than length.
    """
    if padding_side not in ("right", "left"):
        raise ValueError(f"pad_sequence: padding_side must be 'right' or 'left', got {padding_side!r}")
    given = [tt.asarray(sequence) for sequence in sequences]
    shapes = [sequence.shape for sequence in given]
    if not given or 0 in map(len, shapes) or len({shape[1:] for shape in shapes}) > 1:
        raise ValueError(f"pad_sequence: expected sequences (length, ...) that differ in length alone, got {shapes}")
    longest = max(map(len, given))

    def filled(x: Tensor) -> Tensor:
        missing = longest - len(x)
        sides = (0, missing) if padding_side == "right" else (missing, 0)
        return pad(x, (*[0] * (2 * x.ndim - 2), *sides), value=padding_value)

    return tt.stack([filled(x) for x in given], axis=0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a Tensor that `pad_sequence` made, each of its own length: its inverse."""
    rows = padded_sequences if batch_first else tt.moveaxis(padded_sequences, 1, 0)
    return [row[:length] for row, length in zip(tt.unstack(rows), tt.asarray(lengths).tolist(), strict=True)]


def __getattr__(name: str) -> Any:
    if name in ("PackedSequence", "pack_padded_sequence", "pad_packed_sequence", "pack_sequence", "unpack_sequence"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {INSTEAD}")
    raise tt.missing.no_attribute(__name__, name)
