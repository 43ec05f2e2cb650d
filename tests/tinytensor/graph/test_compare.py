"""Two graphs side by side."""

import xml.etree.ElementTree as ElementTree

import pytest

import tinytensor as tt
from tinytensor import nn


def graph_of(model, width=8):
    with tt.record() as graph:
        model(tt.ones((2, 3, width)))
    return graph


def layer(width=8, **options):
    return nn.TransformerEncoderLayer(width, 2, 16, 0.0, batch_first=True, **options)


def test_a_graph_is_the_same_as_itself():
    found = tt.compare(graph_of(layer()), graph_of(layer()), depth=3)
    assert found.only_a == found.only_b == found.changed == []
    assert len(found.same) > 10


def test_one_more_module_shifts_no_others():
    a = graph_of(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)))
    model = nn.Sequential(nn.Linear(8, 8))
    model.add_module("between", nn.LayerNorm(8))
    model.add_module("1", nn.Linear(8, 8))
    found = tt.compare(a, graph_of(model), fold=False)
    assert found.only_a == []
    assert [(entry.path, entry.what) for entry in found.only_b] == [("between", "LayerNorm")]
    assert found.changed == []


def test_another_size_is_a_change():
    found = tt.compare(graph_of(nn.Sequential(nn.Linear(8, 4))), graph_of(nn.Sequential(nn.Linear(8, 6))))
    assert found.only_a == found.only_b == []
    before, after = next(pair for pair in found.changed if pair[0].what == "Linear")
    assert (before.detail, after.detail) == ("2×3×4, 36 parameters", "2×3×6, 54 parameters")
    assert "~ 0  Linear  2×3×4, 36 parameters -> 2×3×6, 54 parameters" in str(found)


def test_norms_before_and_behind():
    found = tt.compare(graph_of(layer()), graph_of(layer(norm_first=True)))
    assert "Add & Norm" in {entry.what for entry in found.only_a}
    assert {"LayerNorm", "add"} <= {entry.what for entry in found.only_b}
    assert "multi_head" in {entry.what for entry in found.same}
    text = str(found).splitlines()
    assert text[2] == f"{len(found.same)} the same"
    assert sum(line.startswith("- ") for line in text) == len(found.only_a)
    assert sum(line.startswith("+ ") for line in text) == len(found.only_b)


def test_the_picture_has_both_and_marks_what_differs():
    found = tt.compare(graph_of(layer()), graph_of(layer(norm_first=True)))
    picture = found.picture()
    ids = [vertex.id for vertex in picture.vertices]
    assert len(set(ids)) == len(ids)
    assert {end for edge in picture.edges for end in (edge.tail, edge.head)} <= set(ids)
    assert {box.id for box in picture.boxes if box.parent is None} == {"a", "b"}
    marks = [vertex.mark for vertex in picture.vertices]
    assert (marks.count("minus"), marks.count("plus")) == (len(found.only_a), len(found.only_b))
    assert {v.id[0] for v in picture.vertices if v.mark == "minus"} == {"a"}


@pytest.mark.parametrize("suffix", ["svg", "dot", "txt", "png"])
def test_it_is_saved(tmp_path, suffix):
    found = tt.compare(graph_of(nn.Sequential(nn.Linear(8, 4))), graph_of(nn.Sequential(nn.Linear(8, 4), nn.Tanh())))
    found.save(tmp_path / f"difference.{suffix}")
    content = (tmp_path / f"difference.{suffix}").read_bytes()
    assert content
    if suffix == "svg":
        words = [
            "".join(t.itertext()) for t in ElementTree.fromstring(content).iter("{http://www.w3.org/2000/svg}text")
        ]
        assert "+ Tanh" in words


def test_what_cannot_be_compared_or_saved_is_told(tmp_path):
    graph = graph_of(nn.Linear(8, 4))
    with pytest.raises(TypeError, match=r"compare: b is a Linear; expected a graph"):
        tt.compare(graph, nn.Linear(8, 4))
    with pytest.raises(ValueError, match=r"ends in '\.html'; expected one of"):
        tt.compare(graph, graph).save(tmp_path / "difference.html")
    with pytest.raises(ValueError, match="there is no option 'deep'"):
        tt.compare(graph, graph, deep=3)
