"""Checks that every op must pass, for one set of inputs: `check_op`, the test of a new op.

def test_multiply():
    rng = np.random.default_rng(0)
    check_op(multiply, rng.normal(size=(3, 4)), rng.normal(size=4), reference=np.multiply)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

import tinytensor as tt

from .. import dtypes
from ..backend import NAMESPACES, for_array
from ..derivatives.gradients import grad
from ..engine import op_vjp
from ..grad_mode import no_grad, textbook
from ..node import Node
from ..tensor import Tensor, wrap
from .gradcheck import gradcheck, gradgradcheck


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
        *inputs: arrays, Tensors and numbers. Avoid kinks, where differences say nothing.
        reference: the same function of NumPy arrays.
        differentiable: the places of the inputs that have gradients; default: all floating arrays.
        second_order: True if second derivatives exist.
        every_kept: if True, each kept array must be needed for these inputs (its values may not always be).
        device: where to run; default: where the inputs are.
        rtol: how far from the reference values may be, relatively.
        **params: passed on to the function.

    Raises AssertionError, naming the check that failed.
    """
    case = Case(function, [to_float64(x, device) for x in inputs], differentiable, params)
    try:
        _check_all(case, reference, second_order, every_kept, rtol)
    except AssertionError as error:
        error.args = (f"{case.name}: {error}",)
        raise


def _check_all(
    case: Case, reference: Callable[..., Any] | None, second_order: bool, every_kept: bool, rtol: float
) -> None:
    if reference is not None:
        check_values(case, reference, rtol)
    check_unchanged(case)
    check_float32(case)
    check_layouts(case)
    if not case.places:
        return
    check_first_order(case)
    if second_order:
        check_second_order(case)
    check_create_graph(case)
    with named("the fast pair against the formula"):
        check_fused(case, second_order)
    check_released(case)
    if every_kept and all(x.size for x in case.inputs if isinstance(x, Tensor)):
        unread = [name for name, needed in needed_by(case).items() if not needed]
        if unread:
            raise AssertionError(f"kept arrays: {', '.join(unread)} kept until backward, but not needed there")


class Case:
    """A function with its inputs in float64, and which of these are differentiated.

    Attributes:
        places: the places of the inputs that are differentiated.
        expected: the results, and the gradients of an ordinary backward pass, computed once.
        name, names: the names of the function and of its inputs in errors.
    """

    def __init__(
        self, function: Callable[..., Any], inputs: list[Any], places: Sequence[int] | None, params: Any
    ) -> None:
        self.function, self.inputs, self.params = function, inputs, params
        if places is None:
            places = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.dtype.kind == "f"]
        self.places = list(places)
        op = getattr(function, "op", None)
        self.name = op.name if op else getattr(function, "__name__", "the function")
        numbers = range(len(inputs))
        self.names = [f"input {i}" for i in numbers]
        if op:
            self.names = [f"{op.inputs[0]}[{i}]" for i in numbers] if op.variadic else list(op.inputs)

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

    def results(self, *inputs: Any) -> list[Tensor]:
        """The results that are floats."""
        return [out for out in self(*inputs) if out.dtype.kind == "f"]

    def floating(self, *inputs: Any) -> list[Tensor]:
        """The results that have gradients."""
        return _recorded(self(*inputs))

    def backward(
        self, leaves: list[Any], outs: list[Tensor], create_graph: bool = False, ones: bool = False
    ) -> list[Any]:
        """The gradients of the leaves, from the incoming gradients that `_incoming` gives, or from ones."""
        wanted = [leaves[i] for i in self.places]
        incoming = [tt.ones_like(out) for out in outs] if ones else _incoming(outs)
        return list(grad(outs, wanted, incoming, create_graph=create_graph, allow_unused=True))

    def gradients(self, leaves: list[Any], create_graph: bool = False) -> list[Any]:
        """The gradients of the leaves."""
        return self.backward(leaves, self.floating(*leaves), create_graph)

    def both(self, leaves: list[Any]) -> tuple[list[Tensor], list[Any]]:
        """The results, and the gradients of the leaves, none where nothing is differentiated."""
        results = self(*leaves)
        return results, self.backward(leaves, _recorded(results)) if self.places else []

    @cached_property
    def expected(self) -> tuple[list[Tensor], list[Any]]:
        leaves = self.leaves()
        results = self(*leaves)
        copies = [tt.tensor(out) for out in results]  # before backward could write into them
        return copies, self.backward(leaves, _recorded(results)) if self.places else []


def _recorded(results: Sequence[Tensor]) -> list[Tensor]:
    return [out for out in results if out._node is not None]


def _incoming(outs: Sequence[Tensor]) -> list[Tensor]:
    """Gradients to begin with: random, and the same in every call."""
    generator = tt.random.Generator(0)
    return [generator.normal(o.shape, dtype=dtypes.float64, device=o.device).to(o.dtype) for o in outs]


def to_float64(x: Any, device: str | None = None) -> Any:
    """An input as a Tensor without a history, floats in float64; numbers as they are."""
    if not hasattr(x, "dtype"):
        return x
    x = tt.asarray(x, device=device)
    return tt.astype(x.detach(), dtypes.float64, copy=False) if x.dtype.kind == "f" else x.detach()


@contextmanager
def named(check: str) -> Iterator[None]:
    """Errors inside become an AssertionError that names the check."""
    try:
        yield
    except Exception as error:
        text = str(error)
        raise AssertionError(text if text.startswith(f"{check}: ") else f"{check}: {text}") from error


def same(check: str, found: Any, expected: Any, rtol: float = 1e-10, atol: float = 1e-10) -> None:
    found, expected = (x.detach().numpy() if isinstance(x, Tensor) else np.asarray(x) for x in (found, expected))
    if found.shape != expected.shape:
        raise AssertionError(f"{check}: shape {found.shape}, expected {expected.shape}")
    if np.array_equal(found, expected):
        return
    wrong = ~np.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = f"element [{', '.join(map(str, place))}] is" if place else "it is"
        several = f" ({np.count_nonzero(wrong)} of {found.size} elements are off)" if found.size > 1 else ""
        raise AssertionError(f"{check}: {where} {found[place]}, expected {expected[place]}{several}")


STEP, CLOSER = 1e-6, 1e-7


def check_slopes(case: Case) -> None:
    """Each result's gradient is finite, and lies between the slopes to both sides, where these are.

    To the sides of each element; and of all at once, if none is 0, since equal elements share what moves them together.
    """
    arrays = {i: np.array(case.inputs[i].numpy()) for i in case.places}
    flat = np.concatenate([x.reshape(-1) for x in arrays.values()])

    def results(way: np.ndarray, step: float) -> np.ndarray:
        numbers = np.where(way != 0, flat + step, flat)  # -0 stays -0
        parts = np.split(numbers, np.cumsum([x.size for x in arrays.values()])[:-1])
        moved = {i: wrap(part.reshape(x.shape), None) for (i, x), part in zip(arrays.items(), parts)}
        with no_grad():
            outs = case.results(*[moved.get(i, x) for i, x in enumerate(case.inputs)])
        return np.concatenate([out.numpy().reshape(-1) for out in outs] or [np.zeros(0)])

    here = results(np.zeros_like(flat), 0.0)
    if not here.size or not np.isfinite(here).all():
        return
    jacobian = _jacobian(case)
    infinite = np.isinf(jacobian).any(axis=0)  # a slope without bounds, as that of sqrt at 0
    for way in [*np.eye(flat.size)[~infinite], *([np.ones(flat.size)] if flat.all() else [])]:
        sides = [[(results(way, s * h) - here) / (s * h) for h in (STEP, CLOSER)] for s in (-1, 1)]
        near = np.array([close for _, close in sides])  # (sides, results)
        known = np.array([abs(far - close) <= 1e-3 * (1 + abs(close)) for far, close in sides])  # no jump, not infinite
        bound = 1e-4 * (1 + np.max(np.where(known, abs(near), 0.0), axis=0))
        slope = np.sum(jacobian[:, way != 0], axis=1)
        outside = (slope < np.min(near, axis=0) - bound) | (slope > np.max(near, axis=0) + bound)
        wrong = known.any(axis=0) & (~np.isfinite(slope) | (known.all(axis=0) & outside))
        if wrong.any():
            k = int(np.argmax(np.where(wrong, np.max(abs(near), axis=0), -1.0)))
            what = "with all elements" if way.all() else f"at {flat[way != 0][0]:.6g}"
            raise AssertionError(
                f"with {_kinds_of(flat)} a result's slope {what} is {slope[k]:.6g}; to both sides it is "
                f"{near[0, k]:.6g} and {near[1, k]:.6g}"
            )


def _jacobian(case: Case) -> np.ndarray:
    """The derivatives of each element of the results (results, elements of the inputs that are differentiated)."""
    leaves = case.leaves()
    outs = case.results(*leaves)
    rows = []
    for place, out in enumerate(outs):
        for k in range(out.size):
            incoming = [tt.asarray(np.eye(o.size)[k].reshape(o.shape)) * (i == place) for i, o in enumerate(outs)]
            found = grad(outs, [leaves[i] for i in case.places], incoming, retain_graph=True, allow_unused=True)
            parts = [tt.zeros(leaves[i].shape) if g is None else g for i, g in zip(case.places, found)]
            rows.append(np.concatenate([part.numpy().reshape(-1) for part in parts]))
    return np.array(rows)


def _kinds_of(flat: np.ndarray) -> str:
    """What is special about the elements of the inputs, in words."""
    return "zeros" if not flat.any() else "some zeros" if not flat.all() else "equal elements"


def check_values(case: Case, reference: Callable[..., Any], rtol: float) -> None:
    given = [np.array(x.numpy()) if isinstance(x, Tensor) else x for x in case.inputs]
    expected = reference(*given, **case.params)
    with named("forward"):
        found = case(*case.leaves())
    for out, want in zip(found, expected if isinstance(expected, (tuple, list)) else [expected], strict=True):
        same("forward against the reference", out, want, rtol, 1e-12)


def check_unchanged(case: Case) -> None:
    """Neither forward nor backward writes into what it was given."""
    for create_graph in (False, True):
        leaves = case.leaves()
        before = [as_bytes(x) for x in leaves]
        if case.places:
            outs = case.floating(*leaves)
            g = _incoming(outs)
            wanted = [leaves[i] for i in case.places]
            with named("backward"):
                grad(outs, wanted, g, create_graph=create_graph, allow_unused=True)
            if [as_bytes(x) for x in g] != [as_bytes(x) for x in _incoming(outs)]:
                raise AssertionError("backward: the incoming gradient was changed")
        else:
            case(*leaves)
        for i, x in enumerate(leaves):
            if as_bytes(x) != before[i]:
                raise AssertionError(f"{case.names[i]} was changed")


def as_bytes(x: Any) -> Any:
    return x.detach().numpy().tobytes() if isinstance(x, Tensor) else x


def check_float32(case: Case) -> None:
    wide, wide_gradients = case.expected
    leaves = case.leaves(dtypes.float32)
    narrow = case(*leaves)
    for out64, out32 in zip(wide, narrow):
        expected = {dtypes.float64: dtypes.float32, dtypes.complex128: dtypes.complex64}.get(out64.dtype, out64.dtype)
        has_floats = any(isinstance(x, Tensor) and x.dtype.kind == "f" for x in case.inputs)
        if has_floats and out32.dtype != expected:
            raise AssertionError(f"float32: inputs in float32 give a result in {out32.dtype}, expected {expected}")
    if not case.places:
        return
    outs = _recorded(narrow)
    with named("float32 backward"):
        for node in nodes_of(outs):
            _check_rule_dtype(node, outs[0].device)
        narrow_gradients = case.backward(leaves, outs)
    for i, found, wanted in zip(case.places, narrow_gradients, wide_gradients):
        if found is None:
            continue
        if (found.shape, found.dtype, found.device) != (leaves[i].shape, dtypes.float32, leaves[i].device):
            raise AssertionError(
                f"float32: the gradient of {case.names[i]} is {found.shape} {found.dtype} on {found.device}, "
                f"expected {leaves[i].shape} float32 on {leaves[i].device}"
            )
        scale = float(np.max(np.abs(wanted.numpy()), initial=1.0))
        same(f"float32: the gradient of {case.names[i]}", found, wanted, 1e-3, 1e-3 * scale)


def _check_rule_dtype(node: Node, device: str) -> None:
    """A rule computes in the dtype it is given: the engine would cast a wider result back, at a price."""
    if node.op is None or any(p is not None and p.dtype != node.dtype for p in node.parents):
        return
    g = tt.ones(node.shape, dtype=node.dtype, device=device)._data
    for i, found in enumerate(op_vjp(node, node.op, g, node.parents, False)):
        if found is not None and found.dtype != node.dtype:
            name = f"input {i}" if node.op.variadic else node.op.inputs[i]
            raise AssertionError(f"the gradient of {node.name} with respect to {name} comes in {found.dtype}")


def check_layouts(case: Case) -> None:
    """The same values in strided, reversed and column-major memory."""
    expected, gradients = case.expected
    for layout, lay in (("strided", _strided), ("reversed", _reversed), ("column-major", _column_major)):
        leaves = []
        for i, x in enumerate(case.inputs):
            if isinstance(x, Tensor):
                x = wrap(lay(x._data), None).requires_grad_(i in case.places)
            leaves.append(x)
        with named(f"{layout} inputs"):
            found, found_gradients = case.both(leaves)
        for a, b in zip([*found, *found_gradients], [*expected, *gradients]):
            if a is not None:
                same(f"{layout} inputs", a, b)


def check_broadcast_views(case: Case) -> None:
    """One row repeated without a copy gives the same results as copies of it."""
    views, copies = [], []
    for i, x in enumerate(case.inputs):
        if isinstance(x, Tensor) and x.ndim and x.shape[0]:
            view = tt.broadcast_to(x[:1], x.shape)
            views.append(wrap(view._data, None).requires_grad_(i in case.places))
            copies.append(view.clone().requires_grad_(i in case.places))
        else:
            views.append(x)
            copies.append(x)
    try:
        expected = case(*copies)
    except (ValueError, ArithmeticError):
        return  # it takes no equal rows, like the inverse of a matrix
    with named("broadcast views"):
        found = case(*views)
    for a, b in zip(found, expected):
        same("broadcast views", a, b)


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


def check_first_order(case: Case) -> None:
    """The gradients are those that differences give."""
    gradcheck(case.results, case.leaves(), names=case.names)


def check_second_order(case: Case) -> None:
    """The gradients of the gradients are those that differences give."""
    with named("second order"):
        gradgradcheck(case.results, case.leaves(), names=case.names)


def check_create_graph(case: Case) -> None:
    recorded = case.gradients(case.leaves(), create_graph=True)
    for i, a, b in zip(case.places, case.expected[1], recorded):
        if (a is None) != (b is None):
            raise AssertionError(f"create_graph: the gradient of {case.names[i]} is {b}, without it {a}")
        if a is not None:
            same(f"create_graph: the gradient of {case.names[i]}", b, a)


def check_fused(case: Case, second_order: bool) -> None:
    outs = case.floating(*case.leaves())
    if all(node.op is None or node.op.pure for node in nodes_of(outs)):
        return
    with textbook():
        expected, slow = case.both(case.leaves())
    labels = [*["result"] * len(expected), *[f"gradient of {case.names[i]}" for i in case.places]]
    for label, a, b in zip(labels, [*case.expected[0], *case.expected[1]], [*expected, *slow], strict=True):
        if b is not None:
            same(label, a, b, 1e-9)
    if second_order:
        found = _second(case)
        with textbook():
            wanted = _second(case)
        for a, b in zip(found, wanted):
            same("second order", a, b, 1e-8, 1e-9)


def _second(case: Case) -> list[Any]:
    leaves = case.leaves()
    first = [f for f in case.gradients(leaves, create_graph=True) if f is not None and f._node is not None]
    if not first:
        return []
    weights = [tt.ones_like(f) for f in first]
    found = grad(first, [leaves[i] for i in case.places], weights, allow_unused=True)
    return [f for f in found if f is not None]


def nodes_of(outs: Sequence[Tensor]) -> list[Node]:
    seen: dict[Node, None] = {}
    stack = [out._node for out in outs]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen[node] = None
            stack.extend(node.parents)
    return list(seen)


def check_released(case: Case) -> None:
    """Whatever is not kept may be overwritten after the forward pass without harm to the gradient."""
    expected = case.expected[1]
    leaves = case.leaves()
    outs = case.floating(*leaves)
    kept = [a for node in nodes_of(outs) for _, a in kept_arrays(node)]
    for node in nodes_of(outs):
        if node.op is not None and not node.op.pure:
            kept += [saved.value for saved in node.saved() if type(saved.value) in NAMESPACES]
    needed = {for_array(a).storage(a) for a in kept}
    for tensor in [*[leaves[i] for i in case.places], *outs]:
        array = tensor._data
        if array.base is None and for_array(array).storage(array) not in needed:
            array[...] = np.nan
    for i, found, wanted in zip(case.places, case.backward(leaves, outs), expected):
        if wanted is not None:
            same(f"the gradient of {case.names[i]} reads an array that is not kept", found, wanted)


def kept_needed(
    function: Callable[..., Any], *inputs: Any, differentiable: Sequence[int] | None = None, **params: Any
) -> dict[str, bool]:
    """For each array that is kept until backward, as `op.name`: True if the gradient for these inputs depends on it.

    The arguments are those of `check_op`.
    """
    return needed_by(Case(function, [to_float64(x, None) for x in inputs], differentiable, params))


def needed_by(case: Case) -> dict[str, bool]:
    expected = case.expected[1]
    count = sum(len(kept_arrays(node)) for node in nodes_of(case.floating(*case.leaves())))
    needed: dict[str, bool] = {}
    for place in range(count):
        for spoil in _SPOILERS:
            leaves = case.leaves()
            outs = case.floating(*leaves)
            node, label, array = [(node, *kept) for node in nodes_of(outs) for kept in kept_arrays(node)][place]
            if array.size == 0:
                continue
            _replace_kept(node, array, spoil(array))
            name = f"{node.name}.{label}"
            needed[name] = needed.get(name, False) or _changes(case, leaves, outs, expected)
    return needed


_SPOILERS: list[Callable[[Any], Any]] = [
    lambda a: a * np.nan if a.dtype.kind == "f" else a ^ True if a.dtype.kind == "b" else a * 0,
    lambda a: -1.0 - a if a.dtype.kind == "f" else a ^ True if a.dtype.kind == "b" else a * 0 + 1,
]


def kept_arrays(node: Node) -> list[tuple[str, Any]]:
    """The names and arrays that backward of a node reads."""
    if node.op is None:
        return []
    read = node.saved() if node.op.pure else [s for s in node.saved() if s.name.startswith("residual ")]
    return [(saved.name, saved.value) for saved in read if type(saved.value) in NAMESPACES]


def _replace_kept(node: Node, old: Any, new: Any) -> None:
    def replaced(value: Any) -> Any:
        return tuple(replaced(v) for v in value) if isinstance(value, tuple) else new if value is old else value

    if node.op is not None and node.op.pure:
        node.kept = {name: replaced(value) for name, value in (node.kept or {}).items()}
    else:
        node.residuals = replaced(tuple(node.residuals or ()))


def _changes(case: Case, leaves: list[Any], outs: list[Tensor], expected: list[Any]) -> bool:
    """True if the gradients are not the expected ones, or fail."""
    try:
        with np.errstate(all="ignore"):
            found = case.backward(leaves, outs)
    except RuntimeError:
        return True
    pairs = [(a.numpy(), b.numpy()) for a, b in zip(found, expected) if b is not None]
    return not all(np.allclose(a, b, rtol=1e-10, atol=1e-10) for a, b in pairs)
