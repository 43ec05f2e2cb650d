"""examples/live_page.py: pages of a model that it trains itself, and of runs of the training scripts."""

import sys
from pathlib import Path

import pytest

from tests import processes
from tinytensor.models import LanguageModel, Transformer, Translator
from tinytensor.models.data.languages import ToyText
from tinytensor.models.data.units import Characters
from tinytensor.models.writer import Writer

from .test_train_copy_task import TINY
from .test_train_copy_task import run as train

SCRIPT = Path(__file__).parents[2] / "examples" / "live_page.py"


def run(cwd, *arguments):
    return processes.run([sys.executable, str(SCRIPT), *map(str, arguments)], cwd=cwd, text=True)


def test_without_a_run_it_trains(tmp_path):
    result = run(tmp_path, "--steps", 2)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "wrote runs/live.html: open it in a browser, and type"
    assert '"begin":"transformer"' in (tmp_path / "runs" / "live.html").read_text()


def test_runs_of_all_kinds(tmp_path):
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 1, "max_length": 21}
    assert train(tmp_path, "--out", "copy", "--steps", "2", *TINY, "--max-length", "8").returncode == 0
    text = ToyText("en-fr")
    Translator(Transformer(*text.sizes, **sizes), text).save_pretrained(tmp_path / "toy")
    characters = Characters("the cat")
    Writer(LanguageModel(len(characters), **sizes), characters).save_pretrained(tmp_path / "language")
    for name, begins in (("copy", ""), ("toy", "the black cat"), ("language", "the ")):
        result = run(tmp_path, name, "--out", f"{name}.html")
        assert result.returncode == 0, result.stderr
        assert f'"begin":"{begins}' in (tmp_path / f"{name}.html").read_text()
    assert run(tmp_path, "toy", "--text", "a box.", "--out", "mine.html").returncode == 0
    assert '"begin":"a box."' in (tmp_path / "mine.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "nothing/checkpoint.safetensors"),
        (["short"], "live: the model's max_length is 4; expected at least 7"),
        (["--steps", "2", "--out", "page.svg"], "cannot write page.svg: save: page.svg has the ending '.svg'"),
    ],
)
def test_mistakes_take_one_line(tmp_path, arguments, words):
    assert train(tmp_path, "--out", "short", "--steps", "2", *TINY).returncode == 0
    result = run(tmp_path, *arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
