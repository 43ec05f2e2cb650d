"""A training script's life: its arguments, a new run or one that goes on, the training, the report, the exit code."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tinytensor as tt

from ..training.run_folder import RunFolder
from ..training.trainer import Interrupted, NotFiniteError, Trainer
from .command_line import (
    EXIT_INTERRUPTED,
    EXIT_NOT_FINITE,
    EXIT_OK,
    EXIT_TOO_INACCURATE,
    Parser,
    UsageError,
    fraction,
    non_negative_int,
    positive_float,
    positive_int,
)

CHANGEABLE = ("steps", "device", "require_accuracy", "time_limit")  # what may differ when a run goes on


@dataclass(frozen=True)
class Script:
    """What a training script is made of.

    Attributes:
        check: raises UsageError for arguments that cannot work, before anything is touched.
        build: makes the trainer of a run from its arguments.
        report: prints what was learned, draws the pictures and gives the accuracy that --require-accuracy asks for.
        packages: what has to be installed, each with the extra of ours that brings it.
    """

    parser: Parser
    check: Callable[[argparse.Namespace], None]
    build: Callable[[argparse.Namespace, RunFolder], Trainer]
    report: Callable[[argparse.Namespace, Trainer], float]
    packages: Mapping[str, str]

    def main(self) -> int:
        """Run it; returns the exit code."""
        arguments, given = _read(self.parser)
        tt.speed_up()
        state = None
        if arguments.resume:
            folder = RunFolder(arguments.out, resume=True)
            state = folder.load()
            _adopt(arguments, given, state["arguments"])
            self._check(arguments)
        else:
            self._check(arguments)
            folder = RunFolder(arguments.out, resume=False)
        trainer = self.build(arguments, folder)
        if state is not None:
            _go_on(trainer, state)
            print(f"resuming {arguments.out} after step {trainer.step}")
        else:
            moved = folder.begin()
            if moved is not None:
                print(f"the run that was in {arguments.out} is kept as {moved}")
            trainer.begin()
        try:
            trainer.run(arguments.steps, time_limit=arguments.time_limit)
            accuracy = self.report(arguments, trainer)
        except (Interrupted, KeyboardInterrupt):
            print(f"interrupted after step {trainer.step}; go on with: {_resume_command(arguments)}", flush=True)
            return EXIT_INTERRUPTED
        except NotFiniteError as error:
            folder.log(event="not finite", step=trainer.step + 1, message=str(error))
            print(f"{self.parser.prog}: {error}", file=sys.stderr)
            return EXIT_NOT_FINITE
        required = arguments.require_accuracy
        if required is not None and accuracy < required:
            print(f"{self.parser.prog}: exact match {accuracy:.4f} is below the required {required}", file=sys.stderr)
            return EXIT_TOO_INACCURATE
        return EXIT_OK

    def _check(self, arguments: argparse.Namespace) -> None:
        try:
            tt.backend.for_device(arguments.device)
        except tt.DeviceError as error:
            raise UsageError(f"--device {arguments.device}: {error}") from None
        for package, extra in self.packages.items():
            if importlib.util.find_spec(package) is None:
                raise UsageError(f"{package} is not installed; run: pip install -e '.[{extra}]'")
        self.check(arguments)


def add_arguments(p: Parser, *, out: str, **defaults: Any) -> None:
    """The arguments of every training script, with its defaults.

    Args:
        defaults: of steps, batch_size, dropout and learning_rate. A text is shown in the help, and the argument is None
            until the script puts something in its place.
    """

    def option(name: str, **options: Any) -> None:
        default = defaults[name.replace("-", "_")]
        if isinstance(default, str):
            default, options["help"] = None, f"{options['help']}; default: {default}"
        p.add_argument(f"--{name}", default=default, **options)

    p.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="where to compute")
    option("steps", type=positive_int, help="training steps")
    option("batch-size", type=positive_int, help="sequences in a batch")
    option("dropout", type=fraction, help="dropout probability")
    option("learning-rate", type=positive_float, help="highest learning rate")
    p.add_argument("--seed", type=non_negative_int, default=0, help="weights and data follow from it")
    p.add_argument("--out", type=Path, default=Path(out), help="folder for checkpoint, log and pictures")
    p.add_argument("--resume", action="store_true", help="go on with the run in --out, with its arguments")
    p.add_argument(
        "--time-limit", type=positive_float, metavar="MINUTES",
        help="end training after so many minutes, as if --steps were reached; --resume goes on, for as long again",
    )  # fmt: skip
    p.add_argument(
        "--require-accuracy", type=fraction, default=None, metavar="X",
        help="exit with 4 if the exact-match accuracy is below X",
    )  # fmt: skip


def plain(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments as a checkpoint keeps them: plain values, and files by a name that holds in every folder."""
    return {name: _plain(name, value) for name, value in vars(arguments).items() if name != "resume"}


def _plain(name: str, value: Any) -> Any:
    if not isinstance(value, Path):
        return value
    return str(value if name == "out" else value.absolute())


def _read(p: Parser) -> tuple[argparse.Namespace, set[str]]:
    """The arguments, and the names of those that were given and are no defaults."""
    arguments = p.parse_args()
    missing = object()
    blank = argparse.Namespace(**dict.fromkeys(vars(arguments), missing))
    given = {name for name, value in vars(p.parse_args(namespace=blank)).items() if value is not missing}
    return arguments, given


def _adopt(arguments: argparse.Namespace, given: set[str], saved: dict[str, Any]) -> None:
    """Take the arguments of the run that is resumed; raise UsageError where others were given."""
    unlike = {"resume"} ^ set(saved) ^ set(vars(arguments))
    if unlike:
        options = ", ".join("--" + name.replace("_", "-") for name in sorted(unlike))
        raise UsageError(
            f"--resume: the run in {arguments.out} is of another script, or of another version of this one: only one "
            f"of them has {options}"
        )
    for name, value in saved.items():
        if name == "out" or (name in CHANGEABLE and name in given):
            continue
        mine = getattr(arguments, name)
        if name in given and _plain(name, mine) != value:
            option = "--" + name.replace("_", "-")
            raise UsageError(
                f"--resume: the run in {arguments.out} has {option} {value}, not {mine}; "
                f"leave {option} out, or start another run with another --out"
            )
        setattr(arguments, name, value)


def _go_on(trainer: Trainer, state: dict[str, Any]) -> None:
    """Bring a run to where its checkpoint was written; raise UsageError if it does not fit: its folder is as before."""
    steps = trainer.arguments["steps"]
    try:
        trainer.restore(state)
    except (KeyError, ValueError, RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"--resume: the checkpoint does not fit: {reason}") from None
    if trainer.step > steps:
        raise UsageError(f"--resume: --steps {steps}, but the run has done {trainer.step} already")
    trainer.folder.rewind(state)


def _resume_command(arguments: argparse.Namespace) -> str:
    return f"python {shlex.quote(sys.argv[0])} --resume --out {shlex.quote(str(arguments.out))}"
