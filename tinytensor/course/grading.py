"""Grading: every submission in a folder runs apart from us and from the others, and gets points and feedback.

A submission is a .py or an .ipynb. Copies of it and of the checks are made for each in a temporary folder, so that a
program that deletes or rewrites what lies around it finds only these. What stops, lies or fills the memory costs its
own points and nothing else: models/scripts/judging.py says how verdicts are found.
"""

from __future__ import annotations

import json
import re
import runpy
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tinytensor.machine.files import atomic_write, read_text
from tinytensor.models.scripts import command_line, exercises, judging

from .feedback import gradescope, page
from .handouts import needed

CHECKED = re.compile(r"^(\s*)lesson\.check\(.*$", re.M)
RUN = "from tinytensor.course.statements import run\n\nrun(globals(), {!r})\n"
"""The text of a submission as it runs: a program that runs its cells."""


@dataclass(frozen=True)
class Mark:
    """The result of one exercise of a submission: points, of how many, and the verdict with its words."""

    exercise: str
    points: float
    of: float
    right: bool
    words: str


@dataclass(frozen=True)
class Graded:
    """A submission: who, from which file, the marks, what it printed, and for how long it ran."""

    student: str
    file: str
    marks: tuple[Mark, ...]
    printed: str
    seconds: float

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.marks)

    @property
    def of(self) -> float:
        return sum(mark.of for mark in self.marks)


@dataclass(frozen=True)
class Limits:
    """Of one process: its time, its memory, and the seed of the numbers that answers are tried on."""

    seconds: float
    megabytes: int
    seed: int


def grade(folder: Path, checks: Path | None, limits: Limits, outputs: Mapping[str, Path | None]) -> int:
    """Grade all submissions in a folder, print a line for each, and write what `outputs` names.

    Args:
        folder: the submissions, one file each.
        checks: the file of exercises; default: exercises/<name of the folder>.py.
        limits: of each process; all submissions are tried on the same numbers.
        outputs: "json", a file; "html", a folder for a page of each student; "gradescope", one for results.json.
    """
    checks = checks or Path("exercises", f"{folder.resolve().name}.py")
    if not checks.is_file():
        raise command_line.UsageError(f"grade: there is no {checks}; name the file of exercises with --exercises")
    if not folder.is_dir():
        raise command_line.UsageError(f"grade: {folder} is no folder of submissions")
    points = points_of(checks)
    files = sorted(path for path in folder.iterdir() if path.suffix in (".py", ".ipynb") and path.is_file())
    if not files:
        raise command_line.UsageError(f"grade: {folder} has no submissions; they end in .py or .ipynb")
    if any(path.suffix == ".ipynb" for path in files):
        needed("nbformat")  # say at once that it is not installed
    stems = [path.stem for path in files]
    all_graded = []
    for path in files:
        name = path.stem if stems.count(path.stem) == 1 else path.name
        graded = grade_one(name, path, checks, points, limits)
        all_graded.append(graded)
        print(f"{graded.student}: {graded.points:g} of {graded.of:g} points, {graded.seconds:.1f} s", flush=True)
    for path in sorted(set(folder.iterdir()) - set(files)):
        print(f"not graded: {path.name}, which is neither .py nor .ipynb")
    print(f"{len(files)} submissions; numbers from --seed {limits.seed}")
    _write(all_graded, checks.stem, limits, outputs)
    return command_line.EXIT_OK


def points_of(checks: Path) -> dict[str, float]:
    """The points of each exercise of a file: those in its dictionary POINTS, else 1."""
    given = runpy.run_path(str(checks)).get("POINTS", {})
    names = [each.name for each in exercises.read(checks)]
    if not names:
        raise command_line.UsageError(f"grade: {checks} declares no exercise")
    if unknown := sorted(set(given) - set(names)):
        raise command_line.UsageError(
            f"grade: POINTS in {checks} names {', '.join(unknown)}; there are {', '.join(names)}"
        )
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            raise command_line.UsageError(f"grade: POINTS in {checks}: {name} has {value!r}; expected a number from 0")
    return {name: given.get(name, 1) for name in names}


def grade_one(name: str, path: Path, checks: Path, points: Mapping[str, float], limits: Limits) -> Graded:
    """Grade one submission; whatever it is or does, the result has a mark for every exercise."""
    started, printed = time.monotonic(), ""
    with TemporaryDirectory(ignore_cleanup_errors=True) as place:
        own, answers = Path(place, "checks", checks.name), Path(place, "answers", "submission.py")
        for copy in (own, answers):
            copy.parent.mkdir()
        own.write_bytes(checks.read_bytes())
        try:
            answers.write_text(RUN.format(cells(path)), encoding="utf-8")
        except (OSError, ValueError) as error:
            words = f"The file cannot be read: {' '.join(str(error).split())}"
            return Graded(name, path.name, _none(points, words), "", time.monotonic() - started)
        try:
            verdicts, printed = judging.judge(
                own, answers, seconds=limits.seconds, megabytes=limits.megabytes, seed=limits.seed
            )
        except judging.Unreadable as error:
            marks = _none(points, f"The file does not run to its end: {error}".replace(str(answers), path.name))
        else:
            marks = tuple(
                Mark(
                    exercise,
                    of if verdict.right else 0,
                    of,
                    verdict.right,
                    verdict.text.replace(str(answers), path.name),
                )
                for (exercise, of), verdict in zip(points.items(), verdicts)
            )
    return Graded(name, path.name, marks, printed, time.monotonic() - started)


def _none(points: Mapping[str, float], words: str) -> tuple[Mark, ...]:
    return tuple(Mark(exercise, 0, of, False, words) for exercise, of in points.items())


def cells(path: Path) -> list[str]:
    """The code of a submission, a notebook's cell by cell, without IPython's own lines and without `lesson.check`.

    Raises OSError, or ValueError if it is no text or no notebook.
    """
    text = read_text(path)
    if path.suffix != ".ipynb":
        return [CHECKED.sub(r"\1pass", cell.removesuffix("\n")) for cell in re.split(r"^(?=# %%)", text, flags=re.M)]
    try:
        found = needed("nbformat").reads(text, as_version=4).cells
        sources = [cell.source for cell in found if cell.cell_type == "code" and not cell.source.startswith("%%")]
    except Exception as error:  # nbformat raises many kinds
        raise ValueError(f"{path.name} is no notebook ({type(error).__name__}: {error})") from None
    return [CHECKED.sub(r"\1pass", re.sub(r"^[%!].*$", "", source, flags=re.M)) for source in sources]


def _write(graded: list[Graded], homework: str, limits: Limits, outputs: Mapping[str, Path | None]) -> None:
    if path := outputs["json"]:
        rows = [{**asdict(one), "points": one.points, "of": one.of} for one in graded]
        content: dict[str, Any] = {"homework": homework, "limits": asdict(limits), "submissions": rows}
        atomic_write(path, json.dumps(content, indent=1).encode())
    if folder := outputs["html"]:
        folder.mkdir(parents=True, exist_ok=True)
        for one in graded:
            atomic_write(folder / f"{one.student}.html", page(homework, one).encode())
    if folder := outputs["gradescope"]:
        for one in graded:
            place = folder if len(graded) == 1 else folder / one.student
            place.mkdir(parents=True, exist_ok=True)
            atomic_write(place / "results.json", json.dumps(gradescope(one), indent=1).encode())
