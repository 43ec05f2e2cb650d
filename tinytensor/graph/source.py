"""The source of gradient rules and formulas: a film shows the very text that ran."""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, NamedTuple


class RuleText(NamedTuple):
    """A gradient rule as text.

    Attributes:
        formula: the expression it returns; "" if its source is not at hand.
        source: the functions that the expression calls, the rule's own first if it is more than an expression.
    """

    formula: str
    source: str


@functools.lru_cache(maxsize=1024)
def rule_text(rule: Callable[..., Any]) -> RuleText:
    """The text of a rule: the body of a lambda, or a call of the function with its source below."""
    code = rule.__code__
    if rule.__name__ != "<lambda>":
        call = f"{rule.__name__}({', '.join(code.co_varnames[: code.co_argcount])})"
        text = function_text(rule)
        return RuleText(call, _with_helpers(rule, text)) if text else RuleText("", "")
    found = _lambda(code)
    if found is None:
        return RuleText("", "")
    return RuleText(" ".join(found.split()), _with_helpers(rule, ""))


def function_text(function: Callable[..., Any]) -> str:
    """The source of a function without its decorators; "" if it is not at hand."""
    code = function.__code__
    for node in ast.walk(_module(code.co_filename)):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if start == code.co_firstlineno:
                lines = linecache.getlines(code.co_filename)[node.lineno - 1 : node.end_lineno]
                return textwrap.dedent("".join(lines)).rstrip()
    return ""


def _lambda(code: CodeType) -> str | None:
    """The body of the lambda behind this code, found by the places of its instructions."""
    places = [
        ((line, column), (end, end_column))
        for line, end, column, end_column in code.co_positions()
        if line and end and column is not None and end_column  # instructions without a place have an empty one
    ]
    lines = linecache.getlines(code.co_filename)
    best: ast.Lambda | None = None
    for node in ast.walk(_module(code.co_filename)):
        if not isinstance(node, ast.Lambda) or [a.arg for a in node.args.args] != list(
            code.co_varnames[: code.co_argcount]
        ):
            continue
        first, last = _range(node.body)
        inside = all(first <= start and end <= last for start, end in places)
        if inside and places and (best is None or _range(node.body) > _range(best.body)):
            best = node
    return None if best is None else ast.get_source_segment("".join(lines), best.body)


def _range(node: ast.expr) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)


@functools.lru_cache(maxsize=128)
def _module(filename: str) -> ast.Module:
    """A file, parsed; an empty module if there is no file, as at a prompt."""
    try:
        return ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return ast.Module([], [])


def _with_helpers(rule: Callable[..., Any], text: str) -> str:
    """A text, followed by every function of the rule's own module that the rule calls, directly or not."""
    found = {rule: text}
    waiting = [rule]
    while waiting:
        function = waiting.pop(0)
        for instruction in dis.get_instructions(function):
            helper = function.__globals__.get(instruction.argval) if instruction.opname == "LOAD_GLOBAL" else None
            if isinstance(helper, FunctionType) and helper.__module__ == rule.__module__ and helper not in found:
                found[helper] = function_text(helper)
                waiting.append(helper)
    return "\n\n".join(part for part in found.values() if part)
