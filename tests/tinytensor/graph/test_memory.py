"""Memory over time: what is said to be alive is what is alive."""

import os
import tracemalloc
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import engine, nn
from tinytensor.backend import for_array
from tinytensor.engine import reachable
from tinytensor.graph import Memory
from tinytensor.graph.charts import grouping


def encoder(dropout=0.1, batch=4):
    tt.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=dropout, batch_first=True)
    return nn.TransformerEncoder(layer, 2), tt.random.randn(batch, 16, 32)


def loss_of(model, x):
    tt.manual_seed(1)
    return (model(x) ** 2).mean()


def recorded(model, x, backward=True):
    with tt.record() as graph:
        loss = loss_of(model, x)
    if backward:
        loss.backward()
    return graph


def arrays_of(value):
    if hasattr(value, "dtype"):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from arrays_of(item)


def kept_by(nodes, parameters):
    """Bytes of the arrays that nodes keep, each memory once."""
    found = {}
    for node in nodes:
        for array in arrays_of([*(node.kept or {}).values(), *(node.residuals or ())]):
            storage = for_array(array).storage(array)
            if storage not in parameters:
                found[storage] = max(found.get(storage, 0), array.nbytes)
    return sum(found.values())


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_what_is_kept_is_what_the_nodes_keep(monkeypatch, dropout):
    """In a run that nothing records: before the turn of each op in the backward pass, as it was after that before."""
    model, x = encoder(dropout)
    loss = loss_of(model, x)
    nodes = [node for node in reachable([loss._node]) if node.op is not None]
    parameters = {for_array(p._data).storage(p._data) for p in model.parameters()}
    found = []
    vjp = engine.op_vjp

    def watched(*arguments):
        found.append(kept_by(nodes, parameters))
        return vjp(*arguments)

    monkeypatch.setattr(engine, "op_vjp", watched)
    loss.backward()
    monkeypatch.undo()
    memory = recorded(model, x).memory()
    forward = sum(not moment.backward for moment in memory.moments)
    told = [sum(a.nbytes for a in memory.at(i) if a.kind == "kept") for i in range(forward - 1, len(memory.moments))]
    assert told[:-1] == found
    assert told[-1] == 0


@pytest.mark.skipif(os.environ.get("TINYTENSOR_TEXTBOOK") == "1", reason="formulas hold their steps while they run")
@pytest.mark.usefixtures("no_pool")
def test_totals_are_near_to_what_the_allocator_counts(monkeypatch):
    model, x = encoder(batch=64)  # so large that the objects around the arrays are as nothing
    loss_of(model, x).backward()
    for parameter in model.parameters():
        parameter.grad = None
    counted = []
    vjp = engine.op_vjp
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]

    def watched(*arguments):
        counted.append(tracemalloc.get_traced_memory()[0] - before)
        return vjp(*arguments)

    loss = loss_of(model, x)  # before: what looks `op_vjp` up is computed by formulas once another is in its place
    monkeypatch.setattr(engine, "op_vjp", watched)
    loss.backward()
    counted.append(tracemalloc.get_traced_memory()[0] - before)
    tracemalloc.stop()
    monkeypatch.undo()
    memory = recorded(model, x).memory()
    told = np.array(memory.totals[-len(counted) :])
    assert len(counted) == sum(moment.backward for moment in memory.moments) + 1
    np.testing.assert_allclose(told, counted, rtol=0, atol=0.06 * memory.peak)


def test_inference_keeps_nothing_but_what_is_read_later():
    model, x = encoder(0.0)
    with tt.no_grad(), tt.record() as graph:
        model(x)
    memory = graph.memory()
    assert {array.kind for array in memory.arrays} == {"passing"}
    assert not any(moment.backward for moment in memory.moments)
    assert memory.peak < recorded(model, x).memory().peak / 4


def test_a_backward_pass_that_was_not_run_is_foretold():
    model, x = encoder()
    foretold, told = (recorded(model, x, backward).memory() for backward in (False, True))
    assert foretold.totals == told.totals
    assert str(foretold) == str(told)


def test_by_hand():
    """x (8 bytes) is kept by both; exp's result is the input of the product as well."""
    x = tt.Tensor(np.ones(1), requires_grad=True)
    with tt.record() as graph:
        y = tt.exp(x)
        z = y * y
    z.backward(np.ones(1))
    memory = graph.memory()
    assert [(m.op.name, m.backward) for m in memory.moments] == [
        ("exp", False), ("multiply", False), ("multiply", True), ("exp", True),
    ]  # fmt: skip
    kinds = [sorted((a.kind, a.name, a.nbytes) for a in memory.at(i)) for i in range(4)]
    assert kinds == [
        [("kept", "y", 8)],
        [("kept", "y", 8), ("passing", "z", 8)],
        [("gradient", "y", 8), ("kept", "y", 8), ("passing", "z", 8)],
        [("gradient", "x", 8), ("passing", "z", 8)],
    ]
    assert memory.totals == (8, 16, 24, 16)
    assert (memory.peak, memory.peak_moment) == (24, 2)
    assert repr(memory) == "<memory: at most 24 B, after the gradient of multiply>"


def test_bands_add_up_and_are_few():
    model, x = encoder()
    memory = recorded(model, x).memory()
    assert [sum(column) for column in zip(*memory.bands.values())] == list(memory.totals)
    assert list(memory.bands) == ["layers.0", "layers.1", "outside of modules", "gradients"]
    wide = nn.Sequential(*[nn.Linear(4, 4) for _ in range(12)])
    assert list(recorded(wide, tt.ones((2, 4))).memory().bands)[-2:] == ["7 others", "gradients"]


def test_groups_are_as_far_out_as_they_tell_something():
    group = grouping([(("M", "a"), 1), (("M", "b", "x"), 3), (("M", "b", "y"), 3)])
    assert [group(path) for path in [("M", "a"), ("M", "b", "x"), ("M", "b", "y", "z"), ("M",), ()]] == [
        "a", "b.x", "b.y", "M", "outside of modules",
    ]  # fmt: skip


def test_its_faces(tmp_path):
    model, x = encoder()
    memory = recorded(model, x).memory()
    assert isinstance(memory, Memory)
    text = str(memory)
    assert "at most" in text.splitlines()[0]
    assert sum("█" in line for line in text.splitlines()) >= 20
    for suffix in ("svg", "txt"):
        memory.save(tmp_path / f"one.{suffix}")
        recorded(model, x).memory().save(tmp_path / f"two.{suffix}")
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()
    root = ElementTree.fromstring((tmp_path / "one.svg").read_bytes())
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == "Memory over time"
    assert [title.partition(":")[0] for title in titles[1:]] == [f"{i + 1} {n}" for i, n in enumerate(memory.bands)]
    assert any(t.text and t.text.startswith("peak ") for t in root.iter("{http://www.w3.org/2000/svg}text"))
    assert {"text/html", "text/plain"} <= memory._repr_mimebundle_().keys()


def test_mistakes_are_named(tmp_path):
    with tt.record() as empty:
        pass
    with pytest.raises(ValueError, match="nothing was computed"):
        empty.memory()
    model, x = encoder()
    with pytest.raises(ValueError, match=r"ends in '\.png'; expected \.svg or \.txt"):
        recorded(model, x).memory().save(tmp_path / "memory.png")


def test_what_is_kept_is_told_after_the_backward_pass_as_before():
    model, x = encoder()
    before, after = (recorded(model, x, backward) for backward in (False, True))
    assert [op.saved for op in before.ops] == [op.saved for op in after.ops]


def test_a_checkpoint_keeps_less():
    """It holds its inputs; its own arrays are computed again and live in the backward pass alone."""
    peaks = {}
    for kept in (True, False):
        tt.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)) for _ in range(6)]
        x = tt.random.randn(64, 16)
        with tt.record() as graph:
            for layer in layers:
                x = layer(x) if kept else nn.utils.checkpoint(layer, x)
            loss = (x * x).sum()
        before = graph.memory().peak
        loss.backward()
        peaks[kept] = before, graph.memory().peak
        assert ("18 ops computed again in the backward pass" in graph.description()) == (not kept)
        assert ("computed again in the backward pass" in graph.to_text(saved=True)) == (not kept)
    assert max(peaks[False]) < 0.5 * min(peaks[True])
