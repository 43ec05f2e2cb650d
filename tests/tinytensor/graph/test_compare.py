"""Two graphs side by side: what is aligned with what, what differs, and that the picture shows it."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.graph import Comparison
from tinytensor.graph.marks import MARKS


def recorded(model, *inputs, title=None):
    with tt.record() as graph:
        model(*inputs)
    graph.title = title
    return graph


def layer(*, size=8, dropout=0.0, title=None, **options):
    tt.manual_seed(0)
    model = nn.TransformerEncoderLayer(size, 2, 2 * size, dropout=dropout, batch_first=True, **options)
    return recorded(model, tt.zeros((2, 3, size)), title=title)


def paths(parts):
    return [part.path for part in parts]


def changed(comparison):
    return {match.a.path: match.what for match in comparison.changed}


class Chain(nn.Module):
    """Linear layers by name, one after the other."""

    def __init__(self, **layers):
        super().__init__()
        for name, module in layers.items():
            setattr(self, name, module)
        self.names = list(layers)

    def forward(self, x):
        for name in self.names:
            x = getattr(self, name)(x)
        return x


# ---- what is aligned


def test_the_same_model_twice_has_no_difference():
    comparison = tt.compare(layer(), layer())
    assert (comparison.only_a, comparison.only_b, comparison.changed, comparison.moved) == ((), (), (), ())
    assert "no difference" in str(comparison)


def test_pre_norm_has_moved_its_norms_and_nothing_else():
    comparison = tt.compare(layer(), layer(norm_first=True))
    assert {match.a.path: match.what for match in comparison.moved} == {
        "norm1": ("before self_attn",),
        "norm2": ("before feed forward",),
    }
    assert (comparison.only_a, comparison.only_b, comparison.changed) == ((), (), ())


def test_what_is_inserted_does_not_shift_the_rest():
    comparison = tt.compare(layer(), layer(dropout=0.1))
    assert comparison.only_a == ()
    assert [path.rpartition(".")[2] for path in paths(comparison.only_b)] == ["dropout1", "dropout", "dropout2"]
    assert [path for path in changed(comparison) if "multi_head" not in path] == []
    backwards = tt.compare(layer(dropout=0.1), layer())
    assert paths(backwards.only_a) == paths(comparison.only_b)
    assert backwards.only_b == ()


def test_other_sizes_are_changes_in_the_same_place():
    comparison = tt.compare(layer(), layer(size=16))
    assert (comparison.only_a, comparison.only_b, comparison.moved) == ((), (), ())
    assert changed(comparison)["norm1"] == ("parameters 16 → 32", "result 2×3×8 → 2×3×16")
    assert "scale 0.5 → 0.3536" in changed(comparison)["self_attn.multi_head"]


def test_another_class_under_one_name_is_one_change():
    x = tt.zeros((2, 3))
    comparison = tt.compare(
        recorded(Chain(first=nn.Linear(3, 4), mix=nn.LayerNorm(4)), x),
        recorded(Chain(first=nn.Linear(3, 4), mix=nn.Linear(4, 4)), x),
    )
    assert changed(comparison)["mix"] == ("LayerNorm → Linear", "parameters 8 → 20")
    assert (comparison.only_a, comparison.only_b) == ((), ())


def test_what_has_another_name_in_one_place_is_renamed():
    x = tt.zeros((2, 4))
    comparison = tt.compare(recorded(Chain(first=nn.Linear(4, 4)), x), recorded(Chain(begin=nn.Linear(4, 4)), x))
    assert changed(comparison) == {"first": ("first → begin",)}


def test_layers_count_as_one_with_how_many_they_are():
    def stack(count):
        tt.manual_seed(0)
        block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        return recorded(nn.TransformerEncoder(block, count), tt.zeros((1, 3, 8)))

    comparison = tt.compare(stack(2), stack(4))
    assert changed(comparison)["layers.0"] == ("× 2 → × 4",)
    assert "self_attn" not in {match.a.name for match in comparison.changed}
    each = next(match for match in comparison.changed if match.a.path == "layers.0")
    whole = next(match for match in comparison.matches if match.a.kind == "TransformerEncoder")
    assert (whole.a.parameters, whole.b.parameters) == (2 * each.a.parameters, 4 * each.a.parameters)


def test_other_wiring_is_a_change():
    """The same ops on the same shapes in the same order: only where one of them reads from differs."""

    def graph(last):
        with tt.record() as found:
            x = tt.Tensor(np.ones((2, 2)), requires_grad=True)
            first = tt.exp(x)
            second = tt.sin(first)
            third = tt.tanh(second)
            tt.sum(third * (first if last else second))
        return found

    assert tt.compare(graph(True), graph(True)).changed == ()
    (change,) = tt.compare(graph(True), graph(False)).changed
    assert (change.a.name, change.what) == ("multiply", ("reads first → second",))


def test_a_parameter_of_an_op_is_a_change():
    def graph(number):
        with tt.record() as found:
            tt.sum(tt.Tensor([1.0, 2.0], requires_grad=True) * number)
        return found

    (change,) = tt.compare(graph(2), graph(3)).changed
    assert change.what == ("x2 2 → 3",)


def ops(names):
    """The graph of some functions of one number, one after the other."""
    with tt.record() as graph:
        x = tt.Tensor([0.5], requires_grad=True)
        for name in names:
            x = getattr(tt, name)(x)
    return graph


@pytest.mark.parametrize(
    ("one", "other", "only_one", "only_other"),
    [
        ("sin tanh cos", "sin exp tanh cos", "", "exp"),
        ("sin tanh cos", "exp sin tanh cos", "", "exp"),
        ("sin tanh cos", "sin tanh cos exp", "", "exp"),
        ("sin tanh cos abs", "tanh sin cos abs", "sin", "sin"),
        ("sin tanh cos sin abs", "tanh cos sin abs", "sin", ""),
        ("sin", "cos", "sin", "cos"),
    ],
)
def test_ops_are_aligned_by_as_much_as_fits(one, other, only_one, only_other):
    comparison = tt.compare(ops(one.split()), ops(other.split()))
    found = (" ".join(paths(comparison.only_a)), " ".join(paths(comparison.only_b)), comparison.changed)
    assert found == (only_one, only_other, ())


def test_too_long_a_level_is_refused_at_once():
    rng = np.random.default_rng(0)
    one, other = (rng.choice(names, 3000) for names in (["sin", "tanh", "abs"], ["cos", "erf", "square"]))
    with pytest.raises(ValueError, match=r"2,\d+ and 2,\d+ .* tt\.named_scope"):
        _ = tt.compare(ops(one), ops(other)).matches


# ---- what goes in


def test_mistakes_are_named():
    graph = layer()
    with pytest.raises(TypeError, match="second is a Tensor; expected a graph"):
        tt.compare(graph, tt.ones(1))
    with tt.record() as empty:
        pass
    with pytest.raises(ValueError, match="first graph is empty"):
        tt.compare(empty, graph)
    with pytest.raises(ValueError, match="expected two that differ"):
        tt.compare(graph, graph, names=("x", "x"))
    with pytest.raises(ValueError, match=r"ends in '\.doc'"):
        tt.compare(graph, graph).save("x.doc")
    with pytest.raises(ValueError, match="no option 'deep'"):
        tt.compare(graph, graph).picture(deep=2)


def test_names_are_titles_unless_given():
    a, b = layer(title="post"), layer(norm_first=True, title="pre")
    assert tt.compare(a, b).names == ("post", "pre")
    assert tt.compare(a, b, names=("x", "y")).names == ("x", "y")
    assert tt.compare(a, a).names == ("A", "B")


# ---- text and picture


def test_the_text_opens_what_differs_and_closes_what_does_not():
    text = str(tt.compare(layer(), layer(dropout=0.1), names=("plain", "dropped")))
    lines = text.splitlines()
    assert lines[0].startswith("− plain: 10 ops, ")
    assert lines[1].startswith("+ dropped: 13 ops, ")
    assert "+ 3 only in dropped" in lines[2]
    assert sum(line.startswith("+ ") and "Dropout" in line for line in lines) == 3
    (norm,) = [line for line in lines if "norm1" in line]
    assert norm.startswith("    norm1 LayerNorm")
    assert not any("layer_norm" in line for line in lines)


def test_the_picture_marks_what_differs_and_levels_what_does_not():
    comparison = tt.compare(layer(), layer(dropout=0.1), names=("plain", "dropped"))
    picture = comparison.picture()
    marks = {}
    for vertex in picture.vertices:
        marks.setdefault((vertex.id[0], vertex.mark), []).append(vertex)
    assert [v.name for v in marks["b", "only b"]] == ["dropout1", "dropout", "dropout2"]
    assert all(v.title.startswith("+ ") and v.words.endswith("only in dropped") for v in marks["b", "only b"])
    assert not {("a", "only a"), ("a", "only b"), ("b", "only a")} & marks.keys()
    levels = dict(picture.levels)
    assert {v.id for v in marks["a", "same"] if v.kind in ("op", "module")} <= levels.keys()
    boxes = {box.id: box for box in picture.boxes}
    assert {boxes[v.box].id[0] for v in picture.vertices if v.id[0] == "a"} == {"a"}


def test_what_moved_is_seen_however_deep_it_is():
    def stack(norm_first):
        model = nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True, norm_first=norm_first)
        return recorded(model, tt.zeros((1, 3, 8)), tt.zeros((1, 2, 8)))

    comparison = tt.compare(stack(False), stack(True))
    assert len([v for v in comparison.picture().vertices if v.mark == "moved"]) == 2 * len(comparison.moved) == 10
    closed = comparison.picture(depth=1)
    assert "… TransformerEncoderLayer" in {v.title for v in closed.vertices if v.mark == "inside"}


def test_modules_in_which_nothing_differs_are_closed():
    picture = tt.compare(layer(), layer(norm_first=True)).picture()
    assert {v.name for v in picture.vertices if v.kind == "module"} >= {"self_attn", "norm1", "norm2"}
    assert not any(v.title in ("linear", "multi_head") for v in picture.vertices)


def test_faces_are_the_same_in_every_run_and_are_what_they_say(tmp_path):
    comparison = tt.compare(layer(), layer(norm_first=True, dropout=0.1), names=("<post>", "pre & more"))
    for suffix in ("svg", "dot", "mmd", "txt"):
        comparison.save(tmp_path / f"one.{suffix}")
        again = tt.compare(layer(), layer(norm_first=True, dropout=0.1), names=comparison.names)
        again.save(tmp_path / f"two.{suffix}")
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()
    svg = (tmp_path / "one.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(svg)
    assert root.find("{*}title").text == "<post> and pre & more"
    assert "marked moved" in svg
    assert MARKS["moved"].dark_line in svg
    comparison.save(tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_other_pictures_know_nothing_of_marks():
    assert "marked" not in layer().to_svg()


def test_notebooks_show_it():
    bundle = tt.compare(layer(), layer(norm_first=True))._repr_mimebundle_()
    assert {"text/html", "text/plain"} <= bundle.keys()
    assert "2 moved" in bundle["text/plain"]
    assert isinstance(tt.compare(layer(), layer()), Comparison)
