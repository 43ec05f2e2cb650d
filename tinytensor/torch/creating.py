"""Tensors made from nothing, by PyTorch's constructors; tinytensor's random numbers are others than PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np

import tinytensor as tt

from .speaking import Spoken
from .speaking import device as as_device


class Generator(tt.random.Generator):
    """A stream of random numbers, as `torch.Generator().manual_seed(1)` asks for one."""

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()
        self.device = as_device("cpu")


def made(values: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any) -> Any:
    """A new Tensor in a dtype, on a device; other options, such as `pin_memory` and `layout`, change nothing."""
    dtype = getattr(dtype, "dtype", dtype)
    values = values if dtype is None else tt.astype(values, dtype, copy=False)
    values = values if device is None else values.to(as_device(device))
    return values.requires_grad_() if requires_grad else values


def _exact(make: Any, *args: Any, dtype: Any = None, **options: Any) -> Any:
    """A new Tensor whose floats have all their digits, if a dtype is given, before it is made of that dtype."""
    found = make(*args)
    if dtype is not None and found.dtype.kind in "fc":
        found = make(*args, dtype=tt.float64 if found.dtype.kind == "f" else tt.complex128)
    return made(found, dtype, **options)


def _joined(values: Any) -> Any:
    """The lengths that were passed as arguments, or as one tuple."""
    return values[0] if len(values) == 1 and not isinstance(values[0], int) and np.ndim(values[0]) else values


def _sized(draw: Any) -> Any:
    def construct(*shape: Any, size: Any = None, generator: Any = None, out: None = None, **options: Any) -> Any:
        lengths = _joined(shape) if size is None else np.atleast_1d(size)
        return made(draw(tuple(int(n) for n in lengths), generator), **options)

    return construct


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    if isinstance(data, tt.Tensor):
        return made(data, dtype, device)
    return _exact(tt.tensor, data, dtype=dtype, device=device)


def arange(*bounds: Any, start: Any = 0, end: Any = None, step: Any = 1, **options: Any) -> Any:
    bounds = bounds if end is None else (*(bounds or (start,)), end)
    bounds = (*(bounds if len(bounds) > 1 else (start, *bounds)), step)[:3]
    return _exact(tt.arange, *(x.item() if isinstance(x, tt.Tensor) else x for x in bounds), **options)


def randint(low: int, high: Any = None, size: Any = None, *, generator: Any = None, **options: Any) -> Any:
    if size is None and not isinstance(high, int):
        high, size = None, high
    low, high = (0, low) if high is None else (low, high)
    return made(tt.random.integers(int(low), int(high), tuple(size), generator=generator), **options)


def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, **options: Any) -> Any:
    shape = np.broadcast_shapes(*(getattr(x, "shape", ()) for x in (mean, std))) if size is None else tuple(size)
    return made(mean + std * tt.random.normal(shape, generator=generator), **options)


CREATING: dict[str, Any] = {
    "arange": arange,
    "as_tensor": as_tensor,
    "empty": _sized(lambda shape, generator: tt.zeros(shape)),
    "eye": lambda n, m=None, **options: made(tt.eye(n, m), **options),
    "from_numpy": lambda array: tt.asarray(array, copy=True),  # what is written into the array later is not seen
    "full": lambda size, fill_value, **options: _exact(tt.full, tuple(size), fill_value, **options),
    "linspace": lambda start, end, steps, **options: _exact(tt.linspace, start, end, steps, **options),
    "normal": normal,
    "ones": _sized(lambda shape, generator: tt.ones(shape)),
    "rand": _sized(lambda shape, generator: tt.random.uniform(shape, generator=generator)),
    "randint": randint,
    "randn": _sized(lambda shape, generator: tt.random.normal(shape, generator=generator)),
    "randperm": lambda n, *, generator=None, **by: made(tt.random.permutation(n, generator=generator), **by),
    "tensor": lambda data, **options: _exact(tt.tensor, data, **options),
    "zeros": _sized(lambda shape, generator: tt.zeros(shape)),
}


def _like(draw: Any, name: str) -> Any:
    """`zeros_like(x)` and the like."""
    return lambda x, *args, dtype=None, device=None, memory_format=None, **by: made(
        draw(x.shape, *args), dtype or x.dtype, device or x.device, **by
    )


def _new(draw: Any, name: str) -> Any:
    """`x.new_zeros(2, 3)` and the like."""

    def new(x: Any, *args: Any, size: Any = None, **by: Any) -> Any:
        shape, *rest = args if name == "full" else (_joined(args) if size is None else size,)
        return made(draw(tuple(shape), *rest), **{"dtype": x.dtype, "device": x.device, **by})

    return new


def _full(shape: Any, value: Any) -> Any:
    return tt.full(shape, value, dtype=tt.float64 if isinstance(value, float) else None)


_DRAWN = {
    "zeros": tt.zeros, "ones": tt.ones, "empty": tt.zeros, "full": _full, "rand": tt.random.uniform,
    "randn": tt.random.normal, "randint": lambda shape, low, high=None: randint(low, high, shape),
}  # fmt: skip
CREATING |= {f"{name}_like": _like(draw, name) for name, draw in _DRAWN.items()}
NEW = {f"new_{name}": _new(draw, name) for name, draw in _DRAWN.items()}


class Typed(type):
    """The type of `torch.Tensor`, `torch.LongTensor`, ...: made of data or of lengths, and true of Tensors so typed."""

    kind: Any = None  # the dtype that its Tensors have; None for any

    def __call__(cls, *data: Any, **options: Any) -> Any:
        lengths = len(data) != 1 or isinstance(data[0], int)
        made_of = CREATING["zeros"](*(data or (0,))) if lengths else tt.tensor(data[0])
        return made(made_of, cls.kind or tt.float32, **options)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, tt.Tensor) and cls.kind in (None, value.dtype)

    def __getattr__(cls, name: str) -> Any:
        found = vars(tt.Tensor).get(name)
        return cls.kind if name == "dtype" else found.theirs if isinstance(found, Spoken) else getattr(tt.Tensor, name)
