"""examples/train_translation.py as its user meets it: toy languages and parallel text."""

import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import nn

from .test_train_copy_task import environment

pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")

SCRIPT = Path(__file__).parents[2] / "examples" / "train_translation.py"
WORDS = {
    "the": "die", "a": "eine", "cat": "katze", "dog": "hunde", "sees": "sieht", "eats": "isst", "mouse": "maus",
    "small": "kleine", "big": "grosse", "and": "und", "sleeps": "schläft", "here": "hier",
}  # fmt: skip


def run(cwd, *arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=180)


def log(path, event):
    entries = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    return [entry for entry in entries if entry["event"] == event]


def saved(names):
    """The files that config.json names."""
    return {name for name in names if re.fullmatch(r"(model|tokenizer)-[0-9a-f]{16}\..*", name)}


def write_text(folder):
    rng = np.random.default_rng(0)
    for name, count in (("train", 200), ("valid", 20), ("test", 10)):
        lines = [[str(w) for w in rng.choice(list(WORDS), rng.integers(2, 9))] for _ in range(count)]
        (folder / f"{name}.en").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(" ".join(WORDS[w] for w in line) + "\n" for line in lines))
    return [
        option
        for name in ("train", "valid", "test")
        for option in (f"--{name}-source", f"{name}.en", f"--{name}-target", f"{name}.de")
    ]


@pytest.mark.parametrize(
    ("pair", "model"), [("en-fr", "transformer"), ("en-ko", "bahdanau"), ("en-fr", "luong"), ("en-ko", "none")]
)
def test_toy_languages(tmp_path, pair, model):
    result = run(tmp_path, "--pair", pair, "--model", model, "--steps", 4, "--batch-size", 4, "--out", "run")
    assert result.returncode == 0, result.stderr
    (figures,) = log(tmp_path / "run", "result")
    assert f"exact match {figures['exact_match']:.1%}, BLEU {figures['bleu']:.1f}" in result.stdout
    names = {path.name for path in (tmp_path / "run").iterdir()}
    pictures = set() if model == "none" else {"attention.svg", "attention.html"}
    assert {"checkpoint.safetensors", "log.jsonl", "loss.svg", "config.json", *pictures} == names - saved(names)
    assert ("alignment_error_rate" in figures) == (model != "none")


def test_the_required_accuracy(tmp_path):
    result = run(tmp_path, "--steps", 1, "--batch-size", 2, "--require-accuracy", 0.98)
    assert result.returncode == 4
    assert "exact match 0.0000 is below the required 0.98" in result.stderr


def test_parallel_text(tmp_path):
    files = write_text(tmp_path)
    options = ["--vocabulary", 60, "--evaluate-every", 2, "--average", 2, "--max-tokens", 400, "--beam", 2]
    result = run(tmp_path, *files, *options, "--steps", 6, "--out", "run")
    assert result.returncode == 0, result.stderr
    assert "training: 200 pairs in " in result.stdout
    assert [entry["step"] for entry in log(tmp_path / "run", "evaluation")] == [2, 4, 6]
    validation, test = log(tmp_path / "run", "result")
    assert "mean of 2 weights" in result.stdout
    for name, count, figures in (("validation", 20, validation), ("test", 10, test)):
        line = f"{name}: BLEU {figures['bleu']:.2f} on {count} sentences, beam 2 ({figures['signature']})"
        assert line in result.stdout
    names = {path.name for path in (tmp_path / "run").iterdir()}
    kept = {"weights-00000004.safetensors", "weights-00000006.safetensors"}
    files = {"checkpoint.safetensors", "log.jsonl", "loss.svg", "config.json", "tokenizer.model"}
    assert names - saved(names) == files | kept
    assert len(saved(names)) == 2  # the weights, and the tokenizer that goes with them


def test_the_schedule_of_the_learning_rate(tmp_path):
    """Text has 1 / sqrt(step) unless another is asked for; a cosine ends at 0."""
    files = [*write_text(tmp_path), "--vocabulary", 60, "--max-tokens", 400, "--beam", 1]
    rates = {}
    for name, options in (("default", []), ("cosine", ["--schedule", "cosine"])):
        given = [*options, "--learning-rate", 0.01, "--warm-up", 2, "--steps", 7, "--out", name]
        result = run(tmp_path, *files, *given)
        assert result.returncode == 0, result.stderr
        (group,) = nn.load(tmp_path / name / "checkpoint.safetensors")["optimizer"]["param_groups"]
        rates[name] = group["lr"]
    assert rates == {"default": pytest.approx(0.01 / 2), "cosine": pytest.approx(0)}
    result = run(tmp_path, "--resume", "--out", "cosine", "--schedule", "inverse-square-root")
    assert result.returncode == 2
    assert "the run in cosine has --schedule cosine, not inverse-square-root" in result.stderr


def test_an_interrupted_run_goes_on_with_the_same_bits(tmp_path):
    files = write_text(tmp_path)
    options = ["--vocabulary", 60, "--evaluate-every", 3, "--average", 2, "--max-tokens", 400, "--beam", 1]
    assert run(tmp_path, *files, *options, "--steps", 9, "--out", "whole").returncode == 0
    assert run(tmp_path, *files, *options, "--steps", 4, "--out", "parts").returncode == 0
    result = run(tmp_path, "--resume", "--out", "parts", "--steps", 9)
    assert result.returncode == 0, result.stderr
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


def weights(folder):
    """The bytes of the weights in a checkpoint, and in the trained model."""
    config = json.loads((folder / "config.json").read_text())
    state = nn.load(folder / "checkpoint.safetensors")["model"]
    return {name: value.numpy().tobytes() for name, value in state.items()}, config["weights"]["sha256"]


def test_killed_at_20_random_instants_it_ends_with_the_same_bits(tmp_path):
    files = write_text(tmp_path)
    options = ["--vocabulary", 60, "--evaluate-every", 50, "--average", 3, "--max-tokens", 200, "--beam", 1]
    options = [*files, *options, "--preset", "toy", "--dropout", 0.1, "--subword-dropout", 0.1, "--steps", 420, "--out"]
    start = time.monotonic()
    assert run(tmp_path, *options, "whole").returncode == 0
    whole = time.monotonic() - start
    instants = random.Random(0)
    for _ in range(20):
        there = (tmp_path / "killed" / "checkpoint.safetensors").exists()
        arguments = ["--resume", "--out", "killed"] if there else [*options, "killed"]
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *map(str, arguments)],
            cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            process.wait(instants.uniform(0.1, whole))
        except subprocess.TimeoutExpired:
            process.kill()
        _, errors = process.communicate()
        assert (process.returncode, errors) in ((0, b""), (-signal.SIGKILL, b""))
    assert run(tmp_path, "--resume", "--out", "killed").returncode == 0
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
    assert [e["loss"] for e in log(tmp_path / "killed", "step")] == [e["loss"] for e in log(tmp_path / "whole", "step")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: (d / "train.de").write_text("eine katze\n"), "train.en has 200 lines, train.de has 1"),
        (lambda d: (d / "train.de").write_bytes(b"\xff\n" * 200), "train.de, line 1: not UTF-8"),
        (lambda d: (d / "valid.en").unlink(), "cannot read valid.en: No such file"),
        (lambda d: (d / "valid.en").write_text("\n" * 20), "hold no pair of sentences"),
        (
            lambda d: (d / "test.en").write_text("\n" + "the " * 400 + "\n" + "cat\n" * 8),
            "test.en, line 2: 1,601 subwords, but the model takes at most 306 of a sentence",
        ),
    ],
)
def test_faults_of_files_end_in_one_line(tmp_path, change, message):
    files = write_text(tmp_path)
    change(tmp_path)
    result = run(tmp_path, *files, "--vocabulary", 60, "--steps", 1)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train-source", "a"], "--train-target, --valid-source, --valid-target is needed as well"),
        (["--pair", "en-xx"], "'en-xx'"),
        (["--model", "gpt"], "'gpt'"),
        (["--preset", "huge"], "'huge'"),
        (["--schedule", "sine"], "'sine'"),
        (["--time-limit", "0"], "above 0"),
    ],
)
def test_mistakes_end_in_one_line(tmp_path, arguments, message):
    result = run(tmp_path, *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_vocabulary_that_does_not_suit(tmp_path):
    result = run(tmp_path, *write_text(tmp_path), "--vocabulary", 9000, "--steps", 1)
    assert result.returncode == 2
    assert "--vocabulary 9000 does not suit this text" in result.stderr
    assert result.stderr.count("\n") == 1
