"""The suite that is generated from the op registry, for the ops of `nn`; see `tests/tinytensor/test_ops.py`."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.testing import check_op

from ..tinytensor.op_samples import SAMPLES, Sample
from ..tinytensor.test_ops import cases, has_empty_sample, outcome, place
from . import op_samples  # noqa: F401  (registers the samples)

NN = {
    name: primitive for name, primitive in tt.ops.items() if primitive.function.__module__.startswith("tinytensor.nn.")
}


@pytest.mark.parametrize("name", sorted(NN))
def test_op_has_samples(name):
    assert SAMPLES.get(name), f"op {name} has no sample inputs: register some in tests/nn/op_samples.py"


@pytest.mark.parametrize("name", sorted(NN))
def test_op_has_an_empty_sample(name):
    has_empty_sample(name)


@pytest.mark.samples("sample", cases(NN))
def test_op(sample: Sample, device):
    check_op(
        sample.function,
        *sample.inputs,
        reference=sample.reference,
        differentiable=sample.differentiable,
        second_order=sample.second_order,
        every_kept=False,
        device=device,
        **sample.params,
    )


@pytest.mark.samples("sample", [case for case in cases(NN) if case.values[0].repeats])
def test_broadcast_views(sample: Sample, device):
    """Inputs that are one row, repeated by broadcasting without a copy, give what their copies give."""
    views, copies = [], []
    for x in (place(x, device) for x in sample.inputs):
        if isinstance(x, tt.Tensor):
            floating = x.dtype == tt.float64
            x = tt.broadcast_to(x[:1], x.shape) if floating and x.ndim and x.shape[0] else x
            views.append(x.detach().requires_grad_(floating))
            copies.append(x.clone().requires_grad_(floating))
        else:
            views.append(x)
            copies.append(x)
    for found, expected in zip(outcome(sample, views), outcome(sample, copies), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


FOR_REAL_NUMBERS = {"gelu", "gru", "lstm", "max_pool", "silu"}
"""Fused ops without a complex version: they are made of erf, sigmoid and max."""


def turned(x):
    """Complex numbers near real ones, which are turned by a little each."""
    real = isinstance(x, np.ndarray) and x.dtype.kind == "f" and np.isfinite(x).all()
    return np.asarray(x * np.exp(1j * np.linspace(0.1, 0.4, x.size)).reshape(x.shape)) if real else x


@pytest.mark.parametrize("name", sorted(name for name, op in NN.items() if not op.pure and name in SAMPLES))
def test_complex_numbers_go_by_the_formula(name):
    """Of complex numbers the pair gives the formula's values, and the gradient is that of the formula."""
    for sample in SAMPLES[name][:4]:
        inputs = [turned(x) for x in sample.inputs]

        def gradients(inputs=inputs, sample=sample):
            floats = [isinstance(x, np.ndarray) and x.dtype.kind in "fc" for x in inputs]
            xs = [tt.tensor(x, requires_grad=True) if f else x for x, f in zip(inputs, floats)]
            out = sample.function(*xs, **sample.params)
            out = out[0] if isinstance(out, tuple) else out
            leaves = [x for x, f in zip(xs, floats) if f]
            return [out, *tt.grad(out, leaves, tt.ones_like(out) * (1 + 2j), allow_unused=True)]

        if name in FOR_REAL_NUMBERS:
            with pytest.raises((NotImplementedError, RuntimeError, TypeError, ValueError), match="complex|floats"):
                gradients()
            continue
        found = gradients()
        with tt.textbook():
            expected = gradients()
        for a, b in zip(found, expected, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)


def test_every_function_is_public():
    for name in nn.functional.__all__:
        assert callable(getattr(nn.functional, name))
