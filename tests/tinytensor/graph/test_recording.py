"""What `record` remembers: ops, names, modules, source lines, and what the backward pass did."""

import gc
import math
import threading
import time
import weakref

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.modes import state
from tinytensor.node import Node
from tinytensor.tracing import Statistics, call_site


def leaf(*shape):
    return tt.Tensor(np.random.default_rng(0).normal(size=shape), requires_grad=True)


def constant(*shape):
    return tt.asarray(np.random.default_rng(1).normal(size=shape))


def named(graph):
    """The names of the graph's values that have one, by the op that made them, or by their kind."""
    makers = {op.output: op.name for op in graph.ops}
    return [(makers.get(value.id, value.kind), value.name) for value in graph.values if value.name]


# ---- which ops


def test_ops_stand_in_the_order_of_their_computation():
    x = leaf(3)
    with tt.record() as graph:
        y = tt.exp(x)
        z = y * 2.0 + x
    assert [op.name for op in graph.ops] == ["exp", "multiply", "add"]
    assert z.requires_grad


def test_ops_without_a_gradient_are_recorded():
    x = constant(3)
    with tt.record() as graph:
        y = x > 0
        z = tt.where(y, x, 0.0)
        n = tt.sum(tt.astype(y, tt.int64))
    assert [op.name for op in graph.ops] == ["greater", "where", "astype", "sum"]
    assert not any(op.differentiable for op in graph.ops)
    assert [t._node for t in (y, z, n)] == [None] * 3


def test_ops_under_no_grad_are_recorded_and_need_no_gradient():
    x = leaf(3)
    with tt.record() as graph, tt.no_grad():
        y = tt.exp(x) * 2.0
    assert [(op.name, op.differentiable, op.saved) for op in graph.ops] == [("exp", False, ()), ("multiply", False, ())]
    assert graph.ops[0].output == graph.ops[1].inputs[0]
    assert not y.requires_grad


def test_numbers_are_parameters_and_no_inputs():
    x = leaf(3)
    with tt.record() as graph:
        x * 2.5
    (op,) = graph.ops
    assert op.inputs == (graph.values[0].id, None)
    assert op.parameters == (("x2", "2.5"),)


def test_a_graph_goes_on_growing_while_its_recording_runs():
    x = leaf(3)
    with tt.record() as graph:
        assert graph.ops == ()
        y = tt.exp(x)
        assert [op.name for op in graph.ops] == ["exp"]
        tt.exp(y)
    assert [op.name for op in graph.ops] == ["exp", "exp"]


def test_what_was_computed_before_is_an_input():
    x = leaf(3)
    before = tt.exp(x)
    with tt.record() as graph:
        after = tt.sum(before)
    assert [(v.kind, v.name) for v in graph.values] == [("input", "before"), ("result", "after")]
    assert after.requires_grad


def test_every_device_records_the_same(device):
    x = tt.tensor([1.0, 2.0], device=device)
    weight = tt.tensor([3.0, 4.0], device=device, requires_grad=True)
    mask = tt.asarray([[False, True], [False, False]], device=device)
    with tt.record() as graph:
        loss = tt.sum(tt.masked_fill(weight * x, mask, 0.0))
    loss.backward()
    assert [(value.kind, value.name, value.mask) for value in graph.values] == [
        ("parameter", "weight", ""),
        ("input", "x", ""),
        ("result", "", ""),
        ("input", "mask", "causal"),
        ("result", "", ""),
        ("result", "loss", ""),
    ]
    assert [sum(kept.nbytes for kept in op.saved) for op in graph.ops] == [8, 4, 0]
    assert graph.values[0].gradient.numbers == [2.0, 2.0]
    assert graph.ops[0].step.arrived.norm == pytest.approx(math.sqrt(5), rel=1e-12)


# ---- identity


def test_a_tensor_that_is_used_twice_is_one_value():
    x, c = leaf(3), constant(3)
    with tt.record() as graph:
        x * c + c * x
    assert [op.inputs for op in graph.ops[:2]] == [("v1", "v2"), ("v2", "v1")]


def test_a_detached_tensor_is_the_value_it_was():
    x = leaf(3)
    with tt.record() as graph:
        y = tt.exp(x)
        y * y.detach() + x.detach()
    exp, multiply, add = graph.ops
    assert multiply.inputs == (exp.output, exp.output)
    assert add.inputs[1] == exp.inputs[0]


def test_a_result_without_gradient_leads_to_its_maker():
    x = constant(3)
    with tt.record() as graph:
        y = tt.exp(x)
        z = y.detach() * leaf(3)
    assert graph.ops[1].inputs[0] == graph.ops[0].output
    assert z.requires_grad


def test_views_are_values_of_their_own_made_from_the_whole():
    x = leaf(2, 3)
    with tt.record() as graph:
        row = x[0]
        turned = x.mT
    assert [(op.name, op.inputs) for op in graph.ops] == [("getitem", ("v1",)), ("matrix_transpose", ("v1",))]
    assert [value.name for value in graph.values] == ["x", "row", "turned"]
    assert turned.shape == (3, 2)
    assert row.shape == (3,)


def test_a_changed_name_starts_a_new_value():
    x = constant(3)
    with tt.record() as graph:
        y = x * 2.0
        y = y + 1.0
    assert [(op.inputs[0], op.output) for op in graph.ops] == [("v1", "v2"), ("v2", "v3")]
    assert [value.name for value in graph.values] == ["x", "y", "y"]


def test_arrays_that_died_do_not_lend_their_identity():
    """Python gives the ids of dead objects to new ones."""
    with tt.record() as graph:
        for i in range(200):
            tt.asarray([float(i)]) * 2.0
    assert len({op.inputs[0] for op in graph.ops}) == 200


# ---- nesting, threads, exceptions


def test_an_inner_recording_is_part_of_the_outer_one():
    x = leaf(3)
    with tt.record() as outer:
        y = tt.exp(x)
        with tt.record() as inner:
            z = y * 2.0
        total = tt.sum(z)
    assert [op.name for op in outer.ops] == ["exp", "multiply", "sum"]
    assert [op.name for op in inner.ops] == ["multiply"]
    assert outer.ops[2].inputs == (outer.ops[1].output,)
    assert [value.kind for value in inner.values] == ["input", "result"]
    assert total.requires_grad


def test_an_inner_recording_knows_constants_of_the_outer_one():
    c = constant(3)
    with tt.record() as outer:
        y = tt.exp(c)
        with tt.record():
            z = y * 2.0
        z + y
    exp, multiply, add = outer.ops
    assert multiply.inputs[0] == exp.output
    assert add.inputs == (multiply.output, exp.output)


def test_a_recording_ends_with_an_exception():
    with pytest.raises(ZeroDivisionError), tt.record():
        1 / 0  # noqa: B018
    assert state.recording is None
    assert state.observer is None
    assert type((tt.ones(1).requires_grad_() * 2.0)._node) is Node


def test_a_recording_is_of_one_thread():
    found = []
    with tt.record():
        thread = threading.Thread(target=lambda: found.append(state.recording))
        thread.start()
        thread.join()
        assert state.recording is not None
    assert found == [None]


def test_record_is_a_decorator():
    x = leaf(2)

    @tt.record()
    def cube(x):
        return x * x * x

    y = cube(x)
    assert state.recording is None
    assert [op.name for op in tt.draw(y).ops] == ["multiply", "multiply"]


def test_record_holds_only_while_a_generators_own_code_runs():
    @tt.record()
    def powers(x):
        while True:
            x = x * 2.0
            yield x

    generator = powers(leaf(2))
    first = next(generator)
    assert state.recording is None
    outside = first + 1.0
    second = next(generator)
    assert [type(t._node) is Node for t in (first, outside, second)] == [False, True, False]


def test_record_and_anomaly_mode_are_independent():
    x = tt.tensor([0.0], requires_grad=True)
    with tt.record() as graph:
        with (
            tt.detect_anomaly(),
            np.errstate(all="ignore"),
            pytest.raises(FloatingPointError, match="reciprocal: the first"),
        ):
            tt.reciprocal(x)
        x * 2.0
    assert [op.name for op in graph.ops] == ["reciprocal", "multiply"]
    with tt.detect_anomaly():
        with tt.record():
            assert tt.is_anomaly_enabled()
        y = x * 2.0
    assert y._node.origin is not None
    assert y._node.sources is None


def test_gradients_and_higher_derivatives_are_what_they_are_without_recording():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    with tt.record():
        y = tt.sum(x * x * x)
        (first,) = tt.grad(y, [x], create_graph=True)
        (second,) = tt.grad(tt.sum(first), [x])
    assert first.tolist() == [3.0, 12.0]
    assert second.tolist() == [6.0, 12.0]


# ---- recording off


def test_without_recording_nodes_are_plain():
    x = leaf(3)
    with tt.record():
        pass
    y = x * 2.0
    assert type(y._node) is Node
    assert not y._node.traced
    assert (y._node.constants, y._node.origin, y._node.variable) == ((), None, "")
    assert state.observer is None
    assert type((tt.ones(1).requires_grad_() * 2.0)._node) is Node


def test_nothing_is_left_of_a_recording_that_nobody_holds():
    x = constant(3)
    with tt.record():
        y = tt.exp(x)
        z = x.detach()
    assert (y._node, z._node) == (None, None)
    assert x._node is None


# ---- names


def test_results_are_called_what_the_line_calls_them():
    x = leaf(3)
    with tt.record() as graph:
        hidden = tt.exp(x)
        pair = (hidden * 2.0, hidden + 1.0)
        result = pair[0] - pair[1]
    assert named(graph) == [("parameter", "x"), ("exp", "hidden"), ("subtract", "result")]
    assert result.requires_grad


def test_of_several_ops_in_a_line_the_last_has_the_name():
    x = leaf(3)
    with tt.record() as graph:
        y = tt.sum(tt.exp(x) * 2.0)
    assert named(graph) == [("parameter", "x"), ("sum", "y")]
    assert y.requires_grad


def test_of_the_ops_of_a_composite_function_the_last_has_the_name():
    x = leaf(3)
    with tt.record() as graph:
        deviation = tt.linalg.vector_norm(x, ord=3)
        tt.exp(deviation)
    assert len(graph.ops) > 2
    assert named(graph) == [("parameter", "x"), (graph.ops[-2].name, "deviation")]


def test_names_in_a_function_of_many_variables():
    """Beyond 256 of them CPython writes the number of a variable in two instructions."""
    many = "".join(f"    v{i} = 0\n" for i in range(300))
    variables = {"tt": tt, "x": leaf(3)}
    exec(f"def f():\n{many}    last = tt.exp(x)\n    return last * 2.0\n", variables)
    with tt.record() as graph:
        variables["f"]()
    assert [value.name for value in graph.values if value.kind == "result"] == ["last", ""]


def test_explain_errors_knows_names_as_well(tmp_path):
    x = leaf(3)
    with pytest.raises(ValueError, match="add"), tt.explain_errors(tmp_path / "error.txt"):  # noqa: PT012
        y = tt.exp(x)
        y + tt.ones(4)
    assert "y = exp" in (tmp_path / "error.txt").read_text()


def test_a_method_call_and_an_operator_are_named_alike():
    x = leaf(2, 3)
    with tt.record() as graph:
        total = x.sum()
        turned = x.mT
        negative = -x
        piece = x[0]
    assert named(graph)[1:] == [
        ("sum", "total"),
        ("matrix_transpose", "turned"),
        ("negative", "negative"),
        ("getitem", "piece"),
    ]
    assert (total.shape, turned.shape, negative.shape, piece.shape) == ((), (3, 2), (2, 3), (3,))


def test_augmented_assignment_names_its_result():
    x = leaf(3)
    with tt.record() as graph:
        total = x * 1.0
        total = total + x
    assert [value.name for value in graph.values] == ["x", "total", "total"]


def test_names_in_a_function_that_is_called():
    def scaled(x):
        factor = tt.exp(x)
        return factor * 2.0

    x = leaf(3)
    with tt.record() as graph:
        outcome = scaled(x)
    assert named(graph) == [("parameter", "x"), ("exp", "factor"), ("multiply", "outcome")]
    assert outcome.requires_grad


GLOBAL = None


def test_global_variables_have_names():
    global GLOBAL
    x = leaf(3)
    with tt.record() as graph:
        GLOBAL = tt.exp(x)
    assert named(graph) == [("parameter", "x"), ("exp", "GLOBAL")]


def test_closure_variables_have_names():
    x = leaf(3)
    with tt.record() as graph:
        inner = tt.exp(x)
    assert (lambda: inner)().requires_grad
    assert named(graph) == [("parameter", "x"), ("exp", "inner")]


def test_attributes_and_items_name_nothing():
    class Holder:
        pass

    holder, items, x = Holder(), {}, leaf(3)
    with tt.record() as graph:
        holder.value = tt.exp(x)
        items["key"] = tt.exp(x)
    assert named(graph) == [("parameter", "x")]


def test_the_first_name_of_a_tensor_is_kept():
    x = leaf(3)
    with tt.record() as graph:
        first = tt.exp(x)
        second = first
    assert second is first
    assert named(graph) == [("parameter", "x"), ("exp", "first")]


def test_integer_and_constant_inputs_have_names():
    indices, table = tt.asarray([0, 2]), constant(3, 2)
    with tt.record() as graph:
        table[indices]
    assert named(graph) == [("input", "table"), ("input", "indices")]


def test_parameters_have_their_paths_in_the_outermost_module():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    data = tt.ones((2, 3))
    with tt.record() as graph:
        model(data)
    assert [v.name for v in graph.values if v.kind == "parameter"] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_stage_around_a_model_hides_no_names():
    model = nn.Sequential(nn.Linear(3, 4))
    with tt.record() as graph, tt.named_scope("training"):
        model(tt.ones((2, 3)))
    assert [v.name for v in graph.values if v.kind == "parameter"] == ["0.weight", "0.bias"]


def test_inputs_are_called_what_forward_calls_them():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    with tt.record() as graph:
        layer(tt.ones((2, 3, 4)))
    assert [v.name for v in graph.values if v.kind == "input"] == ["src"]


# ---- modules and stages


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(self.inner(x))


def test_a_module_that_is_called_twice_has_two_scopes():
    with tt.record() as graph:
        Twice()(tt.ones((2, 3)))
    assert [(s.name, s.kind, s.path) for s in graph.scopes] == [
        ("Twice", "Twice", ("Twice",)),
        ("inner", "Linear", ("Twice", "inner")),
        ("inner", "Linear", ("Twice", "inner")),
    ]
    assert [op.scope for op in graph.ops] == ["s2", "s3"]
    assert graph.ops[0].inputs[1:] == graph.ops[1].inputs[1:]


def test_stages_stand_among_modules():
    model = nn.Linear(3, 3)
    with tt.record() as graph:
        with tt.named_scope("encode"):
            y = model(tt.ones((2, 3)))
        with tt.named_scope("decode"):
            tt.exp(y)
    assert [(s.name, s.kind, s.parent) for s in graph.scopes] == [
        ("encode", "stage", None),
        ("Linear", "Linear", "s1"),
        ("decode", "stage", None),
    ]


def test_a_stage_is_a_decorator_and_no_part_of_a_modules_path():
    @tt.named_scope("stage")
    def double(x):
        return x * 2.0

    class Doubler(nn.Module):
        def forward(self, x):
            return double(x)

    with tt.record() as graph:
        Doubler()(leaf(3))
    assert [s.path for s in graph.scopes] == [("Doubler",), ("Doubler", "stage")]
    assert graph.ops[0].origin.endswith("in double, module Doubler")
    assert state.scopes == []


def test_a_stage_ends_with_an_exception():
    with tt.record() as graph:
        with pytest.raises(ZeroDivisionError), tt.named_scope("stage"):
            1 / 0  # noqa: B018
        tt.exp(leaf(3))
    assert graph.ops[0].scope is None
    assert state.scopes == []


def test_modules_around_a_recording_are_scopes():
    class Recorder(nn.Module):
        def forward(self, x):
            with tt.record() as graph:
                tt.exp(x)
            return graph

    graph = Recorder()(leaf(3))
    assert [s.path for s in graph.scopes] == [("Recorder",)]


def test_a_module_that_fails_leaves_its_scope():
    model = nn.Linear(3, 3)
    with tt.record() as graph:
        with pytest.raises(ValueError, match="Linear"):
            model(tt.ones((2, 4)))
        tt.exp(leaf(3))
    assert graph.ops[-1].scope is None


# ---- source lines


def test_the_origin_is_the_users_line():
    x = leaf(3)
    with tt.record() as graph:
        tt.mean(x)  # the line
    line = test_the_origin_is_the_users_line.__code__.co_firstlineno + 3
    assert {op.origin for op in graph.ops} == {f"test_recording.py:{line} in test_the_origin_is_the_users_line"}


def test_the_origin_names_the_module():
    with tt.record() as graph:
        Twice()(tt.ones((2, 3)))
    assert all(op.origin.endswith("module Twice.inner") for op in graph.ops)


def test_where_nobody_called_from_outside_the_line_is_the_outermost():
    code = compile("found = call_site()\n", tt.__file__, "exec")
    variables = {"call_site": call_site}
    thread = threading.Thread(target=exec, args=(code, variables))
    thread.start()
    thread.join()
    assert variables["found"][0].startswith("threading.py:")


# ---- backward steps


def test_steps_know_what_arrived_and_what_left():
    x = tt.tensor([3.0, 4.0], dtype=tt.float64, requires_grad=True)
    with tt.record() as graph:
        y = tt.sum(x * 2.0)
    assert [op.step for op in graph.ops] == [None, None]
    y.backward()
    multiply, total = (op.step for op in graph.ops)
    assert (total.number, multiply.number) == (1, 2)
    assert total.arrived == Statistics((), 1.0, 1.0, 1.0, 1.0, True, 1.0)
    assert multiply.arrived == Statistics((2,), math.sqrt(2), 1.0, 1.0, 1.0, True, [1.0, 1.0])
    assert multiply.left == (Statistics((2,), math.sqrt(8), 2.0, 2.0, 2.0, True, [2.0, 2.0]), None)
    assert graph.values[0].gradient == multiply.left[0]


def test_what_arrives_is_the_sum_over_all_paths():
    x = leaf(2)
    with tt.record() as graph:
        y = tt.exp(x)
        tt.sum(y * 2.0 + y * 3.0).backward()
    assert graph.ops[0].name == "exp"
    assert graph.ops[0].step.arrived.numbers == [5.0, 5.0]


def test_what_leaves_has_the_shape_of_the_input():
    """Though the rule gives it in the shape that the input was broadcast to."""
    bias, scale, x = leaf(3), leaf(2, 1, 3), constant(4, 3)
    with tt.record() as graph:
        tt.sum((x + bias) * scale).backward()
    left = {op.name: op.step.left for op in graph.ops}
    np.testing.assert_allclose(left["add"][1].numbers, bias.grad.numpy(), rtol=0, atol=1e-14)
    np.testing.assert_allclose(left["multiply"][1].numbers, scale.grad.numpy(), rtol=0, atol=1e-14)
    gradients = {v.name: v.gradient for v in graph.values}
    assert gradients["bias"].shape == (3,)
    assert gradients["bias"].norm == pytest.approx(np.linalg.norm(bias.grad.numpy()), rel=1e-14)


def test_the_gradient_of_a_leaf_that_several_paths_lead_to():
    x = leaf(3)
    with tt.record() as graph:
        y = tt.sum(x * x * x)
    y.backward()
    assert graph.values[0].gradient.numbers == x.grad.tolist()


def test_steps_of_a_differentiable_backward_pass():
    x = leaf(3)
    with tt.record() as graph:
        y = tt.sum(x * x)
    tt.grad(y, x, create_graph=True)
    np.testing.assert_array_equal(
        graph.ops[0].step.left[0].numbers, x.numpy() if not x.requires_grad else x.detach().numpy()
    )


def test_the_last_backward_pass_counts():
    x = tt.tensor([2.0], requires_grad=True)
    with tt.record() as graph:
        y = x * 3.0
    y.backward(retain_graph=True)
    y.backward(tt.tensor([5.0]))
    assert graph.ops[0].step.arrived.numbers == [5.0]


def test_seconds_are_measured():
    @tt.op(x=lambda xp, g: g)
    def slow(xp, x):
        time.sleep(0.05)
        return x * 1.0

    @tt.op(x=lambda xp, g: time.sleep(0.05) or g)
    def slow_backward(xp, x):
        return x * 1.0

    try:
        with tt.record() as graph:
            slow_backward(slow(leaf(3))).sum().backward()
    finally:
        for name in ("slow", "slow_backward"):
            del tt.ops[name]
    seconds = {op.name: (op.seconds, op.step.seconds) for op in graph.ops}
    assert seconds["slow"][0] >= 0.05 > seconds["slow_backward"][0] >= 0
    assert seconds["slow_backward"][1] >= 0.05 > seconds["slow"][1] >= 0


def test_numbers_are_remembered_of_small_arrays_only():
    small, large = Statistics.of(np.zeros(64)), Statistics.of(np.zeros(65))
    assert small.numbers == [0.0] * 64
    assert large.numbers is None


def test_statistics_of_special_arrays():
    empty = Statistics.of(np.zeros((0, 3)))
    assert (empty.shape, empty.norm, empty.finite) == ((0, 3), 0.0, True)
    assert math.isnan(empty.minimum)
    assert math.isnan(empty.mean)
    infinite = Statistics.of(np.array([1.0, math.inf]))
    assert (infinite.finite, infinite.maximum) == (False, math.inf)
    assert Statistics.of(np.float32(2.0)).norm == 2.0
    assert Statistics.of(np.full(4, 60000, dtype=np.float16)).norm == 120000.0


# ---- size and memory


def test_a_long_chain_is_recorded_built_and_freed_without_recursion():
    x = leaf(1)
    with tt.record() as graph:
        y = x
        for _ in range(20_000):
            y = y + 1.0
    structure = graph.structure
    assert len(structure.ops) == 20_000
    assert structure.ops[-1].inputs == (structure.ops[-2].output, None)
    node = weakref.ref(y._node)
    del graph, structure, y
    assert node() is None


@pytest.fixture
def no_collector():
    """Without the garbage collector, what a cycle holds lives on."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("after", ["forward", "backward", "picture"])
@pytest.mark.usefixtures("no_collector")
def test_memory_is_freed_with_the_graph_and_the_tensors(after):
    model = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    x = tt.ones((2, 3, 4))
    with tt.record() as graph:
        loss = model(x).sum()
        mask = x > 0
    if after == "backward":
        loss.backward()
    if after == "picture":
        graph.to_dot(fused="formula", depth=9)
        assert graph.structure.ops
    nodes = [weakref.ref(node) for node in graph._nodes]
    arrays = [weakref.ref(node.values[-1]) for node in graph._nodes[:-1]]
    del graph, loss, mask
    assert [ref() for ref in (*nodes, *arrays) if ref() is not None] == []


@pytest.mark.usefixtures("no_collector")
def test_a_graph_alone_keeps_its_data():
    with tt.record() as graph:
        loss = tt.sum(tt.exp(leaf(3)))
    del loss
    assert [op.name for op in graph.ops] == ["exp", "sum"]


@pytest.mark.usefixtures("no_collector")
def test_a_function_that_recorded_holds_no_copies_of_its_variables():
    """CPython before 3.13 keeps what `f_locals` gave until the function returns."""
    with tt.record():
        y = tt.exp(leaf(3))
    array = weakref.ref(y._data)
    del y
    assert array() is None


def test_recording_leaves_the_variables_alone():
    kept = 1
    with tt.record():
        y = tt.exp(leaf(3))
    assert (kept, y.shape) == (1, (3,))
    assert {"kept", "y"} <= set(locals())
