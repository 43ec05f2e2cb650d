"""The suite that is generated from the op registry, for the ops of `nn`; see `tests/tinytensor/test_ops.py`."""

import inspect

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.testing import check_op, kept_needed

from ..tinytensor.op_samples import SAMPLES, Sample
from ..tinytensor.test_ops import cases, outcome, place
from . import op_samples  # noqa: F401  (registers the samples)

NN = {
    name: primitive for name, primitive in tt.ops.items() if primitive.function.__module__.startswith("tinytensor.nn.")
}


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
        assert name in ops_behind(sample.function(*inputs, **sample.params)), f"sample {i} of {name} does not use it"


@pytest.mark.parametrize("sample", cases(NN))
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


@pytest.mark.parametrize("sample", [case for case in cases(NN) if case.values[0].repeats])
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


@pytest.mark.parametrize("name", sorted(NN))
def test_kept_arrays_are_needed(name, device):
    """Every array that an op keeps is read by its gradient, in at least one of its samples."""
    needed: dict[str, bool] = {}
    for sample in SAMPLES[name]:
        inputs = [place(x, device) for x in sample.inputs]
        found = kept_needed(sample.function, *inputs, differentiable=sample.differentiable, **sample.params)
        needed = {kept: needed.get(kept, False) or found.get(kept, False) for kept in {*needed, *found}}
    assert not [kept for kept, read in needed.items() if kept.startswith(f"{name}.") and not read]


FUSED = sorted(name for name, primitive in tt.ops.items() if not primitive.pure)


def test_the_fast_pairs():
    """A new one belongs on this list, and its formula and samples are looked for below."""
    assert FUSED == [
        "attention", "cross_entropy", "dropout", "embedding", "gelu", "gelu_tanh", "gru", "layer_norm", "linear",
        "log_softmax", "lstm", "multi_head", "relu", "rnn", "softmax",
    ]  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_a_fast_pair_has_a_formula(name, monkeypatch):
    """A fused op has both halves of its pair, with the formula's parameters, and the formula gives the same numbers.

    That the formula is one, not the fast path once more: it is made of other ops.
    """
    primitive = tt.ops[name]
    assert primitive.fast_forward is not None
    assert primitive.fast_backward is not None
    wanted = list(inspect.signature(primitive.function).parameters.values())
    assert list(inspect.signature(primitive.fast_forward).parameters.values())[1:] == wanted
    options = [p for p in wanted if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert list(inspect.signature(primitive.fast_backward).parameters.values())[4:] == options
    compared = 0
    for sample in SAMPLES[name]:
        inputs = [tt.tensor(x, requires_grad=x.dtype.kind == "f") if hasattr(x, "dtype") else x for x in sample.inputs]
        fast = sample.function(*inputs, **sample.params)
        assert name in ops_behind(fast)
        with monkeypatch.context() as patch:
            patch.setattr(primitive, "fast_forward", None)
            slow = sample.function(*inputs, **sample.params)
        assert name not in ops_behind(slow)
        np.testing.assert_allclose(fast.detach().numpy(), slow.detach().numpy(), rtol=1e-10, atol=1e-10)
        compared += slow.size > 0 and len(ops_behind(slow) - {"leaf"}) > 0
    assert compared


def test_every_function_is_public():
    for name in nn.functional.__all__:
        assert callable(getattr(nn.functional, name))
