"""Common mistakes with modules, losses and optimisers: each is told in words, where it is made."""

import warnings

import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn

LOGITS, TARGET = tt.ones((4, 3)), tt.asarray([0, 1, 2, 0])


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: nn.Linear(3, 4)(tt.arange(3)), TypeError, "linear: expected floats, got int64 of shape (3,); write"),
        (lambda: F.linear(tt.ones((2, 3), dtype=bool), tt.ones((4, 3))), TypeError, "linear: expected floats, got "),
        (lambda: nn.Linear(2.0, 3), TypeError, "Linear: in_features must be an integer, got 2.0"),
        (lambda: nn.Linear(2, "3"), TypeError, "Linear: out_features must be an integer, got '3'"),
        (lambda: nn.Embedding(3.0, 4), TypeError, "Embedding: num_embeddings must be an integer, got 3.0"),
        (lambda: nn.LayerNorm(4.0), TypeError, "LayerNorm: normalized_shape must be an integer or integers, got 4.0"),
        (lambda: nn.MultiheadAttention(8, 2.0), TypeError, "MultiheadAttention: num_heads must be an integer, got 2.0"),
        (lambda: tt.zeros((2.0, 3)), TypeError, "zeros: a shape is made of integers, got (2.0, 3)"),
        (lambda: tt.zeros(2.0), TypeError, "zeros: a shape is made of integers, got (2.0,)"),
        (lambda: tt.tensor([None]), TypeError, "tensor: cannot make a Tensor of None; expected numbers"),
        (lambda: tt.sum(LOGITS, axis="a"), TypeError, "sum: axis must be an integer, got 'a'"),
        (lambda: LOGITS.transpose(0, 2), IndexError, "transpose: axis2 2 is out of range for a Tensor of shape (4, 3)"),
        (lambda: nn.optim.Adam(nn.Linear(2, 2)), TypeError, "Adam: expected Tensors, got a Linear; write Adam("),
        (lambda: nn.optim.SGD(nn.Linear(2, 2).parameters, lr=1.0), TypeError, "SGD: expected Tensors, got a method"),
        (lambda: nn.optim.Adam([]), ValueError, "Adam: the list of parameters is empty (a module sees the layers that"),
        (lambda: nn.CrossEntropyLoss(LOGITS, TARGET), TypeError, "CrossEntropyLoss is a module: make one, then call"),
        (lambda: nn.NLLLoss(LOGITS, TARGET), TypeError, "NLLLoss is a module: make one, then call it: NLLLoss()(input"),
        (lambda: nn.MSELoss(LOGITS, LOGITS), TypeError, "MSELoss is a module: make one, then call it: MSELoss()(input"),
        (lambda: nn.BCEWithLogitsLoss(LOGITS, LOGITS), TypeError, "BCEWithLogitsLoss is a module: make one, then call"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_in_words(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["cuda", "half", "get_parameter"])
def test_a_method_of_pytorchs_modules_says_what_to_write(name):
    layer = nn.Linear(2, 2)
    assert not hasattr(layer, name)
    with pytest.raises(AttributeError, match=rf"'Linear' object has no attribute '{name}'; write .*module\."):
        getattr(layer, name)


class Stack(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.layers = layers


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            [nn.Linear(2, 2)],
            r"Stack\.layers is a plain list, .*parameters of its Linear are not.*nn\.ModuleList",
        ),
        ({"a": nn.Linear(2, 2)}, r"Stack\.layers is a plain dict, .*nn\.ModuleDict"),
        ((1, nn.Parameter(tt.ones(2))), r"Stack\.layers is a plain tuple, .*its Parameter"),
    ],
)
def test_layers_in_a_plain_list_are_told_once(layers, message):
    model = nn.Sequential(Stack(layers))
    with pytest.warns(UserWarning, match=message) as caught:
        optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
    assert len(caught) == 1
    assert len(optimizer.param_groups[0]["params"]) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(model.parameters())) == 2


def test_a_list_that_is_filled_later_is_told_too():
    model = Stack([])
    model.layers.append(nn.Linear(2, 2))
    with pytest.warns(UserWarning, match="plain list"):
        list(model.parameters())


def test_a_list_of_layers_that_are_found_elsewhere_is_nobodys_business():
    model = Stack([1, "two"])
    model.layers = [model.first, model.first.weight]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(model.parameters())) == 2
