"""Which op of ONNX computes the same as one of ours: one table of all ops, those of layers among them.

A fused op that is not here goes by its formula, and a pure one by its forward function on Tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import tinytensor as tt


class Value(NamedTuple):
    """An array in the file; `shape` is the recorded one, of which lengths may be free."""

    name: str
    dtype: Any
    shape: tuple[int, ...] = ()


LACKING: dict[str, str] = {
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), "ONNX shifts unsigned integers alone"),
    **dict.fromkeys(("cholesky", "inv", "logabsdet", "signdet", "solve"), "ONNX solves no linear equations"),
    **dict.fromkeys(("eig", "eigh", "pinv", "qr", "svd"), "ONNX has no decompositions of matrices"),
    **dict.fromkeys(("fft", "ifft", "imag", "irfft", "rfft"), "ONNX's ops take no complex numbers"),
    **dict.fromkeys(("cumulative_prod", "nextafter"), "ONNX has no such op"),
    **dict.fromkeys(("digamma", "erfc", "erfinv", "gammaln", "polygamma"), "ONNX has no such function"),
    "dropout": "it draws random numbers; use the module's evaluation mode, or training=False",
}
GRADIENTS_ONLY = ("ends", "origin", "padding_idx", "wins")
"""Parameters that change no result."""


# ---- by other ops of ours


def _roll(x: Any, *, shift: Any, axis: Any) -> Any:
    if axis is None:
        return tt.reshape(_roll(tt.reshape(x, (-1,)), shift=shift, axis=0), x.shape)
    for number, i in zip(*(v if isinstance(v, tuple) else (v,) for v in (shift, axis))):
        x = tt.take(x, (tt.arange(x.shape[i]) - number) % x.shape[i], axis=i)
    return x


def _atan2(x1: Any, x2: Any) -> Any:
    both = tt.isinf(x1) & tt.isinf(x2)
    y, x = tt.where(both, tt.sign(x1), x1), tt.where(both, tt.sign(x2), x2)
    return tt.where(tt.signbit(x), tt.copysign(math.pi, y), 0.0) + tt.where(y == 0, 0.0, tt.atan(y / (x + 0.0)))


def _hypot(x1: Any, x2: Any) -> Any:
    """By the larger one, so that no square overflows."""
    most = tt.maximum(tt.abs(x1), tt.abs(x2))
    scale = tt.where((most == 0) | tt.isinf(most), 1.0, most)
    return scale * tt.sqrt((x1 / scale) ** 2 + (x2 / scale) ** 2)


FORMULAS: dict[str, Callable[..., Any]] = {
    "atan2": _atan2,
    "copysign": lambda x1, x2: tt.where(tt.signbit(x2), -tt.abs(x1), tt.abs(x1)),
    "exp2": lambda x: tt.pow(2.0, x),
    "expm1": lambda x: tt.where(tt.abs(x) < 1, 2 / (1 / tt.tanh(x / 2) - 1), tt.exp(x) - 1),  # with all digits near 0
    "flip": lambda x, *, axis: x[tuple(slice(None, None, -1 if i in axis else 1) for i in range(x.ndim))],
    "fmax": lambda x1, x2: tt.where(tt.isnan(x1), x2, tt.where(tt.isnan(x2), x1, tt.maximum(x1, x2))),
    "fmin": lambda x1, x2: tt.where(tt.isnan(x1), x2, tt.where(tt.isnan(x2), x1, tt.minimum(x1, x2))),
    "hypot": _hypot,
    "isfinite": lambda x: x * 0 == 0,
    "isin": lambda x1, x2, *, invert: tt.any(x1[..., None] == tt.reshape(x2, (-1,)), axis=-1) != invert,
    "log10": lambda x: tt.log(x) / math.log(10),
    "log1p": lambda x: tt.where(tt.abs(x) < 0.5, 2 * tt.atanh(x / (2 + x)), tt.log(1 + x)),
    "log2": lambda x: tt.log(x) / math.log(2),
    "logaddexp": lambda x1, x2: tt.where(
        x1 == x2, x1 + math.log(2), tt.maximum(x1, x2) + tt.log1p(tt.exp(-tt.abs(x1 - x2)))
    ),
    "not_equal": lambda x1, x2: ~(x1 == x2),
    "roll": _roll,
    "signbit": lambda x: (x < 0) | ((x == 0) & (1 / x < 0)),
    "sinc": lambda x: tt.where(x == 0, 1.0, tt.sin(math.pi * x) / (math.pi * x)),
    "square": lambda x: x * x,
    "trunc": lambda x: tt.where(x < 0, tt.ceil(x), tt.floor(x)),
    "xlogy": lambda x, y: tt.where((x == 0) & ~tt.isnan(y), 0.0, x * tt.log(y)),
}


# ---- by ops of ONNX

DIRECT = """
    abs Abs, acos Acos, acosh Acosh, add Add b:Or, asin Asin, asinh Asinh, astype Cast to=dtype, atan Atan, atanh Atanh,
    bitwise_and BitwiseAnd b:And, bitwise_invert BitwiseNot b:Not, bitwise_or BitwiseOr b:Or,
    bitwise_xor BitwiseXor b:Xor, broadcast_to Expand [to], ceil Ceil iu:Identity, concat Concat axis=axis,
    conj Identity, cos Cos, cosh Cosh, det Det, divide Div, einsum Einsum equation=subscripts, equal Equal, erf Erf,
    exp Exp, expand_dims Unsqueeze [axis], floor Floor iu:Identity, gelu Gelu, greater Greater,
    greater_equal GreaterOrEqual, isinf IsInf, isnan IsNaN, less Less, less_equal LessOrEqual, log Log,
    log_softmax LogSoftmax axis=axis, logical_and And, logical_not Not, logical_or Or, logical_xor Xor, matmul MatMul,
    maximum Max b:Or, minimum Min b:And, multiply Mul b:And, negative Neg, permute_dims Transpose perm=axes,
    positive Identity, pow Pow, real Identity, reciprocal Reciprocal, relu Relu, sigmoid Sigmoid,
    sign Sign, sin Sin, sinh Sinh, softplus Softplus, sqrt Sqrt, squeeze Squeeze [axis], subtract Sub, tan Tan,
    tanh Tanh, to_device Identity
"""
"""For each op that of ONNX, then that for other kinds of numbers, and parameters as attributes or [as vectors]."""


def _direct(words: list[str], w: Any, *x: Value, **params: Any) -> Any:
    if words[0] in ("And", "Not", "Or", "Xor"):
        x = tuple([w.cast(y, bool) for y in x])
    for kinds, _, name in (word.partition(":") for word in words[1:] if ":" in word):
        words = [name] if x[0].dtype.kind in kinds else words
    vectors = [w.ints(params[word[1:-1]]) for word in words if word[0] == "["]
    return w(words[0], *x, *vectors, **{k: params[v] for k, _, v in (word.partition("=") for word in words) if v})


def _reduction(name: str, w: Any, x: Value, *, axis: Any, keepdims: bool = False, dtype: Any = None) -> Any:
    within = dtype or (np.int32 if x.dtype.kind == "b" else x.dtype)
    axes = w.ints(range(len(x.shape)) if axis is None else axis)
    return w.cast(
        w(name, w.cast(x, within), axes, keepdims=int(keepdims), noop_with_empty_axes=1), dtype or x.dtype, within
    )


def _truth(name: str, w: Any, x: Value, **params: Any) -> Any:
    return _reduction(name, w, w.cast(x, bool), **params)


def _extremum(name: str, w: Any, x: Value, *, axis: Any, keepdims: bool = False) -> Any:
    """The largest or the smallest; NaN is both, which ONNX Runtime skips, here and in `_position` and `_max_pool`."""
    y = _reduction(name, w, x, axis=axis, keepdims=keepdims)
    if x.dtype.kind != "f":
        return y
    return w("Where", _truth("ReduceMax", w, _nans(w, x), axis=axis, keepdims=keepdims), w.number(np.nan, x.dtype), y)


def _nans(w: Any, x: Value) -> Value:
    return Value(w("IsNaN", x), np.dtype(bool), x.shape)


def _position(name: str, w: Any, x: Value, *, axis: int | None) -> Any:
    if x.dtype.kind == "f":
        nans = _nans(w, x)
        ones = w("Mul", w.cast(nans, x.dtype), w.number(1 if name == "ArgMax" else -1, x.dtype))
        x = w("Where", _truth("ReduceMax", w, nans, axis=axis, keepdims=True), ones, x)
    return w(name, w("Reshape", x, w.ints(-1)) if axis is None else x, axis=axis or 0, keepdims=0)


def _argsort(w: Any, x: Value, *, axis: int, descending: bool) -> Any:
    return w("TopK", x, w.sizes(x, axis, axis + 1), axis=axis, largest=int(descending), outputs=2)[1]


def _round(w: Any, x: Value, *, decimals: int) -> Any:
    scale = w.number(10.0**decimals, x.dtype)
    return w("Div", w("Round", w("Mul", x, scale)), scale) if x.dtype.kind == "f" else x


def _remainder(w: Any, x: Value, y: Value) -> Any:
    rest, zero = w("Mod", x, y, fmod=int(x.dtype.kind == "f")), w.number(0, x.dtype)
    odd = w("And", w("Xor", w("Less", rest, zero), w("Less", y, zero)), w("Not", w("Equal", rest, zero)))
    return w("Where", odd, w("Add", rest, y), rest)  # C's remainder of floats has the sign of x, ours that of y


def _floor_divide(w: Any, x: Value, y: Value) -> Any:
    if x.dtype.kind != "f":
        return w("Div", w("Sub", x, _remainder(w, x, y)), y)
    least, most = (w.number(x, y.dtype) for x in (np.finfo(y.dtype).min, np.finfo(y.dtype).max))
    finite = y._replace(name=w("Clip", y, least, most))
    quotient = w("Round", w("Div", w("Sub", x, _remainder(w, x, finite)), finite))
    return w("Where", w("Equal", y, w.number(0, y.dtype)), w("Div", x, y), quotient)


def _softmax(w: Any, x: Value, *, axis: int) -> Any:
    most = _extremum("ReduceMax", w, x, axis=axis, keepdims=True)
    nothing = w("IsInf", most, detect_positive=0)  # a row of -inf alone, which gives zeros
    return w("Where", nothing, w.number(0, x.dtype), w("Softmax", x, axis=axis))


def _normalisation(name: str, w: Any, x: Value, weight: Any, *bias: Any, eps: float, axes: Any = (-1,)) -> Any:
    weight = weight or w("Expand", w.number(1, x.dtype), w("Shape", x, start=axes[0]))
    return w(name, x, weight, *bias, axis=axes[0], epsilon=eps, stash_type=np.promote_types(x.dtype, np.float32))


def _convolution(w: Any, *x: Any, groups: int, **sizes: Any) -> Any:
    return w("Conv", *x, group=groups, kernel_shape=x[1].shape[2:], **_windows(**sizes))


def _max_pool(w: Any, x: Value, *, kernel: tuple[int, ...], **sizes: Any) -> Any:
    alone = len(x.shape) == len(kernel) + 1  # without a batch
    x = x._replace(name=w("Unsqueeze", x, w.ints(0))) if alone else x
    parts = x, w.cast(_nans(w, x), x.dtype)
    y, nans = (w("MaxPool", part, kernel_shape=kernel, **_windows(**sizes)) for part in parts)
    y = w("Where", w("LessOrEqual", y, w.number(np.finfo(x.dtype).min, x.dtype)), w.number(-np.inf, x.dtype), y)
    y = w("Where", w("Greater", nans, w.number(0, x.dtype)), w.number(np.nan, x.dtype), y)
    return w("Squeeze", y, w.ints(0)) if alone else y


def _windows(stride: Any, dilation: Any, around: Any) -> dict[str, Any]:
    return {"strides": stride, "dilations": dilation, "pads": [n for ends in zip(*around) for n in ends]}


def _recurrent(w: Any, *given: Any, reverse: bool, **params: Any) -> Any:
    """A loop whose body is the op's own formula on one step."""
    op = w.call.op
    *last, states = w.scan(lambda *step: op.function(*step, reverse=False, **params), given, reverse)
    return w("Concat", states, w("Unsqueeze", last[1], w.ints(0)), axis=0) if len(last) == 2 else states


def _tile(w: Any, x: Value, *, repetitions: tuple[int, ...]) -> Any:
    more = len(repetitions) - len(x.shape)
    return w("Tile", w("Unsqueeze", x, w.ints(range(more))), w.ints((*[1] * -more, *repetitions)))


# ---- reading and writing at a key


def _ends(axis: int, part: slice) -> tuple[Any, ...]:
    step, most = part.step or 1, np.iinfo(np.int64).max
    first, last = (0, most) if step > 0 else (most, -most)
    return first if part.start is None else part.start, last if part.stop is None else part.stop, axis, step


def _getitem(w: Any, x: Value, *, key: tuple[Any, ...]) -> Any:
    parts: list[Any] = []
    for part in key:
        is_mask = isinstance(part, Value) and part.dtype.kind == "b"  # that is the indices of its places, axis by axis
        rows = [w("Gather", w("NonZero", part), w.number(i)) for i in range(len(part.shape))] if is_mask else []
        parts += [Value(row, np.dtype(np.int64), (0,)) for row in rows] or [part]
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    parts[at : at + 1] = [slice(None)] * (len(x.shape) - sum(p is not None and p is not Ellipsis for p in parts))
    new = [i for i, part in enumerate(parts) if part is None]
    parts = [slice(None) if part is None else part for part in parts]
    y: Any = w("Unsqueeze", x, w.ints(new)) if new else x
    ends = [_ends(i, part) for i, part in enumerate(parts) if isinstance(part, slice) and part != slice(None)]
    y = w("Slice", y, *map(w.ints, zip(*ends))) if ends else y
    taken = [i for i, part in enumerate(parts) if not isinstance(part, slice)]
    arrays = [i for i in taken if isinstance(parts[i], Value)]
    if arrays and taken[-1] - taken[0] >= len(taken):
        raise w.lacking("there is a slice between indices")
    for i in [i for i in taken if i not in arrays][::-1]:
        y = w("Gather", y, w.number(parts[i]), axis=i)
    if not arrays:
        return y
    first, index = taken[0], w.cast(parts[arrays[0]], np.int64)
    if len(arrays) > 1:  # as one index of all these axes, which become one
        lengths = [w("Squeeze", w.sizes(y, i, i + 1)) for i in range(first, first + len(arrays))]
        index = w("Mod", index, lengths[0])
        for place, length in zip(arrays[1:], lengths[1:]):
            index = w("Add", w("Mul", index, length), w("Mod", w.cast(parts[place], np.int64), length))
        behind = w("Shape", y, start=first + len(arrays))
        y = w("Reshape", y, w("Concat", w.sizes(y, 0, first), w.ints(-1), behind, axis=0))
    return w("Gather", y, index, axis=first)


def _places(w: Any, shape: str, rank: int, key: Any) -> tuple[str, Any, Any]:
    """How many places an array of a shape has, the numbers of those that a key names, and these flat."""
    count = w("ReduceProd", shape, keepdims=0)
    every = w("Reshape", w("Range", w.number(0), count, w.number(1)), shape)
    places = _getitem(w, Value(every, np.dtype(np.int64), (0,) * rank), key=key)
    return count, places, w("Reshape", places, w.ints(-1))


def _scatter(w: Any, values: Value, *, key: Any, to: Any) -> Any:
    count, places, flat = _places(w, w.ints(to), len(to), key)
    zeros = w("Expand", w.number(0, values.dtype), w("Unsqueeze", count, w.ints(0)))
    updates = w("Reshape", w("Expand", values, w("Shape", places)), w.ints(-1))
    return w("Reshape", w("ScatterElements", zeros, flat, updates, reduction="add"), w.ints(to))


def _index_set(w: Any, x: Value, values: Value, *, key: Any) -> Any:
    """For each place a choice among the elements of x and, behind these, the values: the last that is written there."""
    count, places, flat = _places(w, w("Shape", x), len(x.shape), key)
    ends = count, w("Add", count, w("Size", flat))
    kept, written = (w("Range", *pair, w.number(1)) for pair in ((w.number(0), count), ends))
    choice = w("ScatterElements", kept, flat, written, reduction="max")
    both = [w("Reshape", y, w.ints(-1)) for y in (x, w("Expand", values, w("Shape", places)))]
    return w("Reshape", w("Gather", w("Concat", *both, axis=0), choice), w("Shape", x))


ROWS: dict[str, Callable[..., Any]] = {
    **{words[0]: partial(_direct, words[1:]) for words in map(str.split, DIRECT.split(","))},
    **{name: partial(_reduction, f"Reduce{name.title()}") for name in ("mean", "prod", "sum")},
    **{name: partial(_extremum, f"Reduce{name.title()}") for name in ("max", "min")},
    "all": partial(_truth, "ReduceMin"),
    "any": partial(_truth, "ReduceSum"),
    "argmax": partial(_position, "ArgMax"),
    "argmin": partial(_position, "ArgMin"),
    "argsort": _argsort,
    "convolution": _convolution,
    "cumulative_sum": lambda w, x, *, axis, dtype: w("CumSum", w.cast(x, dtype), w.number(axis)),
    "embedding": lambda w, weight, ids: w("Gather", weight, ids),
    "floor_divide": _floor_divide,
    "gelu_tanh": lambda w, x: w("Gelu", x, approximate="tanh"),
    "getitem": _getitem,
    "index_set": _index_set,
    "layer_norm": partial(_normalisation, "LayerNormalization"),
    "masked_fill": lambda w, x, mask, value: w("Where", mask, value, x),
    "matrix_transpose": lambda w, x: w(
        "Transpose", x, perm=[*range(len(x.shape))[:-2], -1 + len(x.shape), -2 + len(x.shape)]
    ),
    "max_pool": _max_pool,
    "remainder": _remainder,
    "reshape": lambda w, x, *, to: w("Reshape", x, w.ints(to), allowzero=int(0 in to)),
    "rms_norm": partial(_normalisation, "RMSNormalization"),
    "round": _round,
    "scatter": _scatter,
    "softmax": _softmax,
    "tile": _tile,
    "topk": lambda w, x, *, k, axis: w("TopK", x, w.ints([k]), axis=axis, outputs=2)[1],
    "tril": lambda w, x, *, k: w("Trilu", x, w.number(k), upper=0),
    "triu": lambda w, x, *, k: w("Trilu", x, w.number(k)),
    "where": lambda w, condition, x1, x2: w("Where", w.cast(condition, bool), x1, x2),
    **dict.fromkeys(("gru", "lstm", "rnn"), _recurrent),
}
