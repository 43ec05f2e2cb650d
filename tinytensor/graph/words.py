"""Names of ops in pictures: the signs of mathematics and the words of the papers, not those of Python.

Q = X @ W_Q                            X W_Q
scores = Q @ K.mT / math.sqrt(d_k)     Q Kᵀ,  ÷ √dₖ = 4
scores.masked_fill(future, -math.inf)  mask: hidden → −∞
deviation * deviation                  deviation²
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from .calls import Index
from .cost import MOVEMENT
from .guards import guards
from .short_text import MINUS, TIMES, shape_text
from .structure import Op, Scope, Structure, around

FAR = 12
"""How many ops back from a matrix product to look for the other one of attention."""

LONGEST = 28
"""An expression with more characters than this is not written; the op keeps its name."""

SIGNS = {"add": "+", "subtract": MINUS, "multiply": TIMES, "divide": "÷"}

FORMS = {
    "multi_head": "multi-head attention",
    "abs": "|{0}|", "reciprocal": "1 ÷ {0}", "rsqrt": "1 ÷ √{0}", "sqrt": "√{0}", "square": "{0}²", "negative": "−{0}",
    "equal": "{0} == {1}", "not_equal": "{0} ≠ {1}", "less": "{0} < {1}", "less_equal": "{0} ≤ {1}",
    "greater": "{0} > {1}", "greater_equal": "{0} ≥ {1}", "logical_and": "{0} and {1}", "logical_not": "not {0}",
    "logical_or": "{0} or {1}", "logical_xor": "{0} xor {1}", "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}", "bitwise_left_shift": "{0} << {1}", "bitwise_right_shift": "{0} >> {1}",
    "bitwise_invert": "~{0}", "floor_divide": "⌊{0} ÷ {1}⌋", "remainder": "{0} mod {1}", "maximum": "max({0}, {1})",
    "minimum": "min({0}, {1})", "where": "{1} where {0}, else {2}", "solve": "{0}⁻¹ {1}", "inv": "{0}⁻¹",
    "count_nonzero": "count ≠ 0", "cumulative_sum": "running sum", "cumulative_prod": "running product",
    "gelu_tanh": "GELU by tanh", "max_pool": "max pooling", "astype": "{0} as {dtype}", "broadcast_to": "broadcast",
    "expand_dims": "new axis {axis}", "index_set": "{0}{key} ← {1}", "scatter": "{0} at {key}, else 0",
    "to_device": "to another device", "positive": "copy", "through": "sub-layers",
}  # fmt: skip
"""Ops in signs or in words, with a place for each operand."""

UNTOLD = ("", "keepdims", "dtype", "correction", "ends", "origin", "wins")
"""Parameters that the shapes or the title tell, or that say little."""

INDEX = re.compile(r"\b(bool|u?int\d+) ([\d×]+|scalar)")  # an array in a key

SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
SUBSCRIPTS = {"i": "ᵢ", "j": "ⱼ", "k": "ₖ", "h": "ₕ", "t": "ₜ", "0": "₀", "1": "₁", "2": "₂", "3": "₃", "4": "₄"}

OPERANDS = {"x1": "left", "x2": "right"}
"""Labels for inputs of ops whose own names say nothing."""

PAPER = {"query": "Q", "key": "K", "value": "V"}
"""The papers' names for the inputs of a formula."""

NO_ROLE = ("x", "x1", "x2", "arrays", "inputs", "operands", "input", "index", "")
"""Names that do not tell what an array is for."""

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


class Speaker(Index):
    """Knows the names of the values in a computation, and finds the words for each op.

    Args:
        called: the names of some values in formulas; others have the last part of their names.
    """

    def __init__(self, structure: Structure, called: Mapping[str, str]) -> None:
        super().__init__(structure)
        self.called = {value.id: value.name.rpartition(".")[2] for value in structure.values} | dict(called)
        self.taken = frozenset(self.called.values())
        self.guarded = guards(structure)
        self.roles: dict[str, str] = {}  # names for the queries, keys and values of attention
        for op in structure.ops:
            if op.name == "matmul":
                self._note_attention(op)

    def words(self, op: Op) -> Words:
        """The words for an op."""
        numbers = dict(op.parameters)
        special: Callable[..., Words] | None = getattr(self, f"_say_{op.name}", None)
        if special is not None or op.name in SIGNS:
            return (special or self._arithmetic)(op, numbers)
        form = FORMS.get(op.name, "")
        names = [self.symbol(v, op) or readable(numbers.get(word, "")) for word, v in zip(op.operands, op.inputs)]
        if len(op.inputs) - op.inputs.count(None) == 1:
            names = [name or self.unnamed(op) for name in names]
        elif "_" in op.name:
            names = [name or OPERANDS.get(word, word) for name, word in zip(names, op.operands)]
        told = {"axis": "", **numbers, "dtype": self.values[op.output].dtype, "key": _key(op)[0]}
        title = form.format(*names, **told) if all(names) or "{" not in form else ""
        title = _short(title) or op.name.replace("_", " ") * bool(title and "_" in op.name)
        untold = {*UNTOLD, *op.operands, *re.findall(r"{(\w+)}", form)} if title else UNTOLD
        parts = (self._parameter(op, *parameter) for parameter in op.parameters if parameter[0] not in untold)
        return Words(title, typeset(op.formula) or ", ".join(parts))

    def _parameter(self, op: Op, name: str, text: str) -> str:
        if name == "to":
            return f"to {shape_text(self.values[op.output].shape)}"
        if name == "axis":
            rank = len(self.values[str(op.inputs[0])].shape)
            last = rank > 1 and text.lstrip("-").isdigit() and int(text) % rank == rank - 1
            return f"{'along' if op.name in MOVEMENT else 'over'} {'the last axis' if last else f'axis {text}'}"
        return f"{OPERANDS.get(name, name)} = {readable(text)}" if text else name

    def chain(self, ops: list[Op]) -> Words:
        """The words for a chain of ops that only move numbers."""
        last = ops[-1].output
        before, after = self.values[str(ops[0].inputs[0])].shape, self.values[last].shape
        role = self.roles.get(last, "")
        if len(after) == 4 and [op.name for op in ops[-2:]] == ["reshape", "permute_dims"]:
            return Words(f"split into {after[1]} heads" + (f": {role}" if role else ""), "")
        if len(before) == 4 and len(after) == 3 and [op.name for op in ops] == ["permute_dims", "reshape"]:
            return Words(f"concat {before[1]} heads", "")
        if {op.name for op in ops} <= {"reshape", "squeeze", "expand_dims"}:
            return Words("reshape", f"to {shape_text(after)}")
        return Words("", ", ".join(self.words(op).title or op.name for op in ops))

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
        name = given or self.called[value] or self.roles.get(value, "")
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

    def unnamed(self, op: Op) -> str:
        """The letter for an operand without a name: x, or another one if an array is called that."""
        given = [word for word, _ in self._arguments(op.scope)]
        return next((letter for letter in "xzuvwy" if letter not in self.taken and letter not in given), "·")

    def _given(self, value: str, place: str | None) -> str:
        """The name of a value in the formula around an op; "" if it is not an argument of it."""
        return next((PAPER.get(word, word) for word, given in self._arguments(place) if given == value), "")

    def _arguments(self, place: str | None) -> tuple[tuple[str, str], ...]:
        """The arguments of the formula around an op."""
        formulas = (scope for scope in around(place, self.scopes) if self.scopes[scope].kind == "formula")
        return next((self.scopes[scope].arguments for scope in formulas), ())

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
            return Words(f"{self.symbol(left, op) or self.unnamed(op)}²", "")
        if right is None or left is None:
            if right is None:
                return self._by_number(op, sign, numbers.get("x2", ""), str(left))
            of = self.symbol(right, op) or self.unnamed(op)
            return Words(f"{readable(numbers.get('x1', ''))} {sign} {of}", "")
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

    def _say_matmul(self, op: Op, numbers: dict[str, str]) -> Words:
        a, b = self.symbol(op.inputs[0], op), self.symbol(op.inputs[1], op)
        right = self._before(op.inputs[1])
        turned = right is not None and right.name == "matrix_transpose" and not b
        return Words(_short(f"{a} {b}") if a and b else "", "left × rightᵀ" if turned else "")

    def _say_pow(self, op: Op, numbers: dict[str, str]) -> Words:
        power = numbers.get("x2", "")
        whole = power.lstrip("-").isdigit()
        of = self.symbol(op.inputs[0], op) or self.unnamed(op)
        return Words(f"{of}{power.translate(SUPERSCRIPTS)}" if whole else "", "")

    # ---- masks, parts, sums of products

    def _say_masked_fill(self, op: Op, numbers: dict[str, str]) -> Words:
        return Words("mask", f"hidden → {readable(numbers.get('value', 'value'))}")

    def _say_matrix_transpose(self, op: Op, numbers: dict[str, str]) -> Words:
        of = self.symbol(op.inputs[0], op)
        return Words(f"{of}ᵀ" if of else "transpose", "")

    def _say_permute_dims(self, op: Op, numbers: dict[str, str]) -> Words:
        order = [int(axis) for axis in re.findall(r"\d+", numbers["axes"])]
        moved = [str(axis) for place, axis in enumerate(order) if place != axis][::-1]
        return Words(f"axes {' ↔ '.join(moved)}" if len(moved) == 2 else f"axes in order {numbers['axes'][1:-1]}", "")

    def _say_getitem(self, op: Op, numbers: dict[str, str]) -> Words:
        """`x[t]`, `rows of E`; for `take_along_axis`, which names all places along other axes, `pick 1 of each row`."""
        of, shape = self.symbol(op.inputs[0], op), self.values[str(op.inputs[0])].shape
        (key, arrays), rank = _key(op), len(shape)
        met, cut = INDEX.findall(numbers.get("", "")), not key.endswith("]")  # perhaps within the last array
        every = [shape_text((1,) * i + (n,) + (1,) * (rank - i - 1)) for i, n in enumerate(shape)]
        picks = [i for i, (m, n) in enumerate(zip(met[: rank - cut], every)) if m[1] != n] or [rank - 1] * cut
        if len(met) == rank > 1 == len(picks):
            count, axis = self.values[op.output].shape[picks[0]], picks[0]
            return Words(f"pick {count} {'of each row' if axis == 1 == rank - 1 else f'along axis {axis}'}", "")
        if key == "[i]" and rank > 1:
            return Words(f"rows of {of}" if of else "rows", arrays.removeprefix("i: "))
        title = _short(f"{of}{key}") if of else ""
        return Words(title or "part", arrays if title else f"{key} {arrays}".rstrip())

    def _say_einsum(self, op: Op, numbers: dict[str, str]) -> Words:
        """`Σ_d A_td B_edh`: the sum over the letters that the result lacks."""
        given, _, left = numbers["subscripts"].partition("->")
        names = [self.symbol(value, op) for value in op.inputs]
        letters = "ABCDEFGH" if given.islower() else "XYZUVW"  # an ellipsis has become capitals
        terms = zip(names if all(names) else letters, given.split(","))
        over = "".join(dict.fromkeys(axis for axis in given if axis not in f"{left},"))
        title = " ".join([f"Σ_{over}"] * bool(over) + [f"{name}_{axes}".rstrip("_") for name, axes in terms])
        return Words("" if "…" in title + left else typeset(title), f"for each {', '.join(left)}" if left else "")


def _key(op: Op) -> tuple[str, str]:
    """The key of an op with letters for its arrays, and what the letters stand for."""
    key, letters = dict(op.parameters).get("", ""), iter("ijklmnop")
    told = ["where true" if kind == "bool" else f"{shape} indices" for kind, shape in INDEX.findall(key)]
    return INDEX.sub(lambda _: next(letters), key), ", ".join(map("{}: {}".format, "ijklmnop", told))


def role(value: str, reader: Op, closed: Scope | None, holder: Scope | None, taken: Collection[str]) -> str:
    """The name of an array for the op that reads it, and none of those that are taken; "" if that says nothing.

    It is the array's name as an argument of the closed module that shows the op, or of the op. An embedding within a
    module, `holder`, that its model calls `positions` reads positions.
    """
    given = (*(closed.arguments if closed is not None else ()), *zip(reader.operands, reader.inputs))
    words = [word for word, v in given if v == value]
    found = [word for word in words if word.partition("[")[0] not in NO_ROLE and " " not in word]
    module = holder if reader.name == "embedding" else closed
    if module is not None and module.parent is not None and module.kind not in ("stage", "formula"):
        parts = module.name.rstrip(".0123456789").rpartition(".")[2].split("_")
        own = "_".join(part for part in parts if not part.startswith("emb"))
        found.insert(0 if reader.name == "embedding" else len(found), own)
    found = [word for word in found if word]
    numbered = [f"{found[0]} {i}" for i in range(2, len(taken) + 3)] if found else [""]
    return next(name for name in (*found, *numbered) if name not in taken or not name)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else ""


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
