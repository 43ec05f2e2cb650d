"""The Tensor: an array that remembers how it was made.

Its operators and methods stand in `operators.py`; the mathematics, in `functions/`.
`import tinytensor as tt` at the top is a circular import on purpose: the names are looked up when called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

import tinytensor as tt

from . import backend, dtypes
from .modes import state
from .node import Node, leaf, mark_written, tick
from .operators import Operators

if TYPE_CHECKING:
    from .typing import ArrayLike, Device, DType

VIEWS = {"broadcast_to", "expand_dims", "getitem", "matrix_transpose", "permute_dims", "reshape", "squeeze"}
"""Ops whose results share memory with their input."""


class Tensor(Operators):
    """An n-dimensional array, on the CPU or a GPU, through which gradients can flow.

    Args:
        data: a number, nested lists of numbers, a NumPy or CuPy array, or a Tensor. It is copied.
        requires_grad: whether `backward` shall collect a gradient in `.grad`; only for floating dtypes.
        dtype: default: the array's own; Python integers become int64, Python floats the default dtype (float32).
        device: `"cpu"` or `"gpu"`; default: where `data` is.
    """

    __slots__ = ("__weakref__", "_data", "_node")
    __array_ufunc__ = None  # so that `ndarray * Tensor` asks the Tensor
    __array_priority__ = 1000

    _data: Any
    _node: Node | None

    def __init__(
        self, data: ArrayLike, requires_grad: bool = False, dtype: DType = None, device: Device = None
    ) -> None:
        self._data = tt.functions.creation.to_array("tensor", data, dtype, device, copy=True)
        self._node = None
        if requires_grad:
            self.requires_grad = True

    # ---- what it is

    @property
    def data(self) -> Any:
        """The NumPy or CuPy array itself. Assigning to it replaces the values, unseen by the gradients.

        Writing into its elements (`t.data[0] = 1`) goes behind the back of the checks on arrays that a graph keeps:
        write `t[0] = 1` instead. `t.data -= step` is seen.
        """
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        array = value._data if isinstance(value, Tensor) else value
        if not hasattr(array, "dtype"):
            array = tt.functions.creation.to_array("data", array, self.dtype, self.device, copy=True)
        if self._node is not None and (array.shape != self.shape or array.dtype != self.dtype):
            raise ValueError(
                f"data: a Tensor that requires a gradient keeps its shape {self.shape} and dtype {self.dtype}; "
                f"got {tuple(array.shape)} {array.dtype}"
            )
        if array is not self._data and not isinstance(value, Tensor):
            array = backend.for_array(array).copy(array)  # later writes to the caller's array must not reach a graph
        mark_written(self._data)
        self._data = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._data.dtype

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(self._data.size)

    @property
    def nbytes(self) -> int:
        return int(self._data.nbytes)

    @property
    def device(self) -> str:
        return str(backend.for_array(self._data).device)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d Tensor")
        return self.shape[0]

    def __repr__(self) -> str:
        parts = [np.array2string(self._to_numpy(), separator=", ", prefix="tensor(")]
        if self.dtype not in (dtypes.get_default_dtype(), dtypes.int64, dtypes.bool_) or self.size == 0:
            parts.append(f"dtype={self.dtype}")
        if self.size == 0 and self.ndim != 1:
            parts.insert(1, f"shape={self.shape}")
        if self.device != "cpu":
            parts.append(f"device='{self.device}'")
        if self._node is not None:
            parts.append("requires_grad=True" if self._node.op is None else f"op={self._node.name}")
        return f"tensor({', '.join(parts)})"

    __hash__ = object.__hash__  # by identity, though == compares element by element

    # ---- its gradient

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to or through this Tensor."""
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value == self.requires_grad:
            return
        if self._node is not None and self._node.op is not None:
            raise RuntimeError("requires_grad: this Tensor was computed; use detach() to cut it from its history")
        if value and self.dtype.kind != "f":
            raise TypeError(
                f"requires_grad: only floating Tensors can require a gradient, got {self.dtype}; "
                "convert first, for example with tt.astype(x, tt.float32)"
            )
        self._node = leaf(self._data) if value else None

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set `requires_grad` and return self."""
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """True for a Tensor that was not computed by a recorded op."""
        return self._node is None or self._node.op is None

    @property
    def grad(self) -> Tensor | None:
        """The gradient collected so far: a Tensor of this shape, dtype and device, or None."""
        return None if self._node is None else self._node.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is None:
            if self._node is not None:
                self._node.grad = None
            return
        if self._node is None:
            raise RuntimeError("grad: this Tensor does not require a gradient; set requires_grad=True first")
        if not isinstance(value, Tensor):
            raise TypeError(f"grad: expected a Tensor or None, got {type(value).__name__}")
        if (value.shape, value.dtype, value.device) != (self.shape, self.dtype, self.device):
            raise ValueError(
                f"grad: expected {self.shape} {self.dtype} on {self.device}, "
                f"got {value.shape} {value.dtype} on {value.device}"
            )
        self._node.grad = value

    def retain_grad(self) -> None:
        """Ask backward to fill `.grad` of this Tensor although it was computed."""
        if self._node is None:
            raise RuntimeError("retain_grad: this Tensor does not require a gradient")
        self._node.retains_grad = True

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Hook:
        """Call `hook(gradient)` when this Tensor's gradient is known; what it returns, if anything, replaces it."""
        if self._node is None:
            raise RuntimeError("register_hook: this Tensor does not require a gradient")
        if self._node.hooks is None:
            self._node.hooks = {}
        return Hook(self._node.hooks, hook)

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        """Add the gradient of this Tensor with respect to every leaf to that leaf's `.grad`.

        Args:
            gradient: the incoming gradient (the vector of the vector-Jacobian product), of this Tensor's shape;
                default: 1 for a Tensor of one element.
            retain_graph: keep what the graph holds, so that backward can run again; default: as `create_graph`.
            create_graph: record the gradient's own computation, so that gradients of gradients can be taken.

        Raises RuntimeError where there is nothing to differentiate, a gradient is missing, or the graph was freed.
        """
        tt.engine.backward(self, gradient, retain_graph, create_graph)

    def detach(self) -> Tensor:
        """The same values, in the same memory, cut from the graph."""
        return wrap(self._data, None)

    # ---- its values elsewhere

    def item(self) -> Any:
        """The only element as a Python number."""
        if self.size != 1:
            raise ValueError(f"item: expected a Tensor of one element, got shape {self.shape}")
        return self._to_numpy().item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        return self._to_numpy().tolist()

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as a read-only NumPy array: the same memory on the CPU, a copy from the GPU.

        Read-only because a write would go unseen by gradients that need the old values; `np.array(t.numpy())` is a
        copy to write to.
        """
        array = self._to_numpy().view()
        array.flags.writeable = False
        return array

    def _to_numpy(self) -> Any:
        return backend.for_array(self._data).to_numpy(self._data)

    def to(self, *args: Tensor | DType, device: Device = None, dtype: DType = None) -> Tensor:
        """This Tensor on a device and in a dtype: `x.to("gpu")`, `x.to(tt.float64)`; self if nothing changes.

        Differentiable. Raises DeviceError where the device is missing.
        """
        for value in args:
            if isinstance(value, str) and value in backend.DEVICES:
                device = value
            elif isinstance(value, Tensor):
                device, dtype = value.device, value.dtype
            elif isinstance(value, str) and not hasattr(np, value):
                raise ValueError(f"to: unknown device {value!r}; expected 'cpu' or 'gpu'")
            else:
                dtype = value
        result = self if dtype is None else tt.astype(self, dtype, copy=False)
        return result if device is None else tt.functions.shapes.to_device(result, device)

    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """This Tensor on a device, under the array API standard's name."""
        if stream is not None:
            raise ValueError("to_device: streams are not supported; pass stream=None")
        return tt.functions.shapes.to_device(self, device)

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self._node is not None and state.grad_enabled:
            raise RuntimeError(
                "NumPy was asked to convert a Tensor that requires a gradient, and the gradient would be lost; "
                "use .detach().numpy(), or the function of the same name in tinytensor"
            )
        if self.device != "cpu":
            raise TypeError("NumPy was asked to convert a Tensor on the GPU; copy it with .cpu() or .numpy() first")
        array = np.array(self._data, dtype=dtype, copy=copy)
        if np.may_share_memory(array, self._data):  # as with numpy(): what a graph needs cannot be written
            array = array.view()
            array.flags.writeable = False
        return array

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"__array_namespace__: unsupported array API version {api_version!r}; have 2024.12")
        return tt

    def __dlpack__(self, **options: Any) -> Any:
        if self._node is not None and state.grad_enabled:
            raise RuntimeError("__dlpack__: this Tensor requires a gradient, which would be lost; use .detach()")
        if options.get("copy") is None and self.device == "cpu":
            options["copy"] = True  # what another library writes must not reach a graph
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def _only(self, kind: str) -> Any:
        if self.size != 1:
            raise ValueError(
                f"{kind} of a Tensor of shape {self.shape} is ambiguous: it has {self.size} elements; "
                "use tt.any(x), tt.all(x) or an index"
            )
        return self.item()

    def __bool__(self) -> bool:
        return bool(self._only("bool()"))

    def __int__(self) -> int:
        return int(self._only("int()"))

    def __float__(self) -> float:
        return float(self._only("float()"))

    def __complex__(self) -> complex:
        return complex(self._only("complex()"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.ndim:
            raise TypeError(f"only a 0-d integer Tensor can be an index, got {self.dtype} of shape {self.shape}")
        return int(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.size == 1 else format(str(self), spec)

    def __copy__(self) -> Tensor:
        return tt.asarray(self, copy=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError("deepcopy: this Tensor was computed; copy a leaf, or use detach() first")
        twin = type(self).__new__(type(self))
        twin._data = backend.for_array(self._data).copy(self._data)
        twin._node = None
        if self._node is not None:
            twin._node = leaf(twin._data)
            if self._node.grad is not None:
                twin._node.grad = tt.asarray(self._node.grad, copy=True)
        memo[id(self)] = twin
        return twin

    def __reduce__(self) -> Any:
        if not self.is_leaf:
            raise RuntimeError("pickle: this Tensor was computed; use detach() first")
        return _rebuild, (type(self), np.array(self._to_numpy()), self.requires_grad, self.device)

    # ---- in place

    def _update(self, symbol: str, function: Callable[..., Tensor], other: Any) -> Self:
        self._check_writable(symbol)
        result = function(self, other)
        if result.shape != self.shape or result.dtype != self.dtype:
            raise ValueError(
                f"{symbol}: the result {result.shape} {result.dtype} does not fit in place into "
                f"{self.shape} {self.dtype}; write x = x {symbol[:-1]} y instead"
            )
        self._become(result)
        return self

    def _check_writable(self, what: str) -> None:
        if self._node is not None and self._node.op is None and state.grad_enabled:
            raise RuntimeError(
                f"{what}: a leaf Tensor that requires a gradient cannot be changed in place while gradients are on; "
                "do it inside tt.no_grad(), or make a new Tensor"
            )

    def _become(self, result: Tensor) -> None:
        """Take over the values of a result computed from this Tensor.

        In a graph the Tensor moves on to the new node and the new array, and what was kept of the old one stays as it
        was: right without a check. Outside of one the memory itself is written, so views see it, as in NumPy, and a
        graph that kept this memory finds the write.
        """
        array = self._data
        if result._node is not None:
            if array.base is not None and (self._node is None or self._node.op is None or self._node.name in VIEWS):
                raise RuntimeError(
                    f"in place: this Tensor {self.shape} is a view of another one, which would not see a recorded "
                    "change; change the other one (base[i] = value), or write x = x + y instead of x += y"
                )
            self._data, self._node = result._data, result._node
            return
        if getattr(array.flags, "writeable", True):
            array[...] = result._data
            mark_written(array)
        else:
            self._data = result._data


class Hook:
    """The handle of a registered hook: `remove()` takes it away again."""

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks, self._key = hooks, tick()  # a key of its own, never used again
        hooks[self._key] = hook

    def remove(self) -> None:
        self._hooks.pop(self._key, None)


def wrap(data: Any, node: Node | None) -> Tensor:
    """A Tensor over a raw array, without a copy."""
    tensor = Tensor.__new__(Tensor)
    tensor._data = data
    tensor._node = node
    return tensor


def _rebuild(kind: type[Tensor], array: Any, requires_grad: bool, device: str) -> Tensor:
    tensor = kind.__new__(kind)
    tensor._data = backend.for_device(device).from_numpy(array)
    tensor._node = leaf(tensor._data) if requires_grad else None
    return tensor
