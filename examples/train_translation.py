"""Train a model to translate: a toy language by default, or any parallel text.

    python examples/train_translation.py
    python examples/train_translation.py --pair en-ko --model bahdanau
    python examples/train_translation.py --preset tiny --train-source train.en --train-target train.de \\
        --valid-source val.en --valid-target val.de --test-source test.en --test-target test.de
    python examples/train_translation.py --resume

The toy sentences are made on the fly from the seed; every test sentence has a combination of words that training never
shows. Parallel text is one sentence a line, UTF-8 (.gz too). What is written into --out: checkpoint.safetensors
(everything needed to go on), log.jsonl (arguments and figures, a JSON object a line), loss.svg, attention.svg and
attention.html (what each word of a sentence looked at); for text also tokenizer.model and the weights whose mean is
taken in the end. A run that has ended has config.json with the trained model, for translate.py.
"""

from __future__ import annotations

from before_numpy import prepare

prepare()

import argparse
import functools
import hashlib
import importlib.util
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nn
import tinytensor as tt
from models import Translator, command_line, plots, run
from models.corpus import Corpus, read_pairs
from models.languages import PAIRS, ToyText, TranslationTask, crossing, written
from models.run_folder import RunFolder
from models.schedules import SCHEDULES
from models.text_task import TextTask
from models.tokenizer import Tokenizer
from models.training import Trainer
from models.translation import (
    MODELS,
    PRESETS,
    SCORES,
    TRAINING,
    bleu,
    clearest_layer,
    decode_all,
    make_model,
    toy_figures,
    translate_pairs,
    validation_loss,
)
from nn import visualize

TEST_PAIRS = 1000
WATCHED = 500  # sentences of the validation text that are translated, greedily, at every evaluation
FILES = ("train_source", "train_target", "valid_source", "valid_target", "test_source", "test_target")
TOKENIZER = "tokenizer.model"

# What the arguments are if they are not given. An argument of one kind of training alone is refused in the other.
ALWAYS: dict[str, Any] = {
    "steps": None,
    "learning_rate": None,
    "warm_up": None,
    "dropout": None,
}  # as the preset has it
TOY: dict[str, Any] = ALWAYS | {
    "pair": "en-fr", "preset": "toy", "batch_size": 32, "accumulate": 2, "schedule": "cosine", "label_smoothing": 0.0,
}  # fmt: skip
TEXT: dict[str, Any] = ALWAYS | {
    "preset": "tiny", "accumulate": 1, "schedule": "inverse-square-root", "label_smoothing": 0.1, "vocabulary": 10_000,
    "subword_dropout": 0.0, "max_tokens": 4096, "max_length": 128, "evaluate_every": None, "patience": None,
    "average": 10, "beam": 5, "bleu_tokenize": "none",
}  # fmt: skip

_pairs = functools.cache(read_pairs)  # each file is read once


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="train_translation.py", description="Train a model to translate.")
    p.add_argument("--pair", choices=PAIRS, help="the toy languages; default: en-fr")
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
    run.add_arguments(
        p,
        out="runs/translation",
        steps="2600, for text as the preset has it",
        batch_size="32; text has --max-tokens",
        dropout="the preset's",
        learning_rate="0.0025, for text as the preset has it",
    )
    p.add_argument(
        "--warm-up",
        type=command_line.positive_int,
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
        type=command_line.positive_int,
        help="batches whose gradients are added up; default: 2, for text 1",
    )
    text = p.add_argument_group("for text")
    text.add_argument("--vocabulary", type=command_line.positive_int, help="subwords; default: 10000")
    text.add_argument(
        "--subword-dropout",
        type=command_line.fraction,
        help=(
            "probability that a merge of two subwords is left out, at each step and anew in every "
            "epoch; 0.1 is usual; default: 0"
        ),
    )
    text.add_argument("--max-tokens", type=command_line.positive_int, help="in a batch; default: 4096")
    text.add_argument("--max-length", type=command_line.positive_int, help="subwords of a sentence; default: 128")
    text.add_argument("--evaluate-every", type=command_line.positive_int, help="steps; default: an epoch")
    text.add_argument(
        "--patience",
        type=command_line.positive_int,
        help="end after so many evaluations without a lower validation loss",
    )
    text.add_argument(
        "--average",
        type=command_line.positive_int,
        help="weights whose mean is used, one of each evaluation; default: 10",
    )
    text.add_argument("--beam", type=command_line.positive_int, help="hypotheses followed in the end; default: 5")
    text.add_argument(
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


def build(arguments: argparse.Namespace, folder: RunFolder) -> Trainer:
    tt.manual_seed(arguments.seed)
    return _build_text(arguments, folder) if arguments.train_source else _build_toy(arguments, folder)


def _sizes(arguments: argparse.Namespace) -> dict[str, float]:
    return PRESETS[arguments.preset] | {"dropout": arguments.dropout}


def _optimizer(
    arguments: argparse.Namespace, model: nn.Module
) -> tuple[nn.optim.Optimizer, nn.optim.lr_scheduler.LRScheduler]:
    optimizer = nn.optim.Adam(model.parameters(), lr=arguments.learning_rate, betas=(0.9, 0.98), eps=1e-9)
    factor = SCHEDULES[arguments.schedule](arguments.warm_up, arguments.steps)
    return optimizer, nn.optim.lr_scheduler.LambdaLR(optimizer, factor)


def _build_toy(arguments: argparse.Namespace, folder: RunFolder) -> Trainer:
    task = TranslationTask(arguments.pair, arguments.seed, together=arguments.accumulate)
    sizes = (len(task.source), len(task.target), _sizes(arguments))
    model = make_model(arguments.model, *sizes, max_length=task.max_length + 1, joint=False, score=arguments.score).to(
        arguments.device
    )
    optimizer, schedule = _optimizer(arguments, model)
    return Trainer(
        model, optimizer, schedule, task, folder,
        arguments=run.plain(arguments),
        batch_size=arguments.batch_size,
        label_smoothing=arguments.label_smoothing,
        accumulate=arguments.accumulate,
        sample_every=400,
        sample=lambda say: _show_pairs(model, task, 2, say),
    )  # fmt: skip


def _build_text(arguments: argparse.Namespace, folder: RunFolder) -> Trainer:
    training = _pairs(arguments.train_source, arguments.train_target)
    validation = _pairs(arguments.valid_source, arguments.valid_target)
    if arguments.resume:
        tokenizer = Tokenizer.load(folder.path / TOKENIZER)
    else:
        tokenizer = Tokenizer.train([*training.sources, *training.targets], arguments.vocabulary)
    limits = {"max_length": arguments.max_length, "max_tokens": arguments.max_tokens}
    task = TextTask(training, tokenizer, seed=arguments.seed, subword_dropout=arguments.subword_dropout, **limits)
    valid = TextTask(validation, tokenizer, **limits)
    for name, corpus, made in (("training", training, task), ("validation", validation, valid)):
        if not made.pairs:
            raise command_line.UsageError(f"no {name} pair is shorter than --max-length {arguments.max_length}")
        print(f"{name}: {len(made.pairs):,} pairs in {made.batches:,} batches; skipped: {_skipped(corpus, made)}")
    longest = arguments.max_length * 2 + 50
    _check_lengths(arguments.valid_source, validation, tokenizer, longest)
    if arguments.test_source:
        test = _pairs(arguments.test_source, arguments.test_target)
        print(f"test: {len(test):,} pairs; skipped: {_skipped(test)}")
        _check_lengths(arguments.test_source, test, tokenizer, longest)
    sizes = (len(tokenizer), len(tokenizer), _sizes(arguments))
    model = make_model(arguments.model, *sizes, max_length=longest, joint=True, score=arguments.score).to(
        arguments.device
    )
    optimizer, schedule = _optimizer(arguments, model)
    batches = valid.all_batches()
    evaluate_every = arguments.evaluate_every or max(1, task.batches // arguments.accumulate)

    def evaluate() -> dict[str, float]:
        translations = _translations(model, tokenizer, validation.sources[:WATCHED])
        score, _ = bleu(translations, validation.targets[:WATCHED], arguments.bleu_tokenize)
        return {"validation_loss": validation_loss(model, batches), "validation_bleu": score}

    return Trainer(
        model, optimizer, schedule, task, folder,
        arguments=run.plain(arguments),
        batch_size=1,
        label_smoothing=arguments.label_smoothing,
        accumulate=arguments.accumulate,
        evaluate=evaluate,
        evaluate_every=evaluate_every,
        patience=arguments.patience,
        average=arguments.average,
        sample_every=evaluate_every,
        sample=lambda say: _show_text(model, validation, tokenizer, 2, say),
        files={TOKENIZER: tokenizer.model},
        data=_fingerprint(training, validation),
    )  # fmt: skip


def _skipped(corpus: Corpus, task: TextTask | None = None) -> str:
    """What is left out of a corpus, and where the first such line is."""
    kinds = [(corpus.empty, "with an empty side", corpus.first_empty)]
    if task is not None:
        first = task.first_too_long
        kinds.append(
            (task.too_long, f"of {task.max_length} subwords or more", None if first is None else corpus.lines[first])
        )
    return " and ".join(f"{n:,} {what}" + (f" (the first: line {line})" if n else "") for n, what, line in kinds)


def _fingerprint(*corpora: Corpus) -> str:
    """Tells texts from others: a run that goes on must have those that it began with."""
    digest = hashlib.sha256()
    for corpus in corpora:
        for line in (*corpus.sources, *corpus.targets):
            digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def _check_lengths(path: Path, corpus: Corpus, tokenizer: Tokenizer, longest: int) -> None:
    """Raise UsageError for a sentence that cannot be translated in the end: now, not after hours of training."""
    for line, text in zip(corpus.lines, corpus.sources):
        length = len(tokenizer.encode(text)) + 1
        if length > longest:
            raise command_line.UsageError(
                f"{path}, line {line}: {length:,} subwords, but the model takes at most {longest:,} of a sentence; "
                "a larger --max-length lets it take more"
            )


def report(arguments: argparse.Namespace, trainer: Trainer) -> float:
    return _report_text(arguments, trainer) if arguments.train_source else _report_toy(arguments, trainer)


# ---- toy languages


def _show_pairs(model: nn.Module, task: TranslationTask, count: int, say: Callable[[str], None]) -> None:
    source, target = task.name.split("-")
    pairs = task.test_pairs(count)
    for pair, answer in zip(pairs, translate_pairs(model, task, pairs)):
        right = tuple(answer) == pair.target
        mark = "" if right else f"   (should be: {written(pair.target, target)})"
        say(f"  {written(pair.source, source)} -> {written(answer, target)}{mark}")


def _report_toy(arguments: argparse.Namespace, trainer: Trainer) -> float:
    model, task, folder = trainer.model, trainer.task, trainer.folder
    model.eval()
    Translator(model, ToyText(task.name)).save_pretrained(folder.path)
    print(f"\n{task.name}: a few sentences with combinations the model has never seen")
    _show_pairs(model, task, 5, print)
    figures = toy_figures(model, task, task.test_pairs(TEST_PAIRS))
    folder.log(event="result", step=trainer.step, sentences=TEST_PAIRS, **figures)
    print(f"on {TEST_PAIRS:,} sentences with unseen combinations:")
    print(f"exact match {figures['exact_match']:.1%}, BLEU {figures['bleu']:.1f}", end="")
    rate = figures.get("alignment_error_rate")
    print("" if rate is None else f", alignment error of the cross-attention {rate:.1%}")
    pair = crossing(task.name)
    batch = task.make_batch([pair])
    weights = [w[0].numpy() for w in model.cross_attention(tt.asarray(batch.source), tt.asarray(batch.target_in))]
    if weights:
        looked = clearest_layer(weights)[1].argmax(axis=1)
        seen = [f"{word} {[*pair.source, '<end>'][place]}" for word, place in zip(pair.target, looked)]
        print(f'in "{written(pair.source, task.name[:2])}", what each word looks at most: {", ".join(seen)}')
    _draw(folder, weights, [*pair.source, "<end>"], [*pair.target, "<end>"], log=True)
    return figures["exact_match"]


def _draw(folder: RunFolder, weights: list[np.ndarray], source: list[str], target: list[str], *, log: bool) -> None:
    """Draw the losses, and what each word of a sentence looked at; say what was written."""
    losses = {}
    for name, event, key in (("training", "step", "loss"), ("validation", "evaluation", "validation_loss")):
        entries = folder.entries(event)
        if entries:
            losses[name] = ([e["step"] for e in entries], [e[key] for e in entries])
    visualize.loss_curve(losses, log=log).save(folder.path / "loss.svg")
    written_files = [folder.path / "loss.svg"]
    for name in ("attention.svg", "attention.html") if weights else ():
        plots.draw_attention(folder.path / name, weights, source, target)
        written_files.append(folder.path / name)
    for path in written_files:
        print(f"wrote {path}")
    print(f"translate with: python examples/translate.py {shlex.quote(str(folder.path))}")


# ---- real text


def _translations(model: nn.Module, tokenizer: Tokenizer, sources: list[str], beam: int = 1) -> list[str]:
    found = decode_all(model, [tokenizer.encode(source) for source in sources], beam=beam)
    return [tokenizer.decode(hypotheses[0].ids) for hypotheses in found]


def _show_text(model: nn.Module, corpus: Corpus, tokenizer: Tokenizer, count: int, say: Callable[[str], None]) -> None:
    sources, targets = corpus.sources[:count], corpus.targets[:count]
    for source, target, answer in zip(sources, targets, _translations(model, tokenizer, sources)):
        mark = "" if answer == target else f"   (should be: {target})"
        say(f"  {source} -> {answer}{mark}")


def _report_text(arguments: argparse.Namespace, trainer: Trainer) -> float:
    model, folder, tokenizer = trainer.model, trainer.folder, trainer.task.tokenizer
    averaged = trainer.average_weights()
    model.eval()
    translator = Translator(model, tokenizer)
    translator.save_pretrained(folder.path)
    print(f"\nmean of {averaged} weights" if averaged else "")
    exact = 0.0
    for name in ("validation", "test") if arguments.test_source else ("validation",):
        source, target = (getattr(arguments, f"{name[:5]}_{side}") for side in ("source", "target"))
        corpus = _pairs(source, target)
        translations = _translations(model, tokenizer, corpus.sources, arguments.beam)
        score, signature = bleu(translations, corpus.targets, arguments.bleu_tokenize)
        exact = sum(t == r for t, r in zip(translations, corpus.targets)) / len(corpus)
        figures = {"bleu": score, "signature": signature, "averaged": averaged, "exact_match": exact}
        folder.log(event="result", step=trainer.step, text=name, sentences=len(corpus), beam=arguments.beam, **figures)
        print(f"{name}: BLEU {score:.2f} on {len(corpus):,} sentences, beam {arguments.beam} ({signature})")
    line = _pairs(arguments.valid_source, arguments.valid_target).sources[0]
    _draw(folder, *translator.attention(line, translator.translate([line])[0][0]), log=False)
    return exact


if __name__ == "__main__":
    command_line.run(run.Script(parser(), check, build, report, packages=("tqdm", "sacrebleu")).main)
