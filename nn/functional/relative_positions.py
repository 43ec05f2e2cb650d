"""Positions that attention sees as distances: rotary positions (Su et al. 2021) and ALiBi (Press et al. 2022).

Sinusoids are added to the vectors once, below the first layer. These act in every layer, on queries and keys or on
their scores, and the result depends on the distance of two positions, not on where they are.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import DType

from .checks import beside

PAIRINGS = ("interleaved", "half")


class RotaryStretch(NamedTuple):
    """Rotary positions for texts longer than a model's training texts: slower angles.

        θ' = θ / factor                                               without `length` (Chen et al. 2023)
        θ' = (1 - γ) θ / factor + γ θ,   γ = (r - low) / (high - low), within [0, 1],   r = length θ / 2π

    r is the number of turns of a pair within a training text: a pair that turns `high` times or more distinguishes
    neighbours and keeps its angles (Peng et al. 2023, section 3.2, with the numbers of Llama 3.1).

    Attributes:
        factor: how many times longer texts may be.
        length: the length of the training texts; None slows all angles.
        low, high: see above.
    """

    factor: float
    length: int | None = None
    low: float = 1.0
    high: float = 4.0

    def slowed(self, frequencies: Any) -> Any:
        """θ' of frequencies θ, raw arrays."""
        if self.length is None:
            return frequencies / self.factor
        turns = self.length * frequencies / (2 * math.pi)
        kept = np.clip((turns - self.low) / (self.high - self.low), 0, 1)
        return (1 - kept) * frequencies / self.factor + kept * frequencies


def rotary_angles(
    positions: Any, head_dim: int, base: float = 10000.0, *, stretch: RotaryStretch | None = None, dtype: DType = None
) -> tuple[Tensor, Tensor]:
    """cos and sin of pos / base^(2i / d), by which `rotate` turns pair i at a position (Su et al. 2021, equation 15).

    With a `stretch` they turn more slowly. Shapes: positions (...) of integers -> (..., head_dim / 2) twice. Computed
    in float64 and rounded once.
    """
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"rotary_angles: head_dim must be even, for its elements turn in pairs; got {head_dim}")
    raw = base ** (-np.arange(0, head_dim, 2) / head_dim)
    frequencies = tt.asarray(raw if stretch is None else stretch.slowed(raw))
    positions = tt.asarray(positions)
    angles = tt.astype(positions, tt.float64)[..., None] * frequencies.to(positions.device)
    dtype = tt.get_default_dtype() if dtype is None else dtype
    return tt.astype(tt.cos(angles), dtype), tt.astype(tt.sin(angles), dtype)


def rotate(x: Any, cos: Any, sin: Any, pairing: str = "interleaved") -> Tensor:
    """Turn pair i of a vector's elements by the angle of its position (Su et al. 2021, equation 34).

        (a, b) -> (a cos - b sin, a sin + b cos)

    A query turned by m angles and a key turned by n have the same product as when the query alone is turned by
    m - n: only the distance counts.

    Args:
        x: (..., length, head_dim), queries or keys.
        cos, sin: from `rotary_angles`; broadcast to (..., length, head_dim / 2).
        pairing: which elements form a pair: "interleaved" as in the paper, 2i and 2i + 1, or "half", i and i + d / 2,
            as in Hugging Face's checkpoints of Llama. The two differ only in the order of the elements.
    """
    check_pairing("rotate", pairing)
    if not x.shape or x.shape[-1] != 2 * cos.shape[-1] or cos.shape != sin.shape:
        raise ValueError(
            f"rotate: x {tuple(x.shape)} must have twice as many elements in its last dimension as cos "
            f"{tuple(cos.shape)} and sin {tuple(sin.shape)}"
        )
    cos, sin = (tt.astype(beside(angle, x), x.dtype, copy=False) for angle in (cos, sin))
    return _rotate(x, cos, sin, pairing=pairing)


def check_pairing(name: str, pairing: str) -> None:
    """Raise ValueError that begins with `name`, unless it is one of `PAIRINGS`."""
    if pairing not in PAIRINGS:
        raise ValueError(f"{name}: pairing must be one of {PAIRINGS}, got {pairing!r}")


@tt.op(x=lambda xp, g, cos, sin, pairing: turned(xp, g, cos, xp.negative(sin), pairing))
def _rotate(xp, x, cos, sin, *, pairing):
    """Each pair (a, b) of elements as (a cos - b sin, a sin + b cos); the gradient turns back."""
    return turned(xp, x, cos, sin, pairing)


def turned(xp: Any, x: Any, cos: Any, sin: Any, pairing: str) -> Any:
    """Each pair (a, b) of the elements of x as (a cos - b sin, a sin + b cos)."""
    if pairing == "half":
        half = x.shape[-1] // 2
        a, b = x[..., :half], x[..., half:]
        return xp.concat([a * cos - b * sin, a * sin + b * cos], axis=-1)
    a, b = x[..., 0::2], x[..., 1::2]
    return xp.reshape(xp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1), x.shape)


def alibi_slopes(num_heads: int, *, dtype: DType = None) -> Tensor:
    """The slopes of n heads, (n,): 2^(-8 / n), 2^(-16 / n), ..., 2^-8 (Press et al. 2022, section 3).

    If n is not a power of two: the slopes of the power below, then every second one of the power above, as in the
    authors' code.
    """
    if num_heads < 1:
        raise ValueError(f"alibi_slopes: num_heads must be at least 1, got {num_heads}")
    below = 2 ** (num_heads.bit_length() - 1)
    slopes = 2 ** (-8 * np.arange(1, below + 1) / below)
    between = 2 ** (-8 * np.arange(1, 2 * below + 1, 2) / (2 * below))
    return tt.asarray(
        np.concatenate([slopes, between])[:num_heads], dtype=tt.get_default_dtype() if dtype is None else dtype
    )


def alibi(distances: Tensor, num_heads: int, *, dtype: DType = None) -> Tensor:
    """-slope * distance: ALiBi adds it to the scores, instead of positions to the vectors (Press et al. 2022).

    Args:
        distances: (..., target, source) of integers: how many positions a key is before its query. Use another mask
            to hide the future.

    Returns (..., num_heads, target, source).
    """
    slopes = alibi_slopes(num_heads, dtype=dtype).to(distances.device)[:, None, None]
    return -slopes * tt.astype(tt.expand_dims(distances, axis=-3), slopes.dtype)
