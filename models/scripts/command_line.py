"""The rules of all scripts at the command line: one line for a mistake, and the meanings of exit codes."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from tinytensor.graph import DrawingError
from tinytensor.nn.distributed import RankError

from .launched import as_rank

EXIT_OK = 0
EXIT_BAD_INPUT = 2
EXIT_NOT_FINITE = 3
EXIT_TOO_INACCURATE = 4
EXIT_RANK_LOST = 5
EXIT_INTERRUPTED = 130
EXIT_NOBODY_READS = 141
EXIT_TERMINATED = 143

LARGEST = 10**15  # the largest whole number: NumPy counts bytes in 64 bits

EXIT_CODES = (
    "exit codes: 0 done, 2 bad arguments or files, {}130 interrupted, 141 the output was cut off, 143 ended by SIGTERM"
)
TRAINING_CODES = (
    "3 the loss is not finite, 4 --require-accuracy was not reached, 5 a rank that mpiexec started does not answer, "
)


class UsageError(Exception):
    """The user's input cannot be used: one line of message, exit code 2."""


@contextmanager
def told(*errors: type[Exception], prefix: str = "") -> Iterator[None]:
    """Within it, these errors are for the user to fix: they become a UsageError of one line, after the prefix."""
    try:
        yield
    except errors as error:
        raise UsageError(prefix + " ".join(str(error).split())) from None


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults other than None and False."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None or action.default is False else super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line on stderr.

    Args:
        trains: whether the help lists the exit codes of training.
    """

    def __init__(self, *, trains: bool = True, **options: Any) -> None:
        codes = EXIT_CODES.format(TRAINING_CODES if trains else "")
        super().__init__(formatter_class=HelpFormatter, epilog=codes, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_INPUT, f"{self.prog}: {message} (--help lists the arguments)\n")


def no_options(script: str) -> None:
    """Accept only --help in a script of this name; do nothing in a notebook, which has its own options."""
    if _script() == script:
        p = Parser(prog=script, description=(sys.modules["__main__"].__doc__ or "").partition("\n")[0])
        p.epilog = None  # a plain script has Python's exit codes
        p.parse_args()


def up_to(most: int) -> Callable[[str], int]:
    """An argument type: an integer from 1 to `most`."""

    def number(text: str) -> int:
        value = _number(int, text, "a whole number")
        if not 1 <= value <= most:
            raise argparse.ArgumentTypeError(f"must be at {'least 1' if value < 1 else f'most {most}'}, got {value}")
        return value

    return number


positive_int, size, depth = up_to(LARGEST), up_to(10**6), up_to(1000)
"""Argument types: an integer from 1; and one that memory can hold as a length or a width, or as layers."""


def non_negative_int(text: str) -> int:
    """An argument type: an integer of at least 0."""
    value = _number(int, text, "a whole number")
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, got {value}")
    return value


def positive_float(text: str) -> float:
    """An argument type: a number above 0."""
    value = _number(float, text, "a number")
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text}")
    return value


def within(lowest: float, highest: float) -> Callable[[str], float]:
    """An argument type: a number from `lowest` to `highest`."""

    def number(text: str) -> float:
        value = _number(float, text, "a number")
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(f"must be from {lowest:g} to {highest:g}, got {text}")
        return value

    return number


fraction = within(0, 1)
"""An argument type: a number from 0 to 1."""


def _number(kind: Callable[[str], Any], text: str, what: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {what}, got {text!r}") from None


def run(main: Callable[[], int]) -> NoReturn:
    """Run a script's main function and exit with its code; errors that the user can fix take one line.

    Of several ranks that `mpiexec` started, only rank 0 prints it.
    """
    sys.exit(as_rank(lambda: exit_code(main)))


def exit_code(main: Callable[[], int]) -> Any:
    """Call a script's main function; return its result, or the code of the error that ended it, printed in one line."""
    take_any_text()
    code: Any
    try:
        code = main()
    except SystemExit as end:  # from --help
        code = end.code
    except (UsageError, DrawingError) as error:
        print(f"{_script()}: {error}", file=sys.stderr)
        code = EXIT_BAD_INPUT
    except RankError as error:
        print(f"{_script()}: {error}; all end", file=sys.stderr)
        code = EXIT_RANK_LOST
    except KeyboardInterrupt:
        print(f"{_script()}: interrupted", file=sys.stderr)
        code = EXIT_INTERRUPTED
    except MemoryError as error:
        print(f"{_script()}: not enough memory ({error}); smaller sizes need less", file=sys.stderr)
        code = EXIT_BAD_INPUT
    except BrokenPipeError:
        code = EXIT_NOBODY_READS
    except OSError as error:
        code = _cannot_write(error)
    return _flushed(code)


def take_any_text() -> None:
    """Keep printing from failing at a closed stream or at a character that its encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # it was closed when the script started
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):  # show missing characters somehow
            stream.reconfigure(errors="backslashreplace")


def _flushed(code: Any) -> Any:
    """Write all output and return the exit code; Python itself flushes too late to report a failure."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the rest, which cannot be written
        if code in (EXIT_OK, None):
            code = EXIT_NOBODY_READS if isinstance(error, BrokenPipeError) else _cannot_write(error)
    return code


def _cannot_write(error: OSError) -> int:
    print(f"{_script()}: cannot write {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
    return EXIT_BAD_INPUT


def _script() -> str:
    return os.path.basename(sys.argv[0])
