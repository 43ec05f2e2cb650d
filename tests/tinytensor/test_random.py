"""Random numbers: one seed repeats everything, states are plain numbers, NumPy's global generator is not touched."""

import json
import math

import numpy as np
import pytest
import scipy.stats

import tinytensor as tt

DRAWS = {
    "uniform": lambda g, **k: g.uniform((3, 4), -1, 2, **k),
    "normal": lambda g, **k: g.normal((3, 4), 1.0, 2.0, **k),
    "integers": lambda g, **k: g.integers(3, 9, (3, 4), **k),
    "bernoulli": lambda g, **k: g.bernoulli(0.3, (3, 4), **k),
    "permutation": lambda g, **k: g.permutation(12, **k),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_repeats_on_every_device(name, device):
    first = DRAWS[name](tt.random.Generator(7), device=device)
    # Masks of dropout are drawn on the GPU itself, so they are others there.
    options = {"device": device} if name == "bernoulli" else {}
    again = DRAWS[name](tt.random.Generator(7), **options)
    other = DRAWS[name](tt.random.Generator(8), **options)
    assert first.device == device
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()
    tt.manual_seed(7)
    assert DRAWS[name](tt.random, **options).tolist() == again.tolist()


def test_states_are_plain_numbers_and_go_on():
    generator = tt.random.Generator(3)
    generator.normal((5,))
    state = json.loads(json.dumps(generator.get_state()))
    expected = generator.normal((5,)).tolist()
    fresh = tt.random.Generator(0)
    fresh.set_state(state)
    assert fresh.normal((5,)).tolist() == expected
    assert generator.manual_seed(3) is generator
    with pytest.raises(ValueError, match="no state of a PCG64"):
        generator.set_state({"bit_generator": "MT19937"})
    with pytest.raises(ValueError, match="non-negative integer, got -1"):
        tt.manual_seed(-1)
    tt.manual_seed(1)
    saved = tt.random.get_state()
    first = tt.random.rand(2).tolist()
    tt.random.set_state(saved)
    assert tt.random.rand(2).tolist() == first


def test_a_saved_state_does_not_move_with_the_generator():
    generator = tt.random.Generator(3)
    state = generator.get_state()
    first = generator.normal((4,)).tolist()
    generator.set_state(state)
    assert generator.normal((4,)).tolist() == first


def test_numpys_global_generator_is_neither_used_nor_moved():
    before = np.random.get_state()  # noqa: NPY002
    tt.manual_seed(0)
    a = tt.random.randn(3)
    np.random.seed(1)  # noqa: NPY002
    tt.manual_seed(0)
    assert tt.random.randn(3).tolist() == a.tolist()
    np.random.set_state(before)  # noqa: NPY002
    tt.random.uniform((10,))
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_distributions():
    g = tt.random.Generator(0)
    uniform = g.uniform((20_000,), 2, 5)
    assert uniform.dtype == tt.float32
    assert 2 <= uniform.min().item() < 2.01
    assert 4.99 < uniform.max().item() < 5
    normal = g.normal((20_000,), 3.0, 2.0, dtype=tt.float64)
    assert normal.dtype == tt.float64
    assert abs(normal.mean().item() - 3) < 0.05
    assert abs(normal.std(correction=0).item() - 2) < 0.05
    assert sorted(set(g.integers(4, shape=(200,)).tolist())) == [0, 1, 2, 3]
    assert abs(tt.astype(g.bernoulli(0.25, (20_000,)), tt.float32).mean().item() - 0.25) < 0.02
    assert sorted(g.permutation(50).tolist()) == list(range(50))
    assert tt.random.rand(2, 3).shape == tt.random.rand((2, 3)).shape == tt.random.randn(2, 3).shape == (2, 3)
    assert tt.random.rand().shape == ()
    assert (
        tt.random.normal((2,), generator=tt.random.Generator(1)).tolist()
        == tt.random.Generator(1).normal((2,)).tolist()
    )


@pytest.mark.parametrize("p", [0.0, 2**-40, 1 / 3, 0.5, 1 - 2**-30, 1.0])
def test_bernoulli_has_the_probability_down_to_the_last_bit(p):
    """Also where 16 bits alone cannot tell: the undecided draws are decided by the rest of p."""
    g = tt.random.Generator(0)
    count = 4_000_001
    expected = np.random.Generator(np.random.PCG64(0))
    bits = expected.bit_generator.random_raw(-(-count // 4)).view(np.uint16)[:count]
    found = g.bernoulli(p, (count,)).numpy()
    undecided = bits == int(p * 2**16)
    np.testing.assert_array_equal(found[~undecided], (bits < p * 2**16)[~undecided])
    share = p * 2**16 % 1
    assert abs(found[undecided].mean() - share) < 5 * np.sqrt(0.25 / undecided.sum()) if undecided.any() else p == 1
    assert (found.any(), found.all()) == (p > 1e-6, p == 1) or 0 < p < 1


def test_bernoulli_of_no_elements_and_of_one():
    g = tt.random.Generator(0)
    assert g.bernoulli(0.5, (0, 3)).shape == (0, 3)
    assert g.bernoulli(1.0).item() is True


# ---- choices


@pytest.mark.parametrize("seed", [0, 1])
def test_choices_are_as_likely_as_softmax_says(seed):
    logits = np.array([[0.0, -math.inf, 1.0, 3.0, -2.0], [50.0, 49.0, 0.0, 48.5, 49.9]])
    drawn = tt.random.categorical(logits, 20000, generator=tt.random.Generator(seed))
    assert (drawn.shape, drawn.dtype) == ((20000, 2), tt.int64)
    for row, expected in zip(drawn.numpy().T, np.exp(logits - logits.max(axis=1, keepdims=True))):
        expected = 20000 * expected / expected.sum()
        counts = np.bincount(row, minlength=5)
        possible = expected > 1
        assert counts[expected == 0].sum() == 0
        assert scipy.stats.chisquare(counts[possible], expected[possible] * counts[possible].sum()
                                     / expected[possible].sum()).pvalue > 1e-3  # fmt: skip


def test_a_choice_for_each_row():
    tt.manual_seed(3)
    one = tt.random.categorical(tt.zeros((2, 3, 4)))
    tt.manual_seed(3)
    assert one.shape == (2, 3)
    assert one.tolist() == tt.random.categorical(tt.zeros((2, 3, 4), dtype=tt.float16)).tolist()
    assert tt.random.categorical(tt.asarray([-math.inf, 2.0])).item() == 1
    for wrong in (tt.asarray(1.0), tt.asarray([[1.0, 2.0], [-math.inf, -math.inf]])):
        with pytest.raises(ValueError, match="categorical: expected logits"):
            tt.random.categorical(wrong)
