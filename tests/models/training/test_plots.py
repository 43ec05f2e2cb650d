"""The pictures of a run: whole files, the same bytes every time, with the words that explain them."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import tinytensor as tt
from tinytensor.models.scripts import attention_graphs
from tinytensor.models.training import plots


def check(paths, stem):
    assert [path.name for path in paths] == [f"{stem}.png", f"{stem}.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG\r\n")
    assert ElementTree.parse(paths[1]).getroot().tag.endswith("svg")
    assert sorted(p.name for p in paths[0].parent.iterdir()) == [f"{stem}.png", f"{stem}.svg"]


def test_the_loss_curve(tmp_path):
    check(plots.plot_losses(tmp_path, [1, 2, 3], [3.0, 1.0, 0.1]), "loss")


def test_the_loss_curve_of_a_run_without_figures(tmp_path):
    check(plots.plot_losses(tmp_path, [], []), "loss")


def test_the_attention_heat_map(tmp_path):
    weights = np.random.default_rng(0).dirichlet(np.ones(4), size=3)
    paths = plots.plot_attention(tmp_path, weights, ["a", "b", "c", "<end>"], ["a", "b", "<end>"])
    check(paths, "cross-attention")


def test_the_graph_of_an_attention_head_is_the_same_text_every_time(tmp_path):
    texts = []
    for i in range(2):
        path = tmp_path / f"{i}.dot"
        attention_graphs.head(d_model=8).save(path)
        texts.append(path.read_text())
    assert texts[0] == texts[1]
    for word in ("W_Q", "W_K", "W_V", "softmax", "head"):
        assert word in texts[0]


def test_drawing_leaves_the_generators_and_modes_alone(tmp_path):
    """A picture in the middle of a run must not change what follows."""
    tt.random.manual_seed(0)
    expected = tt.random.normal((3,)).tolist()
    tt.random.manual_seed(0)
    plots.plot_attention(tmp_path, np.eye(2), ["a", "b"], ["a", "b"])
    assert tt.random.normal((3,)).tolist() == expected
