"""The command line of the course: `python -m tinytensor.course --help` lists what it does."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path
from typing import Any

from tinytensor.models.scripts import command_line

from . import build, grading, handouts, slides

LAST = len(build.STEPS)


class Command(command_line.Parser):
    """The parser of a command that trains nothing."""

    def __init__(self, **options: Any) -> None:
        super().__init__(trains=False, **options)


def main() -> int:
    """Do what the command line says; the exit code is 0, 1 if something that was checked is wrong, or 2."""
    options = parser().parse_args()
    return options.do(options)


def parser() -> argparse.ArgumentParser:
    p = Command(prog="python -m tinytensor.course", description="A course on tinytensor.")
    commands = p.add_subparsers(required=True, metavar="COMMAND", parser_class=Command)
    one = commands.add_parser("build", help="write twelve files with holes: the framework that a student builds")
    one.add_argument("folder", nargs="?", type=Path, default=Path("framework"), help="where they go")
    one.set_defaults(do=lambda o: build.build(o.folder))

    says = "say how far the twelve files are right; exit code 1 where one is not"
    one = commands.add_parser("check", help=says, description=says)
    one.add_argument("folder", type=Path, help="the folder that `build` has written")
    one.add_argument("step", nargs="?", type=command_line.up_to(LAST), help="default: all, up to the first mistake")
    one.add_argument("--hint", action="store_true", help="a hint behind each mistake")
    one.set_defaults(do=lambda o: build.check(o.folder, o.step, o.hint))

    one = commands.add_parser("new", help="write a lesson with exercises to begin from, and the file that checks them")
    one.add_argument("name", help="for example hw1: hw1.py and exercises/hw1.py are written")
    one.set_defaults(do=lambda o: handouts.new(o.name))

    one = commands.add_parser("student", help="write the notebook of a homework with holes, without answers")
    one.add_argument("name", help="for example hw1: student/hw1.ipynb is made of hw1.py")
    one.set_defaults(do=lambda o: handouts.student(o.name))

    one = commands.add_parser("slides", help="write the cells of a lesson as slides, in one file")
    one.add_argument("name", help="a file, or the beginning of its name, such as 05")
    one.set_defaults(do=lambda o: slides.write_slides(o.name))

    one = commands.add_parser("grade", help="grade a folder of submissions, each in a process of its own")
    one.add_argument("folder", type=Path, help="a .py or .ipynb of each student")
    one.add_argument("--exercises", type=Path, metavar="FILE", help="default: exercises/<name of the folder>.py")
    one.add_argument("--json", type=Path, metavar="FILE", help="write all results")
    one.add_argument("--html", type=Path, metavar="FOLDER", help="write a page of feedback for each student")
    one.add_argument("--gradescope", type=Path, metavar="FOLDER", help="write results.json, for one student or each")
    one.add_argument("--seconds", type=command_line.positive_float, default=20.0, help="the time of each process")
    one.add_argument("--megabytes", type=command_line.positive_int, default=2048, help="the memory of each process")
    one.add_argument("--seed", type=command_line.non_negative_int, help="of the numbers to try; default: a secret one")
    one.set_defaults(do=_grade)
    return p


def _grade(o: argparse.Namespace) -> int:
    limits = grading.Limits(o.seconds, o.megabytes, secrets.randbits(32) if o.seed is None else o.seed)
    outputs = {name: getattr(o, name) for name in ("json", "html", "gradescope")}
    return grading.grade(o.folder, o.exercises, limits, outputs)


if __name__ == "__main__":
    sys.argv[0] = "course"  # what messages begin with
    command_line.run(main)
