"""Training on a toy language, and its results: `train_translation.py` without parallel text."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ..data.languages import Pair, ToyText, TranslationTask, crossing, written
from ..sentence_attention import END, SentenceAttention
from ..training import plots
from ..training.callbacks import Checkpoints, Log, Samples, TimeLimit
from ..training.evaluation import clearest_layer, toy_figures, translate_pairs
from ..training.page import RunPage
from ..training.presets import PRESETS, make_model
from ..training.run_folder import RunFolder
from ..training.schedules import adam
from ..training.trainer import Trainer
from ..translator import Translator
from . import run

TEST_PAIRS = 1000


def build(arguments: argparse.Namespace, folder: RunFolder) -> tuple[Trainer, Checkpoints, dict[str, bytes]]:
    """The trainer for a language pair, its checkpoints, and no files for a new run."""
    task = TranslationTask(arguments.pair, arguments.seed, arguments.accumulate, arguments.everyday)
    sizes = (len(task.source), len(task.target), PRESETS[arguments.preset] | {"dropout": arguments.dropout})
    model = make_model(arguments.model, *sizes, max_length=task.max_length + 1, joint=False, score=arguments.score)
    model.to(arguments.device)
    optimizer, schedule = adam(model, arguments.schedule, arguments.learning_rate, arguments.warm_up, arguments.steps)
    samples = Samples(folder, lambda say: _show_pairs(model, task, 2, say), every=400)
    page = RunPage(folder, lambda: _crossing_attention(model, task)[1])
    checkpoints = Checkpoints(folder, run.plain(arguments), every=arguments.checkpoint_every)
    trainer = Trainer(
        model, optimizer, schedule, task, [Log(folder), samples, TimeLimit(arguments.time_limit), page, checkpoints],
        batch_size=arguments.batch_size, label_smoothing=arguments.label_smoothing, accumulate=arguments.accumulate,
    )  # fmt: skip
    return trainer, checkpoints, {}


def report(arguments: argparse.Namespace, trainer: Trainer, checkpoints: Checkpoints) -> float:
    """Save the translator, print its quality on unseen combinations, and draw pictures. Returns the exact match."""
    model, task, folder = trainer.model, trainer.task, checkpoints.folder
    model.eval()
    Translator(model, ToyText(task.name, task.everyday_too)).save_pretrained(folder.path)
    print(f"\n{task.name}: a few sentences with combinations the model has never seen")
    _show_pairs(model, task, 5, print)
    figures = toy_figures(model, task, task.test_pairs(TEST_PAIRS))
    folder.log(event="result", step=trainer.step, sentences=TEST_PAIRS, **figures)
    print(f"on {TEST_PAIRS:,} sentences with unseen combinations:")
    print(f"exact match {figures['exact_match']:.1%}, BLEU {figures['bleu']:.1f}", end="")
    rate = figures.get("alignment_error_rate")
    print("" if rate is None else f", alignment error of the cross-attention {rate:.1%}")
    pair, seen = _crossing_attention(model, task)
    if "cross" in seen.layers:
        places = clearest_layer([call.weights[0] for call in seen.layers["cross"]])[1].argmax(axis=1)
        looked = [f"{word} {seen.source[place]}" for word, place in zip(pair.target, places)]
        print(f'in "{written(pair.source, task.name[:2])}", what each word looks at most: {", ".join(looked)}')
    plots.draw_run(folder, seen, log=True)
    return figures["exact_match"]


def _crossing_attention(model: Any, task: TranslationTask) -> tuple[Pair, SentenceAttention]:
    """A pair with words that cross, and the model's attention while it predicts the translation."""
    pair = crossing(task.name)
    batch = task.make_batch([pair])
    source, said = [*pair.source, END], [*pair.target, END]
    return pair, SentenceAttention.of(model, (batch.source, batch.target_in), source, said)


def _show_pairs(model: Any, task: TranslationTask, count: int, say: Callable[[str], None]) -> None:
    source, target = task.name.split("-")
    pairs = task.test_pairs(count)
    for pair, answer in zip(pairs, translate_pairs(model, task, pairs)):
        right = tuple(answer) == pair.target
        mark = "" if right else f"   (should be: {written(pair.target, target)})"
        say(f"  {written(pair.source, source)} -> {written(answer, target)}{mark}")
