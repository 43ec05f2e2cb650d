"""Train a model to translate: a toy language by default, or any parallel text.

    python examples/train_translation.py
    python examples/train_translation.py --pair en-ko --model bahdanau
    python examples/train_translation.py --train-source train.en --train-target train.de \\
        --valid-source val.en --valid-target val.de --test-source test.en --test-target test.de
    python examples/train_translation.py --resume

The toy sentences are made on the fly from the seed; every test sentence has a combination of words that training never
shows. Parallel text is one sentence a line, UTF-8 (.gz too). It writes into --out: checkpoint.safetensors (everything
needed to resume), log.jsonl (arguments and figures, a JSON object a line), run.html (the figures, samples and attention
of the run, a page written while it trains), loss.svg, attention.svg and attention.html (where each word of a sentence
looked); for text also tokenizer.model and the weights that are averaged at the end. A finished run has config.json with
the trained model, for translate.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import shlex
from pathlib import Path
from typing import Any

import tinytensor as tt
from tinytensor.models.data.languages import PAIRS
from tinytensor.models.scripts import command_line, text, toy
from tinytensor.models.scripts.run import Run, add_arguments
from tinytensor.models.training.presets import MODELS, PRESETS, SCORES, TRAINING
from tinytensor.models.training.schedules import SCHEDULES

FILES = ("train_source", "train_target", "valid_source", "valid_target", "test_source", "test_target")

# The defaults of the arguments; None: the preset decides, if it has a value. An argument for only one kind of training
# is refused in the other.
ALWAYS: dict[str, Any] = dict.fromkeys(("steps", "learning_rate", "warm_up", "accumulate", "dropout"))
TOY: dict[str, Any] = ALWAYS | {
    "pair": "en-fr", "everyday": False, "preset": "toy", "batch_size": 32, "schedule": "cosine", "label_smoothing": 0.0,
}  # fmt: skip
TEXT: dict[str, Any] = ALWAYS | {
    "preset": "tiny", "schedule": "inverse-square-root", "label_smoothing": 0.1, "vocabulary": 10_000,
    "subword_dropout": 0.0, "max_tokens": 4096, "max_length": 128, "evaluate_every": None, "patience": None,
    "average": None, "beam": 5, "bleu_tokenize": "none",
}  # fmt: skip


def main() -> int:
    """Parse, build, train, report."""
    run = Run(parser(), {"tqdm": "examples", "sacrebleu": "text"})
    arguments = run.arguments
    check(arguments)

    folder = run.open_folder()
    tt.manual_seed(arguments.seed)
    kind = text if arguments.train_source else toy
    trainer, checkpoints, files = kind.build(arguments, folder)

    with run.begun(trainer, checkpoints, files):
        trainer.run(arguments.steps)
        accuracy = kind.report(arguments, trainer, checkpoints)
        print(f"translate with: python examples/translate.py {shlex.quote(str(arguments.out))}")
    return run.exit_code(accuracy)


def parser(prog: str = "train_translation.py") -> command_line.Parser:
    p = command_line.Parser(prog=prog, description="Train a model to translate.")
    p.add_argument("--pair", choices=PAIRS, help="the toy languages; default: en-fr")
    p.add_argument("--everyday", action="store_true", default=None, help="of the toy languages: everyday sentences as "
                   "well, such as \"hi, my name is Tom.\" and \"give me a second, please.\"")  # fmt: skip
    for name in FILES:
        kind, _, side = name.partition("_")
        whole = {"train": "training", "valid": "validation", "test": "test"}[kind]
        language = "the language to translate " + ("from" if side == "source" else "into")
        p.add_argument("--" + name.replace("_", "-"), type=Path, metavar="FILE", help=f"{whole} text in {language}")
    p.add_argument("--model", choices=MODELS, default="transformer", help="what to train")
    p.add_argument("--score", choices=SCORES, help="of --model luong: how it scores what it looks at; default: general")
    p.add_argument(
        "--preset",
        choices=PRESETS,
        help=(
            "sizes and dropout, of which recurrent models have d_model, dropout and one layer; "
            "default: toy, for text tiny"
        ),
    )
    add_arguments(
        p,
        out="runs/translation",
        steps="2600, for text as the preset has it",
        batch_size="32; text has --max-tokens",
        dropout="the preset's",
        learning_rate="0.0025, for text as the preset has it",
    )
    p.add_argument(
        "--warm-up",
        type=command_line.size,
        help="steps until the highest rate; default: 200, for text as the preset has it",
    )
    p.add_argument(
        "--schedule",
        choices=SCHEDULES,
        help=(
            "of the learning rate after warm-up; cosine: down to 0 at --steps; default: cosine, for "
            "text inverse-square-root"
        ),
    )
    p.add_argument("--label-smoothing", type=command_line.fraction, help="default: 0, for text 0.1")
    p.add_argument(
        "--accumulate",
        type=command_line.size,
        help="batches whose gradients are added up; default: 2, for text as the preset has it",
    )
    group = p.add_argument_group("for text")
    group.add_argument("--vocabulary", type=command_line.size, help="subwords; default: 10000")
    group.add_argument(
        "--subword-dropout",
        type=command_line.fraction,
        help=(
            "probability that a merge of two subwords is left out, at each step and anew in every "
            "epoch; 0.1 is usual; default: 0"
        ),
    )
    group.add_argument("--max-tokens", type=command_line.positive_int, help="in a batch; default: 4096")
    group.add_argument("--max-length", type=command_line.size, help="subwords of a sentence; default: 128")
    group.add_argument("--evaluate-every", type=command_line.positive_int, help="steps; default: an epoch")
    group.add_argument(
        "--patience", type=command_line.size, help="end after so many evaluations without a lower validation loss"
    )
    group.add_argument(
        "--average",
        type=command_line.size,
        help="weights whose mean is used, one of each evaluation; default: as the preset has it",
    )
    group.add_argument("--beam", type=command_line.size, help="hypotheses followed in the end; default: 5")
    group.add_argument(
        "--bleu-tokenize",
        choices=("none", "13a", "intl", "char"),
        help=(
            "how sacrebleu cuts translations into words; none: at spaces, for text that is tokenised "
            "already; default: none"
        ),
    )
    return p


def check(arguments: argparse.Namespace) -> None:
    given = [name for name in FILES if getattr(arguments, name) is not None]
    missing = [name for name in FILES[:4] if name not in given]
    if given and (missing or len(given) == 5):
        wanted = ", ".join("--" + name.replace("_", "-") for name in missing or FILES[4:])
        raise command_line.UsageError(f"parallel text comes in pairs of files: {wanted} is needed as well")
    if given:
        for package in ("sentencepiece", "sacrebleu"):
            if importlib.util.find_spec(package) is None:
                raise command_line.UsageError(f"{package} is not installed; run: pip install -e '.[text]'")
    mine, others = (TEXT, TOY) if given else (TOY, TEXT)
    for name in others.keys() - mine.keys():
        if getattr(arguments, name) is not None:
            kind = "the toy languages, and text is given" if given else "text, and none is given (--train-source ...)"
            raise command_line.UsageError(f"--{name.replace('_', '-')} is for {kind}")
    if arguments.score is not None and arguments.model != "luong":
        raise command_line.UsageError(f"--score is for --model luong, not for {arguments.model}")
    preset = arguments.preset or mine["preset"]
    by_preset = TRAINING[preset if given else "toy"] | {"dropout": PRESETS[preset]["dropout"]}
    for name, default in mine.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, by_preset.get(name, default))


if __name__ == "__main__":
    command_line.run(main)
