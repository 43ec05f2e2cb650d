"""Attribution: what it is by hand, its axioms, and every model of the library."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Encoder, LanguageModel, Seq2Seq, Transformer
from tinytensor.models.attribution import at_embeddings, gradient_times_input, integrated_gradients
from tinytensor.models.language_model import LLAMA
from tinytensor.nn import functional as F

SIZES = {"d_model": 8, "num_heads": 2, "num_layers": 2}
PAIR = [[3, 4, 5]], [[1, 6, 7, 8]]
MODELS = {
    "language model": (LanguageModel, {**SIZES}, ([[1, 5, 6, 7]],)),
    "llama": (LanguageModel, {**SIZES, **LLAMA}, ([[1, 5, 6, 7]],)),
    "encoder": (Encoder, {**SIZES}, ([[1, 5, 6, 7]],)),
    "transformer": (Transformer, {**SIZES}, PAIR),
    "shared embeddings": (Transformer, {**SIZES, "share_embeddings": True, "tie_weights": True}, PAIR),
    "recurrent": (Seq2Seq, {"d_model": 8}, PAIR),
}


@pytest.fixture(params=MODELS)
def case(request):
    """A model in float64 that is not near 0, and what it is called with."""
    tt.manual_seed(0)
    kind, sizes, inputs = MODELS[request.param]
    model = kind(11, dropout=0.5, **sizes).double()
    with tt.no_grad():
        for parameter in model.parameters():
            parameter *= 2
    return model, inputs


def scored(model, inputs, at=-1, token=7):
    result, embeddings = at_embeddings(model, *inputs)
    return lambda *x: F.log_softmax(result(*x)[0, at], dim=-1)[token], embeddings


def test_the_function_of_embeddings_is_the_model(case):
    model, inputs = case
    result, embeddings = at_embeddings(model, *inputs)
    assert [x.shape for x in embeddings] == [(1, len(ids[0]), 8) for ids in inputs]
    assert model.training
    np.testing.assert_array_equal(result(*embeddings).numpy(), model.eval()(*inputs).numpy())
    assert abs(result(*[2 * x for x in embeddings]) - result(*embeddings)).max() > 1e-3
    assert not any(module._forward_hooks for module in model.modules())


def test_integrated_gradients_add_up_to_the_difference_of_outputs(case):
    """Completeness (Sundararajan et al. 2017, proposition 1), from a baseline with few kinks on the way."""
    model, inputs = case
    output, embeddings = scored(model, inputs)
    baselines = [0.98 * x for x in embeddings]
    found = integrated_gradients(output, *embeddings, baselines=baselines, steps=200)
    assert [x.shape for x in found] == [(1, len(ids[0])) for ids in inputs]
    difference = float(output(*embeddings) - output(*baselines))
    assert abs(difference) > 1e-4
    assert sum(float(x.sum()) for x in found) == pytest.approx(difference, rel=1e-2)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_it_is_exact_from_zeros_where_nothing_has_kinks():
    tt.manual_seed(0)
    model = LanguageModel(11, **SIZES).double()
    with tt.no_grad():
        for parameter in model.parameters():
            parameter *= 3
    output, (x,) = scored(model, ([[1, 5, 6, 7]],))
    (found,) = integrated_gradients(output, x)
    assert float(found.sum()) == pytest.approx(float(output(x) - output(tt.zeros_like(x))), rel=1e-4)


def test_of_a_linear_output_both_are_the_shares_of_its_sum():
    x, w = tt.random.randn(2, 5, 3, dtype=tt.float64), tt.random.randn(5, 3, dtype=tt.float64)
    expected = (x * w).numpy().sum(-1)
    for method in (gradient_times_input, integrated_gradients):
        (found,) = method(lambda e: (e * w).sum(), x)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_of_a_product_by_hand():
    """f = Σ a b: the gradient at the end counts all of it twice, the mean of gradients once."""
    a, b = tt.asarray([[2.0, 1.0]]), tt.asarray([[3.0, 4.0]])
    assert [x.item() for x in gradient_times_input(lambda a, b: (a * b).sum(), a, b)] == [10, 10]
    assert [x.item() for x in integrated_gradients(lambda a, b: (a * b).sum(), a, b)] == pytest.approx([5, 5])
    found = integrated_gradients(lambda a, b: (a * b).sum(), a, b, baselines=[a, tt.zeros(2)])
    assert [x.item() for x in found] == pytest.approx([0, 10])


def test_gradients_are_taken_even_where_none_are_recorded():
    layer = nn.Linear(3, 1)
    x = tt.tensor(tt.random.randn(4, 3), requires_grad=True)
    with tt.no_grad():
        (found,) = gradient_times_input(lambda e: layer(e).sum(), x)
    assert found.shape == (4,)
    assert x.grad is layer.weight.grad is None


def test_the_token_that_decides_has_the_largest_share():
    """A model by hand, which looks at the second token alone."""
    weight = tt.random.randn(8, 11)
    (found,) = integrated_gradients(lambda e: (tt.tanh(e[0, 1]) @ weight)[3], tt.random.randn(1, 4, 8))
    assert np.flatnonzero(found.numpy()[0]).tolist() == [1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"steps": 0}, "0 steps, 1 baselines for 1 embeddings; expected 1 step or more, and as many baselines"),
        ({"baselines": []}, "0 baselines for 1 embeddings"),
    ],
)
def test_what_is_refused(options, told):
    with pytest.raises(ValueError, match=told):
        integrated_gradients(lambda e: e.sum(), tt.ones((2, 3)), **options)


def test_an_output_of_several_elements_is_refused():
    with pytest.raises(RuntimeError, match="grad"):
        gradient_times_input(lambda e: e.sum(-1), tt.ones((2, 3)))
