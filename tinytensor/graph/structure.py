"""A computation as plain data: ops, the values that flow between them, and the module calls around them.

Ids (`o1`, `v1`, `s1`) count ops, values and scopes in the order of their first use, so that the same computation has
the same structure in every run and on every machine.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..tracing import Statistics, Step

Kind = Literal["parameter", "input", "constant", "result"]


@dataclass(frozen=True)
class Value:
    """An array on its way through the computation.

    Attributes:
        kind: "parameter" (of a module, or a leaf that requires a gradient, outside of modules), "input" (from
            outside, with a name), "constant" (from outside, without), "result" (of an op).
        name: of the parameter, or the variable that held it; "" if unknown.
        nbytes: its size in bytes.
        maker: the id of the op that computed it.
        mask: for a boolean or additive mask, its kind: "causal", "padding", "causal and padding", "sliding window",
            "causal with gaps".
        gradient: statistics of its gradient, after a backward pass.
        gradient_of: what was differentiated, if that was not the last backward pass.
        numbers: for an array of up to 4 elements, its values as text, as they were when it was read or made.
        owned: True if it is known to be a parameter of a module.
        pattern: for a small mask, its last two dimensions as rows of booleans, True where attention is forbidden.
        same_as: the id of the value that this memory held first, if it was written since, as by an optimiser's step.
        frozen: True for a parameter that wants no gradient.
        read: for a result that Python read as numbers, the line that did.
        checksum: of a small constant or a mask: equal for equal numbers.
        module: for a module's parameter, the variable that held the outermost module, or else its class.
    """

    id: str
    kind: Kind
    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    maker: str | None = None
    mask: str = ""
    gradient: Statistics | None = None
    pattern: tuple[tuple[bool, ...], ...] | None = None
    owned: bool = False
    numbers: str = ""
    frozen: bool = False
    gradient_of: str = ""
    same_as: str = ""
    read: str = ""
    checksum: str = ""
    module: str = ""


@dataclass(frozen=True)
class Saved:
    """An array that an op keeps in memory until the backward pass.

    Attributes:
        value: the id of its Value; "" if only the op itself knows it (a residual of a fused pair).
        why: the reason, in words: its reader.
        memory: the id of its memory, which views share.
    """

    value: str
    nbytes: int
    why: str
    memory: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True)
class Op:
    """One op that was computed.

    Attributes:
        inputs: ids of its inputs; None for a number or an input that was not given.
        operands: the op's names for them.
        output: the id of its result.
        formula: the formula of a fused op, in words.
        parameters: its keyword arguments and the numbers among its inputs, as short text by name ("" if absent).
        scope: the id of the module call around it.
        origin: the source line that called it.
        differentiable: True if a gradient flows through it.
        fused: True if it is a fast pair that also has a formula.
        saved: the arrays that it keeps until the backward pass.
        seconds: how long it took; None if it was not measured.
        flops: an estimate of its multiplications and additions.
        step: its step of the backward pass.
        wants: for each input, True if a gradient of it was wanted, or arrived in the last backward pass.
        again: for an op within a `checkpoint`, the number of that; the backward pass computes it again. 0 for others.
        exact: all that `parameters` shortens, in full: equal only for ops with equal parameters.
    """

    id: str
    name: str
    inputs: tuple[str | None, ...]
    operands: tuple[str, ...]
    output: str
    formula: str
    parameters: tuple[tuple[str, str], ...]
    scope: str | None
    origin: str | None
    differentiable: bool
    fused: bool
    saved: tuple[Saved, ...]
    seconds: float | None
    flops: int
    step: Step | None
    wants: tuple[bool, ...] = ()
    again: int = 0
    exact: str = ""

    @property
    def detail(self) -> str:
        """The formula of a fused op, or the parameters in one short text, as `x2=0.5, axis=1, keepdims`."""
        return self.formula or ", ".join(
            f"{name}={text}" if name and text else name or text for name, text in self.parameters
        )


@dataclass(frozen=True)
class Scope:
    """One call of a module, a stage named by `named_scope`, or the formula of a fused op.

    Attributes:
        kind: the class of the module; "stage" or "formula".
        path: the names of the modules around it, outermost first, its own last.
        parent: the id of the scope around it.
        arguments: for each argument of the call, its name and the id of the value that was given for it.
    """

    id: str
    name: str
    kind: str
    path: tuple[str, ...]
    parent: str | None
    arguments: tuple[tuple[str, str], ...] = ()

    @property
    def place(self) -> str:
        """The path within the outermost module; of that one, the name."""
        return ".".join(self.path[1:]) or self.name


def around(place: str | None, scopes: Mapping[str, Any]) -> Iterator[str]:
    """The id of a scope, or of a box, then that of the one around it, and so on outwards."""
    while place is not None:
        yield place
        place = scopes[place].parent


@dataclass(frozen=True)
class Structure:
    """A whole computation; the ops are in the order of their computation.

    Attributes:
        outputs: its results; nothing else reads them. Values that no op reads need not be results: a number that
            Python read is none, nor a tuple's part that nobody took.
    """

    ops: tuple[Op, ...]
    values: tuple[Value, ...]
    scopes: tuple[Scope, ...]
    outputs: tuple[str, ...]

    @property
    def turns(self) -> list[tuple[Op, Step]]:
        """Return the ops of the backward pass, each with its step, in the order of the steps."""
        found = [(op, op.step) for op in self.ops if op.step is not None]
        return sorted(found, key=lambda turn: turn[1].number)

    def as_dict(self) -> dict[str, Any]:
        """Dictionaries, lists, numbers and strings only, for JSON (which has no infinities: they become text).

        It has no times, so that the same computation gives the same result in every run.
        """
        return _plain(dataclasses.asdict(self))


HIDDEN = ("seconds", "exact", "during", "wants", "module")


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key not in HIDDEN}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
