"""Train the translators of four papers on the same pairs and compare them: the difference that attention made.

    python examples/compare_translators.py
    python examples/compare_translators.py --models bahdanau transformer --pair en-ko --steps 1000
    python examples/compare_translators.py --time-limit 15 --train-source train.en ...    (as for train_translation.py)

It trains each model by train_translation.py, which gets all arguments that are not listed in --help, unless --out
already has one trained with the same arguments. Then it prints

- the quality of greedy translations by the length of the source (the question of Bahdanau et al. 2014, figure 2),
- parameters, steps and target tokens a second of training,
- the time of a training step against the length of the sentences, for the same number of tokens: a recurrent network
  takes one position after another, a Transformer all at once (table 1 of Vaswani et al. 2017).
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import train_translation

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Translator
from tinytensor.models.data.batch import Batch
from tinytensor.models.data.corpus import CorpusError, read_pairs
from tinytensor.models.data.languages import TranslationTask, written
from tinytensor.models.pretrained import CONFIG, PretrainedError
from tinytensor.models.scripts import command_line, run
from tinytensor.models.training.evaluation import bleu
from tinytensor.models.training.loss import cross_entropy
from tinytensor.models.training.presets import MODELS
from tinytensor.models.training.run_folder import CHECKPOINT, entries

TEST_PAIRS = 1000
GROUPS = 4  # of similar size, by length
TOKENS = 1024  # of each side, in a timed step
FREE = ("out", "device", "require_accuracy", "checkpoint_every")  # arguments that may differ in an existing run
TITLES = {
    "none": "no attention (Sutskever 2014)",
    "bahdanau": "additive (Bahdanau 2014)",
    "luong": "multiplicative (Luong 2015)",
    "transformer": "Transformer (Vaswani 2017)",
}


def parser() -> command_line.Parser:
    p = command_line.Parser(prog="compare_translators.py", description="Compare the translators of four papers.")
    p.add_argument("--models", nargs="+", choices=MODELS, default=list(TITLES), help="which")
    p.add_argument("--out", type=Path, default=Path("runs/comparison"), help="folder of the runs, one for each model")
    p.add_argument("--lengths", nargs="+", type=command_line.size, default=[8, 16, 32, 64, 128], help="timed")
    p.add_argument("--rounds", type=command_line.size, default=5, help="of timing, interleaved")
    p.add_argument("--model", help=argparse.SUPPRESS)
    p.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)
    return p


def training_arguments(name: str, folder: Path, given: Sequence[str]) -> dict[str, Any]:
    """All arguments of a model's training, with defaults for those not given.

    Raises UsageError if the folder holds a run with other arguments.
    """
    p = train_translation.parser(prog="compare_translators.py")
    arguments = p.parse_args(["--model", name, *given, "--out", str(folder)])
    train_translation.check(arguments)
    wanted = run.plain(arguments)
    there = next((entry["arguments"] for entry in entries(folder, "start")), wanted)
    for key in wanted.keys() - FREE:
        if key not in there or there[key] != wanted[key]:
            option = "--" + key.replace("_", "-")
            run_here = f"{folder} holds a run with {option} {there.get(key)}, not {wanted[key]}"
            raise command_line.UsageError(f"{run_here}; choose another --out")
    return wanted


def train(name: str, folder: Path, given: Sequence[str]) -> None:
    """Train a model, unless it is trained already; continue an interrupted run."""
    if (folder / CONFIG).is_file():
        print(f"{folder}: trained already")
        return
    options = ["--resume"] if (folder / CHECKPOINT).is_file() else ["--model", name, *given]
    print(f"\n=== {TITLES[name]}", flush=True)
    process = subprocess.Popen([sys.executable, train_translation.__file__, *options, "--out", str(folder)])
    # Both are for the training, which saves before it ends; a terminal sends it Ctrl-C, too.
    handlers: dict[int, Any] = {signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: lambda *_: process.terminate()}
    former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        code = process.wait()
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    if code:
        raise SystemExit(code if code > 0 else 128 - code)  # below 0: a signal ended it


def test_lines(arguments: dict[str, Any]) -> tuple[str, list[str], list[str]]:
    """The lines to translate for a run's arguments: "test" or "validation", its sources and its references."""
    if arguments["train_source"] is None:
        source, target = arguments["pair"].split("-")
        pairs = TranslationTask(arguments["pair"], arguments["seed"]).test_pairs(TEST_PAIRS)
        return "test", [written(p.source, source) for p in pairs], [written(p.target, target) for p in pairs]
    text = "test" if arguments["test_source"] else "validation"
    with command_line.told(CorpusError):
        corpus = read_pairs(*(arguments[f"{text[:5]}_{side}"] for side in ("source", "target")))
    return text, corpus.sources, corpus.targets


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows with text in the first column and numbers in the others."""
    print(f"\n{title}\n")
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    for row in (heads, ["-" * width for width in widths], *rows):
        cells = [text.ljust(w) if i == 0 else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths))]
        print("| " + " | ".join(cells) + " |")


def quality(folders: dict[str, Path], arguments: dict[str, Any]) -> None:
    text, sources, references = test_lines(arguments)
    lengths = np.array([len(line.split()) for line in sources])
    cuts = np.unique(np.quantile(lengths, np.linspace(0, 1, GROUPS + 1)[1:-1], method="lower"))
    group = np.searchsorted(cuts, lengths)
    found: dict[str, list[str]] = {}
    for name, folder in folders.items():
        translations = Translator.from_pretrained(folder, arguments["device"]).translate(sources, num_beams=1)
        found[name] = [best[0].text if best else "" for best in translations]
    kinds = np.unique(group)
    heads = [f"{lengths[group == k].min()} to {lengths[group == k].max()}" for k in kinds]
    signature = ""
    exact_rows, bleu_rows = [], []
    for name, said in found.items():
        exact, scores = [], []
        for chosen in (*(group == k for k in kinds), group >= 0):
            places = np.flatnonzero(chosen)
            ours, theirs = [said[i] for i in places], [references[i] for i in places]
            exact.append(f"{sum(a == b for a, b in zip(ours, theirs)) / len(places):.1%}")
            score, signature = bleu(ours, theirs, arguments.get("bleu_tokenize") or "none")
            scores.append(f"{score:.1f}")
        exact_rows.append([TITLES[name], *exact])
        bleu_rows.append([TITLES[name], *scores])
    words = ["words of the source", *heads, "all"]
    table(f"Exact match on {len(sources):,} {text} sentences, greedy", words, exact_rows)
    table(f"BLEU ({signature})", words, bleu_rows)


def cost(folders: dict[str, Path]) -> None:
    rows = []
    for name, folder in folders.items():
        model = Translator.from_pretrained(folder).model
        count = sum(p.size for p in model.parameters())
        steps = entries(folder, "step")
        rate = statistics.median(e["tokens_per_second"] for e in steps)
        rows.append([TITLES[name], f"{count:,}", f"{steps[-1]['step']:,}", f"{rate:,.0f}"])
    table("Training", ["model", "parameters", "steps", "target tokens a second"], rows)


def time_against_length(folders: dict[str, Path], lengths: Sequence[int], rounds: int, device: str) -> None:
    rng = np.random.default_rng(0)
    rows: dict[str, list[str]] = {name: [TITLES[name]] for name in folders}
    for length in lengths:
        steps = {name: _step(folder, length, rng, device) for name, folder in folders.items()}
        times: dict[str, list[float]] = {name: [] for name in folders}
        for round_ in range(rounds + 1):
            for name, step in steps.items():
                start = time.perf_counter()
                step()
                if round_:
                    times[name].append(time.perf_counter() - start)
        for name, measured in times.items():
            rows[name].append(f"{statistics.median(measured) * 1e3:.0f}")
    heads = [f"{max(1, TOKENS // length)} x {length}" for length in lengths]
    title = f"Milliseconds of a training step, by sentences x length (medians of {rounds})"
    table(title, ["model", *heads], list(rows.values()))


def _step(folder: Path, length: int, rng: np.random.Generator, device: str) -> Any:
    """A function that trains a new model, with the sizes of the one in the folder, on a batch of this length."""
    model = Translator.from_pretrained(folder).model
    config = model.config | {"max_length": length + 1}
    new = type(model)(**config).to(device).train()
    optimizer = nn.optim.Adam(new.parameters(), lr=1e-4)
    shape = (max(1, TOKENS // length), length)
    source, target = (rng.integers(3, n, shape) for n in (config["source_vocabulary"], config["target_vocabulary"]))
    batch = Batch(source, target, target)

    def step() -> None:
        optimizer.zero_grad()
        loss = cross_entropy(new(batch.source, batch.target_in), batch)
        loss.backward()
        optimizer.step()
        loss.item()  # wait for the GPU

    return step


def main() -> int:
    p = parser()
    arguments, others = p.parse_known_args()
    if arguments.model is not None or arguments.resume:
        raise command_line.UsageError("--model and --resume are given to train_translation.py by this script itself")
    tt.speed_up()
    names: list[str] = list(dict.fromkeys(arguments.models))
    folders = {name: arguments.out / name for name in names}
    wanted = {name: training_arguments(name, folder, others) for name, folder in folders.items()}
    for name, folder in folders.items():
        train(name, folder, others)
    first = wanted[names[0]]
    with command_line.told(PretrainedError):
        quality(folders, first)
        cost(folders)
        time_against_length(folders, arguments.lengths, arguments.rounds, first["device"])
    return command_line.EXIT_OK


if __name__ == "__main__":
    command_line.run(main)
