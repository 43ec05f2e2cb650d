"""A picture says what is so: for any model, at any depth, folded or not."""

import math
import re

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.graph import Options
from tinytensor.graph.plan import main_ops, plan
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
        (lambda a, b: tt.concat([a, b]), {}),
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


def random_model(seed):
    """A stack of our layers, each of which takes and gives (batch, length, 4)."""
    draw = np.random.default_rng(seed)
    linear = nn.Linear(4, 4)
    layers = {
        "linear": lambda: nn.Linear(4, 4, bias=bool(draw.integers(2))),
        "shared": lambda: linear,
        "norm": lambda: nn.LayerNorm(4),
        "block": lambda: Block(4),
        "encoder": lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 2, 6, 0.0, batch_first=True, norm_first=bool(draw.integers(2))),
            int(draw.integers(1, 4)),
        ),
        "mlp": lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Dropout(0.1), nn.Linear(3, 4)),
        "positions": lambda: nn.PositionalEncoding(4),
        "tanh": lambda: nn.Tanh(),
    }
    names = draw.choice(list(layers), size=int(draw.integers(1, 6)))
    return nn.Sequential(*[layers[name]() for name in names for _ in range(int(draw.integers(1, 3)))])


def parameters_told(picture):
    """How many numbers of parameters the picture tells of: in closed modules, and drawn by themselves."""
    told = 0
    for vertex in picture.vertices:
        match = re.search(r", ([\d,]+) parameters, result", vertex.words)
        told += int(match[1].replace(",", "")) if match else 0
        told += int(np.prod(vertex.shape)) if vertex.kind == "parameter" else 0
    return told


@pytest.mark.parametrize("seed", range(12))
def test_every_count_adds_up_and_every_op_and_edge_is_there(seed):
    model = random_model(seed)
    graph = recorded(model, sequence(2, 3, 4, seed=seed))
    shares = len(set(map(id, model))) < len(model)
    for depth in range(5):
        for fused in ("folded", "formula"):
            whole = graph.picture(depth=depth, fold=False, fused=fused)
            if not shares:  # a module that is called twice is two boxes with the same parameters
                assert parameters_told(whole) == numbers_of(model)
            _check_edges(graph, whole, Options(depth=depth, fold=False, fused=fused))
            folded = graph.picture(depth=depth, fused=fused)
            for picture in (whole, folded):
                filled = {v.box for v in picture.vertices} | {box.parent for box in picture.boxes}
                assert {box.id for box in picture.boxes} <= filled
                ids = {v.id for v in picture.vertices}
                assert all({edge.tail, edge.head} <= ids for edge in picture.edges)
            assert folded.description.partition(";")[0] == whole.description.partition(";")[0]  # so many ops


def _check_edges(graph, picture, options):
    structure, _ = graph._build(options)
    drawn = plan(structure, options).drawn
    makers = {op.output: op for op in structure.ops}
    edges = {(edge.tail, edge.head) for edge in picture.edges}
    for op in main_ops(structure):
        for value in op.inputs:
            maker = makers.get(value)
            if maker is not None and maker.id in drawn and drawn[maker.id] != drawn[op.id]:
                assert (drawn[maker.id], drawn[op.id]) in edges
