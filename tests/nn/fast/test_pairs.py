"""The fast pairs of the fused ops, each against its formula."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import fast
from tinytensor.testing import kept_needed

from ...tinytensor.op_samples import SAMPLES
from ...tinytensor.test_ops import place
from ..test_ops import NN


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
def test_samples_use_the_op(name):
    for i, sample in enumerate(SAMPLES[name]):
        inputs = [tt.tensor(x, requires_grad=x.dtype.kind == "f") if hasattr(x, "dtype") else x for x in sample.inputs]
        assert name in ops_behind(sample.function(*inputs, **sample.params)), f"sample {i} of {name} does not use it"


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
        "attention", "convolution", "cross_entropy", "dropout", "embedding", "gelu",
        "gelu_tanh", "gru", "layer_norm", "linear", "log_softmax", "lstm", "max_pool", "multi_head", "relu",
        "rms_norm", "rnn", "silu", "softmax", "through",
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


def test_functions_have_names_that_a_traceback_can_show():
    """`_`, `part` and `call` would say nothing there."""
    for name in FUSED:
        primitive = tt.ops[name]
        if primitive.fast_forward.__module__.startswith("tinytensor.nn.fast."):
            assert primitive.fast_forward.__name__ == f"{name}_forward"
            assert primitive.fast_backward.__name__ == f"{name}_backward"
    for path in Path(fast.__file__).parent.glob("*.py"):
        names = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
        assert not names & {"_", "part", "call"}, path.name
