"""The Tensor: an array that remembers how it was made.

This file has what gradients need. `in_place.py` and `tensors/` add the rest; the mathematics is in `functions/`.
`import tinytensor as tt` at the top is a circular import on purpose: the names are looked up when called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import tinytensor as tt

from . import backend
from .modes import Replaceable
from .node import Node, leaf, mark_written

if TYPE_CHECKING:
    from .typing import Added, ArrayLike, Device, DType, F
else:
    Added = object  # see `part_of_tensor`


class Tensor(Added, metaclass=Replaceable):
    """An n-dimensional array, on the CPU or a GPU, through which gradients can flow.

    Args:
        data: a number, nested lists of numbers, a NumPy or CuPy array, or a Tensor. It is copied.
        requires_grad: if True, `backward` collects a gradient in `.grad`; only for floating and complex dtypes.
        dtype: default: the array's own; Python integers become int64, Python floats the default dtype (float32).
        device: `"cpu"` or `"gpu"`; default: where `data` is.
    """

    __slots__ = ("__weakref__", "_data", "_memory", "_node")
    __array_priority__ = 1000

    _data: Any
    _node: Node | None

    def __init__(
        self, data: ArrayLike, requires_grad: bool = False, dtype: DType = None, device: Device = None
    ) -> None:
        self._data = tt.functions.creation.to_array("tensor", data, dtype, device, copy=True)
        self._node = None
        if requires_grad:
            self.requires_grad = requires_grad

    # ---- what it is

    @property
    def data(self) -> Tensor:
        """The same values in the same memory, cut from the graph; a graph that keeps the old ones finds a write."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        array = value._data if isinstance(value, Tensor) else value
        if array is self._data:
            return  # `t.data -= step` has written to it
        if not hasattr(array, "dtype"):
            array = tt.functions.creation.to_array("data", array, self.dtype, self.device, copy=True)
        if self._node is not None and (array.shape != self.shape or array.dtype != self.dtype):
            raise ValueError(
                f"data: a Tensor that requires a gradient keeps its shape {self.shape} and dtype {self.dtype}; "
                f"got {tuple(array.shape)} {array.dtype}"
            )
        if not isinstance(value, Tensor):
            array = backend.for_array(array).copy(array)  # later writes to the caller's array must not reach a graph
        mark_written(self._data)
        self._data = array

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self._data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return int(self._data.nbytes)

    @property
    def device(self) -> str:
        """`"cpu"` or `"gpu"`."""
        return backend.NAMES[backend.for_array(self._data).device]

    __hash__ = object.__hash__  # by identity, though == compares element by element

    # ---- its gradient

    @property
    def requires_grad(self) -> bool:
        """True if gradients flow to or through this Tensor."""
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value == self.requires_grad:
            return
        if self._node is not None and self._node.op is not None:
            raise RuntimeError("requires_grad: this Tensor was computed; use detach() to cut it from its history")
        if type(value) is not bool:
            raise TypeError(
                f"Tensor: expected one argument with numbers, and True or False for its gradient, got {value!r}; write "
                "tt.empty((2, 3)) for a Tensor of a shape, tt.tensor([2, 3]) for one of these numbers"
            )
        if value and self.dtype.kind not in "fc":
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
        if value is not None:
            self._check_gradient(value)
        if self._node is not None:
            self._node.grad = value

    def _check_gradient(self, value: Any) -> None:
        if self._node is None:
            raise RuntimeError("grad: this Tensor does not require a gradient; set requires_grad=True first")
        if not isinstance(value, Tensor):
            raise TypeError(f"grad: expected a Tensor or None, got {type(value).__name__}")
        if value.shape != self.shape or value.dtype != self.dtype or value.device != self.device:
            wanted, found = ((x.shape, x.dtype, x.device) for x in (self, value))
            raise ValueError("grad: expected {} {} on {}, got {} {} on {}".format(*wanted, *found))

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
        return shares(wrap(self._data, None), self)


def part_of_tensor(part: F) -> F:
    """Class decorator: the methods and properties of a class become the Tensor's."""
    for name, value in vars(part).items():
        if callable(value) or isinstance(value, property):
            type.__setattr__(Tensor, name, value)  # these are its own
    return part


def wrap(data: Any, node: Node | None) -> Tensor:
    """A Tensor over a raw array, without a copy."""
    tensor = Tensor.__new__(Tensor)
    tensor._data = data
    tensor._node = node
    return tensor


def shares(view: Tensor, base: Tensor) -> Tensor:
    """Note that a new Tensor shares another's memory, so that changes in place find it; returns it."""
    view._memory = base._memory = getattr(base, "_memory", None) or object()
    return view
