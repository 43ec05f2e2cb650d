"""Second derivatives of every layer and loss, of the input and of all parameters at once, against differences of first.

For a random direction d the product H d of the Hessian, which two backward passes give, is compared with the change of
the gradient along d: one product for each layer, so that all of them take a second.
"""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn

from ..tinytensor.graph.test_truth import LAYERS, NO_LAYERS, layers_to_draw

STEP = 1e-6
TARGETS = {  # of an input (4, 3): the losses that end a graph
    nn.CrossEntropyLoss: [2, 0, 1, 1],
    nn.NLLLoss: [2, 0, 1, 1],
    nn.CosineEmbeddingLoss: [1, -1, 1, -1],
}
CONTAINERS = {nn.Module, nn.ModuleList, nn.ModuleDict, nn.ParameterList}


def gradients(function, leaves, weights, create_graph=False):
    """Those of a weighed sum of the function's results, with the same random numbers at every call."""
    tt.manual_seed(5)
    out = function()
    found = tt.grad(tt.sum(out * weights(out)), leaves, allow_unused=True, create_graph=create_graph)
    return [tt.zeros_like(x) if g is None else g for x, g in zip(leaves, found)]


def check_hessian(function, leaves, rng):
    """H d by two backward passes is the difference of the gradients at x + d and x - d, both small."""
    drawn = {}

    def weights(out):
        return drawn.setdefault("weights", tt.asarray(rng.uniform(0.5, 1.5, out.shape)))

    direction = [tt.asarray(rng.normal(size=x.shape)) for x in leaves]
    first = gradients(function, leaves, weights, create_graph=True)
    for a, b in zip(first, gradients(function, leaves, weights)):
        np.testing.assert_allclose(
            a.numpy(), b.numpy(), rtol=1e-9, atol=1e-9
        )  # one gradient, whichever way it is taken
    along = sum((tt.sum(g * d) for g, d in zip(first, direction)), tt.asarray(0.0, dtype=tt.float64))
    found = tt.grad(along, leaves, allow_unused=True) if along.requires_grad else [None] * len(leaves)

    def at(step):
        with tt.no_grad():
            for x, d in zip(leaves, direction):
                x += step * d
        return gradients(function, leaves, weights)

    ahead, behind = at(STEP), at(-2 * STEP)
    for x, h, a, b in zip(leaves, found, ahead, behind):
        expected = (a - b).numpy() / (2 * STEP)
        np.testing.assert_allclose(np.zeros(x.shape) if h is None else h.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: getattr(layer, "__name__", str(layer)))
def test_of_a_layer(layer):
    rng = np.random.default_rng(3)
    tt.manual_seed(3)
    model = layers_to_draw(rng)[layer]().double()
    x = tt.tensor(rng.normal(size=(2, 3, 4)), requires_grad=True)
    check_hessian(lambda: tt.asarray(model(x)), [x, *(p for p in model.parameters() if p.requires_grad)], rng)


@pytest.mark.parametrize("loss", sorted(NO_LAYERS - CONTAINERS, key=lambda loss: loss.__name__))
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_of_a_loss(loss, reduction):
    rng = np.random.default_rng(4)
    x = tt.tensor(rng.uniform(0.1, 0.9, (4, 3)), requires_grad=True)
    y = tt.tensor(rng.uniform(0.1, 0.9, (4, 3)), requires_grad=loss not in (nn.CrossEntropyLoss, nn.NLLLoss))
    criterion = loss(reduction=reduction)
    if loss is nn.CosineEmbeddingLoss:
        check_hessian(lambda: criterion(x, y, TARGETS[loss]), [x, y], rng)
    elif loss in TARGETS:
        check_hessian(lambda: criterion(x, TARGETS[loss]), [x], rng)
    else:
        check_hessian(lambda: criterion(x, y), [x, y], rng)
