"""`python -m tinytensor.porting script.py`: the lines to write in place of those of a program for PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ..testing.__main__ import MISTAKE, Parser
from . import Finding, read, stops


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what to write, line by line. Returns the exit code: 0 nothing, 1 something, 2 a mistake in the command."""
    parser = Parser(
        prog="python -m tinytensor.porting",
        description="List what to write in place of each line of a program for PyTorch, and run nothing of it.",
        epilog="exit codes: 0 nothing to write, 1 something, 2 a mistake in the command or the file",
    )
    parser.add_argument("scripts", nargs="+", metavar="script.py", help="a Python file that imports torch")
    found: list[Finding] = []
    stopped: list[str] = []
    for script in parser.parse_args(arguments).scripts:
        try:
            source = Path(script).read_text(encoding="utf-8")
            findings, where = read(source), stops(source)
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError) as error:
            parser.exit(MISTAKE, f"{parser.prog}: {script}: {getattr(error, 'strerror', None) or error}\n")
        for finding in findings:
            print(f"{script}:{finding}")
        found += findings
        stopped += [f"{script}, {line}" for line in where]
    silent = sum(finding.silent for finding in found)
    print(f"\n{len(found) - silent} to write otherwise, {silent} with other numbers" if found else "nothing to change")
    if stopped:
        print("As it is, python -m tinytensor.torch stops at:", *stopped, sep="\n  ")
    elif found:
        print("As it is, it runs by: python -m tinytensor.torch script.py")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
