"""Digests of text: of each function, method and table of a file, from its syntax tree."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from typing import Any


def digests(source: str) -> dict[str, str]:
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
    """The functions, methods and assignments of a file, with their names. Of two of a name the last one holds."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield within + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from named(node, f"{within}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in [part for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]:
                yield within + name.id, node
