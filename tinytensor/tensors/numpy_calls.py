"""Calls of NumPy functions with a Tensor: `np.exp(x)`, `np.sum(x)`, `array * x`.

Operators between an ndarray and a Tensor compute, as a Tensor's do. A NumPy function would lose the gradient of a
Tensor that needs one, so it is refused, with the name of ours. Other Tensors on the CPU are arrays to it.
`import tinytensor as tt` at the top is a circular import on purpose: the names are looked up when called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import tinytensor as tt

from ..modes import state
from ..tensor import Tensor, part_of_tensor

if TYPE_CHECKING:
    from ..typing import TensorCore
else:
    TensorCore = object

OPERATORS = {
    np.add: "add", np.subtract: "subtract", np.multiply: "multiply", np.divide: "divide", np.matmul: "matmul",
    np.floor_divide: "floor_divide", np.remainder: "remainder", np.power: "pow", np.equal: "equal",
    np.not_equal: "not_equal", np.less: "less", np.less_equal: "less_equal", np.greater: "greater",
    np.greater_equal: "greater_equal", np.bitwise_and: "bitwise_and", np.bitwise_or: "bitwise_or",
    np.bitwise_xor: "bitwise_xor", np.left_shift: "bitwise_left_shift", np.right_shift: "bitwise_right_shift",
}  # fmt: skip
"""NumPy's functions for `array + x` and its kin, and the functions that compute them here."""

ABOUT = {np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj, np.array2string}
"""Functions that describe an array, and compute nothing with it."""


@part_of_tensor
class NumpyCalls(TensorCore):
    """How a Tensor answers NumPy's functions."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        # `array + x` arrives as np.add(array, x); a Tensor on the left would have computed it itself.
        operator = method == "__call__" and ufunc in OPERATORS and not options and not isinstance(inputs[0], Tensor)
        if operator:
            return getattr(tt, OPERATORS[ufunc])(*inputs)
        out = options.pop("out", (None,))[0]
        needs_none = not any(isinstance(x, Tensor) and x.requires_grad for x in inputs)
        if method == "__call__" and ufunc in OPERATORS and out is inputs[0] and not options and needs_none:
            return ufunc(*map(np.asarray, inputs), out=out)  # array -= x
        raise _refusal(ufunc.__name__, "NumPy's element-wise functions take no Tensors")

    def __array_function__(
        self, function: Callable[..., Any], types: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        def as_array(value: Any) -> Any:
            if type(value) in (list, tuple):
                return type(value)(map(as_array, value))
            if not isinstance(value, Tensor):
                return value
            if value.requires_grad and state.grad_enabled and function not in ABOUT:
                raise _refusal(function.__name__, "a Tensor here requires a gradient, which would be lost")
            return np.asarray(value.detach())

        return function(*map(as_array, arguments), **{name: as_array(value) for name, value in options.items()})


def _refusal(name: str, why: str) -> TypeError:
    """The error for a call of a NumPy function; it says what to write instead."""
    if callable(getattr(tt, name, None)):
        return TypeError(f"np.{name}: {why}; write tt.{name}, or convert first with x.detach().numpy()")
    advice = tt.hints.hint("tinytensor", name) or f"convert first: np.{name}(x.detach().numpy())"
    return TypeError(f"np.{name}: {why}; {advice}")
