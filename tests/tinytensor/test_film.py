"""What the film of a backward pass shows; `tests/browser/test_film.py` looks at the page itself."""

import dis
import json
import re
import time

import numpy as np
import pytest

import tinytensor as tt
from tests.marks import slow_after
from tinytensor import nn
from tinytensor.graph.film import film, page
from tinytensor.graph.source import function_text, rule_text
from tinytensor.primitive import OPS


def leaf(*shape, seed=0):
    return tt.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def data_of(graph, **options):
    return film(graph, options)[1]


def numbers(data, place):
    """The numbers of an array as the film prints them."""
    caption, text, *_ = data["arrays"][place]
    power = re.search(r"times 1e(-?\d+)", caption)
    rows = [[float(x) for x in line.split()] for line in text.splitlines() if not line.startswith("[")]
    return np.array(rows) * 10.0 ** (int(power[1]) if power else 0)


def step_of(data, name):
    (found,) = [step for step in data["steps"] if data["ops"][step["op"]]["name"] == name]
    return found


def formulas(step):
    return {rule["input"]: rule["formula"] for rule in step["rules"]}


# ---- the rules


def test_shows_the_source_of_lambdas():
    a, b = leaf(2, 2), leaf(2, 2, seed=1)
    with tt.record() as graph:
        loss = tt.sum(tt.exp(a * b) / b)
    loss.backward()
    data = data_of(graph)
    assert formulas(step_of(data, "multiply")) == {"x1": "g ⊙ x2", "x2": "g ⊙ x1"}
    assert formulas(step_of(data, "divide")) == {"x1": "g / x2", "x2": "−g ⊙ x1 / x2 / x2"}
    assert formulas(step_of(data, "exp")) == {"x": "g ⊙ out"}
    names = [read[0] for read in step_of(data, "divide")["rules"][1]["reads"]]
    assert names == ["x1", "x2"]


def test_shows_functions_with_all_of_their_lines_and_what_they_call():
    x = leaf(2, 3)
    with tt.record() as graph:
        loss = tt.max(x)
    loss.backward()
    data = data_of(graph)
    (rule,) = step_of(data, "max")["rules"]
    assert rule["formula"].startswith("Elements equal to the extreme share its gradient evenly")
    source = data["texts"][rule["source"]].partition("\n\n")[2]
    assert source.startswith("def _extreme_rule(xp, g, out, x, axis, keepdims):\n    ")
    assert "return xp.where(hit, _restore(xp, g, axis, keepdims) / ties, 0.0)" in source
    assert source.index("def _extreme_rule") < source.index("def _restore(") < source.index("def _expand(")
    assert [read[:2] for read in rule["reads"]] == [
        ["out", "the result"],
        ["x", "x"],
        ["axis", "(0, 1)"],
        ["keepdims", "False"],
    ]


def test_a_lambda_over_several_lines_is_one_expression():
    @tt.op(
        x=lambda xp, g, out, gentle: (
            g * out * 0.5
            if gentle
            else g * out
        )
    )  # fmt: skip
    def several_lines(xp, x, *, gentle=False):
        return xp.exp(x)

    rule, _ = OPS.pop("several_lines").rules["x"]
    assert rule_text(rule).formula == "g * out * 0.5 if gentle else g * out"


def names_and_signs(function):
    """What a function's code reads and computes, in order; how it calls methods depends on more than its text."""
    kinds = ("LOAD_FAST", "LOAD_GLOBAL", "BINARY_OP", "COMPARE_OP")
    found = dis.get_instructions(function)
    return [i.argrepr.removeprefix("NULL + ") for i in found if i.opname.startswith(kinds)]


def test_every_rule_of_the_library_has_a_text():
    import tinytensor.testing.op_checks  # noqa: F401  (all ops are declared)

    for op in list(OPS.values()):
        for rule, reads in op.rules.values():
            if not (rule.__module__ or "").startswith("tinytensor."):
                continue
            text = rule_text(rule)
            assert text.formula, op
            if rule.__name__ == "<lambda>":
                evaluated = eval(f"lambda {', '.join(reads)}: {text.formula}", rule.__globals__)
                assert names_and_signs(evaluated) == names_and_signs(rule)
        if not op.pure and (op.function.__module__ or "").startswith("tinytensor.nn."):
            assert function_text(op.function).startswith("def ")


def test_a_rule_without_source_says_so():
    namespace = {"tt": tt}
    exec("@tt.op(x=lambda xp, g: g * 2)\ndef twice_from_nowhere(xp, x):\n    return x * 2\n", namespace)
    try:
        x = leaf(2)
        with tt.record() as graph:
            loss = tt.sum(namespace["twice_from_nowhere"](x))
        loss.backward()
        (rule,) = step_of(data_of(graph), "twice_from_nowhere")["rules"]
        assert rule["formula"] == "the rule of twice_from_nowhere (its source is not at hand)"
        assert rule["source"] is None
    finally:
        del OPS["twice_from_nowhere"]


def test_fused_ops_show_their_formula():
    layer = nn.Linear(3, 2, dtype=tt.float64)
    x = leaf(2, 3)
    with tt.record() as graph:
        loss = tt.sum(layer(x))
    loss.backward()
    data = data_of(graph)
    step = step_of(data, "linear")
    words, source = step["fused"]
    assert words == "x Wᵀ + b"
    assert data["texts"][source].startswith("def _linear(x, weight, bias):")
    assert [read[:2] for read in step["reads"]] == [["x", "x"], ["weight", "weight"], ["bias", "bias"]]
    assert formulas(step) == {"x": "g W", "weight": "gᵀ x", "bias": "Σ g, over the rows"}
    assert data["ops"][step["op"]]["module"] == "Linear"


# ---- what flows


def test_steps_follow_the_engine_and_each_gradient_is_right():
    x, w = leaf(3, 2), leaf(2, 2, seed=1)
    with tt.record() as graph:
        h = x @ w
        loss = tt.sum(tt.square(h))
    loss.backward()
    data = data_of(graph)
    assert [data["ops"][step["op"]]["title"] for step in data["steps"]] == ["loss = sum", "square", "h = matmul"]
    gradient = 2 * h.detach().numpy()
    np.testing.assert_allclose(numbers(data, data["steps"][2]["arrived"]), gradient, rtol=1e-3)
    first, second = data["steps"][2]["rules"]
    np.testing.assert_allclose(numbers(data, first["left"]), gradient @ w.detach().numpy().T, rtol=1e-3)
    np.testing.assert_allclose(numbers(data, second["left"]), x.detach().numpy().T @ gradient, rtol=1e-3)
    assert [leaf["name"] for leaf in data["leaves"]] == ["x", "w"]
    np.testing.assert_allclose(numbers(data, data["leaves"][1]["gradient"]), w.grad.numpy(), rtol=1e-3)
    assert "begins here" in data["steps"][0]["note"]
    assert data["steps"][1]["note"] == data["steps"][2]["note"] == ""


def test_where_paths_join_the_contributions_add_up_to_what_arrives():
    x = leaf(2, 3)
    with tt.record() as graph:
        h = tt.tanh(x)
        loss = tt.sum(h * tt.exp(h) + h)
    loss.backward()
    data = data_of(graph)
    step = step_of(data, "tanh")
    givers = [(data["ops"][data["steps"][k]["op"]]["name"], name) for k, name, _ in step["terms"]]
    assert givers == [("add", "x2"), ("multiply", "x1"), ("exp", "x")]
    total = sum(numbers(data, place) for _, _, place in step["terms"])
    np.testing.assert_allclose(total, numbers(data, step["arrived"]), atol=3e-3)
    value = h.detach().numpy()
    np.testing.assert_allclose(numbers(data, step["arrived"]), np.exp(value) * (1 + value) + 1, rtol=1e-3)
    assert step["note"] == "3 paths join here, so their gradients are added."
    for k, name, place in step["terms"]:  # each is what left the op that gave it
        (rule,) = [rule for rule in data["steps"][k]["rules"] if rule["input"] == name]
        assert data["arrays"][rule["left"]] == data["arrays"][place]


def test_one_op_may_give_twice():
    x = leaf(2)
    with tt.record() as graph:
        loss = tt.sum(x * x)
    loss.backward()
    data = data_of(graph)
    (end,) = data["leaves"]
    assert [name for _, name, _ in end["terms"]] == ["x1", "x2"]
    np.testing.assert_allclose(numbers(data, end["gradient"])[0], 2 * x.detach().numpy(), rtol=1e-3)


def test_sums_over_broadcast_axes_are_said_and_shown():
    x, b = leaf(4, 3), leaf(3, seed=1)
    with tt.record() as graph:
        loss = tt.sum(tt.square(x + b))
    loss.backward()
    data = data_of(graph)
    to_x, to_b = step_of(data, "add")["rules"]
    assert "summed" not in to_x
    assert to_b["summed"] == "the rule gave shape 4×3, summed over axis 0, along which x2 was broadcast"
    np.testing.assert_allclose(numbers(data, to_b["left"])[0], b.grad.numpy(), rtol=1e-3)
    (end,) = [end for end in data["leaves"] if end["name"] == "b"]
    assert end["note"] == ""
    assert end["terms"][0][2] == to_b["left"]


def test_large_arrays_are_shown_by_statistics():
    x = leaf(20, 5)
    with tt.record() as graph:
        loss = tt.sum(tt.square(x))
    loss.backward()
    data = data_of(graph)
    step = step_of(data, "square")
    caption, text, *_ = data["arrays"][step["rules"][0]["left"]]
    gradient = 2 * x.detach().numpy()
    found = {name: float(number) for name, number in (line.split() for line in text.splitlines())}
    assert caption == "20×5"
    expected = {"norm": np.linalg.norm(gradient), "min": gradient.min(), "max": gradient.max(), "mean": gradient.mean()}
    assert found == {name: float(f"{value:.4g}") for name, value in expected.items()}


def test_a_gradient_that_was_there_before_or_a_hook_is_said():
    x = leaf(2)
    for _ in range(2):
        with tt.record() as graph:
            h = tt.exp(x)
            h.register_hook(lambda g: g * 3)
            loss = tt.sum(h)
        loss.backward()
    data = data_of(graph)
    assert data["leaves"][0]["note"].startswith(".grad also holds what earlier backward passes put there")
    assert step_of(data, "exp")["note"].startswith("A hook of this Tensor")
    np.testing.assert_allclose(numbers(data, step_of(data, "exp")["arrived"]), 3)


def test_gradients_from_outside_of_the_picture_are_said():
    x = leaf(2)
    with tt.record():
        h = tt.exp(x)
        loss = tt.sum(tt.square(h))
    loss.backward()
    data = data_of(tt.draw(h))
    (step,) = data["steps"]
    assert step["terms"] == []
    assert step["note"].startswith("A part of it comes from ops that are not in this graph")


def test_arrays_that_changed_later_are_marked():
    layer = nn.Linear(33, 2)
    optimizer = nn.optim.SGD(layer.parameters(), lr=0.1)
    x = tt.ones((1, 33))
    with tt.record() as graph:
        loss = tt.sum(layer(x))
    loss.backward()
    optimizer.step()
    data = data_of(graph)
    captions = {name: data["arrays"][place][0] for name, _, place in step_of(data, "linear")["reads"]}
    assert captions == {"x": "1×33", "weight": "2×33, changed in place since", "bias": "2"}  # small ones are kept


# ---- numbers as text


@pytest.mark.parametrize(
    ("array", "caption", "text"),
    [
        (np.array(-0.0), "scalar", "0"),
        (np.array([[1.0, -0.25], [12.345678, 1e-3]]), "2×2", " 1     -0.25\n12.35   0.001"),
        (np.arange(10), "10", "0 1 2 3 4 5 6 7\n8 9"),
        (np.array([123456789, 5]), "2", "123456789  5"),
        (np.array([2e-8, -1e-7]), "2", "2e-8  -1e-7"),
        (np.array([True, False]), "2", "yes  no"),
        (np.array([np.nan, -np.inf]), "2", "nan  -inf"),
        (np.zeros((0, 3)), "0×3", "no elements"),
        (np.arange(4.0).reshape(2, 1, 2), "2×1×2", "[0]\n0  1\n[1]\n2  3"),
        (np.full(65, np.nan), "65, not finite", "norm  nan\nmin   nan\nmax   nan\nmean  nan"),
    ],
)
def test_arrays_as_text(array, caption, text):
    from tinytensor.graph.film import _show
    from tinytensor.tracing import Statistics

    assert _show(Statistics.of(array))[:2] == [caption, text]


@pytest.mark.parametrize(
    ("array", "tints"),
    [
        (np.array([[1.0, -2.0], [0.0, 4.0]]), [2, -4, 0, 9]),
        (np.arange(3), []),
        (np.zeros(2), []),
        (np.full(2, np.nan), []),
    ],
)
def test_numbers_are_tinted_by_their_size(array, tints):
    from tinytensor.graph.film import _show
    from tinytensor.tracing import Statistics

    assert _show(Statistics.of(array))[2] == tints


def test_a_large_array_has_a_small_map():
    from tinytensor.graph.film import _show
    from tinytensor.tracing import Statistics

    x = np.zeros((40, 70))
    x[:, 35:] = -1.0
    tints, columns = _show(Statistics.of(x), x)[2:]
    assert (len(tints), columns) == (256, 16)
    assert tints[:16] == [0] * 8 + [-9] * 8


# ---- modules, folded and closed


def alike(count=3):
    tt.random.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(count)])
    with tt.record() as graph:
        loss = tt.sum(model(tt.ones((1, 4))))
    loss.backward()
    return graph


def test_small_graphs_are_shown_whole():
    picture, data = film(alike(), {})
    assert len({op["vertex"] for op in data["ops"]}) == len(data["ops"]) == 7
    assert {op["vertex"] for op in data["ops"]} <= {vertex.id for vertex in picture.vertices}
    edges = {f"{edge.tail}->{edge.head} {edge.kind}" for edge in picture.edges}
    assert {rule["edge"] for step in data["steps"] for rule in step["rules"]} <= edges


def test_folded_modules_share_their_vertices():
    _, data = film(alike(), {"fold": True})
    vertices = [data["ops"][step["op"]]["vertex"] for step in data["steps"]]
    assert vertices[1:3] == vertices[3:5] == vertices[5:7]
    assert len(set(vertices)) == 3


def encoder_layer():
    tt.random.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    x = tt.random.normal((2, 3, 8))
    x.requires_grad = True
    with tt.record() as graph:
        loss = tt.sum(tt.square(layer(x)))
    loss.backward()
    return graph


def test_closed_modules_stand_for_their_ops():
    picture, data = film(encoder_layer(), {"collapse": "MultiheadAttention"})
    vertices = {vertex.id: vertex for vertex in picture.vertices}
    step = step_of(data, "multi_head")
    op = data["ops"][step["op"]]
    assert vertices[op["vertex"]].kind == "module"
    assert op["inside"] == vertices[op["vertex"]].name == "self_attn"
    assert [rule["edge"] for rule in step["rules"]] == [None]  # it stays inside
    assert step["rules"][0]["vertex"] == op["vertex"]


def test_an_op_is_computed_along_each_arrow():
    """Also where a closed module hides what a residual goes around, and from what was computed without a gradient."""
    layer, x, scale = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), leaf(1, 3, 4), tt.ones((4,))
    with tt.record() as graph:
        loss = (layer(x) * (scale * 2)).sum()
    loss.backward()
    picture, data = film(graph, {"depth": 0})
    arrows = {f"{edge.tail}->{edge.head} {edge.kind}" for edge in picture.edges if edge.reads}
    assert arrows == {arrow for op in data["ops"] for arrow in op["edges"]}
    residual = next(op for op in data["ops"] if op["name"] == "add")
    assert residual["edges"] == [f"{picture.vertices[0].id}->{residual['vertex']} data"]


def test_the_gradients_of_a_whole_layer_go_along_its_edges():
    picture, data = film(encoder_layer(), {})
    ways = [rule["edge"] for step in data["steps"] for rule in step["rules"]]
    assert None not in ways
    assert set(ways) <= {f"{edge.tail}->{edge.head} {edge.kind}" for edge in picture.edges}
    assert sum(way.endswith("residual") for way in ways) == 2
    assert len(data["leaves"]) == 13


# ---- the page


def test_the_page_is_the_same_text_every_time(tmp_path):
    first, second = alike(), alike()
    first.player(tmp_path / "a.html")
    second.save(tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_hostile_names_stay_names():
    x = leaf(2)
    with tt.record() as graph:
        loss = tt.sum(tt.exp(x))
    loss.backward()
    hostile = "</script><script>alert(1)</script>"
    graph._names = [(hostile, x)]
    graph.title = "<b>&"
    text = page(graph, {})
    assert "alert(1)</script>" not in text
    assert "<title>&lt;b&gt;&amp;</title>" in text
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])
    assert data["leaves"][0]["name"] == hostile
    assert text.count("<script") == 2


def test_data_points_at_elements_of_the_drawing():
    text = page(alike(), {})
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])
    ids = set(re.findall(r'<g id="(\w+)"', text))
    assert {data["vertices"][op["vertex"]] for op in data["ops"]} <= ids
    ways = [
        way for step in data["steps"] for way in [*step.get("ends", []), *(r["edge"] for r in step["rules"])] if way
    ]
    assert {id_ for way in ways for id_ in data["edges"][way]} <= ids


def test_the_script_is_small_and_the_page_asks_for_nothing():
    from importlib import resources

    script = (resources.files("tinytensor.graph") / "film.js").read_bytes()
    assert len(script) < 20_000
    text = page(alike(), {})
    assert not re.search(r"(?:src|href)=\"(?!data:)", text)
    assert "default-src 'none'" in text


# ---- errors


def test_a_graph_without_a_backward_pass_raises():
    x = leaf(2)
    with tt.record() as graph:
        tt.sum(x)
    with pytest.raises(ValueError, match=r"no backward pass .* call backward\(\)"):
        film(graph, {})


def test_several_backward_passes_raise():
    x = leaf(2)
    with tt.record() as graph:
        first, second = tt.sum(x), tt.sum(tt.exp(x))
    first.backward()
    second.backward()
    with pytest.raises(ValueError, match=r"several backward passes .* its own tt.record\(\)"):
        film(graph, {})


def test_formulas_did_not_run():
    with pytest.raises(ValueError, match="a film shows what ran"):
        film(alike(), {"fused": "formula"})


def test_other_endings_and_options_raise(tmp_path):
    graph = alike()
    with pytest.raises(ValueError, match=r"'.txt'; expected .html"):
        graph.player(tmp_path / "film.txt")
    with pytest.raises(ValueError, match="there is no option 'dept'"):
        graph.player(tmp_path / "film.html", dept=3)
    assert list(tmp_path.iterdir()) == []


# ---- large graphs


def tanhs(count, lines=1):
    x = leaf(2)
    with tt.record() as graph:
        h = x
        for _ in range(count):
            h = tt.tanh(h) if lines == 1 else tt.tanh(tt.sin(h))
        loss = tt.sum(h)
    loss.backward()
    return graph


@pytest.mark.parametrize("options", slow_after(1, [{"fold": False}, {"fold": False, "large": True}]))
def test_a_film_of_more_than_anyone_can_read_is_refused_at_once(options):
    graph = tanhs(5000)
    began = time.process_time()
    with pytest.raises(ValueError, match=r"would show 5,003 vertices and 5,001 steps.*at most 2,000.*graph\.explore"):
        film(graph, options)
    assert time.process_time() - began < 10


def test_a_film_of_a_long_folded_loop_is_written_in_seconds():
    graph = tanhs(500, lines=2)
    began = time.process_time()
    assert len(data_of(graph)["steps"]) == 1001
    assert time.process_time() - began < 15  # takes a second: the text of a rule is looked up once


@pytest.mark.slow
def test_a_film_has_no_more_steps_than_a_page_can_hold():
    with pytest.raises(ValueError, match="10,003 steps"):
        film(tanhs(5001, lines=2), {})


def test_a_film_shows_the_numbers_that_were_computed_with(tmp_path, graphviz_here):
    layer = nn.Linear(2, 1)
    optimizer = nn.optim.SGD(layer.parameters(), lr=0.5)
    rows, x = tt.asarray([1, 0]), tt.ones((2, 2))
    with tt.record() as graph:
        loss = (layer(x[rows]) ** 2).sum()
    loss.backward()
    graph.player(tmp_path / "before.html")
    optimizer.step()
    graph.player(tmp_path / "after.html")
    assert (tmp_path / "after.html").read_text() == (tmp_path / "before.html").read_text()
