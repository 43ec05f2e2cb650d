"""The time line of ops: bars that lie in each other as modules do, sums that are those of the ops."""

import itertools
import math
import xml.etree.ElementTree as ElementTree

import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.graph import Timeline

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def graph():
    tt.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    with tt.record() as found:
        loss = (model(tt.random.randn(2, 5, 8)) ** 2).sum()
    loss.backward()
    return found


def test_ops_follow_each_other_and_add_up(graph):
    line = graph.timeline()
    assert isinstance(line, Timeline)
    for backward, whole, start in ((False, line.forward, 0.0), (True, line.backward, line.forward)):
        bars = [bar for bar in line.bars if bar.kind == "op" and bar.backward == backward]
        assert math.isclose(sum(bar.seconds for bar in bars), whole)
        assert math.isclose(bars[0].begin, start)
        assert all(math.isclose(one.end, other.begin) for one, other in itertools.pairwise(bars))
    assert math.isclose(line.forward, sum(op.seconds for op in graph.ops))
    assert math.isclose(line.backward, sum(op.step.seconds for op in graph.ops if op.step is not None))
    assert [b.id for b in line.bars if b.kind == "op" and not b.backward] == [op.id for op in graph.ops]


def test_turns_stand_in_the_order_in_which_they_ran(graph):
    steps = {op.id: op.step.number for op in graph.ops if op.step is not None}
    turns = [steps[bar.id] for bar in graph.timeline().bars if bar.kind == "op" and bar.backward]
    assert turns == sorted(steps.values())


def test_what_a_module_holds_lies_within_it(graph):
    scopes = {scope.id: scope for scope in graph.scopes}
    line = graph.timeline()
    around = {}
    for bar in line.bars:
        if bar.kind != "op":
            around[bar.backward, bar.id] = bar
            assert bar.depth == len(scopes[bar.id].path) - 1
    assert {bar.id for bar in around.values()} == scopes.keys()
    held = {op.id: op.scope for op in graph.ops} | {scope.id: scope.parent for scope in graph.scopes}
    for bar in line.bars:
        if held[bar.id] is not None:
            outer = around[bar.backward, held[bar.id]]
            assert outer.depth == bar.depth - 1
            assert outer.begin <= bar.begin <= bar.end <= outer.end


def test_without_a_backward_pass_there_is_none():
    with tt.no_grad(), tt.record() as graph:
        tt.exp(tt.ones((3,)))
    line = graph.timeline()
    assert line.backward == 0
    assert not any(bar.backward for bar in line.bars)
    assert "backward" not in line.to_svg()
    assert repr(line).startswith("<time line: forward ")


def test_the_median_of_several_runs(graph):
    line = graph.timeline(repeat=3)
    assert line.forward > 0
    assert [bar.id for bar in line.bars] == [bar.id for bar in graph.timeline().bars]


def test_what_was_not_measured_is_refused():
    x = tt.ones((2,)).requires_grad_()
    with pytest.raises(ValueError, match=r"no time was measured; compute within tt\.record"):
        tt.draw(tt.exp(x)).timeline()


def test_its_faces(graph, tmp_path):
    line = graph.timeline()
    text = str(line)
    assert [word for word in ("by op", "by module", "the slowest") if word in text] == [
        "by op", "by module", "the slowest",
    ]  # fmt: skip
    assert sum("linear, 8 ops" in row for row in text.splitlines()) == 1
    line.save(tmp_path / "line.svg")
    root = ElementTree.fromstring((tmp_path / "line.svg").read_bytes())
    rows = {}
    for bar in root.iter(f"{SVG}rect"):
        title = bar.findtext(f"{SVG}title")
        if title is not None:
            rows.setdefault(float(bar.get("y")), []).append((float(bar.get("x")), float(bar.get("width")), title))
    assert len(rows) >= 4
    for bars in rows.values():
        bars.sort()
        assert all(x + width <= after + 0.02 for (x, width, _), (after, _, _) in itertools.pairwise(bars))
    titles = [title for bars in rows.values() for _, _, title in bars]
    assert any(title.startswith("layers.0 (TransformerEncoderLayer): ") for title in titles)
    assert any(title.startswith("gradient of ") for title in titles)
    assert all(title.endswith(" %") for title in titles)
