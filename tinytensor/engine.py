"""The engine: reverse mode, the chain rule from results back to what they were computed from.

An op y = f(x) with the Jacobian J passes on g J, the vector-Jacobian product of the gradient g that arrived for y. No J
is ever built: each op's rules compute the product. All else is a chore that the engine does once, so that no rule has
to: the order (later nodes first, no recursion, so a chain may be a million long), the restriction to what leads to a
wanted gradient, un-broadcasting, the dtype of the input, adding up where paths join, freeing what was saved, errors.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

import tinytensor as tt

from . import dtypes
from .backend import NAMESPACES, for_array, is_finite
from .messages import describe
from .modes import state
from .node import Node, stale
from .primitive import Primitive
from .tensor import Tensor, wrap

FLOAT16 = dtypes.float16

collecting = threading.RLock()  # several threads may carry gradients back to one leaf
TENSORS: Any = tt  # the namespace that rules get as `xp` when they run on Tensors


def backward(output: Tensor, gradient: Any, retain_graph: bool | None, create_graph: bool) -> None:
    """The work of `Tensor.backward`; see there."""
    seeds = [(node_of(output, "backward"), seed_of(output, gradient, "backward"))]
    run(seeds, None, create_graph if retain_graph is None else retain_graph, create_graph)


def run(
    seeds: list[tuple[Node, Tensor]], targets: list[Node] | None, retain_graph: bool, create_graph: bool
) -> dict[Node, Any]:
    """Carry the seeds back. With `targets` None, fill the `.grad` of leaves; else return the targets' gradients.

    Gradients are raw arrays, or Tensors when `create_graph` is on.
    """
    nodes = reachable([node for node, _ in seeds])
    useful = None if targets is None else _leading_to(nodes, targets)
    before = state.change(grad_enabled=create_graph)
    try:
        return _carry_back(nodes, useful, seeds, frozenset(targets or ()), retain_graph, create_graph)
    finally:
        state.change(**before)


def _carry_back(
    nodes: list[Node],
    useful: set[Node] | None,
    seeds: list[tuple[Node, Tensor]],
    targets: frozenset[Node],
    retain_graph: bool,
    create_graph: bool,
) -> dict[Node, Any]:
    """The chain rule: each node passes on what arrived, times its Jacobian, to the nodes it was computed from."""
    arrived, results, witness = Arrived(), {}, None
    for node, seed in seeds:
        arrived.add(node, seed if create_graph else seed._data, False)
    for node in reversed(nodes):  # the latest first: all that leads to a node has had its turn before it
        if node not in arrived or (useful is not None and node not in useful):
            continue
        g, owned = arrived.take(node)
        if node.hooks:
            g, owned = tt.hooks.call(node, g), False
        if node in targets:
            results[node] = g if owned or create_graph else for_array(g).copy(g)
        elif node.retains_grad and useful is None:
            _collect(node, g, owned)
        witness = witness or node.witness
        parents = node.parents if useful is None else tuple([p if p in useful else None for p in node.parents])
        if node.op is None or (node in targets and not any(parents)):
            if witness is not None:
                witness.arrived(node, g)
            continue
        vjp = op_vjp if witness is None else witness.watched(op_vjp)
        gradients = vjp(node, node.op, g, parents, create_graph)
        for i, (parent, gradient) in enumerate(zip(parents, gradients)):
            if parent is not None and gradient is not None:
                fitted = _fit(gradient, parent, node, i)
                arrived.add(parent, fitted, not create_graph and _is_new(fitted, g, node, gradients, i))
        if not retain_graph:
            node.free()
    return results


def reachable(roots: list[Node]) -> list[Node]:
    """Every node behind the roots, earliest first."""
    seen = set(roots)
    stack = list(seen)
    while stack:
        for parent in stack.pop().parents:
            if parent is not None and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return sorted(seen, key=attrgetter("serial"))


def _leading_to(nodes: list[Node], targets: list[Node]) -> set[Node]:
    """The nodes from which a path leads to a target; `nodes` come earliest first."""
    useful = set(targets)
    for node in nodes:
        # Nobody knows where a freed node led: going through it must raise.
        if (node.op is not None and node.freed) or any(p in useful for p in node.parents if p is not None):
            useful.add(node)
    return useful


class Arrived(dict[Node, Any]):
    """Gradients on their way: for each node, the sum of what has arrived so far.

    They are added into the first buffer that nobody else holds, or into a new one: this class alone knows who owns a
    buffer. float16 gradients add up in float32 until the node's turn comes, since thousands of paths may join.
    """

    def __init__(self) -> None:
        super().__init__()
        self._owned: set[Node] = set()  # nodes whose sum is a buffer that nobody else holds

    def add(self, node: Node, gradient: Any, owned: bool) -> None:
        """Add what one more path brings to a node; `owned` says that nobody else holds the gradient's buffer."""
        total = self.get(node)
        if total is None:
            self[node] = gradient
            if owned:
                self._owned.add(node)
        elif (owned or node in self._owned) and node.dtype is not FLOAT16:
            total, gradient = (total, gradient) if node in self._owned else (gradient, total)
            total += gradient
            self[node] = total
            self._owned.add(node)
        else:
            if node.dtype is FLOAT16:
                total = total.astype(dtypes.float32, copy=False)
            total = total + gradient
            if not isinstance(gradient, Tensor):
                total = total if type(total) is type(gradient) else for_array(gradient).asarray(total)
                self._owned.add(node)
            self[node] = total

    def take(self, node: Node) -> tuple[Any, bool]:
        """The sum, in the dtype of the node, and whether its buffer is the caller's to keep."""
        g, owned = self.pop(node), node in self._owned
        if owned:
            self._owned.remove(node)
        return (g.astype(FLOAT16) if node.dtype is FLOAT16 and g.dtype is not FLOAT16 else g), owned


def _is_new(gradient: Any, g: Any, node: Node, gradients: Sequence[Any], place: int) -> bool:
    """True if nobody else can hold this array: not g, no view, nothing saved, not given to a second input."""
    if gradient is g or type(gradient.base) is type(gradient):
        return False
    for i, other in enumerate(gradients):
        if other is gradient and i != place:
            return False
    for value in (*node.kept.values(), *(node.residuals or ())):  # type: ignore[union-attr]
        if value is gradient or (type(value) is tuple and id(gradient) in map(id, value)):
            return False
    return True


def _collect(node: Node, g: Any, owned: bool) -> None:
    """Add a gradient to the `.grad` of a leaf (or of a Tensor that asked for it), which never shares memory."""
    with collecting:
        if node.grad is not None:
            node.grad = node.grad + (g if isinstance(g, Tensor) else wrap(g, None))
        elif isinstance(g, Tensor):
            node.grad = tt.positive(g)
        else:
            node.grad = wrap(g if owned else for_array(g).copy(g), None)


# ---- one op's vector-Jacobian product


def op_vjp(node: Node, op: Primitive, g: Any, parents: tuple[Node | None, ...], create_graph: bool) -> Sequence[Any]:
    """The gradient of each input of a node, given that of its result; None for those without a parent."""
    node.restore()
    if node.kept is None:
        raise RuntimeError(
            f"backward: the graph behind {node.name} {tuple(node.shape)} was already used and freed; "
            "pass retain_graph=True to the first backward or grad to use it again"
        )
    check_versions(node, op)
    try:
        if node.dtype.kind == "c":
            gradients = tt.complex_gradients.vjp(_vjp_by_rules, node, op, g, parents, create_graph)
        elif op.pure:
            gradients = _vjp_by_rules(node, op, g, parents, create_graph)
        elif create_graph:
            gradients = _vjp_by_formula(node, op, g, parents)
        else:
            needs = tuple([p is not None for p in parents])
            params = {**op.defaults, **node.params}
            gradients = op.fast_backward(NAMESPACES[type(g)], g, node.residuals, needs, **params)
            if len(gradients) != len(parents):
                raise RuntimeError(f"its backward gave {len(gradients)} gradients for {len(parents)} inputs")
        for i, (gradient, parent) in enumerate(zip(gradients, parents)):
            if gradient is None and parent is not None and not (create_graph and not op.pure):
                raise RuntimeError(
                    f"it gave None for its input {op.inputs[0 if op.variadic else i]!r}, which needs a gradient"
                )
    except Exception as error:
        if isinstance(error, FloatingPointError) and state.anomaly:
            raise
        at = f", called at {node.origin}" if node.origin else ""
        kind = next((k for k in (NotImplementedError, MemoryError) if isinstance(error, k)), RuntimeError)
        raise kind(
            f"backward: the gradient of {op.name} (result {tuple(node.shape)} {node.dtype}, gradient {describe(g)}{at})"
            f" failed: {error}"
        ) from error
    return gradients


def _vjp_by_rules(node: Node, op: Primitive, g: Any, parents: tuple[Node | None, ...], create_graph: bool) -> list[Any]:
    """Apply the gradient rules: to raw arrays, or to Tensors if the gradient itself is to be differentiated."""
    xp = TENSORS if create_graph else NAMESPACES[type(g)]
    kept = _as_tensors(node, op) if create_graph else node.kept
    values = {**kept, "g": g, "xp": xp, **op.defaults, **node.params}  # type: ignore[dict-item]
    gradients: list[Any] = [None] * len(parents)
    for i, parent in enumerate(parents):
        if parent is None:
            continue
        name = op.inputs[0 if op.variadic else i]
        if name not in op.rules:
            raise NotImplementedError(f"{op.name} has no gradient rule for its input {name!r}")
        rule, reads = op.rules[name]
        values["shape"], values["index"] = parent.shape, i
        gradients[i] = rule(*[values[r] for r in reads])
    return gradients


def _as_tensors(node: Node, op: Primitive) -> dict[str, Any]:
    """The saved values, as Tensors that point to where they came from, so that derivatives flow on through them."""
    values: dict[str, Any] = {}
    for name, value, source in node.saved():
        tensor = wrap(value, source) if hasattr(value, "dtype") else value
        values[name] = (*values.get(name, ()), tensor) if op.variadic and name != "out" else tensor
    return values


def _vjp_by_formula(node: Node, op: Primitive, g: Tensor, parents: tuple[Node | None, ...]) -> list[Any]:
    """Differentiate a fused op's formula, on its own inputs, in a way that can be differentiated again.

    The formula is computed on stand-ins for the inputs, so that its graph ends there; the gradients it leads to are
    functions of these, and reconnecting the stand-ins to the real parents makes them functions of the real inputs.
    """
    inputs = [wrap(s.value, s.source) if hasattr(s.value, "dtype") else s.value for s in node.saved()[: len(parents)]]
    # An input's own node may have further history; `positive` gives it a node of its own to stop at.
    stops = [tt.positive(x) if p is not None else x for x, p in zip(inputs, parents)]
    result = op.function(*stops, **node.params)
    targets = [x._node if p is not None else None for x, p in zip(stops, parents)]
    found = run([(node_of(result, op.name), g)], [t for t in targets if t is not None], True, True)
    return [None if t is None else found.get(t) for t in targets]


def check_versions(node: Node, op: Primitive) -> None:
    array = stale(node)
    if array is not None:
        at = f" It was called at {node.origin}." if node.origin else " tt.detect_anomaly() shows where it was called."
        raise RuntimeError(
            f"backward: an array {describe(array)} that {op.name} (result {tuple(node.shape)}) needs for its gradient "
            f"was changed in place after it was used. Change a copy, or change it after backward.{at}"
        )


def _fit(gradient: Any, parent: Node, node: Node, place: int) -> Any:
    """A gradient in the shape and dtype of the input it is for: un-broadcast, and cast."""
    if type(gradient) not in NAMESPACES and not isinstance(gradient, Tensor):
        gradient = np.asarray(gradient)  # NumPy's reductions give scalars
    if state.anomaly and not is_finite(getattr(gradient, "_data", gradient)):
        bad = [s.name for s in node.saved() if hasattr(s.value, "dtype") and (s.value != s.value).any()]
        raise FloatingPointError(
            f"backward: the gradient of {node.name} {tuple(node.shape)} with respect to its input {place} is "
            f"not finite{f', as its {bad[0]} was NaN before' if bad else ''} "
            f"(the op was called at {node.origin or 'an unrecorded line'})"
        )
    if gradient.shape != parent.shape:
        gradient = _unbroadcast(gradient, parent.shape, node, place)
    if gradient.dtype != parent.dtype:
        gradient = (TENSORS if isinstance(gradient, Tensor) else for_array(gradient)).astype(gradient, parent.dtype)
    return gradient


def _unbroadcast(gradient: Any, shape: tuple[int, ...], node: Node, place: int) -> Any:
    """Sum a gradient over the axes along which the input was broadcast."""
    xp = TENSORS if isinstance(gradient, Tensor) else for_array(gradient)
    extra = len(gradient.shape) - len(shape)
    if extra < 0 or not all(n in (1, m) for n, m in zip(shape, gradient.shape[extra:])):
        raise RuntimeError(
            f"backward: {node.name} gave its input {place}, of shape {tuple(shape)}, a gradient of shape "
            f"{tuple(gradient.shape)}; a gradient rule must give the input's shape, or one it broadcasts to"
        )
    stretched = [i + extra for i, n in enumerate(shape) if n == 1 != gradient.shape[i + extra]]
    return xp.reshape(xp.sum(gradient, axis=(*range(extra), *stretched), keepdims=True), shape)


# ---- what goes in


def node_of(output: Any, what: str) -> Node:
    if not isinstance(output, Tensor):
        raise TypeError(f"{what}: expected a Tensor, got {type(output).__name__}")
    if output._node is None:
        raise RuntimeError(
            f"{what}: nothing to differentiate: no input of this Tensor {output.shape} requires a gradient, "
            "or it was computed inside tt.no_grad(); set requires_grad=True on what you want gradients for"
        )
    return output._node


def seed_of(output: Tensor, gradient: Any, what: str) -> Tensor:
    """The gradient to begin with, checked, as a Tensor of the output's dtype."""
    if gradient is None:
        if output._data.size != 1 or output._data.dtype.kind == "c":
            raise RuntimeError(
                f"{what}: this Tensor has shape {output.shape}, {output.dtype}; without a gradient only a real one of "
                "one element can be differentiated: reduce it (for example with .sum()) or pass a gradient of its shape"
            )
        return wrap(for_array(output._data).ones_like(output._data), None)
    seed = gradient if isinstance(gradient, Tensor) else tt.asarray(gradient, dtype=output.dtype, device=output.device)
    if seed.shape != output.shape:
        raise ValueError(f"{what}: the gradient has shape {seed.shape}, the Tensor {output.shape}; they must agree")
    if type(seed._data) is not type(output._data) and seed.device != output.device:
        raise tt.DeviceError(f"{what}: the gradient is on {seed.device}, the Tensor on {output.device}")
    return seed if seed.dtype == output.dtype else tt.astype(seed, output.dtype)
