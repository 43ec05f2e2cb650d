"""`python -m tinytensor.testing my_ops.py`: the report card of every op that a file declares."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from .files import FileError, ops_of
from .report_card import report, save_page

ALL_PASSED, SOMETHING_FAILED, MISTAKE = 0, 1, 2


class Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(MISTAKE, f"{self.prog}: {message} (--help lists the arguments)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the reports. Returns the exit code: 0 all passed, 1 something failed, 2 a mistake in the command."""
    parser = Parser(
        prog="python -m tinytensor.testing",
        description="Report cards for the ops that a file declares: what was tried, what came out, what to do.",
        epilog="exit codes: 0 all passed, 1 something failed, 2 a mistake in the command or the file",
    )
    parser.add_argument("file", help="a Python file with ops; REPORT = {op: {...}} in it has arguments of report")
    parser.add_argument("--html", metavar="FILE", help="write the same as a page")
    options = parser.parse_args(arguments)
    try:
        reports = [report(op, **given) for op, given in ops_of(options.file)]
        print("\n\n".join(map(str, reports)))
        if options.html:
            save_page(reports, options.html)
    except FileError as error:
        parser.exit(MISTAKE, f"{parser.prog}: {error}\n")
    except (TypeError, ValueError) as error:  # arguments in REPORT that do not fit, or a page that is no .html
        parser.exit(MISTAKE, f"{parser.prog}: {options.file}: {' '.join(str(error).split())}\n")
    except OSError as error:
        parser.exit(MISTAKE, f"{parser.prog}: {options.html}: {error.strerror}\n")
    failed = [one.name for one in reports if not one.passed]
    ops = "1 op" if len(reports) == 1 else f"{len(reports)} ops"
    print(f"\n{ops}, {len(failed)} with mistakes" + (f": {', '.join(failed)}" if failed else ""))
    return SOMETHING_FAILED if failed else ALL_PASSED


if __name__ == "__main__":
    sys.exit(main())
