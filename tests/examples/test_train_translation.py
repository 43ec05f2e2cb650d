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

from tests import processes
from tinytensor import nn
from tinytensor.models import Translator

pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")

SCRIPT = Path(__file__).parents[2] / "examples" / "train_translation.py"
WORDS = {
    "the": "die", "a": "eine", "cat": "katze", "dog": "hunde", "sees": "sieht", "eats": "isst", "mouse": "maus",
    "small": "kleine", "big": "grosse", "and": "und", "sleeps": "schläft", "here": "hier",
}  # fmt: skip


def run(cwd, *arguments, prelude=""):
    command = [sys.executable, SCRIPT, *arguments]
    return processes.run(command, cwd=cwd, text=True, timeout=180, prelude=prelude)


def log(path, event):
    entries = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    return [entry for entry in entries if entry["event"] == event]


def saved(names):
    """The files that config.json names."""
    return {name for name in names if re.fullmatch(r"(model|tokenizer)-[0-9a-f]{16}\..*", name)}


def write_text(folder, preset="toy"):
    """Parallel text in a folder, and what tells the script of it; of all presets this one is the fastest."""
    rng = np.random.default_rng(0)
    for name, count in (("train", 200), ("valid", 20), ("test", 10)):
        lines = [[str(w) for w in rng.choice(list(WORDS), rng.integers(2, 9))] for _ in range(count)]
        (folder / f"{name}.en").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(" ".join(WORDS[w] for w in line) + "\n" for line in lines))
    files = [
        option
        for name in ("train", "valid", "test")
        for option in (f"--{name}-source", f"{name}.en", f"--{name}-target", f"{name}.de")
    ]
    return [*files, "--preset", preset] if preset else files


@pytest.mark.parametrize(
    ("pair", "model"),
    [
        ("en-fr", "transformer"),
        pytest.param("en-ko", "bahdanau", marks=pytest.mark.slow),
        pytest.param("en-fr", "luong", marks=pytest.mark.slow),
        pytest.param("en-ko", "none", marks=pytest.mark.slow),
    ],
)
def test_toy_languages(tmp_path, pair, model):
    result = run(tmp_path, "--pair", pair, "--model", model, "--steps", 4, "--batch-size", 4, "--out", "run")
    assert result.returncode == 0, result.stderr
    (figures,) = log(tmp_path / "run", "result")
    assert f"exact match {figures['exact_match']:.1%}, BLEU {figures['bleu']:.1f}" in result.stdout
    names = {path.name for path in (tmp_path / "run").iterdir()}
    pictures = {"loss.svg", "run.html"} | (set() if model == "none" else {"attention.svg", "attention.html"})
    assert {"checkpoint.safetensors", "log.jsonl", "config.json", *pictures} == names - saved(names)
    assert ("alignment_error_rate" in figures) == (model != "none")


@pytest.mark.slow
def test_a_model_of_everyday_sentences_takes_them(tmp_path):
    options = ["--everyday", "--steps", 2, "--batch-size", 4, "--out", "run"]
    assert run(tmp_path, *options).returncode == 0
    translator = Translator.from_pretrained(tmp_path / "run")
    assert translator.translate(["give me a second, please."])[0]
    assert log(tmp_path / "run", "start")[0]["arguments"]["everyday"] is True
    result = run(tmp_path, "--resume", "--out", "run", "--steps", 3)
    assert result.returncode == 0, result.stderr
    assert "resuming run after step 2" in result.stdout


@pytest.mark.slow
def test_the_required_accuracy(tmp_path):
    result = run(tmp_path, "--steps", 1, "--batch-size", 2, "--require-accuracy", 0.98)
    assert result.returncode == 4
    assert "exact match 0.0000 is below the required 0.98" in result.stderr


@pytest.mark.slow
def test_parallel_text(tmp_path):
    files = write_text(tmp_path)
    options = ["--vocabulary", 60, "--evaluate-every", 2, "--average", 2, "--max-tokens", 400, "--beam", 2]
    result = run(tmp_path, *files, *options, "--steps", 6, "--out", "run")
    assert result.returncode == 0, result.stderr
    assert "training: 200 pairs in " in result.stdout
    evaluations = log(tmp_path / "run", "evaluation")
    assert [entry["step"] for entry in evaluations] == [2, 4, 6]
    assert all(0 <= entry["validation_bleu"] <= 100 for entry in evaluations)
    (line,) = (tmp_path / "valid.de").read_text().splitlines()[:1]
    assert f"(should be: {line})" in result.stdout
    validation, test = log(tmp_path / "run", "result")
    assert "mean of 2 weights" in result.stdout
    for name, count, figures in (("validation", 20, validation), ("test", 10, test)):
        line = f"{name}: BLEU {figures['bleu']:.2f} on {count} sentences, beam 2 ({figures['signature']})"
        assert line in result.stdout
    names = {path.name for path in (tmp_path / "run").iterdir()}
    kept = {"weights-00000004.safetensors", "weights-00000006.safetensors"}
    pictures = {"loss.svg", "run.html", "attention.svg", "attention.html"}
    files = {"checkpoint.safetensors", "log.jsonl", "config.json", "tokenizer.model"}
    assert names - saved(names) == files | pictures | kept
    assert "validation" in (tmp_path / "run" / "loss.svg").read_text()
    assert len(saved(names)) == 2  # the weights, and the tokenizer that goes with them


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("ending", [["--time-limit", 1e-6], ["--patience", 1, "--learning-rate", 1]])
def test_a_run_that_ends_early_ends_well(tmp_path, ending):
    files = [*write_text(tmp_path), "--vocabulary", 60, "--max-tokens", 400, "--beam", 1, "--evaluate-every", 1]
    result = run(tmp_path, *files, "--steps", 500, *ending, "--out", "run")
    assert result.returncode == 0, result.stderr
    last = nn.load(tmp_path / "run" / "checkpoint.safetensors")["step"]
    assert last < 500
    assert log(tmp_path / "run", "step")[-1]["step"] == last
    assert (tmp_path / "run" / "config.json").exists()


@pytest.mark.slow
def test_what_is_not_given_follows_from_the_preset(tmp_path):
    """And a dropout of 0 that is given is one of 0."""
    files = [*write_text(tmp_path, preset=None), "--vocabulary", 60, "--time-limit", 1e-6, "--beam", 1]
    tiny = {"steps": 8000, "learning_rate": 5e-3, "warm_up": 2000, "accumulate": 2, "average": 20}
    for name, options, expected in (
        ("tiny", [], tiny | {"dropout": 0.3, "batch_size": None}),
        ("none", ["--dropout", 0, "--accumulate", 1], tiny | {"dropout": 0.0, "accumulate": 1}),
        ("toy", ["--preset", "toy", "--warm-up", 7], {"steps": 2600, "warm_up": 7, "dropout": 0.0, "max_tokens": 4096}),
    ):
        result = run(tmp_path, *files, *options, "--out", name)
        assert result.returncode == 0, result.stderr
        (start,) = log(tmp_path / name, "start")
        assert start["arguments"].items() >= expected.items()
        config = json.loads((tmp_path / name / "config.json").read_text())
        assert config["arguments"]["dropout"] == expected["dropout"]


@pytest.mark.slow
def test_the_score_of_luong(tmp_path):
    result = run(tmp_path, "--model", "luong", "--score", "local-p", "--steps", 2, "--batch-size", 4, "--out", "run")
    assert result.returncode == 0, result.stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["arguments"]["attention"] == "local-p"


def test_what_is_skipped_is_told_with_its_line(tmp_path):
    files = write_text(tmp_path)
    for name, line in (("train.en", 3), ("test.de", 5)):
        lines = (tmp_path / name).read_text().splitlines()
        lines[line - 1] = ""
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    lines = (tmp_path / "valid.de").read_text().splitlines()
    (tmp_path / "valid.de").write_text("\n".join([*lines[:6], "katze " * 60, *lines[7:]]) + "\n")
    options = ["--vocabulary", 60, "--max-length", 60, "--max-tokens", 400, "--beam", 1, "--steps", 1, "--out", "run"]
    result = run(tmp_path, *files, *options)
    assert result.returncode == 0, result.stderr
    for name, skipped in (
        ("training", "1 with an empty side (the first: line 3) and 0 of 60 subwords or more"),
        ("validation", "0 with an empty side and 1 of 60 subwords or more (the first: line 7)"),
        ("test", "1 with an empty side (the first: line 5)"),
    ):
        assert re.search(rf"^{name}: .*; skipped: {re.escape(skipped)}$", result.stdout, re.MULTILINE)


@pytest.mark.slow
def test_a_resumed_run_must_have_the_same_text(tmp_path):
    options = [*write_text(tmp_path), "--vocabulary", 60, "--max-tokens", 400, "--beam", 1]
    assert run(tmp_path, *options, "--steps", 2, "--out", "run").returncode == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert run(elsewhere, "--resume", "--out", "../run", "--steps", 3).returncode == 0
    lines = (tmp_path / "train.en").read_text().splitlines()
    (tmp_path / "train.en").write_text("\n".join(reversed(lines)) + "\n")
    result = run(tmp_path, "--resume", "--out", "run", "--steps", 4)
    assert result.returncode == 2
    assert "the checkpoint does not fit: the data is not what the run began with" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_run_of_another_script_is_not_resumed(tmp_path):
    script = SCRIPT.with_name("train_copy_task.py")
    small = ["--steps", "1", "--d-model", "8", "--num-heads", "2", "--num-layers", "1", "--out", "copy"]
    command = [sys.executable, str(script), *small]
    assert processes.run(command, cwd=tmp_path).returncode == 0
    result = run(tmp_path, "--resume", "--out", "copy")
    assert result.returncode == 2
    assert "the run in copy is of another script, or of another version of this one" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_mistake_leaves_the_former_run_where_it_is(tmp_path):
    files = write_text(tmp_path)
    options = ["--vocabulary", 60, "--max-tokens", 400, "--beam", 1, "--steps", 1, "--out", "run"]
    assert run(tmp_path, *files, *options).returncode == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    for mistake in (["--vocabulary", 9000], ["--max-length", 1], ["--train-target", "nowhere"]):
        result = run(tmp_path, *files, *options, *mistake)
        assert result.returncode == 2
        assert "kept as" not in result.stdout
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    assert not (tmp_path / "run.1").exists()


@pytest.mark.slow
def test_a_full_disk_loses_nothing_that_was_saved(tmp_path):
    """A limit on the size of files stands for a disk that is full."""
    options = [*write_text(tmp_path), "--vocabulary", 60, "--evaluate-every", 3, "--max-tokens", 400, "--beam", 1]
    assert run(tmp_path, *options, "--steps", 6, "--out", "whole").returncode == 0
    assert run(tmp_path, *options, "--steps", 2, "--out", "run").returncode == 0
    kept = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}

    small_files = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    result = run(tmp_path, "--resume", "--out", "run", "--steps", 6, prelude=small_files)
    assert result.returncode == 2
    assert re.fullmatch(r"train_translation.py: cannot write .*weights-00000003.*: File too large\n", result.stderr)
    now = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    assert now.pop("log.jsonl") != kept.pop("log.jsonl")
    assert b"step 3 of 6: broken off" in now.pop("run.html")
    assert b"step 2 of 2: ended" in kept.pop("run.html")
    assert now == kept
    assert run(tmp_path, "--resume", "--out", "run", "--steps", 6).returncode == 0
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")


@pytest.mark.slow
def test_a_resumed_run_must_have_the_same_subwords(tmp_path):
    options = [*write_text(tmp_path), "--vocabulary", 60, "--max-tokens", 400, "--beam", 1, "--steps", 2]
    assert run(tmp_path, *options, "--out", "run").returncode == 0
    text = (tmp_path / "train.en").read_text()
    (tmp_path / "train.en").write_text(text.replace("mouse", "house"))
    assert run(tmp_path, *options, "--out", "other").returncode == 0
    (tmp_path / "train.en").write_text(text)
    (tmp_path / "other" / "tokenizer.model").replace(tmp_path / "run" / "tokenizer.model")
    result = run(tmp_path, "--resume", "--out", "run", "--steps", 4)
    assert result.returncode == 2
    assert "the checkpoint does not fit: the data is not what the run began with" in result.stderr


@pytest.mark.parametrize("which", [slice(0, 1), slice(None)])
def test_lines_of_characters_without_width(tmp_path, which):
    """They are not empty, and have no ids."""
    options = [*write_text(tmp_path), "--vocabulary", 60, "--max-tokens", 400, "--beam", 1]
    lines = (tmp_path / "valid.en").read_text().splitlines()
    lines[which] = ["\N{ZERO WIDTH SPACE}"] * len(lines[which])
    (tmp_path / "valid.en").write_text("\n".join(lines) + "\n")
    result = run(tmp_path, *options, "--steps", 2, "--out", "run")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "run" / "loss.svg").exists()
    assert (tmp_path / "run" / "attention.svg").exists() == (which.stop == 1)


@pytest.mark.slow
def test_weights_that_cannot_be_read(tmp_path):
    options = [*write_text(tmp_path), "--vocabulary", 60, "--evaluate-every", 1, "--max-tokens", 400, "--beam", 1]
    assert run(tmp_path, *options, "--steps", 3, "--out", "run").returncode == 0
    (tmp_path / "run" / "weights-mine.safetensors").write_bytes(b"somebody's")
    damaged = tmp_path / "run" / "weights-00000002.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    result = run(tmp_path, "--resume", "--out", "run", "--steps", 4)
    assert result.returncode == 2
    assert "weights-00000002.safetensors cannot be read" in result.stderr
    assert result.stderr.count("\n") == 1
    damaged.unlink()
    assert run(tmp_path, "--resume", "--out", "run", "--steps", 4).returncode == 0


@pytest.mark.slow
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


@pytest.mark.slow
def test_killed_at_random_instants_it_ends_with_the_same_bits(tmp_path, request):
    files = write_text(tmp_path)
    options = ["--vocabulary", 60, "--evaluate-every", 50, "--average", 3, "--max-tokens", 200, "--beam", 1]
    options += ["--preset", "toy", "--dropout", 0.1, "--subword-dropout", 0.1, "--accumulate", 1, "--steps", 420]
    options = [*files, *options, "--out"]
    start = time.monotonic()
    assert run(tmp_path, *options, "whole").returncode == 0
    whole = time.monotonic() - start
    instants = random.Random(0)
    for _ in range(20 if request.config.getoption("--all") else 5):
        there = (tmp_path / "killed" / "checkpoint.safetensors").exists()
        arguments = ["--resume", "--out", "killed"] if there else [*options, "killed"]
        command = [sys.executable, SCRIPT, *arguments]
        process = processes.start(command, cwd=tmp_path, stderr=subprocess.PIPE)
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
        (["--beam", "2"], "--beam is for text, and none is given"),
        (["--subword-dropout", "0.1"], "--subword-dropout is for text"),
        (["--score", "dot"], "--score is for --model luong, not for transformer"),
    ],
)
def test_mistakes_end_in_one_line(tmp_path, arguments, message):
    result = run(tmp_path, *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--pair", "en-fr"], ["--batch-size", 3], ["--everyday"]])
def test_arguments_of_the_toy_languages_are_refused_for_text(tmp_path, arguments):
    result = run(tmp_path, *write_text(tmp_path), *arguments)
    assert result.returncode == 2
    assert f"{arguments[0]} is for the toy languages, and text is given" in result.stderr


@pytest.mark.parametrize("vocabulary", [9000, 10**6])
def test_a_vocabulary_that_does_not_suit(tmp_path, vocabulary):
    result = run(tmp_path, *write_text(tmp_path), "--vocabulary", vocabulary, "--steps", 1)
    assert result.returncode == 2
    assert f"--vocabulary {vocabulary} does not suit this text" in result.stderr
    assert result.stderr.count("\n") == 1
