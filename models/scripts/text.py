"""Training on parallel text, and its results: `train_translation.py` with files."""

from __future__ import annotations

import argparse
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..data.corpus import Corpus, CorpusError, read_pairs
from ..data.text import TextTask
from ..data.tokenizer import Tokenizer, TokenizerError
from ..sentence_attention import SentenceAttention
from ..training import plots
from ..training.callbacks import Checkpoints, Evaluation, Log, Samples, TimeLimit, WeightAverage
from ..training.evaluation import bleu, decode_all, validation_loss
from ..training.page import RunPage
from ..training.presets import PRESETS, make_model
from ..training.run_folder import RunFolder
from ..training.schedules import adam
from ..training.trainer import Trainer
from ..translator import Translation, Translator
from . import run
from .command_line import UsageError, told

TOKENIZER = "tokenizer.model"
WATCHED = 500  # sentences of the validation text to translate, greedily, at every evaluation
SHOWN = 30  # the most subwords of a sentence whose attention is in the page of the run

_pairs = functools.cache(read_pairs)  # each file is read once


def build(arguments: argparse.Namespace, folder: RunFolder) -> tuple[Trainer, Checkpoints, dict[str, bytes]]:
    """The trainer for the files in the arguments, its checkpoints, and the files for a new run.

    Raises UsageError if the files cannot be used.
    """
    print("reading the text and cutting it into subwords", flush=True)  # this may take a while
    with told(CorpusError):
        training = _pairs(arguments.train_source, arguments.train_target)
        validation = _pairs(arguments.valid_source, arguments.valid_target)
    tokenizer = _tokenizer(arguments, folder, training)
    limits = {"max_length": arguments.max_length, "max_tokens": arguments.max_tokens}
    task = TextTask(training, tokenizer, seed=arguments.seed, subword_dropout=arguments.subword_dropout, **limits)
    valid = TextTask(validation, tokenizer, **limits)
    for name, corpus, made in (("training", training, task), ("validation", validation, valid)):
        if not made.pairs:
            raise UsageError(f"no {name} pair is shorter than --max-length {arguments.max_length}")
        print(f"{name}: {len(made.pairs):,} pairs in {made.batches:,} batches; skipped: {_skipped(corpus, made)}")
    longest = arguments.max_length * 2 + 50
    _check_lengths(arguments.valid_source, validation, tokenizer, longest)
    if arguments.test_source:
        with told(CorpusError):
            test = _pairs(arguments.test_source, arguments.test_target)
        print(f"test: {len(test):,} pairs; skipped: {_skipped(test)}")
        _check_lengths(arguments.test_source, test, tokenizer, longest)
    sizes = (len(tokenizer), len(tokenizer), PRESETS[arguments.preset] | {"dropout": arguments.dropout})
    model = make_model(arguments.model, *sizes, max_length=longest, joint=True, score=arguments.score)
    model.to(arguments.device)
    optimizer, schedule = adam(model, arguments.schedule, arguments.learning_rate, arguments.warm_up, arguments.steps)
    batches = valid.all_batches()
    every = arguments.evaluate_every or max(1, task.batches // arguments.accumulate)

    def figures() -> dict[str, float]:
        translations = _translations(model, tokenizer, validation.sources[:WATCHED])
        score, _ = bleu(translations, validation.targets[:WATCHED], arguments.bleu_tokenize)
        return {"validation_loss": validation_loss(model, batches), "validation_bleu": score}

    average = WeightAverage(folder, arguments.average, every)
    data = _fingerprint(tokenizer, training, validation)
    often = {"every": arguments.checkpoint_every, "average": average}
    checkpoints = Checkpoints(folder, run.plain(arguments), data=data, **often)
    callbacks = [
        Log(folder),
        Evaluation(folder, figures, every, arguments.patience),
        average,
        Samples(folder, lambda say: _show_text(model, validation, tokenizer, 2, say), every),
        TimeLimit(arguments.time_limit),
        RunPage(folder, functools.partial(_attention_of_first, model, validation, tokenizer), every),
        checkpoints,
    ]
    trainer = Trainer(
        model, optimizer, schedule, task, callbacks,
        batch_size=1,
        label_smoothing=arguments.label_smoothing,
        accumulate=arguments.accumulate,
    )  # fmt: skip
    return trainer, checkpoints, {TOKENIZER: tokenizer.model}


def report(arguments: argparse.Namespace, trainer: Trainer, checkpoints: Checkpoints) -> float:
    """Save the mean of the last weights, print its BLEU and draw pictures. Returns the exact match on the last text."""
    model, folder, tokenizer = trainer.model, checkpoints.folder, trainer.task.tokenizer
    averaged = 0 if checkpoints.average is None else checkpoints.average.apply(model)
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
    sources = _pairs(arguments.valid_source, arguments.valid_target).sources
    line = next(filter(tokenizer.encode, sources), None)  # a line of zero-width characters has no ids
    seen = None if line is None else translator.sentence_attention(line, translator.translate([line])[0][0])
    plots.draw_run(folder, seen, log=False)
    return exact


def _tokenizer(arguments: argparse.Namespace, folder: RunFolder, training: Corpus) -> Tokenizer:
    """The tokenizer of the resumed run, or one learned from the training text."""
    if arguments.resume:
        with told(TokenizerError):
            return Tokenizer.load(folder.path / TOKENIZER)
    with told(TokenizerError, prefix="--"):  # the message begins with the argument's name
        return Tokenizer.train([*training.sources, *training.targets], arguments.vocabulary)


def _translations(model: Any, tokenizer: Tokenizer, sources: list[str], beam: int = 1) -> list[str]:
    found = decode_all(model, [tokenizer.encode(source) for source in sources], beam=beam)
    return [tokenizer.decode(hypotheses[0].ids) for hypotheses in found]


def _show_text(model: Any, corpus: Corpus, tokenizer: Tokenizer, count: int, say: Callable[[str], None]) -> None:
    sources, targets = corpus.sources[:count], corpus.targets[:count]
    for source, target, answer in zip(sources, targets, _translations(model, tokenizer, sources)):
        mark = "" if answer == target else f"   (should be: {target})"
        say(f"  {source} -> {answer}{mark}")


def _attention_of_first(model: Any, corpus: Corpus, tokenizer: Tokenizer) -> SentenceAttention | None:
    """The model's attention for the first pair of a corpus that is short enough to show."""
    for source, target in zip(corpus.sources, corpus.targets):
        ids = tokenizer.encode(target)
        if 0 < len(ids) <= SHOWN and 0 < len(tokenizer.encode(source)) <= SHOWN:
            given = Translation(target, [*ids, model.eos_id], score=0.0)
            return Translator(model, tokenizer).sentence_attention(source, given)
    return None


def _skipped(corpus: Corpus, task: TextTask | None = None) -> str:
    """The numbers of pairs left out of a corpus, and the first such lines."""
    kinds = [(corpus.empty, "with an empty side", corpus.first_empty)]
    if task is not None:
        first = task.first_too_long
        kinds.append(
            (task.too_long, f"of {task.max_length} subwords or more", None if first is None else corpus.lines[first])
        )
    return " and ".join(f"{n:,} {what}" + (f" (the first: line {line})" if n else "") for n, what, line in kinds)


def _fingerprint(tokenizer: Tokenizer, *corpora: Corpus) -> str:
    """A hash of texts and their subwords: a resumed run must have the same ones."""
    digest = hashlib.sha256(tokenizer.model)
    for corpus in corpora:
        for line in (*corpus.sources, *corpus.targets):
            digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def _check_lengths(path: Path, corpus: Corpus, tokenizer: Tokenizer, longest: int) -> None:
    """Raise UsageError for a sentence too long to translate in the end: now, not after hours of training."""
    for line, text in zip(corpus.lines, corpus.sources):
        length = len(tokenizer.encode(text)) + 1
        if length > longest:
            raise UsageError(
                f"{path}, line {line}: {length:,} subwords, but the model takes at most {longest:,} of a sentence; "
                "a larger --max-length lets it take more"
            )
