"""Train an encoder to predict hidden words, like BERT (Devlin et al. 2019), in sentences of the toy English.

    python examples/train_masked_words.py
    python examples/train_masked_words.py --resume

The sentences are made from the seed; test sentences have combinations of words that training never shows. It writes
into --out: checkpoint.safetensors (everything needed to resume), log.jsonl (arguments and figures, a JSON object a
line), run.html (the figures, samples and attention of the run, a page written while it trains), loss.svg, attention.svg
and attention.html (where each word looked), and masked-word.svg (where the hidden word looked). A finished run has
config.json with the trained model, for `models.Encoder.from_pretrained`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor.models import Encoder
from tinytensor.models.data.masked import HIDDEN, MaskedWordTask
from tinytensor.models.scripts import command_line
from tinytensor.models.scripts.run import Run, add_arguments, plain
from tinytensor.models.sentence_attention import BEGIN, SentenceAttention
from tinytensor.models.training import plots
from tinytensor.models.training.callbacks import Checkpoints, Log, Samples, TimeLimit
from tinytensor.models.training.page import RunPage
from tinytensor.models.training.schedules import adam
from tinytensor.models.training.trainer import Trainer
from tinytensor.nn import functional as F

TEST_SENTENCES = 1000
WARM_UP = 200  # steps
LONGEST = 64  # words
SENTENCES = (
    f"Emma bought the carrot and {HIDDEN} it .",
    f"Paul gave {HIDDEN} a book .",
    f"Emma opens a bag {HIDDEN} closes it .",
    f"the {HIDDEN} eats the delicious apple .",
)


def main() -> int:
    """Parse, build, train, report."""
    run = Run(parser(), {"tqdm": "examples"})
    arguments = run.arguments
    size, heads = arguments.d_model, arguments.num_heads
    if size % heads:
        raise command_line.UsageError(f"--num-heads {heads} does not divide --d-model {size}")
    folder = run.open_folder()
    tt.manual_seed(arguments.seed)
    task = MaskedWordTask(arguments.seed)
    model = Encoder(
        len(task), d_model=arguments.d_model, num_heads=arguments.num_heads, num_layers=arguments.num_layers,
        dropout=arguments.dropout, max_length=LONGEST, norm_first=True, mask_id=task.mask_id,
    ).to(arguments.device)  # fmt: skip

    optimizer, schedule = adam(model, "cosine", arguments.learning_rate, WARM_UP, arguments.steps)
    samples = Samples(folder, lambda say: show_guesses(model, task, 2, say), every=500)
    page = RunPage(folder, lambda: attention(model, task))
    checkpoints = Checkpoints(folder, plain(arguments), every=arguments.checkpoint_every)
    callbacks = [Log(folder), samples, TimeLimit(arguments.time_limit), page, checkpoints]
    trainer = Trainer(model, optimizer, schedule, task, callbacks, batch_size=arguments.batch_size)

    with run.begun(trainer, checkpoints):
        trainer.run(arguments.steps)
        model.eval()
        model.save_pretrained(folder.path)
        print("\nwhat it says of hidden words")
        show_guesses(model, task, len(SENTENCES), print)
        found = report(model, task)
        folder.log(event="result", step=trainer.step, sentences=TEST_SENTENCES, **found)
        seen = attention(model, task)
        plots.draw_run(folder, seen, log=False)
        path = folder.path / "masked-word.svg"
        plots.draw_attention(path, seen, "encoder", token=seen.find("encoder", HIDDEN))
        print(f"wrote {path}")
    return run.exit_code(found["accuracy"], "accuracy")


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="train_masked_words.py", description="Train an encoder to say hidden words.")
    add_arguments(p, out="runs/masked-words", steps=2000, batch_size=64, dropout=0.0, learning_rate=2e-3)
    p.add_argument("--d-model", type=command_line.size, default=96, help="size of every layer's output")
    p.add_argument("--num-heads", type=command_line.size, default=4, help="attention heads, a divisor of d-model")
    p.add_argument("--num-layers", type=command_line.depth, default=2, help="layers of the encoder")
    return p


@tt.no_grad()
def probabilities(model: Encoder, ids: Any) -> np.ndarray:
    """The model's probabilities of words at each place of ids (batch, length): (batch, length, words)."""
    return F.softmax(model(ids)[..., : model.mask_id], dim=-1).numpy()


def show_guesses(model: Encoder, task: MaskedWordTask, count: int, say: Callable[[str], None]) -> None:
    """Print the likeliest words for the hidden one in some sentences."""
    for sentence in SENTENCES[:count]:
        words = sentence.split()
        p = probabilities(model, task.ids([words]))[0, 1 + words.index(HIDDEN)]
        best = ", ".join(f"{task.word(i)} {p[i]:.0%}" for i in np.argsort(-p)[:4].tolist())
        say(f"  {sentence}   {best}")


def report(model: Encoder, task: MaskedWordTask) -> dict[str, float]:
    """Print and return the share of hidden words found, and the share by always saying the most frequent one."""
    said, asked = [], []
    for batch in task.test_batches(TEST_SENTENCES):
        hidden = batch.target_out != 0
        said.append(probabilities(model, batch.ids).argmax(axis=-1)[hidden])
        asked.append(batch.target_out[hidden])
    right, words = np.concatenate(said) == np.concatenate(asked), np.concatenate(asked)
    found = {"accuracy": float(right.mean()), "most_frequent_word": float(np.bincount(words).max() / len(words))}
    print(f"of {len(words):,} words hidden in sentences with unseen combinations, found: {found['accuracy']:.1%}")
    print(f"  by the most frequent word alone: {found['most_frequent_word']:.1%}")
    return found


def attention(model: Encoder, task: MaskedWordTask) -> SentenceAttention:
    """The attention of each word in the first sentence, the hidden one included."""
    words = SENTENCES[0].split()
    return SentenceAttention.of(model, [task.ids([words])], [BEGIN, *words])


if __name__ == "__main__":
    command_line.run(main)
