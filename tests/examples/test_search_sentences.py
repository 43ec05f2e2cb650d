"""examples/search_sentences.py as its user meets it: a question and sentences in, the nearest out."""

import importlib.metadata
import sys
from pathlib import Path

import numpy as np
import pytest

from tests import processes
from tests.models.test_loading import sentences, steps
from tinytensor import models
from tinytensor.models.scripts.real_models import MINILM

pytest.importorskip("tokenizers")
SCRIPT = Path(__file__).parents[2] / "examples" / "search_sentences.py"
LINES = ["a cat sat .", "", "cats sat", "  a  "]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return sentences(tmp_path_factory.mktemp("bert"), modules=steps("Transformer"))


def run(*arguments, lines=LINES):
    text = "".join(line + "\n" for line in lines).encode()
    result = processes.run([sys.executable, str(SCRIPT), *map(str, arguments)], cwd=SCRIPT.parent, input=text)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def test_the_nearest_come_first(model, tmp_path):
    code, out, _ = run("--model", model, "a cat sat .")
    found = [line.split("  ", 1) for line in out.splitlines()]
    assert code == 0
    assert found[0] == ["1.000", "a cat sat ."]
    assert sorted(text for _, text in found) == ["a", "a cat sat .", "cats sat"]
    made = models.load(model)
    one, two = made.pooled(made.tokenizer("a cat sat .", "cats sat")).numpy()
    expected = one @ two / np.linalg.norm(one) / np.linalg.norm(two)
    assert float({text: number for number, text in found}["cats sat"]) == pytest.approx(expected, abs=6e-4)
    (tmp_path / "lines.txt").write_text("\n".join(LINES))
    assert run("--model", model, "a cat sat .", tmp_path / "lines.txt", lines=[])[1] == out
    assert run("--model", model, "--count", 1, "a cat sat .")[1] == out.splitlines(keepends=True)[0]


def test_a_long_line_is_cut_where_the_model_ends(model):
    long, cut = (run("--model", model, "a", lines=["a " * n])[1].split()[0] for n in (20, 7))
    assert long == cut


def test_mistakes(model, tmp_path):
    plain = sentences(tmp_path)  # not a sentence transformer: texts are not cut
    for arguments, lines, message in (
        (("--model", model, "a"), [], "standard input has no sentences"),
        (("--model", model, "a", tmp_path / "x"), [], "cannot read"),
        (("--model", tmp_path / "x", "a"), LINES, "download it first"),
        (("--model", plain, "a"), ["a " * 20], "longer than max_length 9"),
    ):
        code, out, err = run(*arguments, lines=lines)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err


def test_minilm_knows_a_cat():
    try:
        importlib.metadata.distribution(MINILM[0])
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"the package {MINILM[0]} is not installed")
    out = run("a feline on a rug", lines=["Stocks fell on Monday.", "The cat sleeps on the carpet."])[1]
    assert out.splitlines()[0].endswith("The cat sleeps on the carpet.")
