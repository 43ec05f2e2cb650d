"""Train a model to translate: a toy language by default, or any parallel text.

    python examples/train_translation.py
    python examples/train_translation.py --pair en-ko --model bahdanau
    python examples/train_translation.py --preset tiny --train-source train.en --train-target train.de \\
        --valid-source val.en --valid-target val.de --test-source test.en --test-target test.de
    python examples/train_translation.py --resume

The toy sentences are made on the fly from the seed; every test sentence has a combination of words that training never
shows. Parallel text is one sentence a line, UTF-8 (.gz too). What is written into --out: checkpoint.safetensors
(everything needed to go on), log.jsonl (arguments and figures, a JSON object a line), loss.svg, and for toy languages
attention.svg and attention.html (what each word of a sentence looked at); for text tokenizer.model and the weights
whose mean is taken in the end. A run that has ended has config.json with the trained model, for translate.py.
"""

from __future__ import annotations

from before_numpy import prepare

prepare()

import argparse
import importlib.util
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nn
import tinytensor as tt
from models import Translator, command_line, run
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
FILES = ("train_source", "train_target", "valid_source", "valid_target", "test_source", "test_target")
TOKENIZER = "tokenizer.model"


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="train_translation.py", description="Train a model to translate.")
    p.add_argument("--pair", choices=PAIRS, default="en-fr", help="the toy languages")
    for name in FILES:
        side = "the language to translate " + ("from" if name.endswith("source") else "into")
        p.add_argument(
            "--" + name.replace("_", "-"), type=Path, metavar="FILE", help=f"{name.partition('_')[0]} text in {side}"
        )
    p.add_argument("--model", choices=MODELS, default="transformer", help="what to train")
    p.add_argument("--preset", choices=PRESETS, help="sizes and dropout; default: toy, for text tiny")
    run.add_arguments(p, out="runs/translation", steps=2600, batch_size=32, learning_rate=2.5e-3)
    p.add_argument("--warm-up", type=command_line.positive_int, default=200, help="steps until the highest rate")
    p.add_argument(
        "--schedule",
        choices=SCHEDULES,
        help="of the learning rate after warm-up; cosine: down to 0 at --steps; default: cosine, for text "
        "inverse-square-root",
    )
    p.add_argument("--label-smoothing", type=command_line.fraction, help="default: 0, for text 0.1")
    p.add_argument("--vocabulary", type=command_line.positive_int, default=10_000, help="subwords, for text")
    p.add_argument(
        "--subword-dropout",
        type=command_line.fraction,
        default=0.0,
        help="probability that two subwords are not merged, drawn anew every epoch, for text",
    )
    p.add_argument("--max-tokens", type=command_line.positive_int, default=4096, help="in a batch, for text")
    p.add_argument("--max-length", type=command_line.positive_int, default=128, help="subwords of a sentence, for text")
    p.add_argument(
        "--accumulate",
        type=command_line.positive_int,
        help="batches whose gradients are added up; default: 2, for text 1",
    )
    p.add_argument("--evaluate-every", type=command_line.positive_int, default=200, help="steps, for text")
    p.add_argument(
        "--patience", type=command_line.positive_int, help="end after so many evaluations without improvement"
    )
    p.add_argument("--average", type=command_line.positive_int, default=10, help="weights whose mean is used, for text")
    p.add_argument("--beam", type=command_line.positive_int, default=5, help="hypotheses followed, for text")
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
    arguments.preset = arguments.preset or ("tiny" if given else "toy")
    arguments.schedule = arguments.schedule or ("inverse-square-root" if given else "cosine")
    if arguments.label_smoothing is None:
        arguments.label_smoothing = 0.1 if given else 0.0
    if arguments.accumulate is None:
        arguments.accumulate = 1 if given else 2


def build(arguments: argparse.Namespace, folder: RunFolder) -> Trainer:
    tt.manual_seed(arguments.seed)
    return _build_text(arguments, folder) if arguments.train_source else _build_toy(arguments, folder)


def _sizes(arguments: argparse.Namespace) -> dict[str, float]:
    sizes = dict(PRESETS[arguments.preset])
    return sizes | ({"dropout": arguments.dropout} if arguments.dropout else {})


def _optimizer(
    arguments: argparse.Namespace, model: nn.Module
) -> tuple[nn.optim.Optimizer, nn.optim.lr_scheduler.LRScheduler]:
    optimizer = nn.optim.Adam(model.parameters(), lr=arguments.learning_rate, betas=(0.9, 0.98), eps=1e-9)
    factor = SCHEDULES[arguments.schedule](arguments.warm_up, arguments.steps)
    return optimizer, nn.optim.lr_scheduler.LambdaLR(optimizer, factor)


def _build_toy(arguments: argparse.Namespace, folder: RunFolder) -> Trainer:
    task = TranslationTask(arguments.pair, arguments.seed, together=arguments.accumulate)
    sizes = (len(task.source), len(task.target), _sizes(arguments))
    model = make_model(arguments.model, *sizes, max_length=task.max_length + 1, joint=False).to(arguments.device)
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
    training = read_pairs(arguments.train_source, arguments.train_target)
    validation = read_pairs(arguments.valid_source, arguments.valid_target)
    if arguments.resume:
        tokenizer = Tokenizer.load(folder.path / TOKENIZER)
    else:
        tokenizer = Tokenizer.train([*training.sources, *training.targets], arguments.vocabulary)
        tokenizer.save(folder.path / TOKENIZER)
    limits = {"max_length": arguments.max_length, "max_tokens": arguments.max_tokens}
    task = TextTask(training, tokenizer, seed=arguments.seed, subword_dropout=arguments.subword_dropout, **limits)
    valid = TextTask(validation, tokenizer, **limits)
    for name, corpus, made in (("training", training, task), ("validation", validation, valid)):
        if not made.pairs:
            raise command_line.UsageError(f"no {name} pair is shorter than --max-length {arguments.max_length}")
        skipped = (
            f"{corpus.empty:,} with an empty side and {made.too_long:,} of {arguments.max_length} subwords or more"
        )
        print(f"{name}: {len(made.pairs):,} pairs in {made.batches:,} batches; skipped: {skipped}")
    sizes = (len(tokenizer), len(tokenizer), _sizes(arguments))
    longest = arguments.max_length * 2 + 50
    _check_lengths(arguments.valid_source, arguments.valid_target, tokenizer, longest)
    if arguments.test_source:
        _check_lengths(arguments.test_source, arguments.test_target, tokenizer, longest)
    model = make_model(arguments.model, *sizes, max_length=longest, joint=True).to(arguments.device)
    optimizer, schedule = _optimizer(arguments, model)
    batches = valid.all_batches()
    return Trainer(
        model, optimizer, schedule, task, folder,
        arguments=run.plain(arguments),
        batch_size=1,
        label_smoothing=arguments.label_smoothing,
        accumulate=arguments.accumulate,
        evaluate=lambda: {"validation_loss": validation_loss(model, batches)},
        evaluate_every=arguments.evaluate_every,
        patience=arguments.patience,
        average=arguments.average,
        sample_every=arguments.evaluate_every,
        sample=lambda say: _show_text(model, validation, tokenizer, 2, say),
    )  # fmt: skip


def _check_lengths(source: Path, target: Path, tokenizer: Tokenizer, longest: int) -> None:
    """Raise UsageError for a sentence that cannot be translated in the end: now, not after hours of training."""
    corpus = read_pairs(source, target)
    for line, text in zip(corpus.lines, corpus.sources):
        length = len(tokenizer.encode(text)) + 1
        if length > longest:
            raise command_line.UsageError(
                f"{source}, line {line}: {length:,} subwords, but the model takes at most {longest:,} of a sentence; "
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
    print(f"\n{task.name}: a few sentences with combinations the model has never seen")
    _show_pairs(model, task, 5, print)
    figures = toy_figures(model, task, task.test_pairs(TEST_PAIRS))
    folder.log(event="result", step=trainer.step, sentences=TEST_PAIRS, **figures)
    print(f"on {TEST_PAIRS:,} sentences with unseen combinations:")
    print(f"exact match {figures['exact_match']:.1%}, BLEU {figures['bleu']:.1f}", end="")
    rate = figures.get("alignment_error_rate")
    print("" if rate is None else f", alignment error of the cross-attention {rate:.1%}")
    for path in _draw_toy(model, task, folder):
        print(f"wrote {path}")
    _save_translator(Translator(model, ToyText(task.name)), folder)
    return figures["exact_match"]


def _draw_toy(model: nn.Module, task: TranslationTask, folder: RunFolder) -> list[Path]:
    entries = folder.entries("step")
    pictures: dict[str, Any] = {
        "loss.svg": visualize.loss_curve([e["loss"] for e in entries], steps=[e["step"] for e in entries], log=True)
    }
    pair = crossing(task.name)
    batch = task.make_batch([pair])
    weights = [w[0].numpy() for w in model.cross_attention(tt.asarray(batch.source), tt.asarray(batch.target_in))]
    if weights:
        words: dict[str, Any] = {"source": [*pair.source, "<end>"], "target": [*pair.target, "<end>"]}
        layer, mean = clearest_layer(weights)
        title = f"What each word looked at (layer {layer}, mean of its heads)"
        pictures["attention.svg"] = visualize.attention_grid(mean[None, None], **words, title=title)
        pictures["attention.html"] = visualize.attention_explorer(weights, **words)
    for name, picture in pictures.items():
        picture.save(folder.path / name)
    return [folder.path / name for name in pictures]


# ---- real text


def _show_text(model: nn.Module, corpus: Corpus, tokenizer: Tokenizer, count: int, say: Callable[[str], None]) -> None:
    sources = corpus.sources[:count]
    for text, found in zip(sources, decode_all(model, [tokenizer.encode(s) for s in sources])):
        say(f"  {text} -> {tokenizer.decode(found[0].ids)}")


def _report_text(arguments: argparse.Namespace, trainer: Trainer) -> float:
    model, folder, tokenizer = trainer.model, trainer.folder, trainer.task.tokenizer
    averaged = trainer.average_weights()
    model.eval()
    print(f"\nmean of {averaged} weights" if averaged else "")
    exact = 0.0
    for name in ("validation", "test") if arguments.test_source else ("validation",):
        source, target = (getattr(arguments, f"{name[:5]}_{side}") for side in ("source", "target"))
        corpus = read_pairs(source, target)
        found = decode_all(model, [tokenizer.encode(s) for s in corpus.sources], beam=arguments.beam)
        translations = [tokenizer.decode(hypotheses[0].ids) for hypotheses in found]
        score, signature = bleu(translations, corpus.targets)
        exact = sum(t == r for t, r in zip(translations, corpus.targets)) / len(corpus)
        figures = {"bleu": score, "signature": signature, "averaged": averaged, "exact_match": exact}
        folder.log(event="result", step=trainer.step, text=name, sentences=len(corpus), beam=arguments.beam, **figures)
        print(f"{name}: BLEU {score:.2f} on {len(corpus):,} sentences, beam {arguments.beam} ({signature})")
    entries = folder.entries("step")
    picture = visualize.loss_curve([e["loss"] for e in entries], steps=[e["step"] for e in entries])
    picture.save(folder.path / "loss.svg")
    print(f"wrote {folder.path / 'loss.svg'}")
    _save_translator(Translator(model, tokenizer), folder)
    return exact


def _save_translator(translator: Translator, folder: RunFolder) -> None:
    translator.save_pretrained(folder.path)
    print(f"translate with: python examples/translate.py {shlex.quote(str(folder.path))}")


if __name__ == "__main__":
    command_line.run(run.Script(parser(), check, build, report, packages=("tqdm", "sacrebleu")).main)
