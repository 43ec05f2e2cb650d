"""Sequences of different lengths: padded to one Tensor, or packed without padding, and back.

Packed data holds the steps one after the other: the first of all sequences, the longest sequence first, then the second
of those that have one, and so on. PyTorch's recurrent layers take a batch without padding in this form. `nn.RNN`,
`nn.GRU` and `nn.LSTM` take it and return it; they compute with masks (`lengths=` does the same without packing), with
the same results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import tinytensor as tt

__all__ = [
    "PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence", "unpack_sequence",
    "unpad_sequence",
]  # fmt: skip


class PackedSequence(NamedTuple):
    """A batch of sequences without padding; `pack_padded_sequence` and `pack_sequence` make it.

    Attributes:
        data: (steps of all sequences, *): the first steps of all, then the second ones, ...
        batch_sizes: the number of sequences that have each step; integers on the CPU.
        sorted_indices: the original indices of the sequences, the longest first; None if they came sorted.
        unsorted_indices: the places of the sequences in that order.
    """

    data: tt.Tensor
    batch_sizes: tt.Tensor
    sorted_indices: tt.Tensor | None = None
    unsorted_indices: tt.Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences with their data on another device, or in another dtype."""
        data = self.data.to(*args, **kwargs)
        order = [None if i is None else i.to(data.device) for i in (self.sorted_indices, self.unsorted_indices)]
        return PackedSequence(data, self.batch_sizes, *order)


def pad_sequence(
    sequences: Sequence[tt.Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> tt.Tensor:
    """Sequences (length, *) as one Tensor (longest, batch, *), or with `batch_first` (batch, longest, *).

    Args:
        sequences: Tensors that differ only in their first dimension.
        padding_value: fills up the shorter ones.
        padding_side: "right", after them, or "left", before them.

    Raises ValueError for no sequences, for some that differ in more than length, and for another side.
    """
    if padding_side not in ("right", "left"):
        raise ValueError(f"pad_sequence: padding_side must be 'right' or 'left', got {padding_side!r}")
    given = [tt.asarray(sequence) for sequence in sequences]
    shapes = [sequence.shape for sequence in given]
    if not given or () in shapes or len({shape[1:] for shape in shapes}) > 1:
        raise ValueError(f"pad_sequence: expected sequences (length, ...) that differ in length alone, got {shapes}")
    lengths = np.array([shape[0] for shape in shapes])
    steps = np.arange(lengths.max())[:, None]
    if padding_side == "left":
        steps = steps - (lengths.max() - lengths)
    places = np.where((steps >= 0) & (steps < lengths), steps + lengths.cumsum() - lengths, lengths.sum())
    return _rows(tt.concat(given), places.T if batch_first else places, padding_value)


def unpad_sequence(padded_sequences: tt.Tensor, lengths: Any, batch_first: bool = False) -> list[tt.Tensor]:
    """The sequences (length, *) from a batch of `pad_sequence`, given their lengths."""
    padded = padded_sequences if batch_first else tt.moveaxis(padded_sequences, 1, 0)
    return [padded[i, :length] for i, length in enumerate(_as_lengths("unpad_sequence", lengths, padded.shape[:2]))]


def pack_padded_sequence(
    input: tt.Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """A padded batch (length, batch, *), or with `batch_first` (batch, length, *), without its padding.

    Args:
        lengths: (batch,) integers, the number of steps of each sequence before padding, at least 1.
        enforce_sorted: whether the sequences must come in order of length, the longest first. If False, this sorts
            them, and `pad_packed_sequence` restores their order.

    Raises ValueError for lengths that do not fit, or that are not sorted and should be.
    """
    x = tt.moveaxis(input, 1, 0) if batch_first else input
    sizes = np.array(_as_lengths("pack_padded_sequence", lengths, (x.shape[1], x.shape[0])))
    if not sizes.size or sizes.min() < 1:
        raise ValueError(f"pack_padded_sequence: expected lengths of at least 1, got {sizes.tolist()}")
    order = np.argsort(-sizes, kind="stable")
    if enforce_sorted and np.any(np.diff(sizes) > 0):
        raise ValueError(
            f"pack_padded_sequence: the lengths {sizes.tolist()} are not sorted, the longest first; pass "
            "enforce_sorted=False"
        )
    batch_sizes = (np.arange(sizes.max())[:, None] < sizes).sum(axis=1)
    indices = () if enforce_sorted else (tt.asarray(i, device=x.device) for i in (order, np.argsort(order)))
    return packed_like(x, PackedSequence(x, tt.asarray(batch_sizes), *indices))


def packed_like(input: tt.Tensor, like: PackedSequence, batch_first: bool = False) -> PackedSequence:
    """Pack a padded batch in the order and to the lengths of another."""
    x = tt.moveaxis(input, 1, 0) if batch_first else input
    steps, ranks = _places(like)
    order = np.arange(x.shape[1]) if like.sorted_indices is None else np.asarray(like.sorted_indices.tolist())
    flat = tt.reshape(x, (-1, *x.shape[2:]))
    return like._replace(data=_rows(flat, steps * x.shape[1] + order[ranks]))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[tt.Tensor, tt.Tensor]:
    """The padded batch (length, batch, *), or with `batch_first` (batch, length, *), and the lengths (batch,).

    Args:
        padding_value: fills the padding.
        total_length: the length of the batch; default: that of its longest sequence.

    Raises ValueError for a `total_length` below the longest sequence.
    """
    steps, ranks = _places(sequence)
    longest, batch = steps[-1] + 1, ranks.max() + 1
    length = longest if total_length is None else total_length
    if length < longest:
        raise ValueError(f"pad_packed_sequence: total_length is {length}, the longest sequence has {longest} steps")
    places = np.full((length, batch), len(steps))
    places[steps, ranks] = np.arange(len(steps))
    if sequence.unsorted_indices is not None:
        places = places[:, sequence.unsorted_indices.tolist()]
    lengths = tt.asarray((places < len(steps)).sum(axis=0))
    return _rows(sequence.data, places.T if batch_first else places, padding_value), lengths


def pack_sequence(sequences: Sequence[tt.Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (length, *); arguments and errors as for `pack_padded_sequence`."""
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[tt.Tensor]:
    """The sequences (length, *) of a packed batch, in their order before packing."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


def _rows(x: tt.Tensor, places: np.ndarray, padding_value: float | None = None) -> tt.Tensor:
    """The rows of x at these places, in their shape; with a padding_value, a row of it follows the last."""
    if padding_value is not None:
        padding = tt.full((1, *x.shape[1:]), padding_value, dtype=x.dtype, device=x.device)
        x = tt.concat([x, padding])
    return x[tt.asarray(places, device=x.device)]


def _places(packed: PackedSequence) -> tuple[np.ndarray, np.ndarray]:
    """The step of each row of the data, and its sequence, counted from the longest."""
    sizes = np.asarray(packed.batch_sizes.tolist())
    return np.repeat(np.arange(len(sizes)), sizes), np.concatenate([np.arange(size) for size in sizes])


def _as_lengths(name: str, lengths: Any, shape: Sequence[int]) -> list[int]:
    """The lengths as a list, checked against a batch of shape (batch, length)."""
    found = lengths.tolist() if hasattr(lengths, "tolist") else list(lengths)
    batch, length = shape
    if len(found) != batch or not all(isinstance(n, int) and 0 <= n <= length for n in found):
        raise ValueError(f"{name}: expected {batch} integers from 0 to {length}, one for each sequence, got {found}")
    return found
