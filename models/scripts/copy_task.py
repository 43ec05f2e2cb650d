"""The copy, reverse and sort tasks: a model for one, its answers, and a trained model from the folder of its run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tinytensor as tt

from ..data.batch import EOS
from ..data.sequences import SequenceTask
from ..sentence_attention import END, SentenceAttention
from ..training.run_folder import RunFolderError, read_checkpoint
from ..training.schedules import adam
from ..training.trainer import Trainer
from ..transformer import Transformer
from .command_line import UsageError, told

BACKWARDS: dict[str, Any] = {
    "task": "reverse", "d_model": 64, "num_heads": 4, "num_layers": 2, "dropout": 0.0, "max_length": 12,
}  # fmt: skip
"""The task and the sizes of a model that learns to write words backwards in ten seconds."""


def build(arguments: Mapping[str, Any]) -> tuple[Transformer, SequenceTask]:
    """A new model and its task, both determined by the arguments of the run (`seed` among them)."""
    tt.manual_seed(arguments["seed"])
    task = SequenceTask(arguments["task"], arguments["seed"], max_length=arguments["max_length"])
    model = Transformer(
        task.vocabulary,
        d_model=arguments["d_model"],
        num_heads=arguments["num_heads"],
        num_layers=arguments["num_layers"],
        dropout=arguments["dropout"],
        max_length=arguments["max_length"] + 1,  # the letters and the end
    )
    return model.to(arguments["device"]), task


def learn_backwards(model: Transformer, steps: int = 300) -> None:
    """Train a model of `BACKWARDS`. After 300 steps, it turns more than 95 % of unseen words round."""
    task = SequenceTask("reverse", 0, max_length=BACKWARDS["max_length"])
    optimizer, schedule = adam(model, "cosine", 5e-3, steps // 10 + 1, steps)
    tt.speed_up()
    print(f"learning to write backwards in {steps} steps", flush=True)
    Trainer(model, optimizer, schedule, task, [], batch_size=64).run(steps)


def load(folder: Path, device: str = "cpu") -> tuple[Transformer, SequenceTask]:
    """Load the model that a run trained, in evaluation mode, and its task.

    Raises UsageError if the folder holds no run, or one of another script, or if its checkpoint is damaged.
    """
    with told(RunFolderError):
        state = read_checkpoint(folder, device)
    if "task" not in state["arguments"]:
        raise UsageError(f"{folder} holds a run of another script; expected one of train_copy_task.py")
    model, task = build({**state["arguments"], "device": device})
    model.load_state_dict(state["model"])
    return model.eval(), task


def attention(model: Transformer, task: SequenceTask) -> SentenceAttention:
    """A model's attention while it predicts the answer to the longest of some test sequences."""
    sequence = max(task.test_sequences(20), key=len)
    batch = task.make_batch([sequence])
    read, said = ([*task.to_text(ids), END] for ids in (sequence, task.answer(sequence)))
    return SentenceAttention.of(model, (batch.source, batch.target_in), read, said)


def generate(model: Transformer, task: SequenceTask, sequences: list[list[int]]) -> list[list[int]]:
    """The model's answers, without the end of the sequence."""
    answers: list[list[int]] = []
    for start in range(0, len(sequences), 250):
        batch = task.make_batch(sequences[start : start + 250])
        for row in model.generate(batch.source, max_length=task.max_length + 1).tolist():
            answers.append(row[: row.index(EOS)] if EOS in row else row)
    return answers
