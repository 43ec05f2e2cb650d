"""Short cuts for the usual calls of ops: the same as `call` in `primitive`, at half the price.

One Tensor, two Tensors, a Tensor and a number, and fused ops with a fast pair. Whatever is unusual (another dtype,
arrays of two devices, numbers alone), and whatever is asked for beside the result (`tt.textbook()`, a recording,
anomaly mode), goes the way of that call. Without this file everything computes the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..backend import NAMESPACES
from ..node import Node
from ..primitive import Primitive, as_array, explain, gather, named_after, shortcut_for
from ..tensor import Tensor
from .compiler.jit import LARGE, Large, is_on
from .pool import LEAST, empty
from .texts import Way

FLOAT32, FLOAT64 = dtypes.float32, dtypes.float64
NOTHING: dict[str, Any] = {}  # no parameters, or nothing saved since no rule reads any: one for all, never written to
IN_POOL = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}
"""The functions that these ops call for large results, which go into memory of the pool."""

CALLS = Way("calls of ops")
SUMS = {name: Way(f"large {name}", f"functions.elementwise:{name}") for name in IN_POOL}

new = Tensor.__new__


def shorten(primitive: Primitive) -> Callable[..., Any] | None:
    """The short cut of an op, where there is one for its number of inputs.

    It is given whether gradients are recorded, the inputs and the parameters of a call.
    """
    if not primitive.pure:
        return named_after(primitive, _fused(primitive))
    if primitive.variadic:
        return None
    if len(primitive.inputs) > 2:
        return named_after(primitive, _general(primitive))
    return named_after(primitive, (_unary if len(primitive.inputs) == 1 else _binary)(primitive))


shortcut_for.append(shorten)


@functools.cache
def _large(primitive: Primitive, is_numpy: bool) -> Primitive:
    """The op for large arrays, of NumPy or not."""
    return Large(primitive) if is_numpy and is_on() else primitive


def _general(primitive: Primitive) -> Callable[..., Any]:
    """For large arrays of NumPy, whatever their number and dtypes; no short cut, but compiled."""

    def shortcut(grad_enabled: bool, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        for x in inputs:
            if isinstance(x, Tensor) and x._data.size >= LARGE:
                break
        else:
            return None
        op = _large(primitive, type(x._data) is np.ndarray)
        if op is primitive or len(inputs) != len(primitive.inputs):
            return None
        xp, arrays, nodes = gather(primitive, inputs)
        if NAMESPACES[np.ndarray] is not xp:
            return None
        try:
            out = op.function(xp, *arrays, **params)
        except Exception as error:
            raise explain(primitive, arrays, nodes, error) from error
        tensor = new(Tensor)
        tensor._data = out = out if type(out) is np.ndarray else as_array(primitive, xp, out)
        tensor._node = None
        if grad_enabled and any(nodes) and out.dtype.kind in "fc":
            values = dict(zip(primitive.inputs, arrays), out=out)
            kept = {name: values[name] for name in primitive.reads[tuple([n is not None for n in nodes])]}
            tensor._node = Node(op, nodes, kept, params, out)
        return tensor

    return shortcut


def _unary(primitive: Primitive) -> Callable[..., Any]:
    name = primitive.inputs[0]
    reads = primitive.reads[(True,)]
    keeps_input, keeps_output = name in reads, "out" in reads

    def shortcut(grad_enabled: bool, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if len(inputs) != 1 or not isinstance(x := inputs[0], Tensor) or (CALLS.off and not CALLS.holds()):
            return None
        array = x._data
        dtype = array.dtype
        if dtype is not FLOAT32 and dtype is not FLOAT64:
            return None
        kind = type(array)
        xp = NAMESPACES[kind]
        op = primitive if array.size < LARGE else _large(primitive, kind is np.ndarray)
        forward = op.function
        try:
            out = forward(xp, array, **params) if params else forward(xp, array)
        except Exception as error:
            raise explain(primitive, [array], [x._node], error) from error
        if type(out) is not kind:
            out = as_array(primitive, xp, out)
        tensor = new(Tensor)
        tensor._data = out
        node = x._node
        if (
            grad_enabled
            and node is not None
            and ((dtype := out.dtype) is FLOAT32 or dtype is FLOAT64 or dtype.kind in "fc")
        ):
            if keeps_output:
                kept = {name: array, "out": out} if keeps_input else {"out": out}
            else:
                kept = {name: array} if keeps_input else NOTHING
            tensor._node = Node(op, (node,), kept, params or NOTHING, out)
        else:
            tensor._node = None
        return tensor

    return shortcut


def _binary(primitive: Primitive) -> Callable[..., Any]:
    """For a Tensor of a usual dtype with another of that dtype, or with a Python number behind it."""
    one, two = primitive.inputs
    reads = {(p, q): primitive.reads[p, q] for p in (False, True) for q in (False, True)}
    keeps = {needs: (one in names, two in names, "out" in names) for needs, names in reads.items()}
    first, second, both = keeps[True, False], keeps[False, True], keeps[True, True]
    general = _general(primitive)
    in_pool: Any = IN_POOL.get(primitive.name)
    of_pool: Any = SUMS.get(primitive.name)

    def shortcut(grad_enabled: bool, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if CALLS.off and not CALLS.holds():
            return None
        if len(inputs) != 2 or not isinstance(inputs[0], Tensor):
            return general(grad_enabled, inputs, params)
        x, y = inputs
        a, p = x._data, x._node
        kind, dtype = type(a), a.dtype
        if isinstance(y, Tensor):
            b, q = y._data, y._node
            alike = b.dtype is dtype and type(b) is kind
        else:
            b, q = y, None
            alike = type(y) is float or type(y) is int
        if not alike or (dtype is not FLOAT32 and dtype is not FLOAT64):
            return general(grad_enabled, inputs, params)
        xp = NAMESPACES[kind]
        op = primitive if a.size < LARGE and (b is y or b.size < LARGE) else _large(primitive, kind is np.ndarray)
        try:
            if (
                in_pool is not None
                and a.nbytes >= LEAST
                and kind is np.ndarray
                and (b is y or a.shape == b.shape)
                and of_pool.holds()
            ):
                out = in_pool(a, b, out=empty(a.shape, dtype))
            else:
                forward = op.function
                out = forward(xp, a, b, **params) if params else forward(xp, a, b)
        except Exception as error:
            raise explain(primitive, [a, b], [p, q], error) from error
        if type(out) is not kind:
            out = as_array(primitive, xp, out)
        tensor = new(Tensor)
        tensor._data = out
        tensor._node = None
        if grad_enabled and (p is not None or q is not None) and (out.dtype is dtype or out.dtype.kind in "fc"):
            keeps_a, keeps_b, keeps_output = first if q is None else second if p is None else both
            kept = NOTHING
            if keeps_a:
                kept = {one: a, two: b} if keeps_b else {one: a}
            elif keeps_b:
                kept = {two: b}
            if keeps_output:
                kept = {**kept, "out": out}
            tensor._node = Node(op, (p, q), kept, params or NOTHING, out)
        return tensor

    return shortcut


def _fused(primitive: Primitive) -> Callable[..., Any]:
    names, count = primitive.inputs, len(primitive.inputs)

    def shortcut(grad_enabled: bool, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        forward, way = primitive.fast_forward, primitive.way
        if len(inputs) != count or (CALLS.off and not CALLS.holds()):
            return None
        has_pair = None not in (forward, primitive.fast_backward)
        if has_pair and way is not None and way.off and not way.holds():
            return None
        arrays, nodes = [], []
        kind: Any = None
        dtype: Any = None  # of the floats: masks and indices stay what they are
        for value in inputs:
            array = node = None
            if isinstance(value, Tensor):
                array, node = value._data, value._node
                if type(array) is not kind:
                    if kind is not None:
                        return None
                    kind = type(array)
                if array.dtype is not dtype and array.dtype.kind in "fc":
                    if dtype is not None or not (array.dtype is FLOAT32 or array.dtype is FLOAT64):
                        return None
                    dtype = array.dtype
            elif value is not None:
                return None
            arrays.append(array)
            nodes.append(node)
        if dtype is None:
            return None
        op, xp = primitive, NAMESPACES[kind]
        if not has_pair:
            if max([a.size for a in arrays if a is not None]) < LARGE:
                return None
            op = _large(primitive, kind is np.ndarray)
            needs = [grad_enabled and n is not None for n in nodes]
            pair = None if op is primitive else op.pair(arrays, needs, params)  # type: ignore[attr-defined]
            if pair is None:
                return None
            forward = pair.forward_of
        try:
            out, residuals = forward(xp, *arrays, **params)
        except Exception as error:
            raise explain(primitive, arrays, nodes, error) from error
        tensor = new(Tensor)
        tensor._data = out = out if type(out) is kind else xp.asarray(out)
        tensor._node = None
        if grad_enabled and any(nodes):
            tensor._node = node = Node(op, tuple(nodes), dict(zip(names, arrays)), params, out)
            node.residuals = residuals
        return tensor

    return shortcut
