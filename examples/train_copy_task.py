"""Train a Transformer to copy, reverse or sort sequences of letters.

    python examples/train_copy_task.py
    python examples/train_copy_task.py --task reverse --out runs/reverse
    python examples/train_copy_task.py --resume

The sequences are made on the fly from the seed. What is written into --out: checkpoint.safetensors (everything needed
to go on), log.jsonl (arguments and figures, a JSON object a line), loss.png and .svg, cross-attention.png and .svg
(what each output letter looked at), attention-head.svg (the computation graph of one attention head).
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded: our own threads share the work better

import argparse
import importlib.util
import math
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nn
import tinytensor as tt
from models import attention_graphs, command_line, copy_task, plots
from models.run_folder import RunFolder
from models.tasks import TASKS, SequenceTask
from models.training import Interrupted, NotFiniteError, Trainer
from models.transformer import Transformer

TEST_SEQUENCES = 1000
WARM_UP = 100  # steps
CHANGEABLE = ("steps", "device", "require_accuracy")  # what may differ when a run goes on


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="train_copy_task.py", description="Train a Transformer to copy, reverse or sort.")
    p.add_argument("--task", choices=sorted(TASKS), default="copy", help="what to do with a sequence of letters")
    p.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="where to compute")
    p.add_argument("--steps", type=command_line.positive_int, default=800, help="training steps")
    p.add_argument("--batch-size", type=command_line.positive_int, default=64, help="sequences in a step")
    p.add_argument("--d-model", type=command_line.positive_int, default=64, help="size of every layer's output")
    p.add_argument(
        "--num-heads", type=command_line.positive_int, default=4, help="attention heads, a divisor of d-model"
    )
    p.add_argument("--num-layers", type=command_line.positive_int, default=2, help="layers of encoder and of decoder")
    p.add_argument("--max-length", type=command_line.positive_int, default=12, help="letters in the longest sequence")
    p.add_argument("--dropout", type=command_line.fraction, default=0.0, help="dropout probability")
    p.add_argument("--learning-rate", type=command_line.positive_float, default=2e-3, help="highest learning rate")
    p.add_argument("--seed", type=command_line.non_negative_int, default=0, help="weights and sequences follow from it")
    p.add_argument("--out", type=Path, default=Path("runs/copy-task"), help="folder for checkpoint, log and pictures")
    p.add_argument("--resume", action="store_true", help="go on with the run in --out, with its arguments")
    p.add_argument(
        "--require-accuracy", type=command_line.fraction, default=None, metavar="X",
        help="exit with 4 if the exact-match accuracy is below X",
    )  # fmt: skip
    return p


def main() -> int:
    arguments, given = read_arguments()
    tt.keep_memory()
    try:
        return train(arguments, given)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise command_line.UsageError(f"cannot write {error.filename or 'output'}: {error.strerror or error}") from None


def train(arguments: argparse.Namespace, given: set[str]) -> int:
    state = None
    if arguments.resume:
        folder = RunFolder(arguments.out, resume=True)
        state = folder.load()
        adopt(arguments, given, state["arguments"])
        check(arguments)
    else:
        check(arguments)
        folder = RunFolder(arguments.out, resume=False)
        if folder.moved is not None:
            print(f"the run that was in {arguments.out} is kept as {folder.moved}")
    trainer, model, task = build(arguments, folder)
    if state is not None:
        go_on(trainer, state)
        print(f"resuming {arguments.out} after step {trainer.step}")
    else:
        folder.log(event="start", arguments=trainer.arguments)
        trainer.save()
    try:
        trainer.run(arguments.steps)
        accuracy = report(model, task, folder, trainer.step)
    except (Interrupted, KeyboardInterrupt):
        print(f"interrupted after step {trainer.step}; go on with: {resume_command(arguments)}", flush=True)
        return command_line.EXIT_INTERRUPTED
    except NotFiniteError as error:
        folder.log(event="not finite", step=trainer.step + 1, message=str(error))
        print(f"train_copy_task.py: {error}", file=sys.stderr)
        return command_line.EXIT_NOT_FINITE
    if arguments.require_accuracy is not None and accuracy < arguments.require_accuracy:
        print(
            f"train_copy_task.py: exact match {accuracy:.4f} is below the required {arguments.require_accuracy}",
            file=sys.stderr,
        )
        return command_line.EXIT_TOO_INACCURATE
    return command_line.EXIT_OK


def read_arguments() -> tuple[argparse.Namespace, set[str]]:
    """The arguments, and the names of those that were given and are no defaults."""
    p = parser()
    arguments = p.parse_args()
    missing = object()
    blank = argparse.Namespace(**dict.fromkeys(vars(arguments), missing))
    given = {name for name, value in vars(p.parse_args(namespace=blank)).items() if value is not missing}
    return arguments, given


def check(arguments: argparse.Namespace) -> None:
    """Raise UsageError for arguments that cannot work, before anything is touched."""
    if arguments.d_model % arguments.num_heads:
        raise command_line.UsageError(
            f"--num-heads {arguments.num_heads} does not divide --d-model {arguments.d_model}"
        )
    try:
        tt.backend.for_device(arguments.device)
    except tt.DeviceError as error:
        raise command_line.UsageError(f"--device {arguments.device}: {error}") from None
    for package in ("matplotlib", "tqdm"):
        if importlib.util.find_spec(package) is None:
            raise command_line.UsageError(f"{package} is not installed; run: pip install -e '.[examples]'")


def adopt(arguments: argparse.Namespace, given: set[str], saved: dict[str, Any]) -> None:
    """Take the arguments of the run that is resumed; raise UsageError where others were given."""
    for name, value in saved.items():
        if name == "out" or (name in CHANGEABLE and name in given):
            continue
        if name in given and getattr(arguments, name) != value:
            option = "--" + name.replace("_", "-")
            raise command_line.UsageError(
                f"--resume: the run in {arguments.out} has {option} {value}, not {getattr(arguments, name)}; "
                f"leave {option} out, or start another run with another --out"
            )
        setattr(arguments, name, value)


def go_on(trainer: Trainer, state: dict[str, Any]) -> None:
    """Bring a run to where its checkpoint was written; raise UsageError, with nothing changed, if it does not fit."""
    steps = trainer.arguments["steps"]
    try:
        trainer.restore(state)
    except (KeyError, ValueError, RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise command_line.UsageError(f"--resume: the checkpoint does not fit: {reason}") from None
    if trainer.step > steps:
        raise command_line.UsageError(f"--resume: --steps {steps}, but the run has done {trainer.step} already")
    trainer.folder.rewind(state)


def build(arguments: argparse.Namespace, folder: RunFolder) -> tuple[Trainer, Transformer, SequenceTask]:
    """The model, its optimiser and schedule, and the loop around them."""
    model, task = copy_task.build(vars(arguments))
    optimizer = nn.optim.Adam(model.parameters(), lr=arguments.learning_rate, betas=(0.9, 0.98), eps=1e-9)
    schedule = nn.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warm_up_and_decay(step, arguments.steps))
    plain = {name: str(v) if isinstance(v, Path) else v for name, v in vars(arguments).items() if name != "resume"}
    trainer = Trainer(
        model,
        optimizer,
        schedule,
        task,
        folder,
        arguments=plain,
        batch_size=arguments.batch_size,
        sample=lambda say: show_samples(model, task, 3, say),
    )
    return trainer, model, task


def warm_up_and_decay(step: int, steps: int) -> float:
    """The factor of the learning rate: up in a straight line over 100 steps, then down along a cosine to 0."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - WARM_UP) / max(1, steps - WARM_UP))))


def resume_command(arguments: argparse.Namespace) -> str:
    return f"python {shlex.quote(sys.argv[0])} --resume --out {shlex.quote(str(arguments.out))}"


# ---- what the model makes of sequences


def show_samples(model: Transformer, task: SequenceTask, count: int, say: Callable[[str], None]) -> None:
    """Print test sequences and what the model makes of them now."""
    sequences = task.test_sequences(count)
    for sequence, answer in zip(sequences, copy_task.generate(model, task, sequences)):
        mark = "" if answer == task.answer(sequence) else f"   (should be {task.to_text(task.answer(sequence))})"
        say(f"  {task.to_text(sequence)} -> {task.to_text(answer)}{mark}")


def report(model: Transformer, task: SequenceTask, folder: RunFolder, step: int) -> float:
    """Print samples and the exact-match accuracy on sequences never trained on; draw the pictures."""
    print(f"\n{task.name}: a few sequences the model has never seen")
    show_samples(model, task, 5, print)
    sequences = task.test_sequences(TEST_SEQUENCES)
    answers = copy_task.generate(model, task, sequences)
    accuracy = sum(answer == task.answer(s) for s, answer in zip(sequences, answers)) / len(sequences)
    folder.log(event="result", step=step, exact_match=accuracy, sequences=len(sequences))
    print(f"exact match on {len(sequences):,} sequences never seen in training: {accuracy:.1%}")
    for path in draw_pictures(model, task, folder):
        print(f"wrote {path}")
    return accuracy


def draw_pictures(model: Transformer, task: SequenceTask, folder: RunFolder) -> list[Path]:
    """The loss curve, the cross-attention of the longest of some test sequences, and the graph of a head."""
    entries = folder.entries("step")
    paths = plots.plot_losses(folder.path, [e["step"] for e in entries], [e["loss"] for e in entries])
    sequence = max(task.test_sequences(20), key=len)
    batch = task.make_batch([sequence])
    weights = model.cross_attention(batch.source, batch.target_in)[-1]  # of the last layer
    letters = list(task.to_text(sequence))
    answer = list(task.to_text(task.answer(sequence)))
    mean = tt.mean(weights[0], axis=0).numpy()
    paths += plots.plot_attention(folder.path, mean, [*letters, "<end>"], [*answer, "<end>"])
    head = folder.path / "attention-head.svg"
    attention_graphs.head(model.d_model).save(head)
    paths.append(head)
    return paths


if __name__ == "__main__":
    command_line.run(main)
