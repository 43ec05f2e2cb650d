"""The norm of gradients and their scaling in loops over all of them, against the ways without."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn.utils import clip_grad_norm_, get_total_norm

from ..test_clip import as_vector, make

SHAPES = [(), (0,), (3,), (4, 5), (70_000,), (0, 2), (2, 3, 7), (32_768,), (1,)]


def gradients(dtype=tt.float32):
    rng = np.random.default_rng(0)
    return [make(rng.normal(size=shape), dtype=dtype) for shape in SHAPES]


@pytest.fixture
def called(loops, monkeypatch):
    """How often each loop was."""
    counts = {"sum_of_squares": 0, "scale_all": 0}
    for name in counts:

        def counting(*args, _name=name, _loop=getattr(loops, name)):
            counts[_name] += 1
            return _loop(*args)

        monkeypatch.setattr(loops, name, counting)
    return counts


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_the_bits_are_the_same_on_any_number_of_threads(dtype, called, monkeypatch):
    from tinytensor.fast import threads as parallel

    found = set()
    for threads in (1, 2, 3, 7):
        monkeypatch.setattr(parallel, "_threads", threads)
        monkeypatch.setattr(parallel, "GRAIN", 1000)
        parameters = gradients(dtype)
        norm = clip_grad_norm_(parameters, 0.5)
        found.add((norm.numpy().tobytes(), as_vector(parameters).tobytes()))
    assert len(found) == 1
    assert called == {"sum_of_squares": 4, "scale_all": 4}


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
def test_the_norm_is_exact_and_the_scaling_that_of_numpy(dtype, called):
    parameters = gradients(dtype)
    before = as_vector(parameters)
    norm = clip_grad_norm_(parameters, 0.5).item()
    wanted = math.sqrt(math.fsum(np.square(before, dtype=np.float64)))
    assert math.isclose(norm, wanted, rel_tol=1e-7 if dtype == tt.float32 else 1e-14)
    np.testing.assert_array_equal(as_vector(parameters), before * before.dtype.type(0.5 / (norm + 1e-6)))


def test_other_norms_dtypes_and_memory_go_their_own_way(called):
    parameters = gradients()
    get_total_norm([p.grad for p in parameters], 3.0)
    clip_grad_norm_([make([3.0, 4.0], dtype=tt.float16), *gradients()], 1.0)
    turned = tt.ones((4, 5)).T
    assert not turned._data.flags.c_contiguous
    assert math.isclose(get_total_norm([turned, tt.ones(5)]).item(), 5, rel_tol=1e-7)
    with tt.textbook():
        clip_grad_norm_(gradients(), 0.5)
    assert called == {"sum_of_squares": 0, "scale_all": 0}


def test_what_is_not_finite_is_said(called):
    for bad in (math.inf, math.nan):
        parameters = [make([1.0, bad], dtype=tt.float32), *gradients()]
        before = as_vector(parameters)
        with pytest.raises(RuntimeError, match="norm of order 2"):
            clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
        np.testing.assert_array_equal(as_vector(parameters), before)


def test_a_graph_that_needs_a_gradient_finds_it_scaled(called):
    parameters = gradients()
    gradient = parameters[2].grad.requires_grad_()
    loss = (gradient * gradient).sum()
    clip_grad_norm_(parameters, 0.5)
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()
