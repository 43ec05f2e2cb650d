"""Self-attention with what came after 2017: shared keys, turned queries, normalised ones, windows, slopes."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F
from tinytensor.nn.decoder_cache import LayerCache

LENGTH, D_MODEL, HEADS = 5, 12, 6


def normal(*shape, seed=0):
    return tt.asarray(np.random.default_rng(seed).normal(size=shape))


def made(**options):
    tt.manual_seed(0)
    return nn.SelfAttention(D_MODEL, HEADS, **options).double().eval()


def by_hand(layer, x, hidden, turn=lambda vector, position: vector):
    """The formula, one head and one position at a time, in NumPy."""
    size, h, kv = layer.head_dim, layer.num_heads, layer.num_kv_heads
    projected = x @ layer.in_proj.weight.numpy().T
    if layer.in_proj.bias is not None:
        projected = projected + layer.in_proj.bias.numpy()
    vectors = projected.reshape(len(x), h + 2 * kv, size)
    out = np.zeros((len(x), h, size))
    for head in range(h):
        own = h + head // (h // kv)
        for target in range(len(x)):
            seen = [source for source in range(len(x)) if not hidden[target, source]]
            q = turn(vectors[target, head], target)
            scores = np.array([q @ turn(vectors[source, own], source) for source in seen]) / math.sqrt(size)
            weights = np.exp(scores) / np.exp(scores).sum()
            out[target, head] = weights @ vectors[seen, own + kv]
    joined = out.reshape(len(x), h * size) @ layer.out_proj.weight.numpy().T
    return joined if layer.out_proj.bias is None else joined + layer.out_proj.bias.numpy()


@pytest.mark.parametrize("kv", [6, 3, 2, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_heads_of_queries_share_heads_of_keys(kv, bias):
    layer, x = made(num_kv_heads=kv, bias=bias), normal(2, LENGTH, D_MODEL)
    mask = F.causal_mask(LENGTH)
    out = layer(x, mask)
    for row, given in zip(out.detach().numpy(), x.numpy()):
        np.testing.assert_allclose(row, by_hand(layer, given, mask.numpy()), atol=1e-12)
    assert layer.in_proj.out_features == (HEADS + 2 * kv) * 2


def test_as_many_keys_as_queries_are_multi_head_attention():
    layer, x = made(), normal(2, LENGTH, D_MODEL)
    multi = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True).double()
    multi.load_state_dict(
        {
            "in_proj_weight": layer.in_proj.weight,
            "in_proj_bias": layer.in_proj.bias,
            "out_proj.weight": layer.out_proj.weight,
            "out_proj.bias": layer.out_proj.bias,
        }
    )
    mask = F.sliding_window_mask(LENGTH, 2)
    np.testing.assert_allclose(
        layer(x, mask).detach().numpy(), multi(x, x, x, attn_mask=mask)[0].detach().numpy(), atol=1e-12
    )


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_rotation_turns_queries_and_keys_but_no_values(pairing):
    layer, x = made(head_dim=4, num_kv_heads=2, pairing=pairing), normal(1, LENGTH, D_MODEL)

    def turn(vector, position):
        pairs = vector[:2] + 1j * vector[2:] if pairing == "half" else vector[0::2] + 1j * vector[1::2]
        turned = pairs * np.exp(1j * position * 10000.0 ** (-np.arange(0, 4, 2) / 4))
        parts = np.stack([turned.real, turned.imag], axis=0 if pairing == "half" else 1)
        return parts.reshape(4)

    mask = F.causal_mask(LENGTH)
    rotation = F.rotary_angles(tt.arange(LENGTH), 4, dtype=tt.float64)
    expected = by_hand(layer, x[0].numpy(), mask.numpy(), turn)
    np.testing.assert_allclose(layer(x, mask, rotation)[0].detach().numpy(), expected, atol=1e-12)


def test_after_rotation_only_distances_count():
    layer, x = made(num_kv_heads=3), normal(1, LENGTH, D_MODEL)
    here, elsewhere = (F.rotary_angles(tt.arange(LENGTH) + start, 2, dtype=tt.float64) for start in (0, 40))
    np.testing.assert_allclose(
        layer(x, None, here).detach().numpy(), layer(x, None, elsewhere).detach().numpy(), atol=1e-12
    )
    assert abs((layer(x, None, here) - layer(x)).detach().numpy()).max() > 1e-3


def test_stretched_positions_leave_fast_pairs_alone():
    angles = F.rotary_angles(tt.asarray(8), 8, 100.0, dtype=tt.float64)
    everywhere = F.rotary_angles(tt.asarray(32), 8, 100.0, stretch=F.RotaryStretch(4.0), dtype=tt.float64)
    for a, b in zip(angles, everywhere):  # every pair turns at a quarter of its speed
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    # of frequencies 1, 0.32, 0.1, 0.03 these turn 10, 3.2, 1 and 0.3 times within 20 pi positions
    kept = F.RotaryStretch(4.0, length=20 * math.pi, low=1.0, high=4.0).slowed(100.0 ** (-np.arange(4) / 4))
    share = (math.sqrt(10.0) - 1) / 3
    factors = [1.0, share + (1 - share) / 4, 0.25, 0.25]
    np.testing.assert_allclose(kept / 100.0 ** (-np.arange(4) / 4), factors, rtol=1e-12)


def test_qk_norm_takes_the_length_from_queries_and_keys():
    layer = made(qk_norm=1e-6)
    for head in layer.heads(normal(1, LENGTH, D_MODEL))[:2]:
        np.testing.assert_allclose((head * head).mean(axis=-1).detach().numpy(), 1, atol=1e-3)
    assert {"q_norm.weight", "k_norm.weight"} < set(layer.state_dict())


def test_alibi_is_a_slope_for_each_head():
    distances = tt.arange(3)[:, None] - tt.arange(3)
    added = F.alibi(distances, 8).numpy()
    assert added.shape == (8, 3, 3)
    np.testing.assert_allclose(added[:, 2, 0], [-2 * 2.0**-i for i in range(1, 9)])
    np.testing.assert_array_equal(added[:, 1, 1], 0)
    np.testing.assert_allclose(F.alibi_slopes(3).numpy(), [2**-4, 2**-8, 2**-2])


def test_a_window_is_itself_and_what_is_just_before():
    mask = F.sliding_window_mask(4, 2).numpy()
    np.testing.assert_array_equal(~mask, [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    np.testing.assert_array_equal(F.sliding_window_mask(4, 9).numpy(), F.causal_mask(4).numpy())


@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2, "qk_norm": 1e-6}])
@pytest.mark.parametrize("is_turned", [False, True])
def test_steps_from_a_cache_are_the_whole(options, is_turned):
    layer, x = made(**options), normal(2, LENGTH, D_MODEL)

    def rotation(start, end):
        return F.rotary_angles(tt.arange(start, end), 2, dtype=tt.float64) if is_turned else None

    with tt.no_grad():
        whole = layer(x, F.causal_mask(LENGTH), rotation(0, LENGTH))
        cache = LayerCache(tt.empty((2, 0, layer.kv_size), dtype=tt.float64))
        rows = [layer(x[:, i : i + 1], None, rotation(i, i + 1), cache) for i in range(LENGTH)]
    np.testing.assert_allclose(tt.concat(rows, axis=1).numpy(), whole.numpy(), atol=1e-12)


def test_dropout_is_for_training():
    layer, x = made(dropout=0.5, num_kv_heads=2), normal(1, LENGTH, D_MODEL)
    np.testing.assert_array_equal(layer(x).detach().numpy(), layer(x).detach().numpy())
    layer.train()
    assert abs((layer(x) - layer(x)).detach().numpy()).max() > 0


def test_it_is_recorded_with_all_its_heads():
    layer = made(num_kv_heads=2)
    with nn.record_attention() as attention:
        layer(normal(2, LENGTH, D_MODEL), F.causal_mask(LENGTH))
    (call,) = attention.calls
    assert call.weights.shape == (2, HEADS, LENGTH, LENGTH)
    assert call.hidden[0, 0, 0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_kv_heads": 4}, "num_kv_heads must divide num_heads; got num_heads 6, num_kv_heads 4"),
        ({"num_kv_heads": 0}, "num_kv_heads must divide"),
        ({"dropout": 2.0}, "probability"),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(ValueError, match=message):
        nn.SelfAttention(D_MODEL, HEADS, **options)
    with pytest.raises(ValueError, match="num_heads must divide d_model, or head_dim be given"):
        nn.SelfAttention(13, HEADS)
    with pytest.raises(ValueError, match="window must be at least 1"):
        F.sliding_window_mask(3, 0)
    with pytest.raises(ValueError, match="head_dim must be even"):
        F.rotary_angles(tt.arange(3), 5)
    with pytest.raises(ValueError, match="twice as many elements"):
        F.rotate(tt.ones((3, 6)), *F.rotary_angles(tt.arange(3), 4))
    with pytest.raises(ValueError, match="pairing must be one of"):
        F.rotate(tt.ones((3, 4)), *F.rotary_angles(tt.arange(3), 4), "both")
    with pytest.raises(ValueError, match="num_heads must be at least 1"):
        F.alibi_slopes(0)
