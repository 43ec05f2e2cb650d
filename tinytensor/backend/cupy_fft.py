"""`xp.fft` on a GPU: `cupy.fft`, and empty arrays, which cuFFT refuses to transform."""

from __future__ import annotations

from typing import Any

import cupy


def fft(x: Any, axis: int = -1, norm: str = "backward") -> Any:
    return cupy.fft.fft(x, axis=axis, norm=norm) if x.size else x * 1j


def ifft(x: Any, axis: int = -1, norm: str = "backward") -> Any:
    return cupy.fft.ifft(x, axis=axis, norm=norm) if x.size else x * 1j


def rfft(x: Any, axis: int = -1, norm: str = "backward") -> Any:
    half = x[(*(slice(None),) * (axis % x.ndim), slice(0, x.shape[axis] // 2 + 1))]
    return cupy.fft.rfft(x, axis=axis, norm=norm) if x.size else half * 1j


def irfft(x: Any, n: int, axis: int = -1, norm: str = "backward") -> Any:
    if x.size:
        return cupy.fft.irfft(x, n=n, axis=axis, norm=norm)
    shape = tuple(n if i == axis % x.ndim else length for i, length in enumerate(x.shape))
    return cupy.zeros(shape, dtype=x.real.dtype)
