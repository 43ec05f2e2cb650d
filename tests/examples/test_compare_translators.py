"""examples/compare_translators.py as its user meets it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tinytensor import nn

from .test_train_translation import write_text

SCRIPT = Path(__file__).parents[2] / "examples" / "compare_translators.py"


def run(cwd, *arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return processes.run(command, cwd=cwd, text=True, timeout=180)


def rows(text, title):
    part = text[text.rindex("\n" + title) + 1 :].partition("\n\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines()]


@pytest.mark.slow
def test_models_are_trained_once_and_compared(tmp_path):
    arguments = ["--models", "luong", "transformer", "--steps", 3, "--batch-size", 4, "--out", "runs"]
    timing = ["--lengths", 4, 8, "--rounds", 1]
    first = run(tmp_path, *arguments, *timing)
    assert first.returncode == 0, first.stderr
    titles = ["multiplicative (Luong 2015)", "Transformer (Vaswani 2017)"]
    for title in ("Exact match on 1,000", "BLEU", "Training", "Milliseconds"):
        head, line, *table = rows(first.stdout, title)
        assert [row[0] for row in table] == titles
        assert all(len(row) == len(head) for row in table)
        assert set("".join(line)) <= {"-", " "}
    assert [row[2] for row in rows(first.stdout, "Training")[2:]] == ["3", "3"]
    again = run(tmp_path, *arguments, *timing)
    assert again.returncode == 0, again.stderr
    assert re.findall(r"trained already", again.stdout) == ["trained already"] * 2
    assert rows(again.stdout, "BLEU") == rows(first.stdout, "BLEU")
    for option, message in (
        (["--steps", 4], "runs/luong holds a run with --steps 3, not 4; choose another --out"),
        (["--pair", "en-ko"], "runs/luong holds a run with --pair en-fr, not en-ko; choose another --out"),
    ):
        other = run(tmp_path, *arguments, *option)
        assert other.returncode == 2
        assert message in other.stderr


def test_on_text(tmp_path):
    pytest.importorskip("sentencepiece")
    files = write_text(tmp_path)
    options = ["--vocabulary", 60, "--evaluate-every", 2, "--steps", 2, "--beam", 1]
    result = run(tmp_path, *files, *options, "--models", "none", "--lengths", 4, "--rounds", 1)
    assert result.returncode == 0, result.stderr
    assert "Exact match on 10 test sentences, greedy" in result.stdout


@pytest.mark.slow
def test_a_text_of_one_length_and_a_folder_that_is_damaged(tmp_path):
    pytest.importorskip("sentencepiece")
    files = write_text(tmp_path)
    for name in ("test.en", "test.de"):
        (tmp_path / name).write_text((tmp_path / name).read_text().splitlines()[0] + "\n")
    options = [*files, "--vocabulary", 60, "--steps", 1, "--beam", 1, "--models", "none", "--lengths", 4, "--rounds", 1]
    result = run(tmp_path, *options, "--out", "runs")
    assert result.returncode == 0, result.stderr
    head, _, row = rows(result.stdout, "Exact match on 1 test sentences")
    assert (len(head), len(row)) == (3, 3)
    (tmp_path / "runs" / "none" / "config.json").write_text("{")
    result = run(tmp_path, *options, "--out", "runs")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "runs/none/config.json: not JSON" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "whom", "code"),
    [(signal.SIGINT, os.killpg, 130), (signal.SIGTERM, os.kill, 143), (signal.SIGTERM, os.killpg, 143)],
)
def test_ctrl_c_and_sigterm_leave_time_to_save(tmp_path, number, whom, code):
    options = ["--models", "none", "--steps", "100000", "--batch-size", "4", "--out", "runs"]
    command = [sys.executable, SCRIPT, *options]
    pipes = {"stdout": subprocess.PIPE, "text": True}
    process = processes.start(command, cwd=tmp_path, start_new_session=True, **pipes)
    while not process.stdout.readline().startswith("step 100/"):
        assert process.poll() is None
    whom(process.pid, number)  # Ctrl-C goes from a terminal to the whole group
    rest, _ = process.communicate(timeout=60)
    step = re.search(r" after step (\d+)", rest)[1]
    assert process.returncode == code
    assert nn.load(tmp_path / "runs" / "none" / "checkpoint.safetensors")["step"] == int(step)


def test_mistakes(tmp_path):
    for arguments, message in (
        (["--models", "other"], "invalid choice: 'other'"),
        (["--model=luong"], "--model and --resume are given to train_translation.py by this script itself"),
        (["--model", "luong"], "--model and --resume are given to train_translation.py by this script itself"),
        (["--models", "luong", "--nonsense"], "unrecognized arguments: --nonsense"),
    ):
        result = run(tmp_path, *arguments)
        assert result.returncode == 2
        assert result.stderr.startswith("compare_translators.py: ")
        assert message in result.stderr
