"""Kernels of our own for the GPU, where they spare launches and passes over memory; the source is `kernels.cu`.

Each function does the same as a fast pair's lines on raw arrays, for contiguous float32 and float64 arrays (`fits`);
those lines serve all other arrays. The kernels are compiled, once for each dtype, when they are first used.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import cupy
import numpy as np

SOURCE = Path(__file__).with_name("kernels.cu").read_text(encoding="utf-8")

REALS = {np.dtype("float32"): "float", np.dtype("float64"): "double"}

MOST_THREADS = 256  # of a block; a row of few elements gets fewer
MOST_BLOCKS = 4096  # where a thread goes through many elements


def available() -> bool:
    """True if kernels can be compiled."""
    return hasattr(cupy, "RawModule")


def fits(*arrays: Any) -> bool:
    """True if kernels take these arrays: of one dtype they know, contiguous, not empty. None is passed over."""
    given = [a for a in arrays if a is not None]
    if not given or not available():
        return available()
    dtype = given[0].dtype
    return dtype in REALS and all(a.dtype == dtype and a.flags.c_contiguous and a.size for a in given)


def code(dtype: Any) -> str:
    """The source of all kernels for a dtype."""
    return f"typedef {REALS[np.dtype(dtype)]} real;\n{SOURCE}"


def softmax(x: Any) -> None:
    """Turn x into its softmax over the last axis, in place."""
    _over_rows("softmax", x.dtype, x.size // x.shape[-1], x.shape[-1], x, np.int32(x.shape[-1]))


def softmax_gradient(g: Any, out: Any) -> None:
    """Turn the gradient of a softmax into that of its input, in place."""
    _over_rows("softmax_gradient", g.dtype, g.size // g.shape[-1], g.shape[-1], g, out, np.int32(g.shape[-1]))


def layer_norm(rows: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """The result, the rows with mean 0 and variance 1, and the factor that each row (n, 1) was scaled by."""
    count, columns = rows.shape
    out, normal, scale = cupy.empty_like(rows), cupy.empty_like(rows), cupy.empty((count, 1), dtype=rows.dtype)
    flags = np.int32(weight is not None), np.int32(bias is not None)
    given = (rows, _or(weight, rows), _or(bias, rows), out, normal, scale)
    _over_rows("layer_norm", rows.dtype, count, columns, *given, np.int32(columns), *flags, rows.dtype.type(eps))
    return out, normal, scale


def layer_norm_gradient(g: Any, normal: Any, scale: Any, weight: Any) -> tuple[Any, Any, Any]:
    """The gradients for the rows, for the weight and for the bias."""
    count, columns = normal.shape
    g_x = cupy.empty_like(normal)
    given = (g, normal, scale, _or(weight, normal), g_x, np.int32(columns), np.int32(weight is not None))
    _over_rows("layer_norm_gradient", g.dtype, count, columns, *given)
    return g_x, sum_of_rows(g, normal), sum_of_rows(g)


def sum_of_rows(x: Any, y: Any = None) -> Any:
    """The sum of the rows of x (rows, columns), or of x * y, added up in float64."""
    rows, columns = x.shape
    some = math.isqrt(rows)  # so that neither kernel's threads add up many
    count = -(-rows // some)
    sums, out = cupy.empty((count, columns), dtype=np.float64), cupy.empty(columns, dtype=x.dtype)
    sizes = np.int64(rows), np.int64(columns), np.int64(some)
    _everywhere("sums_of_some_rows", x.dtype, sums.size, x, np.uint64(0) if y is None else y, sums, *sizes)
    _everywhere("sum_of_sums", x.dtype, columns, sums, out, np.int32(count), np.int64(columns))
    return out


def cross_entropy(logits: Any, target: Any, weight: Any, smoothed: bool) -> tuple[Any, Any, Any, Any]:
    """For each row: the largest logit, and relative to it the sum of exponentials, the target's logit, their sum.

    The last, times `weight` where there is one, only where the loss is `smoothed`.
    """
    count, columns = logits.shape
    found = tuple(cupy.empty(count, dtype=logits.dtype) for _ in range(4))
    flags = np.int32(columns), np.int32(weight is not None), np.int32(smoothed)
    _over_rows("cross_entropy", logits.dtype, count, columns, logits, target, _or(weight, logits), *found, *flags)
    return found


def cross_entropy_gradient(
    logits: Any, target: Any, weight: Any, shift: Any, factor: Any, spread: Any, hit: Any
) -> Any:
    """exp(logits - shift) * factor - spread * weight, less `hit` at the target."""
    count, columns = logits.shape
    gradient = cupy.empty_like(logits)
    given = (logits, target, _or(weight, logits), shift, factor, spread, hit, gradient)
    flags = np.int32(columns), np.int32(weight is not None)
    _over_rows("cross_entropy_gradient", logits.dtype, count, columns, *given, *flags)
    return gradient


def bernoulli(p: float, shape: tuple[int, ...], seed: Any) -> Any:
    """Booleans that are true with probability p (to 32 bits), from a seed of 64 bits: an int, or an array of one."""
    out = cupy.empty(shape, dtype=np.bool_)
    below = np.uint64(round(p * 2**32))
    given = (np.uint64(seed), np.uint64(0)) if isinstance(seed, int) else (np.uint64(0), seed)
    _everywhere("bernoulli", np.float32, -(-out.size // 4), out, np.int64(out.size), *given, below)
    return out


def drop(x: Any, keep: Any, scale: float, out: Any) -> None:
    """Write x * keep * scale into `out`, which may be x."""
    _everywhere("drop", x.dtype, x.size, x, keep, out, np.int64(x.size), x.dtype.type(scale))


def relu_gradient(g: Any, out: Any) -> Any:
    """g where the result was positive, else 0."""
    gradient = cupy.empty_like(g)
    _everywhere("relu_gradient", g.dtype, g.size, g, out, gradient, np.int64(g.size))
    return gradient


def adam(parameters: list[tuple[Any, Any, Any, Any]], scalars: tuple[float, ...]) -> None:
    """One step for all parameters, each given as theta, g, m and v; `scalars` are those of the kernel, in its order."""
    dtype = parameters[0][0].dtype
    count, *table = _table(parameters)
    _everywhere("adam", dtype, count, *table, *(dtype.type(value) for value in scalars))


def sum_of_squares(arrays: list[Any]) -> Any:
    """The sum of the squares of all elements, in float64: an array of no dimensions."""
    count, *table = _table([(array,) for array in arrays])
    sums = cupy.empty(_blocks(count), dtype=np.float64)
    _everywhere("sum_of_squares", arrays[0].dtype, count, *table, sums)
    return sums.sum()


def scale_all(arrays: list[Any], factor: Any) -> None:
    """Multiply all elements by a factor: a number, or an array of no dimensions."""
    count, *table = _table([(array,) for array in arrays])
    _everywhere("scale_all", arrays[0].dtype, count, *table, cupy.asarray(factor, dtype=arrays[0].dtype))


def _table(rows: list[tuple[Any, ...]]) -> tuple[int, Any, Any, np.int32]:
    """How many elements the first arrays of all rows have, and what kernels over many arrays are given."""
    addresses = [array.data.ptr for row in rows for array in row]
    ends = np.cumsum([row[0].size for row in rows], dtype=np.int64)
    table = cupy.asarray(np.concatenate([np.array(addresses, dtype=np.int64), ends]))
    return int(ends[-1]), table, table[len(addresses) :], np.int32(len(rows))


def look_for_outside(ids: Any, length: int, found: Any) -> None:
    """Write 1 and an id into `found` (2,), int64, if any of the ids, int64, is not from 0 to length - 1."""
    _everywhere("look_for_outside", np.float32, ids.size, ids, np.int64(ids.size), np.int64(length), found)


def _or(array: Any, other: Any) -> Any:
    """The array, or where there is none any address: a flag says that it is not read."""
    return other if array is None else array


def _over_rows(name: str, dtype: Any, rows: int, columns: int, *arguments: Any) -> None:
    """Launch a block for each row."""
    threads = min(MOST_THREADS, -(-columns // 32) * 32)
    _kernel(name, np.dtype(dtype))((rows,), (threads,), arguments)


def _everywhere(name: str, dtype: Any, count: int, *arguments: Any) -> None:
    """Launch threads for so many elements."""
    _kernel(name, np.dtype(dtype))((_blocks(count),), (MOST_THREADS,), arguments)


def _blocks(count: int) -> int:
    return min(MOST_BLOCKS, -(-count // MOST_THREADS))


@functools.cache
def _kernel(name: str, dtype: Any) -> Any:
    """A kernel, on any device; CuPy would make it anew and ask the driver for it whenever it is asked."""
    return _module(dtype).get_function(name)


@functools.cache
def _module(dtype: Any) -> Any:
    return cupy.RawModule(code=code(dtype), options=("--std=c++17",))
