"""A table of a model: what it says, and that the model is afterwards as before."""

import tinytensor as tt
from tinytensor import nn

MODEL = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))


def test_what_a_row_says():
    found = nn.summary(MODEL, tt.ones((5, 1, 4, 4)))
    assert [tuple(row) for row in found] == [
        ("", "Sequential", "(5, 3)", 51), ("0", "Conv2d", "(5, 2, 2, 2)", 20), ("1", "BatchNorm2d", "(5, 2, 2, 2)", 4),
        ("2", "Flatten", "(5, 8)", 0), ("3", "Linear", "(5, 3)", 27),
    ]  # fmt: skip
    assert (found.parameters, found.trainable, len(found)) == (51, 51, 5)


def test_without_inputs_it_has_no_shapes():
    MODEL[3].requires_grad_(False)
    try:
        text = repr(nn.summary(MODEL))
    finally:
        MODEL[3].requires_grad_(True)
    assert text.splitlines()[0].split() == ["module", "class", "parameters"]
    assert text.splitlines()[-1] == "51 parameters, 27 of them without a gradient"


def test_the_model_stays_as_it_was():
    MODEL.train()
    MODEL[2].eval()
    before = {name: value.numpy().copy() for name, value in MODEL.state_dict().items()}
    nn.summary(MODEL, tt.ones((5, 1, 4, 4)))
    assert [module.training for module in MODEL] == [True, True, False, True]
    assert all((MODEL.state_dict()[name].numpy() == value).all() for name, value in before.items())
    assert not any(module._forward_hooks for module in MODEL.modules())


def test_shapes_of_several_results_and_shared_weights():
    layer = nn.MultiheadAttention(8, 2)
    x = tt.ones((3, 1, 8))
    rows = nn.summary(layer, x, x, x, need_weights=True)
    assert rows[0].shape == "(3, 1, 8), (1, 3, 3)"
    linear = nn.Linear(4, 4)
    assert nn.summary(nn.Sequential(linear, linear), tt.ones(4)).parameters == 20
