"""What every script here promises at the command line: one line for a mistake, and what the exit codes mean."""

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

LARGEST = 10**15  # of whole numbers: NumPy counts bytes in 64 bits

EXIT_CODES = (
    "exit codes: 0 done, 2 bad arguments or files, {}130 interrupted, 141 the output was cut off, 143 ended by SIGTERM"
)
TRAINING_CODES = (
    "3 the loss is not finite, 4 --require-accuracy was not reached, 5 a rank that mpiexec started does not answer, "
)


class UsageError(Exception):
    """Something the user gave cannot be used: told in one line, exit code 2."""


@contextmanager
def told(*errors: type[Exception], prefix: str = "") -> Iterator[None]:
    """Within it, these errors are the user's to mend: they become a UsageError of one line, after the prefix."""
    try:
        yield
    except errors as error:
        raise UsageError(prefix + " ".join(str(error).split())) from None


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, where there is one worth showing."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None or action.default is False else super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line on stderr.

    Args:
        trains: whether the script can end as only training does; its help says so.
    """

    def __init__(self, *, trains: bool = True, **options: Any) -> None:
        codes = EXIT_CODES.format(TRAINING_CODES if trains else "")
        super().__init__(formatter_class=HelpFormatter, epilog=codes, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_INPUT, f"{self.prog}: {message} (--help lists the arguments)\n")


def positive_int(text: str) -> int:
    """An argument type: an integer from 1 to LARGEST."""
    value = _number(int, text, "a whole number")
    if not 1 <= value <= LARGEST:
        raise argparse.ArgumentTypeError(f"must be at {'least 1' if value < 1 else f'most {LARGEST}'}, got {value}")
    return value


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
    """Run a script's main function and exit with its code; what the user can mend is told in one line.

    Of many ranks that `mpiexec` started, rank 0 alone tells it.
    """
    sys.exit(as_rank(lambda: exit_code(main)))


def exit_code(main: Callable[[], int]) -> Any:
    """What a script's main function gives, or the code of what ended it, which is told in one line."""
    take_any_text()
    code: Any
    try:
        code = main()
    except SystemExit as end:  # of --help
        code = end.code
    except UsageError as error:
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
    except DrawingError as error:
        print(f"{_script()}: {error}", file=sys.stderr)
        code = EXIT_BAD_INPUT
    except BrokenPipeError:
        code = EXIT_NOBODY_READS
    except OSError as error:
        code = _cannot_write(error)
    return _flushed(code)


def take_any_text() -> None:
    """See that printing ends nothing: neither a closed stream nor a character that its encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the script was started with it closed
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):  # what it lacks is shown somehow
            stream.reconfigure(errors="backslashreplace")


def _flushed(code: Any) -> Any:
    """The exit code when all that was printed is written; Python itself does it too late to tell a failure."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what cannot be written
        if code in (EXIT_OK, None):
            code = EXIT_NOBODY_READS if isinstance(error, BrokenPipeError) else _cannot_write(error)
    return code


def _cannot_write(error: OSError) -> int:
    print(f"{_script()}: cannot write {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
    return EXIT_BAD_INPUT


def _script() -> str:
    return os.path.basename(sys.argv[0])
