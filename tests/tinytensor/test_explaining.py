"""When something breaks: shapes axis by axis, and the graph so far with the failing op in red."""

import re
import sys
import types
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.messages import aligned
from tinytensor.nn import functional as F
from tinytensor.primitive import OPS

pytest.importorskip("graphviz")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 6)
        self.block = nn.Sequential(nn.ReLU(), nn.Linear(6, 4))
        self.head = nn.Linear(5, 2)
        self.weight = nn.Parameter(tt.ones((3, 2)))

    def forward(self, x, how):
        h = self.block(self.first(x))
        if how == "module":
            return self.head(h)
        return h @ self.weight if how == "op" else tt.log(h - 1e6)


# ---- shapes


def test_axes_that_do_not_broadcast_are_in_brackets():
    text = aligned({"x1": (2, 1, 3), "x2": (4, 5)})
    assert text == "  x1   2   1  [3]\n  x2       4  [5]"


def test_axes_of_length_one_fit_everything():
    assert "[" not in aligned({"a": (2, 1), "b": (1, 5), "c": ()})


@pytest.mark.parametrize(
    ("one", "other", "lines"),
    [
        ((2, 7, 4), (3, 2), ["x1   2   7  [4]", "x2      [3]  2"]),
        ((5, 2, 3), (4, 3, 2), ["x1  [5]  2   3", "x2  [4]  3   2"]),
    ],
)
def test_a_product_marks_the_axes_that_are_summed(one, other, lines):
    with pytest.raises(ValueError, match=r"^matmul: ") as caught:
        tt.ones(one) @ tt.ones(other)
    assert [line.strip() for line in str(caught.value).splitlines()[1:]] == lines


def test_a_linear_layer_names_module_path_op_and_both_shapes():
    with pytest.raises(ValueError, match=r"^linear: ") as caught:
        Net()(tt.ones((3, 8)), "module")
    first, *rows = str(caught.value).splitlines()
    assert first.endswith("(in module Net.head)")
    assert "input (3, 4) and weight (2, 5)" in first
    assert [row.split() for row in rows] == [["input", "3", "[4]"], ["weight", "2", "[5]"]]


def test_an_op_in_a_module_names_the_path_once():
    with pytest.raises(ValueError, match=r"^matmul: ") as caught:
        Net()(tt.ones((3, 8)), "op")
    assert str(caught.value).count("in module Net)") == 1
    assert not hasattr(caught.value, "__notes__")


# ---- the picture


def red(path):
    """The title of the one vertex that failed."""
    found = [g for g in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}g") if "failed" in g.get("class", "")]
    assert len(found) == 1
    return "".join("".join(t.itertext()) for t in found[0].iter("{http://www.w3.org/2000/svg}text"))


@pytest.mark.parametrize(("how", "title"), [("op", "matmul"), ("module", "linear")])
def test_the_graph_so_far_is_drawn_with_what_failed_in_red(tmp_path, how, title):
    path = tmp_path / "error.svg"
    with pytest.raises(ValueError, match="in module Net") as caught, tt.explain_errors(path):
        Net()(tt.ones((3, 8)), how)
    assert caught.value.__notes__ == [f"the graph so far, with what failed in red: {path}"]
    assert red(path).startswith(title)
    text = path.read_text()
    assert "first" in text  # what went before
    assert str(caught.value).partition("\n")[0][:40].split(";")[0].replace(">", "&gt;") in text


def test_the_first_number_that_is_not_finite_is_red(tmp_path):
    path = tmp_path / "nan.svg"
    with (
        pytest.warns(RuntimeWarning, match="invalid value"),
        pytest.raises(FloatingPointError, match=r"^log: "),
        tt.explain_errors(path),
        tt.detect_anomaly(),
    ):
        Net()(tt.ones((3, 8)), "nan")
    assert red(path).startswith("log")


def test_without_an_error_nothing_is_written(tmp_path):
    with tt.explain_errors(tmp_path / "error.svg") as graph:
        x = tt.tensor([1.0], requires_grad=True)
        x * 2
    assert not list(tmp_path.iterdir())
    assert [op.name for op in graph.ops] == ["multiply"]


def test_errors_that_were_caught_are_not_explained(tmp_path):
    with tt.explain_errors(tmp_path / "error.svg"), pytest.raises(ValueError, match="add"):
        tt.ones(2) + tt.ones(3)
    assert not list(tmp_path.iterdir())


def test_it_decorates_functions(tmp_path):
    path = tmp_path / "error.txt"

    @tt.explain_errors(path)
    def broken():
        return tt.ones(2) + tt.ones(3)

    with pytest.raises(ValueError, match="add"):
        broken()
    assert "!! add" in path.read_text()


def test_options_are_passed_on(tmp_path):
    path = tmp_path / "error.txt"
    with pytest.raises(ValueError, match="matmul"), tt.explain_errors(path, depth=0):
        Net()(tt.ones((3, 8)), "op")
    assert "first" not in path.read_text()


def endless(x):
    for _ in range(2500):
        x = x * 1.0
    return tt.concat([x, x]) + tt.ones((5,))


def test_in_a_long_computation_the_end_is_drawn(tmp_path):
    path = tmp_path / "error.svg"
    x = tt.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="add"), tt.explain_errors(path):
        endless(x)
    assert red(path).startswith("add")
    assert path.read_text().count('class="node op"') < 300


def test_without_graphviz_the_tree_is_in_the_note(tmp_path, no_graphviz):
    with pytest.raises(ValueError, match="add") as caught, tt.explain_errors(tmp_path / "error.svg"):
        tt.ones(2) + tt.ones(3)
    assert "pip install" in caught.value.__notes__[0]
    assert "!! add" in caught.value.__notes__[0]
    assert [p.name for p in tmp_path.iterdir()] == ["error.dot"]


@pytest.fixture
def shown(monkeypatch):
    """What a notebook shows."""
    shown = []
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    display = types.ModuleType("IPython.display")
    display.SVG = str
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_a_notebook_shows_it_without_being_asked(shown):
    x = tt.ones((2, 3)).requires_grad_()
    with pytest.raises(ValueError, match=r"^matmul"):
        (x * 2) @ tt.ones((2, 3))
    assert len(shown) == 1
    assert "failed" in shown[0]
    assert "multiply" in shown[0]


def test_a_notebook_shows_the_first_number_that_is_not_finite(shown):
    x = tt.tensor([1.0, -1.0], requires_grad=True)
    with (
        pytest.warns(RuntimeWarning, match="invalid value"),
        pytest.raises(FloatingPointError, match="log"),
        tt.detect_anomaly(),
    ):
        tt.log(x * 2)
    assert len(shown) == 1
    assert "failed" in shown[0]
    assert "multiply" in shown[0]


def test_attention_marks_what_does_not_agree():
    F = nn.functional
    with pytest.raises(ValueError, match="scaled_dot_product_attention") as caught:
        F.scaled_dot_product_attention(tt.ones((2, 4, 8)), tt.ones((2, 5, 7)), tt.ones((2, 6, 3)))
    rows = [line.split() for line in str(caught.value).splitlines()[1:]]
    assert rows == [["query", "2", "4", "[8]"], ["key", "2", "[5]", "[7]"], ["value", "2", "[6]", "3"]]


# ---- what failed is red, wherever it failed


def pictured(tmp_path, function, error):
    """What is red, and all words of the picture."""
    path = tmp_path / "error.svg"
    with pytest.raises(error), tt.explain_errors(path):
        function()
    words = ["".join(t.itertext()) for t in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    return red(path), words


def test_a_gradient_that_is_not_finite_is_red(tmp_path):
    def function():
        with tt.detect_anomaly(), np.errstate(divide="ignore"):
            x = tt.tensor([1.0, 0.0, 4.0], requires_grad=True)
            (tt.sqrt(x * 2) * 3).sum().backward()

    failed, _ = pictured(tmp_path, function, FloatingPointError)
    assert failed.startswith("sqrt")


def test_a_gradient_rule_that_fails_is_red(tmp_path):
    @tt.op(x=lambda xp, g, x: g * xp.nowhere)
    def broken(xp, x):
        return x * 2

    OPS.pop("broken")

    def function():
        (broken(tt.tensor([1.0], requires_grad=True)) + 1).sum().backward()

    failed, _ = pictured(tmp_path, function, RuntimeError)
    assert failed.startswith("broken")


def test_a_loss_that_refuses_its_target_is_red_and_nothing_has_its_name(tmp_path):
    def function():
        logits = nn.Linear(4, 3)(tt.ones((5, 4)))
        loss = F.cross_entropy(logits.reshape(1, 5, 3).reshape(5, 3), tt.asarray(np.array([0, 1, 2])))  # noqa: F841

    failed, words = pictured(tmp_path, function, ValueError)
    assert failed.startswith("cross_entropy")
    assert "on 5×3 and 3" in words
    assert "target" in words
    assert not [word for word in words if word.startswith("loss")]


def test_a_layer_that_refuses_its_input_shows_its_weight_and_both_shapes(tmp_path):
    failed, words = pictured(
        tmp_path, lambda: nn.Sequential(nn.Linear(4, 16), nn.Linear(15, 3))(tt.ones((8, 4))), ValueError
    )
    assert failed.startswith("linear")
    assert "on 8×[16] and 3×[15] and 3" in words
    red_and_bold = re.findall(r'<tspan font-weight="bold" fill="#d00000">(.*?)<', (tmp_path / "error.svg").read_text())
    assert red_and_bold == ["[16]", "[15]"]
    assert words.count("weight") == 1


class Picky(nn.Module):
    def forward(self, x):
        raise ValueError(f"not {x.shape}")


def test_a_module_that_refuses_its_input_by_itself_is_red(tmp_path):
    failed, words = pictured(tmp_path, lambda: Picky()(tt.ones((8, 4)) * 2.0), ValueError)
    assert failed.startswith("Picky")
    assert "on 8×4" in words


def e(*shape):
    """The result of a computation."""
    return tt.exp(tt.ones(shape))


IDS = tt.asarray([0, 1, 2])

REFUSED = {  # the name that is red, and a call with wrong arguments
    "concat": lambda: tt.concat([e(2, 3), e(3, 4)], axis=1),
    "concat ": lambda: tt.concat((e(2, 3), e(2, 3)), axis=5),
    "concat  ": lambda: tt.concat([e(2, 3), None]),
    "stack": lambda: tt.stack([e(2, 3), e(3, 4)]),
    "einsum": lambda: tt.einsum("ij,jk->ik", e(2, 3), e(4, 5)),
    "einsum ": lambda: tt.einsum("ij,jk->ik", e(2, 3)),
    "broadcast_arrays": lambda: tt.broadcast_arrays(e(2, 3), e(4, 5)),
    "matmul": lambda: e() @ e(3),
    "add": lambda: e(2, 3) + object(),
    "subtract": lambda: "a" - e(2),
    "divide": lambda: tt.divide(e(2)),
    "where": lambda: tt.where(e(2)),
    "negative": lambda: tt.negative(e(2), e(2)),
    "sum": lambda: e(2, 3).sum(4),
    "sum ": lambda: tt.sum(e(2, 3), dims=4),
    "permute_dims": lambda: tt.permute_dims(e(2, 3), (0, 5)),
    "getitem": lambda: e(2, 3)[0.5],
    "setitem": lambda: e(2, 3).__setitem__(0, e(9)),
    "backward": lambda: e(2).backward(),
    "grad": lambda: tt.grad(e(2), e(2)),
    "take_along_axis": lambda: tt.take_along_axis(e(2, 3), IDS, axis=1),
    "cross_entropy": lambda: F.cross_entropy(input=e(5, 4), target=IDS),
    "cross_entropy ": lambda: nn.CrossEntropyLoss()(target=IDS, input=e(5, 4)),
    "layer_norm": lambda: F.layer_norm(e(), (3,)),
    "linear": lambda: F.linear(e(), e(3, 3)),
    "embedding": lambda: F.embedding(tt.asarray([9]), e(3, 4)),
    "conv1d": lambda: F.conv1d(e(1, 2, 5), e(3, 4, 3)),
    "dropout": lambda: F.dropout(e(2), p=7),
    "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(e(3), e(3), e(3)),
    "MultiheadAttention": lambda: nn.MultiheadAttention(4, 2)(query=e(4), key=e(4), value=e(4)),
    "LSTM": lambda: nn.LSTM(3, 4)(e(2, 1, 3), (e(1, 1, 5), e(1, 1, 4))),
    "Linear": lambda: nn.Linear(3, 4)(e(2, 3), e(3)),
    "Picky": lambda: Picky()(x={"a": [e(2)]}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_refuses_its_arguments_is_red(tmp_path, name):
    """Also Tensors in lists, in containers of containers, and by keyword."""
    path = tmp_path / "error.svg"
    with pytest.raises((ValueError, TypeError, IndexError, RuntimeError, AttributeError)) as caught:  # noqa: SIM117
        with tt.explain_errors(path):
            REFUSED[name]()
    assert red(path).startswith({"setitem": "index_set"}.get(name, f"{name.strip()}()"))  # a write is an op
    assert f"the graph so far, with what failed in red: {path}" in caught.value.__notes__


class Other(Exception):
    pass


def caught_before(how):
    y = e(3)
    try:
        y + e(4)
    except ValueError as problem:
        if how == "because":
            raise Other from problem
    error = Other()
    raise error from error


def test_what_the_caller_caught_is_neither_red_nor_drawn(tmp_path):
    path = tmp_path / "error.txt"
    with pytest.raises(Other) as caught, tt.explain_errors(path):
        caught_before("before")
    assert caught.value.__notes__ == [f"the graph so far: {path}"]
    assert "add" not in path.read_text()
    with pytest.raises(Other) as caught, tt.explain_errors(path):
        caught_before("because")
    assert "in red" in caught.value.__notes__[0]
    assert "!! add" in path.read_text()
    with tt.record() as graph, pytest.raises(Other):
        caught_before("before")
    assert [op.name for op in graph.ops] == ["exp", "exp"]


@pytest.mark.parametrize(
    "function",
    [lambda x: {}["key"], lambda x: x.numpy() @ np.ones(7), lambda x: x.not_there, lambda x: (lambda a, b: a)(*x)],
    ids=["user", "numpy", "attribute", "unpacked"],
)
def test_an_error_of_other_code_has_a_note_that_claims_no_red(tmp_path, function):
    path = tmp_path / "error.svg"
    with pytest.raises((KeyError, ValueError, AttributeError, TypeError)) as caught, tt.explain_errors(path):
        function(e(3))
    assert caught.value.__notes__ == [f"the graph so far: {path}"]
    assert 'failed"' not in path.read_text()


def test_a_long_message_is_wrapped_and_not_cut(tmp_path):
    error = "some words of a message " * 8

    def long():
        nn.functional.softmax(tt.ones(2), dim=0)
        raise ValueError(error)

    path = tmp_path / "long.svg"
    with pytest.raises(ValueError), tt.explain_errors(path):
        long()
    text = ["".join(t.itertext()) for t in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    assert " ".join(text[:3]).split() == error.split()
