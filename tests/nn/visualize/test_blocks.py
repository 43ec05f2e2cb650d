"""Layers as blocks and as neurons: their sizes, weights and numbers are those of the layer."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

from .drawing import Read


def test_blocks_are_the_arrays_on_the_longest_path():
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
    with tt.record() as graph:
        model(tt.ones((2, 5, 8))).sum()
    picture = Read(visualize.blocks(graph, title="Way"))
    assert picture.texts("op") == ["linear", "gelu", "linear", "sum"]
    assert picture.titles()[1:] == ["2×5×8", "2×5×32", "2×5×32", "2×5×8", "a number"]
    assert picture.texts("size")[:6] == ["8", "5", "2", "32", "5", "2"]
    assert picture.root.findtext("{http://www.w3.org/2000/svg}title") == "Way"


def test_a_long_path_goes_on_below_and_skips_parameters():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    with tt.record() as graph:
        layer(tt.ones((2, 5, 8)))
    picture = Read(visualize.blocks(graph))
    assert picture.width <= 900
    assert len(picture.all("path", "block")) == len(picture.texts("op")) + 1 == 11
    assert "parameter" not in str(visualize.blocks(graph))


def test_blocks_of_what_is_no_graph_or_too_long():
    with pytest.raises(TypeError, match=r"blocks: got a Linear; expected a graph, as `with tt\.record\(\) as graph"):
        visualize.blocks(nn.Linear(1, 1))
    with tt.record() as empty:
        pass
    with tt.record() as long:
        x = tt.ones((2,))
        for _ in range(40):
            x = tt.sin(x)
    for graph, count in ((empty, 0), (long, 41)):
        with pytest.raises(ValueError, match=f"longest path has {count} arrays; expected 1 to 40: record"):
            visualize.blocks(graph)


class Functional(nn.Module):
    """Linear layers with a function between them that is no module."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2, bias=False)

    def forward(self, x):
        return F.relu(self.first(x)) @ self.second.weight.mT


def weights(picture):
    return [float(title.removeprefix("weight ")) for title in picture.titles() if title.startswith("weight ")]


NUMBERS = [1.0, -2.0, 0.5]


@pytest.mark.parametrize("x", [NUMBERS, [NUMBERS], np.array(NUMBERS), tt.asarray(NUMBERS)])
def test_neurons_have_the_numbers_and_the_weights_of_the_network(x):
    tt.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    picture = Read(visualize.neurons(model, x))
    assert picture.all("text")[-1].text == "linear"
    said = [e.text for e in picture.all("text") if e.get("font-size") == "11"]
    hidden = tt.tanh(model[0](tt.asarray([1.0, -2.0, 0.5])))
    numbers = [1, -2, 0.5, *hidden.tolist(), *model[2](hidden).tolist()]
    assert [float(text.replace("\N{MINUS SIGN}", "-")) for text in said] == pytest.approx(numbers, abs=0.006)
    lines = [w for layer in (model[0], model[2]) for w in layer.weight.numpy().ravel()]
    assert weights(picture) == pytest.approx(lines, rel=1e-2)


def test_a_function_between_layers_and_a_matrix_product_are_known():
    model = Functional()
    picture = Read(visualize.neurons(model, [1.0, 2.0, 3.0]))
    names = [e.text for e in picture.all("text") if e.get("font-size") == "12"]
    assert names == ["input", "linear, relu", "matmul"]
    drawn = [w for layer in (model.first, model.second) for w in layer.weight.numpy().ravel()]
    assert weights(picture) == pytest.approx(drawn, rel=1e-2)


def test_ops_that_keep_the_units_are_named_below_them():
    model = nn.Sequential(nn.Linear(3, 4), nn.Unflatten(-1, (2, 2)), nn.Flatten(1), nn.Linear(4, 1))
    names = [e.text for e in Read(visualize.neurons(model)).all("text") if e.get("font-size") == "12"]
    assert [name.removesuffix("…")[:15] for name in names] == ["input", "linear, reshape", "linear"]


def test_without_an_input_neurons_have_no_numbers():
    picture = Read(visualize.neurons(Functional()))
    assert len(picture.all("circle")) == 9
    assert [e for e in picture.all("text") if e.get("font-size") == "11"] == []


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return x + self.inner(x)


@pytest.mark.parametrize(
    ("module", "x", "error", "message"),
    [
        (Around(), None, ValueError, "neurons: add does not read the units of the op before it alone"),
        (nn.Sequential(nn.Linear(2, 4), nn.GLU()), None, ValueError, "or changes their number"),
        (nn.Linear(30, 3), None, ValueError, r"neurons: layers of \[30, 3\] units; expected at most 16"),
        (nn.ReLU(), None, ValueError, "neurons: ReLU has no matrix of weights"),
        (nn.Linear(3, 2), tt.ones((2, 3)), ValueError, r"x has shape \(2, 3\); expected one input, \(features,\)"),
        (nn.Linear(3, 2), 1.0, ValueError, r"x has shape \(\); expected one input"),
        (nn.Linear(3, 2), [1.0, 2.0], ValueError, "in_features"),
        ([1.0], None, TypeError, "neurons: got a list; expected a module"),
    ],
)
def test_networks_that_are_no_chain_of_layers(module, x, error, message):
    with pytest.raises(error, match=message):
        visualize.neurons(module, x)


def test_drawing_neurons_leaves_the_module_as_it_was():
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)).eval()
    x = tt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    first = str(visualize.neurons(model, x))
    assert first == str(visualize.neurons(model, x))
    assert not model.training
    assert all(p.grad is None for p in model.parameters())
