"""The fast pairs of the recurrences, on several threads."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.fast import threads as parallel
from tinytensor.fast.compiler import rows as compiled_rows
from tinytensor.nn.fast import recurrent

from ..test_recurrent import BATCH, INPUT, KINDS, LENGTH, close, initial, make, normal, states


@pytest.mark.parametrize("kind", KINDS)
def test_several_threads_compute_what_one_does(kind, monkeypatch):
    layer = make(kind, num_layers=2, bidirectional=True)
    x = normal(LENGTH, BATCH, INPUT)

    def run():
        layer.zero_grad()
        leaf = tt.tensor(x, requires_grad=True)
        found = states(layer(leaf, initial(layer), lengths=[3, 5, 4]))
        sum((s * s).sum() for s in found).backward()
        return [*found, leaf.grad, *(p.grad for p in layer.parameters())]

    expected, parts, former = run(), [], tt.get_num_threads()
    monkeypatch.setattr(parallel, "_blas_is_single", True)
    monkeypatch.setattr(parallel, "GRAIN", 1)
    monkeypatch.setattr(recurrent, "SEQUENCES", 1)
    order = recurrent._order
    monkeypatch.setattr(recurrent, "_order", lambda *a: parts.append(a) or order(*a))
    tt.set_num_threads(2)
    try:
        for a, b in zip(run(), expected):
            close(a, b)
    finally:
        tt.set_num_threads(former)
    assert len(parts) == 2 * 2 * 2 * 2  # layers, directions, forward and backward, and two parts of the batch


def test_a_weight_that_was_changed_before_backward_is_named_with_the_op():
    layer = make("GRU")
    output, _ = layer(tt.asarray(normal(LENGTH, BATCH, INPUT)))
    with tt.no_grad():
        layer.weight_hh_l0 += 1.0
    with pytest.raises(RuntimeError, match="gru .* was changed in place"):
        output.sum().backward()


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_a_compiled_cell_computes_what_the_formula_does(kind, dtype, monkeypatch):
    pytest.importorskip("llvmlite")
    called = []
    rows = compiled_rows.Rows.__call__
    monkeypatch.setattr(compiled_rows.Rows, "__call__", lambda self, *a: called.append(1) or rows(self, *a))
    layer = make(kind, dtype=dtype, sizes=(8, 40), bidirectional=True)
    x = normal(11, 16, 8)
    weights = normal(11, 16, 80, seed=1)

    def run():
        layer.zero_grad()
        leaf = tt.tensor(x, dtype=dtype, requires_grad=True)
        found = states(layer(leaf, lengths=[*range(1, 12), 11, 11, 3, 5, 2]))
        ((found[0] * tt.asarray(weights, dtype=dtype)).sum() + sum((s * s).sum() for s in found)).backward()
        return [*found, leaf.grad, *(p.grad for p in layer.parameters())]

    fast = run()
    assert len(called) == 2 * 2 * 11  # directions, forward and backward, and steps
    with tt.textbook():
        expected = run()
    for a, b in zip(fast, expected, strict=True):
        close(a, b, 2e-4 if dtype == tt.float32 else 1e-11)


def test_a_cell_of_large_numbers_neither_overflows_nor_warns():
    pytest.importorskip("llvmlite")
    layer = make("LSTM", dtype=tt.float32, sizes=(8, 64))
    output, _ = layer(tt.asarray(normal(8, 32, 8) * 1e6, dtype=tt.float32))
    assert abs(output.detach().numpy()).max() <= 1
    output.sum().backward()
    assert all(np.isfinite(p.grad.numpy()).all() for p in layer.parameters())
