"""The graph as data: ops, values, scopes, what is kept and why, formulas of fused ops."""

import gc
import json
import math
import time

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.graph import Saved
from tinytensor.graph.build import Builder, formula_of, walk
from tinytensor.graph.cost import flops

from .heads import attention_head


def leaf(*shape, seed=0):
    return tt.Tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def constant(*shape, seed=1):
    return tt.Tensor(np.random.default_rng(seed).normal(size=shape))


def unfolded(graph):
    """The structure with every fused op as its formula."""
    return Builder(unfold=lambda _: True).build(graph._nodes, graph._roots)


def by_name(graph):
    return {op.name: op for op in graph.ops}


# ---- ids and wiring


def test_ids_count_in_the_order_of_first_meeting():
    graph, _ = attention_head()
    structure = graph.structure
    for prefix, things in (("o", structure.ops), ("v", structure.values), ("s", structure.scopes)):
        assert [thing.id for thing in things] == [f"{prefix}{i + 1}" for i in range(len(things))]


def test_inputs_of_an_op_are_made_before_it():
    structure = attention_head()[0].structure
    made = {value.id for value in structure.values if value.maker is None}
    for op in structure.ops:
        assert set(op.inputs) - {None} <= made
        made.add(op.output)
    assert made == {value.id for value in structure.values}


def test_the_same_computation_has_the_same_structure():
    first, second = (attention_head()[0].structure.as_dict() for _ in range(2))
    for structure in (first, second):
        for op in structure["ops"]:
            op["seconds"] = None
    assert first == second


def test_outputs_are_what_variables_hold_and_nothing_reads():
    x = leaf(3)

    def makers_of_outputs():
        with tt.record() as graph:
            y = tt.exp(x)
            y * 2.0
            kept = [tt.sin(y)]  # noqa: F841
            float(tt.max(y))
            tt.sum(y)  # the last one counts as well
        return [value.maker for value in graph.values if value.id in graph.structure.outputs], graph

    makers, graph = makers_of_outputs()
    assert makers == ["o3", "o5"]
    unread = [vertex.title for vertex in graph.picture().vertices if vertex.kind == "unread"]
    assert unread[0] == "not used"
    assert unread[1].startswith("read by Python: test_structure.py:")


def test_the_last_output_is_one_if_nothing_holds_any():
    x = leaf(3)

    def makers_of_outputs():
        with tt.record() as graph:
            tt.exp(x)
            tt.sum(x)
        return [value.maker for value in graph.values if value.id in graph.structure.outputs]

    assert makers_of_outputs() == ["o2"]


def test_the_last_state_of_a_loop_is_an_output_though_its_size_was_read():
    x, w = leaf(3), leaf(3, 3)
    with tt.record() as graph:
        for _ in range(3):
            x = tt.tanh(x @ w)
            if float((x * x).sum()) < 0:
                break
    picture = graph.picture()
    assert [v.title for v in picture.vertices if v.kind == "output"] == ["x"]
    assert [v.title.partition(":")[0] for v in picture.vertices if v.kind == "unread"] == ["read by Python"]


def test_outputs_of_a_drawn_tensor_are_that_tensor():
    x = leaf(3)
    hidden = tt.exp(x)
    loss = tt.sum(hidden)
    structure = tt.draw([loss, hidden], names={"x": x, "hidden": hidden}).structure
    assert structure.outputs == ("v3", "v2")
    assert [value.name for value in structure.values] == ["x", "hidden", "loss"]


def test_a_shared_value_stands_once():
    x = leaf(2)
    y = tt.exp(x)
    structure = tt.draw(y * y + y).structure
    assert [op.name for op in structure.ops] == ["exp", "multiply", "add"]
    assert [op.inputs for op in structure.ops] == [("v1",), ("v2", "v2"), ("v3", "v2")]


@pytest.mark.parametrize("recorded", [True, False])
def test_diamonds_do_not_multiply(recorded):
    """60 of them on each other have 2**60 paths."""
    y = leaf(2)
    with tt.record() as graph:
        if recorded:
            for _ in range(60):
                y = y + tt.exp(y * 0.0)
    if not recorded:
        for _ in range(60):
            y = y + tt.exp(y * 0.0)
        graph = tt.draw(y)
    assert len(graph.ops) == 180
    assert len(graph.picture(fold=False).vertices) == 182


def test_unrecorded_graphs_have_no_constants_lines_or_times():
    x, c = leaf(2, 3), constant(2, 3)
    (op,) = tt.draw(x * c).ops
    assert op.inputs == ("v1", None)
    assert (op.origin, op.seconds, op.step, op.scope) == (None, None, None, None)
    assert [value.kind for value in tt.draw(x * c).values] == ["parameter", "result"]


def test_an_op_that_reads_a_sequence_has_all_its_inputs():
    x, y = leaf(2), constant(2)
    with tt.record() as graph:
        tt.concat([x, y, x])
    assert graph.ops[0].inputs == ("v1", "v2", "v1")


# ---- values


def test_kinds():
    x, w, indices = constant(2, 3), leaf(3), tt.asarray([0, 1])
    with tt.record() as graph:
        y = x[indices] * w + tt.ones(3)
    kinds = {value.name or value.maker or "ones": value.kind for value in graph.values}
    assert kinds.pop("indices") == "input"
    assert kinds == {"x": "input", "w": "parameter", "ones": "constant", "o1": "result", "o2": "result", "y": "result"}
    assert y.requires_grad


def test_shapes_dtypes_and_bytes():
    x = tt.ones((2, 3), dtype=tt.float32)
    with tt.record() as graph:
        tt.sum(x > 0)
    assert [(v.shape, v.dtype, v.nbytes) for v in graph.values] == [
        ((2, 3), "float32", 24),
        ((2, 3), "bool", 6),
        ((), "int64", 8),
    ]


def test_names_are_given_by_a_dict_or_a_module():
    model = nn.Linear(2, 1)
    y = tt.sum(model(tt.ones((1, 2))))
    for names, expected in ((model, "weight"), ({"model": model}, "model.weight"), ({"w": model.weight}, "w")):
        assert expected in [value.name for value in tt.draw(y, names=names).values]


def test_given_names_go_before_recorded_ones():
    x, c = leaf(3), constant(3)
    with tt.record():
        y = x * c
    assert [v.name for v in tt.draw(y, names={"X": x, "C": c, "Y": y}).values] == ["X", "C", "Y"]


def test_a_leaf_that_is_both_recorded_and_drawn_has_one_name():
    x = leaf(3)
    with tt.record() as graph:
        y = tt.exp(x)
    assert [v.name for v in tt.draw(y).values] == [v.name for v in graph.values] == ["x", "y"]


# ---- masks


LOWER = np.tril(np.ones((4, 4), dtype=bool))
SEEN = np.array([[True, True, True, True], [True, True, False, False]])[:, None, None]
BACK = np.arange(4)[:, None] - np.arange(4)  # from a query to the keys before it


def mask_of(attn_mask, **options):
    """What is said of the mask that the attention op reads."""
    query = leaf(2, 2, 4, 3)
    with tt.record() as graph:
        F.scaled_dot_product_attention(query, query, query, attn_mask=attn_mask, **options)
    attention = graph.ops[-1]
    (mask,) = [v for v in graph.values if v.id in attention.inputs and v.shape != (2, 2, 4, 3)]
    return mask.mask, mask.pattern


@pytest.mark.parametrize(
    ("seen", "name"),
    [
        (LOWER, "causal"),
        (SEEN, "padding"),
        (LOWER & SEEN, "causal and padding"),
        (np.ones((4, 4), dtype=bool), ""),
        (np.array([[True, False, True, True]] * 4), ""),
        (~LOWER, ""),
        (LOWER & (BACK < 2), "sliding window"),
        (LOWER & (BACK < 2) & SEEN, "sliding window and padding"),
        (abs(BACK) < 2, "sliding window"),
        (LOWER & [False, True, True, True], "causal and padding"),
        (LOWER & (BACK != 1), "causal with gaps"),
        (LOWER & np.equal.outer([0, 0, 1, 1], [0, 0, 1, 1]), "causal with gaps"),
    ],
    ids=[
        "causal", "padding", "both", "nothing", "a hole", "the past", "window", "window and padding", "both sides",
        "padding on the left", "strided", "documents",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["boolean", "additive"])
def test_what_a_mask_forbids(seen, name, kind):
    mask = seen if kind == "boolean" else np.where(seen, 0.0, -math.inf)
    found, pattern = mask_of(tt.asarray(mask))
    assert found == name
    if name:
        forbidden = ~seen if seen.ndim == 2 else ~seen[1, 0]
        assert pattern == tuple(map(tuple, forbidden.tolist()))
    else:
        assert pattern is None


def test_is_causal_is_a_causal_mask():
    assert mask_of(None, is_causal=True)[0] == "causal"


def test_an_additive_mask_may_hold_biases():
    assert mask_of(tt.asarray(np.where(LOWER, 0.5, -math.inf)))[0] == "causal"
    assert mask_of(tt.asarray(np.where(LOWER, 0.5, -1e9))) == ("", None)


def test_large_masks_have_no_pattern():
    query = leaf(1, 13, 2)
    with tt.record() as graph:
        F.scaled_dot_product_attention(query, query, query, is_causal=True)
    masks = [(v.mask, v.pattern) for v in graph.values if v.mask]
    assert masks == [("causal", None)]


def test_ordinary_booleans_and_numbers_are_no_masks():
    x = tt.Tensor([[0.0, 1.0], [1.0, 1.0]], requires_grad=True)
    with tt.record() as graph:
        tt.where(x > 0, x, 0.0)
        tt.sum(tt.logical_not(tt.asarray(LOWER)))
        tt.asarray([0, 1]) + 1
        tt.full((2,), -math.inf) * 1.0
        tt.zeros((0, 3)) * 1.0
    assert [v.mask for v in graph.values if v.mask] == []


# ---- what is kept, and why


def test_who_keeps_what():
    x, y = leaf(2, 3), leaf(3)
    with tt.record() as graph:
        product = x * y
        e = tt.exp(product)
        tt.sum(e)
    kept = {op.name: op.saved for op in graph.ops}
    assert kept == {
        "multiply": (Saved("v1", 48, "the gradient of x2 reads x1"), Saved("v2", 24, "the gradient of x1 reads x2")),
        "exp": (Saved("v4", 48, "the gradient of x reads out"),),
        "sum": (),
    }


def test_nothing_is_kept_for_what_needs_no_gradient():
    x, c = leaf(3), constant(3)
    with tt.record() as graph:
        x * c
        c * c
        with tt.no_grad():
            x * x
    assert [op.saved for op in graph.ops] == [(Saved("v2", 24, "the gradient of x1 reads x2"),), (), ()]


def test_a_detached_input_is_kept_for_the_other():
    x, y = leaf(3), leaf(3, seed=1)
    with tt.record() as graph:
        x * y.detach()
        x * x.detach()
    x_id, y_id = graph.ops[0].inputs
    why = "the gradient of x1 reads x2"
    assert [op.saved for op in graph.ops] == [(Saved(y_id, 24, why),), (Saved(x_id, 24, why),)]


@pytest.mark.parametrize("retain", [True, False])
def test_what_was_kept_is_known_after_backward(retain):
    x = leaf(3)
    with tt.record() as graph:
        y = tt.sum(x * x)
    before = [op.saved for op in graph.ops]
    y.backward(retain_graph=retain)
    assert [op.saved for op in graph.ops] == before != [(), ()]


def test_what_unrecorded_ops_keep():
    x = leaf(3)
    y = tt.exp(x)
    exp, _ = tt.draw(tt.sum(y)).ops
    assert exp.saved == (Saved("v2", 24, "the gradient of x reads out"),)


def test_fused_ops_keep_inputs_results_and_residuals_once_each():
    x = leaf(2, 4)
    with tt.record() as graph:
        F.softmax(x, -1)
        F.layer_norm(x, (4,))
    softmax, layer_norm = graph.ops
    assert {saved.value for saved in softmax.saved} == {softmax.inputs[0], softmax.output}
    assert all(saved.nbytes == 64 for saved in softmax.saved)
    values = [saved.value for saved in layer_norm.saved]
    assert layer_norm.inputs[0] in values
    assert "" in values
    assert len([v for v in values if v]) == len({v for v in values if v})
    assert {saved.why for saved in layer_norm.saved} == {
        "the backward pass of layer_norm reads it",
        "the formula of layer_norm reads it for higher derivatives",
    }


def test_a_sequence_of_inputs_that_is_kept():
    @tt.op(arrays=lambda xp, g, arrays, index: g * arrays[1 - index])
    def product(xp, *arrays):
        return arrays[0] * arrays[1]

    try:
        x, y = leaf(3), leaf(2, 3, seed=1)
        with tt.record() as graph:
            product(x, y)
    finally:
        del tt.ops["product"]
    why = "the rule of product reads its inputs"
    assert graph.ops[0].saved == (Saved("v1", 24, why), Saved("v2", 48, why))


# ---- parameters


@pytest.mark.parametrize(
    ("function", "detail"),
    [
        (lambda x: tt.sum(x, axis=-1), "axis=1"),
        (lambda x: tt.sum(x, axis=(0, 1), keepdims=True), "axis=(0, 1), keepdims"),
        (lambda x: tt.sum(x, axis=0, dtype=tt.float64), "axis=0"),
        (lambda x: x / 3.0, "x2=3"),
        (lambda x: 1 - x, "x1=1"),
        (lambda x: tt.masked_fill(x, tt.tensor([True, False, True]), -math.inf), "value=-inf"),
        (lambda x: x[:, 1], "[:, 1]"),
        (lambda x: x[..., None, ::2], "[..., None, ::2]"),
        (lambda x: x[tt.tensor([0, 1, 1])], "[int64 3]"),
        (lambda x: x[1:2, tt.tensor([[0, 1]])], "[1:2, int64 1×2]"),
        (lambda x: tt.reshape(x, (1, 2, 1, 3, 1)), "to=(1, 2, 1, 3, …)"),
        (lambda x: x[0, None, None, None, None, None, None, None, None, 0], "[0, None, None, None, None, None, N…"),
    ],
)
def test_parameters_are_written_compactly(function, detail):
    x = leaf(2, 3)
    with tt.record() as graph:
        function(x)
    assert graph.ops[-1].detail == detail


def test_an_unknown_parameter_never_shows_an_address():
    @tt.op(x=lambda xp, g: g)
    def tagged(xp, x, *, tag, function):
        return x * 1

    try:
        (op,) = tt.draw(tagged(leaf(1), tag=object(), function=math.sqrt)).ops
    finally:
        del tt.ops["tagged"]
    assert op.parameters == (("tag", "object"), ("function", "sqrt"))


def test_numbers_of_an_unrecorded_op_are_unknown():
    assert tt.draw(leaf(1) * 2.0).ops[0].parameters == ()


# ---- scopes


def test_scopes_know_their_paths():
    structure = attention_head()[0].structure
    assert [(s.name, s.kind, s.path, s.parent) for s in structure.scopes] == [
        ("head", "stage", ("head",), None),
        ("softmax", "stage", ("head", "softmax"), "s1"),
    ]
    assert [op.scope for op in structure.ops] == ["s1"] * 6 + ["s2"] * 3 + ["s1"]


def test_scopes_nest_as_deep_as_the_calls():
    with tt.record() as graph:
        nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(2, 2))))(tt.ones(2))
    assert [s.path for s in graph.scopes][-1] == ("Sequential", "0", "0", "0")
    assert [s.parent for s in graph.scopes] == [None, "s1", "s2", "s3"]


# ---- formulas


def test_a_formula_stands_in_the_place_of_its_op():
    x = leaf(2, 4)
    with tt.record() as graph:
        y = tt.exp(F.softmax(x * 2.0, -1))
    folded, structure = graph.structure, unfolded(graph)
    assert [op.name for op in folded.ops] == ["multiply", "softmax", "exp"]
    inner = [op for op in structure.ops if op.scope]
    assert [op.name for op in inner] == ["max", "equal", "where", "subtract", "exp", "sum", "equal", "where", "divide"]
    assert [(s.name, s.kind, s.path) for s in structure.scopes] == [("softmax", "formula", ("softmax",))]
    first, last = structure.ops[0], structure.ops[-1]
    assert first.output in inner[0].inputs
    assert first.output in inner[3].inputs
    assert last.inputs == (inner[-1].output,)
    assert not any(op.fused for op in structure.ops)
    assert y.shape == (2, 4)


def test_a_formula_reads_the_values_of_its_op():
    layer, x = nn.LayerNorm(4, dtype=tt.float64), leaf(2, 4)
    with tt.record() as graph:
        normal = layer(x)
    structure = unfolded(graph)
    names = {value.id: value.name for value in structure.values}
    read = [(op.name, names[v]) for op in structure.ops for v in op.inputs if v and names[v]]
    given = [("mean", "x"), ("subtract", "x"), ("multiply", "weight"), ("add", "bias")]
    assert [pair for pair in read if pair[1] in ("x", "weight", "bias")] == given
    assert [pair for pair in read if pair not in given] == [  # and its own steps, by the formula's names for them
        ("multiply", "deviation"),
        ("multiply", "deviation"),
        ("add", "variance"),
        ("divide", "deviation"),
        ("multiply", "out"),
        ("add", "out"),
    ]
    assert names[structure.outputs[0]] == "normal"
    assert normal.requires_grad


def test_a_formula_belongs_to_the_module_and_line_of_its_op():
    with tt.record() as graph:
        nn.LayerNorm(4)(tt.ones((2, 4)))
    structure = unfolded(graph)
    assert [(s.name, s.kind, s.parent) for s in structure.scopes] == [
        ("LayerNorm", "LayerNorm", None),
        ("layer_norm", "formula", "s1"),
    ]
    assert {op.origin for op in structure.ops} == {graph.ops[0].origin}
    assert {op.seconds for op in structure.ops} == {None}


def test_self_attention_as_its_formula():
    x = leaf(1, 4, 3)
    with tt.record() as graph:
        F.scaled_dot_product_attention(x, x, x, is_causal=True)
    structure = unfolded(graph)
    names = [op.name for op in structure.ops]
    assert names.count("matmul") == 2
    assert "masked_fill" in names
    x_id = graph.structure.ops[-1].inputs[0]
    assert sum(x_id in op.inputs for op in structure.ops) == 3  # as query, key and value
    assert [v.kind for v in structure.values].count("parameter") == 1


def test_a_formula_of_constants_flows_no_gradient():
    x = constant(2, 4)
    with tt.record() as graph:
        F.softmax(x, -1)
    assert not any(op.differentiable or op.saved for op in unfolded(graph).ops)
    with tt.record() as graph, tt.no_grad():
        F.softmax(leaf(2, 4), -1)
    assert not any(op.differentiable or op.saved for op in unfolded(graph).ops)


@pytest.mark.parametrize("recorded", [True, False])
def test_constants_in_a_formula_are_no_parameters(recorded):
    x, weight, bias = leaf(2, 4), constant(4), constant(4, seed=2)
    with tt.record() as graph:
        if recorded:
            F.layer_norm(x, (4,), weight, bias)
    if not recorded:
        graph = tt.draw(F.layer_norm(x, (4,), weight, bias))
    structure = unfolded(graph)
    assert [v.kind for v in structure.values if v.kind != "result"].count("parameter") == 1
    kinds = {v.id: v.kind for v in structure.values}
    add = structure.ops[-1]
    assert {kinds[v] for v in add.inputs} == {"result", "input" if recorded else "constant"}


def test_short_formulas_are_written_and_not_drawn():
    x = leaf(2, 3)
    with tt.record() as graph:
        F.linear(x, leaf(4, 3))
    structure = unfolded(graph)
    assert [(op.name, op.formula) for op in structure.ops] == [("linear", "x W^T")]


def test_the_result_of_a_formula_is_the_result_of_the_op():
    x = leaf(2, 4)
    with tt.record() as graph:
        y = F.softmax(x, -1)
    formula = formula_of(graph._nodes[0])
    np.testing.assert_allclose(formula.result.values[-1], y.detach().numpy(), rtol=0, atol=1e-15)


def test_a_formula_is_computed_after_backward_freed_its_op():
    x = leaf(2, 4)
    with tt.record() as graph:
        y = F.softmax(x, -1)
    y.backward(tt.ones_like(y))
    assert len(unfolded(graph).ops) > 1


def test_no_formula_without_what_it_reads():
    node = F.softmax(leaf(2, 4), -1)._node
    assert formula_of(node) is not None
    node.kept = None
    assert formula_of(node) is None


def test_computing_a_formula_leaves_the_modes_and_the_recording_alone():
    x = leaf(2, 4)
    with tt.record() as graph:
        F.softmax(x, -1)
        with tt.no_grad(), tt.named_scope("stage"):
            unfolded(graph)
            assert not tt.is_grad_enabled()
    assert len(graph.ops) == 1
    assert graph.scopes == ()


# ---- freed graphs


def test_a_freed_graph_that_was_not_recorded_is_an_error():
    x = leaf(3)
    y = tt.sum(tt.exp(x))
    graph = tt.draw(y)
    y.backward()
    with pytest.raises(RuntimeError, match=r"graph behind sum \(\) .*freed; draw before backward"):
        tt.draw(tt.exp(y))
    with pytest.raises(RuntimeError, match="already used and freed"):
        graph.to_text()


def test_a_recorded_graph_is_whole_after_backward():
    x = leaf(3)
    with tt.record() as graph:
        y = tt.sum(tt.exp(x))
    y.backward()
    assert [(op.name, op.inputs) for op in graph.ops] == [("exp", ("v1",)), ("sum", ("v2",))]
    assert [op.name for op in tt.draw(y).ops] == ["exp", "sum"]


def test_what_is_drawn_of_a_tensor_has_the_order_in_which_it_ran():
    """So that the turns of a loop follow each other, and are folded, in `draw` as in the graph of `record`."""
    x, results, sums = leaf(4), [], []
    with tt.record() as graph:
        for i in range(4):
            with tt.named_scope("double"):
                results.append(x[i] * 2)
        for i in range(4):
            with tt.named_scope("add"):
                sums.append(x[i] + 1)
        result = tt.stack(results) + tt.stack(sums)
    drawn = tt.draw(result)
    assert [op.name for op in drawn.ops] == [op.name for op in graph.ops]
    for some in (drawn, graph):
        assert [box.label for box in some.picture().boxes] == ["× 4 side by side"] * 2


def test_walk_gives_every_op_after_its_inputs():
    x = leaf(3)
    a = tt.exp(x)
    b = a * x
    c = b + a
    assert [node.name for node in walk([c._node, a._node])] == ["exp", "multiply", "add"]


# ---- JSON


def test_json_holds_the_whole_structure():
    graph, out = attention_head()
    tt.sum(out).backward()
    assert json.loads(graph.to_json()) == graph.structure.as_dict()
    data = json.loads(graph.to_json())
    assert list(data) == ["ops", "values", "scopes", "outputs"]
    assert data["ops"][0]["step"]["arrived"]["shape"] == [5, 4]
    assert "seconds" not in graph.to_json()


def test_json_of_numbers_that_are_not_finite():
    x = leaf(2)
    with tt.record() as graph:
        y = x * 2.0
    y.backward(tt.tensor([math.inf, math.nan], dtype=tt.float64))
    step = json.loads(graph.to_json())["ops"][0]["step"]
    assert step["arrived"]["maximum"] == "nan"
    assert step["arrived"]["numbers"] == ["inf", "nan"]
    assert step["arrived"]["finite"] is False


# ---- size


def seconds(function):
    """The least of two measurements, in processor time, without the garbage collector's."""
    found = []
    gc.disable()
    try:
        for _ in range(2):
            began = time.process_time()
            function()
            found.append(time.process_time() - began)
    finally:
        gc.enable()
    return min(found)


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.slow
def test_a_graph_is_built_in_linear_time(recorded):
    def chain(length):
        y = leaf(1)
        if recorded:
            with tt.record() as graph:
                for _ in range(length):
                    y = y + 1.0
            return graph
        for _ in range(length):
            y = y + 1.0
        return tt.draw(y)

    small, large = chain(20_000), chain(100_000)
    assert len(large.structure.ops) == 100_000
    assert seconds(lambda: large.structure) < 7 * seconds(lambda: small.structure)


# ---- cost


@pytest.mark.parametrize(
    ("name", "inputs", "output", "expected"),
    [
        ("matmul", [(5, 8), (8, 4)], (5, 4), 2 * 5 * 8 * 4),
        ("linear", [(5, 8), (4, 8), (4,)], (5, 4), 2 * 5 * 8 * 4),
        ("einsum", [(5, 8), (8, 4)], (5, 4), 2 * 5 * 8 * 4),
        ("exp", [(5, 4)], (5, 4), 20),
        ("sum", [(5, 4)], (5,), 20),
        ("reshape", [(5, 4)], (20,), 0),
        ("attention", [(2, 5, 8), (2, 7, 8), (2, 7, 4)], (2, 5, 4), 2 * 2 * 5 * 7 * 8 + 2 * 2 * 5 * 7 * 4),
        ("attention", [(2, 5, 8), None, None], (2, 5, 8), 2 * 2 * 2 * 5 * 5 * 8),
        ("multi_head", [(2, 5, 24)], (2, 5, 8), 2 * 2 * 2 * 5 * 5 * 8),
        ("multi_head", [(2, 5, 8), (2, 7, 16)], (2, 5, 8), 2 * 2 * 2 * 5 * 7 * 8),
        ("gru", [(7, 2, 24), (2, 8), (24, 8), (24,)], (7, 2, 8), 2 * 7 * 2 * 24 * 8),
        ("rnn", [(7, 2, 8), (2, 8), (8, 8)], (7, 2, 8), 2 * 7 * 2 * 8 * 8),
        ("divide", [None, (3,)], (3,), 3),
    ],
)
def test_operations_are_counted(name, inputs, output, expected):
    assert flops(name, inputs, output) == expected


@pytest.mark.parametrize(("layer", "gates"), [(nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)])
def test_a_recurrent_layer_counts_the_products_of_its_steps(layer, gates):
    with tt.record() as graph:
        layer(8, 16)(tt.random.randn(7, 2, 8))
    assert graph.flops == pytest.approx(2 * 7 * 2 * gates * 16 * (8 + 16), rel=0.1)


# ---- the longest path


def unrolled(steps):
    """h = tanh(x_t W + h U): a getitem, two products, a sum and a tanh for each step."""
    x, w, u = constant(steps, 1, 3), leaf(3, 4, seed=1), leaf(4, 4, seed=2)
    h = constant(1, 4)
    with tt.record() as graph:
        for t in range(steps):
            h = tt.tanh(x[t] @ w + h @ u)
    return graph


def attend(length):
    """Two products, a scale, a softmax as one op, a transposition."""
    x = leaf(length, 8)
    with tt.record() as graph:
        F.softmax(x @ x.mT / math.sqrt(8), dim=-1) @ x
    return graph


@pytest.mark.parametrize("steps", [1, 2, 7, 20])
def test_the_longest_path_grows_with_a_recurrence(steps):
    graph = unrolled(steps)
    assert len(graph.ops) == 5 * steps
    assert graph.depth == 4 + 3 * (steps - 1)  # a step waits for the product, the sum and the tanh of the one before
    assert graph.flops == steps * (2 * 3 * 4 + 2 * 4 * 4 + 4 + 4)


@pytest.mark.parametrize("length", [2, 5, 40])
def test_the_longest_path_of_attention_does_not_grow(length):
    graph = attend(length)
    assert graph.depth == 5  # transposition, product, scale, softmax, product
    assert graph.flops == 2 * 2 * length * length * 8 + 2 * length * length


def test_the_longest_path_of_little():
    with tt.record() as graph:
        pass
    assert (graph.depth, graph.flops) == (0, 0)
    x = leaf(3)
    with tt.record() as graph:
        tt.exp(x) + tt.exp(tt.tanh(tt.exp(x)))
        tt.sum(x)
    assert (graph.depth, len(graph.ops)) == (4, 6)


def test_a_drawn_tensor_has_its_longest_path():
    assert tt.draw(tt.exp(leaf(3)) * 2.0).depth == 2


def test_a_detached_leaf_is_the_leaf():
    x = leaf(3)
    with tt.record() as graph:
        x.detach() * 2.0 + x
    assert [value.kind for value in graph.values] == ["parameter", "result", "result"]
    assert graph.ops[1].inputs == (graph.ops[0].output, graph.ops[0].inputs[0])


# ---- what joins, what is cast, what is a view


def test_the_gradient_of_a_leaf_is_what_this_backward_pass_brought():
    w = tt.Tensor([1.0, 2.0], requires_grad=True)
    (w * 7).sum().backward()  # an earlier gradient is in .grad
    with tt.record() as graph:
        loss = (w * 2 + w * 3).sum()
    loss.backward()
    (value,) = [v for v in graph.values if v.kind == "parameter"]
    assert value.gradient.numbers == [5.0, 5.0]


def test_an_input_that_is_cast_stays_itself():
    x = tt.Tensor([1.0, 2.0], dtype=tt.float32)
    with tt.record() as graph:
        y = x * tt.Tensor([3.0, 4.0], dtype=tt.float64)
        z = tt.exp(x)
    del y, z
    assert [v.name for v in graph.values if v.kind == "input"] == ["x"]
    assert graph.ops[0].inputs[0] == graph.ops[1].inputs[0]


def test_a_view_of_a_parameter_is_no_memory_of_its_own():
    w = nn.Parameter(tt.ones((30, 20)))
    with tt.record() as graph:
        h = tt.ones((4, 20)) @ w.mT
        y = (h * h.reshape(4, 30)).sum()
    del y
    (note,) = graph.picture(saved=True).notes
    assert note == "kept until the backward pass: 800 B in 2 arrays"  # the ones, and h once: 4 * 20 * 4 + 4 * 30 * 4
