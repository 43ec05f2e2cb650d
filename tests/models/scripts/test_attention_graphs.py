"""What is drawn computes what the library's own modules compute."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import recurrent
from tinytensor.models.scripts import attention_graphs
from tinytensor.models.scripts.attention_graphs import GRAPHS, BahdanauDecoder, HeadByHead, LuongDecoder

D_MODEL = 8


@pytest.fixture(autouse=True)
def _seed():
    tt.random.manual_seed(0)


def normal(*shape):
    return tt.random.normal(shape, dtype=tt.float64)


def close(found, expected):
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=0, atol=1e-12)


def test_head_by_head_is_multi_head_attention():
    model = HeadByHead(D_MODEL, 2).double()
    layer = nn.MultiheadAttention(D_MODEL, 2, bias=False, batch_first=True).double()
    weights = [tt.concat([getattr(head, kind) for head in model.head], axis=1).mT for kind in ("W_Q", "W_K", "W_V")]
    with tt.no_grad():
        layer.in_proj_weight.copy_(tt.concat(weights))
        layer.out_proj.weight.copy_(model.W_O.mT)
    X = normal(5, D_MODEL)
    close(model(X), layer(X, X, X)[0])


def test_multi_head_attention_is_drawn_from_its_parts():
    """So that a film of it, which shows what ran, has softmax and not one closed box."""
    graph = attention_graphs.multihead()
    names = [op.name for op in graph.ops]
    assert (names.count("softmax"), names.count("matmul")) == (1, 6)
    assert not {"left", "right"} & {edge.operand for edge in graph.picture().edges}


def test_multi_head_attention_from_its_parts_is_the_layer():
    """By the gradients that reach each matrix."""
    found = {value.name: value.gradient for value in attention_graphs.multihead().values if value.gradient}
    layer = nn.MultiheadAttention(64, 4, bias=False, batch_first=True)
    tt.random.manual_seed(0)
    x, *matrices = tt.random.normal((2, 6, 64)), *(tt.random.normal((64, 64)) / 8 for _ in range(4))
    with tt.no_grad():
        layer.in_proj_weight.copy_(tt.concat([W.mT for W in matrices[:3]]))
        layer.out_proj.weight.copy_(matrices[3].mT)
    out = layer(x, x, x, attn_mask=nn.functional.causal_mask(6), need_weights=False)[0]
    gradient = tt.random.normal(out.shape)
    out.backward(gradient / tt.linalg.vector_norm(gradient))
    expected = [*tt.split(layer.in_proj_weight.grad, 3), layer.out_proj.weight.grad]
    for name, grad in zip(("W_Q", "W_K", "W_V", "W_O"), expected):
        assert found[name].norm == pytest.approx(float(tt.linalg.vector_norm(grad)), rel=1e-4)


@pytest.mark.parametrize("draw", [attention_graphs.multihead, attention_graphs.head])
def test_a_film_steps_through_softmax(draw, tmp_path):
    draw().player(tmp_path / "film.html")
    assert "softmax" in (tmp_path / "film.html").read_text(encoding="utf-8").partition('"steps":')[2]


def library(drawn, made, bridge):
    """The library's decoder with the weights of one that is drawn, and the bias of its beginning 0."""
    with tt.no_grad():
        made.bridge.weight.copy_(bridge.mT)
        made.bridge.bias.copy_(tt.zeros_like(made.bridge.bias))
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(made.recurrent, f"{kind}_l0").copy_(getattr(drawn.decoder, kind))
    return made


def steps(drawn, made, x, target):
    """What the library's decoder gives, step by step, and its states."""
    memory = tt.expand_dims(drawn.encoder(x)[0], axis=0)
    state = made.start(memory, tt.zeros((1, len(x)), dtype=tt.bool))
    features, hidden = [], []
    for y in tt.split(target, len(target)):
        found, state = made.step(tt.expand_dims(y, axis=0), state)
        features.append(found[0])
        hidden.append(state.hidden[0, 0])
    return tt.concat(features), tt.concat(hidden)


def test_bahdanaus_decoder_is_that_of_the_models():
    drawn = BahdanauDecoder(D_MODEL).double()
    made = recurrent.BahdanauDecoder(recurrent.AdditiveAttention(D_MODEL), D_MODEL, 1, 0.0).double()
    with tt.no_grad():
        made.attention.query.weight.copy_(drawn.attention.W.mT)
        made.attention.memory.weight.copy_(drawn.U.mT)
        made.attention.energy.weight.copy_(drawn.attention.v.mT)
    x, target = normal(5, D_MODEL), normal(3, D_MODEL)
    close(drawn(x, target), steps(drawn, library(drawn, made, drawn.W_s), x, target)[1])


def test_luongs_decoder_is_that_of_the_models():
    drawn = LuongDecoder(D_MODEL).double()
    made = recurrent.LuongDecoder(recurrent.GeneralAttention(D_MODEL), D_MODEL, 1, 0.0).double()
    with tt.no_grad():
        made.attention.memory.weight.copy_(drawn.attention.W_a)
        made.combine.weight.copy_(drawn.W_c.mT)
    x, target = normal(5, D_MODEL), normal(3, D_MODEL)
    close(drawn(x, target), steps(drawn, library(drawn, made, drawn.W_0), x, target)[0])


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_has_its_gradients(tmp_path, name):
    """So that it can be played, and coloured by them."""
    graph = GRAPHS[name]()
    assert graph.title
    graph.player(tmp_path / "film.html")
    graph.save(tmp_path / "heat.dot", heat="grad")
    assert "heat" in (tmp_path / "heat.dot").read_text(encoding="utf-8")


@pytest.mark.parametrize(("steps", "more"), [(1, 0), (4, 3)])
def test_as_many_steps_as_are_asked_for(steps, more):
    for make in (attention_graphs.bahdanau, attention_graphs.luong):
        names = [scope.name for scope in make(d_model=D_MODEL, steps=steps).scopes]
        assert [name for name in names if name.startswith("step")] == [f"step {i + 1}" for i in range(1 + more)]
