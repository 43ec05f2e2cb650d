"""The page to explore a graph: its data, and that it is one file."""

import json
import re
import time

import numpy as np
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
    data, _ = content(graph, tmp_path, fused="folded")
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


def test_a_fused_op_tells_of_itself_and_holds_its_formula(tmp_path):
    graph, _ = layers()
    data, _ = content(graph, tmp_path)
    (folded, _) = content(graph, tmp_path, fused="folded")
    assert not data["formulas"]
    attention = next(box for box in data["boxes"] if box["formula"] and box["title"] == "multi_head")
    alone = next(v for v in folded["vertices"] if rows(v)["kind"] == ["op multi_head"])
    for what in ("lines", "size", "words"):
        assert attention[what] == alone[what]
    for what in ("result", "formula", "keeps", "values", "gradient", "line"):
        assert rows(attention)[what] == rows(alone)[what]
    inside = [v["lines"][0][0] for v in data["vertices"] if v["box"] == attention["id"]]
    assert "weights = softmax" in inside
    for one, other in zip(data["boxes"], folded["boxes"], strict=False):
        if one["formula"]:
            break
        assert one["rows"] == other["rows"]  # modules tell of what ran


def test_what_the_page_shows_by_itself_is_not_asked_for(tmp_path):
    graph, _ = layers()
    data, _ = content(graph, tmp_path)
    assert content(graph, tmp_path, backward=True, unroll=True, fold=True)[0] == data


def recurrence(turns):
    w, x = tt.tensor(tt.random.randn(4, 4), requires_grad=True), tt.random.randn(turns, 3, 4)
    with tt.record() as graph:
        h = tt.zeros((3, 4))
        for t in range(turns):
            h = tt.tanh(x[t] @ w + h)
    return graph


def chain(ops):
    x = tt.tensor([0.5], requires_grad=True)
    with tt.record() as graph:
        for _ in range(ops // 2):
            x = tt.cos(tt.sin(x))
    return graph


def wide(ops):
    x = tt.tensor([0.5], requires_grad=True)
    with tt.record() as graph:
        tt.sum(tt.stack([tt.exp(x * (1 / (i + 1))) for i in range(ops // 3)]))
    return graph


def tangle(ops):
    rng = np.random.default_rng(0)
    values = [tt.tensor([0.5], requires_grad=True) for _ in range(5)]
    with tt.record() as graph:
        for i in range(ops):
            one, other = (values[-1 - min(int(back), i)] for back in rng.exponential((6, 20)))
            values.append(tt.sin(one) if rng.integers(2) else one * other)
    return graph


def levels(data):
    """The items of each box, and of the outermost level."""
    found = {}
    for vertex in data["vertices"]:
        found.setdefault(vertex["box"], []).append(vertex["id"])
    for box in data["boxes"]:
        found.setdefault(box["parent"], []).append(box["title"])
    return found


def test_the_turns_of_a_loop_stand_in_stages(tmp_path):
    data, _ = content(recurrence(200), tmp_path)
    inside = levels(data)
    names = {box["id"]: box["title"] for box in data["boxes"]}
    assert [item for item in inside[None] if item in names.values()] == ["step 1 … step 200"]
    assert len(inside[None]) == 3  # x, the steps, h
    ids = {title: place for place, title in names.items()}
    assert [item for item in inside[ids["step 1 … step 200"]] if item in ids] == [
        "step 1 … step 100",
        "step 101 … step 200",
    ]
    assert inside[ids["step 1 … step 100"]] == [f"step {i} … step {i + 9}" for i in range(1, 101, 10)]
    assert inside[ids["step 11 … step 20"]] == [f"step {i}" for i in range(11, 21)]
    kinds = {v["id"]: rows(v)["kind"][0] for v in data["vertices"]}
    assert [kinds[item] for item in inside[ids["step 17"]]] == ["op getitem", "op matmul", "op add", "op tanh"]
    assert rows(next(box for box in data["boxes"] if box["title"] == "step 17"))["holds"] == ["4 ops"]


def test_a_few_turns_need_no_stage_around_them(tmp_path):
    data, _ = content(recurrence(5), tmp_path)
    assert [item for item in levels(data)[None] if item.startswith("step")] == [f"step {i}" for i in range(1, 6)]


@pytest.mark.slow
@pytest.mark.parametrize("make", [recurrence, chain, wide, tangle])
def test_no_level_holds_more_than_a_page_lays_out_at_once(make, tmp_path):
    graph = make(1250 if make is recurrence else 5000)
    began = time.process_time()
    data, page = content(graph, tmp_path)
    assert time.process_time() - began < 15  # takes a second: no search over all edges for each vertex
    assert len(page) < 8_000_000
    assert max(map(len, levels(data).values())) <= 90
    drawn = graph.picture(depth=99, fold=False, large=True, fused="folded")
    assert [v["id"] for v in data["vertices"]] == [v.id for v in drawn.vertices]
    assert len(data["edges"]) == len(drawn.edges)
    parents = {box["id"]: box["parent"] for box in data["boxes"]}
    assert {*parents.values(), *(v["box"] for v in data["vertices"])} <= {None, *parents}


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
