"""`python -m tinytensor.porting script.py`: what to write in place of each line of a program for PyTorch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from . import Finding, read


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help lists the arguments)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what to write, line by line. Returns the exit code: 0 nothing, 1 something, 2 a mistake in the command."""
    parser = Parser(
        prog="python -m tinytensor.porting",
        description="What to write in place of each line of a program for PyTorch. Runs nothing of it.",
        epilog="exit codes: 0 nothing to write, 1 something, 2 a mistake in the command or the file",
    )
    parser.add_argument("scripts", nargs="+", metavar="script.py", help="a Python file that imports torch")
    found: list[Finding] = []
    for script in parser.parse_args(arguments).scripts:
        try:
            findings = read(Path(script).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError) as error:
            parser.exit(2, f"{parser.prog}: {script}: {getattr(error, 'strerror', None) or error}\n")
        for finding in findings:
            print(f"{script}:{finding}")
        found += findings
    silent = sum(finding.silent for finding in found)
    print(f"\n{len(found) - silent} to write otherwise, {silent} with other numbers" if found else "nothing to change")
    if found:
        print("As it is, it runs by: python -m tinytensor.torch script.py")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
