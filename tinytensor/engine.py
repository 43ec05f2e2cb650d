"""The engine: carries gradients from results back to what they were computed from (reverse mode).

It does every chore once, so that no gradient rule has to: the order (later nodes first, no recursion, so a chain may
be a million long), the restriction to what leads to a wanted gradient, summing over broadcast axes, the dtype of the
input, accumulation where paths join, freeing what was kept, and the errors.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import tinytensor as tt

from . import dtypes
from .backend import NAMESPACES, for_array
from .checkpoint import Recomputation, restore
from .modes import set_grad_enabled, state
from .node import Node, is_finite, written_since
from .primitive import Primitive, describe
from .recording.tracing import Statistics, Step
from .tensor import Tensor, wrap

FLOAT16 = dtypes.float16

TENSORS: Any = tt  # the namespace that rules get as `xp` when they run on Tensors


def backward(output: Tensor, gradient: Any, retain_graph: bool | None, create_graph: bool) -> None:
    """What `Tensor.backward` does; see there."""
    seeds = [(_node_of(output, "backward"), _seed(output, gradient, "backward"))]
    _run(seeds, None, create_graph if retain_graph is None else retain_graph, create_graph)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> Any:
    """Gradients of the outputs' weighted sum with respect to the inputs; no `.grad` is touched.

    Args:
        outputs: a Tensor or several.
        inputs: a Tensor or several; computed Tensors are allowed, and gradients are not carried beyond them.
        grad_outputs: the weight of each output, of its shape; default 1 for outputs of one element.
        retain_graph: keep what the graph holds, so that it can be used again; default: as `create_graph`.
        create_graph: record the computation of the gradients, so that they can be differentiated in turn.
        allow_unused: give None for an input that the outputs do not depend on, instead of raising.

    Returns a Tensor for a single input given as a Tensor, else a tuple, one for each input.
    """
    single = isinstance(inputs, Tensor)
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    sources = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    if grad_outputs is None or isinstance(outputs, Tensor):
        weights = [grad_outputs] if isinstance(outputs, Tensor) else [None] * len(sources)
        if isinstance(outputs, Tensor) and isinstance(grad_outputs, (tuple, list)) and len(grad_outputs) == 1:
            weights = list(grad_outputs)
    else:
        weights = list(grad_outputs)
    if len(weights) != len(sources):
        raise ValueError(f"grad: {len(sources)} outputs but {len(weights)} grad_outputs; expected one for each")
    seeds = [(_node_of(o, "grad"), _seed(o, w, "grad")) for o, w in zip(sources, weights)]
    nodes = []
    for i, tensor in enumerate(wanted):
        if tensor._node is None:
            raise RuntimeError(f"grad: input {i} {tensor.shape} does not require a gradient; set requires_grad=True")
        nodes.append(tensor._node)
    found = _run(seeds, nodes, create_graph if retain_graph is None else retain_graph, create_graph)
    results = []
    for i, (node, tensor) in enumerate(zip(nodes, wanted)):
        value = found.get(node)
        if value is None and not allow_unused:
            raise RuntimeError(
                f"grad: the outputs do not depend on input {i} {tensor.shape}, or the graph between them was used and "
                "freed; pass allow_unused=True to get None, or retain_graph=True to the first use"
            )
        results.append(value if value is None or isinstance(value, Tensor) else wrap(value, None))
    return results[0] if single else tuple(results)


def _node_of(output: Any, what: str) -> Node:
    if not isinstance(output, Tensor):
        raise TypeError(f"{what}: expected a Tensor, got {type(output).__name__}")
    if output._node is None:
        raise RuntimeError(
            f"{what}: nothing to differentiate: no input of this Tensor {output.shape} requires a gradient, "
            "or it was computed inside tt.no_grad(); set requires_grad=True on what you want gradients for"
        )
    return output._node


def _seed(output: Tensor, gradient: Any, what: str) -> Tensor:
    """The gradient to begin with, checked, as a Tensor of the output's dtype."""
    if gradient is None:
        if output.size != 1:
            raise RuntimeError(
                f"{what}: this Tensor has shape {output.shape}; without a gradient only a Tensor of one element can "
                "be differentiated: reduce it (for example with .sum()) or pass a gradient of its shape"
            )
        return tt.ones_like(output)
    given = gradient if isinstance(gradient, Tensor) else tt.asarray(gradient, dtype=output.dtype, device=output.device)
    if given.shape != output.shape:
        raise ValueError(f"{what}: the gradient has shape {given.shape}, the Tensor {output.shape}; they must agree")
    if type(given._data) is not type(output._data) and given.device != output.device:
        raise tt.DeviceError(f"{what}: the gradient is on {given.device}, the Tensor on {output.device}")
    return given if given.dtype == output.dtype else tt.astype(given, output.dtype)


def _run(
    seeds: list[tuple[Node, Tensor]], wanted: list[Node] | None, retain_graph: bool, create_graph: bool
) -> dict[Node, Any]:
    """Carry the seeds back. With `wanted` None, fill the `.grad` of leaves; else return the wanted nodes' gradients.

    Gradients are raw arrays, or Tensors when `create_graph` is on.
    """
    nodes = _reachable([node for node, _ in seeds])
    needed = None if wanted is None else _leading_to(nodes, wanted)
    pending: dict[Node, Any] = {}
    fresh: set[Node] = set()  # nodes whose pending gradient is a buffer that nobody else holds
    results: dict[Node, Any] = {}
    targets = frozenset(wanted or ())
    turn = 1
    with set_grad_enabled(create_graph):
        for node, seed in seeds:
            _add(pending, fresh, node, seed if create_graph else seed._data, False)
        for node in reversed(nodes):
            g = pending.pop(node, None)
            if g is None or (needed is not None and node not in needed):
                continue
            owned = node in fresh
            fresh.discard(node)
            if node.dtype is FLOAT16 and g.dtype is not FLOAT16:
                g = g.astype(FLOAT16)
            if node.hooks:
                g, owned = _call_hooks(node, g), False
            if node in targets:
                results[node] = g if owned or create_graph else for_array(g).copy(g)
            if wanted is None and node.retains_grad:
                _collect(node, g, owned, create_graph)
            if node.op is None:
                if turn > 1:  # a recorded op led here
                    node.arrived = Statistics.of(getattr(g, "_data", g))
                continue
            parents = node.parents
            if needed is not None:
                parents = tuple([p if p is not None and p in needed else None for p in parents])
                if node in targets and not any(parents):
                    continue  # gradients are not carried beyond it, so it stays whole
            if type(node.kept) is Recomputation:
                restore(node)
            if node.kept is None:
                raise RuntimeError(
                    f"backward: the graph behind {node.name} {tuple(node.shape)} was already used and freed; "
                    "pass retain_graph=True to the first backward or grad to use it again"
                )
            began = time.perf_counter() if node.traced else 0.0
            contributions = _gradients(node, node.op, g, parents, create_graph)
            if node.traced:
                step = Step.of(turn, g, contributions, parents, time.perf_counter() - began)
                node.step, turn = step, turn + 1  # type: ignore[attr-defined]
            for i, contribution in enumerate(contributions):
                parent = parents[i]
                if parent is None or contribution is None:
                    continue
                if not create_graph and type(contribution) not in NAMESPACES:  # NumPy's reductions give scalars
                    contribution = for_array(g).asarray(contribution)
                if contribution.shape != parent.shape or contribution.dtype is not parent.dtype:
                    contribution = _fit(contribution, parent, node, i)
                new = not create_graph and _is_new(contribution, g, node, contributions, i)
                if state.anomaly and not is_finite(getattr(contribution, "_data", contribution)):
                    raise FloatingPointError(
                        f"backward: the gradient of {node.name} {tuple(node.shape)} with respect to its input {i} is "
                        f"not finite (the op was called at {node.origin or 'an unrecorded line'})"
                    )
                _add(pending, fresh, parent, contribution, new)
            if not retain_graph:
                node.kept = None
                node.parents = ()
    return results


def _reachable(roots: list[Node]) -> list[Node]:
    """Every node behind the roots, earliest first."""
    seen = set(roots)
    stack = list(seen)
    while stack:
        for parent in stack.pop().parents:
            if parent is not None and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return sorted(seen, key=attrgetter("serial"))


def _leading_to(nodes: list[Node], wanted: list[Node]) -> set[Node]:
    needed = set(wanted)
    for node in nodes:
        freed = node.op is not None and node.kept is None  # nobody knows where it led: going through it must raise
        if freed or any(parent in needed for parent in node.parents if parent is not None):
            needed.add(node)
    return needed


def _gradients(node: Node, op: Primitive, g: Any, parents: tuple[Node | None, ...], create_graph: bool) -> Any:
    """The gradient of each input of a node; None for those without a parent."""
    if node.dtype.kind == "c" or g.dtype.kind == "c":
        raise NotImplementedError(
            f"backward: {op.name} is complex {tuple(node.shape)}; complex gradients are not supported"
        )
    _check_versions(node, op)
    try:
        if not op.pure:
            if create_graph:
                return _formula_gradients(node, op, g, parents)
            _, residuals = node.kept
            needs = tuple([p is not None for p in parents])
            params = {**op.defaults, **node.params}
            results = op.fast_backward(NAMESPACES[type(g)], g, residuals, needs, **params)  # type: ignore[misc]
            if len(results) != len(parents):
                raise RuntimeError(f"its backward gave {len(results)} gradients for {len(parents)} inputs")
        else:
            results = _rule_gradients(node, op, g, parents, create_graph)
        for i, (result, parent) in enumerate(zip(results, parents)):
            if result is None and parent is not None:
                name = op.inputs[0 if op.variadic else i]
                raise RuntimeError(f"it gave None for its input {name!r}, which needs a gradient")
        return results
    except Exception as error:
        if isinstance(error, FloatingPointError) and state.anomaly:
            raise
        at = f", called at {node.origin}" if node.origin else ""
        kind = NotImplementedError if isinstance(error, NotImplementedError) else RuntimeError
        raise kind(
            f"backward: the gradient of {op.name} (result {tuple(node.shape)} {node.dtype}, gradient {describe(g)}{at})"
            f" failed: {error}"
        ) from error


def _rule_gradients(node: Node, op: Primitive, g: Any, parents: tuple[Node | None, ...], create_graph: bool) -> Any:
    mask = 0
    for i, parent in enumerate(node.parents):
        if parent is not None:
            mask |= 1 << i
    names = op.keepers[mask].names
    kept = node.kept
    xp = TENSORS if create_graph else NAMESPACES[type(g)]
    if create_graph:
        kept = [_rewrap(op, node, name, value) for name, value in zip(names, kept)]
    values = dict(zip(names, kept))
    values["g"] = g
    values.update(op.defaults)
    values.update(node.params)
    results: list[Any] = [None] * len(parents)
    for i, parent in enumerate(parents):
        if parent is None:
            continue
        name = op.inputs[0 if op.variadic else i]
        found = op.rules.get(name)
        if found is None:
            raise NotImplementedError(f"{op.name} has no gradient rule for its input {name!r}")
        rule, reads = found
        values["xp"], values["shape"], values["index"] = xp, parent.shape, i
        results[i] = rule(*[values[r] for r in reads])
    return results


def _rewrap(op: Primitive, node: Node, name: str, value: Any) -> Any:
    """A kept array as a Tensor that points to where it came from, so that derivatives flow on through it."""
    if name == "out":
        return wrap(value, node)
    if op.variadic:
        return tuple(_as_tensor(v, p) for v, p in zip(value, node.parents))
    return _as_tensor(value, node.parents[op.inputs.index(name)])


def _as_tensor(value: Any, node: Node | None) -> Any:
    return wrap(value, node) if hasattr(value, "dtype") else value


def _formula_gradients(node: Node, op: Primitive, g: Tensor, parents: tuple[Node | None, ...]) -> Any:
    """Differentiate a fused op's formula, on its own inputs, in a way that can be differentiated again.

    The formula is computed on stand-ins for the inputs, so that its graph ends there; the gradients it leads to are
    functions of these, and reconnecting the stand-ins to the real parents makes them functions of the real inputs.
    """
    inputs = [_as_tensor(v, p) for v, p in zip(node.kept[0], node.parents)]
    # An input's own node may have further history; `positive` gives it a node of its own to stop at.
    stops = [tt.positive(x) if p is not None else x for x, p in zip(inputs, parents)]
    result = op.function(*stops, **node.params)
    places = [i for i, p in enumerate(parents) if p is not None]
    found = grad(result, [stops[i] for i in places], g, create_graph=True, allow_unused=True)
    results: list[Any] = [None] * len(parents)
    for i, value in zip(places, found):
        results[i] = value
    return results


def _check_versions(node: Node, op: Primitive) -> None:
    kept = node.kept
    if not op.pure:
        kept = (*kept[0], *(r for r in kept[1] if hasattr(r, "dtype"))) if kept[1] else kept[0]
    elif op.variadic:
        kept = [a for k in kept for a in (k if isinstance(k, tuple) else (k,))]
    stale = written_since(node.renewed or node.serial, kept)
    if stale is not None:
        at = f" It was called at {node.origin}." if node.origin else " tt.detect_anomaly() shows where it was called."
        raise RuntimeError(
            f"backward: an array {describe(stale)} that {op.name} (result {tuple(node.shape)}) needs for its gradient "
            f"was changed in place after it was used. Change a copy, or change it after backward.{at}"
        )


def _call_hooks(node: Node, g: Any) -> Any:
    for hook in list((node.hooks or {}).values()):
        given = g if isinstance(g, Tensor) else wrap(_read_only(g), None)
        changed = hook(given)
        if changed is not None:
            if not isinstance(changed, Tensor) or changed.shape != node.shape:
                raise ValueError(
                    f"hook: expected None or a Tensor of shape {tuple(node.shape)}, got "
                    f"{describe(changed) if hasattr(changed, 'dtype') else type(changed).__name__}"
                )
            if changed.device != given.device:
                raise tt.DeviceError(f"hook: the gradient is on {given.device}, what it gave on {changed.device}")
            changed = changed if changed.dtype == node.dtype else tt.astype(changed, node.dtype)
            g = changed if isinstance(g, Tensor) else changed._data
    return g


def _read_only(array: Any) -> Any:
    """A view that a hook cannot write through, where the backend knows such views: the array may be shared."""
    view = array.view()
    if hasattr(view.flags, "writeable"):
        view.flags.writeable = False
    return view


def _fit(contribution: Any, parent: Node, node: Node, place: int) -> Any:
    """A gradient in the shape and dtype of the input it is for: summed over broadcast axes, and cast."""
    xp = TENSORS if isinstance(contribution, Tensor) else for_array(contribution)
    shape = parent.shape
    if contribution.shape != shape:
        extra = len(contribution.shape) - len(shape)
        stretched = tuple(range(extra)) + tuple(
            i + extra for i, n in enumerate(shape) if n == 1 and extra >= 0 and contribution.shape[i + extra] != 1
        )
        if extra >= 0 and all(n in (1, m) for n, m in zip(shape, contribution.shape[extra:])):
            contribution = xp.reshape(xp.sum(contribution, axis=stretched, keepdims=True), shape)
        else:
            raise RuntimeError(
                f"backward: {node.name} gave its input {place}, of shape {tuple(shape)}, a gradient of shape "
                f"{tuple(contribution.shape)}; a gradient rule must give the input's shape, or one it broadcasts to"
            )
    if contribution.dtype != parent.dtype:
        contribution = xp.astype(contribution, parent.dtype)
    return contribution


def _is_new(contribution: Any, g: Any, node: Node, contributions: Any, place: int) -> bool:
    """Whether nobody else can hold this array: not g, no view, nothing kept, not given to a second input."""
    if contribution is g or contribution.base is not None:
        return False
    for i, other in enumerate(contributions):
        if other is contribution and i != place:
            return False
    return all(contribution is not k for group in node.kept for k in (group if isinstance(group, tuple) else (group,)))


def _add(pending: dict[Node, Any], fresh: set[Node], node: Node, contribution: Any, new: bool) -> None:
    """Add to a node's pending gradient: the first is borrowed, the second allocates, later ones go in place.

    Those of float16 add up in float32 until the node's turn comes, since thousands of paths may join.
    """
    former = pending.get(node)
    if former is None:
        pending[node] = contribution
        if new:
            fresh.add(node)
    elif node in fresh and node.dtype is not FLOAT16:
        former += contribution
    else:
        if node.dtype is FLOAT16:
            former = former.astype(dtypes.float32, copy=False)
        pending[node] = former + contribution
        if not isinstance(contribution, Tensor):
            if type(pending[node]) is not type(contribution):
                pending[node] = for_array(contribution).asarray(pending[node])
            fresh.add(node)


def _collect(node: Node, g: Any, owned: bool, create_graph: bool) -> None:
    """Add a gradient to the `.grad` of a leaf (or of a Tensor that asked for it), which never shares memory."""
    if node.grad is not None:
        with set_grad_enabled(create_graph):
            node.grad = node.grad + (g if isinstance(g, Tensor) else wrap(g, None))
    elif create_graph:
        node.grad = tt.positive(g)
    else:
        node.grad = wrap(g if owned else for_array(g).copy(g), None)
