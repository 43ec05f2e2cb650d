"""`tt.fft`: discrete Fourier transforms, the `fft` extension of the array API standard. All of it has gradients.

    X[k] = sum_j x[j] exp(-2 pi i j k / n)        (`ifft`: with a plus, and divided by n)

A transform is the product with a symmetric matrix, so its gradient rule is the transform itself: F' g = F g. In the
spectrum of real numbers one half is the conjugate of the other, and `rfft`, `irfft`, `hfft` and `ihfft` keep one half.
`rfft` and `irfft` are each other's gradient, except for a factor 2 where one element represents two conjugates. `fft`,
`ifft`, `rfft` and `irfft` are ops, by NumPy's or CuPy's fast Fourier transform; all others are made of them.

`norm` says which of the pair is divided by n: "backward" `ifft`, "forward" `fft`, "ortho" both, by sqrt(n).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tinytensor as tt

from . import dtypes
from .functions.reductions import normalize_axes, normalize_axis
from .primitive import op
from .tensor import Tensor
from .typing import ArrayLike, Axis, Device, DType

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip

OTHER_WAY = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
"""For each norm of a transform, the norm under which its inverse is divided by as much."""


@op(floating=True, x=lambda xp, g, axis, norm: xp.fft.fft(g, axis=axis, norm=norm))
def _fft(xp, x, *, axis, norm):
    return xp.fft.fft(x, axis=axis, norm=norm)


@op(floating=True, x=lambda xp, g, axis, norm: xp.fft.ifft(g, axis=axis, norm=norm))
def _ifft(xp, x, *, axis, norm):
    return xp.fft.ifft(x, axis=axis, norm=norm)


def _with_twins(xp, x, n, axis, factor):
    """Half of a spectrum of n, times a factor except at the frequencies 0 and n / 2, which have no conjugate twin."""
    first, last = (slice(0, 1), slice((n + 1) // 2, None))
    twins = x[_along(axis, slice(1, (n + 1) // 2))] * factor
    return xp.concat([x[_along(axis, first)], twins, x[_along(axis, last)]], axis=axis)


def _rfft_rule(xp, g, shape, axis, norm):
    """Re(F^H g), over the half that is there: the inverse transform of g, with the twins halved"""
    n = shape[axis]
    return xp.fft.irfft(_with_twins(xp, g, n, axis, 0.5), n=n, axis=axis, norm=OTHER_WAY[norm])


@op(floating=True, x=_rfft_rule)
def _rfft(xp, x, *, axis, norm):
    return xp.fft.rfft(x, axis=axis, norm=norm)


@op(x=lambda xp, g, n, axis, norm: _with_twins(xp, xp.fft.rfft(g, axis=axis, norm=OTHER_WAY[norm]), n, axis, 2.0))
def _irfft(xp, x, *, n, axis, norm):
    return xp.fft.irfft(x, n=n, axis=axis, norm=norm)


def _checked(name: str, x: ArrayLike, n: int | None, axis: int, norm: str) -> tuple[Tensor, int, int]:
    """x as a Tensor, the length n along the axis, and the axis from 0 on."""
    x = tt.asarray(x)
    axis = normalize_axis(name, axis, x.shape)
    if norm not in OTHER_WAY:
        raise ValueError(f"{name}: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    n = x.shape[axis] if n is None else n
    if n < 1:
        raise ValueError(f"{name}: a transform has length 1 or more, got {n} along axis {axis} of shape {x.shape}")
    return x, n, axis


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, part)


def _of_length(x: Tensor, n: int, axis: int) -> Tensor:
    """x cut, or padded with zeros, to length n along an axis."""
    if x.shape[axis] < n:
        zeros = tt.zeros((*x.shape[:axis], n - x.shape[axis], *x.shape[axis + 1 :]), dtype=x.dtype, device=x.device)
        return tt.concat([x, zeros], axis=axis)
    return x if x.shape[axis] == n else x[_along(axis, slice(0, n))]


def fft(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform along `axis`, complex.

    Args:
        n: the length along the axis to which x is first cut or padded with zeros; default: its own.
        norm: "backward" (divided by nothing), "ortho" (by sqrt(n)) or "forward" (by n).
    """
    x, n, axis = _checked("fft", x, n, axis, norm)
    return _fft(_of_length(x, n, axis), axis=axis, norm=norm)


def ifft(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`: the transform with the other sign, divided by n under the norm "backward"."""
    x, n, axis = _checked("ifft", x, n, axis, norm)
    return _ifft(_of_length(x, n, axis), axis=axis, norm=norm)


def rfft(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The first n // 2 + 1 elements of the transform of real numbers; the others are their conjugates."""
    x, n, axis = _checked("rfft", x, n, axis, norm)
    if x.dtype.kind == "c":
        raise TypeError(f"rfft: expected real numbers, got {x.dtype}; use fft")
    return _rfft(_of_length(x, n, axis), axis=axis, norm=norm)


def irfft(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`: n real numbers from the first n // 2 + 1 elements of their transform.

    The default of n is 2 (m - 1), for m elements along the axis. Give n if it is odd.
    """
    x = tt.asarray(x)
    axis = normalize_axis("irfft", axis, x.shape)
    x, n, axis = _checked("irfft", x, 2 * (x.shape[axis] - 1) if n is None else n, axis, norm)
    half = _of_length(x if x.dtype.kind == "c" else x + 0j, n // 2 + 1, axis)
    return _irfft(half, n=n, axis=axis, norm=norm)


def hfft(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The real transform of n numbers, given their first half; the second half is its conjugate."""
    x, _, axis = _checked("hfft", x, 1 if n is None else n, axis, norm)
    return irfft(tt.conj(x), n=n, axis=axis, norm=OTHER_WAY[norm])


def ihfft(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`: the first n // 2 + 1 elements of the inverse transform of n real numbers."""
    x, n, axis = _checked("ihfft", x, n, axis, norm)
    return tt.conj(rfft(x, n=n, axis=axis, norm=OTHER_WAY[norm]))


def _checked_axes(
    name: str, x: Tensor, s: Sequence[int] | None, axes: int | Sequence[int] | None
) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """The axes of a transform of several, in the order given, and the length along each (None: x's own)."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    normalize_axes(name, axes, x.shape, "axes")
    if s is not None and len(s) != len(axes):
        raise ValueError(f"{name}: got {len(s)} lengths for {len(axes)} axes; s={tuple(s)}, axes={axes}")
    return tuple(i % x.ndim for i in axes), (None,) * len(axes) if s is None else tuple(s)


def _over_axes(transform: Callable[..., Tensor], x: Tensor, lengths: Any, axes: Any, norm: str) -> Tensor:
    for n, axis in reversed(list(zip(lengths, axes))):
        x = transform(x, n=n, axis=axis, norm=norm)
    return x


def fftn(x: ArrayLike, /, *, s: Sequence[int] | None = None, axes: Axis = None, norm: str = "backward") -> Tensor:
    """The transform along each of several axes.

    Args:
        s: the length along each; default: x's own.
        axes: default: all, or the last len(s).
        norm: as for `fft`.
    """
    x = tt.asarray(x)
    axes, lengths = _checked_axes("fftn", x, s, axes)
    return _over_axes(fft, x, lengths, axes, norm)


def ifftn(x: ArrayLike, /, *, s: Sequence[int] | None = None, axes: Axis = None, norm: str = "backward") -> Tensor:
    """The inverse of `fftn`, with the same arguments."""
    x = tt.asarray(x)
    axes, lengths = _checked_axes("ifftn", x, s, axes)
    return _over_axes(ifft, x, lengths, axes, norm)


def rfftn(x: ArrayLike, /, *, s: Sequence[int] | None = None, axes: Axis = None, norm: str = "backward") -> Tensor:
    """The transform of real numbers along several axes; the last has n // 2 + 1 elements, as in `rfft`."""
    x = tt.asarray(x)
    axes, lengths = _checked_axes("rfftn", x, s, axes)
    half = rfft(x, n=lengths[-1], axis=axes[-1], norm=norm)
    return _over_axes(fft, half, lengths[:-1], axes[:-1], norm)


def irfftn(x: ArrayLike, /, *, s: Sequence[int] | None = None, axes: Axis = None, norm: str = "backward") -> Tensor:
    """The inverse of `rfftn`; give s if the last axis had an odd number of elements."""
    x = tt.asarray(x)
    axes, lengths = _checked_axes("irfftn", x, s, axes)
    whole = _over_axes(ifft, x, lengths[:-1], axes[:-1], norm)
    return irfft(whole, n=lengths[-1], axis=axes[-1], norm=norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType = None, device: Device = None) -> Tensor:
    """The frequencies of the n elements of `fft`, for samples d apart: 0, 1, ..., -2, -1, each / (n d)."""
    order = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    return tt.asarray([k / (n * d) for k in order], dtype=_real_dtype("fftfreq", dtype), device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType = None, device: Device = None) -> Tensor:
    """The frequencies of the n // 2 + 1 elements of `rfft`: 0, 1, ..., n // 2, each / (n d)."""
    order = range(n // 2 + 1)
    return tt.asarray([k / (n * d) for k in order], dtype=_real_dtype("rfftfreq", dtype), device=device)


def _real_dtype(name: str, dtype: DType) -> Any:
    dtype = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if dtype.kind != "f":
        raise TypeError(f"{name}: frequencies are real, got dtype {dtype}")
    return dtype


def fftshift(x: ArrayLike, /, *, axes: Axis = None) -> Tensor:
    """x with the element of frequency 0 moved to the middle, along `axes` (default: all)."""
    x = tt.asarray(x)
    axes = normalize_axes("fftshift", axes, x.shape, "axes")
    return tt.roll(x, tuple(x.shape[i] // 2 for i in axes), axis=axes)


def ifftshift(x: ArrayLike, /, *, axes: Axis = None) -> Tensor:
    """The inverse of `fftshift`: the element in the middle moved to the front."""
    x = tt.asarray(x)
    axes = normalize_axes("ifftshift", axes, x.shape, "axes")
    return tt.roll(x, tuple(-(x.shape[i] // 2) for i in axes), axis=axes)


tt.missing.explain_arguments(sys.modules[__name__], __all__)

if not TYPE_CHECKING:  # type checkers know all names from above, and complain of others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
