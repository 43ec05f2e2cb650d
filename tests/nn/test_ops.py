"""The suite that is generated from the op registry, for the ops that `nn` declares; see `tests/tinytensor/test_ops.py`."""

import numpy as np
import pytest

import nn
import tinytensor as tt
from tinytensor.testing import check_op, kept_unread

from ..tinytensor.op_samples import SAMPLES, Sample
from . import op_samples  # noqa: F401  (registers the samples)

NN = {name: primitive for name, primitive in tt.ops.items() if primitive.function.__module__.startswith("nn.")}


def cases():
    return [pytest.param(s, id=f"{name}-{i}") for name in sorted(NN) for i, s in enumerate(SAMPLES.get(name, []))]


def place(value, device):
    return tt.asarray(value, device=device) if hasattr(value, "dtype") else value


def ops_behind(out):
    """The names of the ops that a Tensor was computed with."""
    seen, stack = set(), [out._node]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            stack.extend(node.parents)
    return {node.name for node in seen}


@pytest.mark.parametrize("name", sorted(NN))
def test_op_has_samples_that_use_it(name):
    assert SAMPLES.get(name), f"op {name} has no sample inputs: register some in tests/nn/op_samples.py"
    for i, sample in enumerate(SAMPLES[name]):
        inputs = [tt.tensor(x, requires_grad=x.dtype.kind == "f") if hasattr(x, "dtype") else x for x in sample.inputs]
        assert name in ops_behind(sample.function(*inputs)), f"sample {i} of {name} does not use it"


@pytest.mark.parametrize("sample", cases())
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


@pytest.mark.parametrize("sample", cases())
def test_broadcast_views(sample: Sample, device):
    """Inputs whose rows are one row repeated in memory give what copies of them give."""
    results = []
    for contiguous in (False, True):
        inputs = []
        for x in sample.inputs:
            if hasattr(x, "dtype"):
                x = tt.asarray(x, device=device)
                if x.dtype.kind == "f" and x.ndim and x.shape[0]:
                    x = tt.broadcast_to(x[:1], x.shape).detach()
                x = x.clone() if contiguous else x
                x = x.requires_grad_() if x.dtype.kind == "f" else x
            inputs.append(x)
        out = sample.function(*inputs)
        leaves = [x for x in inputs if isinstance(x, tt.Tensor) and x.requires_grad]
        results.append([out, *tt.grad(out, leaves, tt.ones_like(out), allow_unused=True)])
    for a, b in zip(*results):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(NN))
def test_kept_arrays_are_needed(name, device):
    """Every array that an op keeps is read by its gradient, in at least one of its samples."""
    reports = []
    for sample in SAMPLES[name]:
        inputs = [place(x, device) for x in sample.inputs]
        if sample.differentiable != [] and all(x.size for x in inputs if isinstance(x, tt.Tensor)):
            reports.append(kept_unread(sample.function, *inputs, differentiable=sample.differentiable))
    assert not {unread for unread in set.intersection(*reports) if unread.startswith(f"{name}.")}


def test_a_formula_stands_beside_every_fast_pair():
    fused = {name for name, primitive in NN.items() if not primitive.pure}
    assert fused >= {"attention", "cross_entropy", "embedding", "gelu", "layer_norm", "linear", "multi_head", "softmax"}
    for name in fused:
        assert NN[name].fast_forward is not None, name
        assert NN[name].fast_backward is not None, name


def test_every_function_is_public():
    for name in nn.functional.__all__:
        assert callable(getattr(nn.functional, name))
