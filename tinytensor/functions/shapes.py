"""Functions that move elements and do not change them: shapes, axes, joins, copies in another dtype or device.

Each one's gradient moves the elements back.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, Never, SupportsIndex

import tinytensor as tt

from .. import backend, dtypes
from ..in_place import read_only
from ..modes import state
from ..node import Node
from ..primitive import op
from ..tensor import Tensor, shares, wrap
from ..typing import ArrayLike, Axis, Device, DType
from .reductions import normalize_axes, normalize_axis


@op(x=lambda xp, g: g)
def _astype(xp, x, *, dtype):
    return x.astype(dtype)


def astype(x: ArrayLike, dtype: DType, /, *, copy: bool = True, device: Device = None) -> Tensor:
    """x in another dtype. Between floating dtypes gradients flow; `copy=False` gives x itself if nothing changes."""
    x = tt.asarray(x)
    dtype = dtypes.as_dtype(dtype)
    if device is not None:
        x = to_device(x, device)
    if x.dtype == dtype and not copy:
        return x
    if x.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(f"astype: {x.dtype} to {dtype} would drop the imaginary part; use tt.real or tt.abs")
    return _astype(x, dtype=dtype)


def _move_back(xp, g, origin):
    """g, on the device of the input."""
    return to_device(g, origin) if isinstance(g, Tensor) else to_device(wrap(g, None), origin)._data


@op(x=_move_back)
def _to_device(xp, x, *, origin):
    return xp.copy(x)


def to_device(x: ArrayLike, device: str) -> Tensor:
    """x on a device; x itself if it is there. Gradients flow back to the device they came from."""
    x = tt.asarray(x)
    target = backend.for_device(device)
    if x.device == device:
        return x
    moved = wrap(target.from_numpy(x._to_numpy()), None)
    if x._node is not None and state.grad_enabled:  # recorded by hand: no other op has two devices
        call: tuple[Any, ...] = _to_device.op, (x._node,), {}, {"origin": x.device}, moved._data
        moved._node = Node(*call) if state.observer is None else state.observer(*call, [x._data])
    return moved


@op(x=lambda xp, g, shape: xp.reshape(g, shape))
def _reshape(xp, x, *, to):
    return x.reshape(to)


def reshape(x: ArrayLike, /, shape: int | Sequence[SupportsIndex], *, copy: bool | None = None) -> Tensor:
    """The elements of x in another shape, in row-major order; one length may be -1."""
    x = x if isinstance(x, Tensor) else tt.asarray(x)
    to = shape if type(shape) is tuple else (shape,) if isinstance(shape, int) else tuple(map(index, shape))
    if to and min(to) < -1:
        raise ValueError(f"reshape: {to} is no shape; lengths are 0 or more, and one may be -1")
    x = tt.positive(x) if copy else x
    return shares(_reshape(x, to=to), x)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    turned = [0] * len(axes)
    for place, axis in enumerate(axes):
        turned[axis] = place
    return tuple(turned)


@op(x=lambda xp, g, axes: xp.permute_dims(g, _inverse(axes)))
def _permute_dims(xp, x, *, axes):
    return xp.permute_dims(x, axes)


def permute_dims(x: ArrayLike, /, axes: Sequence[int]) -> Tensor:
    """x with its dimensions in the order `axes`."""
    x = tt.asarray(x)
    axes = tuple(int(i) for i in axes)
    if sorted(i % x.ndim if -x.ndim <= i < x.ndim else -1 for i in axes) != list(range(x.ndim)):
        raise ValueError(f"permute_dims: axes {axes} is no order of the {x.ndim} dimensions of {x.shape}")
    return shares(_permute_dims(x, axes=tuple(i % x.ndim for i in axes)), x)


def transpose(x: ArrayLike, /, axis1: int, axis2: int) -> Tensor:
    """x with two dimensions swapped."""
    x = tt.asarray(x)
    axes = list(range(x.ndim))
    i = normalize_axis("transpose", axis1, x.shape, "axis1")
    j = normalize_axis("transpose", axis2, x.shape, "axis2")
    axes[i], axes[j] = j, i
    return shares(_permute_dims(x, axes=tuple(axes)), x)


@op(x=lambda xp, g: xp.matrix_transpose(g))
def _matrix_transpose(xp, x):
    return xp.matrix_transpose(x)


def matrix_transpose(x: ArrayLike, /) -> Tensor:
    """x with its last two dimensions swapped."""
    x = tt.asarray(x)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected at least 2 dimensions, got shape {x.shape}")
    return shares(_matrix_transpose(x), x)


def moveaxis(x: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """x with the dimensions `source` moved to the places `destination`; the others keep their order."""
    x = tt.asarray(x)
    sources = (source,) if isinstance(source, int) else tuple(source)
    destinations = (destination,) if isinstance(destination, int) else tuple(destination)
    normalize_axes("moveaxis", sources, x.shape, "source")
    normalize_axes("moveaxis", destinations, x.shape, "destination")
    if len(sources) != len(destinations):
        raise ValueError(f"moveaxis: {len(sources)} sources but {len(destinations)} destinations")
    sources = tuple(i % x.ndim for i in sources)
    order = [i for i in range(x.ndim) if i not in sources]
    for to, axis in sorted((d % x.ndim, s) for s, d in zip(sources, destinations)):
        order.insert(to, axis)
    return permute_dims(x, order)


@op(x=lambda xp, g, shape: xp.reshape(g, shape))
def _expand_dims(xp, x, *, axis):
    return xp.expand_dims(x, axis=axis)


def expand_dims(x: ArrayLike, /, axis: int | tuple[int, ...] = 0, **unknown: Never) -> Tensor:
    """x with a dimension of length 1 put in at `axis`, or at several, which count in the result."""
    x = tt.asarray(x)
    if isinstance(axis, tuple):
        return _expanded(x, axis, unknown)
    return shares(_expand_dims(x, axis=normalize_axis("expand_dims", axis, x.shape, room=1, unknown=unknown)), x)


def _expanded(x: Tensor, axes: tuple[int, ...], unknown: Any) -> Tensor:
    places = sorted(normalize_axis("expand_dims", i, x.shape, room=len(axes), unknown=unknown) for i in axes)
    if len(set(places)) != len(places):
        raise ValueError(f"expand_dims: axis {axes} names a dimension twice, of a Tensor of shape {x.shape}")
    for place in places:
        x = expand_dims(x, axis=place)
    return x


def flatten(x: ArrayLike, /, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """x with its dimensions from start_dim to end_dim as one, in row-major order; a number becomes a vector of one."""
    x = tt.asarray(x)
    if not x.ndim:
        return reshape(x, (1,))
    first = normalize_axis("flatten", start_dim, x.shape, "start_dim")
    last = normalize_axis("flatten", end_dim, x.shape, "end_dim")
    if first > last:
        raise ValueError(f"flatten: start_dim {start_dim} is behind end_dim {end_dim} in a Tensor of shape {x.shape}")
    return reshape(x, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


def unsqueeze(x: ArrayLike, /, axis: int) -> Tensor:
    """`expand_dims` under PyTorch's name."""
    x = tt.asarray(x)
    return shares(_expand_dims(x, axis=normalize_axis("unsqueeze", axis, x.shape, room=1)), x)


@op(x=lambda xp, g, shape: xp.reshape(g, shape))
def _squeeze(xp, x, *, axis):
    return xp.squeeze(x, axis=axis)


def squeeze(x: ArrayLike, /, axis: Axis, **unknown: Never) -> Tensor:
    """x without the dimensions `axis`, which must have length 1."""
    x = tt.asarray(x)
    axes = normalize_axes("squeeze", axis, x.shape, unknown=unknown)
    for i in axes:
        if x.shape[i] != 1:
            raise ValueError(f"squeeze: dimension {i} of shape {x.shape} has length {x.shape[i]}, not 1")
    return shares(_squeeze(x, axis=axes), x)


@op(x=lambda xp, g: g)
def _broadcast_to(xp, x, *, to):
    return xp.broadcast_to(x, to)


def broadcast_to(x: ArrayLike, /, shape: Sequence[int]) -> Tensor:
    """x repeated along new dimensions and along those of length 1, without a copy."""
    x = tt.asarray(x)
    return read_only(shares(_broadcast_to(x, to=tuple(shape)), x))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to."""
    result: list[int] = []
    for lengths in itertools.zip_longest(*(tuple(s)[::-1] for s in shapes), fillvalue=1):
        longer = {n for n in lengths if n != 1}
        if len(longer) > 1:
            raise ValueError(f"broadcast: shapes {', '.join(str(tuple(s)) for s in shapes)} do not fit together")
        result.append(longer.pop() if longer else 1)
    return tuple(result[::-1])


def broadcast_arrays(*arrays: ArrayLike) -> tuple[Tensor, ...]:
    """The arrays, broadcast against each other."""
    tensors = [tt.asarray(a) for a in arrays]
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(broadcast_to(t, shape) for t in tensors)


@op(arrays=lambda xp, g, index, axis, ends: g[(slice(None),) * axis + (slice(ends[index], ends[index + 1]),)])
def _concat(xp, *arrays, axis, ends):
    return xp.concat(arrays, axis=axis)


def concat(arrays: Iterable[ArrayLike], /, axis: int | None = 0, **unknown: Never) -> Tensor:
    """The arrays one after the other along an existing axis; `axis=None` flattens them first."""
    tensors = [tt.asarray(a) for a in arrays]
    if not tensors:
        raise ValueError("concat: expected at least one array, got none")
    if axis is None:
        tensors, axis = [reshape(t, (-1,)) for t in tensors], 0
    first = tensors[0]
    axis = normalize_axis("concat", axis, first.shape, unknown=unknown)
    for t in tensors:
        if t.ndim != first.ndim or any(n != m for i, (n, m) in enumerate(zip(t.shape, first.shape)) if i != axis):
            raise ValueError(f"concat: shapes {_some_shapes(tensors, t)} must agree in every dimension but {axis}")
    ends = (0, *itertools.accumulate(t.shape[axis] for t in tensors))
    return _concat(*tensors, axis=axis, ends=ends)


def stack(arrays: Iterable[ArrayLike], /, axis: int = 0, **unknown: Never) -> Tensor:
    """The arrays, of one shape, along a new axis."""
    tensors = [tt.asarray(a) for a in arrays]
    if not tensors:
        raise ValueError("stack: expected at least one array, got none")
    for t in tensors:
        if t.shape != tensors[0].shape:
            raise ValueError(f"stack: shapes {_some_shapes(tensors, t)} must all be equal")
    axis = normalize_axis("stack", axis, tensors[0].shape, room=1, unknown=unknown)
    return concat([expand_dims(t, axis=axis) for t in tensors], axis=axis)


def _some_shapes(tensors: list[Tensor], odd: Tensor) -> str:
    """The shapes of a few Tensors, or of many the first and that of the odd one."""
    if len(tensors) <= 8:
        return ", ".join(str(t.shape) for t in tensors)
    place = next(i for i, t in enumerate(tensors) if t is odd)
    return f"{tensors[0].shape}, ... of {len(tensors)} arrays, with {odd.shape} at {place},"


def unstack(x: ArrayLike, /, *, axis: int = 0, **unknown: Never) -> tuple[Tensor, ...]:
    """The slices of x along `axis`."""
    x = tt.asarray(x)
    axis = normalize_axis("unstack", axis, x.shape, unknown=unknown)
    return tuple(x[(slice(None),) * axis + (i,)] for i in range(x.shape[axis]))


def split(
    x: ArrayLike, sections: int | Sequence[int], /, *more: Never, axis: int = 0, **unknown: Never
) -> tuple[Tensor, ...]:
    """x in equal parts (`sections` an integer), or in parts of the given lengths, along `axis`."""
    x = tt.asarray(x)
    axis = normalize_axis("split", axis, x.shape, unknown={"more": more} if more else unknown)
    length = x.shape[axis]
    if isinstance(sections, int):
        if sections < 1 or length % sections:
            raise ValueError(f"split: length {length} of {x.shape} does not divide into {sections} equal parts")
        sections = (length // sections,) * sections
    if sum(sections) != length:
        raise ValueError(f"split: parts {tuple(sections)} do not add up to length {length} of {x.shape}")
    ends = (0, *itertools.accumulate(sections))
    return tuple(x[(slice(None),) * axis + (slice(a, b),)] for a, b in itertools.pairwise(ends))


@op(x=lambda xp, g, axis: xp.flip(g, axis=axis))
def _flip(xp, x, *, axis):
    return xp.copy(xp.flip(x, axis=axis))


def flip(x: ArrayLike, /, axis: Axis = None, **unknown: Never) -> Tensor:
    """x with the elements along `axis` in reverse order."""
    x = tt.asarray(x)
    return _flip(x, axis=normalize_axes("flip", axis, x.shape, unknown=unknown))


def _roll_back(shift: Any) -> Any:
    return tuple(-s for s in shift) if isinstance(shift, tuple) else -shift


@op(x=lambda xp, g, shift, axis: xp.roll(g, _roll_back(shift), axis=axis))
def _roll(xp, x, *, shift, axis):
    return xp.roll(x, shift, axis=axis)


def roll(x: ArrayLike, /, shift: int | tuple[int, ...] | list[int], axis: Axis = None, **unknown: Never) -> Tensor:
    """x with the elements along `axis` shifted; those that leave at one end come in at the other."""
    x = tt.asarray(x)
    shift = tuple(shift) if isinstance(shift, (tuple, list)) else int(shift)
    axis = tuple(axis) if isinstance(axis, list) else axis
    if axis is not None or unknown:
        normalize_axes("roll", axis, x.shape, unknown=unknown)
    return _roll(x, shift=shift, axis=axis)


@op(x=lambda xp, g, shape, repetitions: _untile(xp, g, shape, repetitions))
def _tile(xp, x, *, repetitions):
    return xp.tile(x, repetitions)


def _untile(xp, g, shape, repetitions):
    """The sum of g over the repetitions."""
    ndim = max(len(shape), len(repetitions))
    times = (1,) * (ndim - len(repetitions)) + repetitions
    lengths = (1,) * (ndim - len(shape)) + tuple(shape)
    pairs = xp.reshape(g, tuple(n for pair in zip(times, lengths) for n in pair))
    return xp.reshape(xp.sum(pairs, axis=tuple(range(0, 2 * ndim, 2))), shape)


def tile(x: ArrayLike, repetitions: int | Sequence[int], /) -> Tensor:
    """x repeated as a whole, `repetitions[i]` times along dimension i."""
    x = tt.asarray(x)
    times = (repetitions,) if isinstance(repetitions, int) else tuple(int(n) for n in repetitions)
    return _tile(x, repetitions=times)


def repeat(x: ArrayLike, repeats: int | ArrayLike, /, *, axis: int | None = None, **unknown: Never) -> Tensor:
    """Each element of x repeated in place, along `axis`; `repeats` is a number, or one for each element."""
    x = tt.asarray(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis("repeat", axis, x.shape, unknown=unknown)
    length = x.shape[axis]
    counts = [repeats] * length if isinstance(repeats, int) else [int(n) for n in tt.asarray(repeats).numpy().ravel()]
    if len(counts) == 1:
        counts = counts * length
    if len(counts) != length or any(n < 0 for n in counts):
        raise ValueError(f"repeat: expected a count of 0 or more for each of {length} elements, got {counts}")
    indices = [i for i, n in enumerate(counts) for _ in range(n)]
    return tt.take(x, tt.asarray(indices, dtype=dtypes.int64, device=x.device), axis=axis)


@op(x=lambda xp, g, k: xp.tril(g, k=k))
def _tril(xp, x, *, k):
    return xp.tril(x, k=k)


def tril(x: ArrayLike, /, k: int = 0, **unknown: Never) -> Tensor:
    """x with zeros above the k-th diagonal of its last two dimensions."""
    return _tril(as_matrix("tril", x), k=k, **unknown)


@op(x=lambda xp, g, k: xp.triu(g, k=k))
def _triu(xp, x, *, k):
    return xp.triu(x, k=k)


def triu(x: ArrayLike, /, k: int = 0, **unknown: Never) -> Tensor:
    """x with zeros below the k-th diagonal of its last two dimensions."""
    return _triu(as_matrix("triu", x), k=k, **unknown)


def as_matrix(name: str, x: ArrayLike) -> Tensor:
    """x as a Tensor of matrices; ValueError where it has fewer than 2 dimensions."""
    x = tt.asarray(x)
    if x.ndim < 2:
        raise ValueError(f"{name}: expected at least 2 dimensions, got shape {x.shape}")
    return x
