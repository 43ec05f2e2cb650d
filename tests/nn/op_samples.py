"""Sample inputs for the ops that `nn` declares: what `test_ops.py` is generated from."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.nn.functional.dropout import Dropped
from tinytensor.nn.functional.recurrent import _gru, _lstm, _rnn
from tinytensor.nn.transformer import Attend, Feed, Sublayer

from ..engine_room import room
from ..tinytensor.op_samples import Sample, apart, draw, integers, register

BOOLEAN = np.array([[True, False, True, True], [False, True, True, False], [True, True, True, True]])


def seeded(function):
    """The function with the same random numbers at every call."""

    def call(*inputs):
        tt.random.manual_seed(3)
        return function(*inputs)

    return call


def _or_nothing(function):
    """SciPy's function of a whole axis, which refuses an empty one."""
    return lambda x, axis: function(x, axis=axis) if x.size else x


# ---- activations

register("relu", *(Sample(F.relu, [apart(s)], lambda x: np.maximum(x, 0)) for s in ((3, 4), (), (0,), (2, 0, 3))))
for _shape in ((3, 4), (), (0,), (2, 0, 3)):
    register("gelu", Sample(F.gelu, [draw(_shape, -3, 3)], lambda x: x * scipy.special.ndtr(x)))
    register("silu", Sample(F.silu, [draw(_shape, -3, 3)], lambda x: x * scipy.special.expit(x)))
    register(
        "gelu_tanh",
        Sample(
            lambda x: F.gelu(x, approximate="tanh"),
            [draw(_shape, -3, 3)],
            lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        ),
    )
for _name, _reference in (("softmax", scipy.special.softmax), ("log_softmax", scipy.special.log_softmax)):
    _reference = _or_nothing(_reference)
    for _shape, _dim in (
        ((3, 4), -1),
        ((3, 4), 0),
        ((2, 3, 4), 1),
        ((5,), 0),
        ((0, 3), 1),
        ((3, 0, 2), -1),
        ((3, 1), 1),
        ((5, 0, 0), -1),
        ((0,), 0),
    ):
        register(
            _name,
            Sample(
                lambda x, f=getattr(F, _name), d=_dim: f(x, dim=d),
                [draw(_shape)],
                lambda x, f=_reference, d=_dim: f(x, axis=d),
            ),
        )
    register(
        _name,
        Sample(
            getattr(F, _name),
            [np.array([[0.5, -np.inf, 1.0, 0.0]])],
            lambda x, f=_reference: f(x, axis=-1),
            differentiable=(),  # no difference can be taken at -inf
        ),
    )

# ---- linear maps and rows of a table

for _shape in ((5, 3), (3,), (2, 4, 3), (0, 3), (2, 0, 3)):
    register(
        "linear",
        Sample(F.linear, [draw(_shape), draw((2, 3)), draw((2,))], lambda x, w, b: x @ w.T + b),
        Sample(F.linear, [draw(_shape), draw((2, 3)), None], lambda x, w, b: x @ w.T),
    )
for _ids in (np.array([[0, 2, 2], [3, 0, 0]]), np.array(1), np.zeros((0, 2), dtype=np.int64)):
    register(
        "embedding",
        Sample(lambda w, ids: F.embedding(ids, w), [draw((4, 3)), _ids], lambda w, ids: w[ids]),
        Sample(lambda w, ids: F.embedding(ids.astype(tt.int32), w), [draw((4, 3)), _ids], lambda w, ids: w[ids]),
    )


for _padding in (0, -2):
    register(
        "embedding",
        Sample(
            lambda w, ids, p=_padding: F.embedding(ids, w, padding_idx=p),
            [draw((4, 3)), np.array([1, 3, 3, 1])],
            lambda w, ids: w[ids],
            differentiable=(),  # differences see the row that gets no gradient
        ),
    )

# ---- normalisation and dropout


def _normalized(x, axes=-1, eps=1e-5):
    mean = x.mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + eps)


for _shape in ((3, 4), (4,), (2, 3, 4), (0, 4), (2, 0, 4)):
    register(
        "layer_norm",
        Sample(
            lambda x, w, b: F.layer_norm(x, (4,), w, b),
            [apart(_shape), draw((4,)), draw((4,))],
            lambda x, w, b: _normalized(x) * w + b,
            repeats=False,
        ),
        Sample(
            lambda x, w: F.layer_norm(x, 4, w),
            [apart(_shape), draw((4,))],
            lambda x, w: _normalized(x) * w,
            repeats=False,
        ),
        Sample(
            lambda x, b: F.layer_norm(x, 4, None, b, eps=0.1),
            [apart(_shape), draw((4,))],
            lambda x, b: _normalized(x, eps=0.1) + b,
            repeats=False,
        ),
        Sample(lambda x: F.layer_norm(x, 4), [apart(_shape)], _normalized, repeats=False),
    )


def _by_rms(x, axes=-1, eps=1e-5):
    return x / np.sqrt((x * x).mean(axis=axes, keepdims=True) + eps)


for _shape in ((3, 4), (4,), (2, 3, 4), (0, 4), (2, 0, 4)):
    register(
        "rms_norm",
        Sample(lambda x, w: F.rms_norm(x, (4,), w, 1e-5), [draw(_shape), draw((4,))], lambda x, w: _by_rms(x) * w),
        Sample(lambda x: F.rms_norm(x, 4, eps=0.1), [draw(_shape)], lambda x: _by_rms(x, eps=0.1)),
    )
register(
    "rms_norm",
    Sample(
        lambda x, w: F.rms_norm(x, (3, 4), w, 1e-5),
        [draw((2, 3, 4)), draw((3, 4))],
        lambda x, w: _by_rms(x, (1, 2)) * w,
    ),
)


def _rotated(x, angles, pairing):
    """The rotation as a product of complex numbers (Su et al. 2021, equation 13)."""
    pairs = (x[..., 0::2] + 1j * x[..., 1::2]) if pairing == "interleaved" else x[..., :2] + 1j * x[..., 2:]
    turned = pairs * np.exp(1j * angles)
    if pairing == "half":
        return np.concatenate([turned.real, turned.imag], axis=-1)
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)


for _shape in ((3, 4), (2, 3, 4), (2, 0, 4)):
    for _pairing in ("interleaved", "half"):
        _angles = draw((_shape[-2], 2))
        register(
            "rotate",
            Sample(
                lambda x, a=_angles, p=_pairing: F.rotate(x, np.cos(a), np.sin(a), p),
                [draw(_shape)],
                lambda x, a=_angles, p=_pairing: _rotated(x, a, p),
            ),
        )
register(
    "layer_norm",
    Sample(
        lambda x, w, b: F.layer_norm(x, (3, 4), w, b),
        [apart((2, 3, 4)), draw((3, 4)), draw((3, 4))],
        lambda x, w, b: _normalized(x, (1, 2)) * w + b,
        repeats=False,
    ),
    Sample(lambda x: F.layer_norm(x, 1), [draw((3, 1))], np.zeros_like),
)


register(
    "dropout",
    *(Sample(seeded(lambda x: F.dropout(x, 0.4)), [draw(s)], None) for s in ((3, 4), (), (0,), (2, 0, 3))),
)

# ---- attention


def _attended(q, k, v, mask=None, scale=None):
    scores = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    largest = np.max(scores, axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(largest == -np.inf, 0, largest))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


def _qkv(*batch, target=3, source=4):
    return [draw((*batch, target, 2)), draw((*batch, source, 2)), draw((*batch, source, 3))]


_some_empty = BOOLEAN.copy()
_some_empty[1] = False
for _qkv_shape in ((), (2,), (2, 3), (0,)):
    register("attention", Sample(F.scaled_dot_product_attention, _qkv(*_qkv_shape), _attended))
register(
    "attention",
    *(
        Sample(F.scaled_dot_product_attention, [*_qkv(2), mask], _attended)
        for mask in (BOOLEAN, BOOLEAN[:, :1], BOOLEAN[0], _some_empty, np.stack([BOOLEAN, ~BOOLEAN]))
    ),
    *(
        Sample(F.scaled_dot_product_attention, [*_qkv(2, 3), draw(shape)], _attended)
        for shape in ((3, 4), (4,), (3, 1), (), (3, 3, 4), (2, 1, 1, 4), (2, 3, 3, 4))
    ),
    Sample(
        F.scaled_dot_product_attention,
        [*_qkv(2), np.where(_some_empty, 0.5, -np.inf)],
        _attended,
        differentiable=(0, 1, 2),
    ),
    Sample(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        _qkv(2),
        lambda q, k, v: _attended(q, k, v, np.tril(np.ones((3, 4), dtype=bool))),
    ),
    Sample(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
        _qkv(target=4, source=3),
        lambda q, k, v: _attended(q, k, v, np.tril(np.ones((4, 3), dtype=bool)), 0.3),
    ),
    Sample(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=-0.7),
        _qkv(2),
        lambda q, k, v: _attended(q, k, v, None, -0.7),
    ),
    # Batch dimensions that are broadcast, each in another of the inputs.
    Sample(F.scaled_dot_product_attention, [draw((2, 1, 3, 2)), draw((3, 4, 2)), draw((1, 1, 4, 3))], _attended),
    Sample(F.scaled_dot_product_attention, [draw((3, 2)), draw((4, 2)), draw((2, 4, 3))], _attended),
    Sample(F.scaled_dot_product_attention, _qkv(2, target=0), _attended),
    *(
        Sample(seeded(lambda *a: F.scaled_dot_product_attention(*a, dropout_p=0.4)), [*_qkv(2), *mask], None)
        for mask in ([], [BOOLEAN], [draw((3, 4))])
    ),
)


blocks = room("nn.fast.attention_blocks")


def in_blocks(function):
    """The function with attention in blocks, however short the sequences are; by its formula where there are none.

    Formulas drop the same weights then: those that a seed stands for.
    """
    if blocks is None:
        return function

    def call(*inputs):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "LONG", {"cpu": 1, "gpu": 1})
            on = [way for way in room("fast.texts").ways.values() if way.holds()]  # asked, since they begin as off
            patch.setattr(Dropped, "draw", staticmethod(blocks.SeededDropped.draw_long))
            for way in on:  # which step aside for what is replaced
                patch.setattr(way, "off", False)
            return function(*inputs)

    return call


_long, _wide = 5, 2051
if blocks:
    _long = blocks.BLOCK["cpu"] // _wide + 1  # two blocks of queries, the second of one
_seen = np.arange(_wide) < np.array([[_wide // 2], [2]])
register(
    "attention",
    Sample(in_blocks(F.scaled_dot_product_attention), _qkv(2, 3), _attended),
    Sample(in_blocks(F.scaled_dot_product_attention), _qkv(2, target=0), _attended),
    Sample(in_blocks(F.scaled_dot_product_attention), [*_qkv(2), _some_empty], _attended),
    Sample(in_blocks(F.scaled_dot_product_attention), [*_qkv(2, 3), draw((3, 3, 4))], _attended),
    Sample(in_blocks(F.scaled_dot_product_attention), _qkv(target=_long, source=_wide), _attended),
    Sample(
        in_blocks(F.scaled_dot_product_attention),
        [*_qkv(2, target=_long, source=_wide), _seen[:, None]],
        _attended,
        slow=True,
    ),
    Sample(
        in_blocks(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        _qkv(target=_long, source=_wide),
        lambda q, k, v: _attended(q, k, v, np.tril(np.ones((_long, _wide), dtype=bool))),
        slow=True,
    ),
    *(
        Sample(
            seeded(in_blocks(lambda *a: F.scaled_dot_product_attention(*a, dropout_p=0.4))),
            [*_qkv(2, target=_long, source=_wide), *mask],
            None,
            slow=True,
        )
        for mask in ([], [draw((1, _wide))])
    ),
)


def _multi_head(*, padding=None, dropout=0.0, shared="three", biased=True, need_weights=False):
    """`multi_head_attention_forward` on (batch 2, target 3, source 4, embed_dim 4), two heads."""

    def function(query, memory, value, weight, bias, out_weight, mask=None):
        key, value = {"all": (query, query), "memory": (memory, memory), "three": (memory, value)}[shared]
        out, weights = F.multi_head_attention_forward(
            query, key, value, 2, weight, bias if biased else None, dropout, out_weight, None,
            key_padding_mask=padding, attn_mask=mask, need_weights=need_weights,
        )  # fmt: skip
        return (out, weights) if need_weights else out

    return seeded(function)


def _multi_head_reference(shared="three", biased=True, padding=None):
    def function(query, memory, value, weight, bias, out_weight, mask=None):
        inputs = {"all": [query] * 3, "memory": [query, memory, memory], "three": [query, memory, value]}[shared]
        biases = np.split(bias, 3) if biased else [0.0] * 3
        q, k, v = (x @ w.T + b for x, w, b in zip(inputs, np.split(weight, 3), biases))
        q, k, v = (x.reshape(2, -1, 2, 2).transpose(0, 2, 1, 3) for x in (q, k, v))
        scores = np.zeros((2, 2, q.shape[2], k.shape[2]))
        for given in (mask, None if padding is None else padding[:, None, None]):
            if given is not None:
                given = given.reshape(2, 2, *given.shape[1:]) if given.ndim == 3 else given
                scores = scores + (np.where(given, -np.inf, 0) if given.dtype == bool else given)
        return _attended(q, k, v, scores).transpose(0, 2, 1, 3).reshape(query.shape) @ out_weight.T

    return function


def _heads(source=4, target=3):
    return [
        draw((2, target, 4)), draw((2, source, 4)), draw((2, source, 4)), draw((12, 4)), draw((12,)), draw((4, 4)),
    ]  # fmt: skip


_padding = np.array([[False, True, False, False], [False, False, True, True]])
_no_queries = [np.zeros((2, 0, 4)), *_heads()[1:]]
register(
    "multi_head",
    *(
        Sample(
            _multi_head(shared=s, biased=b),
            _heads(),
            _multi_head_reference(s, b),
            differentiable=(*memory, 0, 3, 5, *[4] * b),
        )
        for s, memory in (("all", ()), ("memory", (1,)), ("three", (1, 2)))
        for b in (True, False)
    ),
    Sample(_multi_head(), _heads(), _multi_head_reference()),
    *(
        Sample(_multi_head(), [*_heads(), mask], _multi_head_reference())
        for mask in (~BOOLEAN, ~_some_empty, draw((3, 4)), draw((4, 3, 4)), integers((4, 3, 4)) > 1)
    ),
    *(
        Sample(_multi_head(padding=padding), [*_heads(), *mask], _multi_head_reference(padding=padding))
        for padding in (_padding, np.where(_padding, -np.inf, 0.25))
        for mask in ([], [~BOOLEAN], [draw((3, 4))], [draw((4, 3, 4))])
    ),
    Sample(_multi_head(), _no_queries, _multi_head_reference()),
    Sample(_multi_head(dropout=0.4), _heads(), None),
    Sample(_multi_head(dropout=0.4), [*_heads(), draw((3, 4))], None),
    *(
        Sample(in_blocks(_multi_head(dropout=p, padding=_padding)), [*_heads(), *mask], None)
        for p in (0.0, 0.4)
        for mask in ([], [~BOOLEAN], [draw((3, 4))])
    ),
    Sample(
        _multi_head(dropout=0.4, shared="all"),
        [*_heads(target=4), ~BOOLEAN[:1].repeat(4, 0)],
        None,
        differentiable=(0, 3, 4, 5),
    ),
)

# ---- cross-entropy


def cross_entropy(logits, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Row by row, as it is defined; 0 where a mean has nothing to count."""
    log_p = scipy.special.log_softmax(logits, axis=1)
    weight = np.ones(logits.shape[1]) if weight is None else weight
    losses, total = np.zeros(len(target)), 0.0
    for i, t in enumerate(target):
        if t != ignore_index:
            smooth = label_smoothing * np.sum(weight * log_p[i]) / logits.shape[1]
            losses[i] = -(1 - label_smoothing) * weight[t] * log_p[i, t] - smooth
            total += weight[t]
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / (total or 1.0)


_target = np.array([0, 2, -100, 1, 2])
register(
    "cross_entropy",
    *(
        Sample(lambda x, t: F.cross_entropy(x, t), [draw((5, 3)), np.array([0, 2, 2, 1, 2], dtype=kind)], cross_entropy)
        for kind in (np.int32, np.uint8, np.int16)
    ),
    Sample(lambda x, t: F.cross_entropy(x, t[::2]), [draw((3, 3)), _target], lambda x, t: cross_entropy(x, t[::2])),
)
for _reduction in ("mean", "sum", "none"):
    for _smoothing in (0.0, 0.2, 1.0):
        for _weight in (None, np.array([0.5, 2.0, 0.0])):
            register(
                "cross_entropy",
                Sample(
                    lambda x, t, o=(_weight, -100, _reduction, _smoothing): F.cross_entropy(
                        x, t, None if o[0] is None else tt.asarray(o[0], dtype=x.dtype, device=x.device), *o[1:]
                    ),
                    [draw((5, 3)), _target],
                    lambda x, t, o=(_weight, -100, _reduction, _smoothing): cross_entropy(x, t, *o),
                ),
            )
    register(
        "cross_entropy",
        *(
            Sample(
                lambda x, t, o=(None, ignored, _reduction, 0.1): F.cross_entropy(x, t, *o),
                [draw((len(target), 3)), np.array(target, dtype=np.int64)],
                lambda x, t, o=(None, ignored, _reduction, 0.1): cross_entropy(x, t, *o),
            )
            for target, ignored in (([0, 0, 1], 0), ([2, 2], 2), ([], -100), ([1], -1))
        ),
    )

# ---- binary cross-entropy


def _bce(x, y):
    return -(y * np.log(x) + (1 - y) * np.log(1 - x))


register(
    "binary_cross_entropy",
    *(
        Sample(lambda x, y: F.binary_cross_entropy(x, y, reduction="none"), [draw(s, 0.1, 0.9), draw(s, 0, 1)], _bce)
        for s in ((3, 4), (), (0,))
    ),
)

# ---- windows


def _convolved(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """One filter, position and element of the window after the other."""
    axes = x.ndim - 2
    x = np.pad(x, ((0, 0), (0, 0), *[(padding, padding)] * axes))
    lengths = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[2:], weight.shape[2:])]
    y = np.zeros((len(x), len(weight), *lengths))
    share, part = len(weight) // groups, weight.shape[1]
    for place in np.ndindex(*lengths):
        for element in np.ndindex(*weight.shape[2:]):
            met = x[(..., *(p * stride + e * dilation for p, e in zip(place, element)))]
            for o in range(len(weight)):
                first = o // share * part
                y[(slice(None), o, *place)] += met[:, first : first + part] @ weight[(o, slice(None), *element)]
    return y if bias is None else y + bias.reshape(-1, *[1] * axes)


for _options in ({}, {"padding": 1}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2}, {"groups": 2}):
    for _function, _lengths in ((F.conv1d, (5,)), (F.conv2d, (5, 4))):
        for _batch in (2, 0):
            _kernel = (4, 4 // _options.get("groups", 1), *[2] * len(_lengths))
            register(
                "convolution",
                *(
                    Sample(_function, [draw((_batch, 4, *_lengths)), draw(_kernel), bias], _convolved, _options)
                    for bias in (draw((4,)), None)
                ),
            )


def _pooled(x, kernel, stride=None, padding=0, dilation=1):
    stride, axes = stride or kernel, x.ndim - 2
    x = np.pad(x, ((0, 0), (0, 0), *[(padding, padding)] * axes), constant_values=-np.inf)
    lengths = [(n - dilation * (kernel - 1) - 1) // stride + 1 for n in x.shape[2:]]
    y = np.zeros((*x.shape[:2], *lengths))
    for place in np.ndindex(*lengths):
        window = tuple(slice(p * stride, p * stride + dilation * (kernel - 1) + 1, dilation) for p in place)
        y[(..., *place)] = x[(..., *window)].max(axis=tuple(range(2, x.ndim)))
    return y


for _options in ((2,), (3, 1), (3, 2, 1), (2, 1, 0, 2)):
    for _function, _lengths in ((F.max_pool1d, (6,)), (F.max_pool2d, (6, 5))):
        register(
            "max_pool",
            *(
                Sample(
                    lambda x, f=_function, o=_options: f(x, *o),
                    [apart((batch, 3, *_lengths))],
                    lambda x, o=_options: _pooled(x, *o),
                    repeats=False,
                )
                for batch in (2, 0)
            ),
        )

# ---- recurrence


def _logistic(x):
    return 1 / (1 + np.exp(-x))


def _unrolled(step, x, states, weight, present, reverse):
    """A recurrence step after step: the states h after each, and the states after the last."""
    rows = np.zeros((*x.shape[:2], weight.shape[1]))
    for t in range(len(x))[:: -1 if reverse else 1]:
        new = step(x[t], *states)
        states = new if present is None else [np.where(present[t], a, b) for a, b in zip(new, states)]
        rows[t] = states[0]
    return rows, states


def _gru_reference(x, initial, weight, bias=None, present=None, reverse=False):
    def step(x, h):
        x_r, x_z, x_n = np.split(x, 3, axis=-1)
        h_r, h_z, h_n = np.split(h @ weight.T + (0 if bias is None else bias), 3, axis=-1)
        z = _logistic(x_z + h_z)
        return [(1 - z) * np.tanh(x_n + _logistic(x_r + h_r) * h_n) + z * h]

    return _unrolled(step, x, [initial], weight, present, reverse)[0]


def _lstm_reference(x, initial, cell, weight, present=None, reverse=False):
    def step(x, h, c):
        i, f, g, o = np.split(x + h @ weight.T, 4, axis=-1)
        c = _logistic(f) * c + _logistic(i) * np.tanh(g)
        return [_logistic(o) * np.tanh(c), c]

    rows, (_, last) = _unrolled(step, x, [initial, cell], weight, present, reverse)
    return np.concatenate([rows, last[None]])


def _rnn_reference(x, initial, weight, present=None, reverse=False, nonlinearity="tanh"):
    squash = np.tanh if nonlinearity == "tanh" else lambda x: np.maximum(x, 0)
    return _unrolled(lambda x, h: [squash(x + h @ weight.T)], x, [initial], weight, present, reverse)[0]


# Padding after the end, before the beginning, in between, and a sequence of padding alone.
_present = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 1, 0]], dtype=bool)[..., None]


def _recurrent_inputs(gates, states=1, length=3, batch=2, hidden=2):
    initial = [draw((batch, hidden)) for _ in range(states)]
    return [draw((length, batch, gates * hidden)), *initial, draw((gates * hidden, hidden))]


for _reverse in (False, True):
    for _sizes, _mask in (
        ({}, None),
        ({"batch": 4}, _present),
        ({"length": 1, "hidden": 1}, None),
        ({"batch": 0}, None),
    ):
        register(
            "gru",
            *(
                Sample(
                    lambda *a, r=_reverse: _gru(*a, reverse=r),
                    [*_recurrent_inputs(3, **_sizes), bias, _mask],
                    lambda *a, r=_reverse: _gru_reference(*a, reverse=r),
                )
                for bias in (None, draw((3 * _sizes.get("hidden", 2),)))
            ),
        )
        register(
            "lstm",
            Sample(
                lambda *a, r=_reverse: _lstm(*a, reverse=r),
                [*_recurrent_inputs(4, 2, **_sizes), _mask],
                lambda *a, r=_reverse: _lstm_reference(*a, reverse=r),
            ),
        )
        register(
            "rnn",
            *(
                Sample(
                    lambda *a, o=(_reverse, kind): _rnn(*a, reverse=o[0], nonlinearity=o[1]),
                    [*_recurrent_inputs(1, **_sizes), _mask],
                    lambda *a, o=(_reverse, kind): _rnn_reference(*a, *o),
                )
                for kind in ("tanh", "relu")
            ),
        )

# ---- whole sub-layers, which the engine room makes one op

sublayers = room("nn.fast.sublayers")


def _feed_forward_reference(x, weight1, bias1, weight2, bias2, weight, bias):
    hidden = np.maximum(x @ weight1.T + (0 if bias1 is None else bias1), 0)
    return _normalized(x + hidden @ weight2.T + (0 if bias2 is None else bias2)) * weight + (
        0 if bias is None else bias
    )


def _attend_reference(x, memory, weight, bias, out_weight, out_bias, norm_weight, norm_bias, mask):
    source = x if memory is None else memory
    projected = zip((x, source, source), np.split(weight, 3), [0.0] * 3 if bias is None else np.split(bias, 3))
    q, k, v = ((a @ w.T + b).reshape(len(a), -1, 2, 2).transpose(0, 2, 1, 3) for a, w, b in projected)
    mask = ~mask if mask is not None and mask.dtype == bool else mask
    heads = _attended(q, k, v, mask).transpose(0, 2, 1, 3).reshape(x.shape)
    normal = _normalized(x + heads @ out_weight.T + (0 if out_bias is None else out_bias))
    return normal * norm_weight + (0 if norm_bias is None else norm_bias)


def _sublayer(*shapes, bias=True):
    """Matrices of these shapes, each with a bias, and the weight and bias of a norm over 4 elements."""
    parameters = [p for rows, columns in shapes for p in (draw((rows, columns)), draw((rows,)) if bias else None)]
    return [*parameters, draw((4,), 0.5, 1.5), draw((4,)) if bias else None]


def _through(f, owners, loop, settings):
    """The op of one sub-layer, as a function of x, the memory and the arrays of a loop: parameters of `owners`."""
    norm, prefix = nn.LayerNorm(4), {nn.MultiheadAttention: "in_proj_"}
    places = [(m, prefix.get(type(m), "") + name) for m in (*owners, norm) for name in ("weight", "bias")]
    places[4:4] = [None] * (loop == "Attention")  # the mask
    nothing = tt.backend.for_device("cpu").dropping()
    droppings = {"dropping": nothing, sublayers.INNER[loop]: nothing}
    how = {"norm_first": False, "eps": 1e-5, "by_size": False, **droppings, **settings}
    plan = sublayers.Plan(
        [sublayers.Step(loop, len(places), how, dict.fromkeys(droppings, 0.0))],
        places,
        [Sublayer(f, nn.Dropout(0.0), norm)],
    )
    return lambda *arrays: sublayers._through(*arrays, plan=plan)


def _feed_sample(shape, bias):
    maps = nn.Linear(4, 6), nn.Linear(6, 4)
    return Sample(
        _through(Feed(maps[0], F.relu, nn.Dropout(0.0), maps[1]), maps, "FeedForward", {"activation": "relu"}),
        [draw(shape), None, *_sublayer((6, 4), (4, 6), bias=bias)],
        lambda x, memory, *a: _feed_forward_reference(x, *a),
    )


def _attend_sample(target, memory, bias, mask):
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    how = {"heads": 2, "scale": 1 / math.sqrt(2), "across": memory is not None, "shifts": True}
    f, parameters = Attend(attention, memory, None, None, False), _sublayer((12, 4), (4, 4), bias=bias)
    return Sample(
        _through(f, (attention, attention.out_proj), "Attention", how),
        [draw((2, target, 4)), memory, *parameters[:4], mask, *parameters[4:]],
        lambda x, memory, *a: _attend_reference(x, memory, *a[:4], *a[5:], a[4]),
    )


if sublayers is not None:
    _hidden = np.where(np.array([[True, False, False, True], [True, True, True, True]]), -np.inf, 0.0)
    register(
        "through",
        *(_feed_sample(*given) for given in (((2, 3, 4), True), ((1, 5, 4), False), ((2, 0, 4), True))),
        *(
            _attend_sample(*given)
            for given in (
                (4, None, True, None),
                (4, None, False, np.triu(np.full((1, 1, 4, 4), -np.inf), 1)),
                (3, draw((2, 4, 4)), True, _hidden[:, None, None]),
                (3, draw((2, 4, 4)), False, None),
                (3, draw((2, 4, 4)), True, draw((1, 1, 3, 4))),
                (0, draw((2, 4, 4)), True, None),
            )
        ),
    )
