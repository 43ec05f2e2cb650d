"""Dropout of whole channels as layers."""

from __future__ import annotations

from tinytensor import Tensor

from . import functional as F
from .layers import Dropout


class Dropout1d(Dropout):
    """In training, zero each channel of a sequence with probability p and scale the others by 1 / (1 - p).

    Neighbours in a channel are similar: dropping only one would hide little (Tompson et al. 2015). Shapes:
    (batch, channels, length) or (channels, length).
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training)


class Dropout2d(Dropout):
    """`Dropout1d` of images: (batch, channels, height, width) or (channels, height, width)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training)
