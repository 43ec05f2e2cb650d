"""Train a Transformer to copy, reverse or sort sequences of letters.

    python examples/train_copy_task.py
    python examples/train_copy_task.py --task reverse --out runs/reverse
    python examples/train_copy_task.py --resume

The sequences are made on the fly from the seed. It writes into --out: checkpoint.safetensors (everything needed to
resume), log.jsonl (arguments and figures, a JSON object a line), run.html (the figures, samples and attention of the
run, a page written while it trains), loss.svg, cross-attention.svg (where each output letter looked),
attention-head.svg (the computation graph of one attention head).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from tinytensor.graph import DrawingError
from tinytensor.models.data.sequences import TASKS, SequenceTask
from tinytensor.models.scripts import attention_graphs, command_line, copy_task
from tinytensor.models.scripts.run import Run, add_arguments, plain
from tinytensor.models.training import plots
from tinytensor.models.training.callbacks import Checkpoints, Log, Samples, TimeLimit
from tinytensor.models.training.page import RunPage
from tinytensor.models.training.run_folder import RunFolder
from tinytensor.models.training.schedules import adam
from tinytensor.models.training.trainer import Trainer
from tinytensor.models.transformer import Transformer

TEST_SEQUENCES = 1000
WARM_UP = 100  # steps


def main() -> int:
    """Parse, build, train, report."""
    run = Run(parser(), {"tqdm": "examples"})
    arguments = run.arguments
    check(arguments)

    folder = run.open_folder()
    model, task = copy_task.build(vars(arguments))
    optimizer, schedule = adam(model, "cosine", arguments.learning_rate, WARM_UP, arguments.steps)
    samples = Samples(folder, lambda say: show_samples(model, task, 3, say))
    checkpoints = Checkpoints(folder, plain(arguments), every=arguments.checkpoint_every)
    page = RunPage(folder, lambda: copy_task.attention(model, task))
    callbacks = [Log(folder), samples, TimeLimit(arguments.time_limit), page, checkpoints]
    trainer = Trainer(model, optimizer, schedule, task, callbacks, batch_size=arguments.batch_size)

    with run.begun(trainer, checkpoints):
        trainer.run(arguments.steps)
        accuracy = report(model, task, folder, trainer.step)
    return run.exit_code(accuracy)


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="train_copy_task.py", description="Train a Transformer to copy, reverse or sort.")
    p.add_argument("--task", choices=sorted(TASKS), default="copy", help="what to do with a sequence of letters")
    add_arguments(p, out="runs/copy-task", steps=800, batch_size=64, dropout=0.0, learning_rate=2e-3)
    p.add_argument("--d-model", type=command_line.size, default=64, help="size of every layer's output")
    p.add_argument("--num-heads", type=command_line.size, default=4, help="attention heads, a divisor of d-model")
    p.add_argument("--num-layers", type=command_line.depth, default=2, help="layers of encoder and of decoder")
    p.add_argument("--max-length", type=command_line.size, default=12, help="letters in the longest sequence")
    return p


def check(arguments: argparse.Namespace) -> None:
    size, heads = arguments.d_model, arguments.num_heads
    if size % heads:
        raise command_line.UsageError(f"--num-heads {heads} does not divide --d-model {size}")


def show_samples(model: Transformer, task: SequenceTask, count: int, say: Callable[[str], None]) -> None:
    """Print test sequences with the model's current answers."""
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
    """Draw the loss curve, the cross-attention of the longest of some test sequences, and the graph of a head."""
    paths = [*plots.draw_losses(folder, log=True), folder.path / "cross-attention.svg"]
    plots.draw_attention(paths[-1], copy_task.attention(model, task), "cross")
    head = folder.path / "attention-head.svg"
    try:
        attention_graphs.head(model.d_model).save(head)
    except DrawingError as error:  # the run is complete without it
        print(f"skipped {head}: {error}")
        return paths
    return [*paths, head]


if __name__ == "__main__":
    command_line.run(main)
