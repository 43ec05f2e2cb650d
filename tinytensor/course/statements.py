"""Running a submission statement by statement, so that one that fails costs itself and not what comes behind it."""

from __future__ import annotations

import ast
import traceback
from typing import Any


def run(namespace: dict[str, Any], cells: list[str]) -> None:
    """Run cells in a namespace whose `__file__` their errors name, and go on behind an error, which is printed.

    Lines are counted from the first cell on. A cell that is no Python is left out.
    """
    before = 0
    for cell in cells:
        try:
            statements = ast.parse(cell).body
        except (SyntaxError, ValueError) as error:
            print(f"line {before + (getattr(error, 'lineno', None) or 1)}: {type(error).__name__}: {error}")
            statements = []
        for statement in statements:
            ast.increment_lineno(statement, before)
            try:
                exec(compile(ast.Module([statement], []), namespace["__file__"], "exec"), namespace)
            except (Exception, SystemExit) as error:
                frames = traceback.extract_tb(error.__traceback__)
                lines = [frame.lineno for frame in frames if frame.filename == namespace["__file__"]]
                print(f"line {lines[-1] if lines else statement.lineno}: {type(error).__name__}: {error}")
        before += cell.count("\n") + 1
