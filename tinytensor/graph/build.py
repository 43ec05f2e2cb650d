"""From nodes to a `Structure`: the nodes of a recording, or those behind some Tensors."""

from __future__ import annotations

import dataclasses
import math
import re
import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..backend import for_array
from ..modes import state
from ..node import Node, leaf, written_since
from ..primitive import Primitive
from ..tensor import Tensor, wrap
from ..tracing import Recording, Statistics, TracedNode, Witness, formula_site, trace, version_of
from . import structure as s
from .cost import MOVEMENT, flops
from .program import Call, Program
from .short_text import cut, numbers_text, short

PATTERN = 12
"""The structure keeps the cells of masks of at most this many rows and columns."""

COMPARED = 1 << 16
"""Constants of at most this many bytes are compared by their numbers."""

DRAWN = 3
"""Formulas with fewer ops that compute (and not only move) are written, not drawn."""


def walk(roots: Iterable[Node]) -> list[Node]:
    """Every op behind the roots once, in the order of computation, so that a loop's turns can be folded.

    Raises RuntimeError if a part of the graph was freed (`record` keeps its part).
    """
    found: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in found and node.op is not None:
            check_whole(node)
            found.add(node)
            stack.extend(p for p in sources(node) if isinstance(p, Node))
    return sorted(found, key=lambda node: node.serial)


def check_whole(node: Node) -> None:
    """Raise RuntimeError if the graph behind a node was freed."""
    if node.traced:
        return
    node.restore()
    if node.freed:
        raise RuntimeError(
            f"draw: the graph behind {node.name} {tuple(node.shape)} was already used and freed; draw before "
            "backward, pass retain_graph=True to it, or compute within tt.record()"
        )


def sources(node: Node) -> tuple[Any, ...]:
    """Each input of an op: its node, or a plain number. Without a recording, None if no gradient flows to it."""
    return node.sources if isinstance(node, TracedNode) and node.sources is not None else node.parents


def needs(node: Node) -> tuple[bool, ...]:
    """For each input of an op, True if it requires a gradient from the op (also after the node was used and freed)."""
    if isinstance(node, TracedNode) and node.needs is not None:
        return tuple([need and wants_gradient(node) for need in node.needs])
    return tuple([parent is not None for parent in node.parents])


def wants_gradient(node: Node) -> bool:
    """True if gradients flow to a node (also after it was used and freed)."""
    return node.kept_before is not None if isinstance(node, TracedNode) and node.traced else True


class Builder:
    """Builds a `Structure` and gives ids to everything it meets; call `build` once.

    Args:
        names: the user's names for some Tensors.
        unfold: says of a fused op whether its formula replaces it.
    """

    def __init__(self, names: Iterable[tuple[str, Tensor]] = (), unfold: Callable[[Node], bool] = lambda _: False):
        self.names: dict[Node | int, str] = {}
        self._known: dict[Node, Any] = {}  # arrays of unrecorded nodes, as far as they are at hand
        self._seen: dict[Node, Any] = {}  # copies of the small ones among them
        self._read_at: dict[Node, int] = {}  # the tick of their first reader
        for name, tensor in names:
            self.names.setdefault(tensor._node or id(tensor._data), name)
            if tensor._node is not None:
                self._known[tensor._node] = tensor._data
        self.unfold = unfold
        self.nodes: dict[str, Node] = {}  # by id of the op
        self._ops: list[s.Op] = []
        self._values: list[s.Value] = []
        self._scopes: list[s.Scope] = []
        self._value_ids: dict[Node, str] = {}
        self._scope_ids: dict[Any, str] = {}
        self._arrived: dict[Node, tuple[Statistics, Witness | None]] = {}
        self._masks: set[str | None] = set()
        self._given_to_modules: set[Node] = set()
        self._noted: set[Any] = set()  # scopes whose arguments are among them
        self._versions: set[Node] = set()  # nodes of memory that was written later
        self._last_pass = 0
        self._read_in_pass: dict[Node, Node] = {}  # the version of a leaf's memory that gradients are of
        self._checkpoints = 0
        self._checkpointed: tuple[Any, int] = (None, 0)  # of the op before
        self._memories: dict[Any, str] = {}
        self._parameters: dict[Any, str] = {}  # by their memory
        self._given: dict[int, Node] = {}  # unrecorded nodes that require a gradient, by the id of their array

    def build(self, nodes: list[Any], roots: list[Node] | None) -> s.Structure:
        """The structure of ops, given in the order of computation; outputs are the roots, or else what is held."""
        for node in nodes:
            self._note_gradients(node)
            self._note_arrays(node)
            self._note_sources(node)
        for node in nodes:
            self._add(node, getattr(node, "scope", None))
        if roots is not None:
            outputs = [self._value(root) for root in roots]
        else:
            outputs = self._results(nodes)
        gradients = {op.output for op in self._ops if op.differentiable}
        for node, place in self._value_ids.items():
            i = int(place[1:]) - 1
            value = self._values[i]
            constant = value.kind == "constant" or (value.kind == "result" and place not in gradients)
            constant |= value.kind == "input" and value.dtype == "bool"
            if place in self._masks or (constant and value.nbytes <= COMPARED):
                self._values[i] = value = dataclasses.replace(value, checksum=_checksum(self._array(node)))
            if place not in self._masks and value.mask and value.dtype == "bool":
                self._values[i] = dataclasses.replace(value, mask="", pattern=None)  # forbids only if an op reads it so
        for scope, place in self._scope_ids.items():
            given = zip(scope[1].op.inputs, sources(scope[1])) if isinstance(scope, tuple) else scope.arguments
            known = [(word, self._value_ids.get(node)) for word, node in given if isinstance(node, Node)]
            arguments = tuple([(word, value) for word, value in known if value is not None])
            number = int(place[1:]) - 1
            self._scopes[number] = dataclasses.replace(self._scopes[number], arguments=arguments)
        return s.Structure(tuple(self._ops), tuple(self._values), tuple(self._scopes), tuple(outputs))

    def _results(self, nodes: list[Any]) -> list[str]:
        """The values that a variable holds, or that were differentiated, and the last, unless Python read it.

        Of these, those that nothing reads but what ends in nothing: as a loop's state, whose size ended the loop.
        """
        ends = {step.during.root() for node in nodes if (step := getattr(node, "step", None)) and step.during}
        held = {self._value_ids[node] for node in nodes if node in ends or getattr(node, "held", False)}
        held |= {self._value_ids[node] for node in nodes[-1:] if not getattr(node, "read", "")}
        found: list[str] = []
        read: set[str | None] = set()  # by what leads to a result
        for op in reversed(self._ops):
            if op.output not in read and op.output in held:
                found.append(op.output)
            if op.output in read or op.output in held:
                read.update(op.inputs)
        return found[::-1] or [op.output for op in self._ops[-1:]]

    def _note_sources(self, node: Any) -> None:
        """Note what modules were given, and memory that was written between two reads."""
        scope = getattr(node, "scope", None)
        while scope is not None and scope not in self._noted:
            self._noted.add(scope)
            self._given_to_modules.update(given for _, given in scope.arguments)
            scope = scope.parent
        for source in sources(node):
            if (first := version_of(source)[0]) is not source:
                self._versions.add(first)

    def _note_arrays(self, node: Node) -> None:
        """Note the arrays of unrecorded nodes: inputs of recorded ops, and arrays that other ops keep."""
        op = node.op
        if isinstance(node, TracedNode) and node.traced:
            for source, array, seen in zip(sources(node), node.values, node.seen):
                if _is_from_outside(source):
                    self._given[id(array)] = source
                    self._known.setdefault(source, array)
                    self._seen.setdefault(source, seen)
                    self._read_at.setdefault(source, node.serial)
            return
        if op is None or not op.pure or op.variadic or not node.kept:
            return
        for source, name in zip((*sources(node), node), (*op.inputs, "out")):
            if isinstance(source, Node) and name in node.kept:
                self._known.setdefault(source, node.kept[name])

    def _note_gradients(self, node: Node) -> None:
        step = getattr(node, "step", None)
        if step is None:
            return
        self._arrived[node] = step.arrived, step.during
        self._last_pass = max(self._last_pass, step.during.began if step.during else 0)
        for source, left in zip(sources(node), step.left):
            if isinstance(source, Node) and source.op is None:
                if left is not None:
                    self._read_in_pass[version_of(source)[0]] = source
                if source.arrived is not None:
                    self._arrived[source] = source.arrived, getattr(source, "during", None)

    # ---- ops

    def _add(self, node: Any, scope: Any) -> None:
        if node in self._value_ids:
            return
        check_whole(node)
        op: Primitive = node.op
        if not op.pure and self.unfold(node):
            formula = formula_of(node)
            if formula is not None and sum(inner.name not in MOVEMENT for inner in formula.nodes) >= DRAWN:
                self._add_formula(node, formula, (scope, node))
                return
        given = (*sources(node), *self._indices(node))
        inputs = tuple([self._value(x) if isinstance(x, Node) else None for x in given])
        self._masks |= {value for name, value in zip(op.inputs, inputs) if name == "mask"}
        place = f"o{len(self._ops) + 1}"
        output = self._new_value(node, "result", place)
        self.nodes[place] = node
        shapes = [tuple(x.shape) if isinstance(x, Node) else None for x in given]
        self._ops.append(
            s.Op(
                id=place,
                name=op.name,
                inputs=inputs,
                operands=op.inputs * len(inputs)
                if op.variadic
                else (*op.inputs, *["index"] * (len(inputs) - len(op.inputs))),
                output=output,
                formula="" if op.pure else _words(node, op),
                parameters=_parameters(node, op),
                scope=self._scope(scope),
                origin=node.origin,
                differentiable=wants_gradient(node),
                fused=not op.pure,
                saved=tuple(self._saved(node, op, [*inputs, output])),
                seconds=node.seconds if node.traced else None,
                flops=flops(op.name, shapes, tuple(node.shape)),
                step=getattr(node, "step", None),
                wants=self._wants(node),
                again=self._checkpoint(node),
                exact=_exact([x for x in given if not isinstance(x, Node)]) + _exact(node.params),
            )
        )

    def _wants(self, node: Any) -> tuple[bool, ...]:
        """For each input, True if a gradient flows to it: in the backward passes, or in one that there will be."""
        if not self._last_pass:
            return needs(node)
        return () if getattr(node, "step", None) is None else tuple([left is not None for left in node.step.left])

    def _checkpoint(self, node: Node) -> int:
        """Return the number of the checkpoint that a node is within; 0 if absent."""
        of, before = (node.recomputation, node.renewed), self._checkpointed
        self._checkpointed = of
        if of == (None, 0):
            return 0
        if of[0] is not before[0] or of[1] < before[1] or before == (None, 0):  # later ones are computed again first
            self._checkpoints += 1
        return self._checkpoints

    def _indices(self, node: Any) -> Iterable[Node | None]:
        """The nodes of the arrays in the key of `x[key]`; None for those that have no name and were not computed."""
        if isinstance(node, TracedNode) and node.traced:
            yield from (x if x.op is not None or self._name(x) else None for x in node.indices)

    def _saved(self, node: Any, op: Primitive, values: list[str | None]) -> Iterable[s.Saved]:
        """The arrays that an op keeps, each memory once; a view of a parameter counts as the parameter."""
        if node.traced:
            for source, array, value in zip(sources(node), node.values, values):
                if _is_from_outside(source) and source.op is None and value:
                    self._parameters[_storage(array)] = value
        met = set()
        for array, value, why in _kept(node, op, values):
            storage = _storage(array)
            if storage not in met:
                met.add(storage)
                memory = self._memories.setdefault(storage, f"m{len(self._memories) + 1}")
                yield s.Saved(self._parameters.get(storage, value), int(getattr(array, "nbytes", 0)), why, memory)

    def _add_formula(self, node: Node, formula: Formula, box: Any) -> None:
        """Add the formula's ops instead of the op, in a separate scope."""
        for inner, outer in zip(formula.inputs, sources(node)):
            if inner is not None and isinstance(outer, Node):
                self._value_ids[inner] = self._value(outer)
        self._scope(box)
        for inner in formula.nodes:
            self._add(inner, box)
        result = self._value_ids[node] = self._value(formula.result)
        name = self._name(node)
        if name:
            place = int(result[1:]) - 1
            self._values[place] = dataclasses.replace(self._values[place], name=name)

    # ---- values

    def _value(self, node: Node) -> str:
        known = self._value_ids.get(node)
        if known is not None:
            return known
        if node.op is not None:  # recorded elsewhere, before this recording began
            return self._new_value(node, "input", None)
        first, _ = version_of(node)
        if first.owned or not isinstance(first, TracedNode) or not isinstance(node, TracedNode):
            is_input = first in self._given_to_modules and not first.owned
            return self._new_value(node, "input" if is_input else "parameter", None)
        attached = self._given.get(id(node.values[-1])) if node.traced else None
        if attached is not None:  # `node` was detached from it
            return self._value(attached)
        return self._new_value(node, "input" if self._name(node) else "constant", None)

    def _name(self, node: Node) -> str:
        array = node.values[-1] if isinstance(node, TracedNode) and node.traced else None
        first, writes = version_of(node)
        name = self.names.get(first) or self.names.get(id(array)) or first.variable
        return name + str(writes).translate(SUBSCRIPTS) if name and first in self._versions else name

    def _new_value(self, node: Node, kind: s.Kind, maker: str | None) -> str:
        first, _ = version_of(node)
        same_as = self._value(first) if first is not node else ""
        value = self._value_ids[node] = f"v{len(self._values) + 1}"
        array = node.values[-1] if isinstance(node, TracedNode) and node.traced else None
        mask, pattern = _mask(array)
        shape = tuple(node.shape)
        gradient, of = self._gradient(node)
        self._values.append(
            s.Value(
                value, kind, self._name(node), shape, str(node.dtype), math.prod(shape) * node.dtype.itemsize, maker,
                mask, gradient, pattern, node.owned, few_numbers(self._as_seen(node)),
                frozen=kind == "parameter" and isinstance(first, TracedNode),
                gradient_of=of, same_as=same_as, read=getattr(node, "read", ""),
                module=getattr(first, "module", ""),
            )
        )  # fmt: skip
        return value

    def _array(self, node: Node) -> Any:
        """The array of a value; None if it is unknown."""
        if isinstance(node, TracedNode) and node.traced:
            return node.values[-1]
        return self._known.get(node)

    def _as_seen(self, node: Node) -> Any:
        """The array of a value as it was when it was made or first read, if it is small."""
        if isinstance(node, TracedNode) and node.traced:
            return node.seen[-1]
        return self._seen.get(node, self._known.get(node))

    def _gradient(self, node: Node) -> tuple[Statistics | None, str]:
        """The gradient that arrived last, and what was differentiated then, if that was not the last pass of all."""
        first, _ = version_of(node)
        if first in self._versions and self._read_in_pass.get(first) is not node:
            return None, ""  # it is of the numbers that were read then
        if first not in self._arrived:
            missing = first.op is not None or first.grad is None
            return None if missing else Statistics.of(first.grad._data), ""
        arrived, during = self._arrived[first]
        root = during.root() if during is not None and during.began < self._last_pass else None
        return arrived, "" if root is None else self._name(root) or f"({root.name})"

    def program(self, structure: s.Structure) -> Program:
        """The recording, to be run again. Arrays that were written since are None."""
        nodes = {place: node for node, place in reversed(self._value_ids.items())}
        leaves = {value.id: nodes[value.id] for value in structure.values if value.maker is None}
        calls = []
        for op in structure.ops:
            node: Any = self.nodes[op.id]
            inputs: list[Any] = list(op.inputs)
            for i, x in enumerate((*node.sources, *node.indices)):
                if inputs[i] is None and not isinstance(x, Node):
                    inputs[i] = x
                elif inputs[i] is None and getattr(x, "rule", None) is not None:  # in a key, where no picture shows it
                    inputs[i] = f"{op.output}.{i}"
                    leaves[inputs[i]] = x
            params, indices = dict(node.params), iter(inputs[len(node.sources) :])
            if node.indices:  # those with a name are read by that alone
                named = [hasattr(part, "dtype") and next(indices) is not None for part in params["key"]]
                params["key"] = tuple([np.empty(0) if has else part for part, has in zip(params["key"], named)])
            calls.append(Call(node.op, tuple(inputs), params, op.output, self._unwritten(node), op.origin or ""))
        rules = {place: rule for place, node in leaves.items() if (rule := getattr(node, "rule", None))}
        names: dict[str, str] = {}
        for value in structure.values:
            if value.maker is None and value.name:
                names[f"{value.module}.{value.name}" if value.name in names else value.name] = value.id
        arrays = {place: self._unwritten(node) for place, node in leaves.items()}
        return Program(tuple(calls), arrays, names, structure.outputs, rules=rules)

    def _unwritten(self, node: Node) -> Any:
        array, read_at = self._array(node), self._read_at.get(node, node.serial)
        return array if array is not None and written_since(read_at, (array,)) is None else None

    # ---- scopes

    def _scope(self, scope: Any) -> str | None:
        """The id of a call of a module, or of the formula of a node (a pair: the scope around it, the node)."""
        chain = []
        while scope is not None and scope not in self._scope_ids:
            chain.append(scope)
            scope = scope[0] if isinstance(scope, tuple) else scope.parent
        parent = None if scope is None else self._scopes[int(self._scope_ids[scope][1:]) - 1]
        for item in reversed(chain):
            name, kind = (item[1].name, "formula") if isinstance(item, tuple) else (item.name, item.kind or "stage")
            path = (*(parent.path if parent else ()), name)
            parent = s.Scope(f"s{len(self._scopes) + 1}", name, kind, path, parent.id if parent else None)
            self._scopes.append(parent)
            self._scope_ids[item] = parent.id
        return parent.id if parent else None


def _is_from_outside(source: Any) -> bool:
    """Return True if an input requires a gradient and was not computed within the recording."""
    return isinstance(source, Node) and not isinstance(source, TracedNode)


# ---- formulas of fused ops


class Formula(NamedTuple):
    """The computed formula of a fused op.

    Attributes:
        nodes: its ops in order.
        inputs: the node for each input of the op, None for numbers.
        result: the node of its result.
    """

    nodes: list[Any]
    inputs: list[Node | None]
    result: Node


def formula_of(node: Any) -> Formula | None:
    """Compute the formula of a fused op on the op's own inputs; None if they were not kept."""
    if node.traced:
        arrays = [v if seen is None else seen for v, seen in zip(node.values[:-1], node.seen)]
    elif node.kept is not None:
        kept = [node.kept[name] for name in node.op.inputs]
        arrays = kept[0] if node.op.variadic else kept
    else:
        return None
    stand_ins: list[Any] = [
        wrap(a, leaf(a) if need else None) if hasattr(a, "dtype") else a for a, need in zip(arrays, needs(node))
    ]
    scopes, state.scopes = state.scopes, []
    recording = Recording(None, [], formula_site)
    for x in stand_ins:
        if isinstance(x, Tensor) and x._node is not None:
            recording.makers[id(x._data)] = x._node
    before = state.change(grad_enabled=True, anomaly=False, recording=recording, observer=trace)
    try:
        inputs = [(x._node or recording.maker(x._data)) if isinstance(x, Tensor) else None for x in stand_ins]
        out = node.op.function(*stand_ins, **node.params)
        result = out._node or recording.maker(out._data)
    finally:
        state.change(**before)
        state.scopes = scopes
    nodes: list[Any] = walk([result])
    is_stale = written_since(node.serial, arrays) is not None
    for inner in nodes:
        if is_stale:  # an input was written since: the numbers are not those that were computed
            inner.values, inner.seen = (None,) * len(inner.values), (None,) * len(inner.seen)
        inner.origin = node.origin  # the user's own line; the formula only keeps the names of its variables
        inner.seconds = None
    return Formula(nodes, inputs, result)


# ---- what an op keeps, and why


def _kept(node: Any, op: Primitive, values: list[str | None]) -> Iterable[tuple[Any, str, str]]:
    """Each array that an op keeps until backward, the id of its value, and the reason."""
    kept = node.kept_before if node.traced else node.kept
    if not kept or not wants_gradient(node):
        return
    if op.pure:
        wanted = [i for i, need in enumerate(needs(node)) if need]
        for name, array in kept.items():
            if op.variadic and name != "out":
                yield from (
                    (part, v or "", f"the rule of {op.name} reads its inputs") for v, part in zip(values, array)
                )
            elif hasattr(array, "dtype"):
                place = len(values) - 1 if name == "out" else op.inputs.index(name)
                readers = [op.inputs[i] for i in wanted if not op.variadic and name in op.rules[op.inputs[i]][1]]
                why = f"the gradient of {' and '.join(readers) or 'its inputs'} reads {name}"
                yield array, values[place] or "", why
        return
    inputs = [kept[name] for name in op.inputs]
    residuals = node.residuals or (node.residuals_before if node.traced else None) or ()
    known = {_storage(a): v for a, v in zip([*inputs, *(node.values[-1:] if node.traced else ())], values) if v}
    met = set()
    for array in _arrays(residuals):
        met.add(_storage(array))
        yield array, known.get(_storage(array), ""), f"the backward pass of {op.name} reads it"
    for array, value in zip(inputs, values):
        if hasattr(array, "dtype") and _storage(array) not in met:
            yield array, value or "", f"the formula of {op.name} reads it for higher derivatives"


def _arrays(value: Any) -> Iterable[Any]:
    if hasattr(value, "dtype"):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _arrays(item)


def _storage(array: Any) -> Any:
    return for_array(array).storage(array) if hasattr(array, "dtype") and hasattr(array, "nbytes") else id(array)


def _words(node: Any, op: Primitive) -> str:
    """A fused op's formula in words: the start of its docstring, without a bias, weight or mask that was not given."""
    words = (op.function.__doc__ or "").partition("\n")[0].partition(";")[0].rstrip(".")
    values = node.values if node.traced else [(node.kept or {}).get(name, ...) for name in op.inputs]
    for name in (name for name, value in zip(op.inputs, values) if value is None):
        words = re.sub(rf" [+*] (?:{name}|{name[0]})\b", "", words)
    return words


FEW = 4
"""Pictures show the numbers of arrays of at most this many elements."""


def few_numbers(array: Any) -> str:
    """The numbers of a small array of floats as text, `[1, 2.5]`; "" for others."""
    if array is None or not hasattr(array, "dtype") or array.dtype.kind != "f" or not 0 < array.size <= FEW:
        return ""
    x = array if isinstance(array, np.generic) else for_array(array).to_numpy(array)
    return numbers_text(np.asarray(x).tolist())


# ---- masks


def _forbidden(array: Any) -> Any:
    """True where a boolean or additive mask forbids attention; None for other arrays, and for huge ones."""
    if array is None or not hasattr(array, "dtype") or array.ndim < 1 or not array.size or array.size > 1 << 22:
        return None
    x = np.asarray(for_array(array).to_numpy(array))
    if x.dtype.kind == "f":
        infinite = np.isneginf(x)
        return infinite if x.ndim > 1 and infinite.any() and (np.isfinite(x) | infinite).all() else None
    return x if x.dtype.kind == "b" else None


def _mask(array: Any) -> tuple[str, tuple[tuple[bool, ...], ...] | None]:
    """The kind of a mask and the cells of a small one. Not a mask: "" and None.

    "causal": a query sees all earlier keys alone; "causal with gaps": some of them; "sliding window": those up to a
    distance, on one side or on both; "padding": no query sees the first or the last keys.
    """
    forbidden = _forbidden(array)
    if forbidden is None:
        return "", None
    rows, columns = (forbidden.shape[-2] if forbidden.ndim > 1 else 1), forbidden.shape[-1]
    cells = forbidden.reshape(-1, rows, columns)
    back = np.arange(rows)[:, None] - np.arange(columns)  # from a query to the keys before it
    seen = back if forbidden.all() else back[~cells.all(axis=0)]
    before, after = back > seen.max(), back < seen.min()
    blind = cells.all(axis=2, keepdims=True)  # queries; they may be padding, too
    by_distance = ~(cells.all(axis=1, keepdims=True) | blind)
    causal = rows > 1 and columns > 1 and bool(seen.min() >= 0)
    window = bool((before & by_distance).any()) and (causal or bool((after & by_distance).any()))
    kind = "sliding window" if window else "causal" if causal else ""
    hidden = (before & window) | (after & (window or causal))
    gaps = bool((cells & ~hidden).any())
    hidden = hidden | blind
    unseen = (cells | hidden).all(axis=1, keepdims=True)  # keys
    steps = np.diff(unseen.astype(np.int8), axis=-1)
    at_an_end = (steps >= 0).all(axis=-1) | ((steps <= 0).all(axis=-1) & (rows > 1))
    padding = gaps and bool(at_an_end.all()) and bool((~cells | hidden | unseen).all())
    if gaps and not padding:
        kind = "causal with gaps" if causal else ""
    name = " and ".join(filter(None, (kind, "padding" * padding)))
    pattern = None
    if name and rows <= PATTERN and columns <= PATTERN:
        fullest = cells[cells.sum(axis=(1, 2)).argmax()]  # the first sequence of a batch often has no padding
        pattern = tuple(tuple(bool(c) for c in row) for row in fullest)
    return name, pattern


def _checksum(array: Any) -> str:
    """A checksum of the numbers of an array, in letters; "" if they are unknown."""
    array = getattr(array, "_data", array)
    if array is None or not hasattr(array, "dtype"):
        return ""
    x = array if isinstance(array, np.generic) else for_array(array).to_numpy(array)
    return str(zlib.crc32(np.ascontiguousarray(x).tobytes())).translate(LETTERS)


# ---- parameters as text

LETTERS = str.maketrans("0123456789", "abcdefghij")
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def _exact(value: Any) -> str:
    """All of a parameter as text, arrays as checksums: its only digits are those of numbers."""
    if isinstance(value, dict):
        return "".join(f"{name}={_exact(item)}," for name, item in value.items())
    if isinstance(value, (tuple, list)):
        return f"({','.join(map(_exact, value))})"
    if isinstance(value, slice):
        return ":".join(map(_exact, (value.start, value.stop, value.step)))
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype.char}{_exact(value.shape)}{_checksum(value)}"
    if value is None or isinstance(value, (bool, int, float, complex, str, np.dtype)):
        return repr(value)
    return getattr(value, "__qualname__", type(value).__name__)


def _parameters(node: Node, op: Primitive) -> tuple[tuple[str, str], ...]:
    """An op's parameters and the numbers among its inputs, without those that are None, False or the default dtype."""
    given = [
        ("" if op.variadic else op.inputs[i], value)
        for i, value in enumerate(sources(node) if node.traced else node.constants)
        if value is not None and not isinstance(value, Node) and not hasattr(value, "dtype")
    ]
    found = []
    for name, value in (*given, *node.params.items()):
        if value is None or value is False or (name == "dtype" and value == node.dtype):
            continue
        if value is True:
            found.append((name, ""))
        elif name == "key":
            parts = value if isinstance(value, tuple) else (value,)
            found.append(("", f"[{', '.join(short(part) for part in parts)}]"))
        else:
            found.append((name, short(value)))
    return tuple((cut(name, 24), cut(text, 36)) for name, text in found)
