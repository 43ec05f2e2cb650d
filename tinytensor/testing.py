"""Checks that every op must pass, for one set of inputs: `check_op`, what a new op's test consists of.

def test_multiply():
    rng = np.random.default_rng(0)
    check_op(multiply, rng.normal(size=(3, 4)), rng.normal(size=4), reference=np.multiply)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import tinytensor as tt

from . import dtypes
from .backend import for_array
from .engine import grad
from .gradcheck import gradcheck, gradgradcheck
from .node import Node
from .primitive import OPS
from .tensor import Tensor, wrap


def check_op(
    function: Callable[..., Any],
    *inputs: Any,
    reference: Callable[..., Any] | None = None,
    differentiable: Sequence[int] | None = None,
    second_order: bool = True,
    every_kept: bool = True,
    device: str | None = None,
    rtol: float = 1e-7,
    **params: Any,
) -> None:
    """Check an op, or any function of Tensors, on one set of inputs: its values, gradients and manners.

    In float64: the values against `reference`; first and second derivatives against differences; the gradient of an
    ordinary backward pass against that of `create_graph=True`; a fused op's fast pair against its formula, values,
    first and second order; the same results for inputs laid out differently in memory. Inputs and incoming gradient
    must stay unchanged byte for byte, a float32 input must give a float32 result and a float32 gradient, and each
    array that is kept until backward must be needed there.

    Args:
        function: called as `function(*inputs, **params)`; gives a Tensor or several.
        *inputs: arrays, Tensors and numbers. Away from kinks, where differences say nothing.
        reference: the same function of NumPy arrays.
        differentiable: the places of the inputs that have gradients; default: all floating arrays.
        second_order: whether second derivatives exist.
        every_kept: whether each kept array must be needed for these inputs (its values may not always be).
        device: where to run; default: where the inputs are.
        rtol: how far from the reference values may be, relatively.
        **params: passed on to the function.

    Raises AssertionError, naming the check that failed.
    """
    tensors = [_tensor(x, device) for x in inputs]
    if differentiable is None:
        differentiable = [i for i, x in enumerate(tensors) if isinstance(x, Tensor) and x.dtype.kind == "f"]
    case = _Case(function, tensors, list(differentiable), params)
    if reference is not None:
        _check_values(case, reference, rtol)
    _check_unchanged(case)
    _check_float32(case)
    _check_layouts(case)
    if not case.places:
        return
    _check_derivatives(case, second_order)
    _check_create_graph(case)
    with _named("the fast pair against the formula"):
        _check_fused(case, second_order)
    _check_released(case)
    if every_kept and (unread := kept_unread(function, *tensors, differentiable=differentiable, **params)):
        raise AssertionError(f"kept arrays: {', '.join(sorted(unread))} kept until backward, but not needed there")


class _Case:
    """A function with its inputs in float64, and which of these are differentiated."""

    def __init__(self, function: Callable[..., Any], inputs: list[Any], places: list[int], params: Any) -> None:
        self.function, self.inputs, self.places, self.params = function, inputs, places, params

    def leaves(self, dtype: Any = None) -> list[Any]:
        """Fresh copies of the inputs, with gradients where they are wanted, floats in another dtype if one is given."""
        fresh = []
        for i, x in enumerate(self.inputs):
            if isinstance(x, Tensor):
                x = tt.tensor(x, dtype=dtype if x.dtype.kind == "f" else None, requires_grad=i in self.places)
            fresh.append(x)
        return fresh

    def __call__(self, *inputs: Any) -> list[Tensor]:
        result = self.function(*inputs, **self.params)
        return [result] if isinstance(result, Tensor) else list(result)

    def floating(self, *inputs: Any) -> list[Tensor]:
        """The results that have gradients."""
        return [out for out in self(*inputs) if out._node is not None]

    def gradients(self, leaves: list[Any], create_graph: bool = False) -> tuple[list[Tensor], list[Any], list[Any]]:
        """Results, incoming gradients and gradients, for incoming gradients that are always the same."""
        outs = self.floating(*leaves)
        generator = tt.random.Generator(0)
        g = [generator.normal(o.shape, dtype=dtypes.float64, device=o.device).to(o.dtype) for o in outs]
        wanted = [leaves[i] for i in self.places]
        return outs, g, list(grad(outs, wanted, g, create_graph=create_graph, allow_unused=True))


def _tensor(x: Any, device: str | None) -> Any:
    if not hasattr(x, "dtype"):
        return x
    x = tt.asarray(x, device=device)
    return tt.astype(x.detach(), dtypes.float64, copy=False) if x.dtype.kind == "f" else x.detach()


@contextmanager
def _named(check: str) -> Iterator[None]:
    """Errors inside become an AssertionError that names the check."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{check}: {error}") from error


def _same(check: str, found: Any, expected: Any, rtol: float = 1e-10, atol: float = 1e-10) -> None:
    found, expected = (x.detach().numpy() if isinstance(x, Tensor) else np.asarray(x) for x in (found, expected))
    if found.shape != expected.shape:
        raise AssertionError(f"{check}: shape {found.shape}, expected {expected.shape}")
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=check)


def _check_values(case: _Case, reference: Callable[..., Any], rtol: float) -> None:
    given = [np.array(x.numpy()) if isinstance(x, Tensor) else x for x in case.inputs]
    expected = reference(*given, **case.params)
    with _named("forward"):
        found = case(*case.leaves())
    for out, want in zip(found, expected if isinstance(expected, (tuple, list)) else [expected]):
        _same("forward against the reference", out, want, rtol, 1e-12)


def _check_unchanged(case: _Case) -> None:
    """Neither forward nor backward writes into what it was given."""
    for create_graph in (False, True):
        leaves = case.leaves()
        before = [_bytes(x) for x in leaves]
        if not case.places:
            case(*leaves)
        else:
            with _named("backward"):
                outs, g, _ = case.gradients(leaves, create_graph)
            generator = tt.random.Generator(0)
            for out, weight in zip(outs, g):
                if _bytes(weight) != _bytes(generator.normal(out.shape, dtype=out.dtype, device=out.device)):
                    raise AssertionError("backward: the incoming gradient was changed")
        for i, x in enumerate(leaves):
            if _bytes(x) != before[i]:
                raise AssertionError(f"input {i} was changed")


def _bytes(x: Any) -> Any:
    return x.detach().numpy().tobytes() if isinstance(x, Tensor) else x


def _check_float32(case: _Case) -> None:
    wide, narrow = case(*case.leaves()), case(*case.leaves(dtypes.float32))
    for out64, out32 in zip(wide, narrow):
        expected = {dtypes.float64: dtypes.float32, dtypes.complex128: dtypes.complex64}.get(out64.dtype, out64.dtype)
        has_floats = any(isinstance(x, Tensor) and x.dtype.kind == "f" for x in case.inputs)
        if has_floats and out32.dtype != expected:
            raise AssertionError(f"float32: inputs in float32 give a result in {out32.dtype}, expected {expected}")
    if not case.places:
        return
    leaves = case.leaves(dtypes.float32)
    with _named("float32 backward"):
        _, _, narrow_gradients = case.gradients(leaves)
        _, _, wide_gradients = case.gradients(case.leaves())
    for i, found, wanted in zip(case.places, narrow_gradients, wide_gradients):
        if found is None:
            continue
        if (found.shape, found.dtype, found.device) != (leaves[i].shape, dtypes.float32, leaves[i].device):
            raise AssertionError(
                f"float32: the gradient of input {i} is {found.shape} {found.dtype} on {found.device}, "
                f"expected {leaves[i].shape} float32 on {leaves[i].device}"
            )
        scale = float(np.max(np.abs(wanted.numpy()), initial=1.0))
        _same(f"float32 gradient of input {i}", found, wanted, 1e-3, 1e-3 * scale)


def _check_layouts(case: _Case) -> None:
    """The same values in strided, reversed and column-major memory."""
    expected = case(*case.leaves())
    gradients = case.gradients(case.leaves())[2] if case.places else []
    for layout, lay in (("strided", _strided), ("reversed", _reversed), ("column-major", _column_major)):
        leaves = []
        for i, x in enumerate(case.inputs):
            if isinstance(x, Tensor):
                x = wrap(lay(x._data), None).requires_grad_(i in case.places)
            leaves.append(x)
        with _named(f"{layout} inputs"):
            found, found_gradients = case(*leaves), case.gradients(leaves)[2] if case.places else []
        for a, b in zip([*found, *found_gradients], [*expected, *gradients]):
            if a is not None:
                _same(f"{layout} inputs", a, b)


def _strided(array: Any) -> Any:
    if not array.ndim:
        return array
    xp = for_array(array)
    return xp.repeat(array, 2, axis=array.ndim - 1)[..., ::2]


def _reversed(array: Any) -> Any:
    if not array.ndim:
        return array
    everywhere = (slice(None, None, -1),) * array.ndim
    return for_array(array).copy(array[everywhere])[everywhere]


def _column_major(array: Any) -> Any:
    xp = for_array(array)
    axes = tuple(reversed(range(array.ndim)))
    return xp.permute_dims(xp.copy(xp.permute_dims(array, axes)), axes)


def _check_derivatives(case: _Case, second_order: bool) -> None:
    def floating(*inputs: Any) -> list[Tensor]:
        return [out for out in case(*inputs) if out.dtype.kind == "f"]

    gradcheck(floating, case.leaves())
    if second_order:
        with _named("second order"):
            gradgradcheck(floating, case.leaves())


def _check_create_graph(case: _Case) -> None:
    raw, recorded = case.gradients(case.leaves())[2], case.gradients(case.leaves(), create_graph=True)[2]
    for i, a, b in zip(case.places, raw, recorded):
        if (a is None) != (b is None):
            raise AssertionError(f"create_graph: the gradient of input {i} is {b}, without it {a}")
        if a is not None:
            _same(f"create_graph: the gradient of input {i}", b, a)


@contextmanager
def _formulas() -> Iterator[None]:
    """Within it, fused ops run as their formulas."""
    fused = [(primitive, primitive.fast_forward) for primitive in OPS.values() if primitive.fast_forward is not None]
    try:
        for primitive, _ in fused:
            primitive.fast_forward = None
        yield
    finally:
        for primitive, forward in fused:
            primitive.fast_forward = forward


def _check_fused(case: _Case, second_order: bool) -> None:
    outs, _, fast = case.gradients(case.leaves())
    if all(node.op is None or node.op.pure for node in _nodes(outs)):
        return
    with _formulas():
        expected, _, slow = case.gradients(case.leaves())
    for a, b in zip([*outs, *fast], [*expected, *slow]):
        _same("values and gradients", a, b, 1e-9)
    if second_order:
        found = _second(case)
        with _formulas():
            wanted = _second(case)
        for a, b in zip(found, wanted):
            _same("second order", a, b, 1e-8, 1e-9)


def _second(case: _Case) -> list[Any]:
    leaves = case.leaves()
    first = [f for f in case.gradients(leaves, create_graph=True)[2] if f is not None and f._node is not None]
    if not first:
        return []
    weights = [tt.ones_like(f) for f in first]
    found = grad(first, [leaves[i] for i in case.places], weights, allow_unused=True)
    return [f for f in found if f is not None]


def _nodes(outs: Sequence[Tensor]) -> list[Node]:
    seen: dict[Node, None] = {}
    stack = [out._node for out in outs]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen[node] = None
            stack.extend(node.parents)
    return list(seen)


def _check_released(case: _Case) -> None:
    """Whatever is not kept may be overwritten after the forward pass without harm to the gradient."""
    _, _, expected = case.gradients(case.leaves())
    leaves = case.leaves()
    outs = case.floating(*leaves)
    kept = [a for node in _nodes(outs) for _, a in _kept_arrays(node)]
    needed = {for_array(a).storage(a) for a in kept}
    for node in _nodes(outs):
        if node.op is not None and not node.op.pure:
            needed |= {for_array(a).storage(a) for a in node.kept[0] if hasattr(a, "shape")}
    for tensor in [*[leaves[i] for i in case.places], *outs]:
        array = tensor._data
        if array.base is None and for_array(array).storage(array) not in needed:
            array[...] = np.nan
    generator = tt.random.Generator(0)
    g = [generator.normal(o.shape, dtype=o.dtype, device=o.device) for o in outs]
    found = grad(outs, [leaves[i] for i in case.places], g, allow_unused=True)
    for i, a, b in zip(case.places, found, expected):
        if b is not None:
            _same(f"the gradient of input {i} reads an array that is not kept", a, b)


def kept_unread(
    function: Callable[..., Any], *inputs: Any, differentiable: Sequence[int] | None = None, **params: Any
) -> set[str]:
    """Which arrays are kept until backward although the gradient stays the same without them, as `op.name`."""
    tensors = [_tensor(x, None) for x in inputs]
    if differentiable is None:
        differentiable = [i for i, x in enumerate(tensors) if isinstance(x, Tensor) and x.dtype.kind == "f"]
    case = _Case(function, tensors, list(differentiable), params)
    _, _, expected = case.gradients(case.leaves())
    unread: set[str] = set()
    count = len([a for node in _nodes(case.floating(*case.leaves())) for a in _kept_arrays(node)])
    for place in range(count):
        name, changed = "", False
        for spoil in _SPOILERS:
            leaves = case.leaves()
            outs = case.floating(*leaves)
            slots = [(node, i) for node in _nodes(outs) for i in range(len(_kept_arrays(node)))]
            node, i = slots[place]
            label, array = _kept_arrays(node)[i]
            if not array.size:
                changed = True
                break
            name = f"{node.name}.{label}"
            changed = changed or _differs(case, leaves, outs, (node, array, spoil(array)), expected)
        if not changed:
            unread.add(name)
    return unread


_SPOILERS: list[Callable[[Any], Any]] = [
    lambda a: a * np.nan if a.dtype.kind == "f" else a ^ True if a.dtype.kind == "b" else a * 0,
    lambda a: -1.0 - a if a.dtype.kind == "f" else a ^ True if a.dtype.kind == "b" else a * 0 + 1,
]


def _kept_arrays(node: Node) -> list[tuple[str, Any]]:
    """What backward of a node reads: names and arrays."""
    op = node.op
    if op is None or node.kept is None:
        return []
    if not op.pure:
        return [(f"residual {i}", r) for i, r in enumerate(node.kept[1] or ()) if hasattr(r, "shape")]
    names = op.keepers[sum(1 << i for i, parent in enumerate(node.parents) if parent is not None)].names
    found = []
    for name, value in zip(names, node.kept):
        found += [(name, v) for v in (value if isinstance(value, tuple) else (value,)) if hasattr(v, "shape")]
    return found


def _differs(
    case: _Case, leaves: list[Any], outs: list[Tensor], change: tuple[Node, Any, Any], expected: list[Any]
) -> bool:
    """Whether the gradients change (or fail) when one kept array is replaced by another."""
    node, old, new = change

    def replaced(value: Any) -> Any:
        return tuple(replaced(v) for v in value) if isinstance(value, tuple) else new if value is old else value

    fused = node.op is not None and not node.op.pure
    node.kept = (node.kept[0], replaced(tuple(node.kept[1]))) if fused else replaced(tuple(node.kept))
    generator = tt.random.Generator(0)
    g = [generator.normal(o.shape, dtype=o.dtype, device=o.device) for o in outs]
    try:
        with np.errstate(all="ignore"):
            found = grad(outs, [leaves[i] for i in case.places], g, allow_unused=True)
    except (RuntimeError, np.linalg.LinAlgError):
        return True
    for a, b in zip(found, expected):
        if b is not None and not np.allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-10):
            return True
    return False
