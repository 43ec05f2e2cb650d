"""The recurrent translators: what sees what, the papers' equations, decoding, attention weights, errors, learning."""

import contextlib

import numpy as np
import pytest

import tinytensor as tt
from tests.marks import slow_after
from tinytensor import nn
from tinytensor.models.decoding import Recomputed, beam_search, greedy
from tinytensor.models.recurrent import (
    ATTENTIONS,
    AdditiveAttention,
    DotAttention,
    GeneralAttention,
    LocalAttention,
    Seq2Seq,
)
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

PAD, BOS, EOS = 0, 1, 2
VOCABULARY = 11
D_MODEL = 8
CLOSE = {"rtol": 0, "atol": 1e-10}
KINDS = (*ATTENTIONS, None)
WINDOW = 2


def make(attention="bahdanau", device="cpu", **options):
    """A tiny model in float64, with random biases too, so that nothing is right by being zero."""
    tt.random.manual_seed(0)
    sizes = {"d_model": D_MODEL, "num_layers": 2, "dropout": 0.0, "max_length": 12, "window": WINDOW}
    model = Seq2Seq(VOCABULARY, attention=attention, **{**sizes, **options}).double().to(device)
    with tt.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter + 0.3 * tt.random.normal(parameter.shape, dtype=tt.float64, device=device))
    return model.eval()


def ids(*shape, seed=0):
    """Ids that are neither padding, begin nor end."""
    return np.random.default_rng(seed).integers(3, VOCABULARY, shape)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def always(model, token):
    """Make a model say the same token everywhere."""
    with tt.no_grad():
        model.projection.weight.copy_(tt.zeros_like(model.projection.weight))
        model.projection.bias[:] = 0.0
        model.projection.bias[token] = 1.0
    return model


# ---- what comes out


@pytest.mark.parametrize("kind", KINDS)
def test_logits_have_a_row_for_every_target_position(kind, device):
    logits = make(kind, device)(ids(3, 5), ids(3, 7))
    assert logits.shape == (3, 7, VOCABULARY)
    assert logits.dtype is tt.float64
    assert logits.device == device
    assert np.isfinite(logits.numpy()).all()


@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_the_default(kind):
    model = Seq2Seq(VOCABULARY, 6, attention=kind, d_model=D_MODEL)
    logits = model(ids(2, 3), ids(2, 4) % 6)
    assert logits.shape == (2, 4, 6)
    logits.sum().backward()
    assert {logits.dtype} == {parameter.grad.dtype for parameter in model.parameters()} == {tt.float32}


def test_memory_is_the_two_directions_side_by_side_and_zero_at_padding(device):
    model = make(device=device, num_layers=1)
    source = ids(2, 5)
    source[1, 3:] = PAD
    memory, padding = model.encode(source)
    assert memory.shape == (2, 5, D_MODEL)
    np.testing.assert_array_equal(padding.numpy(), source == PAD)
    np.testing.assert_array_equal(memory.numpy()[1, 3:], 0.0)
    embedded = model.source_embedding.weight[tt.asarray(source, device=device)] * np.sqrt(D_MODEL)
    for row, length in ((0, 5), (1, 3)):
        expected, _ = model.encoder(embedded[row, :length])
        np.testing.assert_allclose(memory.numpy()[row, :length], expected.numpy(), **CLOSE)


# ---- who sees what


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_after_a_position_changes_its_logits(kind, device):
    model = make(kind, device)
    source, target = ids(2, 4), ids(2, 6)
    before = model(source, target).numpy()
    for position in range(5):
        changed = target.copy()
        changed[:, position + 1 :] = ids(2, 6, seed=1)[:, position + 1 :]
        changed[0, -1] = PAD
        after = model(source, changed).numpy()
        np.testing.assert_allclose(after[:, : position + 1], before[:, : position + 1], **CLOSE)
        assert np.abs(after[:, position + 1 :] - before[:, position + 1 :]).max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_every_logit_depends_on_all_of_its_prefix_and_of_the_source(kind):
    model = make(kind, window=10)
    source, target = ids(1, 4), ids(1, 5)
    before = model(source, target).numpy()
    for given, place, first in [*(("target", t, t) for t in range(5)), *(("source", s, 0) for s in range(4))]:
        changed = {"source": source.copy(), "target": target.copy()}
        changed[given][0, place] = 3 + (changed[given][0, place] - 2) % (VOCABULARY - 3)
        moved = np.abs(model(**changed).numpy() - before)[0].max(axis=-1)
        assert (moved[first:] > 1e-7).all(), (given, place)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind, device):
    """More of it, and what its embedding is."""
    model = make(kind, device)
    source, target = ids(2, 4), ids(2, 5)
    before = model(source, target).numpy()
    padded = (np.pad(source, ((0, 0), (0, 3))), np.pad(target, ((0, 0), (0, 2))))
    np.testing.assert_allclose(model(*padded).numpy()[:, :5], before, **CLOSE)
    with tt.no_grad():
        model.source_embedding.weight[PAD] = 50.0
        model.target_embedding.weight[PAD] = -50.0
    np.testing.assert_allclose(model(*padded).numpy()[:, :5], before, **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_one_at_a_time_or_in_a_batch_is_the_same(kind, device):
    model = make(kind, device)
    lengths = [(2, 5), (6, 1), (4, 4), (1, 3)]
    rows = [(ids(1, s, seed=s), ids(1, t, seed=t)) for s, t in lengths]
    source = np.concatenate([np.pad(s, ((0, 0), (0, 6 - s.shape[1]))) for s, _ in rows])
    target = np.concatenate([np.pad(t, ((0, 0), (0, 5 - t.shape[1]))) for _, t in rows])
    together = model(source, target).numpy()
    for i, (s, t) in enumerate(rows):
        np.testing.assert_allclose(together[i, : t.shape[1]], model(s, t).numpy()[0], **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_of_padding_alone_gives_finite_logits_and_gradients_and_disturbs_no_other(kind):
    model = make(kind)
    source, target = ids(2, 4), ids(2, 3)
    alone = model(source[:1], target[:1]).numpy()
    source[1] = PAD
    logits = model(source, target)
    np.testing.assert_allclose(logits.numpy()[:1], alone, **CLOSE)
    logits.sum().backward()
    for name, parameter in model.named_parameters():
        assert np.isfinite(parameter.grad.numpy()).all(), name


@pytest.mark.parametrize("kind", KINDS)
def test_padding_has_no_gradient(kind):
    model = make(kind)
    source, target = np.pad(ids(2, 4), ((0, 0), (0, 2))), np.pad(ids(2, 5), ((0, 0), (0, 2)))
    loss = F.cross_entropy(model(source, target).reshape(-1, VOCABULARY), target.reshape(-1), ignore_index=PAD)
    loss.backward()
    for embedding in (model.source_embedding, model.target_embedding):
        np.testing.assert_array_equal(embedding.weight.grad.numpy()[PAD], 0.0)
        assert np.abs(embedding.weight.grad.numpy()).max() > 0


# ---- the papers' equations, in NumPy

BATCH, QUERIES, SOURCE = 2, 3, 5
PADDING = np.array([[False] * 5, [False, False, False, True, True]])


def softmax(scores, visible):
    e = np.where(visible, np.exp(scores), 0.0)
    return e / e.sum(axis=-1, keepdims=True)


def weights_of(attention, query, memory):
    query, memory, padding = (tt.asarray(x) for x in (query, memory, PADDING))
    return attention(query, attention.keys(memory), padding).numpy()


def test_scores_of_each_attention():
    """Bahdanau et al. 2014, appendix A.1.2; Luong et al. 2015, equations 7 and 8."""
    tt.random.manual_seed(0)
    query, memory = normal(BATCH, QUERIES, D_MODEL), normal(BATCH, SOURCE, D_MODEL, seed=1)
    general, additive = GeneralAttention(D_MODEL).double(), AdditiveAttention(D_MODEL).double()
    w_a, v = general.memory.weight.numpy(), additive.energy.weight.numpy()[0]
    # W_a [h_t; h_s], with W_a made of W and U
    both = np.concatenate([additive.query.weight.numpy(), additive.memory.weight.numpy()], axis=1)
    expected = {name: np.zeros((BATCH, QUERIES, SOURCE)) for name in ("dot", "general", "additive")}
    for b, t, s in np.ndindex(BATCH, QUERIES, SOURCE):
        expected["dot"][b, t, s] = query[b, t] @ memory[b, s]
        expected["general"][b, t, s] = query[b, t] @ w_a @ memory[b, s]
        expected["additive"][b, t, s] = v @ np.tanh(both @ np.concatenate([query[b, t], memory[b, s]]))
    for name, attention in (("dot", DotAttention()), ("general", general), ("additive", additive)):
        found = weights_of(attention, query, memory)
        np.testing.assert_allclose(found, softmax(expected[name], ~PADDING[:, None]), err_msg=name, **CLOSE)
        np.testing.assert_array_equal(found[1, :, 3:], 0.0)


@pytest.mark.parametrize("window", [1, 2, 10])
def test_local_attention_is_a_gaussian_window_around_a_predicted_position(window):
    """Luong et al. 2015, equations 9 and 10."""
    tt.random.manual_seed(0)
    attention = LocalAttention(D_MODEL, window).double()
    query, memory = 3 * normal(BATCH, QUERIES, D_MODEL), normal(BATCH, SOURCE, D_MODEL, seed=1)
    w_a, w_p, v_p = (m.weight.numpy() for m in (attention.memory, attention.place, attention.centre))
    expected = np.zeros((BATCH, QUERIES, SOURCE))
    for b, length in enumerate((5, 3)):
        for t in range(QUERIES):
            p = length / (1 + np.exp(-v_p[0] @ np.tanh(w_p @ query[b, t])))
            s = np.arange(1, length + 1)
            align = softmax(memory[b, :length] @ w_a.T @ query[b, t], np.abs(s - p) <= window)
            expected[b, t, :length] = align * np.exp(-((s - p) ** 2) / (2 * (window / 2) ** 2))
    found = weights_of(attention, query, memory)
    np.testing.assert_allclose(found, expected, **CLOSE)
    assert (found[0] == 0).any() == (window < 10)
    assert (found.sum(axis=-1) < 1).all()


def gru(cell, x, h):
    """One step of PyTorch's GRU, from the parameters of an nn.GRU of one layer."""
    w_ih, w_hh, b_ih, b_hh = (p.numpy() for p in cell.parameters())
    (x_r, x_z, x_n), (h_r, h_z, h_n) = np.split(w_ih @ x + b_ih, 3), np.split(w_hh @ h + b_hh, 3)
    r, z = 1 / (1 + np.exp(-(x_r + h_r))), 1 / (1 + np.exp(-(x_z + h_z)))
    return (1 - z) * np.tanh(x_n + r * h_n) + z * h


def affine(linear, x):
    return linear.weight.numpy() @ x + (0 if linear.bias is None else linear.bias.numpy())


@pytest.mark.parametrize("kind", ["bahdanau", "dot", None])
def test_decoders_step_by_step(kind):
    model = make(kind, num_layers=1)
    source, target = ids(1, 4), ids(1, 3)
    memory = model.encode(source)[0].numpy()[0]
    half = D_MODEL // 2
    ends = memory[0, half:] if kind == "bahdanau" else np.concatenate([memory[-1, :half], memory[0, half:]])
    decoder, s = model.decoder, np.tanh(affine(model.decoder.bridge, ends))
    fed, logits = np.zeros(D_MODEL), []
    for y in model.target_embedding.weight.numpy()[target[0]] * np.sqrt(D_MODEL):
        if kind == "bahdanau":
            attention = decoder.attention
            inner = np.tanh(affine(attention.query, s) + memory @ attention.memory.weight.numpy().T)
            context = softmax(inner @ attention.energy.weight.numpy()[0], True) @ memory
            s = gru(decoder.recurrent, np.concatenate([y, context]), s)
            pairs = affine(decoder.readout, np.concatenate([s, y, context]))
            out = np.maximum(pairs[::2], pairs[1::2])
        elif kind == "dot":
            s = gru(decoder.recurrent, np.concatenate([y, fed]), s)
            context = softmax(memory @ s, True) @ memory
            out = fed = np.tanh(affine(decoder.combine, np.concatenate([context, s])))
        else:
            out = s = gru(decoder.recurrent, y, s)
        logits.append(affine(model.projection, out))
    np.testing.assert_allclose(model(source, target).numpy()[0], logits, **CLOSE)


# ---- attention weights


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_cross_attention_is_over_the_source_without_its_padding(kind, device):
    model = make(kind, device)
    source = ids(2, 6)
    source[1, 4:] = PAD
    (weights,) = model.cross_attention(source, ids(2, 5))
    assert weights.shape == (2, 1, 5, 6)
    assert weights.device == device
    np.testing.assert_array_equal(weights.numpy()[1, :, :, 4:], 0.0)
    if kind == "local-p":
        assert (weights.numpy().sum(axis=-1) <= 1).all()
        assert (weights.numpy().sum(axis=-1) > 0).all()
    else:
        np.testing.assert_allclose(weights.numpy().sum(axis=-1), 1.0, **CLOSE)
        assert (weights.numpy()[0] > 0).all()


def test_a_model_without_attention_has_no_weights():
    assert make(None).cross_attention(ids(2, 3), ids(2, 4)) == []


def test_cross_attention_leaves_the_model_as_it_was():
    model = make(dropout=0.3).train()
    first, second = (model.cross_attention(ids(2, 3), ids(2, 4))[0] for _ in range(2))
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    assert not first.requires_grad
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("textbook", [False, True])
@pytest.mark.parametrize("kind", ATTENTIONS)
def test_a_recording_sees_one_call_for_the_whole_sequence(kind, textbook, device):
    model = make(kind, device)
    source, target = ids(2, 6), ids(2, 5)
    source[1, 4:] = PAD
    with nn.record_attention() as attention, tt.textbook() if textbook else contextlib.nullcontext():
        recorded = model(source, target)
    np.testing.assert_allclose(recorded.numpy(), model(source, target).numpy(), **CLOSE)
    (call,) = attention.cross
    assert (call.kind, call.path, repr(attention)) == ("cross", "decoder", "<attention: 1 calls, layers: 1 cross>")
    (weights,) = model.cross_attention(source, target)
    np.testing.assert_allclose(call.weights, weights.numpy(), **CLOSE)
    np.testing.assert_array_equal(call.hidden, np.broadcast_to((source == PAD)[:, None, None], call.weights.shape))
    assert call.value.shape == (2, 1, 6, D_MODEL)
    if kind in ("dot", "general"):
        scores = np.where(call.hidden, -np.inf, call.query @ call.key.swapaxes(-1, -2) * call.scale)
        np.testing.assert_allclose(call.weights, softmax(scores, True), **CLOSE)
    else:
        assert call.query is call.key is call.scale is None


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_pictures_draw_what_was_recorded(kind):
    model = make(kind)
    source, target = ids(1, 4), ids(1, 3)
    with nn.record_attention() as attention:
        model(source, target)
    keys, queries = ["a", "b", "c", "d"], ["x", "y", "z"]
    for draw in (visualize.attention_lines, visualize.attention_grid):
        assert ">z</text>" in str(draw(attention, keys, queries))
    page = visualize.attention_explorer(attention, keys, queries).data
    assert page["views"][0]["layers"][0]["heads"] == np.rint(attention.cross[0].weights[0] * 10_000).tolist()
    if kind in ("dot", "general"):
        steps = visualize.attention_steps(attention.cross[0], source=keys, target=queries, token=1)
        assert f"the largest weight, {attention.cross[0].weights[0, 0, 1].max():.2f}, goes to" in str(steps)
    else:
        with pytest.raises(ValueError, match="no softmax of products of queries and keys"):
            visualize.attention_steps(attention.cross[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_recording_changes_no_answer_and_sees_whole_sequences_of_generate(kind):
    model = make(kind)
    source = ids(1, 5)
    expected = model.generate(source, 6).numpy()
    with nn.record_attention() as attention:
        np.testing.assert_array_equal(model.generate(source, 6).numpy(), expected)
    if kind is None:
        assert not attention.calls
    else:
        assert attention.cross[0].weights.shape[2] == expected.shape[1]
        given = np.concatenate([[[BOS]], expected[:, :-1]], axis=1)
        np.testing.assert_allclose(attention.cross[0].weights, model.cross_attention(source, given)[0], **CLOSE)


def test_a_recording_sees_the_steps_of_beam_search():
    model = make()
    with nn.record_attention() as attention:
        beam_search(model, ids(2, 5), beam=3, max_length=4)
    assert [call.kind for call in attention.calls] == ["cross"] * 4
    assert [call.weights.shape for call in attention.calls] == [(2, 1, 1, 5)] + [(2, 1, 3, 5)] * 3


# ---- decoding


@pytest.mark.parametrize("kind", KINDS)
def test_steps_give_what_teacher_forcing_gives(kind, device):
    """Also after sentences and branches changed their places."""
    model = make(kind, device)
    source, target = ids(3, 5), ids(3, 2, 4)
    source[1, 3:] = PAD
    expected = np.stack([model(source, target[:, branch]).numpy() for branch in range(2)], axis=1)
    state = model.initial_state(tt.asarray(source, device=device))
    sentences, branches = np.arange(3), np.zeros((3, 2), dtype=np.int64)
    state = model.reorder(state, *(tt.asarray(x, device=device) for x in (sentences, branches)))
    order, own = sentences, np.array([[0, 1]] * 3)
    for t in range(4):
        given = target[order[:, None], own, t]
        logits, state = model.next_logits(tt.asarray(given, device=device), state)
        np.testing.assert_allclose(logits.numpy(), expected[order[:, None], own, t], **CLOSE)
        if t == 1:
            sentences, branches = np.array([2, 0]), np.array([[1, 0], [1, 1]])
            state = model.reorder(state, *(tt.asarray(x, device=device) for x in (sentences, branches)))
            order, own = order[sentences], own[sentences[:, None], branches]


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_by_steps_is_decoding_anew(kind):
    model = make(kind)
    source = ids(4, 5)
    source[1, 3:] = PAD
    anew = Recomputed(model)
    found, expected = (
        [greedy(m, source, max_length=6), *beam_search(m, source, beam=3, max_length=6)] for m in (model, anew)
    )
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        for a, b in zip(ours, theirs):
            np.testing.assert_allclose(a.log_probabilities, b.log_probabilities, **CLOSE)


def test_generate_is_greedy_and_pads_after_eos(device):
    model = make(device=device)
    source = ids(4, 4)
    generated = model.generate(source, max_length=6)
    assert generated.dtype is tt.int64
    assert generated.device == device
    prefix = np.full((4, 1), BOS)
    for _ in range(6):
        logits = model(source, prefix).numpy()[:, -1].copy()
        logits[:, PAD] = -np.inf
        prefix = np.concatenate([prefix, logits.argmax(axis=-1)[:, None]], axis=1)
    expected = prefix[:, 1:]
    ended = np.cumsum(expected == EOS, axis=1) - (expected == EOS) > 0
    expected = np.where(ended, PAD, expected)[:, : generated.shape[1]]
    np.testing.assert_array_equal(generated.numpy(), expected)


def test_generate_ends_at_eos_and_at_the_limit(device):
    assert always(make(device=device), EOS).generate(ids(3, 4)).tolist() == [[EOS]] * 3
    model = always(make(device=device), 5)
    assert model.generate(ids(2, 3), max_length=4).tolist() == [[5] * 4] * 2
    assert model.generate(ids(2, 3)).shape == (2, model.max_length)


def test_generate_turns_dropout_off_and_the_mode_back_on():
    model = make(dropout=0.5)
    expected = model.generate(ids(2, 4), max_length=6).numpy()
    model.train()
    for _ in range(3):
        np.testing.assert_array_equal(model.generate(ids(2, 4), max_length=6).numpy(), expected)
    assert all(module.training for module in model.modules())


# ---- weights


@pytest.mark.parametrize("options", [{}, {"tie_weights": True}, {"tie_weights": True, "share_embeddings": True}])
def test_weights_can_be_shared(options):
    model = make(**options)
    assert (model.projection.weight is model.target_embedding.weight) == ("tie_weights" in options)
    assert (model.source_embedding is model.target_embedding) == ("share_embeddings" in options)
    names = [name for name, _ in model.named_parameters()]
    assert ("projection.weight" in names) == ("tie_weights" not in options)
    other = make(**options)
    with tt.no_grad():
        for parameter in other.parameters():
            parameter.copy_(parameter * 2 + 1)
    assert other.load_state_dict(model.state_dict()) == ([], [])
    np.testing.assert_array_equal(other(ids(2, 3), ids(2, 4)).numpy(), model(ids(2, 3), ids(2, 4)).numpy())


def test_embeddings_start_with_variance_one_after_scaling():
    tt.random.manual_seed(0)
    model = Seq2Seq(2000, d_model=64, dropout=0.0)
    for embedding in (model.source_embedding, model.target_embedding):
        assert model.embed(embedding, tt.arange(3, 2000)).numpy().std() == pytest.approx(1.0, abs=0.02)
        np.testing.assert_array_equal(embedding.weight.numpy()[PAD], 0.0)


def test_dropout_acts_in_training_and_repeats_with_the_seed():
    model = make(dropout=0.5).train()
    source, target = ids(2, 4), ids(2, 4)
    tt.random.manual_seed(3)
    first, second = model(source, target).numpy(), model(source, target).numpy()
    assert np.abs(first - second).max() > 1e-3
    tt.random.manual_seed(3)
    np.testing.assert_array_equal(model(source, target).numpy(), first)


# ---- errors


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (np.ones((2, 3)), r"integer ids \(batch, length\), got float64 of shape \(2, 3\)"),
        (np.ones((2, 3), bool), "got bool"),
        (np.ones(3, np.int64), r"got int64 of shape \(3,\)"),
        (np.ones((2, 0), np.int64), r"got int64 of shape \(2, 0\)"),
    ],
)
def test_ids_that_are_none_are_refused_on_either_side(bad, told):
    for arguments in [(bad, ids(2, 3)), (ids(2, 3), bad)]:
        with pytest.raises(ValueError, match=told):
            make()(*arguments)


@pytest.mark.parametrize("bad", [VOCABULARY, -1])
def test_an_id_outside_the_vocabulary_is_refused(device, bad):
    source = ids(2, 3)
    source[1, 1] = bad
    with pytest.raises(IndexError, match=str(bad)):
        make(device=device)(source, ids(2, 3))


def test_what_does_not_fit_is_refused():
    source = ids(2, 4)
    source[0, 1] = PAD
    with pytest.raises(ValueError, match="an id follows padding in the source"):
        make()(source, ids(2, 3))
    with pytest.raises(ValueError, match="2 sources and 3 targets"):
        make()(ids(2, 4), ids(3, 4))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"attention": "luong"}, "unknown attention 'luong'; expected one of bahdanau, dot, general, concat, local-p"),
        ({"d_model": 7}, "d_model must be even, .* got 7"),
        ({"d_model": 0}, "d_model must be even, .* got 0"),
        ({"num_layers": 0}, "num_layers must be an integer of at least 1, got 0"),
        ({"dropout": 1.5}, "1.5"),
        ({"attention": "local-p", "window": 0}, "window must be at least 1, got 0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options, told):
    with pytest.raises(ValueError, match=told):
        Seq2Seq(VOCABULARY, **{"d_model": 8, **options})


def test_shared_embeddings_need_one_vocabulary():
    with pytest.raises(ValueError, match="sizes 11 and 12"):
        Seq2Seq(11, 12, d_model=8, share_embeddings=True)


# ---- learning


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_the_derivatives(kind):
    """Along a random direction in the space of all parameters."""
    model = make(kind, d_model=4, window=10)
    source, target = ids(2, 3), ids(2, 3)
    source[1, 2:] = PAD
    rng = np.random.default_rng(2)
    parameters = list(model.parameters())
    here = [p.numpy().copy() for p in parameters]
    directions = [rng.normal(size=p.shape) for p in parameters]

    def loss(step):
        with tt.no_grad():
            for parameter, value, direction in zip(parameters, here, directions):
                parameter.copy_(value + step * direction)
        return F.cross_entropy(model(source, target).reshape(-1, VOCABULARY), target.reshape(-1))

    loss(0.0).backward()
    for (name, parameter), direction in zip(model.named_parameters(), directions):
        assert np.abs(parameter.grad.numpy()).max() > 0, name
        if name.endswith("embedding.weight"):
            direction[PAD] = 0.0  # it has no gradient by definition, but a difference sees it
    slope = sum((p.grad.numpy() * direction).sum() for p, direction in zip(parameters, directions))
    difference = (loss(1e-6).item() - loss(-1e-6).item()) / 2e-6
    assert difference == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("kind", slow_after(1, KINDS))
def test_a_tiny_model_learns_to_turn_words_round(kind):
    tt.random.manual_seed(0)
    rng = np.random.default_rng(0)
    model = Seq2Seq(VOCABULARY, attention=kind, d_model=32, dropout=0.0, window=WINDOW)
    optimizer = nn.optim.Adam(model.parameters(), lr=0.02)

    def draw(count):
        words = rng.integers(3, VOCABULARY, (count, 2))
        first, last = np.full((count, 1), BOS), np.full((count, 1), EOS)
        turned = words[:, ::-1]
        return tuple(np.concatenate(parts, axis=1) for parts in ((words, last), (first, turned), (turned, last)))

    for _ in range(80):
        source, shown, answer = draw(32)
        optimizer.zero_grad()
        F.cross_entropy(model(source, shown).reshape(-1, VOCABULARY), answer.reshape(-1)).backward()
        optimizer.step()
    source, _, answer = draw(200)
    assert np.mean([h.ids == a for h, a in zip(greedy(model, source, max_length=3), answer.tolist())]) >= 0.98
