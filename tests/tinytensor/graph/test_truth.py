"""A picture says what is so: for any model, at any depth, folded or not."""

import math
import re

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tests.marks import slow_after
from tinytensor import nn
from tinytensor.models import Transformer


class Block(nn.Module):
    """A layer of GPT: the norm stands before what it is for."""

    def __init__(self, width):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        h = self.ln1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, width=4, layers=3):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(layers)])
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, 7)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


def recorded(model, *inputs):
    with tt.record() as graph:
        model(*inputs)
    return graph


def sequence(*shape, seed=0):
    return tt.tensor(np.random.default_rng(seed).normal(size=shape))


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("fold", [True, False])
def test_a_norm_before_its_layer_is_no_add_and_norm(depth, fold):
    picture = recorded(GPT(), sequence(2, 5, 4)).picture(depth=depth, fold=fold)
    assert "Add & Norm" not in {vertex.title for vertex in picture.vertices}


def test_a_norm_behind_its_sum_is():
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    titles = [vertex.title for vertex in recorded(layer, sequence(2, 5, 4)).picture(depth=1).vertices]
    assert titles.count("Add & Norm") == 2


def numbers_of(model):
    return sum(parameter.size for parameter in model.parameters())


@pytest.mark.parametrize("depth", range(2))
def test_a_closed_module_counts_the_layers_that_are_folded_in_it(depth):
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 4)
    (module,) = [v for v in recorded(encoder, sequence(2, 5, 4)).picture(depth=0).vertices if v.kind == "module"]
    assert f"{numbers_of(encoder):,} parameters" in module.words
    assert "8 residual connections" in module.lines

    model = Transformer(11, d_model=4, num_heads=2, num_layers=6)
    graph = recorded(model, np.ones((2, 5), int), np.ones((2, 4), int))
    (module,) = [v for v in graph.picture(depth=0).vertices if v.kind == "module"]
    assert f"{numbers_of(model):,} parameters" in module.words
    assert "30 residual connections" in module.lines
    assert "residual from an inner result (30 times)" in graph.description()
    assert f"({numbers_of(model):,} numbers)" in graph.description()


def test_a_folded_layer_counts_one_and_says_so():
    gpt = GPT()
    block = next(v for v in recorded(gpt, sequence(2, 5, 4)).picture(depth=1, collapse="Block").vertices if v.lines[1:])
    assert block.lines[0] == f"{numbers_of(gpt.blocks[0])} parameters each"
    assert block.lines[-1] == "× 3"


def operands(picture):
    titles = {v.id: v.title for v in picture.vertices}
    names = {v.id: v.name or v.title for v in picture.vertices}
    return {(names[e.tail], titles[e.head]): e.operand for e in picture.edges if e.operand}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda a, b: -a - tt.exp(b), {("negative", "subtract"): "left", ("exp", "subtract"): "right"}),
        (lambda a, b: tt.exp(b) / a, {("a", "divide"): "right", ("exp", "divide"): "left"}),
        (lambda a, b: tt.exp(b) @ a, {("a", "matmul"): "right", ("exp", "matmul"): "left"}),
        (lambda a, b: tt.linalg.outer(a[0], tt.exp(a[0])), {}),
        (lambda a, b: a + b * a, {}),
        (lambda a, b: tt.concat([a, b]), {("a", "concat"): "1", ("b", "concat"): "2"}),
    ],
)
def test_operands_have_their_names_where_their_order_matters(function, expected):
    a, b = (tt.tensor(np.ones((2, 2)) + i) for i in range(2))
    with tt.record() as graph:
        function(a, b)
    assert operands(graph.picture()) == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda a, b: a - b, "a − b"),
        (lambda a, b: b / a, "b ÷ a"),
        (lambda a, b: b @ a, "b a"),
        (lambda a, b: a @ b.mT, "a bᵀ"),
        (lambda a, b: 1 - a, "1 − a"),
        (lambda a, b: a**3, "a³"),
        (lambda a, b: a * a, "a²"),
        (lambda a, b: -a, "−a"),
        (lambda a, b: tt.sqrt(a), "√a"),
        (lambda a, b: a + 1e-5, "+ ε"),
        (lambda a, b: a[0], "a[0]"),
        (lambda a, b: a / math.sqrt(2), "a ÷ 1.414"),
        (lambda a, b: a @ b / math.sqrt(2), "÷ √dₖ = 1.414"),
        (lambda a, b: F.embedding(tt.asarray([0, 1]), a) * math.sqrt(2), "× √d_model = 1.414"),
        (lambda a, b: tt.masked_fill(a, tt.asarray([[False, True]] * 2), -math.inf), "mask"),
    ],
)
def test_ops_are_written_as_papers_write_them(function, expected):
    a, b = (tt.tensor(np.ones((2, 2)) + i) for i in range(2))
    with tt.record() as graph:
        function(a, b)
    assert [v.heading for v in graph.picture().vertices if v.kind == "op"][-1] == expected


def test_a_square_says_that_it_is_one():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    with tt.record() as graph:
        x * x
    (op,) = [v for v in graph.picture().vertices if v.kind == "op"]
    assert op.heading == "x²"


def test_attention_across_says_which_is_query_key_and_value():
    layer = nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    graph = recorded(layer, sequence(2, 3, 4), sequence(2, 5, 4, seed=1))
    picture = graph.picture(depth=1)
    called = [e.operand for v in picture.vertices for e in picture.edges if e.head == v.id and "Attention" in v.title]
    assert sorted(called) == ["key, value", "query", "query, key, value"]
    closed = graph.picture(depth=0)
    assert {(e.operand, e.tail) for e in closed.edges if e.operand} == {
        (v.name or v.title, v.id) for v in closed.vertices if v.kind == "input"
    }


class Across(nn.Module):
    """Attention to what a stack of layers gave, which is drawn as one of them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True) for _ in range(3)])
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, query, memory):
        for layer in self.layers:
            memory = layer(memory)
        return self.attention(query, memory, memory)[0]


@pytest.mark.parametrize("fold", [True, False])
def test_attention_to_folded_layers_says_so_too(fold):
    graph = recorded(Across(), sequence(2, 3, 4), sequence(2, 5, 4, seed=1))
    picture = graph.picture(depth=1, fold=fold, collapse="MultiheadAttention")
    (attention,) = [v for v in picture.vertices if v.name == "attention"]
    assert sorted(e.operand for e in picture.edges if e.head == attention.id) == ["key, value", "query"]


def test_steps_of_an_input_are_the_input():
    weight, inner = (tt.tensor(np.eye(3) * 0.5, requires_grad=True) for _ in range(2))
    x, start = sequence(2, 4, 3), tt.zeros((2, 3))
    with tt.record() as graph:
        h = start
        for t in range(4):
            h = tt.tanh(x[:, t] @ weight + h @ inner)
    picture = graph.picture(fold=False)
    assert "constant" not in {v.kind for v in picture.vertices}
    (source,) = [v for v in picture.vertices if v.name == "x" or v.title == "x"]
    assert sum(edge.tail == source.id for edge in picture.edges) == 4


# ---- what holds for any model


class Result(nn.Module):
    """Of what a layer returns, the first: a recurrent layer's outputs, attention without its weights."""

    def __init__(self, inner, copies=1):
        super().__init__()
        self.inner, self.copies = inner, copies

    def forward(self, x):
        return self.inner(*[x] * self.copies)[0]


class Loop(nn.Module):
    """A cell, step by step."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        state, states = None, []
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
            states.append(state[0] if isinstance(state, tuple) else state)
        return tt.stack(states, axis=1)


class Along(nn.Module):
    """A layer of channels, which takes the features as those and goes along the sequence."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return tt.permute_dims(self.inner(tt.permute_dims(x, (0, 2, 1))), (0, 2, 1))


class Image(nn.Module):
    """A layer of images, which takes each sequence as one of a single channel."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return tt.reshape(self.inner(tt.expand_dims(x, axis=1)), x.shape)


class Compared(nn.Module):
    """How alike each position and a function of it are, as a factor."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x * tt.expand_dims(self.inner(x, tt.tanh(x)), axis=-1)


class Looked(nn.Module):
    """A row of a table for the largest feature, added."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 4)

    def forward(self, x):
        return x + self.table(tt.argmax(x, axis=-1))


class Decoded(nn.Module):
    def __init__(self, inner, *masks):
        super().__init__()
        self.inner, self.masks = inner, masks

    def forward(self, x):
        return self.inner(x, tt.tanh(x), *self.masks)


def layers_to_draw(draw):
    """All our layers, each as one that takes and gives (batch, length, 4), by name."""
    linear = nn.Linear(4, 4)

    def either():
        return bool(draw.integers(2))

    def encoder():
        return nn.TransformerEncoderLayer(4, 2, 6, 0.0, batch_first=True, norm_first=either())

    def decoder():
        return nn.TransformerDecoderLayer(4, 2, 6, 0.1, batch_first=True, norm_first=either())

    recurrent = {kind: lambda kind=kind: Result(kind(4, 4, 2, batch_first=True)) for kind in (nn.RNN, nn.GRU, nn.LSTM)}
    cells = {kind: lambda kind=kind: Loop(kind(4, 4)) for kind in (nn.RNNCell, nn.GRUCell, nn.LSTMCell)}
    plain = (
        nn.Tanh, nn.ReLU, nn.GELU, nn.Sigmoid, nn.Identity, nn.CELU, nn.ELU, nn.SELU, nn.Hardshrink, nn.Hardsigmoid,
        nn.Hardswish, nn.Hardtanh, nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.PReLU, nn.ReLU6, nn.SiLU, nn.Softplus,
        nn.Softshrink, nn.Softsign, nn.Tanhshrink,
    )  # fmt: skip
    channels = {
        nn.Conv1d: (4, 4, 3, 1, 1), nn.BatchNorm1d: (4,), nn.GroupNorm: (2, 4), nn.Dropout1d: (0.1,),
        nn.MaxPool1d: (3, 1, 1), nn.AvgPool1d: (3, 1, 1), nn.AdaptiveAvgPool1d: (3,),
    }  # fmt: skip
    images = {
        nn.Conv2d: (1, 1, 3, 1, 1), nn.BatchNorm2d: (1,), nn.Dropout2d: (0.1,), nn.MaxPool2d: (3, 1, 1),
        nn.AvgPool2d: (3, 1, 1), nn.AdaptiveAvgPool2d: ((3, 4),), nn.Unfold: (1,),
    }  # fmt: skip
    return {
        nn.Linear: lambda: nn.Linear(4, 4, bias=either()),
        nn.LoRA: lambda: nn.LoRA(nn.Linear(4, 4), 2),
        "the same Linear again": lambda: linear,
        nn.LayerNorm: lambda: nn.LayerNorm(4),
        "a block with its norms before": lambda: Block(4),
        nn.TransformerEncoderLayer: encoder,
        nn.TransformerEncoder: lambda: nn.TransformerEncoder(encoder(), int(draw.integers(1, 4))),
        nn.TransformerDecoderLayer: lambda: Decoded(decoder(), F.causal_mask(3)),
        nn.TransformerDecoder: lambda: Decoded(nn.TransformerDecoder(decoder(), int(draw.integers(1, 4)))),
        nn.Transformer: lambda: Decoded(nn.Transformer(4, 2, 1, 2, 6, batch_first=True)),
        nn.MultiheadAttention: lambda: Result(nn.MultiheadAttention(4, 2, batch_first=True), 3),
        nn.Sequential: lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 4)),
        nn.Dropout: lambda: nn.Dropout(0.1),
        nn.Embedding: Looked,
        nn.GLU: lambda: nn.Sequential(nn.Linear(4, 8), nn.GLU()),
        nn.Threshold: lambda: nn.Threshold(0.1, 0.0),
        nn.RMSNorm: lambda: nn.RMSNorm(4),
        nn.FeedForward: lambda: nn.FeedForward(4, 6, str(draw.choice(["gelu", "swiglu"]))),
        nn.SelfAttention: lambda: nn.SelfAttention(4, 2, int(draw.integers(1, 3))),
        nn.Flatten: lambda: nn.Sequential(nn.Flatten(), nn.Unflatten(1, (3, 4))),
        nn.Unflatten: lambda: nn.Sequential(nn.Unflatten(2, (2, 2)), nn.Flatten(2)),
        nn.CosineSimilarity: lambda: Compared(nn.CosineSimilarity(-1)),
        nn.PairwiseDistance: lambda: Compared(nn.PairwiseDistance()),
        **{kind: lambda kind=kind, given=given: Along(kind(*given)) for kind, given in channels.items()},
        **{kind: lambda kind=kind, given=given: Image(kind(*given)) for kind, given in images.items()},
        nn.PositionalEncoding: lambda: nn.PositionalEncoding(4, batch_first=True),
        nn.LearnedPositionalEncoding: lambda: nn.LearnedPositionalEncoding(4, max_len=3, batch_first=True),
        nn.Softmax: lambda: nn.Softmax(dim=-1),
        nn.Softmin: lambda: nn.Softmin(dim=-1),
        nn.LogSoftmax: lambda: nn.LogSoftmax(dim=-1),
        **{kind: kind for kind in plain},
        **recurrent,
        **cells,
    }


LAYERS = list(layers_to_draw(np.random.default_rng(0)))

NO_LAYERS = {
    nn.Module, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.BCELoss, nn.BCEWithLogitsLoss, nn.CosineEmbeddingLoss,
    nn.CrossEntropyLoss, nn.HuberLoss, nn.KLDivLoss, nn.L1Loss, nn.MSELoss, nn.NLLLoss, nn.SmoothL1Loss,
}  # fmt: skip
"""Modules without a computation of their own, and losses, which end a graph."""


def test_all_our_layers_are_drawn_here():
    modules = {kind for kind in vars(nn).values() if isinstance(kind, type) and issubclass(kind, nn.Module)}
    assert modules - NO_LAYERS == {kind for kind in LAYERS if isinstance(kind, type)}


def random_model(seed):
    """A stack of some layers; each of them is in one of the models at least."""
    draw = np.random.default_rng(seed)
    layers = layers_to_draw(draw)
    names = [*LAYERS[2 * seed : 2 * seed + 2], *draw.choice(len(LAYERS), size=int(draw.integers(1, 4)))]
    made = [layers[name if name in layers else LAYERS[name]] for name in names]
    return nn.Sequential(*[make() for make in made for _ in range(int(draw.integers(1, 3)))])


SEEDS = range((len(LAYERS) + 1) // 2)
DEPTHS = (0, 1, 2, 4)


@pytest.mark.parametrize("seed", slow_after(4, SEEDS))
def test_every_count_adds_up_and_every_op_and_edge_is_there(seed):
    model = random_model(seed)
    graph = recorded(model, sequence(2, 3, 4, seed=seed))
    for depth in DEPTHS:
        for fused in ("folded", "formula"):
            whole, folded = (graph.picture(depth=depth, fused=fused, fold=fold) for fold in (False, True))
            for picture in (whole, folded):
                assert sum(vertex.counts for vertex in picture.vertices) == numbers_of(model)
                filled = {v.box for v in picture.vertices} | {box.parent for box in picture.boxes}
                assert {box.id for box in picture.boxes} <= filled
                ids = {v.id for v in picture.vertices}
                assert all({edge.tail, edge.head} <= ids for edge in picture.edges)
            graph.check(depth=depth, fused=fused, fold=False)
            graph.check(depth=depth, fused=fused)
            assert folded.description.partition(";")[0] == whole.description.partition(";")[0]  # so many ops


def change_width(layer):
    layer.linear1, layer.linear2 = nn.Linear(4, 5), nn.Linear(5, 4)


def change_norm(layer):
    layer.norm1 = nn.LayerNorm(4, eps=1e-3)


def drop_bias(layer):
    layer.linear1 = nn.Linear(4, 6, bias=False)


def freeze(layer):
    layer.linear1.weight.requires_grad_(False)


def drop_out(layer):
    layer.dropout.p = 0.5


def norm_first(layer):
    layer.norm_first = True


@pytest.mark.parametrize("change", [change_width, change_norm, drop_bias, freeze, drop_out, norm_first])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_layer_that_differs_is_drawn_by_itself(change, place):
    layers = [nn.TransformerEncoderLayer(4, 2, 6, 0.0, batch_first=True) for _ in range(4)]
    change(layers[place])
    picture = recorded(nn.Sequential(*layers), sequence(2, 3, 4)).picture(depth=1)
    called = {v.name for v in picture.vertices if "EncoderLayer" in v.title} | {box.name for box in picture.boxes}
    assert str(place) in called


def test_layers_with_other_masks_are_not_one():
    near = tt.asarray(np.abs(np.subtract.outer(np.arange(4), np.arange(4))) > 1)
    layers = nn.ModuleList([nn.TransformerEncoderLayer(4, 2, 6, 0.0, batch_first=True) for _ in range(4)])

    def labels(masks):
        with tt.record() as graph:
            x = sequence(2, 4, 4)
            for layer, mask in zip(layers, masks):
                x = layer(x, mask)
        return [line for v in graph.picture(depth=0).vertices for line in v.lines if line.startswith("×")]

    assert labels([F.causal_mask(4), near] * 2) == []
    assert labels([near, F.causal_mask(4), F.causal_mask(4), F.causal_mask(4)]) == ["× 3"]
    assert labels([near] * 4) == ["× 4"]


class Scaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.inner, self.factor = nn.Linear(2, 2), tt.asarray(factor)

    def forward(self, x):
        return self.inner(x) * self.factor


@pytest.mark.parametrize(("factors", "times"), [((0.5, 0.25, 0.125), []), ((0.5, 0.5, 0.5), ["× 3"])])
def test_layers_with_other_factors_are_not_one(factors, times):
    graph = recorded(nn.Sequential(*[Scaled(factor) for factor in factors]), sequence(2, 2))
    assert [box.label for box in graph.picture(depth=3).boxes if box.label] == times


def test_one_of_several_layers_shows_no_numbers_of_its_own():
    graph = recorded(nn.Sequential(*[nn.Linear(2, 2) for _ in range(3)]), sequence(2, 2))
    assert [v.numbers for v in graph.picture(depth=3).vertices if v.kind == "parameter"] == [(), ()]
    assert all(v.numbers for v in graph.picture(depth=3, fold=False).vertices if v.kind == "parameter")


def test_slices_made_before_a_loop_stand_once_and_lead_into_it():
    cell, x = nn.RNNCell(3, 4), nn.Parameter(sequence(2, 5, 3))
    with tt.record() as graph:
        h, whole = tt.zeros((2, 4)), tt.exp(x)
        slices = [whole[:, t] for t in range(5)]
        for step in slices:
            h = cell(step, h)
    picture = graph.picture(collapse="RNNCell")
    (made,) = [v for v in picture.vertices if v.kind == "op" and "[:, 4]" in v.heading + "".join(v.lines)]
    assert [e.head for e in picture.edges if e.tail == made.id] == [
        v.id for v in picture.vertices if v.title == "RNNCell"
    ]


# ---- names


def test_what_was_computed_has_the_name_of_its_variable_and_no_arguments():
    first, second = nn.Linear(2, 2), nn.Linear(2, 3)
    given = sequence(2, 2)
    with tt.record() as graph:
        hidden = first(given)
        second(hidden)
    assert [value.name for value in graph.values if value.kind != "parameter"] == ["given", "hidden", ""]


def test_what_follows_a_loop_reads_what_its_last_turn_made():
    cell, x = nn.RNNCell(3, 4), sequence(2, 5, 3)
    with tt.record() as graph:
        h = tt.zeros((2, 4))
        for t in range(5):
            h = cell(x[:, t], h)
        h * h
    assert "h²" in {vertex.heading for vertex in graph.picture().vertices}


@pytest.mark.parametrize("same", [False, True])
def test_arrays_of_numpy_have_the_names_of_the_arguments(same):
    source = np.array([[3, 4, 5]])
    target = source.copy() if same else np.array([[4, 5]])
    picture = recorded(Transformer(9, d_model=4, num_heads=2, num_layers=1), source, target).picture()
    assert [v.title for v in picture.vertices if v.kind == "input"] == ["source", "target"]


@pytest.mark.parametrize(("bias", "formula"), [(True, "x Wᵀ + b"), (False, "x Wᵀ")])
def test_a_formula_is_written_without_the_bias_that_is_not_there(bias, formula):
    picture = recorded(nn.Linear(2, 3, bias=bias), sequence(2, 2)).picture(depth=3)
    assert [v.lines[0] for v in picture.vertices if v.kind == "op"] == [formula]


def test_attention_of_all_heads_says_what_is_query_key_and_value():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    with tt.record() as graph:
        layer(sequence(2, 3, 4), *[sequence(2, 5, 4, seed=1)] * 2, need_weights=False)
    picture = graph.picture(depth=3, fused="folded")
    (attend,) = [v.id for v in picture.vertices if v.title == "multi_head"]
    assert [e.operand for e in picture.edges if e.head == attend] == ["Q", "K, V"]


@pytest.mark.parametrize("kind", ["time", "flops", "bytes"])
@pytest.mark.parametrize("folding", [True, False])
def test_shares_of_the_whole_add_up_to_it(kind, folding):
    with tt.record() as graph:
        logits = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3), nn.Linear(3, 3))(sequence(2, 4))
        F.cross_entropy(logits, np.array([0, 1]))
    picture = graph.picture(heat=kind, fold=folding)
    lines = [line for vertex in picture.vertices for line in vertex.lines]
    shares = [int(found[1]) for text in (*lines, *picture.notes) if (found := re.match(r"(\d+) % [·(]", text))]
    assert abs(sum(shares) - 100) <= len(shares) / 2
    assert all(v.heat is not None for v in picture.vertices if v.kind in ("op", "module"))


# ---- what was recorded stays as it was


def test_numbers_are_those_that_were_computed_whatever_is_written_later():
    layer = nn.Linear(2, 2)
    optimizer = nn.optim.SGD(layer.parameters(), lr=1.0)
    x = sequence(1, 2).float()
    with tt.record() as graph:
        loss = (layer(x) ** 2).sum()
    loss.backward()
    before = graph.to_text(), graph.to_svg(), graph.to_json()
    optimizer.step()
    with tt.no_grad():
        x.fill_(7.0)
    assert (graph.to_text(), graph.to_svg(), graph.to_json()) == before


def test_a_parameter_that_an_optimiser_writes_has_a_version_for_each_step():
    layer = nn.Linear(2, 1)
    optimizer = nn.optim.SGD(layer.parameters(), lr=0.5)
    with tt.record() as graph:
        for _ in range(3):
            loss = (layer(tt.ones((1, 2))) ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    biases = [value for value in graph.values if value.name.startswith("bias")]
    assert [value.name for value in biases] == ["bias₀", "bias₁", "bias₂"]
    assert len({value.numbers for value in biases}) == 3
    assert "2 parameters (3 numbers)" in graph.description()
    graph.check()


def test_writes_are_ops_with_and_without_gradients():
    table, row = tt.zeros((3, 2)), tt.tensor([1.0, 2.0], requires_grad=True)
    with tt.record() as graph:
        new = tt.exp(row)
        with tt.no_grad():
            table[1] = new
            table *= 2.0
        result = table.sum() + new.sum()
    assert [op.name for op in graph.ops] == ["exp", "index_set", "multiply", "sum", "sum", "add"]
    write = graph.ops[1]
    assert write.inputs[1] == graph.ops[0].output
    assert graph.ops[2].inputs[0] == write.output
    graph.check(constants=True)
    graph.check()
    assert result.shape == ()


def test_a_write_through_a_view_is_seen_by_the_whole():
    x = tt.zeros((2, 2))
    with tt.record() as graph:
        first = x + 1
        x[0] += 5.0
        second = x.sum() * first
    names = [op.name for op in graph.ops]
    assert names == ["add", "getitem", "add", "index_set", "sum", "multiply"]
    graph.check(constants=True)
    assert second.shape == (2, 2)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, y: x.reshape(-1).__setitem__(slice(0, 2), y),
        lambda x, y: [row.__iadd__(y) for row in x],
        lambda x, y: x.mT.__setitem__(0, y),
        lambda x, y: x[1].copy_(y),
        lambda x, y: x[::-1].__setitem__(1, y),
    ],
    ids=["flat", "rows", "transposed", "copy", "backwards"],
)
def test_a_write_through_a_view_reaches_the_whole_and_other_views(write):
    x, y = tt.zeros((2, 2)), tt.asarray([1.0, 2.0])
    with tt.record() as graph:
        whole, view = x * 1.0, x.reshape(4)
        write(x, y * 2.0)
        result = x + whole, view * 3.0
    inputs = [v.name for v in graph.values if v.kind in ("input", "constant") and v.shape]
    assert inputs == ["", "y"]  # nothing begins anew; x is a later name of its memory
    read = {value for op in graph.ops for value in op.inputs}
    assert [op.name for op in graph.ops if op.output not in read] == ["add", "multiply"]
    graph.check(constants=True)
    first, second = graph.program().run(y=tt.asarray([5.0, 7.0]))
    assert (first.max(), second.max()) == (14.0, 42.0)
    assert len(result) == 2


def test_the_new_key_and_value_of_a_cache_reach_attention():
    model = Transformer(11, d_model=4, num_heads=2, num_layers=1, dropout=0.0).eval()
    with tt.no_grad():
        cache = model.initial_state(np.array([[3, 4, 5]]))
        with tt.record() as graph:
            for token in (1, 6, 7):
                logits, cache = model.next_logits(np.array([[token]]), cache)
    assert sum(op.name == "index_set" for op in graph.ops) == 3
    readers = {value for op in graph.ops for value in op.inputs}
    assert all(op.output in readers for op in graph.ops if op.name == "index_set")
    for depth in (0, 2, 9):
        graph.check(depth=depth)
    assert logits.shape == (1, 1, 11)


def test_a_gradient_says_of_what_it_is():
    w = tt.tensor([2.0], requires_grad=True)
    with tt.record() as graph:
        inner = (w**2).sum()
        (slope,) = tt.grad(inner, [w], create_graph=True)
        loss = (w - 0.1 * slope).sum() * 3
    loss.backward()
    text = graph.to_text()
    assert "∂inner/∂out = 1" in text
    assert "∂L/∂inner" not in text
    assert "∂L/∂w" in text
    assert [v.title for v in graph.picture().vertices if v.kind == "output"] == ["inner", "loss"]


def test_frozen_weights_are_parameters_and_say_so():
    class Lora(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Linear(3, 8)
            for parameter in self.base.parameters():
                parameter.requires_grad = False
            self.down, self.up = nn.Linear(3, 2, bias=False), nn.Linear(2, 8, bias=False)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x))

    graph = recorded(Lora(), sequence(4, 3))
    assert "4 parameters (54 numbers, 32 of them frozen)" in graph.description()
    picture = graph.picture()
    (base,) = [v for v in picture.vertices if v.name == "base"]
    assert "32 parameters (frozen)" in base.lines
    assert [e.tail for e in picture.edges if e.head == base.id] == [v.id for v in picture.vertices if v.kind == "input"]
    deep = graph.picture(depth=5)
    assert ["frozen" in v.lines for v in deep.vertices if v.kind == "parameter"] == [True, True, False, False]


def test_an_input_that_wants_a_gradient_is_no_parameter():
    model, x = nn.Linear(4, 2), tt.tensor(np.ones((3, 4), "float32"), requires_grad=True)
    graph = recorded(model, x)
    assert "2 parameters (10 numbers)" in graph.description()
    assert graph.picture().vertices[0].kind == "input"


def test_shared_weights_are_counted_once_and_named():
    embedding, out = nn.Embedding(50, 8), nn.Linear(8, 50, bias=False)
    out.weight = embedding.weight
    tied = nn.Sequential(embedding, out)
    for depth in range(4):
        picture = recorded(tied, tt.asarray([[1, 2]])).picture(depth=depth)
        assert sum(vertex.counts for vertex in picture.vertices) == 400
    lines = [line for v in recorded(tied, tt.asarray([[1, 2]])).picture().vertices for line in v.lines]
    assert "400 parameters shared with 0" in lines


def test_layers_used_in_turn_are_counted_once():
    a, b = nn.Linear(8, 8), nn.Linear(8, 8)
    (vertex,) = [v for v in recorded(nn.Sequential(a, b, a, b), sequence(2, 8)).picture().vertices if "× 4" in v.lines]
    assert "2 × 72 parameters, used in turn" in vertex.lines
    assert vertex.counts == 144


def test_two_norms_behind_one_sum_are_no_add_and_norm():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.norm1, self.norm2 = nn.Linear(4, 4), nn.LayerNorm(4), nn.LayerNorm(4)

        def forward(self, x):
            return self.norm2(self.norm1(x + self.inner(x)))

    titles = [v.title for v in recorded(Twice(), sequence(2, 4)).picture().vertices if v.kind in ("op", "module")]
    assert titles == ["Linear", "add", "LayerNorm"]


# ---- whose gradients, whose numbers


def gradients(picture):
    titles = {v.id: v.title for v in picture.vertices}
    return [(titles[e.tail], titles[e.head]) for e in picture.edges if e.kind == "gradient"]


def test_no_gradient_is_drawn_through_detach_nor_to_what_wants_none():
    first, second, x = nn.Linear(2, 3), nn.Linear(3, 1), tt.ones((2, 2))
    second.weight.requires_grad = False
    with tt.record() as graph:
        loss = second(first(x).detach()).mean()
    loss.backward()
    drawn = [v.title for v in graph.picture(backward=True, depth=5).vertices if v.kind == "gradient"]
    assert drawn == ["∂L/∂bias", "∇ linear", "∇ mean", "∂L/∂loss"]
    assert gradients(graph.picture(backward=True, depth=5))[0] == ("∇ linear", "∂L/∂bias")


def test_what_the_loss_does_not_contain_has_no_gradient_of_it():
    w = tt.tensor([2.0], requires_grad=True)
    with tt.record() as graph:
        loss, other = (w * w).sum(), tt.exp(w)
    loss.backward()
    assert {a for a, _ in gradients(graph.picture(backward=True))} == {"∂L/∂loss", "∇ sum", "∇ w²"}
    assert other.requires_grad


@pytest.mark.parametrize("own", [(), ("w",), ("noise",), ("w", "noise")])
def test_a_loop_says_which_arrays_are_each_turn_s_own(own):
    ws, noises = ([sequence(3, 3, seed=i).requires_grad_(kind == 0) for i in range(4)] for kind in range(2))
    h = tt.ones((3, 3), dtype=tt.float64)
    with tt.record() as graph:
        for i in range(4):
            h = tt.tanh(h @ ws[i if "w" in own else 0] + noises[i if "noise" in own else 0])
    lines = {v.kind: "each turn its own" in v.lines for v in graph.picture().vertices if v.kind in ("parameter",)}
    assert lines == {"parameter": "w" in own}
    told = ["each turn its own" in v.lines for v in graph.picture().vertices if v.kind == "constant"]
    assert any(told) == ("noise" in own)


def test_layers_that_come_again_in_another_order_are_not_folded():
    layers = [nn.Linear(3, 3) for _ in range(3)]

    def folds(order):
        h = sequence(2, 3)
        with tt.record() as graph:
            for i in order:
                h = layers[i](h)
        return [v.lines[-1] for v in graph.picture(depth=0).vertices if v.kind == "module"]

    assert folds((0, 1, 2, 0, 1, 2)) == ["× 6"]
    assert folds((0, 1, 2, 2, 1, 0))[0] == "× 3"
    assert len(folds((0, 1, 2, 2, 1, 0))) == 4


def test_data_that_is_put_into_a_parameter_is_another_version_of_it():
    p, x = tt.tensor(np.eye(2), requires_grad=True), tt.ones((1, 2), dtype=tt.float64)
    with tt.record() as graph:
        for _ in range(2):
            loss = ((x @ p) ** 2).sum()
            loss.backward()
            p.data = p.numpy() - 0.25 * p.grad.numpy()
        result = x @ p
    assert [v.name for v in graph.values if v.kind == "parameter"] == ["p₀", "p₁", "p₂"]
    assert len({v.numbers for v in graph.values if v.kind == "parameter"}) == 3
    assert "1 parameter (4 numbers)" in graph.description()
    graph.check()
    assert result.shape == (1, 2)


def test_a_step_on_data_is_drawn_as_the_step_without_gradients():
    def step_on_data(p):
        p.data -= 0.25 * p.grad

    def step_by_hand(p):
        with tt.no_grad():
            p -= 0.25 * p.grad

    drawn = []
    for step in (step_on_data, step_by_hand):
        p, x = tt.tensor(np.eye(2), requires_grad=True), tt.ones((1, 2), dtype=tt.float64)
        with tt.record() as graph:
            for _ in range(2):
                ((x @ p) ** 2).sum().backward()
                step(p)
            x @ p
        graph.check()
        drawn.append([(op.name, op.inputs) for op in graph.ops])
    assert drawn[0] == drawn[1]
    assert [name for name, _ in drawn[0]].count("subtract") == 2


def test_a_write_without_gradients_into_a_result_is_drawn():
    w = tt.tensor(np.eye(3), requires_grad=True)
    with tt.record() as graph:
        h = tt.tanh(w)
        with tt.no_grad():
            h[0] = 5.0
        y = h * 2.0
    assert [op.name for op in graph.ops] == ["tanh", "index_set", "multiply"]
    graph.check()
    assert y.requires_grad


def test_a_gradient_stands_at_the_numbers_that_it_was_taken_at():
    layer, x = nn.Linear(2, 1), tt.ones((1, 2))
    optimizer = nn.optim.SGD(layer.parameters(), lr=0.1)
    with tt.record() as graph:
        loss = (layer(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        again = layer(x)
    assert [bool(v.gradient) for v in graph.values if v.name in ("bias₀", "bias₁")] == [True, False]
    assert again.shape == (1, 1)


def test_arrows_of_a_module_with_several_results_say_which_they_carry():
    class Two(nn.Module):
        def forward(self, x):
            return tt.exp(x), tt.sin(x)

    with tt.record() as graph:
        a, b = Two()(sequence(2, 2))
        result = tt.atan2(b, a)
    drawn = [e.operand for e in graph.picture(depth=0).edges if e.operand]
    assert drawn == ["b: left", "a: right"]
    assert result.shape == (2, 2)


def test_arguments_by_name_have_their_names():
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = sequence(2, 3, 4).float()
    with tt.record() as graph:
        attention(query=tt.tanh(x), key=tt.sin(x), value=tt.exp(x), need_weights=False)
    assert [e.operand for e in graph.picture(depth=0).edges if e.operand] == ["query", "key", "value"]


def test_the_text_has_a_name_for_each_source():
    a, b = (nn.Sequential(nn.Linear(2, 3), nn.ReLU()) for _ in "ab")
    with tt.record() as graph:
        result = tt.atan2(a(tt.ones((1, 2))), b(tt.ones((1, 2))))
    (line,) = [row for row in graph.to_text().splitlines() if row.startswith("arctan2") or "from 1, 1 (2)" in row]
    assert "from 1, 1 (2)" in line
    assert result.shape == (1, 3)


def test_a_program_whose_memory_was_written_says_so():
    layer, x = nn.Linear(2, 1), tt.ones((1, 2))
    with tt.record() as graph:
        loss = layer(x).sum()
    with tt.no_grad():
        layer.weight *= 2.0
    with pytest.raises(RuntimeError, match="run: weight was written since it was recorded; give it by name"):
        graph.program().run(x=x)
    assert loss.shape == ()
