"""Build the framework: twelve files with holes, from an op to a trained Transformer, each with its checks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import tinytensor
from tinytensor.machine.files import atomic_write
from tinytensor.models.scripts import apart, command_line

HOLES = Path(__file__).parent / "framework"
STEPS = tuple(sorted(path.stem for path in HOLES.glob("step*.py")))
SECONDS, MEGABYTES = 60, 4096


def build(folder: Path) -> int:
    """Write those of the twelve files that a folder lacks, which is made if need be. It replaces no file."""
    missing = [step for step in STEPS if not (folder / f"{step}.py").exists()]
    if not missing:
        raise command_line.UsageError(f"{folder} has all files; try: python -m tinytensor.course build mine")
    folder.mkdir(parents=True, exist_ok=True)
    for step in missing:
        atomic_write(folder / f"{step}.py", (HOLES / f"{step}.py").read_bytes())
    new = f"{len(missing)} new file{'s' * (len(missing) > 1)}"
    print(f"{folder} has {new}; fill the holes, which are `...`, from {missing[0]}.py on")
    print(f"python -m tinytensor.course check {folder}    says how far they are right")
    return command_line.EXIT_OK


def check(folder: Path, number: int | None = None, hint: bool = False) -> int:
    """Print the verdicts on all steps up to the first with a mistake, or on one; exit code 1 if anything is wrong."""
    for step in STEPS if number is None else STEPS[number - 1 : number]:
        if not (folder / f"{step}.py").is_file():
            command = f"python -m tinytensor.course build {folder}"
            raise command_line.UsageError(f"{folder} has no {step}.py; {command} writes what it lacks")
        found = verdicts(folder, step, hint=hint)
        print(f"{step}.py")
        for right, words in found:
            print(f"  {'ok   ' if right else 'WRONG'} {words}", flush=True)
        if not all(right for right, _ in found):
            if not hint:
                print("--hint behind this command adds a hint")
            return 1
    if number is None:
        print(f"all {len(STEPS)} are right; now python {folder}/{STEPS[-1]}.py trains your Transformer and draws it")
    return command_line.EXIT_OK


def verdicts(folder: Path, step: str, seconds: float = SECONDS, hint: bool = False) -> list[tuple[bool, str]]:
    """The verdicts on a step, found in a process of its own, with limits of time and memory."""
    with TemporaryDirectory() as place:
        leaves = Path(place, "verdicts.json")
        given = map(str, (folder.resolve(), step, leaves, hint))
        library = os.pathsep.join([str(Path(tinytensor.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        outcome = apart.run_apart(
            [sys.executable, "-m", "tinytensor.course.trying", *given],
            seconds=seconds,
            megabytes=MEGABYTES,
            folder=Path(place),
            leaves=leaves,
            environment={"PYTHONPATH": library},
        )
        if leaves.exists() and outcome.ended == apart.FINISHED:
            return [(right, words) for right, words in json.loads(leaves.read_text(encoding="utf-8"))]
    told = outcome.errors.strip().rpartition("\n")[2]
    if outcome.ended == apart.OUT_OF_TIME:
        told = f"it took longer than {seconds:g} s: is there an endless loop?"
    return [(False, f"{step}.py: {told or f'it ended early, with exit code {outcome.code}'}")]
