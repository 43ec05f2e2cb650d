"""Gradient rules as mathematics: `xp.matmul(g, xp.matrix_transpose(x2))` reads g x2ᵀ.

The formula of a fused op has its gradients in its docstring, a line `∂L/∂weight = gᵀ x` for each input.

⊙ multiplies element by element; terms side by side are a matrix product, or a number times a term. Arrays are
assumed to be real: the conjugate of x is x.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .short_text import MINUS
from .words import SUPERSCRIPTS

SUM, PRODUCT, POWER, ATOM = range(4)  # how tightly a term holds together

NAMED = frozenset({
    "abs", "arccos", "cos", "cosh", "exp", "floor_divide", "log", "sign", "sin", "sinh", "tan", "tanh", "floor", "tril",
    "triu", "flip", "roll", "digamma", "polygamma", "fft", "ifft", "rfft", "irfft",
})  # fmt: skip
"""Functions that keep their own names."""

Term = tuple[str, int]


def mathematics(expression: str) -> str:
    """A rule's expression in the signs of mathematics; "" if a part of it has no sign."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        return _term(tree.body)[0]
    except (_NoSignError, SyntaxError):
        return ""


def in_words(rule: Callable[..., Any]) -> str:
    """Return the first line of the docstring of a rule, or of a function that it calls; "" if absent."""
    called = [rule, *(rule.__globals__.get(name) for name in rule.__code__.co_names)]
    told = (function.__doc__ for function in called if isinstance(function, FunctionType) and function.__doc__)
    return next(told, "").partition("\n")[0].rstrip(".")


GRADIENT = re.compile(r"^\s*∂L/∂(\w+) = (.*\S)", re.MULTILINE)


def gradients_of(formula: Callable[..., Any]) -> dict[str, str]:
    """The gradients in a fused op's docstring, by input: its lines `∂L/∂x = g W`."""
    return {name: text.rstrip(".") for name, text in GRADIENT.findall(formula.__doc__ or "")}


class _NoSignError(Exception):
    pass


def _term(node: ast.expr) -> Term:
    visit = _VISITORS.get(type(node))
    if visit is None:
        raise _NoSignError
    found: Term = visit(node)
    return found


def _within(node: ast.expr, least: int) -> str:
    """A term, in brackets if it holds together less tightly than `least`."""
    text, tightness = _term(node)
    return text if tightness >= least else f"({text})"


def _constant(node: ast.Constant) -> Term:
    if isinstance(node.value, complex):
        return "i" if node.value == 1j else f"{node.value.imag:g}i", ATOM
    if not isinstance(node.value, (int, float)):
        raise _NoSignError
    return f"{node.value:g}", ATOM


def _only(known: bool, text: str) -> Term:
    if not known:
        raise _NoSignError
    return text, ATOM


def _negation(node: ast.UnaryOp) -> Term:
    if not isinstance(node.op, ast.USub):
        raise _NoSignError
    return f"{MINUS}{_within(node.operand, PRODUCT)}", PRODUCT


def _operation(node: ast.BinOp) -> Term:
    if isinstance(node.op, ast.Add | ast.Sub):
        sign = "+" if isinstance(node.op, ast.Add) else MINUS
        return f"{_within(node.left, SUM)} {sign} {_within(node.right, PRODUCT)}", SUM
    if isinstance(node.op, ast.Mult):
        if ast.dump(node.left) == ast.dump(node.right):
            return f"{_within(node.left, ATOM)}²", POWER
        sign = " " if _is_number(node.left) else " ⊙ "
        if _is_number(node.right):  # numbers stand in front
            return f"{_within(node.right, POWER)} {_within(node.left, PRODUCT)}", PRODUCT
        return f"{_within(node.left, PRODUCT)}{sign}{_within(node.right, POWER)}", PRODUCT
    if isinstance(node.op, ast.Div):
        return f"{_within(node.left, PRODUCT)} / {_within(node.right, POWER)}", PRODUCT
    if isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant) and isinstance(node.right.value, int):
        return f"{_within(node.left, ATOM)}{str(node.right.value).translate(SUPERSCRIPTS)}", POWER
    raise _NoSignError


def _is_number(node: ast.expr) -> bool:
    """True if a term is computed from numbers alone."""
    names = {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}
    return names <= {"math"}


def _choice(node: ast.IfExp) -> Term:
    """`conj(x) if x is complex else x`: arrays are assumed to be real."""
    if 'dtype.kind == "c"' not in ast.unparse(node.test).replace("'", '"'):
        raise _NoSignError
    return _term(node.orelse)


def _call(node: ast.Call) -> Term:
    name = ast.unparse(node.func).rpartition(".")[2]
    if name in NAMED:
        return f"{name}({', '.join(_term(x)[0] for x in node.args)})", ATOM
    if name not in CALLS:
        raise _NoSignError
    found: Term = CALLS[name](*node.args[: CALLS[name].__code__.co_argcount])
    return found


CALLS: dict[str, Callable[..., Term]] = {
    "conj": lambda x: _term(x),
    "positive": lambda x: _term(x),
    "matrix_transpose": lambda x: (f"{_within(x, ATOM)}ᵀ", ATOM),
    "matmul": lambda a, b: (f"{_within(a, PRODUCT)} {_within(b, POWER)}", PRODUCT),
    "solve": lambda a, b: (f"{_within(a, ATOM)}⁻¹ {_within(b, POWER)}", PRODUCT),
    "sqrt": lambda x: (f"√{_within(x, ATOM)}", ATOM),
    "sigmoid": lambda x: (f"\N{GREEK SMALL LETTER SIGMA}({_term(x)[0]})", ATOM),
    "negative": lambda x: (f"{MINUS}{_within(x, PRODUCT)}", PRODUCT),
    "zeros_like": lambda _: ("0", ATOM),
    "_zero": lambda _: ("0", ATOM),
    "where": lambda c, yes, no: (f"{_term(yes)[0]} where {_term(c)[0]}, else {_term(no)[0]}", SUM),
    "scatter": lambda x, key: (f"{_term(x)[0]} at {ast.unparse(key)}, else 0", SUM),
    "reshape": lambda x: (f"{_within(x, ATOM)} in the shape of the input", SUM),
    "broadcast_to": lambda x: (f"{_within(x, ATOM)}, repeated along the axes that were summed", SUM),
    "_restore": lambda _, x: _term(x),
    "permute_dims": lambda x: (f"{_within(x, ATOM)} with its axes turned back", SUM),
}
"""Terms for other functions."""


_VISITORS: dict[type, Callable[[Any], Term]] = {
    ast.Attribute: lambda node: _only(ast.unparse(node) == "math.pi", "π"),
    ast.BinOp: _operation,
    ast.Call: _call,
    ast.Constant: _constant,
    ast.IfExp: _choice,
    ast.Name: lambda node: (node.id, ATOM),
    ast.Subscript: lambda node: _only(isinstance(node.slice, ast.Name), ast.unparse(node)),
    ast.UnaryOp: _negation,
}
