"""Changes of a Tensor in place: `x += y`, `x.fill_(0)`, and the step that they all share.

`import tinytensor as tt` at the top is a circular import on purpose: the names are looked up when called.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Never, Self

import tinytensor as tt

from .backend import for_array
from .modes import state
from .node import mark_written
from .tensor import Tensor, part_of_tensor

if TYPE_CHECKING:
    from .random import Generator
    from .typing import ArrayLike, Operand, TensorCore
else:
    TensorCore = object


VIEWS = {"broadcast_to", "expand_dims", "getitem", "matrix_transpose", "permute_dims", "reshape", "squeeze"}
"""Ops whose results share memory with their input."""


@part_of_tensor
class InPlace(TensorCore):
    """The part of `Tensor` behind `x += y`, `x.fill_(0)`, ..."""

    __slots__ = ()

    def __iadd__(self, other: Operand) -> Self:
        return self._update("+=", tt.add, other)

    def __isub__(self, other: Operand) -> Self:
        return self._update("-=", tt.subtract, other)

    def __imul__(self, other: Operand) -> Self:
        return self._update("*=", tt.multiply, other)

    def __itruediv__(self, other: Operand) -> Self:
        return self._update("/=", tt.divide, other)

    def __ifloordiv__(self, other: Operand) -> Self:
        return self._update("//=", tt.floor_divide, other)

    def __imod__(self, other: Operand) -> Self:
        return self._update("%=", tt.remainder, other)

    def __ipow__(self, other: Operand) -> Self:
        return self._update("**=", tt.pow, other)

    def __imatmul__(self, other: ArrayLike) -> Self:
        return self._update("@=", tt.matmul, other)

    def __iand__(self, other: Operand) -> Self:
        return self._update("&=", tt.bitwise_and, other)

    def __ior__(self, other: Operand) -> Self:
        return self._update("|=", tt.bitwise_or, other)

    def __ixor__(self, other: Operand) -> Self:
        return self._update("^=", tt.bitwise_xor, other)

    def __ilshift__(self, other: Operand) -> Self:
        return self._update("<<=", tt.bitwise_left_shift, other)

    def __irshift__(self, other: Operand) -> Self:
        return self._update(">>=", tt.bitwise_right_shift, other)

    def fill_(self, value: float) -> Self:
        """Set every element, in place."""
        self[...] = value
        return self

    def zero_(self) -> Self:
        """Set every element to 0, in place."""
        return self.fill_(0)

    def uniform_(self, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Set every element to a number from [from_, to), all equally likely, in place."""
        numbers = tt.random.uniform(self.shape, from_, to, generator=generator, dtype=self.dtype)
        return self.copy_(numbers.to(device=self.device))

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Set every element to a number from the normal distribution, in place."""
        numbers = tt.random.normal(self.shape, mean, std, generator=generator, dtype=self.dtype)
        return self.copy_(numbers.to(device=self.device))

    def copy_(self, other: ArrayLike, **unknown: Never) -> Self:
        """Take the values of another Tensor or array, broadcast, in place."""
        if unknown:
            raise tt.hints.unknown_keyword("copy_", unknown)
        self[...] = other
        return self

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

        In a graph the Tensor moves on to a new node and array. The old array stays as it was for a graph that kept it;
        views would not see the change, so there must be none. Outside of a graph the memory itself is written: views
        see it, as in NumPy, and a graph that kept this memory finds the write.
        """
        array, node = self._data, self._node
        if result._node is not None:
            if for_array(array).is_view(array) and (node is None or node.name in VIEWS):
                raise RuntimeError(
                    f"in place: this Tensor {self.shape} is a view of another one, which would not see a recorded "
                    "change; change the other one (base[i] = value), or write x = x + y instead of x += y"
                )
            self._check_unseen("a recorded change")
            if node is not None and node.retains_grad:
                node.retains_grad, result._node.retains_grad = False, True
            self._data, self._node, self._memory = result._data, result._node, None
            return
        if is_writable(self):
            if state.recording is not None:
                state.recording.write(array, result._data)
            array[...] = result._data
            mark_written(array)
        else:
            self._check_unseen("a move to memory that can be written to", is_view=_reads_only(self))
            self._data, self._memory = result._data, None

    def _check_unseen(self, change: str, is_view: bool = False) -> None:
        """Raise RuntimeError if another Tensor lies over the memory that this one is about to leave."""
        memory = getattr(self, "_memory", None)
        if is_view or (memory is not None and sys.getrefcount(memory) > 3):
            raise RuntimeError(
                f"in place: there is a view of this Tensor {self.shape} (a slice, .reshape(), .T, .detach(), ...), or "
                f"it is one, and the other would not see {change}; make the view afterwards, or a copy with .clone(), "
                "or write x[i] = x[i] + y instead of x[i] += y"
            )


class ReadOnly:
    """Replaces the mark that views share with their base, for a Tensor whose memory must not be written to."""

    __slots__ = ("base", "owner")

    def __init__(self, owner: Tensor) -> None:
        self.base = getattr(owner, "_memory", None)  # kept, so that whoever has that mark still counts this one
        self.owner = weakref.ref(owner)


def read_only(x: Tensor) -> Tensor:
    """Note that nobody may write to the memory of a new Tensor, not even through its views; returns it.

    NumPy's arrays have a flag for that. CuPy's have none, so the Tensor has to know.
    """
    x._memory = ReadOnly(x)
    return x


def is_writable(x: TensorCore) -> bool:
    """True if the memory of a Tensor may be written to; if not, a change moves the Tensor to memory of its own."""
    return getattr(x._data.flags, "writeable", True) and type(getattr(x, "_memory", None)) is not ReadOnly


def _reads_only(x: TensorCore) -> bool:
    """True if a Tensor is a view of another one whose memory must not be written to."""
    return type(memory := getattr(x, "_memory", None)) is ReadOnly and memory.owner() is not x
