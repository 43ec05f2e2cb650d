"""The program that `print_backward` prints: a graph replayed on arrays that write down what is done to them.

The graph is computed once more, op by op, on `Traced` arrays, and the engine itself carries the gradients back through
it. So the program holds what the ops and their rules do, in the engine's order, with its sums over broadcast axes and
its sums where paths join; nothing of it is written twice. Fused ops are replayed as their formula.
"""

from __future__ import annotations

import keyword
import os
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import for_array
from ..derivatives.gradients import grad
from ..engine import check_versions, reachable
from ..functions.shapes import _to_device
from ..graph.build import sources
from ..graph.drawing import named
from ..machine.files import atomic_write
from ..modes import state
from ..node import Node
from ..tensor import Tensor, wrap
from .expressions import HELPERS, NAMESPACE, SMALL, Section, Trace, Traced, alias, tidy, write_array

FUNCTION = "forward_and_backward"


@dataclass(frozen=True)
class NumPyProgram:
    """A forward and a backward pass as the text of a NumPy program.

    Attributes:
        source: the imports and a function `forward_and_backward`, which gives the outputs and a dict of gradients.
        inputs: the function's arguments by name, with their arrays where the graph or the names gave them, else None.
    """

    source: str
    inputs: dict[str, Any]

    def __str__(self) -> str:
        """The program; if its data are known and few, with a call on them at the end."""
        if self._unknown or sum(a.size for a in self.inputs.values()) > 8 * SMALL:
            return self.source
        arguments = "".join(f"        {name}={write_array(array)},\n" for name, array in self.inputs.items())
        return self.source + _main(f"{FUNCTION}(\n{arguments}    )")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to a file, and its data, if they are many, beside it as .npz, so that the file runs.

        Raises RuntimeError, naming them, if inputs are not known.
        """
        if self._unknown:
            raise RuntimeError(
                f"save: the values of {', '.join(self._unknown)} are not known; give their Tensors in names="
            )
        path, text = Path(path), str(self)
        if text == self.source:
            data = path.with_suffix(".npz")
            atomic_write(data, lambda file: np.savez(file, **self.inputs))
            text += _main(f'{FUNCTION}(**np.load("{data.name}"))')
        atomic_write(path, text.encode())

    @property
    def _unknown(self) -> list[str]:
        return [name for name, array in self.inputs.items() if array is None]


def _main(call: str) -> str:
    return f"""

if __name__ == "__main__":
    outputs, gradients = {call}
    print(outputs)
    for name, gradient in gradients.items():
        print(name, gradient, sep="\\n")
"""


def build(roots: list[Node], names: Any) -> NumPyProgram:
    """The program of the graph behind some nodes."""
    given = list(named(names))
    before = state.change(grad_enabled=True, textbook=True, anomaly=False, recording=None, observer=None)
    try:
        with np.errstate(all="ignore"):
            replay = Replay(roots, given)
            replay.forward()
            replay.backward()
    finally:
        state.change(**before)
    return Writer(replay).program()


# ---- the graph once more, on traced arrays

GENERIC = {"arrays", "input", "values", "x", "x1", "x2"}  # names of inputs that say nothing


class Replay:
    """A graph computed again on traced arrays, which then hold the program.

    Attributes:
        trace: all that was written.
        outputs: the traced results.
        gradients: for each leaf that was asked for, its array and its gradient.
    """

    def __init__(self, roots: list[Node], given: list[tuple[str, Tensor]]) -> None:
        self.roots = roots
        self.nodes = reachable(roots)
        self.trace = Trace()
        self.outputs: list[Traced] = []
        self.gradients: list[tuple[Traced, Traced]] = []
        self._tensors: dict[Node, Any] = {}  # what each node became
        self._constants: dict[int, Any] = {}  # by the array's id
        self._forward_sections: dict[Node, Section] = {}  # of the new nodes
        self._found: dict[Node, Traced] = {}  # gradients of the new nodes
        self._readers: dict[int, Section] = {}  # by a gradient's id: the rule that reads it
        # An array's id is a safe key: the caller's Tensors and the nodes keep these arrays alive.
        self._names: dict[Node | int, str] = {}
        self._values: dict[Node, Any] = {}
        for name, tensor in given:
            key = id(tensor._data) if tensor._node is None else tensor._node
            self._names.setdefault(key, name)
            if tensor._node is not None:
                self._values[tensor._node] = tensor._data
        for node in self.nodes:
            self._check(node)
            self._values.update({n: a for n, a in _kept_values(node) if n not in self._values})

    def _check(self, node: Node) -> None:
        node.restore()
        if node.freed:
            raise RuntimeError(
                f"print_backward: the graph behind {node.name} {tuple(node.shape)} was already used and freed; print "
                "before backward, or pass retain_graph=True to it"
            )
        if node.hooks:
            raise RuntimeError(
                f"print_backward: {node.name} {tuple(node.shape)} has a hook, which no program can hold; remove it"
            )
        if node.op is not None:
            check_versions(node, node.op)

    def forward(self) -> None:
        """Compute every node again."""
        state.change(observer=self._record)
        for node in self.nodes:
            if node.op is None:
                continue
            inputs = [self._input(node, i) for i in range(len(node.parents))]
            self.trace.sections[-1].place = _place(node)
            if node.op is _to_device.op:
                result = inputs[0]
            elif node.op.pure:
                result = node.op.call(*inputs, **node.params)
            else:
                result = node.op.function(*inputs, **node.params)
            array = self._own(result._data)
            if array is not result._data:
                result = wrap(array, result._node)
            array.pinned = True
            array.hint = self._names.get(node) or node.variable
            if node in self._values:
                array.value, array.known = _numpy(self._values[node]), True
            array.section.title += _line(node)
            self._tensors[node] = result
        self.outputs = [self._tensor(root)._data for root in self.roots]
        for i, output in enumerate(self.outputs):
            output.hint = output.hint or ("output" if len(self.outputs) == 1 else f"output{i + 1}")

    def _own(self, array: Any) -> Traced:
        """The array, or another name for it if it is an argument or has a name."""
        array = array if isinstance(array, Traced) else self.trace.argument(array, True, "")
        return alias(array) if array.form[0] == "argument" or array.hint else array

    def _record(self, op: Any, parents: Any, kept: Any, params: Any, out: Any, inputs: Any) -> Node | None:
        """Record an op: a node whose gradient gets a name, and a section for whatever is written next."""
        if not any(parents) or out.dtype.kind not in "fc":
            return None
        node = Node(op, parents, kept, params, out)
        section = self.trace.sections[-1]
        section.title = f"{node.name} {tuple(node.shape)}"
        out.pinned = True
        self._watch(node, out, section)
        self.trace.sections.append(Section(place=section.place))
        return node

    def _watch(self, node: Node, out: Traced, section: Section) -> None:
        self._forward_sections[node] = section
        node.hooks = {0: partial(self._arrive, node, out)}

    def _input(self, node: Node, place: int) -> Any:
        parent = node.parents[place]
        if parent is not None:
            return self._tensor(parent, node, place)
        value = _constant(node, place)
        if not hasattr(value, "dtype") or not value.shape:
            return value if not hasattr(value, "dtype") else _numpy(value)[()]
        if id(value) not in self._constants:
            known = sources(node)[place].variable if node.traced else ""
            hint = self._names.get(id(value)) or known or _hint(node, place)
            self._constants[id(value)] = wrap(self.trace.argument(_numpy(value), True, hint), None)
        return self._constants[id(value)]

    def _tensor(self, node: Node, reader: Node | None = None, place: int = 0) -> Any:
        """The Tensor that a node became; a leaf's is made when it is first met."""
        if node not in self._tensors:
            known = node in self._values
            value = _numpy(self._values[node]) if known else _stand_in(node.shape, node.dtype)
            hint = self._names.get(node) or node.variable
            array = self.trace.argument(value, known, hint or _hint(reader, place))
            leaf = wrap(array, None).requires_grad_()
            assert leaf._node is not None
            self._watch(leaf._node, array, self.trace.sections[-1])
            self._tensors[node] = leaf
        return self._tensors[node]

    def backward(self) -> None:
        """Have the engine carry gradients back to the leaves."""
        outputs = [self._tensors[root] for root in self.roots]
        self.trace.sections.append(Section(backward=True))
        seeds = []
        for array in self.outputs:
            if array.size == 1:
                seed = NAMESPACE.ones_like(array)
            else:
                seed = self.trace.argument(np.ones(array.shape, array.dtype), False, "")
            seed.gradient_of = array
            seeds.append(wrap(seed, None))
        asked = [self._tensors[node] for node in self.nodes if node.retains_grad]
        grad(outputs, asked, seeds)
        self.gradients = [(tensor._data, self._found[tensor._node]) for tensor in asked]

    def _arrive(self, node: Node, out: Traced, gradient: Tensor) -> Tensor:
        """The gradient of a node is complete: name it, and open a section for the rule that reads it."""
        g = gradient._data if isinstance(gradient._data, Traced) else self.trace.argument(gradient._data, True, "")
        if g.pinned and g.gradient_of is not out:
            g = self._alias_beside(g)
        part: Any = g
        while isinstance(part, Traced) and not part.pinned:  # sums over several paths, the earliest innermost
            part.pinned, part.gradient_of = True, out
            name, *terms = part.form if part.form[0] == "add" else ("", None)
            earlier = isinstance(terms[0], Traced) and terms[0].section is not part.section
            part = terms[0] if name == "add" and earlier and terms[0].section.backward else None
        self._found[node] = g
        made = self._forward_sections[node]
        title = made.title.partition(" ")[0]
        section = Section(True, made.place, title)
        self._readers[id(g)] = section
        self.trace.sections.append(section)
        return wrap(g, None)

    def _alias_beside(self, g: Traced) -> Traced:
        """Another name for a gradient that a rule passes on as it is, in the section of that rule."""
        other = alias(g)
        reader = self._readers.get(id(g))
        if reader is not None:
            other.section.arrays.pop()
            reader.arrays.append(other)
            other.section = reader
        return other


def _kept_values(node: Any) -> Iterator[tuple[Node, Any]]:
    """The arrays that a node keeps, with the nodes whose results they are."""
    if node.op is None:
        return
    if node.traced:
        yield node, node.values[-1]
        yield from ((p, a) for p, a in zip(node.parents, node.values) if p is not None)
        return
    yield from ((saved.source, saved.value) for saved in node.saved() if saved.source is not None)


def _constant(node: Any, place: int) -> Any:
    """An input that needs no gradient: recorded, or kept for the gradient."""
    op = node.op
    assert op is not None
    if node.traced:
        return node.values[place]
    if node.constants:
        return node.constants[place]
    name = op.inputs[0 if op.variadic else place]
    if name not in node.kept:
        raise RuntimeError(
            f"print_backward: {op.name} {tuple(node.shape)} does not keep its input {name!r}, which the forward pass "
            "needs; compute within `with tt.record():`"
        )
    return node.kept[name][place] if op.variadic else node.kept[name]


def _numpy(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else for_array(array).to_numpy(array)


def _stand_in(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array in place of one with unknown numbers; regular, as `inv` wants its matrices."""
    array = np.zeros(shape, dtype)
    if len(shape) > 1:
        array[...] = np.eye(shape[-2], shape[-1])
    return array


def _hint(node: Node | None, place: int) -> str:
    """A name for an input, from the op that reads it and its module; "" if that says nothing."""
    if node is None or node.op is None:
        return ""
    name = node.op.inputs[0 if node.op.variadic else place]
    return "" if name in GENERIC else "_".join([*_modules(node)[-1:], name])


def _place(node: Node) -> str:
    """The module a node was made in and, if it is fused, its name: these group the lines of the program."""
    assert node.op is not None
    fused = "" if node.op.pure else node.name
    return ": ".join(filter(None, (".".join(_modules(node)), fused)))


def _modules(node: Any) -> list[str]:
    """The modules a node was made in, outermost first."""
    names, scope = [], node.scope if node.traced else None
    while scope is not None:
        names.append(scope.name)
        scope = scope.parent
    return names[::-1]


def _line(node: Node) -> str:
    """The source line of a node's call, if it was recorded."""
    return f", {node.origin.partition(' in ')[0]}" if node.origin else ""


# ---- the text

INLINE = 48  # the longest expression written within another one
COMMENT = 52  # the column of comments, behind shorter lines


class Writer:
    """Writes a replayed graph down: chooses the arrays that get lines, and names them."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.arguments = replay.trace.arguments
        self._taken = {*keyword.kwlist, *keyword.softkwlist, "np", FUNCTION, *HELPERS}
        self._names: dict[Any, str] = {}  # of arrays; under ("g", array), of its gradient
        self._numbers: dict[tuple[str, bool], Iterator[int]] = {}  # the numbers still free behind a name
        self._uses: dict[Traced, int] = {}
        self._user: dict[Traced, Traced] = {}
        self._texts: dict[Traced, str] = {}
        self._helpers: set[str] = set()
        self._find_uses()

    def _find_uses(self) -> None:
        stack = [*self.replay.outputs, *(g for _, g in self.replay.gradients)]
        seen = set(stack)
        while stack:
            array = stack.pop()
            for operand in array.operands:
                self._uses[operand] = self._uses.get(operand, 0) + 1
                self._user[operand] = array
                if operand not in seen:
                    seen.add(operand)
                    stack.append(operand)
        self._live = seen

    def program(self) -> NumPyProgram:
        sections = [[a for a in s.arrays if a in self._live and a.form[0] != "argument"]
                    for s in self.replay.trace.sections]  # fmt: skip
        arguments = [a for a in self.arguments if a in self._live]
        for array in arguments:
            if array.gradient_of is None:
                self._names[array] = self._unique(array.hint or "x", numbered=not array.hint)
        for arrays in sections:
            for array in arrays:
                if array.pinned and array.hint:
                    self._names[array] = self._unique(array.hint)
        for array in arguments:
            if array.gradient_of is not None:
                self._gradient_name(array)
        forward: list[str] = []
        backward: list[str] = []
        place = ""
        for section, arrays in zip(self.replay.trace.sections, sections):
            lines = backward if section.backward else forward
            written = [line for array in arrays for line in self._line(array)]
            if not written:
                continue
            if section.place != place and lines:
                place = section.place
                lines += ["", f"    # {place}"] if place else [""]
            last = 0 if section.backward else len(written) - 1
            written[last] = f"{written[last]:<{COMMENT}}  # {section.title}" if section.title else written[last]
            lines += written
        outputs = [self._names[o] for o in self.replay.outputs]
        returned = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
        gradients = [f'"{self._names[x]}": {self._names[g]}' for x, g in self.replay.gradients]
        head = "".join(f"    {self._names[a]},  # {a.shape} {a.dtype.name}\n" for a in arguments)
        imports = [HELPERS[h] for h in sorted(self._helpers) if HELPERS[h].startswith("from")]
        helpers = [f"{HELPERS[h]}\n\n\n" for h in sorted(self._helpers) if HELPERS[h].startswith("def")]
        body = "\n".join(["    # forward", *forward, "", "    # backward", *backward])
        source = (
            "\n".join(["import numpy as np", *imports])
            + "\n\n\n"
            + "".join(helpers)
            + f"def {FUNCTION}(\n{head}):\n{body}\n\n    return {returned}, {{{', '.join(gradients)}}}\n"
        )
        inputs = {self._names[a]: a.value if a.known else None for a in arguments}
        return NumPyProgram(source, inputs)

    def _line(self, array: Traced) -> list[str]:
        """The line of an array, if it has one of its own."""
        text = self._text(array)
        if array.form[0] == "call" and array.form[1] in HELPERS:
            self._helpers.add(array.form[1])
        if not array.pinned and self._stands_within(array, text):
            self._texts[array] = text
            return []
        if array.gradient_of is not None:
            self._gradient_name(array)
        elif array not in self._names:
            self._names[array] = self._unique("t" if array.section.backward else "v", numbered=True)
        return [f"    {self._names[array]} = {text}"]

    def _stands_within(self, array: Traced, text: str) -> bool:
        if array.form[0] == "alias":
            return True
        if array.form[0] in ("transpose", "expand") and array.form[1] in self._names:
            return True
        if self._uses[array] == 1 and self._user[array].form[0] == "alias":
            return True
        later = array.section.backward and self._user[array].section is not array.section
        return self._uses[array] == 1 and len(text) <= INLINE and not later

    def _text(self, array: Traced) -> str:
        parts = []
        for part in array.parts:
            if isinstance(part, str):
                parts.append(part)
            else:
                parts.append(self._names.get(part) or f"({self._texts[part]})")
        return tidy("".join(parts))

    def _gradient_name(self, array: Traced) -> None:
        """Name a gradient after its array; the parts of a sum get one name."""
        of = array.gradient_of
        assert of is not None
        key = ("g", of)
        if key not in self._names:
            self._names[key] = self._unique(f"g_{self._names[of]}")
        self._names[array] = self._names[key]

    def _unique(self, name: str, numbered: bool = False) -> str:
        """A valid identifier like `name` that nothing else has."""
        name = unicodedata.normalize("NFKC", re.sub(r"\W", "_", name))
        name = name if name.isidentifier() else f"_{name}"
        numbers = self._numbers.setdefault((name, numbered), count(1 if numbered else 2))
        found = f"{name}{next(numbers)}" if numbered else name
        while found in self._taken:
            found = f"{name}{next(numbers)}" if numbered else f"{name}_{next(numbers)}"
        self._taken.add(found)
        return found
