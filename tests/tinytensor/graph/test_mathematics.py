"""Gradient rules as mathematics: what is written, and that it is right."""

import math

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.graph.mathematics import gradients_of, in_words, mathematics
from tinytensor.graph.source import rule_text
from tinytensor.graph.words import typeset
from tinytensor.primitive import OPS

LOADED = tt.linalg.svd, tt.fft.fft, tt.special.erfc, tt.fmax  # what is loaded when first asked for, with its ops


@pytest.mark.parametrize(
    ("op", "given", "expected"),
    [
        ("matmul", "x1", "g x2ᵀ"),
        ("matmul", "x2", "x1ᵀ g"),
        ("multiply", "x1", "g ⊙ x2"),
        ("divide", "x2", "−g ⊙ x1 / x2 / x2"),
        ("subtract", "x2", "−g"),
        ("exp", "x", "g ⊙ out"),
        ("log", "x", "g / x"),
        ("sqrt", "x", "0.5 g / out"),
        ("tanh", "x", "g ⊙ (1 − out²)"),
        ("sigmoid", "x", "g ⊙ (out ⊙ (1 − out))"),
        ("cos", "x", "−g ⊙ sin(x)"),
        ("asinh", "x", "g / √(x² + 1)"),
        ("erf", "x", "(2 / √π) g ⊙ exp(−x ⊙ x)"),
        ("sum", "x", "g, repeated along the axes that were summed"),
        ("where", "x1", "g where condition, else 0"),
        ("matrix_transpose", "x", "gᵀ"),
        ("solve", "x2", "x1ᵀ⁻¹ g"),
        ("imag", "x", "i g"),
        ("rsqrt", "x", "−0.5 g ⊙ out ⊙ out ⊙ out"),
        ("gammaln", "x", "g ⊙ digamma(x)"),
        ("fft", "x", "fft(g)"),
        ("getitem", "x", "g at key, else 0"),
        ("floor", "x", "0"),
    ],
)
def test_rules_are_written_as_in_a_book(op, given, expected):
    assert mathematics(rule_text(OPS[op].rules[given][0]).formula) == expected


def test_what_has_no_sign_is_left_to_the_code():
    assert mathematics("xp.einsum(g, x)") == mathematics("a +") == mathematics("f(x)(y)") == ""


CODE_SAYS_IT = {"concat", "copysign", "roll", "xlogy"}
"""Ops of whose rules only the code is shown."""


def test_every_rule_is_told_in_mathematics_or_in_words():
    silent = {
        name
        for name, op in OPS.items()
        for rule, _ in op.rules.values()
        if op.pure and (op.function.__module__ or "").startswith("tinytensor.")
        if not (mathematics(rule_text(rule).formula) or in_words(rule))
    }
    assert silent - {"euclidean", "std"} <= CODE_SAYS_IT


def test_every_gradient_of_a_fused_op_is_told():
    without = {"keep", "ids", "target", "present", "mask"}  # no gradient flows to these, or to a mask seldom
    for name, op in OPS.items():
        if not op.pure and (op.function.__module__ or "").startswith("tinytensor."):
            told = gradients_of(op.function)
            assert set(op.inputs) - without - set(told) <= ({"weight"} if name == "cross_entropy" else set()), name


# ---- what is told is right


def gradient(function, *arrays, g):
    inputs = [tt.tensor(a, requires_grad=True) for a in arrays]
    function(*inputs).backward(tt.tensor(g))
    return [x.grad.numpy() for x in inputs]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rows(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_linear():
    x, W, b, g = rows(5, 3), rows(4, 3, seed=1), rows(4, seed=2), rows(5, 4, seed=3)
    for got, told in zip(gradient(F.linear, x, W, b, g=g), (g @ W, g.T @ x, g.sum(0))):
        np.testing.assert_allclose(got, told)


def test_softmax_and_log_softmax():
    x, g = rows(4, 6), rows(4, 6, seed=1)
    out = softmax(x)
    np.testing.assert_allclose(
        gradient(lambda x: F.softmax(x, dim=-1), x, g=g)[0], out * (g - (g * out).sum(-1, keepdims=True))
    )
    np.testing.assert_allclose(
        gradient(lambda x: F.log_softmax(x, dim=-1), x, g=g)[0], g - out * g.sum(-1, keepdims=True)
    )


def test_activations():
    x, g = rows(7), rows(7, seed=1)
    np.testing.assert_allclose(gradient(F.relu, x, g=g)[0], np.where(x > 0, g, 0))
    Phi = np.array([(1 + math.erf(v / math.sqrt(2))) / 2 for v in x])
    phi = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(gradient(F.gelu, x, g=g)[0], g * (Phi + x * phi))
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    told = g * ((1 + t) / 2 + x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x) / 2)
    np.testing.assert_allclose(gradient(lambda x: F.gelu(x, approximate="tanh"), x, g=g)[0], told)


def test_layer_norm():
    x, w, b, g = rows(5, 6), rows(6, seed=1), rows(6, seed=2), rows(5, 6, seed=3)
    spread = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    y, h = (x - x.mean(-1, keepdims=True)) / spread, g * w
    told = (h - h.mean(-1, keepdims=True) - y * (h * y).mean(-1, keepdims=True)) / spread
    got = gradient(lambda x, w, b: F.layer_norm(x, 6, w, b), x, w, b, g=g)
    for found, expected in zip(got, (told, (g * y).sum(0), g.sum(0))):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_attention():
    Q, K, V, g = rows(1, 4, 3), rows(1, 5, 3, seed=1), rows(1, 5, 2, seed=2), rows(1, 4, 2, seed=3)
    scale = 1 / math.sqrt(3)
    A = softmax(Q @ K.mT * scale) if hasattr(K, "mT") else softmax(Q @ K.swapaxes(1, 2) * scale)
    towards = g @ V.swapaxes(1, 2)
    S = A * (towards - (A * towards).sum(-1, keepdims=True))
    told = (scale * S @ K, scale * S.swapaxes(1, 2) @ Q, A.swapaxes(1, 2) @ g)
    for got, expected in zip(gradient(F.scaled_dot_product_attention, Q, K, V, g=g), told):
        np.testing.assert_allclose(got, expected, atol=1e-12)


def test_cross_entropy():
    x, target = rows(4, 3), np.array([0, 2, 1, 1])
    one_hot = np.eye(3)[target]
    got = gradient(lambda x: F.cross_entropy(x, tt.asarray(target)), x, g=np.array(2.0))[0]
    np.testing.assert_allclose(got, 2.0 * (softmax(x) - one_hot) / 4)


def last_states(layer, x):
    return layer(x)[0][-1]


def test_recurrent_layers():
    x, g = rows(1, 2, 3), rows(2, 4, seed=1)  # one turn: what is told of the last one

    def parts(layer):
        weights = [p.numpy() for p in (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)]
        return [x[0] @ weights[0].T + weights[2] + weights[3], *weights]

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    rnn = nn.RNN(3, 4, dtype=tt.float64)
    inner, W, *_ = parts(rnn)
    np.testing.assert_allclose(
        gradient(lambda x: last_states(rnn, x), x, g=g)[0][0], (g * (1 - np.tanh(inner) ** 2)) @ W, atol=1e-12
    )
    gru = nn.GRU(3, 4, dtype=tt.float64)
    inner, W, _, _, b_h = parts(gru)
    r, z = sigmoid(inner[:, :4]), sigmoid(inner[:, 4:8])
    q = np.broadcast_to(b_h[8:], (2, 4))
    n = np.tanh(inner[:, 8:] - b_h[8:] + r * q)
    e_n = g * (1 - z) * (1 - n * n)
    told = np.concatenate([e_n * q * r * (1 - r), g * (0 - n) * z * (1 - z), e_n], axis=1) @ W
    np.testing.assert_allclose(gradient(lambda x: last_states(gru, x), x, g=g)[0][0], told, atol=1e-12)
    lstm = nn.LSTM(3, 4, dtype=tt.float64)
    inner, W, *_ = parts(lstm)
    i, f, u, o = sigmoid(inner[:, :4]), sigmoid(inner[:, 4:8]), np.tanh(inner[:, 8:12]), sigmoid(inner[:, 12:])
    c = i * u
    e_c = g * o * (1 - np.tanh(c) ** 2)
    told = np.concatenate(
        [e_c * u * i * (1 - i), e_c * 0 * f * (1 - f), e_c * i * (1 - u * u), g * np.tanh(c) * o * (1 - o)], axis=1
    )
    np.testing.assert_allclose(gradient(lambda x: last_states(lstm, x), x, g=g)[0][0], told @ W, atol=1e-12)


# ---- signs for letters


@pytest.mark.parametrize(
    ("code", "signs"),
    [
        ("softmax(Q K^T / sqrt(d_k)) V", "softmax(Q Kᵀ / √dₖ) V"),
        ("exp(x_i) / sum_j exp(x_j)", "exp(xᵢ) / Σⱼ exp(xⱼ)"),
        ("-log p", "−log p"),
        ("x^2 - 1", "x² − 1"),
        ("W_ih x", "W_ih x"),
    ],
)
def test_formulas_are_set_in_signs(code, signs):
    assert typeset(code) == signs
