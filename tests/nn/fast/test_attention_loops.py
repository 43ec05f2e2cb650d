"""Attention in compiled loops: the formula's numbers whatever is seen, and the other ways for what they do not take."""

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.marks import slow_after
from tinytensor.nn.fast import attention as pairs

pytest.importorskip("numba")
from tinytensor.fast import attention as room

LENGTHS = [(1, 1), (130, 1301), (5, 700), (210, 33)]  # (target, source): below a tile, several blocks, uneven


@pytest.fixture(autouse=True)
def in_loops(monkeypatch, loops):
    monkeypatch.setattr(pairs, "LOOPS_FROM", 0)


def normal(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def hidden(name, target, source, batch=2):
    """Masks that are True where attention is not allowed."""
    i, j = np.arange(target)[:, None], np.arange(source)
    rows = np.zeros((target, source), bool)
    rows[target // 3 :] = True
    return {
        "none": None,
        "causal": j > i,
        "ahead": j <= i,
        "window": (j > i) | (j <= i - 40),
        "padding": (j >= np.array([source, source // 2])[:batch, None])[:, None, None],
        "padding before": (j < np.array([0, source // 2])[:batch, None])[:, None, None],
        "by head": (j > i)[None, None] & np.array([True, False, True])[None, :, None, None],
        "rows that see nothing": rows,
        "nothing at all": np.ones((target, source), bool),
    }[name]


MASKS = [
    "none", "causal", "ahead", "window", "padding", "padding before", "by head", "rows that see nothing",
    "nothing at all",
]  # fmt: skip


def outcome(mask, lengths, dtype=np.float64, dropout=0.0, factor=1.0, causal=False, create_graph=False):
    """The result and the gradients, as NumPy arrays."""
    target, source = lengths
    tt.manual_seed(5)
    shapes = ((2, 3, target, 20), (2, 3, source, 20), (2, 3, source, 33))
    leaves = [tt.tensor(factor * normal(*s, seed=i, dtype=dtype), requires_grad=True) for i, s in enumerate(shapes)]
    allowed = None if mask is None else tt.asarray(~mask)
    out = F.scaled_dot_product_attention(*leaves, allowed, dropout, causal)
    g = tt.asarray(normal(*out.shape, seed=9, dtype=dtype))
    return [x.detach().numpy() for x in (out, *tt.grad(out, leaves, g, create_graph=create_graph))]


def formula(*args, **kwargs):
    with tt.textbook():
        return outcome(*args, **kwargs)


@pytest.fixture
def calls(monkeypatch):
    """How often the loops were called, there and back."""
    found = []
    for name in ("attend", "attend_back"):

        def counted(*args, _name=name, _function=getattr(room, name)):
            found.append(_name)
            return _function(*args)

        monkeypatch.setattr(room, name, counted)
    return found


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", MASKS)
def test_loops_agree_with_the_formula(name, lengths, calls):
    mask = hidden(name, *lengths)
    for dropout in (0.0, 0.3):
        for found, expected in zip(outcome(mask, lengths, dropout=dropout), formula(mask, lengths, dropout=dropout)):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11)
    assert calls == ["attend", "attend_back"] * 2


@pytest.mark.parametrize("name", slow_after(1, ["padding", "causal", "none"]))
def test_float32_stays_close(name):
    mask = hidden(name, 130, 301)
    for found, expected in zip(outcome(mask, (130, 301), np.float32), outcome(mask, (130, 301))):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_causally_without_a_mask(calls, monkeypatch):
    monkeypatch.setattr(pairs.blocks, "LONG", {"cpu": 1, "gpu": 1})  # no mask is made then
    for found, expected in zip(outcome(None, (130, 140), causal=True), formula(hidden("causal", 130, 140), (130, 140))):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11)
    assert calls


def test_second_derivatives_are_those_of_the_formula():
    found = outcome(hidden("causal", 9, 9), (9, 9), create_graph=True)
    for a, b in zip(found, formula(hidden("causal", 9, 9), (9, 9))):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("levels", [(-1, 0, 1), (1, 0, -1), (0, -1, 1), (0, 1, 0), (-1, -2, -1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_another_size_in_each_block(levels, dtype):
    """Sources see each other's blocks through the shift alone: what came before fades, or what comes now is nothing."""
    size, blocks = 8, room.KEYS * np.ones(3, int)
    q, k, v = (normal(n, size, seed=i, dtype=dtype) for i, n in enumerate((5, blocks.sum(), blocks.sum())))
    q[:, 0], k[:, 0] = 1, np.repeat(np.array(levels, dtype) * 300, blocks)

    def compute():
        leaves = [tt.tensor(x[None], requires_grad=True) for x in (q, k, v)]
        out = F.scaled_dot_product_attention(*leaves, scale=1.0)
        return [x.detach().numpy() for x in (out, *tt.grad(out.sum() + (out * out).sum(), leaves))]

    found, close = compute(), 2e-3 if dtype == np.float32 else 1e-9
    with tt.textbook():
        expected = compute()
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=close, atol=close)


@pytest.mark.parametrize("factor", [4.0, 1e3])
def test_large_scores_neither_overflow_nor_warn(factor):
    """Scores from which the largest has to be taken before exponentials can be."""
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        found = outcome(None, (50, 700), np.float32, factor=factor)
    assert all(np.isfinite(x).all() for x in found)
    assert np.abs(found[0]).max() <= factor * 6  # means of values, none of which is larger
    if factor < 10:
        for a, b in zip(found, outcome(None, (50, 700), factor=factor)):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())


def test_a_key_that_is_not_a_number_is_seen_by_those_who_see_it():
    q, k, v = (normal(1, 100, 8, seed=i, dtype=np.float32) for i in range(3))
    k[0, 50, 3] = np.nan
    out = F.scaled_dot_product_attention(*map(tt.asarray, (q, k, v)), is_causal=True).numpy()
    assert np.isfinite(out[0, :50]).all()
    assert np.isnan(out[0, 50:]).all()


def test_a_hidden_key_that_is_not_a_number_hides_no_large_one(calls):
    """Whether scores are small follows from the largest norm, before and behind one that is NaN."""
    q, k, v = (normal(1, 128, 8, seed=i, dtype=np.float32) for i in range(3))
    k[0, 5] *= 60
    k[0, 126] = np.nan
    seen = np.arange(128) < 126
    found = F.scaled_dot_product_attention(*map(tt.asarray, (q, k, v)), tt.asarray(seen[None])).numpy()
    assert calls == ["attend"]
    with tt.textbook():
        expected = F.scaled_dot_product_attention(*map(tt.asarray, (q, k, v)), tt.asarray(seen[None])).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_any_layout_is_taken():
    """Heads side by side, reversed, broadcast, and three dimensions: what is asked of `SelfAttention` and others."""
    flat = normal(2, 100, 3, 3, 8)
    for make in (
        lambda x: x.transpose(2, 0, 3, 1, 4),
        lambda x: x.transpose(2, 0, 3, 1, 4)[..., ::-1, :],
        lambda x: x.transpose(2, 0, 3, 1, 4)[..., ::-1],
        lambda x: x[:, :, :, 0].transpose(2, 0, 1, 3),
        lambda x: np.broadcast_to(x[0, :, 0].transpose(1, 0, 2)[:, None, None], (3, 2, 3, 100, 8)),
    ):
        with tt.no_grad():
            q, k, v = (tt.from_dlpack(x) if x.flags.writeable else tt.asarray(x) for x in make(flat.copy()))
            found = F.scaled_dot_product_attention(q, k, v)
            with tt.textbook():
                expected = F.scaled_dot_product_attention(q, k, v)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12, atol=1e-13)


def test_a_mask_of_each_sequence_without_heads():
    q, k, v = (tt.asarray(normal(2, 100, 8, seed=i)) for i in range(3))
    mask = tt.asarray(~hidden("padding", 100, 100)[:, 0])
    found = F.scaled_dot_product_attention(q, k, v, mask)
    with tt.textbook():
        expected = F.scaled_dot_product_attention(q, k, v, mask)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)


def test_heads_of_one_projection():
    """The way of `SelfAttention`: queries, keys and values, and their gradients, side by side."""
    x = tt.tensor(normal(2, 100, 36), requires_grad=True)
    mask = tt.asarray(hidden("causal", 100, 100))
    found = []
    for how in (tt.enable_grad, tt.textbook):
        with how():
            out = F.attention._multi_head(x, None, mask, num_heads=3, scale=0.5, dropped=None)
            found.append([out.numpy(), tt.grad(out, x, tt.asarray(normal(*out.shape, seed=1))).numpy()])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_the_number_of_threads_changes_nothing(monkeypatch):
    monkeypatch.setattr("tinytensor.fast.threads.GRAIN", 1)
    before, found = tt.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            tt.set_num_threads(threads)
            found.append(outcome(hidden("causal", 130, 301), (130, 301), np.float32, 0.2))
    finally:
        tt.set_num_threads(before)
    for other in found[1:]:
        assert [x.tobytes() for x in found[0]] == [x.tobytes() for x in other]


def scattered():
    return normal(130, 301) < 0.5


OTHERS = {
    "what is seen is no interval": lambda: {"mask": scattered(), "lengths": (130, 301)},
    "float16": lambda: {"mask": None, "lengths": (130, 301), "dtype": np.float16},
    "nothing to attend to": lambda: {"mask": None, "lengths": (130, 0)},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_ways_are_gone_for_what_they_do_not_take(name, calls):
    for a, b in zip(outcome(**OTHERS[name]()), formula(**OTHERS[name]())):
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-2)
    assert not calls


def test_an_added_mask_goes_another_way(calls):
    q, k, v = (tt.asarray(normal(2, 100, 8, seed=i)) for i in range(3))
    F.scaled_dot_product_attention(q, k, v, tt.asarray(normal(100, 100)))
    assert not calls


def test_short_sequences_go_another_way(calls, monkeypatch):
    monkeypatch.setattr(pairs, "LOOPS_FROM", 10_001)
    outcome(None, (100, 100))
    assert not calls
    outcome(None, (100, 101))
    assert calls
