"""The page to explore a graph: its data, and that it is one file."""

import json
import re

import pytest

import tinytensor as tt
from tinytensor import nn

from .heads import attention_head


def layers():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 2)
    with tt.record() as graph:
        tt.sum(model(tt.ones((2, 3, 4)))).backward()
    return graph, model


def content(graph, tmp_path, **options):
    graph.explore(tmp_path / "graph.html", **options)
    page = (tmp_path / "graph.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1]), page


def rows(item):
    found = {}
    for name, text, *_ in item["rows"]:
        found.setdefault(name, []).append(text)
    return found


def test_every_op_is_there_in_its_module(tmp_path):
    graph, _ = layers()
    data, _ = content(graph, tmp_path)
    ops = [v for v in data["vertices"] if v["kind"] == "op"]
    assert len(ops) == len([v for v in graph.picture(depth=99, fold=False, fused="folded").vertices if v.kind == "op"])
    paths = {box["id"]: box["path"] for box in data["boxes"]}
    assert "TransformerEncoder.layers.1.self_attn" in paths.values()
    attention = [v for v in ops if rows(v)["kind"] == ["op multi_head"]]
    assert [paths[v["box"]] for v in attention] == [f"TransformerEncoder.layers.{i}.self_attn" for i in range(2)]
    ids = {v["id"] for v in data["vertices"]}
    assert all(tail in ids and head in ids for tail, head, *_ in data["edges"])


def test_a_vertex_tells_all_that_is_known(tmp_path):
    graph, _ = layers()
    data, _ = content(graph, tmp_path)
    linear = next(v for v in data["vertices"] if rows(v)["kind"] == ["op linear"])
    told = rows(linear)
    assert told["formula"] == ["x Wᵀ + b"]
    assert told["result"] == ["2×3×12 float32, 288 B"]
    assert told["operations"] == ["576 flops"]
    assert any("gradient" in text or "reads" in text for text in told["keeps"])
    assert told["values"][0].startswith("norm ")
    assert told["gradient"][0].startswith("norm ")
    assert told["line"]


def test_a_module_counts_its_parameters(tmp_path):
    graph, model = layers()
    data, _ = content(graph, tmp_path)
    whole = next(box for box in data["boxes"] if box["parent"] is None)
    numbers = sum(p.size for p in model.parameters())
    assert rows(whole)["parameters"][0].startswith(f"{numbers:,} numbers")


def test_small_arrays_have_their_numbers(tmp_path):
    x = tt.tensor([1.0, -2.0], requires_grad=True)
    with tt.record() as graph:
        y = x * 3
    y.backward(tt.ones(2))
    data, _ = content(graph, tmp_path)
    product = next(v for v in data["vertices"] if v["kind"] == "op")
    assert rows(product)["values"] == ["[3, −6]"]
    assert rows(product)["gradient"] == ["[1, 1]"]
    assert data["gradients"]


def test_formulas_can_be_in_it(tmp_path):
    graph, _ = layers()
    data, _ = content(graph, tmp_path, fused="formula")
    assert any(box["formula"] for box in data["boxes"])
    assert any(line[0] == "Q Kᵀ" for v in data["vertices"] for line in v["lines"])


def test_the_page_is_one_file_with_its_licence(tmp_path):
    graph, _ = attention_head()
    _, page = content(graph, tmp_path)
    assert "Permission is hereby granted, free of charge" in page
    assert not re.search(r'(src|href)="(?!data:)', page.partition("<script")[0])
    assert "<noscript>" in page
    assert "query keyᵀ" in page


def test_only_html_is_written(tmp_path):
    graph, _ = attention_head()
    with pytest.raises(ValueError, match=r"explore: .*'\.svg'; expected \.html"):
        graph.explore(tmp_path / "graph.svg")
    assert list(tmp_path.iterdir()) == []


def test_hostile_names_stay_text(tmp_path):
    x = tt.tensor([1.0], requires_grad=True)
    with tt.record() as graph, tt.named_scope("</script><script>alert(1)</script>"):
        tt.exp(x)
    graph.title = "<b>&"
    _, page = content(graph, tmp_path)
    assert "<script>alert" not in page
    assert "<title>&lt;b&gt;&amp;</title>" in page
