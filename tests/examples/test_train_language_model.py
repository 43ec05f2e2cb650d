"""examples/train_language_model.py and train_masked_words.py as processes: output, files, exit codes, going on."""

import json
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import processes
from tinytensor import nn
from tinytensor.models import Encoder
from tinytensor.models.writer import Writer

pytest.importorskip("tqdm")

ROOT = Path(__file__).parents[2]
TEXT = "".join(f"{name} sees {other}.\n" for name in ("Ann", "Bob", "Eve", "Tom") for other in ("Kim", "Lee")) * 30
TINY = ["--length", "16", "--batch-size", "4", "--out", "run"]
WORDS = ["--d-model", "16", "--num-heads", "2", "--num-layers", "1", "--batch-size", "8", "--out", "run"]


def run(script, cwd, *arguments):
    command = [sys.executable, str(ROOT / "examples" / f"{script}.py"), *arguments]
    return processes.run(command, cwd=cwd, text=True)


def log(folder, event):
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [entry for entry in entries if entry["event"] == event]


def weights(folder):
    return {name: v.numpy().tobytes() for name, v in nn.load(folder / "checkpoint.safetensors")["model"].items()}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory, text):
    cwd = tmp_path_factory.mktemp("finished")
    result = run("train_language_model", cwd, *TINY, "--text", str(text), "--steps", "60")
    assert result.returncode == 0, result.stderr
    return cwd, result


def test_what_it_says_and_writes(finished):
    cwd, result = finished
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"a new run in run: 60 steps, [\d,]+ parameters", lines[0])
    assert re.fullmatch(r"step 60/60: loss \d\.\d{3}, token accuracy \d+\.\d%, [\d,]+ tokens/s", lines[1])
    assert "after 'A' it writes" in lines or "after 'B' it writes" in lines or "after 'E' it writes" in lines
    (model,) = re.findall(r"on \d+ ids that were held out, perplexity of the model: (\d+\.\d+)", result.stdout)
    grams = re.findall(r"of a (\d+)-gram \(Kneser-Ney\): (\d+\.\d+), (\d+\.\d\d) times as much", result.stdout)
    assert [int(n) for n, _, _ in grams] == [5, 8, 12]
    assert float(grams[0][2]) == pytest.approx(float(grams[0][1]) / float(model), abs=0.01)
    names = {path.name for path in (cwd / "run").iterdir()}
    assert {"checkpoint.safetensors", "log.jsonl", "run.html", "loss.svg", "attention.svg", "config.json"} <= names
    (result_entry,) = log(cwd / "run", "result")
    assert result_entry["perplexity"] == pytest.approx(float(model), abs=1e-3)
    assert log(cwd / "run", "attention")[0]["said"][:-1] == log(cwd / "run", "attention")[0]["source"][1:]
    assert "sequence_accuracy" not in log(cwd / "run", "step")[0]


def test_what_was_trained_writes(finished):
    writer = Writer.from_pretrained(finished[0] / "run")
    said = writer.write("Ann ", 8)
    assert 0 < len(said) <= 8
    assert said == writer.write("Ann ", 8)
    with pytest.raises(ValueError, match="no id for 'x'"):
        writer.write("x", 3)


@pytest.mark.slow
def test_a_run_that_goes_on_ends_with_the_same_bits(finished, text, tmp_path):
    first = run("train_language_model", tmp_path, *TINY, "--text", str(text), "--steps", "60", "--time-limit", "0.0001")
    assert first.returncode == 0, first.stderr
    assert "the time limit of" in first.stdout
    again = run("train_language_model", tmp_path, "--resume", "--out", "run", "--time-limit", "10")
    assert again.returncode == 0, again.stderr
    assert weights(tmp_path / "run") == weights(finished[0] / "run")


KILLED = """
import os, runpy, signal, sys
from tinytensor.models.training.trainer import Trainer
script, nth = sys.argv[1], int(sys.argv[2])
sys.argv[:3] = [script]
calls = 0
def killing(function):
    def call(*args, **kwargs):
        global calls
        calls += 1
        if calls == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call
os.fsync, os.replace = killing(os.fsync), killing(os.replace)
Trainer.train_step = killing(Trainer.train_step)
runpy.run_path(script, run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize("script", ["train_language_model", "train_masked_words"])
def test_killed_at_any_step_or_while_it_writes_it_ends_with_the_same_bits(script, text, tmp_path):
    """Killed before each step of writing a file, flushing it, renaming it, flushing the folder; and in training."""
    begin = [*TINY, "--text", str(text)] if script == "train_language_model" else WORDS
    begin = [*begin, "--dropout", "0.1", "--steps", "12", "--checkpoint-every", "4"]
    (tmp_path / "killing.py").write_text(KILLED)
    for nth in (2, 5, 6, 7, 12, 17, 18, 30):
        (tmp_path / "killed").mkdir(exist_ok=True)
        there = (tmp_path / "killed" / "run" / "checkpoint.safetensors").exists()
        arguments = ["--resume", "--out", "run"] if there else begin
        command = [sys.executable, str(tmp_path / "killing.py"), str(ROOT / "examples" / f"{script}.py"), str(nth)]
        result = processes.run([*command, *arguments], cwd=tmp_path / "killed", text=True)
        assert result.returncode == -signal.SIGKILL, result.stdout + result.stderr
        if there:
            assert nn.load(tmp_path / "killed" / "run" / "checkpoint.safetensors")["step"] in (0, 4, 8, 12)
    (tmp_path / "whole").mkdir()
    for where, arguments in (("killed", ["--resume", "--out", "run"]), ("whole", begin)):
        result = run(script, tmp_path / where, *arguments)
        assert result.returncode == 0, result.stderr
    killed, whole = tmp_path / "killed" / "run", tmp_path / "whole" / "run"
    assert weights(killed) == weights(whole)
    assert [e["loss"] for e in log(killed, "step")] == [e["loss"] for e in log(whole, "step")]
    assert {path.name for path in killed.iterdir()} == {path.name for path in whole.iterdir()}


@pytest.mark.slow
def test_another_text_is_refused(text, tmp_path):
    copy = tmp_path / "text.txt"
    copy.write_text(TEXT)
    arguments = [*TINY, "--steps", "2", "--preset", "llama-tiny", "--text", str(copy)]
    assert run("train_language_model", tmp_path, *arguments).returncode == 0
    copy.write_text(TEXT[::-1])
    again = run("train_language_model", tmp_path, "--resume", "--out", "run", "--steps", "3")
    assert again.returncode == 2
    assert "the data is not what the run began with" in again.stderr


@pytest.mark.slow
@pytest.mark.parametrize("units", ["bytes", "subwords"])
def test_other_units(units, text, tmp_path):
    if units == "subwords":
        pytest.importorskip("sentencepiece")
    arguments = [*TINY, "--text", str(text), "--steps", "2", "--units", units, "--vocabulary", "40"]
    result = run("train_language_model", tmp_path, *arguments)
    assert result.returncode == 0, result.stderr
    assert ("a character)" in result.stdout) == (units == "subwords")
    assert Writer.from_pretrained(tmp_path / "run").write("Ann", 4) is not None


LINES = "I come.\nThen I go.\n\n" * 40
ODD_TEXTS = {
    "held out from an empty line on": LINES + "\n\n" + "Then I come. " * 4,
    "held out are empty lines": LINES + "\n" * 100,
    "one line": "the cat sat on the mat " * 40,
    "one letter": "a" * 900,
    "letters of several bytes": "물을 마신다.\n" * 60,
}


@pytest.mark.slow
@pytest.mark.parametrize("units", ["bytes", "characters", "subwords"])
@pytest.mark.parametrize("name", ODD_TEXTS)
def test_odd_texts(name, units, tmp_path):
    """With stretches that are shorter than what is shown of a line."""
    if units == "subwords":
        pytest.importorskip("sentencepiece")
    (tmp_path / "text.txt").write_text(ODD_TEXTS[name], encoding="utf-8")
    arguments = ["--units", units, "--vocabulary", "16", "--steps", "1", "--batch-size", "2", "--out", "run"]
    result = run("train_language_model", tmp_path, "--text", "text.txt", "--length", "2", *arguments)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_a_mark_of_utf_8_is_no_character(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8-sig")
    result = run("train_language_model", tmp_path, *TINY, "--text", "text.txt", "--steps", "1")
    assert result.returncode == 0, result.stderr
    assert Writer.from_pretrained(tmp_path / "run").units.characters == "".join(sorted(set(TEXT)))


@pytest.mark.slow
def test_it_sees_one_id(text, tmp_path):
    result = run("train_language_model", tmp_path, *TINY, "--text", str(text), "--steps", "2", "--length", "1")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", "none.txt"], "cannot read none.txt: No such file or directory"),
        (["--text", "latin.txt"], r"latin.txt: not UTF-8 \(byte 3\)"),
        (["--text", "empty.txt"], "empty.txt: there is no text in it"),
        (["--text", "."], "cannot read .: Is a directory"),
        (["--text", "short.txt"], "--length: a text of 3 ids is too short for stretches of 64"),
        (["--length", "0"], "argument --length: must be at least 1, got 0"),
        (["--batch-size", "-2"], "argument --batch-size: must be at least 1, got -2"),
        (["--temperature", "0"], "argument --temperature: must be a number above 0"),
        (["--lines", "50", "--held-out", "0"], "--held-out 0.0 leaves nothing of"),
        (["--units", "subwords", "--vocabulary", "9000", "--lines", "50"], "--vocabulary 9000 does not suit this text"),
        (["--resume", "--out", "none"], "--resume: there is no checkpoint.safetensors in none"),
        (["--length", "100000", "--lines", "50"], "--length: a text of .* ids is too short"),
        (["--prompt", "ß", "--lines", "50"], "--prompt: no id for 'ß'"),
        (["--units", "subwords", "--vocabulary", "5", "--lines", "50"], "--vocabulary 5 does not suit this text"),
        (["--preset", "gpt5"], "invalid choice"),
    ],
)
def test_mistakes_are_one_line(arguments, message, tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"na\xefve")
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "short.txt").write_text("Hi!\n")
    result = run("train_language_model", tmp_path, *arguments)
    assert result.returncode == 2, result.stdout
    assert re.search(message, result.stderr)
    assert result.stderr.count("\n") == 1


# ---- masked words


def test_masked_words(tmp_path):
    result = run("train_masked_words", tmp_path, *WORDS, "--steps", "30")
    assert result.returncode == 0, result.stderr
    found, frequent = re.findall(r"(\d+\.\d)%$", result.stdout, re.M)[-2:]
    (entry,) = log(tmp_path / "run", "result")
    assert f"{entry['accuracy']:.1%}" == f"{found}%"
    assert 5 < float(frequent) < 30
    assert len(re.findall(r"^  .*\[mask\].*   \S+ \d+%, \S+ \d+%, \S+ \d+%, \S+ \d+%$", result.stdout, re.M)) == 4
    assert b"[mask]" in (tmp_path / "run" / "masked-word.svg").read_bytes()
    model = Encoder.from_pretrained(tmp_path / "run")
    assert np.isfinite(model([[1, 5, model.mask_id]]).numpy()).all()
    again = run("train_masked_words", tmp_path, "--resume", "--out", "run", "--steps", "31")
    assert again.returncode == 0, again.stderr
    too_few = run("train_masked_words", tmp_path, *WORDS, "--steps", "1", "--require-accuracy", "0.99")
    assert too_few.returncode == 4
    assert "accuracy 0." in too_few.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num-heads", "5"], "--num-heads 5 does not divide --d-model 96"),
        (["--num-layers", "0"], "argument --num-layers: must be at least 1, got 0"),
        (["--d-model", "-4"], "argument --d-model: must be at least 1, got -4"),
        pytest.param(["--d-model", "1000000"], "not enough memory", marks=pytest.mark.slow),
        (["--batch-size", "0"], "argument --batch-size: must be at least 1"),
        (["--dropout", "2"], "argument --dropout: must be from 0 to 1"),
        (["--resume", "--out", "none"], "--resume: there is no checkpoint.safetensors in none"),
        (["--out", "file"], "cannot write to the folder file: File exists"),
    ],
)
def test_mistakes_with_masked_words_are_one_line(arguments, message, tmp_path):
    (tmp_path / "file").touch()
    result = run("train_masked_words", tmp_path, *arguments)
    assert result.returncode == 2, result.stdout
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_run_of_the_other_script_or_model_is_not_resumed(finished):
    cwd, _ = finished
    for script, more, message in (
        ("train_masked_words", [], "is of another script"),
        ("train_language_model", ["--preset", "llama-tiny"], "has --preset gpt2-tiny, not llama-tiny"),
        ("train_language_model", ["--length", "8"], "has --length 16, not 8"),
        ("train_language_model", ["--steps", "1"], "--steps 1, but the run has done 60 already"),
    ):
        result = run(script, cwd, "--resume", "--out", "run", *more)
        assert (result.returncode, result.stdout) == (2, "")
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
