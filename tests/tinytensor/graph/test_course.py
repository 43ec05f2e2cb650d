"""Memory and time over the course of a computation."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn


def recorded(backward=True):
    x = tt.tensor(np.ones((4, 3)), requires_grad=True)
    with tt.record() as graph:
        hidden = tt.exp(x)  # keeps its result, 96 bytes
        other = tt.sin(hidden)  # keeps its input, the same memory
        total = tt.sum(other * other)  # keeps `other`, 96 more
    if backward:
        total.backward()
    return graph


def test_memory_grows_forward_and_is_given_back_backward():
    moments = recorded().memory().moments
    assert [(m.op, m.backward, m.alive) for m in moments] == [
        ("exp", False, 96),
        ("sin", False, 96),
        ("multiply", False, 192),
        ("sum", False, 192),
        ("sum", True, 192),
        ("multiply", True, 96),
        ("sin", True, 96),
        ("exp", True, 0),
    ]


def test_before_a_backward_pass_the_order_is_the_other_way_round():
    before, after = (recorded(backward).memory().moments for backward in (False, True))
    assert [m[:4] for m in before] == [m[:4] for m in after]


def test_the_peak_is_what_a_graph_says_it_keeps():
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    with tt.record() as graph:
        tt.sum(model(tt.ones((5, 3)))).backward()
    memory = graph.memory()
    (note,) = graph.picture(saved=True).notes
    assert str(memory).startswith(f"peak: {note.partition(': ')[2].partition(' in ')[0]} after ")
    assert memory.moments[-1].alive == 0
    assert any(m.module == "Sequential.1" for m in memory.moments)


def test_time_is_what_was_measured():
    graph = recorded()
    moments = graph.timeline().moments
    assert [m.seconds for m in moments if not m.backward] == [op.seconds for op in graph.ops]
    ran = sorted((op for op in graph.ops), key=lambda op: op.step.number)
    assert [m.seconds for m in moments if m.backward] == [op.step.seconds for op in ran]
    text = str(graph.timeline())
    assert " in 8 turns" in text
    assert "%" in text


@pytest.mark.parametrize("kind", ["memory", "timeline"])
def test_pictures_have_a_bar_for_each_turn(tmp_path, kind):
    course = getattr(recorded(), kind)()
    course.save(tmp_path / "course.svg")
    root = ElementTree.parse(tmp_path / "course.svg").getroot()
    bars = [r for r in root.iter("{http://www.w3.org/2000/svg}rect") if len(r)]
    assert len(bars) == 8
    assert bars[0][0].text.startswith("exp: ")
    assert bars[-1][0].text.startswith("backward of exp: ")
    course.save(tmp_path / "course.txt")
    assert (tmp_path / "course.txt").read_text(encoding="utf-8") == f"{course}\n"
    with pytest.raises(ValueError, match=r"ends in '\.png'; expected \.svg or \.txt"):
        course.save(tmp_path / "course.png")


def test_nothing_has_no_course():
    with tt.record() as graph:
        pass
    with pytest.raises(ValueError, match="nothing was computed"):
        graph.memory()


def test_what_fast_pairs_put_aside_counts_after_backward_too():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = tt.ones((2, 3, 4))
    with tt.record() as graph:
        total = tt.sum(layer(x, x, x, need_weights=False)[0])
    before = graph.memory()
    total.backward()
    assert graph.memory().peak.alive == before.peak.alive
    assert before.peak.alive > 2 * 2 * 3 * 3 * 4  # the weights of two heads alone
