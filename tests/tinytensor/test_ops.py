"""The suite that is generated from the op registry: every sample of every op through every check.

An op without samples fails. Other packages register theirs with `op_samples.register`.
"""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.testing import check_op, kept_needed

from .op_samples import SAMPLES, Sample

CORE = {
    name: primitive
    for name, primitive in tt.ops.items()
    if primitive.function.__module__.startswith("tinytensor.") and ".nn." not in primitive.function.__module__
}


@pytest.mark.parametrize("name", sorted(CORE))
def test_op_has_samples(name):
    assert SAMPLES.get(name), f"op {name} has no sample inputs: register some in tests/tinytensor/op_samples.py"


@pytest.mark.parametrize("name", sorted(CORE))
def test_op_has_an_empty_sample(name):
    has_empty_sample(name)


def has_empty_sample(name):
    sizes = [x.size for sample in SAMPLES.get(name, []) for x in sample.inputs if isinstance(x, np.ndarray)]
    assert 0 in sizes, f"op {name} has no sample with an empty array: register one"


def cases(names):
    return [
        pytest.param(sample, id=f"{name}-{i}", marks=[pytest.mark.slow] * sample.slow)
        for name in sorted(names)
        for i, sample in enumerate(SAMPLES.get(name, []))
    ]


def place(value, device):
    return tt.asarray(value, device=device) if hasattr(value, "dtype") else value


@pytest.mark.samples("sample", cases(CORE))
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


def outcome(sample, inputs):
    """The result and the gradients, as NumPy arrays."""
    out = sample.function(*inputs, **sample.params)
    found = [out]
    if out.requires_grad:
        leaves = [x for x in inputs if isinstance(x, tt.Tensor) and x.requires_grad]
        found += tt.grad(out, leaves, tt.ones_like(out), allow_unused=True)
    return [f.numpy() for f in found if f is not None]


@pytest.mark.samples("sample", [case for case in cases(CORE) if case.values[0].repeats])
def test_broadcast_views(sample: Sample, device):
    """Inputs that are one row, repeated by broadcasting without a copy, give what their copies give."""
    views, copies = [], []
    for x in (place(x, device) for x in sample.inputs):
        if isinstance(x, tt.Tensor):
            x = tt.broadcast_to(x[:1], x.shape) if x.ndim and x.shape[0] else x
        views.append(x.detach().requires_grad_(x.dtype == tt.float64) if isinstance(x, tt.Tensor) else x)
        copies.append(x.clone().requires_grad_(x.dtype == tt.float64) if isinstance(x, tt.Tensor) else x)
    for found, expected in zip(outcome(sample, views), outcome(sample, copies), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(CORE))
def test_kept_arrays_are_needed(name, device):
    """Every array that an op keeps is read by its gradient, in at least one of its samples."""
    needed: dict[str, bool] = {}
    for sample in SAMPLES.get(name, []):
        inputs = [place(x, device) for x in sample.inputs]
        found = kept_needed(sample.function, *inputs, differentiable=sample.differentiable, **sample.params)
        needed = {kept: needed.get(kept, False) or found.get(kept, False) for kept in {*needed, *found}}
    assert not [kept for kept, read in needed.items() if kept.startswith(f"{name}.") and not read]
