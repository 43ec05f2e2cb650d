"""The loops over sub-layers: what they read of the lists that they are given."""

import functools
import gc
import inspect
import re
import weakref

import numpy as np
import pytest

pytest.importorskip("numba")
from tinytensor.fast import decoding, sublayers
from tinytensor.fast.hashed import Dropping
from tinytensor.fast.residual import Gradient, Numbers, Share

D, WIDTH, BATCH, LENGTH = 8, 12, 2, 3
NOTHING = Dropping()


def zeros(*shape):
    return np.zeros(shape, np.float32)


def linear(features, given):
    return zeros(features, given), zeros(features)


def network(activation):
    return sublayers.FeedForward(
        *linear(WIDTH, D), *linear(D, WIDTH), *NORM, inner=NOTHING, activation=activation, **HOW
    )


NORM = zeros(D), zeros(D)
HOW = {"eps": 1e-5, "norm_first": True, "dropping": NOTHING}
ATTENTION = {**HOW, "scale": 1.0, "shifts": False, "weights_dropping": NOTHING}
KINDS = {
    "norm": lambda: sublayers.Norm(*NORM, eps=1e-5),
    "attention": lambda: sublayers.Attention(
        *linear(3 * D, D), *linear(D, D), None, *NORM, heads=2, across=False, **ATTENTION
    ),
    "attention to the memory": lambda: sublayers.Attention(
        *linear(3 * D, D), *linear(D, D), None, *NORM, heads=2, across=True, **ATTENTION
    ),
    "attention with positions": lambda: sublayers.Attention(
        *linear(2 * D, D), *linear(D, D), None, *NORM, heads=4, kv_heads=2, across=False,
        turning=(zeros(LENGTH, 1), zeros(LENGTH, 1), False), **ATTENTION,
    ),
    "network": lambda: network("relu"),
    "network with GELU": lambda: network("gelu"),
    "gated network": lambda: sublayers.FeedForward(
        *linear(WIDTH, D), *linear(WIDTH, D), *linear(D, WIDTH), *NORM, inner=NOTHING, activation="silu", **HOW
    ),
    "attention to what is kept": lambda: decoding.KeptAttention(
        *linear(3 * D, D), *linear(D, D), *NORM, heads=2, scale=1.0, across=False, **HOW
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_loops_read_numbers_under_the_names_that_they_have(kind):
    sublayer, shares = KINDS[kind](), [Share(0, 0, 1), Share(1, 1, BATCH)]
    x, memory = zeros(BATCH * LENGTH, D), zeros(BATCH * 5, D)
    sublayer.start(shares, x, memory)
    gradient, works = Gradient(sublayer, x, memory), [sublayer.work_forward(shares[0])]
    if kind != "attention to what is kept":  # of which nobody wants a gradient
        works.append(sublayer.work_backward(shares[0]))
    for work in works:
        source, module = inspect.getsource(work.loop), inspect.getmodule(work.loop)
        there = {
            "functions": len(work.functions), "places": len(sublayer.places), "sizes": len(sublayer.sizes),
            "reals": len(sublayer.reals), "gradients": gradient._places.shape[1],
        }  # fmt: skip
        read = dict(re.findall(r"named\(\s*(\w+), \w+, (\w+)\s*\)", source))
        assert {"functions", "places", "sizes"} <= set(read)
        for name, fields in read.items():
            assert len(getattr(module, fields)._fields) == there[name]
        assert len(work.numbers(sublayer, gradient.row(shares[0]))) == len(Numbers._fields)


@pytest.mark.parametrize("back", [False, True])
def test_an_interrupt_frees_nothing_that_another_thread_writes_to(back, monkeypatch):
    given = []

    def interrupted(function, shares):
        given.append(function)
        raise KeyboardInterrupt

    sublayer, x = KINDS["network"](), zeros(BATCH, LENGTH, D)
    sublayers.forward([sublayer], x, None)
    compute = functools.partial(sublayers.backward, [sublayer], x, None)
    if not back:
        compute = functools.partial(sublayers.forward, [sublayer], x, None)
    monkeypatch.setattr(sublayers, "multiply_in_parts", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compute()
    there = weakref.ref(sublayer)
    del sublayer, x, compute
    gc.collect()
    assert there() is not None
    given.clear()
    gc.collect()
    assert there() is None
