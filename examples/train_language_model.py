"""Train a language model, in the shape of GPT-2 or of Llama, on any text file.

    python examples/train_language_model.py
    python examples/train_language_model.py --text book.txt --preset llama-tiny
    python examples/train_language_model.py --text book.txt --units subwords --vocabulary 2000 --preset gpt2-small
    python examples/train_language_model.py --resume

Without a file it learns sentences of the toy English, which are made from the seed. At the end it prints how well it
predicts the held-out part of the text, beside n-grams with Kneser-Ney smoothing (Chen and Goodman 1998) that were
counted in the same text. It writes into --out: checkpoint.safetensors (everything needed to resume), log.jsonl
(arguments and figures, a JSON object a line), run.html (the figures, samples and attention of the run, a page written
while it trains), loss.svg, attention.svg and attention.html (where each character looked). A finished run has
config.json with the trained model, for `models.writer.Writer.from_pretrained`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import tinytensor as tt
from tinytensor.models import LanguageModel
from tinytensor.models.scripts import command_line
from tinytensor.models.scripts.language import Text, add_text_arguments
from tinytensor.models.scripts.run import Run, add_arguments, plain
from tinytensor.models.sentence_attention import SentenceAttention
from tinytensor.models.training import plots
from tinytensor.models.training.callbacks import Checkpoints, Evaluation, Log, Samples, TimeLimit
from tinytensor.models.training.page import RunPage
from tinytensor.models.training.presets import LANGUAGE_MODELS
from tinytensor.models.training.schedules import adam
from tinytensor.models.training.trainer import Trainer
from tinytensor.models.writer import Writer

WARM_UP = 100  # steps
SHOWN = 24  # ids in the picture of attention
WRITTEN = 100  # ids in a sample


def main() -> int:
    """Parse, build, train, report."""
    run = Run(parser(), {"tqdm": "examples"})
    arguments = run.arguments
    folder = run.open_folder()
    tt.manual_seed(arguments.seed)
    text = Text.of(arguments)
    sizes = LANGUAGE_MODELS[arguments.preset] | {"dropout": arguments.dropout, "max_length": arguments.length}
    model = LanguageModel(len(text.units), **sizes).to(arguments.device)
    writer = Writer(model, text.units)
    prompt = arguments.prompt or first_line(text)[:1]
    check_prompt(writer, prompt)

    optimizer, schedule = adam(model, "cosine", arguments.learning_rate, WARM_UP, arguments.steps)
    samples = Samples(folder, lambda say: show_samples(writer, prompt, 1, arguments, say), every=500)
    evaluation = Evaluation(folder, lambda: {"validation_loss": text.loss(model, arguments.length)}, every=500)
    page = RunPage(folder, lambda: attention(model, text), every=200)
    checkpoints = Checkpoints(folder, plain(arguments), every=arguments.checkpoint_every, data=text.fingerprint)
    callbacks = [Log(folder), evaluation, samples, TimeLimit(arguments.time_limit), page, checkpoints]
    task = text.stretches(arguments.length, arguments.seed)
    trainer = Trainer(model, optimizer, schedule, task, callbacks, batch_size=arguments.batch_size)

    with run.begun(trainer, checkpoints):
        trainer.run(arguments.steps)
        model.eval()
        writer.save_pretrained(folder.path)
        print(f"\nafter {prompt!r} it writes")
        show_samples(writer, prompt, 3, arguments, print)
        loss = report(text, model, arguments.length)
        folder.log(event="result", step=trainer.step, held_out_loss=loss, perplexity=math.exp(loss))
        plots.draw_run(folder, attention(model, text), log=False)
    return run.exit_code(math.exp(-loss), "1 / perplexity")


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="train_language_model.py", description="Train a language model on a text.")
    add_text_arguments(p, units="characters", length=64)
    add_arguments(
        p, out="runs/language-model", steps=1800, batch_size=16, dropout=0.0, learning_rate=3e-3,
    )  # fmt: skip
    p.add_argument("--prompt", help="what samples begin with; default: the first character of the text")
    p.add_argument("--temperature", type=command_line.positive_float, default=0.8, help="of samples")
    p.add_argument("--top-k", type=command_line.size, help="samples are of the k likeliest ids; default: all")
    return p


def check_prompt(writer: Writer, prompt: str) -> None:
    with command_line.told(ValueError, prefix="--prompt: "):
        writer.units.encode(prompt)


def first_line(text: Text) -> str:
    """The first line of the held-out text that is not empty."""
    beginning = text.units.decode(text.held_out[:1000].tolist())
    return beginning.strip("\n").partition("\n")[0] or "\n"


def attention(model: LanguageModel, text: Text) -> SentenceAttention:
    """The model's attention in the first held-out line, from each id as it predicts the next."""
    ids = [int(text.training[-1]), *text.units.encode(first_line(text))][: min(SHOWN, model.max_length + 1)]
    pieces = text.units.pieces(ids)
    return SentenceAttention.of(model, [[ids[:-1]]], pieces[:-1], pieces[1:])


def show_samples(
    writer: Writer, prompt: str, count: int, arguments: argparse.Namespace, say: Callable[[str], None]
) -> None:
    """Print texts that the model writes, with the same random numbers each time."""
    generator = tt.random.Generator(arguments.seed)
    for _ in range(count):
        options = {"temperature": arguments.temperature, "top_k": arguments.top_k, "generator": generator}
        said = writer.write(prompt, WRITTEN, **options)
        for line in (prompt + said).strip().split("\n"):
            say(f"  {line}")


def report(text: Text, model: LanguageModel, length: int) -> float:
    """Print how well the model predicts the held-out part, beside n-grams; returns the loss (nats)."""
    loss = text.loss(model, length)
    print(f"on {len(text.held_out):,} ids that were held out, perplexity of the model: {text.told(loss)}")
    for n, other in text.ngram_losses().items():
        print(f"  of a {n}-gram (Kneser-Ney): {text.told(other)}, {math.exp(other - loss):.2f} times as much")
    return loss


if __name__ == "__main__":
    command_line.run(main)
