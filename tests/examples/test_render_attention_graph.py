"""examples/render_attention_graph.py as its user meets it."""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests import processes

SCRIPT = Path(__file__).parents[2] / "examples" / "render_attention_graph.py"
GRAPHS = ("head", "heads", "multihead", "encoder-layer", "transformer", "bahdanau", "luong")


def run(cwd, *arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    result = processes.run(command, cwd=cwd, text=True)
    lines = result.stderr.splitlines(keepends=True)  # fontconfig, which Graphviz asks for fonts, may have its own say
    result.stderr = "".join(line for line in lines if not line.startswith("Fontconfig "))
    return result


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_graph_becomes_a_picture(tmp_path, graph):
    result = run(tmp_path, graph, "--out", "picture.svg")
    assert result.returncode == 0, result.stderr
    text = (tmp_path / "picture.svg").read_text()
    ElementTree.fromstring(text)
    assert "matmul" in text or "MultiheadAttention" in text
    assert "wrote picture.svg: " in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["picture.svg"]


def test_the_head_shows_the_steps_of_attention(tmp_path):
    assert run(tmp_path, "head", "--out", "head.txt").returncode == 0
    text = (tmp_path / "head.txt").read_text().partition("\n")[2]  # without its title
    steps = ("Q = x W_Q", "Q Kᵀ", "÷ √dₖ = 4", "scores = mask", "weights = softmax", "result")
    places = [text.index(step) for step in steps]
    assert places == sorted(places)
    assert "causal" in text


def test_each_head_has_its_box(tmp_path):
    assert run(tmp_path, "heads", "--out", "heads.txt").returncode == 0
    text = (tmp_path / "heads.txt").read_text()
    boxes = re.split(r"head\.\d Head\n", text)
    assert len(boxes) == 5
    for box in boxes[1:]:
        steps = ("W_Q", "W_K", "W_V", "÷ √dₖ = 4", "weights = softmax", "head = weights V")
        assert all(step in box for step in steps)
    outside = re.findall(r"^  (\w.*?)  ", boxes[4], re.M)
    assert [line.partition(".")[0] for line in outside] == ["joined = concat", "W_O", "joined W_O"]


@pytest.mark.parametrize(
    ("graph", "order"),
    [
        ("bahdanau", ["step 1", "e = matmul", "alpha = softmax", "c = matmul", "concat", "decoder GRUCell", "step 2"]),
        ("luong", ["step 1", "decoder GRUCell", "scores = Q Kᵀ", "a = softmax", "c = a K", "found = tanh", "step 2"]),
    ],
)
def test_the_recurrent_decoders_are_unrolled(tmp_path, graph, order):
    assert run(tmp_path, graph, "--out", "graph.txt").returncode == 0
    text = (tmp_path / "graph.txt").read_text()
    at = 0
    for word in order:  # raises ValueError where one does not follow the one before
        at = text.index(word, at)
    assert len(re.findall(r"^ +attention \w+Attention$", text, re.M)) == 2
    assert "step 3" not in text


def test_the_transformer_names_every_stage_of_the_papers_figure(tmp_path):
    assert run(tmp_path, "transformer", "--out", "t.txt").returncode == 0
    text = (tmp_path / "t.txt").read_text()
    for stage in (
        "source_embedding Embedding", "target_embedding Embedding", "positions PositionalEncoding",
        "self_attn MultiheadAttention", "Add & Norm", "feed forward", "causal and padding mask",
        "multihead_attn MultiheadAttention", "projection Linear", "softmax",
        "layers.0 … layers.5 TransformerEncoderLayer × 6", "layers.0 … layers.5 TransformerDecoderLayer × 6",
    ):  # fmt: skip
        assert stage in text


@pytest.mark.parametrize("suffix", ["svg", "dot", "png", "pdf", "mmd", "json", "html", "txt"])
def test_every_format(tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    assert run(tmp_path, "head", "--out", path).returncode == 0
    content = path.read_bytes()
    starts = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg", "dot": b"digraph", "mmd": b"---", "json": b"{"}
    assert content.startswith(starts.get(suffix, content[:1]))
    assert len(content) > 500
    if suffix == "json":
        assert {op["name"] for op in json.loads(content)["ops"]} >= {"matmul", "softmax", "masked_fill"}
    if suffix == "html":
        assert b"http://" not in content.replace(b"http://www.w3.org", b"")


def test_the_options(tmp_path):
    for option in (["--backward"], ["--saved"], ["--heat", "grad"], ["--heat", "time"], ["--heat", "bytes"]):
        assert run(tmp_path, "encoder-layer", "--out", "x.txt", *option).returncode == 0, option
    assert run(tmp_path, "encoder-layer", "--out", "x.txt", "--saved").returncode == 0
    assert "kept until the backward pass" in (tmp_path / "x.txt").read_text()
    assert run(tmp_path, "encoder-layer", "--out", "x.txt", "--depth", "0").returncode == 0
    assert "norm1" not in (tmp_path / "x.txt").read_text()
    assert run(tmp_path, "encoder-layer", "--out", "y.txt", "--depth", "1").returncode == 0
    assert "norm1" in (tmp_path / "y.txt").read_text()


def test_the_same_seed_gives_the_same_text(tmp_path):
    for name in ("a.dot", "b.dot"):
        assert run(tmp_path, "transformer", "--out", name).returncode == 0
    assert (tmp_path / "a.dot").read_bytes() == (tmp_path / "b.dot").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["head"], "--out"),
        (["tail", "--out", "x.svg"], "'tail'"),
        (["head", "--out", "x.gif"], "'.gif'"),
        (["head", "--out", "nowhere/x.svg"], "nowhere/x.svg"),
        (["head", "--out", "x.svg", "--depth", "-1"], "at least 0"),
        (["head", "--out", "x.svg", "--heat", "cold"], "'cold'"),
    ],
)
def test_mistakes_end_in_one_line(tmp_path, arguments, message):
    result = run(tmp_path, *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
