"""The text of vertices: ops in mathematics or words, and names for arrays that have none of their own."""

import re

import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import models, nn
from tinytensor.graph.words import FORMS, SIGNS, Speaker
from tinytensor.primitive import OPS

from ...nn import op_samples  # noqa: F401 (it registers those of nn)
from ..op_samples import SAMPLES

LOADED = tt.linalg.svd, tt.fft.fft, tt.special.erfc, tt.fmax  # what is loaded when first asked for, with its ops

# ---- arrays without a name


def inputs(function, *arguments, **options):
    """The names of the inputs in the picture of a call."""
    with tt.record() as graph:
        function(*arguments)
    return [v.title for v in graph.picture(**options).vertices if v.kind == "input"]


class Features(nn.Module):
    """Embeddings of arrays that its `forward` gives no name."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.position_embedding = nn.Embedding(5, 4)
        self.embed_users = nn.Embedding(5, 4)
        self.tables = nn.ModuleList([nn.Embedding(5, 4), nn.Embedding(5, 4)])

    def forward(self, rows):
        every = [self.embedding, self.position_embedding, self.embed_users, *self.tables]
        return sum(layer(tt.asarray(row)) for layer, row in zip(every, rows))


@pytest.mark.parametrize("depth", [0, 1, 2, 4])
def test_each_input_of_an_encoder_has_a_name_of_its_own(depth):
    model = models.Encoder(99, d_model=16, num_heads=2, num_layers=1)
    assert inputs(model, tt.asarray([[5, 6, 7]]), depth=depth) == ["ids", "positions", "segments"]
    model = models.LanguageModel(50, d_model=16, num_heads=2, num_layers=1)
    assert inputs(model, tt.asarray([[5, 6, 7]]), depth=depth) == ["ids", "positions"]


def test_an_embedding_names_what_it_reads_and_no_name_comes_twice():
    assert inputs(Features(), [[1], [2], [3], [4], [0]]) == ["ids", "position", "users", "tables", "tables 2"]


# ---- arrays of one name


def shared():
    """A recording in which two modules' weights, both called "weight", are also read outside of the modules."""
    one, other = nn.Linear(2, 3, bias=False), nn.Linear(3, 2, bias=False)
    data = tt.ones((1, 2))
    with tt.record() as graph:
        y = other(one(data))
        z = y @ one.weight.mT
        result = (z @ other.weight.mT).sum()
    return graph, result


@pytest.mark.parametrize("depth", [0, 2, 4])
def test_parameters_of_two_modules_outside_of_boxes_have_two_names(depth):
    graph, _ = shared()
    picture = graph.picture(depth=depth)
    assert [v.title for v in picture.vertices if v.kind == "parameter"] == ["weight", "other.weight"]
    assert [v.heading for v in picture.vertices if v.title == "matmul"] == ["y weightᵀ", "z other.weightᵀ"]
    graph.check(depth=depth)


def test_gradients_and_programs_tell_such_parameters_apart_too():
    graph, result = shared()
    result.backward()
    titles = [v.title for v in graph.picture(backward=True).vertices if v.kind == "gradient"]
    assert {"∂L/∂weight", "∂L/∂other.weight"} <= set(titles)
    program = graph.program()
    assert {"weight", "other.weight"} <= program.names.keys()
    assert program.run(**{"other.weight": tt.zeros((2, 3))})[-1] == 0


def test_parameters_in_one_box_that_end_alike_are_whole_in_formulas():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)

        def forward(self, x):
            y = x @ self.a.weight
            return y @ self.b.weight

    with tt.record() as graph:
        result = Two()(tt.ones((1, 2)))  # noqa: F841
    assert [v.heading for v in graph.picture().vertices if v.kind == "op"] == ["x a.weight", "y b.weight"]


@pytest.mark.parametrize(("name", "unnamed"), [("x", "z"), ("a", "x")])
def test_an_operand_without_a_name_is_not_called_as_another_array_is(name, unnamed):
    array = tt.tensor([1.0, 2.0], requires_grad=True)
    with tt.record() as graph:
        result = 1 - tt.abs(((array + 1) ** 2) ** 3)
    picture = tt.draw(result, names={name: array}).picture()
    headings = [v.heading for v in picture.vertices if v.kind == "op"]
    assert headings == [f"{name} + 1", f"{unnamed}²", f"{unnamed}³", f"|{unnamed}|", f"1 − {unnamed}"]
    assert len(graph.ops) == 5


# ---- ops


SAID = {name.removeprefix("_say_") for name in vars(Speaker) if name.startswith("_say_")}
"""Ops with words of their own, which depend on more than the names of their operands."""

TERMS = {"binary_cross_entropy", "cross_entropy", "layer_norm", "log_softmax", "rms_norm"}
"""Terms of the field, and of PyTorch."""

NAMES = {
    "acos", "acosh", "all", "any", "argmax", "argmin", "argsort", "asin", "asinh", "atan", "atan2", "atanh",
    "attention", "ceil", "cholesky", "clip", "concat", "conj", "convolution", "copysign", "cos", "cosh", "det",
    "digamma", "dropout", "eig", "eigh", "embedding", "erf", "erfc", "erfinv", "euclidean", "exp", "exp2", "expm1",
    "fft", "flip", "floor", "fmax", "fmin", "gammaln", "gelu", "gru", "hypot", "ifft", "imag", "irfft", "isfinite",
    "isin", "isinf", "isnan", "linear", "log", "log10", "log1p", "log2", "logabsdet", "logaddexp", "logsumexp",
    "lstm", "max", "mean", "min", "nextafter", "pinv", "polygamma", "prod", "qr", "real", "relu", "reshape", "rfft",
    "rnn", "roll", "rotate", "round", "sigmoid", "sign", "signbit", "signdet", "silu", "sin", "sinc", "sinh",
    "softmax", "softplus", "squeeze", "std", "sum", "svd", "tan", "tanh", "tile", "topk", "tril", "triu", "trunc",
    "xlogy",
}  # fmt: skip
"""Ops that are drawn by their own name, a word."""


def library():
    """The ops of the library, without those of tests."""
    return {name for name, op in OPS.items() if (op.function.__module__ or "").startswith("tinytensor.")}


def test_each_op_has_mathematics_words_or_a_name_that_is_a_term():
    assert not any("_" in name for name in NAMES)
    assert library() == {*SIGNS, *FORMS, *SAID} | TERMS | NAMES


def drawn(function, *arguments, **options):
    """The title and the lines of each op of a call."""
    with tt.record() as graph:
        function(*arguments)
    picture = graph.picture(**options)
    return [(v.heading, *v.lines) for v in picture.vertices if v.kind == "op"]


@pytest.mark.parametrize("name", sorted(name for name in OPS if name != "to_device"))
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="default"),
        pytest.param({"fused": "folded", "constants": True}, id="every op", marks=pytest.mark.slow),
    ],
)
def test_no_sample_of_an_op_is_drawn_as_code(name, options):
    for sample in SAMPLES.get(name, []):
        arrays = [tt.asarray(x) if hasattr(x, "dtype") else x for x in sample.inputs]
        for title, *lines in drawn(lambda *x, s=sample: s.function(*x, **s.params), *arrays, **options):
            assert name == "einsum" or "_" not in re.sub(r"\w+\[", "[", title) or title in TERMS
            assert not [line for line in lines if re.search(r"int\d+ |x[12] =|ax[ie]s =|_dims|getitem|keepdims", line)]


def leaf(*shape):
    return tt.ones(shape).requires_grad_()


IDS = tt.asarray([[0, 1], [2, 0]])


@pytest.mark.parametrize(
    ("function", "title", "lines"),
    [
        (lambda x: x[1], "x[1]", ()),
        (lambda x: x[:, 0], "x[:, 0]", ()),
        (lambda x: tt.exp(x)[:, 0:2], "part", ("[:, 0:2]",)),
        (lambda x: x[tt.asarray([0, 1, 1])], "rows of x", ("3 indices",)),
        (lambda x: x[:, tt.asarray([0, 1])], "x[:, i]", ("i: 2 indices",)),
        (lambda x: x[tt.asarray([True, False])], "rows of x", ("where true",)),
        (lambda x: tt.take_along_axis(x, IDS, axis=1), "pick 2 of each row", ()),
        (
            lambda x: tt.take_along_axis(leaf(4, 2, 3), tt.zeros((4, 1, 3), dtype=int), axis=1),
            "pick 1 along axis 1",
            (),
        ),
        (lambda x: tt.permute_dims(x, (1, 0)), "axes 0 ↔ 1", ()),
        (lambda x: tt.permute_dims(leaf(1, 2, 3), (2, 0, 1)), "axes in order 2, 0, 1", ()),
        (lambda x: x.mT, "xᵀ", ()),
        (lambda x: tt.expand_dims(x, axis=1), "new axis 1", ()),
        (lambda x: tt.astype(x, tt.float64), "x as float64", ()),
        (lambda x: tt.broadcast_to(x, (4, 2, 3)), "broadcast", ("to 4×2×3",)),
        (lambda x: tt.where(x > 0, x, 0.0), "where", ("right = 0",)),
        (lambda x: tt.maximum(x, 0.5), "max(x, 0.5)", ()),
        (lambda x: tt.cumulative_sum(x, axis=0), "running sum", ("over axis 0",)),
        (lambda x: tt.einsum("ij,kj->ik", x, x), "Σⱼ x_ij x_kj", ("for each i, k",)),
        (lambda x: tt.einsum("td,edh->eth", tt.exp(x), tt.exp(leaf(2, 3, 4))), "Σ_d A_td B_edh", ("for each e, t, h",)),
        (lambda x: tt.concat([x, x], axis=1), "concat", ("along the last axis",)),
        (lambda x: F.max_pool1d(x[None], 2), "max pooling", ("the largest number of each window",)),
    ],
)
def test_ops_are_said_in_mathematics_or_in_words(function, title, lines):
    x = leaf(2, 3)
    with tt.record() as graph:
        function(x)
    vertex = [v for v in graph.picture(fused="folded").vertices if v.kind == "op"][-1]
    assert (vertex.heading, vertex.lines) == (title, lines)


def test_a_long_title_is_said_in_short_words():
    numbers, hidden_state = leaf(2, 3), leaf(1)
    with tt.record() as graph:
        result = numbers * 2
        result[0, 0:1] = hidden_state
    assert [v.heading for v in graph.picture().vertices if v.title == "index_set"] == ["index set"]


def test_an_op_of_the_user_has_its_own_name_whatever_that_is():
    """Also the name of a method of the class that finds the words."""
    for name in ("root", "given", "parameter", "my_op"):

        def function(xp, x):
            return x * 2

        function.__name__ = name
        own = tt.op(function)
        del OPS[name]
        assert drawn(own, tt.ones(3)) == [(name,)]


def test_a_loss_of_rows_needs_no_reshape():
    logits = leaf(3, 4)
    for reduction in ("mean", "none"):
        with tt.record() as graph:
            F.cross_entropy(logits, tt.asarray([0, 1, 2]), reduction=reduction)
        assert "reshape" not in [op.name for op in graph.ops]
