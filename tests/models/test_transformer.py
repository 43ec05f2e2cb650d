"""The Transformer from ids to logits: what sees what, shared weights, decoding, attention weights, errors."""

import re

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer
from tinytensor.nn import functional as F

PAD, BOS, EOS = 0, 1, 2
VOCABULARY = 11
CLOSE = {"rtol": 0, "atol": 1e-10}


def make(device="cpu", **options):
    """A tiny Transformer in float64, with random biases and norms too, so that nothing is right by being zero."""
    tt.random.manual_seed(0)
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 12, "dropout": 0.0, "max_length": 12}
    model = Transformer(VOCABULARY, **{**sizes, **options}).double().to(device)
    with tt.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter + 0.3 * tt.random.normal(parameter.shape, dtype=tt.float64, device=device))
    return model.eval()


def ids(*shape, seed=0):
    """Ids that are neither padding, begin nor end."""
    return np.random.default_rng(seed).integers(3, VOCABULARY, shape)


def always(model, token):
    """Make a model say the same token everywhere."""
    with tt.no_grad():
        model.projection.weight.copy_(tt.zeros_like(model.projection.weight))
        model.projection.bias[:] = 0.0
        model.projection.bias[token] = 1.0
    return model


# ---- what comes out


@pytest.mark.parametrize("norm_first", [False, True])
def test_logits_have_a_row_for_every_target_position(device, norm_first):
    model = make(device, norm_first=norm_first)
    logits = model(ids(3, 5), ids(3, 7))
    assert logits.shape == (3, 7, VOCABULARY)
    assert logits.dtype is tt.float64
    assert logits.device == device
    assert bool(tt.all(tt.isfinite(logits)))


def test_two_vocabularies():
    model = Transformer(VOCABULARY, 6, d_model=8, num_heads=2, num_layers=1)
    assert model(ids(2, 3), ids(2, 4) % 6).shape == (2, 4, 6)
    assert model.source_embedding.weight.shape == (VOCABULARY, 8)
    assert model.target_embedding.weight.shape == (6, 8)


def test_float32_is_the_default_and_double_makes_everything_float64():
    model = Transformer(VOCABULARY, d_model=8, num_heads=2, num_layers=1)
    assert model(ids(2, 3), ids(2, 4)).dtype is tt.float32
    model.double()
    assert {value.dtype for value in model.state_dict().values()} == {tt.float64}
    logits = model(ids(2, 3), ids(2, 4))
    assert logits.dtype is tt.float64
    logits.sum().backward()
    assert {parameter.grad.dtype for parameter in model.parameters()} == {tt.float64}


def test_ids_may_be_lists_arrays_of_any_integer_dtype_or_tensors():
    model = make()
    source, target = ids(2, 4), ids(2, 3)
    expected = model(source, target).numpy()
    for kind in (np.ndarray.tolist, lambda a: a.astype(np.int32), lambda a: a.astype(np.uint8), tt.asarray):
        np.testing.assert_array_equal(model(kind(source), kind(target)).numpy(), expected)


def test_embeddings_start_at_the_scale_of_the_positions():
    tt.random.manual_seed(0)
    model = Transformer(2000, d_model=64, num_heads=2, num_layers=1)
    for embedding in (model.source_embedding, model.target_embedding):
        assert embedding.weight.numpy()[3:].std() * 64**0.5 == pytest.approx(1.0, abs=0.02)
        np.testing.assert_array_equal(embedding.weight.numpy()[PAD], 0.0)


def test_one_seed_gives_the_same_weights():
    def weights():
        tt.random.manual_seed(4)
        model = Transformer(VOCABULARY, d_model=8, num_heads=2, num_layers=1)
        return model, {name: value.tolist() for name, value in model.state_dict().items()}

    kept = [weights() for _ in range(20)]  # all alive, so that none has the addresses of another
    assert all(values == kept[0][1] for _, values in kept)


def test_embedding_times_root_d_model_plus_positions():
    """Sections 3.4 and 3.5 of the paper, written out."""
    model = make()
    source = ids(1, 4)
    place, i = np.arange(4)[:, None], np.arange(4)[None, :]
    angle = place / 10000 ** (2 * i / 8)
    positions = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(4, 8)
    expected = model.source_embedding.weight.numpy()[source] * np.sqrt(8) + positions
    np.testing.assert_allclose(model.embed(model.source_embedding, tt.asarray(source)).numpy(), expected, atol=1e-7)


# ---- positions


def test_learned_positions_take_the_place_of_the_sinusoids(device):
    model = make(device, positions="learned")
    source = ids(2, 4)
    expected = model.source_embedding.weight.numpy()[source] * np.sqrt(8) + model.positions.encoding.numpy()[:4]
    found = model.embed(model.source_embedding, tt.asarray(source, device=device))
    np.testing.assert_allclose(found.numpy(), expected, **CLOSE)
    tt.sum(model(source, ids(2, 3))).backward()
    gradient = model.positions.encoding.grad.numpy()
    assert (gradient[:4] != 0).any(axis=1).all()
    np.testing.assert_array_equal(gradient[4:], 0.0)
    keys = set(model.state_dict()) - set(make().state_dict())
    assert keys == {"positions.encoding"}


def test_without_positions_the_encoder_reads_a_set():
    """And the decoder knows an order by its mask alone (with positions it is another thing)."""
    order = np.array([3, 0, 2, 1])
    for positions, alike in ((None, True), ("sinusoidal", False), ("learned", False)):
        model = make(positions=positions)
        source, target = ids(1, 4), ids(1, 3)
        logits, turned = model(source, target).numpy(), model(source[:, order], target).numpy()
        assert np.allclose(logits, turned, **CLOSE) == alike
        memory, turned = (model.encode(s)[0].numpy() for s in (source, source[:, order]))
        assert np.allclose(memory[:, order], turned, **CLOSE) == alike
    assert set(make(positions=None).state_dict()) == set(make().state_dict())


def test_without_positions_embeddings_are_dropped_out_all_the_same():
    model = make(positions=None, dropout=0.5)
    source = tt.asarray(ids(2, 6))
    assert not (model.embed(model.source_embedding, source) == 0).any()
    model.train()
    assert (model.embed(model.source_embedding, source) == 0).any()


def test_positions_of_another_name_are_refused():
    with pytest.raises(
        ValueError, match=r"Transformer: unknown positions 'rotary'; expected one of 'sinusoidal', 'learned', None"
    ):
        make(positions="rotary")


@pytest.mark.parametrize(
    ("positions", "drawn"),
    [
        ("sinusoidal", r"positions PositionalEncoding\n(.*\n)* +add +1.3.8 +from .*, encoding"),
        (
            "learned",
            r"positions LearnedPositionalEncoding\n +encoding +12.8 +parameter\n(.*\n)* +add +1.3.8 +from .*enc",
        ),
        (None, r"× .*2.828 +1.3.8 +from (embedding|where)"),
    ],
)
def test_positions_are_in_the_graph_of_the_model(tmp_path, positions, drawn):
    model = make(positions=positions)
    with tt.record() as graph:
        model.embed(model.source_embedding, tt.asarray(ids(1, 3)))
    graph.save(tmp_path / "graph.txt")
    text = (tmp_path / "graph.txt").read_text(encoding="utf-8")
    assert re.search(drawn, text)
    assert (" encoding" in text) == (positions is not None)


# ---- who sees what


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("position", range(5))
def test_no_logit_depends_on_what_comes_after_it(device, norm_first, position):
    model = make(device, norm_first=norm_first)
    source, target = ids(2, 4), ids(2, 6)
    changed = target.copy()
    changed[:, position + 1 :] = ids(2, 6, seed=1)[:, position + 1 :]
    changed[0, -1] = PAD
    before, after = model(source, target).numpy(), model(source, changed).numpy()
    np.testing.assert_allclose(after[:, : position + 1], before[:, : position + 1], **CLOSE)
    assert np.abs(after[:, position + 1 :] - before[:, position + 1 :]).max() > 1e-3


def test_every_logit_depends_on_all_of_its_prefix_and_of_the_source():
    model = make()
    source, target = ids(1, 4), ids(1, 5)
    before = model(source, target).numpy()
    for place in range(5):
        changed = target.copy()
        changed[0, place] = 3 + (changed[0, place] - 2) % (VOCABULARY - 3)
        assert (np.abs(model(source, changed).numpy() - before)[0, place:].max(axis=-1) > 1e-4).all()
    for place in range(4):
        changed = source.copy()
        changed[0, place] = 3 + (changed[0, place] - 2) % (VOCABULARY - 3)
        assert (np.abs(model(changed, target).numpy() - before)[0].max(axis=-1) > 1e-4).all()


@pytest.mark.parametrize("norm_first", [False, True])
def test_padding_changes_nothing(device, norm_first):
    """More of it, and what its embedding is."""
    model = make(device, norm_first=norm_first)
    source, target = ids(2, 4), ids(2, 5)
    before = model(source, target).numpy()
    padded = (np.pad(source, ((0, 0), (0, 3))), np.pad(target, ((0, 0), (0, 2))))
    np.testing.assert_allclose(model(*padded).numpy()[:, :5], before, **CLOSE)
    with tt.no_grad():
        model.source_embedding.weight[PAD] = 50.0
        model.target_embedding.weight[PAD] = -50.0
    np.testing.assert_allclose(model(*padded).numpy()[:, :5], before, **CLOSE)


def test_one_at_a_time_or_in_a_batch_is_the_same(device):
    model = make(device)
    lengths = [(2, 5), (6, 1), (4, 4)]
    rows = [(ids(1, s, seed=s), ids(1, t, seed=t)) for s, t in lengths]
    source = np.concatenate([np.pad(s, ((0, 0), (0, 6 - s.shape[1]))) for s, _ in rows])
    target = np.concatenate([np.pad(t, ((0, 0), (0, 5 - t.shape[1]))) for _, t in rows])
    together = model(source, target).numpy()
    for i, (s, t) in enumerate(rows):
        np.testing.assert_allclose(together[i, : t.shape[1]], model(s, t).numpy()[0], **CLOSE)


def test_a_source_of_padding_alone_gives_finite_logits_and_gradients_and_disturbs_no_other():
    model = make()
    source, target = ids(2, 4), ids(2, 3)
    alone = model(source[:1], target[:1]).numpy()
    source[1] = PAD
    logits = model(source, target)
    np.testing.assert_allclose(logits.numpy()[:1], alone, **CLOSE)
    logits.sum().backward()
    for name, parameter in model.named_parameters():
        assert np.isfinite(parameter.grad.numpy()).all(), name


def test_padding_has_no_gradient():
    model = make()
    source, target = np.pad(ids(2, 4), ((0, 0), (0, 2))), np.pad(ids(2, 5), ((0, 0), (0, 2)))
    loss = F.cross_entropy(model(source, target).reshape(-1, VOCABULARY), target.reshape(-1), ignore_index=PAD)
    loss.backward()
    for embedding in (model.source_embedding, model.target_embedding):
        np.testing.assert_array_equal(embedding.weight.grad.numpy()[PAD], 0.0)
        assert np.abs(embedding.weight.grad.numpy()).max() > 0


# ---- shared weights


def test_untied_the_projection_has_weights_and_a_bias_of_its_own():
    model = make()
    assert model.projection.weight is not model.target_embedding.weight
    assert model.source_embedding is not model.target_embedding
    assert model.projection.bias is not None


def test_tied_weights_are_one_parameter_whose_gradients_add():
    tied, untied = make(tie_weights=True), make()
    assert tied.projection.weight is tied.target_embedding.weight
    names = [name for name, _ in tied.named_parameters()]
    assert "target_embedding.weight" in names
    assert "projection.weight" not in names
    assert len({id(p) for p in tied.parameters()}) == len(names)
    untied.projection = nn.Linear(8, VOCABULARY, bias=False, dtype=tt.float64)
    untied.target_embedding = nn.Embedding(VOCABULARY, 8, dtype=tt.float64)
    assert untied.load_state_dict(tied.state_dict()) == ([], [])
    source, target = ids(2, 4), ids(2, 5)
    g = tt.asarray(np.random.default_rng(1).normal(size=(2, 5, VOCABULARY)))
    for model in (tied, untied):
        model(source, target).backward(g)
    np.testing.assert_allclose(
        tied.target_embedding.weight.grad.numpy(),
        untied.target_embedding.weight.grad.numpy() + untied.projection.weight.grad.numpy(),
        **CLOSE,
    )


def test_shared_embeddings_are_one_parameter_whose_gradients_add():
    shared, apart = make(share_embeddings=True), make()
    assert shared.source_embedding is shared.target_embedding
    assert "target_embedding.weight" not in [name for name, _ in shared.named_parameters()]
    assert apart.load_state_dict(shared.state_dict()) == ([], [])
    source, target = ids(2, 4), ids(2, 5)
    g = tt.asarray(np.random.default_rng(1).normal(size=(2, 5, VOCABULARY)))
    for model in (shared, apart):
        model(source, target).backward(g)
    np.testing.assert_allclose(
        shared.source_embedding.weight.grad.numpy(),
        apart.source_embedding.weight.grad.numpy() + apart.target_embedding.weight.grad.numpy(),
        **CLOSE,
    )


def test_all_three_matrices_can_be_one():
    model = make(tie_weights=True, share_embeddings=True)
    assert model.source_embedding.weight is model.projection.weight
    per_name = {name: p.size for name, p in make().named_parameters()}
    saved = 2 * VOCABULARY * 8 + VOCABULARY  # two matrices and the projection's bias
    assert sum(p.size for p in model.parameters()) == sum(per_name.values()) - saved


@pytest.mark.parametrize("options", [{}, {"tie_weights": True}, {"tie_weights": True, "share_embeddings": True}])
def test_state_dict_goes_over_to_another_model(options):
    model = make(**options)
    tt.random.manual_seed(5)
    other = make(**options)
    with tt.no_grad():
        for parameter in other.parameters():
            parameter.copy_(parameter * 2 + 1)
    source, target = ids(2, 4), ids(2, 5)
    assert np.abs(other(source, target).numpy() - model(source, target).numpy()).max() > 1e-3
    assert other.load_state_dict(model.state_dict()) == ([], [])
    np.testing.assert_array_equal(other(source, target).numpy(), model(source, target).numpy())
    assert (other.projection.weight is other.target_embedding.weight) == bool(options)


def test_a_checkpoint_file_holds_the_model(tmp_path):
    model, other = make(), make(num_layers=2)
    nn.save(model.state_dict(), tmp_path / "model.safetensors")
    with tt.no_grad():
        other.projection.bias[0] = 9.0
    other.load_state_dict(nn.load(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(other(ids(1, 2), ids(1, 2)).numpy(), model(ids(1, 2), ids(1, 2)).numpy())


# ---- decoding


def test_generate_is_greedy(device):
    model = make(device)
    source = ids(2, 4)
    generated = model.generate(source, max_length=6).numpy()
    prefix = np.full((2, 1), BOS)
    for _ in range(6):
        following = model(source, prefix).numpy()[:, -1].argmax(axis=-1)
        prefix = np.concatenate([prefix, following[:, None]], axis=1)
    expected = prefix[:, 1:]
    ended = np.cumsum(expected == EOS, axis=1) - (expected == EOS) > 0
    np.testing.assert_array_equal(generated, np.where(ended, PAD, expected)[:, : generated.shape[1]])


def test_generate_stops_at_eos_when_all_rows_did(device):
    generated = always(make(device), EOS).generate(ids(3, 4))
    assert generated.tolist() == [[EOS]] * 3
    assert generated.dtype is tt.int64
    assert generated.device == device


def test_generate_pads_a_row_that_ended_before_the_others():
    model = make()

    def next_logits(last, state):
        logits = np.zeros((*last.shape, VOCABULARY))
        logits[:, :, 5] = 1.0
        logits[0, 0, EOS] = 2.0 * (last.tolist() == [[5], [5]])
        return tt.asarray(logits), state

    model.next_logits = next_logits
    assert model.generate(ids(2, 3), max_length=4).tolist() == [[5, EOS, PAD, PAD], [5, 5, 5, 5]]


def test_generate_goes_up_to_the_limit():
    model = always(make(), 5)
    assert model.generate(ids(2, 3), max_length=4).tolist() == [[5] * 4] * 2
    assert model.generate(ids(2, 3), max_length=1).tolist() == [[5]] * 2
    longest = model.generate(ids(1, 3))
    assert longest.shape[1] in (model.max_length - 1, model.max_length)
    assert model.generate(ids(1, model.max_length)).shape == longest.shape


def test_generate_of_one_row_is_that_of_many():
    model = make()
    source = ids(3, 5)
    together = model.generate(source, max_length=8).numpy()
    for i in range(3):
        alone = model.generate(source[i : i + 1], max_length=8).numpy()[0]
        np.testing.assert_array_equal(together[i, : len(alone)], alone)
        assert (together[i, len(alone) :] == PAD).all()


def test_generate_turns_dropout_off_and_the_mode_back_on():
    model = make(dropout=0.5)
    expected = model.generate(ids(2, 4), max_length=6).numpy()
    model.train()
    for _ in range(3):
        np.testing.assert_array_equal(model.generate(ids(2, 4), max_length=6).numpy(), expected)
    assert model.training
    assert all(module.training for module in model.modules())
    model.eval()
    model.generate(ids(2, 4), max_length=2)
    assert not any(module.training for module in model.modules())


def test_generate_gives_the_mode_back_after_an_error():
    model = make().train()
    with pytest.raises(ValueError, match="longer than max_length 12"):
        model.generate(ids(1, 13))
    assert model.training


def test_generate_leaves_no_graph():
    assert not make().generate(ids(1, 3), max_length=3).requires_grad


# ---- attention weights


@pytest.mark.parametrize("norm_first", [False, True])
def test_cross_attention_is_a_distribution_over_the_source_without_its_padding(device, norm_first):
    model = make(device, norm_first=norm_first)
    source = ids(2, 6)
    source[1, 4:] = PAD
    found = model.cross_attention(source, ids(2, 5))
    assert len(found) == 2
    for weights in found:
        assert weights.shape == (2, 2, 5, 6)
        np.testing.assert_allclose(weights.numpy().sum(axis=-1), 1.0, **CLOSE)
        np.testing.assert_array_equal(weights.numpy()[1, :, :, 4:], 0.0)
        assert (weights.numpy()[0] > 0).all()
    assert np.abs(found[0].numpy() - found[1].numpy()).max() > 1e-3


def test_cross_attention_leaves_the_model_as_it_was():
    model = make(dropout=0.3).train()
    layers = model.transformer.decoder.layers
    before = [dict(vars(layer.multihead_attn)) for layer in layers]
    first = model.cross_attention(ids(2, 3), ids(2, 4))
    assert model.training
    second = model.cross_attention(ids(2, 3), ids(2, 4))
    assert [len(first), len(second)] == [2, 2]
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert not a.requires_grad
    assert [vars(layer.multihead_attn) for layer in layers] == before
    with pytest.raises(ValueError, match="max_length"):
        model.cross_attention(ids(1, 3), ids(1, 13))
    assert [vars(layer.multihead_attn) for layer in layers] == before
    assert model.training


# ---- errors


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", None])
def test_a_sequence_that_is_too_long_says_both_lengths(positions):
    model = make(positions=positions)
    for source, target in [(ids(1, 13), ids(1, 2)), (ids(1, 2), ids(1, 13))]:
        with pytest.raises(ValueError, match="sequence of 13 is longer than max_length 12"):
            model(source, target)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (np.ones((2, 3)), r"integer ids \(batch, length\), got float64 of shape \(2, 3\)"),
        (np.ones((2, 3), bool), "got bool"),
        (np.ones(3, np.int64), r"got int64 of shape \(3,\)"),
        (np.ones((1, 2, 3), np.int64), r"got int64 of shape \(1, 2, 3\)"),
    ],
)
def test_ids_that_are_none_are_refused_on_either_side(bad, told):
    model = make()
    for arguments in [(bad, ids(2, 3)), (ids(2, 3), bad)]:
        with pytest.raises(ValueError, match=told):
            model(*arguments)


@pytest.mark.parametrize("bad", [VOCABULARY, -1])
def test_an_id_outside_the_vocabulary_is_refused(device, bad):
    model = make(device)
    source = ids(2, 3)
    source[1, 1] = bad
    with pytest.raises(IndexError, match=str(bad)):
        model(source, ids(2, 3)).detach().numpy()  # a GPU tells where a number is read


def test_batches_of_different_sizes_are_refused():
    with pytest.raises((ValueError, RuntimeError), match="2.*3|3.*2"):
        make()(ids(2, 4), ids(3, 4))


@pytest.mark.parametrize(
    "options",
    [{"num_heads": 3}, {"d_model": 0}, {"num_heads": 0}, {"dropout": 1.5}, {"dropout": -0.1}],
)
def test_sizes_that_do_not_fit_are_refused(options):
    with pytest.raises(ValueError, match=str(next(iter(options.values())))):
        Transformer(VOCABULARY, **{"d_model": 8, "num_heads": 2, "num_layers": 1, **options})


def test_shared_embeddings_need_one_vocabulary():
    with pytest.raises(ValueError, match="sizes 11 and 12"):
        Transformer(11, 12, d_model=8, num_heads=2, num_layers=1, share_embeddings=True)


# ---- learning


def test_gradients_are_the_derivatives():
    model = make(norm_first=True, num_layers=1, d_model=4, d_ff=5, num_heads=2)
    source, target = ids(2, 3), ids(2, 3)
    source[1, 2:] = PAD
    parameter = model.transformer.decoder.layers[0].multihead_attn.in_proj_weight

    def loss(weight):
        with tt.no_grad():
            parameter.copy_(weight)
        return F.cross_entropy(model(source, target).reshape(-1, VOCABULARY), target.reshape(-1)).item()

    here = parameter.numpy().copy()
    F.cross_entropy(model(source, target).reshape(-1, VOCABULARY), target.reshape(-1)).backward()
    slope = parameter.grad.numpy().copy()
    direction = np.random.default_rng(2).normal(size=here.shape)
    difference = (loss(here + 1e-5 * direction) - loss(here - 1e-5 * direction)) / 2e-5
    assert difference == pytest.approx((slope * direction).sum(), rel=1e-7)


def test_dropout_acts_in_training_and_repeats_with_the_seed():
    model = make(dropout=0.5).train()
    source, target = ids(2, 4), ids(2, 4)
    tt.random.manual_seed(3)
    first, second = model(source, target).numpy(), model(source, target).numpy()
    assert np.abs(first - second).max() > 1e-3
    tt.random.manual_seed(3)
    np.testing.assert_array_equal(model(source, target).numpy(), first)


def test_a_tiny_model_learns_one_batch_by_heart():
    model = make(num_layers=1, norm_first=True).train()
    source, answer = ids(4, 5), np.concatenate([ids(4, 4, seed=3), np.full((4, 1), EOS)], axis=1)
    shown = np.concatenate([np.full((4, 1), BOS), answer[:, :-1]], axis=1)
    optimizer = nn.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(model(source, shown).reshape(-1, VOCABULARY), answer.reshape(-1)).backward()
        optimizer.step()
    np.testing.assert_array_equal(model.generate(source, max_length=8).numpy(), answer)


def test_inner_dropout_is_that_of_attention_weights_and_feed_forward_layers():
    options = {"d_model": 8, "num_heads": 2, "num_layers": 1, "dropout": 0.3}
    plain, inner = Transformer(10, **options), Transformer(10, **options, inner_dropout=0.0)

    def rates(made):
        modules = [m for m in made.modules() if isinstance(m, (nn.Dropout, nn.MultiheadAttention))]
        return [m.dropout if isinstance(m, nn.MultiheadAttention) else m.p for m in modules]

    assert rates(plain) == [0.3] * 11
    # positions; encoder: attention, inside, two results; decoder: two attentions, inside, three results
    assert rates(inner) == [0.3, 0.0, 0.0, 0.3, 0.3, 0.0, 0.0, 0.0, 0.3, 0.3, 0.3]
