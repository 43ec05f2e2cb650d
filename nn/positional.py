"""Positions: sinusoidal (Vaswani et al. 2017, section 3.5), and learned (Gehring et al. 2017)."""

from __future__ import annotations

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import Device, DType

from . import init
from .layers import Dropout
from .module import Module
from .parameter import Parameter

LONGEST = 1 << 20  # positions: a larger table is a mistake, or an attack through a file


class PositionalEncoding(Module):
    """Adds each position's encoding to the vector there, then applies dropout (sections 3.5 and 5.4).

    Args:
        d_model: the size of the vectors.
        dropout: the probability of zeroing an element of the sum in training.
        max_len: the longest sequence it takes, at most 1,048,576.
        batch_first: whether the input is (batch, length, d_model) rather than (length, batch, d_model).

    The encoding is computed, not learned, and not part of the state; it follows the input's dtype and device. An
    input of two dimensions is one sequence, (length, d_model).

    Raises ValueError for a sequence longer than max_len and for vectors of another size.
    """

    too_long = "make the module with a larger max_len (nothing learned depends on it)"

    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 5000, batch_first: bool = False) -> None:
        super().__init__()
        if not 0 <= max_len <= LONGEST:
            raise ValueError(f"{type(self).__name__}: max_len must be from 0 to {LONGEST}, got {max_len}")
        self.d_model = d_model
        self.max_len = max_len
        self.batch_first = batch_first
        self.dropout = Dropout(dropout)
        self.encoding = self.table()

    def forward(self, x: Tensor, *, start: int = 0) -> Tensor:
        """x plus the encodings of the positions from `start` on, with dropout."""
        if x.ndim not in (2, 3) or x.shape[-1] != self.d_model:
            axes = "(batch, length, d_model)" if self.batch_first else "(length, batch, d_model)"
            expected = f"{axes} or (length, d_model) with d_model {self.d_model}"
            raise ValueError(f"{type(self).__name__}: expected {expected}, got {x.shape}")
        length = x.shape[-2] if self.batch_first or x.ndim == 2 else x.shape[0]
        if start + length > self.max_len:
            raise ValueError(
                f"{type(self).__name__}: a sequence of length {start + length} is longer than max_len {self.max_len}; "
                + self.too_long
            )
        if self.encoding.dtype != x.dtype or self.encoding.device != x.device:
            self.encoding = self.table(x.dtype, x.device)  # at once, for another thread may read it
        encoding = self.encoding[start : start + length]
        return self.dropout(x + (encoding if self.batch_first or x.ndim == 2 else encoding.unsqueeze(1)))

    def table(self, dtype: DType = None, device: Device = None) -> Tensor:
        """The encodings of all positions, (max_len, d_model)."""
        return sinusoidal_encoding(self.max_len, self.d_model, dtype=dtype, device=device)

    def extra_repr(self) -> str:
        return f"{self.d_model}, max_len={self.max_len}, batch_first={self.batch_first}"


class LearnedPositionalEncoding(PositionalEncoding):
    """Adds a learned vector for each position to the vector there, then applies dropout (Gehring et al. 2017).

    Arguments and shapes as for `PositionalEncoding`. The table `encoding` is a parameter, (max_len, d_model), that
    starts from N(0, 1), as that of `Embedding` does.

    Raises ValueError for a sequence longer than max_len, which has positions without a vector, and for vectors of
    another size.
    """

    too_long = "no vectors were learned for positions beyond it"

    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 5000, batch_first: bool = False) -> None:
        super().__init__(d_model, dropout, max_len, batch_first)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.encoding)

    def table(self, dtype: DType = None, device: Device = None) -> Tensor:
        """The parameter, made once: it moves with its module, not with an input."""
        made = self._parameters.get("encoding")
        return Parameter(tt.empty((self.max_len, self.d_model))) if made is None else made


def sinusoidal_encoding(length: int, d_model: int, *, dtype: DType = None, device: Device = None) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)) and PE(pos, 2i + 1) = cos of the same, (length, d_model).

    Computed in float64 and rounded once. Vaswani et al. 2017, section 3.5.
    """
    position = np.arange(length)[:, None]
    angle = position / 10000 ** (np.arange(0, d_model, 2) / d_model)
    encoding = np.empty((length, d_model))
    encoding[:, 0::2] = np.sin(angle)
    encoding[:, 1::2] = np.cos(angle[:, : d_model // 2])
    return tt.asarray(encoding, dtype=tt.get_default_dtype() if dtype is None else dtype, device=device)
