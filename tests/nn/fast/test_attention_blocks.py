"""Attention in blocks: the formula's numbers at every mask, and memory that grows with the length only."""

import subprocess
import sys

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor.nn.fast import attention_blocks as blocks
from tinytensor.nn.functional.dropout import Dropped

TARGET, SOURCE = 75, 212
QUERIES = 32  # of a block: two whole blocks and a part of one


@pytest.fixture(autouse=True)
def always_in_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "LONG", {"cpu": 1, "gpu": 1})
    monkeypatch.setattr(blocks, "BLOCK", {"cpu": QUERIES * SOURCE, "gpu": QUERIES * SOURCE})


def normal(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def hidden_everywhere(rows):
    seen = np.ones((TARGET, SOURCE), dtype=bool)
    seen[rows] = False
    return seen


MASKS = {
    "none": None,
    "causal": "causal",
    "random": normal(2, 1, TARGET, SOURCE) < 0.5,
    "padding": (np.arange(SOURCE) < np.array([[7], [SOURCE - 1]]))[:, None, None],
    "window": np.abs(np.arange(TARGET)[:, None] + 100 - np.arange(SOURCE)) < 20,
    "rows that see nothing": hidden_everywhere(slice(3, 70)),
    "nothing at all": hidden_everywhere(slice(None)),
    "added": normal(TARGET, SOURCE),
    "added, -inf": np.where(normal(2, 3, 1, SOURCE) < 0, -np.inf, 1.0),
}


def attention(mask, q, k, v, dropout=0.0):
    tt.manual_seed(5)
    if isinstance(mask, str):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
    mask = None if mask is None else tt.asarray(mask, dtype=None if mask.dtype == bool else q.dtype)
    return F.scaled_dot_product_attention(q, k, v, mask, dropout)


def outcome(mask, dropout=0.0, dtype=np.float64, create_graph=False):
    """The result and the gradients, as NumPy arrays."""
    shapes = ((2, 3, TARGET, 8), (2, 3, SOURCE, 8), (2, 3, SOURCE, 5))
    leaves = [tt.tensor(normal(*s, seed=i, dtype=dtype), requires_grad=True) for i, s in enumerate(shapes)]
    out = attention(mask, *leaves, dropout)
    g = tt.asarray(normal(*out.shape, seed=9, dtype=dtype))
    return [x.detach().numpy() for x in (out, *tt.grad(out, leaves, g, create_graph=create_graph))]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("name", MASKS)
def test_blocks_agree_with_the_formula(name, dropout):
    found = outcome(MASKS[name], dropout)
    with tt.textbook(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dropped, "draw", staticmethod(blocks.SeededDropped.draw_long))  # the same weights
        patch.setattr(blocks.SEEDED, "off", False)  # which steps aside for what is replaced
        expected = outcome(MASKS[name], dropout)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", MASKS)
def test_float32_and_float16_stay_close(name):
    wide = outcome(MASKS[name])
    for dtype, tolerance in ((np.float32, 2e-5), (np.float16, 2e-2)):
        for a, b in zip(outcome(MASKS[name], dtype=dtype), wide):
            assert a.dtype == dtype
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1, np.abs(b).max()))


def test_large_scores_neither_overflow_nor_warn():
    q, k, v = (tt.asarray(normal(1, TARGET, 4, seed=i, dtype=np.float32) * 1e3) for i in range(3))
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        out = F.scaled_dot_product_attention(q, k, v)
    with tt.textbook():
        expected = F.scaled_dot_product_attention(q, k, v)
    np.testing.assert_allclose(out.numpy(), expected.numpy(), rtol=1e-4, atol=1e-2)


def test_dropout_keeps_what_it_says():
    """With values of one, a result is the share of the weight that was kept, times 1 / (1 - p): 1 on average."""
    q, k, v = tt.zeros((16, TARGET, 4)), tt.zeros((16, SOURCE, 4)), tt.ones((16, SOURCE, 1))
    tt.manual_seed(1)
    kept = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25).numpy() * 0.75
    assert abs(kept.mean() - 0.75) < 5 * np.sqrt(0.25 * 0.75 / (kept.size * SOURCE))
    assert abs(kept.std() - np.sqrt(0.25 * 0.75 / SOURCE)) < 0.003  # each row of its own
    assert not F.scaled_dot_product_attention(q, k, v, dropout_p=1.0).numpy().any()


def test_dropout_is_repeated_by_a_seed():
    q, k, v = (tt.asarray(normal(2, n, 4, seed=i)) for i, n in enumerate((TARGET, SOURCE, SOURCE)))
    first, again = attention(None, q, k, v, 0.5), attention(None, q, k, v, 0.5)
    other = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    assert (first.numpy() == again.numpy()).all()
    assert (first.numpy() != other.numpy()).any()


def test_the_number_of_threads_changes_nothing():
    before = tt.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            tt.set_num_threads(threads)
            found.append(outcome(MASKS["random"], 0.2, np.float32))
    finally:
        tt.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other):
            assert a.tobytes() == b.tobytes()


def test_what_is_in_the_future_changes_nothing():
    q, k, v = (normal(1, TARGET, 4, seed=i) for i in range(3))
    before = attention("causal", *map(tt.asarray, (q, k, v))).numpy()
    k[:, 50:], v[:, 50:] = 7.0, -1e9
    after = attention("causal", *map(tt.asarray, (q, k, v))).numpy()
    assert (before[:, :50] == after[:, :50]).all()


PROGRAM = """
import resource, sys
import tinytensor as tt
from tinytensor.nn import functional as F

tt.manual_seed(0)
q, k, v = (tt.tensor(tt.random.randn(1, 8, n, 16), requires_grad=True) for n in ({target}, 16384, 16384))
F.scaled_dot_product_attention(*[x[:, :, :512] for x in (q, k, v)]).sum().backward()  # loads what computes
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
F.scaled_dot_product_attention(q, k, v, dropout_p={dropout}, is_causal={causal}).sum().backward()
print(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss counts other units elsewhere")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "causal", "dropout"), [(512, False, 0.0), pytest.param(16384, True, 0.1, marks=pytest.mark.again)]
)
def test_memory_is_linear_in_length(target, causal, dropout):
    """16,384 queries and keys, 8 heads: the weights would take 8.6 GB; forward and backward add less than 100 MB."""
    command = [sys.executable, "-c", PROGRAM.format(target=target, causal=causal, dropout=dropout)]
    before, peak = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert peak < 1.5e6
    assert peak - before < 100e3
