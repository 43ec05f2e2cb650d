"""examples/visualize_attention.py on trained models of all three tasks."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests import processes
from tinytensor import nn

from .test_train_copy_task import TINY
from .test_train_copy_task import run as train

SCRIPT = Path(__file__).parents[2] / "examples" / "visualize_attention.py"
FILES = ["explorer.html", "grid.svg", "lines.svg", "loss.svg", "mask.svg", "positions.svg", "steps.svg"]


def run(cwd, *arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return processes.run(command, cwd=cwd, text=True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for task in ("copy", "reverse", "sort"):
        assert train(folder, "--task", task, "--out", task, "--steps", "2", *TINY).returncode == 0
    return folder


@pytest.mark.parametrize("task", ["copy", "reverse", "sort"])
def test_all_views(trained, task):
    before = (trained / task / "checkpoint.safetensors").read_bytes()
    result = run(trained, "--run", task)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"{task}: ")
    out = trained / task / "attention"
    assert sorted(p.name for p in out.iterdir()) == FILES
    for path in out.glob("*.svg"):
        ElementTree.parse(path)
    assert (trained / task / "checkpoint.safetensors").read_bytes() == before


def test_the_steps_begin_with_the_projections(trained):
    assert run(trained, "--run", "copy", "--out", "steps", "--layer", "0").returncode == 0
    texts = [
        e.text for e in ElementTree.parse(trained / "steps" / "steps.svg").iter() if "formula" in e.get("class", "")
    ]
    assert texts[:6] == ["x", "W", "X", "W", "W", "q = x W"]


def test_a_sequence_of_ones_own(trained):
    result = run(trained, "--run", "reverse", "--sequence", "xyz", "--out", "mine")
    assert result.returncode == 0, result.stderr
    text = (trained / "mine" / "lines.svg").read_text()
    tokens = ["x", "y", "z", "&lt;end&gt;", "&lt;begin&gt;", "z", "y", "x"]
    assert all(f">{token}<" in text for token in tokens)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run", "missing"], "no run in missing; train a model first: python examples/train_copy_task.py"),
        (["--run", "copy", "--layer", "9"], "layer 9"),
        (["--run", "copy", "--head", "9"], "head 9"),
        (["--run", "copy", "--token", "99"], "token 99"),
        (["--run", "copy", "--sequence", "abcd"], "at most 3 letters"),
        (["--run", "copy", "--sequence", "A"], "letters from a to z"),
        (["--run", "copy", "--out", "copy/log.jsonl"], "cannot write to copy/log.jsonl"),
    ],
)
def test_mistakes_end_in_one_line(trained, arguments, message):
    result = run(trained, *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_folders_without_a_run_of_the_copy_task(trained):
    (trained / "empty").mkdir(exist_ok=True)
    result = run(trained, "--run", "empty")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "cannot read empty/checkpoint.safetensors: No such file" in result.stderr
    nn.save({"arguments": {"pair": "en-fr"}, "log_bytes": 0}, trained / "empty" / "checkpoint.safetensors")
    result = run(trained, "--run", "empty")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "empty holds a run of another script; expected one of train_copy_task.py" in result.stderr


def test_a_damaged_checkpoint_is_named(trained):
    path = trained / "sort" / "checkpoint.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-10])
    result = run(trained, "--run", "sort")
    path.write_bytes(content)
    assert result.returncode == 2
    assert "sort/checkpoint.safetensors" in result.stderr
    assert result.stderr.count("\n") == 1
