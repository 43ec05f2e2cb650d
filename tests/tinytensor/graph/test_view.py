"""What a picture shows: depth, closed and repeated modules, residual connections, masks, gradients, memory, heat."""

import itertools
import math

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.graph import Options
from tinytensor.graph.heat import RAMP, Scale, of_ops, scale
from tinytensor.graph.plan import main_ops, residuals
from tinytensor.graph.short_text import bytes_text, count_text, cut, plural, seconds_text, shape_text, short
from tinytensor.models import Transformer

from .heads import attention_head


def leaf(*shape, seed=0):
    return tt.Tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def constant(*shape, seed=1):
    return tt.Tensor(np.random.default_rng(seed).normal(size=shape))


def of_kind(picture, *kinds):
    return [v for v in picture.vertices if v.kind in kinds]


def titles(picture, *kinds):
    return [v.title for v in of_kind(picture, *kinds)]


def box_names(picture):
    return [(box.name, box.label) for box in picture.boxes]


def edges(picture, *kinds):
    """Edges by the titles of their ends."""
    title = {v.id: v.title for v in picture.vertices}
    return [(title[e.tail], title[e.head]) for e in picture.edges if e.kind in (kinds or ("data", "residual"))]


def stack(layers=3, **options):
    """The graph of an encoder, and its loss."""
    tt.random.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **{"dropout": 0.0, **options})
    with tt.record() as graph:
        loss = nn.TransformerEncoder(layer, layers)(tt.ones((2, 3, 8))).sum()
    return graph, loss


def called(module, *shape):
    with tt.record() as graph:
        module(tt.ones(shape))
    return graph


# ---- what the picture is made of


def test_every_vertex_has_its_own_id_and_every_edge_its_ends():
    for options in ({}, {"backward": True, "saved": True}, {"fold": False, "depth": 9, "constants": True}):
        picture = stack()[0].picture(**options)
        ids = [v.id for v in picture.vertices]
        boxes = {box.id for box in picture.boxes}
        assert len(set(ids)) == len(ids)
        assert {end for e in picture.edges for end in (e.tail, e.head)} <= set(ids)
        assert {v.box for v in picture.vertices} <= boxes | {None}
        assert {box.parent for box in picture.boxes} <= boxes | {None}


def test_the_picture_of_an_attention_head():
    picture = attention_head()[0].picture()
    softmax = ["exp", "sum", "divide"]
    assert titles(picture, "op") == ["matmul"] * 3 + ["matmul", "divide", *softmax, "matmul"]
    assert [v.heading for v in of_kind(picture, "op")] == [
        "x w_q", "x w_k", "x w_v", "query keyᵀ", "÷ √dₖ = 2", "exp", "sum", "e ÷ Σe", "weights value",
    ]  # fmt: skip
    assert titles(picture, "parameter") == ["w_q", "w_k", "w_v"]
    assert titles(picture, "input") == ["x"]
    assert titles(picture, "output") == ["out"]
    assert [(box.name, box.path, box.parent) for box in picture.boxes] == [
        ("head", ("head",), None),
        ("softmax", ("head", "softmax"), "s1"),
    ]


def test_shapes_stand_on_edges():
    x = leaf(2, 3)
    with tt.record() as graph:
        tt.sum(x)
    assert [edge.label for edge in graph.picture().edges] == ["2×3", ""]


def test_an_op_that_reads_a_value_twice_has_one_edge():
    x = leaf(2)
    with tt.record() as graph:
        x * x
    assert edges(graph.picture()) == [("x", "multiply"), ("multiply", "output")]


def test_titles_of_outputs():
    x = leaf(3)
    with tt.record():
        first = tt.exp(x)
        items = [first * 2.0, first + 1.0]
    assert titles(tt.draw(items).picture(), "output") == ["output 1", "output 2"]
    assert titles(tt.draw(items, names={"loss": items[0]}).picture(), "output") == ["loss", "output 2"]
    assert titles(tt.draw(items[0]).picture(), "output") == ["output"]


def test_a_leaf_stands_in_the_innermost_box_around_its_readers():
    one, two, both = (leaf(1) for _ in range(3))
    with tt.record(), tt.named_scope("a"):
        with tt.named_scope("b"):
            y = tt.exp(one * both)
        with tt.named_scope("c"):
            y = y * two * both
    picture = tt.draw(y, names={"one": one, "two": two, "both": both}).picture()
    names = {box.id: box.name for box in picture.boxes}
    assert {v.title: names[v.box] for v in of_kind(picture, "parameter")} == {"one": "b", "two": "c", "both": "a"}


def test_a_title_and_a_description():
    graph, out = attention_head()
    picture = graph.picture()
    assert picture.title == "A head"
    assert picture.description == graph.description() == "10 ops; 3 parameters (96 numbers)"
    assert tt.draw(out).picture().title == "Computation graph"
    assert repr(graph) == "<graph: 10 ops, depth 8, 1.46 k flops, 14 values, 2 module calls>"


def test_the_description_of_a_model():
    text = stack()[0].description()
    for part in (
        "31 ops",
        "3 TransformerEncoderLayer",
        "× 3",
        "softmax over 3 keys",
        "residual from the input",
        "36 parameters",
    ):
        assert part in text


def test_the_description_counts_what_comes_again():
    x = leaf(2, 5)
    with tt.record() as graph:
        tt.sum(F.softmax(x, -1)) + tt.sum(F.softmax(x, 0)) + tt.sum(F.softmax(x * 1.0, -1))
    assert "softmax over 5 keys (2 times); softmax over 2 keys" in graph.description(fused="folded")


def test_the_description_names_masks():
    query = leaf(1, 4, 2)
    with tt.record() as graph:
        F.scaled_dot_product_attention(query, query, query, is_causal=True)
    assert "causal mask" in graph.description()
    assert "softmax over 4 keys" in graph.description(fused="folded")


# ---- depth


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return x + tt.tanh(self.linear(x))


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return tt.exp(self.block(x))


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (0, ["Outer"]),
        (1, ["Block", "exp"]),
        (2, ["Linear", "tanh", "add", "exp"]),
        (4, ["linear", "tanh", "add", "exp"]),
        (9, ["linear", "tanh", "add", "exp"]),
    ],
)
def test_depth_says_how_many_boxes_stand_inside_each_other(depth, expected):
    assert titles(called(Outer(), 2, 4).picture(depth=depth), "module", "op") == expected


def test_at_depth_0_a_model_that_computes_is_one_vertex():
    picture = called(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2, 3, 4).picture(depth=0)
    assert titles(picture, "module", "op") == ["TransformerEncoderLayer"]
    assert picture.boxes == ()


def test_deeper_pictures_show_more():
    graph, _ = stack(1)
    counts = [len(graph.picture(depth=depth, fused="folded").vertices) for depth in range(5)]
    assert counts == sorted(counts)
    assert counts[0] < counts[2] < counts[4]


def test_modules_that_only_hold_others_do_not_count():
    inner = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    graph = called(nn.Sequential(nn.Sequential(inner, nn.ReLU()), nn.Sigmoid()), 3, 2)
    assert titles(graph.picture(depth=0), "module", "op") == ["Sequential"]  # but for the outermost one
    picture = graph.picture(depth=1)
    assert [box.name for box in picture.boxes] == ["Sequential", "0", "0"]
    assert titles(picture, "module", "op") == ["Linear", "Tanh", "ReLU", "Sigmoid"]


def test_a_module_of_a_single_op_is_closed():
    graph = called(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), 4, 2)
    picture = graph.picture(depth=1)
    assert titles(picture, "module") == ["Linear", "ReLU"]
    assert of_kind(picture, "parameter") == []


def test_below_the_depth_asked_for_it_is_opened():
    graph = called(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), 4, 2)
    picture = graph.picture(depth=3)
    assert titles(picture, "op") == ["linear", "relu"]
    assert [title.split(".")[-1] for title in titles(picture, "parameter")] == ["weight", "bias"]


def test_a_closed_module_says_what_it_holds():
    (linear,) = of_kind(called(nn.Linear(2, 3), 4, 2).picture(depth=0), "module")
    assert (linear.title, linear.shape, linear.dtype) == ("Linear", (4, 3), "float32")
    assert linear.lines == ("9 parameters",)
    assert "1 op, 9 parameters, result 4×3 float32" in linear.words


# ---- modules that the user closes


@pytest.mark.parametrize(
    "collapse",
    [
        "feed forward",
        ["norm1", "feed forward"],
        lambda scope: scope.name == "feed forward",
        "TransformerEncoder.layers.0.feed forward",
    ],
    ids=["name", "names", "predicate", "path"],
)
def test_chosen_modules_are_closed(collapse):
    graph, _ = stack(1)
    assert "feed forward" in [box.name for box in graph.picture(depth=4).boxes]
    picture = graph.picture(depth=4, collapse=collapse)
    assert "feed forward" not in [box.name for box in picture.boxes]
    assert "feed forward" in titles(picture, "module")


def test_modules_are_closed_by_class_and_by_path():
    graph, _ = stack(2)
    by_class = graph.picture(depth=5, collapse="MultiheadAttention", fold=False)
    assert titles(by_class, "module") == ["MultiheadAttention"] * 2
    by_path = graph.picture(depth=5, collapse="layers.1.self_attn", fold=False)
    assert titles(by_path, "module") == ["MultiheadAttention"]
    whole_path = graph.picture(depth=5, collapse="TransformerEncoder.layers.1", fold=False)
    assert titles(whole_path, "module") == ["TransformerEncoderLayer"]


def test_part_of_a_name_closes_nothing():
    graph, _ = stack(1)
    assert graph.picture(depth=4, collapse=["orm1", "Multihead"]) == graph.picture(depth=4)


# ---- repeated modules


def test_layers_of_equal_structure_are_alike():
    graph, _ = stack(6)
    assert ("layers.0 … layers.5", "× 6") in box_names(graph.picture())
    closed = of_kind(graph.picture(collapse="TransformerEncoderLayer"), "module")
    assert [(v.name, v.lines[-1]) for v in closed] == [("layers.0 … layers.5", "× 6")]


class Again(nn.Module):
    def __init__(self, times):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.times = times

    def forward(self, x):
        for _ in range(self.times):
            x = self.inner(x)
        return x


def test_the_same_module_called_again_is_times():
    (vertex,) = of_kind(called(Again(4), 2, 3).picture(), "module")
    assert vertex.lines == ("12 parameters", "× 4")


def test_modules_without_parameters_are_alike():
    (vertex,) = of_kind(called(nn.Sequential(nn.Tanh(), nn.Tanh()), 3).picture(), "module")
    assert vertex.lines == ("× 2",)
    with tt.record() as graph:
        nn.Sequential(nn.Tanh(), nn.Tanh())(leaf(3))
    (vertex,) = of_kind(graph.picture(), "module")
    assert vertex.lines[-1] == "× 2"


def test_folding_can_be_switched_off():
    assert titles(called(Again(4), 2, 3).picture(depth=1, fold=False), "module") == ["Linear"] * 4


def turns(count, body):
    with tt.record() as graph:
        outputs = []
        for t in range(count):
            with tt.named_scope("turn"):
                outputs.append(body(t))
        tt.concat(outputs)
    return graph


def test_turns_of_a_loop_are_folded():
    x, w = leaf(4, 3), leaf(3, 2, seed=1)
    picture = turns(4, lambda t: tt.tanh(x[t : t + 1] @ w)).picture()
    assert box_names(picture) == [("turn", "× 4 side by side")]
    assert titles(picture, "op") == ["getitem", "matmul", "tanh", "concat"]
    assert of_kind(picture, "op")[0].lines == ("[0:1] … [3:4]",)
    assert edges(picture)[-2:] == [("tanh", "concat"), ("concat", "output")]


def test_what_stacks_the_turns_of_a_loop_stands_once():
    x, w = leaf(4, 3), leaf(3, 2, seed=1)
    with tt.record() as graph:
        outputs = []
        for t in range(4):
            with tt.named_scope("turn"):
                outputs.append(tt.exp(x[t : t + 1] @ w))
        tt.stack(outputs)
    assert titles(graph.picture(), "op") == ["getitem", "matmul", "exp", "rearrange"]
    assert [edge.operand for edge in graph.picture().edges if edge.operand] == ["all 4"]


def test_turns_are_not_folded_if_one_of_them_is_read_apart():
    x = leaf(4, 3)
    with tt.record() as graph:
        outputs = []
        for t in range(4):
            with tt.named_scope("turn"):
                outputs.append(tt.exp(x[t]))
        tt.stack(outputs) * tt.sum(outputs[0])
    assert box_names(graph.picture()) == [("turn", "")] * 4


def test_results_of_turns_that_are_read_apart_stay_apart():
    x = leaf(2, 3)
    with tt.record() as graph:
        outputs = []
        for t in range(2):
            with tt.named_scope("turn"):
                outputs.append(tt.tanh(tt.exp(x[t])))
        first, second = tt.sum(outputs[0]), tt.sum(outputs[1])
    assert box_names(graph.picture()) == [("turn", "")] * 2
    assert titles(graph.picture(), "output") == ["first", "second"]
    del first, second


def test_stages_without_parameters_are_the_same_again():
    x = constant(4, 3)
    assert box_names(turns(4, lambda t: tt.exp(tt.tanh(x))).picture()) == [("turn", "× 4 side by side")]


def test_stages_with_parameters_of_their_own_are_alike():
    x, weights = constant(4, 3), [leaf(3, 2, seed=t) for t in range(3)]
    assert box_names(turns(3, lambda t: tt.tanh(x @ weights[t])).picture()) == [("turn", "× 3 side by side")]


def test_numbered_stages_are_folded_and_others_are_not():
    x = leaf(4, 3)

    def boxes(*names):
        with tt.record() as graph:
            y = x
            for name in names:
                with tt.named_scope(name):
                    y = tt.exp(tt.tanh(y))
        return box_names(graph.picture())

    assert boxes("step 1", "step 2") == [("step 1 … step 2", "× 2")]
    assert boxes("encoder", "decoder") == [("encoder", ""), ("decoder", "")]


def test_turns_that_grow_are_not_folded():
    x, w = leaf(4, 3), leaf(3, 2, seed=1)
    assert box_names(turns(3, lambda t: tt.tanh(x[: t + 1] @ w)).picture()) == [("turn", "")] * 3


def test_modules_that_read_other_places_are_not_alike():
    class Row(nn.Module):
        def __init__(self, row):
            super().__init__()
            self.row = row

        def forward(self, x):
            return tt.exp(x[self.row : self.row + 1] * 2.0)

    x = leaf(4, 3)
    with tt.record() as graph:
        tt.concat([Row(0)(x), Row(1)(x)])
    assert len(graph.picture().boxes) == 2


def test_repetition_inside_of_repetition():
    block = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Tanh())
    other = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Tanh())
    picture = called(nn.Sequential(block, other), 2, 3).picture()
    assert box_names(picture)[1:] == [("0 … 1", "× 2")]
    assert [(v.title, v.lines) for v in of_kind(picture, "module")] == [
        ("Linear", ("12 parameters each", "× 2")),
        ("Tanh", ()),
    ]


def test_what_follows_a_folded_run_reads_its_result():
    picture = called(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Tanh()), 2, 3).picture(depth=1)
    assert edges(picture) == [("input", "Linear"), ("Linear", "Tanh"), ("Tanh", "output")]


class Lines(nn.Module):
    """Three layers of equal structure, wired as a function says."""

    def __init__(self, wire):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))
        self.wire = wire

    def forward(self, x):
        return self.wire(x, self.a, self.b, self.c)


@pytest.mark.parametrize(
    ("wire", "modules"),
    [
        (lambda x, a, b, c: c(b(a(x))), ["a … c"]),
        (lambda x, a, b, c: tt.concat([a(x), b(x), c(x)]), ["a … c"]),
        (lambda x, a, b, c: [a(x), b(x)][1] * c(x), ["a", "b", "c"]),
        (lambda x, a, b, c: tt.sum(tt.stack([b(a(x)), c(x)])), ["a … b", "c"]),
    ],
    ids=["chain", "side by side", "the first unread", "two, then one"],
)
def test_layers_are_alike_only_where_they_are_wired_alike(wire, modules):
    picture = called(Lines(wire), 2, 4).picture()
    assert [v.name for v in of_kind(picture, "module")] == modules


@pytest.mark.parametrize(
    "modules",
    [
        (nn.Linear(4, 4), nn.Linear(4, 2)),
        (nn.Linear(4, 4), nn.Linear(4, 4, bias=False)),
        (nn.Tanh(), nn.Sigmoid()),
        (nn.Dropout(0.1), nn.Dropout(0.5)),
        (nn.LayerNorm(4), nn.LayerNorm(4, eps=1e-3)),
    ],
    ids=["shapes", "bias", "classes", "dropout", "epsilon"],
)
def test_folding_does_not_hide_differences(modules):
    picture = called(nn.Sequential(*modules), 2, 4).picture()
    assert not any(box.label for box in picture.boxes)
    assert not any(line.startswith("×") for v in picture.vertices for line in v.lines)


def test_folding_does_not_hide_other_wiring_inside():
    class Residual(nn.Module):
        def __init__(self, around):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.around = around

        def forward(self, x):
            y = self.linear(x)
            return y + (x if self.around else y)

    graph = called(nn.Sequential(Residual(True), Residual(False)), 2, 4)
    assert [label for _, label in box_names(graph.picture())] == [""] * 3
    graph = called(nn.Sequential(Residual(True), Residual(True)), 2, 4)
    assert ("0 … 1", "× 2") in box_names(graph.picture())


def test_folding_does_not_hide_frozen_layers():
    layers = [nn.Linear(4, 4) for _ in range(3)]
    for parameter in layers[0].parameters():
        parameter.requires_grad = False
    picture = called(nn.Sequential(*layers), 2, 4).picture(constants=True, depth=1)
    assert [v.name for v in of_kind(picture, "module")] == ["0", "1 … 2"]


def test_a_whole_transformer_is_folded_and_fits_a_page():
    tt.random.manual_seed(0)
    model = Transformer(11, d_model=8, num_heads=2, num_layers=6, max_length=16)
    with tt.record() as graph:
        model(np.array([[3, 4, 5, 6], [7, 8, 0, 0]]), np.array([[1, 3, 4], [1, 5, 0]]))
    picture = graph.picture()
    assert [label for _, label in box_names(picture) if label] == ["× 6", "× 6"]
    assert len(picture.vertices) < 50
    assert {"padding mask", "causal and padding mask"} <= set(titles(picture, "mask"))
    assert titles(picture, "module").count("Add & Norm") == 5


# ---- residual connections


def test_a_residual_connection_goes_around():
    x = leaf(2, 3)
    with tt.record() as graph:
        tt.exp(x + tt.tanh(tt.sin(x)))
    picture = graph.picture()
    assert edges(picture, "residual") == [("x", "add")]
    assert ("tanh", "add") in edges(picture, "data")
    (add,) = [v for v in picture.vertices if v.title == "add"]
    assert add.lines == ("residual",)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y,
        lambda x, y: x + x,
        lambda x, y: tt.exp(x) + tt.exp(y),
        lambda x, y: x * tt.exp(x),
        lambda x, y: x + 1.0,
    ],
)
def test_ordinary_sums_are_no_residual_connections(function):
    x, y = leaf(2, 3), leaf(2, 3, seed=1)
    with tt.record() as graph:
        function(x, y)
    assert residuals(graph.structure) == {}


def test_a_bias_that_is_added_twice_is_no_residual_connection():
    x, bias = leaf(2, 3), leaf(3)
    with tt.record() as graph:
        tt.exp(x + bias) + bias
    assert residuals(graph.structure) == {}


def test_a_mean_that_is_taken_off_is_no_residual_connection():
    x = leaf(2, 3)
    with tt.record() as graph:
        x + tt.mean(x, axis=1, keepdims=True) * -1.0
    assert residuals(graph.structure) == {}


def test_very_long_detours_are_not_searched():
    x = leaf(2, 2)
    with tt.record() as graph:
        y = x
        for _ in range(500):
            y = y * 1.0
        y + x
    assert residuals(graph.structure) == {}


def test_a_residual_connection_is_seen_when_its_block_is_closed():
    picture = called(Block(), 2, 4).picture(depth=0)
    (block,) = of_kind(picture, "module")
    assert "1 residual connection" in block.lines
    assert edges(picture) == [("x", "Block"), ("Block", "output")]  # and x goes in once


def test_two_residual_connections_in_a_closed_layer():
    picture = stack(1)[0].picture(collapse="TransformerEncoderLayer")
    (layer,) = of_kind(picture, "module")
    assert "2 residual connections" in layer.lines


def test_a_sum_and_its_normalisation_are_one():
    picture = stack(1)[0].picture()
    assert titles(picture, "module") == ["MultiheadAttention", "Add & Norm", "feed forward", "Add & Norm"]
    assert edges(picture, "residual") == [("src", "Add & Norm"), ("Add & Norm", "Add & Norm")]


def test_a_normalisation_without_a_sum_keeps_its_name():
    picture = called(nn.Sequential(nn.LayerNorm(4), nn.Tanh()), 2, 4).picture(depth=1)
    assert titles(picture, "module") == ["LayerNorm", "Tanh"]


# ---- details that are left out


def test_chains_that_only_move_numbers_are_one():
    x = leaf(2, 3)
    with tt.record() as graph:
        tt.exp(tt.reshape(tt.expand_dims(x.mT, 0), (6,)))
    picture = graph.picture()
    assert titles(picture, "op") == ["rearrange", "exp"]
    assert of_kind(picture, "op")[0].lines == ("xᵀ, new axis 0, reshape",)
    assert of_kind(picture, "op")[0].shape == (6,)


def test_named_and_shared_steps_of_a_chain_stay():
    x = leaf(2, 3)
    with tt.record() as graph:
        turned = x.mT
        tt.exp(tt.reshape(turned, (6,)))
    assert titles(graph.picture(), "op") == ["matrix_transpose", "reshape", "exp"]
    with tt.record() as graph:
        items = [x.mT]
        tt.sum(tt.reshape(items[0], (6,))) + tt.sum(items[0])
    assert titles(graph.picture(), "op")[:2] == ["matrix_transpose", "reshape"]


def softmax_graph(x, by_formula):
    with tt.record() as graph:
        if by_formula:
            with tt.textbook():
                F.softmax(x, -1)
        else:
            F.softmax(x, -1)
    return graph


GUARDED = ["max", "equal", "where", "subtract", "exp", "sum", "equal", "where", "divide"]


@pytest.mark.parametrize("x", [leaf(2, 4), constant(2, 4), leaf(2, 4) * 1.0], ids=["leaf", "constant", "computed"])
@pytest.mark.parametrize("by_formula", [True, False])
def test_a_softmax_is_drawn_as_in_books(x, by_formula):
    picture = softmax_graph(x, by_formula).picture()
    assert titles(picture, "op") == ["exp", "sum", "divide"]
    assert of_kind(picture, "op")[0].lines == ("x − max x",)
    inner = [edge for edge in edges(picture) if {*edge} <= {"exp", "sum", "divide"}]
    assert inner == [("exp", "sum"), ("exp", "divide"), ("sum", "divide")]
    assert [head for tail, head in edges(picture)].count("exp") == 1


def test_guards_are_shown_on_demand_and_where_the_picture_is_of_what_ran():
    graph = softmax_graph(leaf(2, 4), by_formula=True)
    assert [op.name for op in graph.ops] == GUARDED
    for options in ({"constants": True}, {"saved": True}, {"heat": "flops"}):
        assert titles(graph.picture(**options), "op") == GUARDED


def shifted_without_detaching(x):
    return tt.exp(x - tt.max(x, axis=-1, keepdims=True))


def shifted_by_another(x):
    return tt.exp(x - tt.max(x * 2, axis=-1, keepdims=True).detach())


def shifted_and_read_again(x):
    y = [x - tt.max(x, axis=-1, keepdims=True).detach()]
    return tt.exp(y[0]) + y[0]


def named(x):
    largest = tt.max(x, axis=-1, keepdims=True).detach()
    return tt.exp(x - largest)


def a_choice_of_another(x):
    s = [tt.sum(x, axis=-1), tt.max(x, axis=-1)]
    return tt.where(s[0] == 0, 1.0, s[1])


def a_relu(x):
    s = [tt.sum(x, axis=-1)]
    return tt.where(s[0] <= 0, 0.0, s[0]) * 1.0


@pytest.mark.parametrize(
    "function",
    [shifted_without_detaching, shifted_by_another, shifted_and_read_again, named, a_choice_of_another, a_relu],
)
def test_steps_that_only_look_like_guards_are_drawn(function):
    x = leaf(2, 4)
    with tt.record() as graph:
        function(x)
    assert titles(graph.picture(), "op") == [op.name for op in main_ops(graph.structure)]


def test_how_constants_were_computed_is_shown_on_demand():
    x, c = leaf(3), constant(3)

    def scaled(factor):
        with tt.record() as graph:
            factor = tt.exp(factor) * 2.0
            x * factor
        return graph

    graph = scaled(c[:])
    assert titles(graph.picture(), "op") == ["multiply"]
    assert titles(graph.picture(), "constant") == ["factor"]
    assert titles(graph.picture(constants=True), "op") == ["exp", "multiply", "multiply"]
    with tt.record() as graph:
        factor = tt.exp(c) * 2.0
        x * factor
    assert titles(graph.picture(), "input") == ["c"]  # what depends on a named input is no constant
    assert titles(graph.picture(), "op") == ["exp", "multiply", "multiply"]


def test_what_a_gradient_depends_on_without_flowing_is_shown():
    x = leaf(2, 3)
    with tt.record() as graph:
        tt.exp(x / tt.max(x, axis=-1, keepdims=True).detach())
    assert titles(graph.picture(), "op") == ["max", "divide", "exp"]


def test_without_gradients_everything_with_floating_numbers_is_shown():
    x, indices = constant(3, 2), tt.asarray([0, 1])
    with tt.record() as graph:
        place = indices + 1
        tt.where(x[place] > 0, 1.0, 0.0)
    assert [op.name for op in main_ops(graph.structure)] == ["getitem", "greater", "where"]


def test_integers_alone_are_shown():
    with tt.record() as graph:
        tt.asarray([0, 1]) + 1
    assert titles(graph.picture(), "op") == ["add"]


@pytest.mark.parametrize("mode", [tt.no_grad, tt.enable_grad])
def test_formulas_among_ops_without_gradient(mode):
    x, w = constant(2, 3), constant(3, 3)
    with tt.record() as graph, mode():
        F.softmax(x @ w, -1) * x
    found = titles(graph.picture(), "op")
    assert (found[0], found[-1]) == ("matmul", "multiply")
    assert "exp" in found
    assert sorted(titles(graph.picture(), "input")) == ["w", "x"]


# ---- fused ops


def test_fused_ops_are_formulas_by_default():
    x = leaf(2, 4)
    with tt.record() as graph:
        F.softmax(x, -1)
    assert [(box.name, box.kind) for box in graph.picture().boxes] == [("softmax", "formula")]
    assert titles(graph.picture(fused="folded"), "op") == ["softmax"]


@pytest.mark.parametrize("option", [{"backward": True}, {"saved": True}, {"heat": "time"}])
def test_pictures_of_what_ran_have_fused_ops_whole(option):
    x = leaf(2, 4)
    with tt.record() as graph:
        F.softmax(x, -1)
    assert titles(graph.picture(**option), "op") == ["softmax"]
    if "heat" not in option:
        assert len(titles(graph.picture(fused="formula", **option), "op")) > 5


def test_at_depth_0_formulas_are_folded():
    x = leaf(2, 4)
    with tt.record() as graph:
        F.softmax(x, -1)
    assert titles(graph.picture(depth=0), "op", "module") == ["softmax"]


def test_the_attention_computation_shows_its_steps():
    query, key, value = leaf(1, 4, 3), leaf(1, 4, 3, seed=1), leaf(1, 4, 3, seed=2)
    with tt.record() as graph:
        F.scaled_dot_product_attention(query, key, value, is_causal=True)
    picture = graph.picture()
    assert titles(picture, "op") == ["matmul", "multiply", "masked_fill", "softmax", "matmul"]
    assert [v.heading for v in of_kind(picture, "op")][:3] == ["Q Kᵀ", "× 1/√dₖ = 0.5774", "mask"]
    assert titles(picture, "mask") == ["causal mask"]
    assert [v.shape for v in of_kind(picture, "op")] == [(1, 4, 4)] * 4 + [(1, 4, 3)]


# ---- gradients


def test_backward_mirrors_the_graph():
    x, c = leaf(3), constant(3)
    with tt.record() as graph:
        y = tt.exp(x) * c
    picture = graph.picture(backward=True)
    assert titles(picture, "gradient") == ["∂L/∂x", "∇ exp", "∇ multiply", "∂L/∂y"]
    assert edges(picture, "gradient") == [("∇ exp", "∂L/∂x"), ("∇ multiply", "∇ exp"), ("∂L/∂y", "∇ multiply")]
    assert edges(picture, "uses") == [("exp", "∇ exp"), ("multiply", "∇ multiply")]
    assert not any(v.lines for v in of_kind(picture, "gradient"))
    y.backward(tt.ones(3, dtype=tt.float64))
    with_norms = {v.title: v.lines for v in of_kind(graph.picture(backward=True), "gradient")}
    assert with_norms["∂L/∂x"] == (f"= [{', '.join(f'{n:.4g}' for n in x.grad.tolist())}]",)


def test_constants_have_no_gradient():
    x, c = leaf(3), constant(3)
    with tt.record() as graph:
        x * tt.exp(c)
    assert titles(graph.picture(backward=True, constants=True), "gradient") == ["∂L/∂x", "∇ multiply", "∂L/∂output"]


# ---- memory


def test_saved_says_who_keeps_what():
    x, w = constant(4, 3), leaf(3, 2)
    with tt.record() as graph:
        hidden = tt.exp(x @ w)
        tt.sum(hidden * hidden)
    picture = graph.picture(saved=True)
    assert {v.title: v.lines for v in of_kind(picture, "op")} == {
        "matmul": ("keeps 96 B: x",),
        "exp": ("keeps 64 B: hidden",),
        "multiply": ("keeps 64 B: hidden",),
        "sum": (),
    }


def test_saved_sums_each_array_once_and_parameters_never():
    x, w = constant(4, 3), leaf(3, 2)
    with tt.record() as graph:
        hidden = tt.exp(x @ w)
        tt.sum(hidden * hidden) + tt.sum(w * w)
    assert graph.picture(saved=True).notes == ("kept until the backward pass: 160 B in 2 arrays",)
    assert graph.picture().notes == ()


def test_saved_counts_what_folded_layers_keep():
    graph, _ = stack(3)
    unfolded, folded = (graph.picture(saved=True, fold=fold, depth=1) for fold in (False, True))
    assert unfolded.notes == folded.notes
    assert folded.notes[0].startswith("kept until the backward pass: 8.64 kB in ")
    assert [v.lines[-1] for v in of_kind(unfolded, "module")] == ["keeps 2.88 kB"] * 3
    assert [v.lines[-1] for v in of_kind(folded, "module")] == ["keeps 8.64 kB"]


# ---- heat


def test_heat_by_bytes_and_operations():
    x, w = constant(4, 3), leaf(3, 2)
    with tt.record() as graph:
        tt.sum(x @ w)
    for kind, expected in (("bytes", [64.0, 8.0]), ("flops", [48.0, 8.0])):
        picture = graph.picture(heat=kind)
        assert [v.heat for v in of_kind(picture, "op")] == expected
        assert (picture.scale.low, picture.scale.high) == (min(expected), max(expected))
        assert all(v.heat is None for v in of_kind(picture, "input", "parameter", "output"))
    assert graph.picture().scale is None


def test_heat_by_time_is_the_median_of_several_runs(monkeypatch):
    x = leaf(3)
    with tt.record() as graph:
        tt.sum(tt.exp(x))
    times = iter([0.0, 50.0, 0.0, 3.0, 0.0, 1.0, 0.0, 9.0, 0.0, 50.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    picture = graph.picture(heat="time", repeat=3)
    monkeypatch.undo()
    assert [v.heat for v in of_kind(picture, "op")] == [3.0, 1.0]
    assert [v.lines[-1] for v in of_kind(picture, "op")] == ["75 % · 3 s", "25 % · 1 s"]


def test_heat_by_gradient_is_the_norm():
    x = tt.tensor([3.0, 4.0], dtype=tt.float64, requires_grad=True)
    with tt.record() as graph:
        tt.sum(x * x).backward()
    heats = {v.title: v.heat for v in graph.picture(heat="grad").vertices}
    assert heats == {"x": 10.0, "multiply": math.sqrt(2), "sum": 1.0, "output": None}


def test_heat_of_a_folded_module_is_that_of_all_it_stands_for():
    graph = called(Again(4), 2, 3)
    (vertex,) = of_kind(graph.picture(heat="flops"), "module")
    assert vertex.heat == 4 * 2 * 2 * 3 * 3


def test_heat_without_measurements_is_an_error():
    x = leaf(3)
    with tt.record() as graph:
        y = tt.exp(x)
    with pytest.raises(ValueError, match=r"heat='grad' needs gradients: .*backward\(\)"):
        graph.picture(heat="grad")
    with pytest.raises(ValueError, match="heat='time' needs measurements"):
        tt.draw(tt.exp(x)).picture(heat="time")
    assert y.requires_grad


def test_the_scale_runs_from_the_first_colour_to_the_last():
    linear = Scale("n", 0.0, 8.0, str)
    assert [linear.place(x) for x in (0.0, 0.9, 1.0, 4.0, 7.9, 8.0)] == [0, 0, 1, 4, 7, 7]
    assert (linear.middle, linear.logarithmic) == (4.0, False)
    logarithmic = Scale("n", 1.0, 1e8, str)
    assert [logarithmic.place(x) for x in (1.0, 9.0, 11.0, 1e8)] == [0, 0, 1, 7]
    assert (logarithmic.middle, logarithmic.logarithmic) == (1e4, True)
    assert Scale("n", 2.0, 2.0, str).place(2.0) == len(RAMP) - 1
    assert linear.place(math.inf) == len(RAMP) - 1


def test_scales_of_numbers_that_are_not_finite():
    known = scale("grad", [1.0, math.inf, None, 2.0])
    assert (known.low, known.high) == (1.0, 2.0)
    assert scale("grad", [math.nan]).place(math.nan) == len(RAMP) - 1
    assert of_ops("time", [], {}) is None


def test_heat_grows_darker():
    def luminance(colour):
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    shades = [luminance(colour) for colour in RAMP]
    assert shades == sorted(shades, reverse=True)
    assert len(set(shades)) == len(RAMP)


# ---- direction and size


def long_chain(length):
    y = leaf(1)
    with tt.record() as graph:
        for i in range(length):
            y = [tt.sin, tt.exp][i % 2](y)
    return graph


def test_long_graphs_stand_upright_and_short_ones_lie():
    assert long_chain(3).picture().direction == "LR"
    assert long_chain(60).picture(fold=False).direction == "TB"


@pytest.mark.parametrize("direction", ["LR", "TB", "RL", "BT"])
def test_the_direction_can_be_chosen(direction):
    assert long_chain(60).picture(direction=direction).direction == direction


@pytest.mark.slow
def test_more_than_2000_vertices_ask_for_a_flag():
    graph = long_chain(2000)
    with pytest.raises(ValueError, match=r"2,002 vertices.*pass large=True"):
        graph.picture(fold=False)
    assert len(graph.picture(fold=False, large=True).vertices) == 2002
    assert len(long_chain(1998).picture(fold=False).vertices) == 2000


def test_the_failed_op_is_marked():
    x = leaf(3)
    with tt.record() as graph:
        tt.exp(tt.sin(x))
    graph._failed = graph._nodes[0]
    assert [v.title for v in graph.picture().vertices if v.failed] == ["sin"]
    graph = called(nn.Linear(2, 2), 2)
    graph._failed = graph._nodes[0]
    assert [v.title for v in graph.picture(depth=0).vertices if v.failed] == ["Linear"]


# ---- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dept": 3}, "there is no option 'dept'; there are .*depth"),
        ({"direction": "up"}, "direction is 'up'; expected one of None, 'LR'"),
        ({"fused": True}, "fused is True; expected one of 'auto'"),
        ({"heat": "speed"}, "heat is 'speed'; expected one of None, 'time'"),
        ({"depth": -1}, "depth is -1; expected an integer from 0"),
        ({"depth": True}, "depth is True; expected an integer"),
        ({"depth": "2"}, "depth is '2'"),
        ({"collapse": 3}, "collapse is 3; expected names or a function"),
    ],
)
def test_options_that_do_not_fit(options, message):
    x = leaf(3)
    y = tt.exp(x)
    with pytest.raises(ValueError, match=message):
        tt.draw(y).picture(**options)
    with pytest.raises(ValueError, match=message):
        tt.draw(y, **options)


def test_options_of_the_graph_hold_unless_a_face_is_told_otherwise():
    x = leaf(3)
    graph = tt.draw(tt.exp(x), direction="TB")
    assert graph.picture().direction == "TB"
    assert graph.picture(direction="RL").direction == "RL"
    assert graph.picture().direction == "TB"


def test_default_options():
    assert Options() == Options(depth=2, collapse=(), fused="auto", fold=True, constants=False, backward=False)
    assert Options().formulas
    assert not Options(saved=True).formulas


def test_a_recording_of_nothing_cannot_be_drawn():
    with tt.record() as graph:
        pass
    with pytest.raises(ValueError, match=r"nothing was computed within tt.record\(\)"):
        graph.picture()


def test_what_cannot_be_drawn_says_so():
    x = leaf(1)
    y = tt.exp(x)
    with pytest.raises(ValueError, match=r"output 0 \(1,\) has no graph.*requires_grad=True"):
        tt.draw(tt.tensor([1.0]))
    with pytest.raises(ValueError, match="at least one output"):
        tt.draw([])
    with pytest.raises(TypeError, match="output 1 is a float"):
        tt.draw([y, 1.0])
    with pytest.raises(TypeError, match=r"names\['x'\] is a ndarray"):
        tt.draw(y, names={"x": np.ones(1)})


# ---- words


def test_numbers_as_words():
    assert [bytes_text(n) for n in (0, 999, 1500, 2e6, 3e9)] == ["0 B", "999 B", "1.5 kB", "2 MB", "3 GB"]
    assert [count_text(n) for n in (12, 1500, 2e6, 3e9, 4e12)] == ["12", "1.5 k", "2 M", "3 G", "4 T"]
    assert [seconds_text(s) for s in (2, 0.0015, 2e-6, 3e-9)] == ["2 s", "1.5 ms", "2 µs", "3 ns"]
    assert [shape_text(s) for s in ((), (3,), (2, 3))] == ["scalar", "3", "2×3"]
    assert [plural(n, "op") for n in (0, 1, 2000)] == ["0 ops", "1 op", "2,000 ops"]
    assert cut("abcdef", 4) == "abc…"


def test_values_as_words():
    assert [short(v) for v in (None, 1, 0.5, "text", np.dtype("float32"), slice(1, None, 2), ..., (1,), [1, 2])] == [
        "None", "1", "0.5", "text", "float32", "1::2", "...", "1", "(1, 2)",
    ]  # fmt: skip
    assert short(np.zeros((2, 3))) == "float64 2×3"
    assert short(math.sqrt) == "sqrt"
    assert short(object()) == "object"


def test_a_stack_whose_inner_results_are_read_is_not_folded():
    """The layers of deep supervision differ in who reads them: a stack reads all, a sum only some."""
    layers = [nn.Linear(4, 4) for _ in range(3)]
    for i, layer in enumerate(layers):
        layer._scope = f"layer{i}"
    x = tt.ones((2, 4))
    with tt.record() as chain:
        h = layers[2](layers[1](layers[0](x)))
    with tt.record() as supervised:
        results, h = [], x
        for layer in layers:
            h = layer(h)
            results.append(h)
        loss = results[0].sum() + results[2].sum()
    with tt.record() as stacked:
        results, h = [], x
        for layer in layers:
            h = layer(h)
            results.append(h)
        loss = tt.stack(results).sum()
    with tt.record() as parallel:
        both = tt.concat([layer(x) for layer in layers])
    del loss, both
    assert "× 3" in chain.to_text()
    assert "× 3" not in supervised.to_text()
    assert "× 3" in stacked.to_text()
    assert "as all 3" in stacked.to_text()
    assert "× 3 side by side" in parallel.to_text()


def test_an_input_with_a_gradient_leads_into_a_closed_module():
    layer = nn.Linear(4, 3)
    given = tt.ones((2, 4)).requires_grad_()
    with tt.record() as graph:
        y = layer(given)
    del y
    picture = graph.picture(depth=0)
    names = {v.id: v.title for v in picture.vertices}
    assert ("given", "Linear") in {(names[e.tail], names[e.head]) for e in picture.edges}
    (closed,) = [v for v in picture.vertices if v.kind == "module"]
    assert closed.lines[0] == "15 parameters"


# ---- loops


class Recurrent(nn.Module):
    """A cell that goes over the steps of a sequence, and a layer behind it."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.RNNCell(2, 3), nn.Linear(3, 1)

    def forward(self, x):
        h = tt.zeros((len(x), 3))
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return self.out(h)


def by_hand(turns, collected=False):
    """h = tanh(x_t W + h U), as a graph."""
    x, W, U = constant(2, turns, 3), leaf(3, 3), leaf(3, 3, seed=1)
    with tt.record() as graph:
        h, states = tt.zeros((2, 3), dtype=tt.float64), []
        for t in range(turns):
            h = tt.tanh(x[:, t] @ W + h @ U)
            states.append(h)
        if collected:
            tt.stack(states, axis=1)
    return graph


def test_a_cell_in_a_loop_stands_once_with_an_arrow_to_itself():
    picture = called(Recurrent(), 2, 20, 2).picture(depth=2)
    assert [(box.name, box.label) for box in picture.boxes][1] == ("step 1 … step 20", "× 20")
    (cell,) = [v for v in of_kind(picture, "module") if v.name == "cell"]
    assert [(e.tail, e.head, e.label) for e in picture.edges if e.kind == "loop"] == [(cell.id, cell.id, "hx")]
    assert len(picture.vertices) < 8


@pytest.mark.parametrize("collected", [False, True])
def test_a_loop_written_by_hand_stands_once(collected):
    picture = by_hand(5, collected).picture()
    assert titles(picture, "op")[:5] == ["getitem", "matmul", "matmul", "add", "tanh"]
    assert len(of_kind(picture, "op")) == 5 + collected
    assert edges(picture, "loop") == [("tanh", "matmul")]
    assert of_kind(picture, "op")[0].heading == "x[:, 0] … x[:, 4]"


def test_the_recurrence_inside_a_layer_stands_once():
    picture = called(nn.RNN(3, 4), 6, 2, 3).picture(depth=4)
    assert "× 6" in [box.label for box in picture.boxes]


@pytest.mark.parametrize("function", [lambda x: [tt.exp(x) for _ in range(5)], lambda x: tt.exp(tt.exp(x))])
def test_what_is_no_recurrence_is_no_loop(function):
    x = leaf(3)
    with tt.record() as graph:
        function(x)
    assert not any(box.label for box in graph.picture().boxes)


def test_lines_of_code_that_are_alike_are_no_loop():
    W, h = leaf(3, 3), constant(2, 3)
    with tt.record() as graph:
        h = tt.tanh(h @ W)
        h = tt.tanh(h @ W)
        h = tt.tanh(h @ W)
        h = tt.tanh(h @ W)
    assert titles(graph.picture(), "op") == ["matmul", "tanh"] * 4


def test_a_loop_whose_inner_states_are_read_apart_is_not_folded():
    x, W = constant(2, 3), leaf(3, 3)
    with tt.record() as graph:
        h, states = x, []
        for _ in range(5):
            h = tt.tanh(h @ W)
            states.append(h)
        states[1] + tt.exp(states[3])
    assert titles(graph.picture(), "op").count("tanh") == 5


def test_an_unrolled_loop_has_every_turn_with_its_step_below():
    picture = called(Recurrent(), 2, 5, 2).picture(unroll=True)
    assert picture.direction == "LR"
    cells = [v for v in of_kind(picture, "module") if v.name == "cell"]
    assert len(cells) == 5
    steps = of_kind(picture, "input")
    assert [v.heading for v in steps] == [f"x[:, {t}]" for t in range(5)]
    assert picture.levels == tuple((step.id, cell.id) for step, cell in zip(steps, cells))
    handed = [(e.tail, e.head) for e in picture.edges if e.operand == "hx"]
    assert handed == [(a.id, b.id) for a, b in itertools.pairwise(cells)]


def test_an_unrolled_loop_by_hand_has_a_vertex_for_each_turn():
    picture = by_hand(4).picture(unroll=True)
    assert titles(picture, "module") == [f"step {n}" for n in range(1, 5)]
    assert not of_kind(picture, "parameter")


# ---- numbers of small graphs


def test_a_small_graph_shows_its_numbers_and_gradients_with_their_sign():
    x, y = (tt.tensor(n, requires_grad=True, dtype=tt.float64) for n in (2.0, -3.0))
    with tt.record() as graph:
        z = x * y + tt.sin(x)
    z.backward()
    shown = {v.heading: v.numbers for v in graph.picture().vertices}
    assert shown["x"] == ("= 2", f"∂L/∂x = {-3 + math.cos(2):.4g}".replace("-", "−"))
    assert shown["y"] == ("= −3", "∂L/∂y = 2")
    assert shown["x × y"] == ("= −6", "∂L/∂out = 1")
    assert all(edge.label == "" for edge in graph.picture().edges)


def test_an_unrecorded_graph_shows_what_is_known_by_the_callers_names():
    slope = tt.tensor([2.0, 3.0], requires_grad=True)
    offset = tt.tensor(1.0, requires_grad=True)
    line = slope * 3 + offset
    picture = tt.draw(line).picture()
    assert {v.heading: v.numbers for v in of_kind(picture, "parameter")} == {
        "slope": ("= [2, 3]",),
        "offset": ("= 1",),
    }
    assert titles(picture, "output") == ["line"]


def test_large_graphs_and_large_arrays_show_no_numbers():
    x = leaf(5)
    with tt.record() as graph:
        tt.sum(x)
    assert not of_kind(graph.picture(), "parameter")[0].numbers
    assert not any(v.numbers for v in long_chain(60).picture(fold=False).vertices)


def test_one_of_several_turns_shows_no_numbers():
    x, w = constant(3), leaf(1)
    with tt.record() as graph:
        h = x[:1]
        for t in range(3):
            h = tt.tanh(h * w + x[t : t + 1])
    shown = {v.title: v.numbers for v in of_kind(graph.picture(), "op")}
    assert shown["tanh"] == shown["multiply"] == ()
    assert all(v.numbers for v in of_kind(graph.picture(fold=False), "op") if v.title == "tanh")


# ---- depth


def test_depth_1_has_the_layers_closed_and_attention_is_opened_before_a_norm():
    graph = stack(3)[0]
    assert titles(graph.picture(depth=0), "module") == ["TransformerEncoder"]
    assert titles(graph.picture(depth=1), "module") == ["TransformerEncoderLayer"]
    assert "Add & Norm" in titles(graph.picture(depth=4), "module")
    assert [v.heading for v in of_kind(graph.picture(depth=4), "op")].count("Q Kᵀ") == 1
    assert "x − mean" in [v.heading for v in of_kind(graph.picture(depth=5), "op")]


def test_parameters_have_their_names_within_their_boxes():
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 2)
    whole = nn.Module()
    whole.encoder = layers
    x = tt.ones((2, 3, 4))
    with tt.record() as graph:
        layers(x)
    names = titles(graph.picture(depth=5), "parameter")
    assert {"in_proj_weight", "weight", "bias"} == set(names) - {"in_proj_bias"}
