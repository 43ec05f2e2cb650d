"""Losses of differences, of probabilities and of likeness, and distances, beside PyTorch's."""

import itertools

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn

from .test_functional_parity import REDUCTIONS, close, compare, normal, theirs, torch, uniform

X, Y = normal(4, 6), normal(4, 6, seed=1)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_differences(reduction):
    compare("l1_loss", X, Y, reduction=reduction, second_order=False)
    for size in (1.0, 0.3, 2.5):
        compare("smooth_l1_loss", X, Y, reduction=reduction, beta=size)
        compare("huber_loss", X, Y, reduction=reduction, delta=size)
    compare("smooth_l1_loss", X, Y, reduction=reduction, beta=0, second_order=False)
    weight = uniform(4, 6, seed=2)
    compare("mse_loss", X, Y, reduction=reduction, weight=weight)
    compare("l1_loss", X, Y, reduction=reduction, weight=weight, second_order=False)
    compare("huber_loss", X, Y, reduction=reduction, weight=weight)
    with pytest.raises(ValueError, match=r"mse_loss: weight \(6,\) must have the shape of the losses, \(4, 6\)"):
        nn.functional.mse_loss(X, Y, weight=weight[0])


@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
@pytest.mark.filterwarnings("ignore:reduction")
def test_kl_div(reduction):
    log_q, p = np.log(uniform(4, 6) / 6), uniform(4, 6, seed=1) / 6
    compare("kl_div", log_q, p, reduction=reduction)
    compare("kl_div", log_q, np.log(p), reduction=reduction, log_target=True)
    compare("kl_div", log_q, np.round(p * 9), reduction=reduction, without=(1,), second_order=False)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy(reduction):
    x, y = 0.1 + 0.8 * uniform(4, 6), uniform(4, 6, seed=1)  # away from 0, where PyTorch adds 1e-12
    compare("binary_cross_entropy", x, y, reduction=reduction)
    compare("binary_cross_entropy", x, y, reduction=reduction, weight=uniform(6, seed=2))


def test_binary_cross_entropy_of_what_was_certain():
    certain, found = np.array([0.0, 1.0, 0.0, 1.0, 1e-60]), np.array([0.0, 0.0, 1.0, 1.0, 0.5])
    x, other = tt.tensor(certain, requires_grad=True), torch.tensor(certain, requires_grad=True)
    loss = nn.functional.binary_cross_entropy(x, tt.asarray(found), reduction="none")
    expected = theirs.binary_cross_entropy(other, torch.tensor(found), reduction="none")
    close(loss, expected)
    loss.sum().backward()
    expected.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), other.grad.numpy(), rtol=1e-8)  # its 1e-12 is that of a float32


@pytest.mark.parametrize(("reduction", "margin"), list(itertools.product(REDUCTIONS, (0.0, 0.3, -0.5))))
def test_cosine_embedding(reduction, margin):
    target = np.array([1, -1, -1, 1])
    compare("cosine_embedding_loss", X, Y, target, margin=margin, reduction=reduction)
    compare("cosine_embedding_loss", X[0], Y[0], np.array(-1), margin=margin, reduction=reduction)


@pytest.mark.parametrize("p", [2.0, 1.0, 3.5, float("inf")])
def test_distances(p):
    compare("pairwise_distance", X, Y, p=p, second_order=p not in (1.0, float("inf")))
    compare("pairwise_distance", X, Y[0], p=p, keepdim=True, second_order=p not in (1.0, float("inf")))
    compare("normalize", X, p=p)
    compare("normalize", X, p=p, dim=0)


def test_one_hot():
    for ids, classes in (([[1, 3], [0, 1]], -1), ([1, 0], 4), (2, -1)):
        found = nn.functional.one_hot(tt.asarray(ids), classes)
        expected = theirs.one_hot(torch.tensor(ids), classes)
        assert (found.tolist(), str(found.dtype)) == (expected.tolist(), "int64")


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (lambda nn: nn.L1Loss(reduction="sum"), (X, Y)),
        (lambda nn: nn.SmoothL1Loss(beta=0.5), (X, Y)),
        (lambda nn: nn.HuberLoss("none", 0.5), (X, Y)),
        (lambda nn: nn.KLDivLoss(reduction="batchmean"), (-abs(X), abs(Y))),
        (lambda nn: nn.KLDivLoss(reduction="sum", log_target=True), (-abs(X), -abs(Y))),
        (lambda nn: nn.BCELoss(reduction="sum"), (uniform(3), uniform(3, seed=1))),
        (lambda nn: nn.CosineEmbeddingLoss(0.2), (X, Y, np.array([1, -1, 1, -1]))),
        (lambda nn: nn.CosineSimilarity(0), (X, Y)),
        (lambda nn: nn.PairwiseDistance(1.0, keepdim=True), (X, Y)),
    ],
)
def test_modules(make, inputs):
    ours, other = make(nn), make(torch.nn)
    assert repr(ours) == repr(other)
    assert list(ours.state_dict()) == list(other.state_dict())
    close(ours(*map(tt.asarray, inputs)), other(*map(torch.tensor, inputs)))


def test_the_weight_of_a_bce_is_in_its_state():
    ours, other = nn.BCELoss(tt.ones(3)), torch.nn.BCELoss(torch.ones(3))
    assert list(ours.state_dict()) == list(other.state_dict()) == ["weight"]
