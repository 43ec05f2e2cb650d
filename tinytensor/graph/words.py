"""Names of ops in pictures: the signs of mathematics and the words of the papers, not those of Python.

Q = X @ W_Q                            X W_Q
scores = Q @ K.mT / math.sqrt(d_k)     Q Kᵀ,  ÷ √dₖ = 4
scores.masked_fill(future, -math.inf)  mask: hidden → −∞
deviation * deviation                  deviation²
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from .guards import guards
from .short_text import MINUS, TIMES, shape_text
from .structure import Op, Scope, Structure

FAR = 12
"""How many ops back from a matrix product to look for the other one of attention."""

LONGEST = 28
"""An expression with more characters than this is not written; the op keeps its name."""

SIGNS = {"add": "+", "subtract": MINUS, "multiply": TIMES, "divide": "÷"}

SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
SUBSCRIPTS = {"i": "ᵢ", "j": "ⱼ", "k": "ₖ", "h": "ₕ", "t": "ₜ", "0": "₀", "1": "₁", "2": "₂", "3": "₃", "4": "₄"}

PAPER = {"query": "Q", "key": "K", "value": "V"}
"""The papers' names for the inputs of a formula."""

SMALL = 1e-3
"""An added number of at most this size keeps a denominator from 0."""


class Words(NamedTuple):
    """The text of a vertex for an op.

    Attributes:
        title: the op in mathematics; "" if its own name says it best.
        detail: a line below.
    """

    title: str
    detail: str


def typeset(text: str) -> str:
    """Mathematics in the letters of code, set in its own signs: `sqrt(d_k)` is √dₖ, `K^T` is Kᵀ."""
    text = re.sub(r"^-(?=\w)", MINUS, text)
    text = text.replace("^T", "ᵀ").replace(" * ", f" {TIMES} ").replace("sum_", "Σ_").replace(" - ", f" {MINUS} ")
    text = re.sub(r"sqrt\((\w+)\)", r"√\1", text).replace("sqrt(", "√(").replace("sum over", "Σ over")
    text = re.sub(r"\^(-?\d+)", lambda match: match[1].translate(SUPERSCRIPTS), text)
    return re.sub(r"(?<=[A-Za-zΣ])_([a-z0-9])(?![A-Za-z0-9])", lambda m: SUBSCRIPTS.get(m[1], m[0]), text)


def readable(number: str) -> str:
    """A number in the signs of mathematics: 10⁻⁵ for 1e-05."""
    digits, e, power = number.partition("e")
    if e and power.lstrip("+-").isdigit():
        tens = f"10{str(int(power)).translate(SUPERSCRIPTS)}"
        number = tens if digits == "1" else f"{digits}·{tens}"
    return number.replace("-inf", f"{MINUS}∞").replace("inf", "∞").replace("-", MINUS)


class Speaker:
    """Knows the names of the values in a computation, and finds the words for each op."""

    def __init__(self, structure: Structure) -> None:
        self.values = {value.id: value for value in structure.values}
        self.makers = {op.output: op for op in structure.ops}
        self.ops = {op.id: op for op in structure.ops}
        self.scopes = {scope.id: scope for scope in structure.scopes}
        self.guarded = guards(structure)
        self.roles: dict[str, str] = {}  # names for the queries, keys and values of attention
        for op in structure.ops:
            if op.name == "matmul":
                self._note_attention(op)

    def words(self, op: Op) -> Words:
        """The words for an op."""
        numbers = dict(op.parameters)
        special = getattr(self, f"_{op.name}", None)
        if special is not None:
            found: Words = special(op, numbers)
            return found
        if op.name in SIGNS:
            return self._arithmetic(op, numbers)
        if op.formula:
            return Words("", typeset(op.formula))
        parts = (f"{name} = {readable(text)}" if name and text else name or text for name, text in op.parameters)
        return Words("", ", ".join(parts))

    def chain(self, ops: list[Op]) -> Words:
        """The words for a chain of ops that only move numbers."""
        last = ops[-1].output
        before, after = self.values[str(ops[0].inputs[0])].shape, self.values[last].shape
        role = self.roles.get(last, "")
        if len(after) == 4 and [op.name for op in ops[-2:]] == ["reshape", "permute_dims"]:
            return Words(f"split into {after[1]} heads" + (f": {role}" if role else ""), "")
        if len(before) == 4 and len(after) == 3 and [op.name for op in ops] == ["permute_dims", "reshape"]:
            return Words(f"concat {before[1]} heads", "")
        return Words("", ", ".join(op.name for op in ops))

    # ---- what values are called

    def symbol(self, value: str | None, reader: Op) -> str:
        """The name of a value for an op that reads it; "" if it has no short name."""
        if value is None:
            return ""
        maker = self.makers.get(value)
        if maker is not None and maker.id in self.guarded:  # x under the guard `where(x == 0, 1, x)` is x
            return self.symbol(self.ops[self.guarded[maker.id]].output, reader)
        if maker is not None and maker.name == "matrix_transpose" and not self.values[value].name:
            inner = self.symbol(maker.inputs[0], maker)
            return f"{inner}ᵀ" if inner else ""
        given = self._given(value, reader.scope)
        name = given or self.values[value].name.rpartition(".")[2] or self.roles.get(value, "")
        if name or maker is None:
            return name if len(name) <= 12 else ""
        if maker.name in ("mean", "max", "min"):
            return maker.name
        if maker.name == "sum":
            return f"Σ{self.symbol(maker.inputs[0], maker)}"
        return self._root(maker) if maker.name == "sqrt" else ""

    def _root(self, sqrt: Op) -> str:
        """√variance, or √(variance + ε)."""
        of = self.symbol(sqrt.inputs[0], sqrt)
        added = self._before(sqrt.inputs[0])
        if not of and added is not None and added.name == "add" and added.inputs[1] is None:
            inner = self.symbol(added.inputs[0], added)
            of = f"({inner} {self.words(added).title})" if inner else ""
        return f"√{of}" if of else ""

    def _given(self, value: str, place: str | None) -> str:
        """The name of a value in the formula around an op; "" if it is not an argument of it."""
        scope: Scope | None = self.scopes.get(place or "")
        while scope is not None and scope.kind != "formula":
            scope = self.scopes.get(scope.parent or "")
        for word, given in scope.arguments if scope is not None else ():
            if given == value:
                return PAPER.get(word, word)
        return ""

    def _note_attention(self, product: Op) -> None:
        """Note Q, K and V of `softmax(Q Kᵀ ...) V`: one matrix product leads through a softmax to the next."""
        value, through = product.inputs[1], self._computed_from(product)
        normalised = False
        for _ in range(FAR):
            if through is None or through.name == "matmul":
                break
            normalised = normalised or through.name == "softmax" or self._is_share(through)
            through = self._computed_from(through)
        both = through is not None and all(v is not None and self.values[v].kind == "result" for v in through.inputs)
        if normalised and both and through is not None and through.name == "matmul":
            for found, role in zip((*through.inputs, value), "QKV"):
                turn = self._before(found)
                given = turn.inputs[0] if turn is not None and turn.name == "matrix_transpose" else found
                if given in self.makers:
                    self.roles.setdefault(str(given), role)

    def _computed_from(self, op: Op) -> Op | None:
        """The op that computed the first of an op's inputs that is neither given nor a mask."""
        return next((self.makers[v] for v in op.inputs if v in self.makers and self.values[v].dtype != "bool"), None)

    def _before(self, value: str | None) -> Op | None:
        return self.makers.get(value or "")

    def _is_share(self, divide: Op) -> bool:
        """True if it divides exp(x) by a sum."""
        parts = [self._before(v) for v in divide.inputs]
        parts = [self.ops[self.guarded[p.id]] if p is not None and p.id in self.guarded else p for p in parts]
        return [p.name if p is not None else "" for p in parts] == ["exp", "sum"]

    # ---- arithmetic

    def _arithmetic(self, op: Op, numbers: dict[str, str]) -> Words:
        sign = SIGNS[op.name]
        left, right = op.inputs[0], op.inputs[1]
        if left == right and left is not None and op.name == "multiply":
            return Words(f"{self.symbol(left, op) or 'x'}²", "")
        if right is None or left is None:
            if right is None:
                return self._by_number(op, sign, numbers.get("x2", ""), str(left))
            return Words(f"{readable(numbers.get('x1', ''))} {sign} {self.symbol(right, op) or 'x'}", "")
        a, b = self.symbol(left, op), self.symbol(right, op)
        if op.name == "add" and self.values[right].mask:
            return Words("mask", f"hidden + ({MINUS}∞)")
        return Words(_short(f"{a} {sign} {b}") if a and b else "", "")

    def _by_number(self, op: Op, sign: str, text: str, operand: str) -> Words:
        """`÷ √dₖ = 4`, `× √d_model = 8`, `+ ε`, or the number as it is."""
        number = readable(text)
        value = _float(text)
        of = self.symbol(operand, op)
        maker = self.makers.get(operand)
        if op.name == "add" and 0 < value <= SMALL:
            return Words("+ ε", f"ε = {number}")
        size, name = 0, ""
        if maker is not None and maker.name == "matmul" and maker.inputs[0] is not None:
            size, name = self.values[maker.inputs[0]].shape[-1], "dₖ"
        elif maker is not None and maker.name == "embedding":
            size, name = self.values[operand].shape[-1], "d_model"
        if size > 1 and op.name in ("multiply", "divide"):
            if math.isclose(value, math.sqrt(size), rel_tol=1e-3):
                return Words(f"{sign} √{name} = {number}", "")
            if math.isclose(value, 1 / math.sqrt(size), rel_tol=1e-3):
                return Words(f"{sign} 1/√{name} = {number}", "")
        return Words(_short(f"{of} {sign} {number}") if of else f"{sign} {number}", "")

    def _matmul(self, op: Op, numbers: dict[str, str]) -> Words:
        a, b = self.symbol(op.inputs[0], op), self.symbol(op.inputs[1], op)
        right = self._before(op.inputs[1])
        turned = right is not None and right.name == "matrix_transpose" and not b
        return Words(_short(f"{a} {b}") if a and b else "", "left × rightᵀ" if turned else "")

    def _pow(self, op: Op, numbers: dict[str, str]) -> Words:
        power = numbers.get("x2", "")
        whole = power.lstrip("-").isdigit()
        return Words(f"{self.symbol(op.inputs[0], op) or 'x'}{power.translate(SUPERSCRIPTS)}" if whole else "", "")

    def _sqrt(self, op: Op, numbers: dict[str, str]) -> Words:
        return Words(f"√{self.symbol(op.inputs[0], op)}", "")

    def _negative(self, op: Op, numbers: dict[str, str]) -> Words:
        return Words(f"{MINUS}{self.symbol(op.inputs[0], op) or 'x'}", "")

    # ---- masks, sums, moves

    def _masked_fill(self, op: Op, numbers: dict[str, str]) -> Words:
        number = readable(numbers.get("value", ""))
        return Words("mask", f"hidden → {number}" if number else "hidden → value")

    def _sum(self, op: Op, numbers: dict[str, str]) -> Words:
        value = self.values.get(str(op.inputs[0]))
        axis = numbers.get("axis", "")
        if value is None or not axis:
            return Words("", "")
        last = axis.lstrip("-").isdigit() and int(axis) % max(len(value.shape), 1) == len(value.shape) - 1
        return Words("", "over the last axis" if last and len(value.shape) > 1 else f"over axis {axis}")

    _mean = _max = _min = _prod = _std = _var = _logsumexp = _sum

    def _matrix_transpose(self, op: Op, numbers: dict[str, str]) -> Words:
        of = self.symbol(op.inputs[0], op)
        return Words(f"{of}ᵀ" if of else "transpose", "")

    def _getitem(self, op: Op, numbers: dict[str, str]) -> Words:
        places = next((text for name, text in op.parameters if text.startswith("[")), "")
        of = self.symbol(op.inputs[0], op) if "int" not in places else ""  # not if an array gives the places
        return Words(_short(f"{of}{places}") if of and places else "", "" if of and places else places)

    def _concat(self, op: Op, numbers: dict[str, str]) -> Words:
        axis = numbers.get("axis", "0")
        last = axis == str(len(self.values[op.output].shape) - 1)
        return Words("", "along the last axis" if last else f"along axis {axis}")

    def _reshape(self, op: Op, numbers: dict[str, str]) -> Words:
        return Words("", f"to {shape_text(self.values[op.output].shape)}")

    _broadcast_to = _reshape

    def _astype(self, op: Op, numbers: dict[str, str]) -> Words:
        return Words("", f"to {self.values[op.output].dtype}")


def is_turned_operand(op: Op, reader: Op) -> bool:
    """True if an op only transposes one operand of a matrix product, which then shows it as Kᵀ."""
    return op.name == "matrix_transpose" and reader.name == "matmul" and reader.inputs.count(op.output) == 1


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else ""


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
