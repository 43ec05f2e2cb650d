"""The suite that is generated from the op registry: every sample of every op through every check.

An op without samples fails. Other packages register theirs in `op_samples` and import `OpSuite`.
"""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.testing import check_op, kept_unread

from .op_samples import SAMPLES, Sample

CORE = {
    name: primitive for name, primitive in tt.ops.items() if primitive.function.__module__.startswith("tinytensor.")
}


@pytest.mark.parametrize("name", sorted(CORE))
def test_op_has_samples(name):
    assert SAMPLES.get(name), f"op {name} has no sample inputs: register some in tests/tinytensor/op_samples.py"


def cases(names):
    return [pytest.param(s, id=f"{n}-{i}") for n in sorted(names) for i, s in enumerate(SAMPLES.get(n, []))]


def place(value, device):
    return tt.asarray(value, device=device) if hasattr(value, "dtype") else value


@pytest.mark.parametrize("sample", cases(CORE))
def test_op(sample: Sample, device):
    check_op(
        sample.function,
        *sample.inputs,
        reference=sample.reference,
        differentiable=sample.differentiable,
        second_order=sample.second_order,
        every_kept=False,
        device=device,
    )


@pytest.mark.parametrize("sample", cases(CORE))
def test_broadcast_views(sample: Sample, device):
    if not sample.constant:
        pytest.skip("the function is not smooth where its inputs repeat")
    views = [
        np.broadcast_to(x[:1], x.shape) if isinstance(x, np.ndarray) and x.ndim and x.shape[0] else x
        for x in sample.inputs
    ]
    raw = [place(x, device) if isinstance(x, np.ndarray) else x for x in sample.inputs]
    results = []
    for contiguous in (False, True):
        inputs = []
        for x, given in zip(raw, views):
            if isinstance(given, np.ndarray):
                x = tt.broadcast_to(x[:1], x.shape).detach() if x.ndim and x.shape[0] else x.detach()
                x = x.clone() if contiguous else x
                if x.dtype == tt.float64:
                    x = x.requires_grad_()
            inputs.append(x)
        out = sample.function(*inputs)
        leaves = [x for x in inputs if isinstance(x, tt.Tensor) and x.requires_grad]
        found = [out]
        if out.requires_grad:
            found += tt.grad(out, leaves, tt.ones_like(out), allow_unused=True)
        results.append([f.numpy() for f in found if f is not None])
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(CORE))
def test_kept_arrays_are_needed(name, device):
    """Every array that an op keeps is read by its gradient, in at least one of its samples."""
    reports = []
    for sample in SAMPLES.get(name, []):
        inputs = [place(x, device) for x in sample.inputs]
        reports.append(kept_unread(sample.function, *inputs, differentiable=sample.differentiable))
    unread = set.intersection(*reports) if reports else set()
    assert not {u for u in unread if u.startswith(f"{name}.")}
