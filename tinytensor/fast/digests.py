"""Digests of text: of each function, method and table of a file, from its syntax tree."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from typing import Any


def digests(source: str | bytes) -> dict[str, str]:
    """The digest of each function, method and table of a file, by its name, "Class.method" of a method."""
    return {name: digest(node) for name, node in named(ast.parse(source))}


def digest(node: ast.AST) -> str:
    """Of a syntax tree, the same in every version of Python; docstrings and annotations say nothing."""
    return hashlib.sha256(repr(_plain(node)).encode()).hexdigest()[:16]


def _plain(node: Any) -> Any:
    if isinstance(node, ast.AST):
        fields = [(name, getattr(node, name, None)) for name in node._fields]
        told = ("annotation", "returns", "type_comment", "type_params", "kind", "ctx")
        return type(node).__name__, [(n, _plain(_body(node, n, v))) for n, v in fields if n not in told and v != []]
    return [_plain(part) for part in node] if isinstance(node, list) else node


def _body(node: ast.AST, name: str, value: Any) -> Any:
    is_block = name == "body" and isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
    return value[1:] if is_block and ast.get_docstring(node, clean=False) is not None else value  # type: ignore[arg-type]


def named(tree: ast.Module | ast.ClassDef, within: str = "") -> Iterator[tuple[str, ast.AST]]:
    """The texts of a file, with their names. Of two of a name the last one holds.

    They are functions, methods, assignments, what is imported under a name, the head of each class with the names of
    its members, and under "" all other statements of the file.
    """
    rest: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield within + node.name, node
        elif isinstance(node, ast.ClassDef):
            members: list[ast.expr] = [ast.Constant(name) for name, _ in named(node)]
            yield (
                within + node.name,
                ast.ClassDef(node.name, node.bases, node.keywords, [ast.Expr(ast.Tuple(members))], node.decorator_list),
            )
            yield from named(node, f"{within}{node.name}.")
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield within + (alias.asname or alias.name), ast.ImportFrom(node.module, [alias], node.level)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield within + (alias.asname or alias.name.partition(".")[0]), ast.Import([alias])
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and _assigned(node):
            for name in _assigned(node):
                yield within + name, node
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) and not _is_of_types(node):
            rest.append(node)
    yield within.removesuffix(".") + "." * bool(within), ast.Module(rest, [])


def _assigned(node: ast.Assign | ast.AnnAssign) -> list[str]:
    """The names that an assignment gives; none where it gives something to an attribute or an item alone."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if node.value is not None else []
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _is_of_types(node: ast.stmt) -> bool:
    """True for what type checkers alone read."""
    test = ast.unparse(node.test) if isinstance(node, ast.If) else ""
    return test in ("TYPE_CHECKING", "typing.TYPE_CHECKING") or (isinstance(node, ast.AnnAssign) and node.value is None)
