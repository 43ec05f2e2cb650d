"""Grade a file of answers: they run in a separate process, and this process computes the verdicts.

    verdicts, printed = judge(Path("exercises/05_scaling.py"), Path("mine.py"))

The processes and their limits are those of `apart.py`; what is sent from one to the other is the log of `answers.py`.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import runpy
import secrets
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tinytensor
from tinytensor.machine.files import read_file

from . import apart, command_line
from .answers import Stopped, line_of, replay, run_here
from .exercises import Exercise, Verdict, read

SOME_ARE_WRONG = 1
"""The exit code of a check that found an answer wrong or missing."""

REPLACED = " cannot be checked: does the file replace what checks it?"

LARGEST_LOG = 1 << 26
"""The most bytes of results that a check reads."""


class Unreadable(Exception):
    """A file of answers could not be run to its end; the text says why, in one line."""


def judge(
    path: Path, answers: Path, *, seconds: float = 20.0, megabytes: int = 4096, seed: int | None = None
) -> tuple[list[Verdict], str]:
    """A verdict on each exercise of a file, in order, and what the file of answers printed.

    The answers run in a separate process, with limits of time and memory (see `apart.py`), and verdicts are found
    here, from the results (see `answers.py`). After an answer that does not come to its end, the next ones are tried in
    another process.

    Args:
        path: the file of exercises.
        answers: the file of answers.
        seconds, megabytes: the limits of each process.
        seed: of the numbers that answers are tried on; default: another one each time.

    Raises Unreadable if the file of answers does not run.
    """
    try:
        read_file(answers)
    except OSError as error:
        raise Unreadable(f"cannot read {answers}: {error.strerror}") from None
    seed = secrets.randbits(32) if seed is None else seed
    verdicts: list[Verdict] = []
    printed = ""
    exercises = read(path)
    while len(verdicts) < len(exercises):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            log, where = Path(folder) / "log", Path(folder) / "where"
            told = (path.resolve(), answers.resolve(), seed, len(verdicts), time.time() + seconds)
            command = [sys.executable, "-c", f"from {__name__} import _answer; _answer()", *map(str, told)]
            places = os.pathsep.join([str(Path(tinytensor.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
            outcome = apart.run_apart(
                command, seconds=seconds, megabytes=megabytes, folder=Path(folder), environment={"PYTHONPATH": places}
            )
            entries = _entries(log)
            line = re.search(re.escape(f'File "{answers.resolve()}", line ') + r"(\d+)", _text(where))
        printed += outcome.out
        stopped = _why(outcome, f" in line {line[1]}" if line else "", seconds, megabytes)
        if entries[:1] != [["begun"]]:
            why = entries[0][1] if entries and entries[0][0] == "failed" else stopped
            raise Unreadable(f"{answers}{why}")
        _replayed(exercises, verdicts, entries[1:], str(answers), seed, stopped)
    return verdicts, printed


def check_file(path: Path, answers: Path) -> int:
    """Print for each exercise of a file whether the answer in another one is right; the exit code says whether all are.

    Answers run in a separate process (see `judge`); their output is printed first.
    """
    with command_line.told(Unreadable, prefix="--check: "):
        verdicts, printed = judge(path, answers)
    if printed:
        print(printed, end="" if printed.endswith("\n") else "\n")
    for each, verdict in zip(read(path), verdicts):
        print(verdict.text if verdict.right else f"{verdict.text} (--hint {each.name} gives a hint)")
    return command_line.EXIT_OK if all(verdict.right for verdict in verdicts) else SOME_ARE_WRONG


def _replayed(
    exercises: list[Exercise], verdicts: list[Verdict], entries: list[Any], source: str, seed: int, why: str
) -> None:
    """Append verdicts up to the first answer that did not come to its end."""
    for each in exercises[len(verdicts) :]:
        end = next((i for i, entry in enumerate(entries) if entry[0] == "end"), None)
        mine, entries = entries[:end], entries[len(entries) if end is None else end + 1 :]
        answer = {} if mine == [["missing"]] else {each.name: mine.append}
        try:
            verdicts.append(each.verdict(answer, source, replay(mine), seed))
        except Stopped:
            why = why if end is None else REPLACED
            verdicts.append(Verdict(False, f"{each.name}: wrong. It{why}", "stopped"))
        if end is None:
            return


def _why(outcome: apart.Outcome, where: str, seconds: float, megabytes: int) -> str:
    """The words about a process that did not come to its end."""
    if outcome.ended == apart.FINISHED and outcome.code == 1:  # of Python, at an error that nobody caught
        return REPLACED
    return {
        apart.OUT_OF_TIME: f" had not come to an end after {seconds:g} seconds{where}: does a loop never end?",
        apart.OUT_OF_MEMORY: f" takes more memory than {megabytes} MB",
        apart.KILLED: " was ended by the system: too much memory, or a fault in compiled code",
    }.get(outcome.ended, " ended the program: leave `exit`, `quit` and `os._exit` out")


def _answer() -> None:
    """Run in the other process: call each answer as its check does, and log the results."""
    path, source, seed, first, end = sys.argv[1:]
    with open("log", "w", encoding="utf-8") as log, open("where", "w", encoding="utf-8") as where:

        def tell(entry: list[Any]) -> None:
            log.write(json.dumps(entry) + "\n")
            log.flush()

        faulthandler.dump_traceback_later(max(0.1, 0.8 * (float(end) - time.time())), file=where)
        exercises, verdict = read(Path(path))[int(first) :], Exercise.verdict  # before anybody replaces it
        sys.path.insert(0, str(Path(source).parent))
        try:
            answers = runpy.run_path(source)
        except SyntaxError as error:
            tell(["failed", f", line {error.lineno}: {error.msg}"])
        except BaseException as error:
            line = line_of(error, source)
            tell(["failed", f" raised {type(error).__name__}{f' in line {line}' if line else ''}: {error}"])
        else:
            tell(["begun"])
            for each in exercises:
                if verdict(each, answers, source, run_here(source, tell), int(seed)).kind == "missing":
                    tell(["missing"])
                tell(["end"])


def _entries(log: Path) -> list[Any]:
    """Return the lists in a log, up to the first line that is not a list."""
    found: list[Any] = []
    for line in _text(log).splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not (isinstance(entry, list) and entry):
            break
        found.append(entry)
    return found


def _text(path: Path) -> str:
    """Return the beginning of a file, or "" if the file is missing."""
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST_LOG).decode("utf-8", "replace")
    except OSError:
        return ""
