"""Clipping of gradients."""

import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn.utils import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm


def make(values, device="cpu", dtype=tt.float64):
    parameter = tt.tensor(np.zeros(np.shape(values)), requires_grad=True, dtype=dtype, device=device)
    parameter.grad = tt.tensor(values, dtype=dtype, device=device)
    return parameter


def make_several(device="cpu", dtype=tt.float64):
    rng = np.random.default_rng(0)
    return [make(rng.normal(size=shape), device, dtype) for shape in ((), (0,), (3,), (4, 5), (40_000,))]


def as_vector(parameters):
    return np.concatenate([p.grad.numpy().ravel() for p in parameters])


@pytest.mark.parametrize("norm_type", [0.5, 1, 2.0, 3.0, math.inf])
def test_norm_and_scale(norm_type, device):
    parameters = make_several(device)
    before = as_vector(parameters)
    norm = clip_grad_norm_(parameters, 0.7, norm_type)
    wanted = np.abs(before).max() if norm_type == math.inf else (np.abs(before) ** norm_type).sum() ** (1 / norm_type)
    assert norm.shape == ()
    assert norm.dtype == tt.float64
    assert norm.device == parameters[0].device
    assert math.isclose(norm.item(), wanted, rel_tol=1e-12)
    np.testing.assert_allclose(as_vector(parameters), before * 0.7 / (wanted + 1e-6), rtol=1e-12)


def test_small_gradients_stay_bit_for_bit():
    parameters = make_several()
    before = as_vector(parameters)
    clip_grad_norm_(parameters, 1e9)
    np.testing.assert_array_equal(as_vector(parameters), before)


def test_zeros_stay_zeros(device):
    parameter = make(np.zeros(3), device)
    assert clip_grad_norm_([parameter], 1.0).item() == 0.0
    assert parameter.grad.tolist() == [0.0] * 3
    clip_grad_norm_([parameter], 0.0)
    assert parameter.grad.tolist() == [0.0] * 3


def test_nothing_to_clip():
    bare = tt.zeros(3)
    assert clip_grad_norm_([bare], 1.0).item() == 0.0
    assert clip_grad_norm_(iter(()), 1.0).item() == 0.0
    clip_grad_value_([bare], 1.0)
    assert bare.grad is None


def test_generators_and_single_tensors():
    parameters = make_several()
    norm = get_total_norm(p.grad for p in parameters)
    assert clip_grad_norm_(iter(parameters), 0.1).item() == norm.item()
    assert math.isclose(get_total_norm(p.grad for p in parameters).item(), 0.1, rel_tol=1e-4)
    assert clip_grad_norm_(parameters[2], 1.0).item() == get_total_norm(parameters[2].grad).item()


def test_float32_and_float16_norms_are_accurate():
    many = make(np.full(3_000_000, 0.1), dtype=tt.float32)
    assert math.isclose(clip_grad_norm_([many], 1e9).item(), math.sqrt(3e6) * float(np.float32(0.1)), rel_tol=1e-7)
    large = make([30000.0, 40000.0], dtype=tt.float16)
    norm = clip_grad_norm_([large], 5.0)
    assert norm.dtype == tt.float32
    assert norm.item() == 50000.0
    assert large.grad.dtype == tt.float16
    assert large.grad.tolist() == [3.0, 4.0]
    huge = make([3e30, 4e30], dtype=tt.float32)
    assert math.isclose(clip_grad_norm_([huge], 1.0).item(), 5e30, rel_tol=1e-6)
    np.testing.assert_allclose(huge.grad.numpy(), [0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize("norm_type", [2.0, math.inf])
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_norms_that_are_not_finite(norm_type, bad):
    parameter = make([1.0, bad])
    with pytest.raises(RuntimeError, match=r"norm of order .* is (inf|nan)"):
        clip_grad_norm_([parameter], 1.0, norm_type, error_if_nonfinite=True)
    assert parameter.grad.tolist()[0] == 1.0
    norm = clip_grad_norm_([parameter], 1.0, norm_type)
    assert math.isnan(norm.item()) if math.isnan(bad) else norm.item() == math.inf
    first, second = parameter.grad.tolist()
    assert math.isnan(second)
    assert math.isnan(first) if math.isnan(bad) else first == 0.0


def test_a_nan_is_found_in_any_tensor_for_the_largest_value():
    for values in ([[1.0], [math.nan]], [[math.nan], [1.0]]):
        assert math.isnan(get_total_norm([tt.tensor(v) for v in values], math.inf).item())


def test_unknown_norms():
    for norm_type in (0, -1.0, math.nan):
        with pytest.raises(ValueError, match="norm_type must be above 0"):
            clip_grad_norm_([make([1.0])], 1.0, norm_type)


def test_clip_grad_value(device):
    parameters = make([-3.0, -0.5, 0.0, 2.0], device, tt.float32), make(5.0, device)
    clip_grad_value_(parameters, 1)
    assert parameters[0].grad.tolist() == [-1.0, -0.5, 0.0, 1.0]
    assert parameters[1].grad.item() == 1.0
    assert parameters[0].grad.dtype == tt.float32
    with pytest.raises(ValueError, match="at least 0, got -1"):
        clip_grad_value_(parameters, -1)


def test_clip_grads_with_a_given_norm():
    parameter = make([3.0, 4.0])
    clip_grads_with_norm_([parameter], 1.0, 10.0)
    np.testing.assert_allclose(parameter.grad.tolist(), [0.3, 0.4], rtol=1e-6)


@pytest.mark.parametrize("clip", [lambda p: clip_grad_norm_(p, 0.1), lambda p: clip_grad_value_(p, 0.1)])
def test_a_graph_on_the_gradient_sees_the_change(clip):
    parameter = tt.tensor([1.0, 2.0], requires_grad=True)
    tt.sum(parameter**3).backward(create_graph=True)
    penalty = tt.sum(parameter.grad**2)
    clip([parameter])
    with pytest.raises(RuntimeError, match="changed in place"):
        penalty.backward()


@pytest.mark.parametrize("clip", [lambda p: clip_grad_norm_(p, 0.5), lambda p: clip_grad_value_(p, 0.25)])
def test_gradients_of_any_layout(clip):
    for view in (np.ones((2, 2)).T, np.ones(8)[::-2], np.broadcast_to(np.ones(1), (4,))):
        parameter = make(np.ones(view.shape))
        parameter.grad = tt.tensor(np.ones(view.shape))
        parameter.grad.data = view
        clip([parameter])
        np.testing.assert_allclose(parameter.grad.numpy(), 0.25, rtol=1e-6)
