"""The fast pairs of the recurrences, on several threads."""

import pytest

import tinytensor as tt
from tinytensor.fast import threads as parallel
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
