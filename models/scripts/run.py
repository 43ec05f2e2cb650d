"""A run of a training script: its arguments, its folder, beginning or resuming, and its exit code."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tinytensor as tt
from tinytensor.machine import speed
from tinytensor.machine.files import atomic_write
from tinytensor.nn import distributed
from tinytensor.nn.distributed.launch import launched

from ..training.callbacks import Checkpoints
from ..training.figures import LOGGERS
from ..training.interruption import Interrupted
from ..training.not_finite import NotFiniteError
from ..training.page import write_page
from ..training.ranks import FolderOfRank0, distribute
from ..training.run_folder import RunFolder, RunFolderError
from ..training.trainer import Callback, Trainer
from .command_line import (
    EXIT_INTERRUPTED,
    EXIT_NOT_FINITE,
    EXIT_OK,
    EXIT_TERMINATED,
    EXIT_TOO_INACCURATE,
    Parser,
    UsageError,
    fraction,
    non_negative_int,
    positive_float,
    positive_int,
    size,
    told,
)
from .launched import share_cores

OF_RANKS = ("rank_timeout", "shard_optimizer")  # not in a checkpoint
CHANGEABLE = (
    "steps", "device", "require_accuracy", "time_limit", "checkpoint_every", "log_to", "matmul_precision", *OF_RANKS,
)  # fmt: skip
"""Arguments that a resumed run may have otherwise."""


class Run:
    """One run of a training script, from its arguments to its exit code.

        run = Run(parser(), {"tqdm": "examples"})
        folder = run.open_folder()
        trainer, checkpoints = build(run.arguments, folder)
        with run.begun(trainer, checkpoints):
            trainer.run(run.arguments.steps)
            accuracy = report(run.arguments, trainer)
        return run.exit_code(accuracy)

    If `mpiexec` started several processes, they train together, and only rank 0 writes and reports.

    Args:
        parser: the parser of the script's arguments, including those of `add_arguments`.
        packages: packages that must be installed, each with our extra that includes it.

    Attributes:
        arguments: those of the command line; with --resume those of the run in --out.

    Raises UsageError, and changes nothing, if the arguments cannot work.
    """

    def __init__(self, parser: Parser, packages: Mapping[str, str]) -> None:
        self.prog = parser.prog
        self.arguments, explicit = _parse(parser)
        tt.speed_up()
        share_cores()
        self._folder: RunFolder | None = None
        self._checkpoint: dict[str, Any] | None = None
        if self.arguments.resume:
            folder = self.open_folder()
            with told(RunFolderError, prefix="--resume: "):
                self._checkpoint = folder.load()
            _adopt(self.arguments, explicit, self._checkpoint["arguments"])
        with told(ValueError):  # of TINYTENSOR_MEDIUM
            tt.set_float32_matmul_precision(self.arguments.matmul_precision)
        with told(tt.DeviceError):
            tt.backend.for_device(self.arguments.device)
        if "tensorboard" in self.arguments.log_to:
            packages = {**packages, "tensorboardX": "tensorboard"}
        for package, extra in packages.items():
            if importlib.util.find_spec(package) is None:
                raise UsageError(f"{package} is not installed; run: pip install -e '.[{extra}]'")
        with told(ImportError):
            backend = "nccl" if self.arguments.device == "gpu" else None
            self._ranks = distributed.init_process_group(backend, timeout=self.arguments.rank_timeout)
        if self._ranks.size > 1 and self.arguments.matmul_precision == "medium":
            kinds = set(self._ranks.gather_objects(speed.medium_kind()))
            speed.set_medium_kind("float32" if len(kinds) > 1 else kinds.pop())

    def open_folder(self) -> RunFolder:
        """The folder --out, locked from now on for other processes. A run in it stays until `begun`."""
        if self._folder is None:
            with told(RunFolderError, prefix="--resume: " if self.arguments.resume else ""):
                kind = FolderOfRank0 if (place := launched()) and place.rank > 0 else RunFolder
                self._folder = kind(self.arguments.out, resume=self.arguments.resume)
        return self._folder

    @contextmanager
    def begun(
        self, trainer: Trainer, checkpoints: Checkpoints, files: Mapping[str, bytes] | None = None
    ) -> Iterator[None]:
        """Begin or resume the run; train and report within it. If it breaks off, one line says why.

        Args:
            files: files that the folder of a new run holds from the beginning, by name.

        Raises SystemExit with its exit code after Ctrl-C or SIGTERM, and if the loss or a gradient is not finite.
        """
        for rank, other in enumerate(made := self._ranks.gather_objects((checkpoints.arguments, checkpoints.data))):
            if other != made[0]:
                raise UsageError(f"rank {rank} has other arguments or other data than rank 0")
        trainer.callbacks = [*trainer.callbacks, *(LOGGERS[to](self.open_folder()) for to in self.arguments.log_to)]
        if self._ranks.size > 1:
            distribute(trainer, self._ranks, shard_optimizer=self.arguments.shard_optimizer)
            if self._ranks.rank > 0:
                trainer.callbacks = [*trainer.callbacks, LeavesTheRest()]
        if self._checkpoint is not None:
            self._go_on(trainer, checkpoints, self._checkpoint)
        elif self._ranks.rank == 0:
            self._begin(trainer, checkpoints, files or {})
        status = "broken off"
        try:
            with told(RunFolderError):
                yield
            status = "ended"
        except (Interrupted, KeyboardInterrupt) as stop:
            terminated = isinstance(stop, Interrupted) and stop.signal == signal.SIGTERM
            how = status = "saved and ended by SIGTERM" if terminated else "interrupted"
            ranks = f"mpiexec -n {self._ranks.size} " if self._ranks.size > 1 else ""
            again = f"{ranks}python {shlex.quote(sys.argv[0])} --resume --out {shlex.quote(str(self.arguments.out))}"
            print(f"{how} after step {trainer.step}; go on with: {again}", flush=True)
            raise SystemExit(EXIT_TERMINATED if terminated else EXIT_INTERRUPTED) from None
        except NotFiniteError as error:
            status = str(error)
            self.open_folder().log(event="not finite", step=trainer.step + 1, message=str(error))
            print(f"{self.prog}: {error}", file=sys.stderr)
            raise SystemExit(EXIT_NOT_FINITE) from None
        finally:
            if self._ranks.rank == 0:
                self._write_page(trainer.step, status)

    def exit_code(self, accuracy: float, of: str = "exact match") -> int:
        """The exit code of a finished run: depends on --require-accuracy, the least share `of` something."""
        required = self.arguments.require_accuracy
        if required is not None and accuracy < required:
            print(f"{self.prog}: {of} {accuracy:.4f} is below the required {required}", file=sys.stderr)
            return EXIT_TOO_INACCURATE
        return EXIT_OK

    def _write_page(self, step: int, status: str) -> None:
        """Write the last page of this process, and print its path unless the run broke off, whose cause is enough."""
        try:
            path = write_page(self.open_folder().path, f"step {step:,} of {self.arguments.steps:,}: {status}")
            told = f"wrote {path}"
        except OSError as error:
            told = f"the page of the run could not be written: {error}"
        if status == "ended":
            print(told, flush=True)

    def _begin(self, trainer: Trainer, checkpoints: Checkpoints, files: Mapping[str, bytes]) -> None:
        folder = self.open_folder()
        with told(RunFolderError):
            aside = folder.begin()
        if aside is not None:
            print(f"the run that was in {self.arguments.out} is kept as {aside}")
        parameters = sum(parameter.size for parameter in trainer.model.parameters())
        print(
            f"a new run in {self.arguments.out}: {self.arguments.steps:,} steps, {parameters:,} parameters", flush=True
        )
        for name, content in files.items():
            atomic_write(folder.path / name, content)
        folder.log(event="start", arguments=checkpoints.arguments)
        checkpoints.save(trainer)

    def _go_on(self, trainer: Trainer, checkpoints: Checkpoints, checkpoint: dict[str, Any]) -> None:
        """Bring the run back to its checkpoint; if that does not fit, the folder stays unchanged."""
        with told(KeyError, ValueError, RuntimeError, TypeError, prefix="--resume: the checkpoint does not fit: "):
            checkpoints.restore(trainer, checkpoint)
        steps = self.arguments.steps
        if trainer.step > steps:
            raise UsageError(f"--resume: --steps {steps}, but the run has done {trainer.step} already")
        self.open_folder().rewind(checkpoint)
        print(f"resuming {self.arguments.out} after step {trainer.step}", flush=True)


class LeavesTheRest(Callback):
    """A rank's last callback: when training ends, rank 0 does the rest."""

    def end(self, trainer: Trainer) -> None:
        raise SystemExit(EXIT_OK)


def add_arguments(p: Parser, *, out: str, **defaults: Any) -> None:
    """Add the arguments of every training script, with its defaults.

    Args:
        defaults: those of steps, batch_size, dropout, learning_rate and checkpoint_every (200). One without a
            default is left out. A string appears in the help, and the argument is None until the script sets it.
    """

    defaults = {"checkpoint_every": 200} | defaults

    def option(name: str, **options: Any) -> None:
        if (default := defaults.get(name.replace("-", "_"))) is None:
            return
        if isinstance(default, str):
            default, options["help"] = None, f"{options['help']}; default: {default}"
        p.add_argument(f"--{name}", default=default, **options)

    p.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="where to compute")
    option("steps", type=positive_int, help="training steps")
    option("batch-size", type=size, help="sequences in a batch")
    option("dropout", type=fraction, help="dropout probability")
    option("learning-rate", type=positive_float, help="highest learning rate")
    p.add_argument("--seed", type=non_negative_int, default=0, help="weights and data follow from it")
    p.add_argument("--out", type=Path, default=Path(out), help="folder for checkpoint, log and pictures")
    p.add_argument("--resume", action="store_true", help="go on with the run in --out, with its arguments")
    how_often = "what a power failure can cost at most; Ctrl-C and SIGTERM write a checkpoint as well"
    option("checkpoint-every", type=positive_int, metavar="STEPS", help=how_often)
    p.add_argument(
        "--time-limit", type=positive_float, metavar="MINUTES",
        help="end training after so many minutes, as if --steps were reached; --resume goes on, for as long again",
    )  # fmt: skip
    p.add_argument(
        "--matmul-precision", choices=("highest", "high", "medium"), default="highest",
        help="of products in float32; high: in TF32 on a GPU; medium: in bfloat16 where the processor can (faster)",
    )  # fmt: skip
    p.add_argument("--log-to", nargs="+", choices=list(LOGGERS), default=[], help="write the metrics to figures.csv, "
                   "to events/ for TensorBoard, or to both")  # fmt: skip
    p.add_argument(
        "--require-accuracy", type=fraction, default=None, metavar="X",
        help="exit with 4 if the accuracy in the end is below X",
    )  # fmt: skip
    group = p.add_argument_group("for many ranks, as in: mpiexec -n 4 python ...")
    group.add_argument(
        "--rank-timeout", type=positive_float, default=distributed.TIMEOUT, metavar="SECONDS",
        help="end all where one of them does not answer for so long",
    )  # fmt: skip
    group.add_argument("--shard-optimizer", action="store_true", help="shard the optimiser's state (ZeRO, stage 1)")


def plain(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments for a checkpoint: plain values, and absolute names of files."""
    left_out = ("resume", *OF_RANKS)
    return {name: _plain(name, value) for name, value in vars(arguments).items() if name not in left_out}


def _plain(name: str, value: Any) -> Any:
    if not isinstance(value, Path):
        return value
    return str(value if name == "out" else value.absolute())


def _parse(p: Parser) -> tuple[argparse.Namespace, set[str]]:
    """The arguments, and the names of those on the command line."""
    arguments = p.parse_args()
    missing = object()
    blank = argparse.Namespace(**dict.fromkeys(vars(arguments), missing))
    explicit = {name for name, value in vars(p.parse_args(namespace=blank)).items() if value is not missing}
    return arguments, explicit


def _adopt(arguments: argparse.Namespace, explicit: set[str], saved: dict[str, Any]) -> None:
    """Take the arguments of the resumed run; raise UsageError if others were given."""
    unlike = ({"resume"} ^ set(saved) ^ set(vars(arguments))) - set(CHANGEABLE)
    if unlike:
        options = ", ".join("--" + name.replace("_", "-") for name in sorted(unlike))
        raise UsageError(
            f"--resume: the run in {arguments.out} is of another script, or of another version of this one: only one "
            f"of them has {options}"
        )
    for name, value in saved.items():
        if name == "out" or (name in CHANGEABLE and name in explicit):
            continue
        mine = getattr(arguments, name)
        if name in explicit and _plain(name, mine) != value:
            option = "--" + name.replace("_", "-")
            raise UsageError(
                f"--resume: the run in {arguments.out} has {option} {value}, not {mine}; "
                f"leave {option} out, or start another run with another --out"
            )
        setattr(arguments, name, value)
