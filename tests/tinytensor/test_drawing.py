# ruff: noqa: E501, RUF001
import math
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

import graphviz
import numpy as np
import pytest

import tinytensor as tt
from tinytensor.drawing import DrawingError
from tinytensor.modes import state
from tinytensor.node import Node
from tinytensor.picture import STYLES

SVG = "{http://www.w3.org/2000/svg}"


class inside:
    """What calling a module does: its name is on the stack of scopes meanwhile."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        state.scopes.append(self.name)

    def __exit__(self, *exception):
        state.scopes.pop()


def attention_head():
    rng = np.random.default_rng(0)
    x = tt.Tensor(rng.normal(size=(5, 8)))
    w_q, w_k, w_v = (tt.Tensor(rng.normal(size=(8, 4)), requires_grad=True) for _ in range(3))
    with tt.record(), inside("head"):
        q, k, v = x @ w_q, x @ w_k, x @ w_v
        scores = q @ k.mT / math.sqrt(4)
        with inside("softmax"):
            e = tt.exp(scores)
            weights = e / tt.sum(e, axis=-1, keepdims=True)
        out = weights @ v
    return out, {"x": x, "W_Q": w_q, "W_K": w_k, "W_V": w_v, "weights": weights}


GOLDEN = """\
digraph {
	graph [fontcolor="#1a1a1a" fontname="Helvetica,Arial,sans-serif" nodesep=0.3 rankdir=LR ranksep=0.4]
	node [fontcolor="#1a1a1a" fontname="Helvetica,Arial,sans-serif" fontsize=13 height=0.4 margin="0.14,0.07"]
	edge [arrowsize=0.6 color="#5a5a5a" fontcolor="#5a5a5a" fontname="Helvetica,Arial,sans-serif" fontsize=10]
	fontsize=15 label=<<B>A head</B>> labelloc=t
	subgraph cluster_1 {
		fontcolor="#5a5a5a" fontsize=12 label=<head> labeljust=l
		color="#5a5a5a" fillcolor="#f6f6f6" style="rounded,filled"
		subgraph cluster_2 {
			fontcolor="#5a5a5a" fontsize=12 label=<softmax> labeljust=l
			color="#5a5a5a" fillcolor="#f6f6f6" style="rounded,filled"
			n9 [label=<<B>exp</B>> class=op color="#0072b2" fillcolor="#e3f0f9" shape=box style="rounded,filled"]
			n10 [label=<<B>sum</B><BR/><FONT POINT-SIZE="10">axis=1, keepdims</FONT>> class=op color="#0072b2" fillcolor="#e3f0f9" shape=box style="rounded,filled"]
			n11 [label=<weights = <B>divide</B>> class=op color="#0072b2" fillcolor="#e3f0f9" shape=box style="rounded,filled"]
		}
		n1 [label=<<B>W_Q</B>> class=parameter color="#b87400" fillcolor="#fdf1d8" shape=cylinder style=filled]
		n3 [label=<<B>matmul</B>> class=op color="#0072b2" fillcolor="#e3f0f9" shape=box style="rounded,filled"]
		n4 [label=<<B>W_K</B>> class=parameter color="#b87400" fillcolor="#fdf1d8" shape=cylinder style=filled]
		n5 [label=<<B>matmul</B>> class=op color="#0072b2" fillcolor="#e3f0f9" shape=box style="rounded,filled"]
		n6 [label=<<B>matrix_transpose</B>> class=op color="#0072b2" fillcolor="#e3f0f9" shape=box style="rounded,filled"]
		n7 [label=<<B>matmul</B>> class=op color="#0072b2" fillcolor="#e3f0f9" shape=box style="rounded,filled"]
		n8 [label=<<B>divide</B><BR/><FONT POINT-SIZE="10">x2=2</FONT>> class=op color="#0072b2" fillcolor="#e3f0f9" shape=box style="rounded,filled"]
		n12 [label=<<B>W_V</B>> class=parameter color="#b87400" fillcolor="#fdf1d8" shape=cylinder style=filled]
		n13 [label=<<B>matmul</B>> class=op color="#0072b2" fillcolor="#e3f0f9" shape=box style="rounded,filled"]
		n14 [label=<<B>matmul</B>> class=op color="#0072b2" fillcolor="#e3f0f9" shape=box style="rounded,filled"]
	}
	n2 [label=<<B>x</B>> class=input color="#007a58" fillcolor="#dff4ed" shape=ellipse style=filled]
	n15 [label=<<B>output</B>> class=output color="#a3487b" fillcolor="#f8e8f1" shape=doubleoctagon style=filled]
	n2 -> n3 [label=" 5×8 "]
	n1 -> n3 [label=" 8×4 "]
	n2 -> n5 [label=" 5×8 "]
	n4 -> n5 [label=" 8×4 "]
	n5 -> n6 [label=" 5×4 "]
	n3 -> n7 [label=" 5×4 "]
	n6 -> n7 [label=" 4×5 "]
	n7 -> n8 [label=" 5×5 "]
	n8 -> n9 [label=" 5×5 "]
	n9 -> n10 [label=" 5×5 "]
	n9 -> n11 [label=" 5×5 "]
	n10 -> n11 [label=" 5×1 "]
	n2 -> n13 [label=" 5×8 "]
	n12 -> n13 [label=" 8×4 "]
	n11 -> n14 [label=" 5×5 "]
	n13 -> n14 [label=" 5×4 "]
	n14 -> n15 [label=" 5×4 "]
}
"""


def vertices(graph, kind):
    return [v for v in graph.vertices if v.kind == kind]


def names_of(graph, kind):
    return [v.name for v in vertices(graph, kind)]


@pytest.fixture
def no_dot(monkeypatch, tmp_path):
    """No `dot` program on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def no_graphviz(no_dot, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)


# ---- the graph as data


def test_the_dot_text_of_an_attention_head():
    out, names = attention_head()
    assert tt.draw(out, names=names, title="A head").to_dot() == GOLDEN


def test_the_same_computation_gives_the_same_text():
    first, second = attention_head(), attention_head()
    assert tt.draw(first[0], names=first[1]).to_dot() == tt.draw(second[0], names=second[1]).to_dot()


def test_a_shared_node_stands_once_and_every_use_is_an_edge():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    y = tt.exp(x)
    graph = tt.draw(y * y + y)
    assert names_of(graph, "op") == ["exp", "multiply", "add"]
    exp = vertices(graph, "op")[0].id
    assert sum(edge.tail == exp for edge in graph.edges) == 3
    assert len({v.id for v in graph.vertices}) == len(graph.vertices)


def test_inputs_of_an_op_come_before_it():
    out, names = attention_head()
    graph = tt.draw(out, names=names)
    place = {v.id: i for i, v in enumerate(graph.vertices)}
    assert [v.id for v in graph.vertices] == [f"n{i + 1}" for i in range(len(graph.vertices))]
    assert all(place[edge.tail] < place[edge.head] for edge in graph.edges)


def test_clusters_nest_as_the_modules_did():
    out, names = attention_head()
    graph = tt.draw(out, names=names)
    assert [(c.path, c.parent) for c in graph.clusters] == [
        (("head",), None),
        (("head", "softmax"), "cluster_1"),
    ]
    assert [v.name for v in graph.vertices if v.scope == ("head", "softmax")] == ["exp", "sum", "divide"]


def test_a_leaf_stands_in_the_innermost_module_that_holds_all_its_readers():
    one, two, both = (tt.tensor([1.0], requires_grad=True) for _ in range(3))
    with tt.record(), inside("a"):
        with inside("b"):
            y = one * both
        with inside("c"):
            y = y * two * both
    graph = tt.draw(y, names={"one": one, "two": two, "both": both})
    scopes = {v.name: v.scope for v in vertices(graph, "parameter")}
    assert scopes == {"one": ("a", "b"), "two": ("a", "c"), "both": ("a",)}


def test_constants_are_drawn_only_where_they_were_recorded():
    x, w = tt.tensor([1.0, 2.0]), tt.tensor([3.0, 4.0], requires_grad=True)
    assert names_of(tt.draw(w * x + x, names={"x": x}), "input") == []
    with tt.record():
        y = w * x + x
        z = w * tt.tensor([5.0, 6.0])
    graph = tt.draw(y, names={"x": x})
    assert names_of(graph, "input") == ["x"]
    assert sum(edge.tail == vertices(graph, "input")[0].id for edge in graph.edges) == 2
    assert names_of(tt.draw(z), "input") == ["constant"]


def test_unnamed_leaves_are_numbered_in_order_of_first_visit():
    late, early = (tt.tensor([1.0], requires_grad=True) for _ in range(2))
    assert names_of(tt.draw(tt.exp(early) * late), "parameter") == ["x1", "x2"]
    assert names_of(tt.draw(early * late * early, names={"late": late}), "parameter") == ["x1", "late"]


class FakeModule:
    def __init__(self, **parameters):
        self.parameters = parameters

    def named_parameters(self):
        return iter(self.parameters.items())


def test_names_come_from_modules():
    w, b = (tt.tensor([1.0], requires_grad=True) for _ in range(2))
    module = FakeModule(weight=w, bias=b)
    assert names_of(tt.draw(w * 2 + b, names=module), "parameter") == ["weight", "bias"]
    graph = tt.draw(w * 2 + b, names={"linear": module})
    assert names_of(graph, "parameter") == ["linear.weight", "linear.bias"]


def test_computed_tensors_and_outputs_can_be_named():
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    hidden = tt.exp(x)
    loss = tt.sum(hidden)
    graph = tt.draw([loss, hidden], names={"h": hidden, "loss": loss})
    assert names_of(graph, "output") == ["loss", "h"]
    assert names_of(tt.draw([loss, hidden]), "output") == ["output 1", "output 2"]
    (exp, _) = vertices(tt.draw(loss, names={"h": hidden}), "op")
    assert (exp.name, exp.tensor) == ("exp", "h")


@tt.op
def doubled(x, *, times):
    return x * (2 * times)


@doubled.forward
def _(xp, x, *, times):
    return x * (2 * times), ()


@doubled.backward
def _(xp, g, kept, needs, *, times):
    return (g * (2 * times),)


def test_a_fused_op_is_one_vertex():
    x = tt.tensor([1.0], requires_grad=True)
    (vertex,) = vertices(tt.draw(doubled(x, times=3)), "op")
    assert (vertex.name, vertex.detail) == ("doubled", "times=3")


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
        (lambda x: tt.concat([x] * 9), "axis=0, ends=(0, 2, 4, 6, …)"),
        (lambda x: tt.reshape(x, (1, 2, 1, 3, 1)), "to=(1, 2, 1, 3, …)"),
        (lambda x: x[0, None, None, None, None, None, None, None, None, 0], "[0, None, None, None, None, None, N…"),
    ],
)
def test_parameters_are_shown_compactly(function, detail):
    x = tt.ones((2, 3))
    x.requires_grad = True
    with tt.record():
        y = function(x)
    assert vertices(tt.draw(y), "op")[-1].detail == detail


def test_an_unknown_parameter_never_shows_an_address():
    @tt.op(x=lambda xp, g: g)
    def tagged(xp, x, *, tag, function):
        return x * 1

    x = tt.tensor([1.0], requires_grad=True)
    (vertex,) = vertices(tt.draw(tagged(x, tag=object(), function=math.sqrt)), "op")
    assert vertex.detail == "tag=object, function=sqrt"
    del tt.ops["tagged"]


def test_shapes_stand_on_edges():
    x = tt.ones((2, 3))
    x.requires_grad = True
    graph = tt.draw(tt.sum(x))
    assert [edge.shape for edge in graph.edges] == [(2, 3), ()]
    text = graph.to_dot()
    assert 'label=" 2×3 "' in text
    assert 'label=" scalar "' in text


def test_a_long_chain_takes_linear_time():
    def seconds(length):
        y = tt.tensor([1.0], requires_grad=True)
        for _ in range(length):
            y = y + 1.0
        started = time.process_time()
        graph = tt.draw(y)
        elapsed = time.process_time() - started
        assert len(graph.edges) == length + 1
        return elapsed

    seconds(100)
    assert seconds(100_000) < 30 * seconds(10_000)


def test_every_device_gives_the_same_picture(device):
    x = tt.tensor([1.0, 2.0], device=device)
    w = tt.tensor([3.0, 4.0], device=device, requires_grad=True)
    with tt.record():
        y = tt.sum((w * x)[tt.tensor([0, 1], device=device)])
    assert [v.name for v in tt.draw(y, names={"x": x}).vertices] == ["x1", "x", "multiply", "getitem", "sum", "output"]


@pytest.mark.parametrize("rankdir", ["LR", "TB"])
def test_direction(rankdir):
    x = tt.tensor([1.0], requires_grad=True)
    assert f"rankdir={rankdir}" in tt.draw(tt.exp(x), rankdir=rankdir).to_dot()


def test_what_cannot_be_drawn_says_so():
    x = tt.tensor([1.0], requires_grad=True)
    y = tt.exp(x)
    with pytest.raises(ValueError, match=r"output 0 \(1,\) has no graph.*requires_grad=True"):
        tt.draw(tt.tensor([1.0]))
    with pytest.raises(ValueError, match="at least one output"):
        tt.draw([])
    with pytest.raises(TypeError, match="output 1 is a float"):
        tt.draw([y, 1.0])
    with pytest.raises(TypeError, match=r"names\['x'\] is a ndarray"):
        tt.draw(y, names={"x": np.ones(1)})
    with pytest.raises(ValueError, match="rankdir is 'up'"):
        tt.draw(y, rankdir="up")
    with pytest.raises(ValueError, match=r"'.jpeg'; expected \.svg, \.png, \.pdf or \.dot"):
        tt.draw(y, "graph.jpeg")
    y.backward()
    with pytest.raises(RuntimeError, match=r"graph behind exp.*freed; draw before backward"):
        tt.draw(y)


# ---- record


def test_record_remembers_module_line_and_constants():
    x = tt.tensor([1.0], requires_grad=True)
    with tt.record(), inside("outer"), inside("inner"):
        y = x * 2.0
    assert y._node.scope == ("outer", "inner")
    assert y._node.constants == (None, 2.0)
    assert y._node.origin.startswith("test_drawing.py:")
    assert y._node.origin.endswith("in test_record_remembers_module_line_and_constants, module outer.inner")


def test_without_record_a_node_is_plain():
    x = tt.tensor([1.0], requires_grad=True)
    with tt.record():
        pass
    with inside("outer"):
        y = x * 2.0
    assert type(y._node) is Node
    assert state.recorder is Node
    assert (y._node.scope, y._node.constants, y._node.origin) == ((), (), None)


def test_record_and_anomaly_mode_are_independent():
    x = tt.tensor([0.0], requires_grad=True)
    with tt.record():
        with (
            tt.detect_anomaly(),
            np.errstate(all="ignore"),
            pytest.raises(FloatingPointError, match="reciprocal: the first"),
        ):
            tt.reciprocal(x)
        y = x * 2.0
    assert y._node.constants == (None, 2.0)
    with tt.detect_anomaly():
        with tt.record():
            assert tt.is_anomaly_enabled()
        y = x * 2.0
    assert y._node.origin is not None
    assert y._node.constants == ()


def test_record_leaves_gradients_alone_and_ends_with_an_exception():
    x = tt.tensor([1.0, 2.0], requires_grad=True)

    @tt.record()
    def cube(x):
        return x * x * x

    (gradient,) = tt.grad(tt.sum(cube(x)), [x], create_graph=True)
    assert gradient.tolist() == [3.0, 12.0]
    with pytest.raises(ZeroDivisionError), tt.record():
        1 / 0  # noqa: B018
    assert state.recorder is Node
    with tt.record(), tt.no_grad():
        assert not (x * 2).requires_grad


def test_record_is_of_one_thread():
    found = []
    with tt.record():
        thread = threading.Thread(target=lambda: found.append(state.recording))
        thread.start()
        thread.join()
        assert state.recording
    assert found == [False]


# ---- files and SVG


def head_graph():
    out, names = attention_head()
    return tt.draw(out, names=names, title="A head")


def test_svg_without_the_dot_program(no_dot, tmp_path):
    pytest.importorskip("pygraphviz")
    with pytest.raises(graphviz.ExecutableNotFound):
        graphviz.version()
    head_graph().save(tmp_path / "head.svg")
    root = ElementTree.parse(tmp_path / "head.svg").getroot()
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert root[0].tag == f"{SVG}title"
    assert root[0].text == "A head"
    assert root[1].tag == f"{SVG}desc"
    assert root[1].text == "10 ops, 3 parameters, 1 input, 1 output"
    assert "prefers-color-scheme: dark" in root.find(f"{SVG}style").text
    assert [p.name for p in tmp_path.iterdir()] == ["head.svg"]


def test_parts_of_the_svg_say_what_they_are(no_dot):
    pytest.importorskip("pygraphviz")
    root = ElementTree.fromstring(head_graph().to_svg())
    titles = {}
    for group in root.iter(f"{SVG}g"):
        titles.setdefault(group.get("class"), []).append(group.find(f"{SVG}title"))
    texts = {kind: [t.text for t in found if t is not None] for kind, found in titles.items()}
    assert texts["cluster"] == ["module head", "module head.softmax"]
    assert texts["node input"] == ["input x; 5×8 float64"]
    assert "parameter W_Q; 8×4 float64" in texts["node parameter"]
    assert any(t.startswith("op sum; axis=1, keepdims; 5×1 float64; test_drawing.py:") for t in texts["node op"])
    assert "weights = divide, 5×5" in texts["edge"]


def test_every_kind_has_dark_colours_and_a_shape_of_its_own():
    assert len({style[0] for style in STYLES.values()}) == len(STYLES) == 4
    pytest.importorskip("pygraphviz")
    svg = head_graph().to_svg()
    for kind in STYLES:
        assert f'class="node {kind}"' in svg
        assert f".tinytensor .{kind} path" in svg


@pytest.mark.parametrize(
    "hostile", ["<script>alert(1)</script>", "a \"b\" 'c' & <d>", "\\N \\G \\", "]]>", "a\x00\ud800\nb", ""]
)
def test_names_are_escaped(no_dot, hostile):
    pytest.importorskip("pygraphviz")
    x, c = tt.tensor([1.0], requires_grad=True), tt.tensor([2.0])
    with tt.record(), inside(hostile):
        hidden = tt.exp(x * c)
        y = hidden * 2.0
    graph = tt.draw(y, names={hostile: x}, title=hostile)
    named = tt.draw(y, names={hostile: hidden}, title=hostile)
    shown = "".join(ch if ch.isprintable() else " " for ch in hostile)
    for one in (graph, named, tt.draw(y, names={hostile: y}), tt.draw(y, names={hostile: c})):
        root = ElementTree.fromstring(one.to_svg())
        assert not list(root.iter(f"{SVG}script"))
        words = (
            "".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
            .replace("\xa0", " ")
            .replace("\u200b", "")
        )
        assert shown.replace(" ", "") in words.replace(" ", "")


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_other_formats(no_dot, tmp_path, suffix, start):
    pytest.importorskip("pygraphviz")
    path = tmp_path / f"head.{suffix}"
    head_graph().save(path)
    assert path.read_bytes().startswith(start)


def test_the_dot_file_needs_no_graphviz(no_graphviz, tmp_path):
    graph = head_graph()
    graph.save(tmp_path / "head.dot")
    assert (tmp_path / "head.dot").read_text(encoding="utf-8") == graph.to_dot()


def test_without_graphviz_the_dot_file_is_written_and_the_error_says_what_to_install(no_graphviz, tmp_path):
    out, names = attention_head()
    with pytest.raises(DrawingError, match=r"pip install -e '\.\[viz\]'; the graph is in .*head\.dot$"):
        tt.draw(out, tmp_path / "head.svg", names=names)
    assert [p.name for p in tmp_path.iterdir()] == ["head.dot"]
    assert (tmp_path / "head.dot").read_text(encoding="utf-8") == tt.draw(out, names=names).to_dot()


def test_a_notebook_without_graphviz_gets_a_warning(no_graphviz):
    with pytest.warns(UserWarning, match="pip install"):
        assert head_graph()._repr_svg_() is None


def test_a_notebook_shows_the_svg(no_dot):
    pytest.importorskip("pygraphviz")
    graph = head_graph()
    assert graph._repr_svg_() == graph.to_svg()
    assert repr(graph) == "<graph: 10 ops, 3 parameters, 1 input, 1 output>"


def test_a_failed_picture_leaves_the_old_file(no_graphviz, tmp_path):
    (tmp_path / "head.svg").write_text("old")
    with pytest.raises(DrawingError):
        head_graph().save(tmp_path / "head.svg")
    assert (tmp_path / "head.svg").read_text() == "old"


def test_importing_tinytensor_loads_nothing_of_pictures():
    code = "import sys, tinytensor; print([m for m in ('graphviz', 'pygraphviz', 'tinytensor.picture') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
