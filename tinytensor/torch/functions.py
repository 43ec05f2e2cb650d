"""Functions and methods that PyTorch spells or means otherwise. Each is PyTorch's of that name, over tinytensor's.

Those in `METHODS` are `torch.name(x, ...)` and `x.name(...)`, those in `FUNCTIONS` the first alone.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor.grad_mode import fusible
from tinytensor.nn import functional as F

from .creating import CREATING, NEW, _joined, made, randint
from .speaking import device as as_device
from .speaking import spelled


def _spread(name: str) -> Any:
    def spread(x: Any, dim: Any = None, unbiased: Any = True, keepdim: bool = False, *, correction: Any = None) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        correction = int(unbiased) if correction is None else correction
        return getattr(tt, name)(x, axis=dim, correction=correction, keepdims=keepdim)

    return spread


KINDS = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "LongTensor": "int64",
    "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8", "BoolTensor": "bool",
}  # fmt: skip
_to: Any = vars(tt.Tensor)["to"]
METHODS: dict[str, Any] = {
    # of elements
    "addcdiv": lambda x, tensor1, tensor2, *, value=1: x + value * tensor1 / tensor2,
    "addcmul": lambda x, tensor1, tensor2, *, value=1: x + value * tensor1 * tensor2,
    "addmm": lambda x, mat1, mat2, *, beta=1, alpha=1: beta * x + alpha * (mat1 @ mat2),
    "isclose": lambda x, other, rtol=1e-5, atol=1e-8, equal_nan=False: (
        (x == other)
        | (tt.isfinite(x - other) & (tt.abs(x - other) <= atol + rtol * tt.abs(other)))
        | (tt.isnan(x) & tt.isnan(other) & equal_nan)
    ),
    "allclose": lambda x, other, *args, **by: bool(tt.all(METHODS["isclose"](x, other, *args, **by))),
    "equal": lambda x, other: x.shape == other.shape and bool(tt.all(x == other)),
    "fmod": lambda x, other: tt.where(x < 0, -tt.remainder(-x, abs(other)), tt.remainder(x, abs(other))),
    "frac": lambda x: x - tt.trunc(x),
    "lerp": lambda x, end, weight: tt.where(
        tt.abs(tt.asarray(weight)) < 0.5, x + weight * (end - x), end - (end - x) * (1 - weight)
    ),
    "relu": lambda x: F.relu(x),
    "sign": lambda x: tt.where(tt.isnan(x), 0, tt.sign(x)) if x.dtype.kind == "f" else tt.sign(x),
    "softmax": lambda x, dim=None, _stacklevel=3, dtype=None: F.softmax(x, _last(x, dim), dtype=dtype),
    "log_softmax": lambda x, dim=None, _stacklevel=3, dtype=None: F.log_softmax(x, _last(x, dim), dtype=dtype),
    # pairs, and spreads that are unbiased
    "max": lambda x, dim=None, keepdim=False, *, other=None: _extreme("max", x, dim, keepdim, other),
    "min": lambda x, dim=None, keepdim=False, *, other=None: _extreme("min", x, dim, keepdim, other),
    "std": _spread("std"),
    "var": _spread("var"),
    "sort": lambda x, dim=-1, descending=False, stable=True: _at(
        "sort", x, tt.argsort(x, axis=dim, descending=descending) if x.ndim else None, dim, True
    ),
    "topk": lambda x, k, dim=-1, largest=True, sorted=True: PAIRS["topk"](
        *tt.topk(x, k, axis=dim, largest=largest, sorted=sorted)
    ),
    "kthvalue": lambda x, k, dim=-1, keepdim=False: _at("kthvalue", x, _ranked(x, k - 1, dim), dim, keepdim),
    # of shapes
    "size": lambda x, dim=None: Size(x.shape) if dim is None else x.shape[dim],
    "chunk": lambda x, chunks, dim=0: (
        Methods.split(x, -(-x.shape[dim] // chunks), dim) if x.shape[dim] else (x,) * int(chunks)
    ),
    "tensor_split": lambda x, indices_or_sections, dim=0: Methods.split(
        x, [len(part) for part in np.array_split(np.arange(x.shape[dim]), indices_or_sections)], dim
    ),
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: tt.linalg.diagonal(
        tt.moveaxis(x, (dim1, dim2), (-2, -1)), offset=offset
    ),
    "flip": lambda x, *axes, dims=None: tt.flip(x, axis=tuple(np.atleast_1d(_joined(axes) if dims is None else dims))),
    "repeat": lambda x, *repeats: tt.tile(x, tuple(_joined(repeats))),
    "repeat_interleave": lambda x, repeats, dim=None, *, output_size=None: tt.repeat(x, repeats, axis=dim),
    "unflatten": lambda x, dim, sizes: tt.reshape(x, (*x.shape[:dim], *sizes, *x.shape[dim % x.ndim + 1 :])),
    # of places
    "nonzero": lambda x, *, as_tuple=False: tt.nonzero(x) if as_tuple else tt.stack(tt.nonzero(x), axis=-1),
    "gather": lambda x, dim, index, *, sparse_grad=False: x[_grid(x, dim, index)] if x.ndim else x,
    "bincount": lambda x, weights=None, minlength=0: tt.asarray(
        np.bincount(x.numpy(), None if weights is None else weights.numpy(), minlength), device=x.device
    ),
    "select": lambda x, dim, index: x[_along(x, dim, index)],
    "narrow": lambda x, dim, start, length: x[_along(x, dim, slice(start, start + length))],
    "index_add": lambda x, dim, index, source, *, alpha=1: (
        x + tt.scatter(alpha * source, _along(x, dim, index), x.shape)
    ),
    "index_copy": lambda x, dim, index, source: tt.index_set(x, _along(x, dim, index), source),
    "index_fill": lambda x, dim, index, value: tt.index_set(x, _along(x, dim, index), value),
    "masked_select": lambda x, mask: tt.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape))[
        tt.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape))
    ],
    "masked_scatter": lambda x, mask, source: tt.index_set(x, mask, tt.reshape(source, (-1,))[: int(tt.sum(mask))]),
    "scatter_add": lambda x, dim, index, src: x + tt.scatter(_source(x, index, src), _grid(x, dim, index), x.shape),
    # of dtypes and devices
    "byte": lambda x: tt.astype(x, tt.uint8, copy=False),
    "char": lambda x: tt.astype(x, tt.int8, copy=False),
    "bfloat16": lambda x: tt.astype(x, tt.float32, copy=False),
    "type_as": lambda x, other: _to(x, other),
    "cuda": lambda x, device=None, **options: _to(x, "gpu"),
    "is_contiguous": lambda x, **options: x._data.flags.c_contiguous,
    "ndimension": lambda x: x.ndim,
    "pin_memory": lambda x: x,
    # in place
    "uniform_": lambda x, from_=0.0, to=1.0, *, generator=None, **names: tt.Tensor.uniform_(
        x, names.get("from", from_), to, generator=generator
    ),
    "bernoulli_": lambda x, p=0.5, *, generator=None: x.copy_(tt.random.uniform(x.shape, generator=generator) < p),
    "random_": lambda x, low, high=None, *, generator=None: x.copy_(randint(low, high, x.shape, generator=generator)),
    "new_tensor": lambda x, data, **options: made(tt.tensor(data), **{"dtype": x.dtype, **options}),
    **NEW,
}
for _name in ("addcdiv", "addcmul", "frac", "lerp", "sign"):
    METHODS[_name].__name__ = _name
    METHODS[_name] = fusible(METHODS[_name])
FUNCTIONS: dict[str, Any] = {
    **CREATING,
    "cdist": lambda x, y, p=2.0: tt.linalg.vector_norm(x[..., :, None, :] - y[..., None, :, :], ord=p, axis=-1),
    "einsum": lambda x, *given: tt.einsum(x, *(_listed(given) if isinstance(x, str) else given)),
    "meshgrid": lambda *tensors, indexing="ij": tt.meshgrid(*_listed(tensors), indexing=indexing),
    "std_mean": lambda x, dim=None, **by: (METHODS["std"](x, dim, **by), _mean(x, dim, by)),
    "var_mean": lambda x, dim=None, **by: (METHODS["var"](x, dim, **by), _mean(x, dim, by)),
    "tril_indices": lambda row, col, offset=0, **options: tt.asarray(np.stack(np.tril_indices(row, offset, col))),
    "triu_indices": lambda row, col, offset=0, **options: tt.asarray(np.stack(np.triu_indices(row, offset, col))),
    "where": lambda condition, input=None, other=None: (
        tt.nonzero(condition) if input is None else tt.where(condition, input, other)
    ),
    "numel": lambda x: x.size,
    "is_tensor": lambda x: isinstance(x, tt.Tensor),
    "is_floating_point": lambda x: x.dtype.kind == "f",
}
PAIRS: dict[str, Any] = {
    name: namedtuple(name, ["values", "indices"])
    for name in ("max", "min", "sort", "topk", "mode", "median", "kthvalue")
}


class Size(tuple):
    """A shape, as `x.size()` gives it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def numel(self) -> int:
        return math.prod(self)


class Methods:
    """The longer ones."""

    def median(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        """The lower of two middle elements, or the first NaN; without `dim` that of all, and no pair."""
        if dim is None:
            return Methods.median(tt.reshape(x, (-1,)), 0).values
        first = tt.argmax(tt.astype(tt.isnan(x), tt.int8), axis=dim, keepdims=True)
        middle = _ranked(x, (x.shape[dim] - 1) // 2, dim)
        places = tt.where(tt.any(tt.isnan(x), axis=dim, keepdims=True), first, middle)
        return _at("median", x, places, dim, keepdim)

    def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
        """The most frequent element, the smallest of several, and the last place that has it."""
        rows = tt.moveaxis(x, dim, -1)
        counts = tt.moveaxis(tt.sum(rows[..., :, None] == rows[..., None, :], axis=-1), -1, dim)
        often = counts == tt.max(counts, axis=dim, keepdims=True)
        value = tt.min(tt.where(often, x, tt.max(x, axis=dim, keepdims=True)), axis=dim, keepdims=True)
        last = tt.argmax(tt.flip(tt.astype(x == value, tt.int8), axis=dim), axis=dim, keepdims=True)
        return _at("mode", x, x.shape[dim] - 1 - last, dim, keepdim)

    def split(x: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
        whole, lengths = x.shape[dim], split_size_or_sections
        if isinstance(lengths, int):
            lengths = [min(lengths, whole - start) for start in range(0, whole, lengths)] or [0]
        return tt.split(x, list(lengths), axis=dim)

    def squeeze(x: Any, dim: Any = None) -> Any:
        """Without dimensions of length 1; others stay, also where they are named."""
        named = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
        ones = tuple(i for i in named if x.ndim and x.shape[i] == 1)
        return tt.squeeze(x, ones) if ones else x

    def unfold(x: Any, dimension: int, size: int, step: int) -> Any:
        starts = tt.arange(0, x.shape[dimension] - size + 1, step, device=x.device)
        windows = tt.moveaxis(x, dimension, -1)[..., starts[:, None] + tt.arange(size, device=x.device)]
        return tt.moveaxis(windows, -2, dimension % x.ndim)

    def scatter(x: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None) -> Any:
        src = _source(x, index, value if src is None else src)
        if reduce not in (None, "add"):
            raise ValueError(f"scatter: reduce={reduce!r} is not in tinytensor; expected None or 'add'")
        added = METHODS["scatter_add"]
        return added(x, dim, index, src) if reduce else tt.index_set(x, _grid(x, dim, index), src)

    def unique(x: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
        found = tt.unique_all(x)
        asked = ((found.inverse_indices, return_inverse), (found.counts, return_counts))
        more = [part for part, wanted in asked if wanted]
        return (found.values, *more) if more else found.values

    def bernoulli(x: Any, p: Any = None, *, generator: Any = None) -> Any:
        return tt.astype(tt.random.uniform(x.shape, generator=generator) < (x if p is None else p), x.dtype)

    def multinomial(x: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Any:
        """Places drawn by the weights of each row; without replacement by the largest log(weight) + Gumbel noise."""
        weights = np.asarray(x.detach().cpu().numpy(), dtype=np.float64)
        if not np.isfinite(weights).all() or (weights < 0).any() or (weights.sum(-1) <= 0).any():
            raise RuntimeError("multinomial: weights must be finite and not negative, and some of each row above 0")
        if not replacement and ((weights > 0).sum(-1) < num_samples).any():
            raise RuntimeError(f"multinomial: a row has fewer than {num_samples} weights; pass replacement=True")
        shape = (*weights.shape[:-1], num_samples) if replacement else weights.shape
        draws = tt.random.uniform(shape, dtype=tt.float64, generator=generator).cpu().numpy()
        ends = np.cumsum(weights, -1)
        with np.errstate(divide="ignore"):
            if replacement:
                places = (draws[..., :, None] * ends[..., None, -1:] >= ends[..., None, :]).sum(-1)
            else:
                places = np.argsort(np.log(-np.log1p(-draws)) - np.log(weights), -1)[..., :num_samples]
        return tt.asarray(places.astype(np.int64), device=x.device)

    def to(x: Any, *args: Any, **options: Any) -> Any:
        """On a device, in a dtype; PyTorch's further arguments by position are `non_blocking` and `copy`."""
        options.update(zip(("non_blocking", "copy"), [arg for arg in args if isinstance(arg, bool)]))
        options.pop("memory_format", None)
        places = [as_device(arg) if isinstance(arg, (str, int)) else arg for arg in args if not isinstance(arg, bool)]
        return spelled(_to)(x, *places, **options)

    def type(x: Any, dtype: Any = None, **options: Any) -> Any:
        """In another dtype, which may be a class such as `torch.LongTensor`; without one, the name of its class."""
        if dtype is None:
            return f"torch.{next((kind for kind, name in KINDS.items() if name == x.dtype.name), 'Tensor')}"
        dtype = KINDS.get(dtype.removeprefix("torch."), dtype) if isinstance(dtype, str) else dtype
        return tt.astype(x, getattr(dtype, "dtype", dtype), copy=False)

    def detach_(x: Any) -> Any:
        x._node = None
        return x


METHODS |= {name: value for name, value in vars(Methods).items() if not name.startswith("__")}
METHODS |= {"argwhere": METHODS["nonzero"], "baddbmm": METHODS["addmm"], "addmv": METHODS["addmm"]}
METHODS |= {"split_with_sizes": METHODS["split"], "new": METHODS["new_tensor"]}


def _last(x: Any, dim: int | None) -> int:
    """The dimension of PyTorch's softmax where none is given."""
    return (0 if x.ndim in (0, 1, 3) else 1) if dim is None else dim


def _listed(values: Any) -> Any:
    return values[0] if isinstance(values[0], (list, tuple)) else values


def _mean(x: Any, dim: Any, by: dict[str, Any]) -> Any:
    return tt.mean(x, axis=None if isinstance(dim, bool) else dim, keepdims=by.get("keepdim", False))


def _along(x: Any, dim: int, index: Any) -> tuple[Any, ...]:
    """The key of an index, or a slice, along one dimension."""
    return (slice(None),) * (dim % x.ndim) + (index,)


def _grid(x: Any, dim: int, index: Any) -> tuple[Any, ...]:
    """The key of the elements at `index` along one dimension, and where `index` has them along the others."""
    lengths = enumerate(index.shape)
    grid = [tt.arange(n, device=x.device)[(...,) + (None,) * (index.ndim - i - 1)] for i, n in lengths]
    return tuple(index if i == dim % x.ndim else places for i, places in enumerate(grid))


def _source(x: Any, index: Any, src: Any) -> Any:
    """The values for `index`: the part of `src` as large as that, or one number everywhere."""
    if isinstance(src, tt.Tensor) and src.ndim:
        return src[tuple(slice(n) for n in index.shape)]
    return tt.broadcast_to(tt.asarray(src, dtype=x.dtype, device=x.device), index.shape)


def _ranked(x: Any, rank: int, dim: int) -> Any:
    return tt.take(tt.argsort(x, axis=dim), tt.asarray([rank], device=x.device), axis=dim)


def _at(name: str, x: Any, places: Any, dim: int, keepdim: bool) -> Any:
    """The pair of the elements at places, which keep the dimension with length 1."""
    if not x.ndim:
        return PAIRS[name](x, tt.zeros((), dtype=tt.int64, device=x.device))
    values = tt.take_along_axis(x, places, axis=dim)
    return PAIRS[name](*((values, places) if keepdim else (tt.squeeze(values, dim), tt.squeeze(places, dim))))


def _extreme(name: str, x: Any, dim: Any, keepdim: bool, other: Any) -> Any:
    if isinstance(dim, tt.Tensor) or other is not None:
        return (tt.maximum if name == "max" else tt.minimum)(x, dim if other is None else other)
    if dim is None:
        return getattr(tt, name)(x)
    return _at(name, x, getattr(tt, f"arg{name}")(x, axis=dim, keepdims=True) if x.ndim else None, dim, keepdim)
