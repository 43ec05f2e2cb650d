"""The pictures of a run: whole files, the same bytes every time, with the words that explain them."""

import xml.etree.ElementTree as ElementTree

import pytest

import tinytensor as tt
from tinytensor.models import Transformer
from tinytensor.models.scripts import attention_graphs
from tinytensor.models.sentence_attention import SentenceAttention
from tinytensor.models.training import plots
from tinytensor.models.training.run_folder import LOG, RunFolder


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path, resume=False)


def check(paths, name):
    (path,) = paths
    assert path.name == name
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert {p.name for p in path.parent.iterdir()} - {LOG} == {name}
    return path.read_text(encoding="utf-8")


def log(folder, losses):
    for step, loss in enumerate(losses, 1):
        folder.log(event="step", step=step, loss=loss)


def test_the_loss_curve(folder):
    log(folder, [3.0, 1.0, 0.1])
    text = check(plots.draw_losses(folder, log=True), "loss.svg")
    assert "training from 3 to 0.1" in text
    assert "loss, logarithmic" in text
    assert text == check(plots.draw_losses(folder, log=True), "loss.svg")


def test_the_loss_curve_with_that_of_validation(folder):
    log(folder, [3.0, 1.0, 0.1])
    folder.log(event="evaluation", step=2, validation_loss=1.5)
    text = check(plots.draw_losses(folder, log=False), "loss.svg")
    assert "validation from 1.5 to 1.5" in text
    assert "logarithmic" not in text


def test_the_loss_curve_of_a_run_without_figures(folder):
    assert plots.draw_losses(folder, log=True) == []
    plots.draw_run(folder, None, log=True)
    plots.draw_run(folder, SentenceAttention({}, ["a"], ["b"]), log=True)
    assert list(folder.path.iterdir()) == []


def seen_by(model):
    return SentenceAttention.of(model, [[[3, 4, 5]], [[1, 6]]], ["a", "b", "c"], ["x", "y"])


def test_the_attention_heat_map(folder):
    seen = seen_by(Transformer(11, d_model=8, num_heads=2, num_layers=1))
    texts = []
    for _ in range(2):
        plots.draw_attention(folder.path / "attention.svg", seen)
        texts.append((folder.path / "attention.svg").read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    assert "looked at" in texts[0]
    mean = seen.layers["cross"][0].weights[0].mean(axis=0)
    assert f"y → c: {mean[1, 2]:.4f}".rstrip("0") + "<" in texts[0]


def test_the_graph_of_an_attention_head_is_the_same_text_every_time(tmp_path):
    texts = []
    for i in range(2):
        path = tmp_path / f"{i}.dot"
        attention_graphs.head(d_model=8).save(path)
        texts.append(path.read_text())
    assert texts[0] == texts[1]
    for word in ("W_Q", "W_K", "W_V", "softmax", "head"):
        assert word in texts[0]


def test_drawing_leaves_the_generators_and_modes_alone(folder):
    """A picture in the middle of a run must not change what follows."""
    tt.random.manual_seed(0)
    expected = tt.random.normal((3,)).tolist()
    seen = seen_by(Transformer(11, d_model=8, num_heads=2, num_layers=1))
    tt.random.manual_seed(0)
    plots.draw_attention(folder.path / "attention.svg", seen)
    assert tt.random.normal((3,)).tolist() == expected
