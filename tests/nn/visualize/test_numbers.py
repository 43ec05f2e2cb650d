"""Pictures of any numbers: curves, matrices, vectors in a plane, and one head as matrices."""

import math
import re
from html import escape

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import visualize
from tinytensor.nn.functional import softmax

from .drawing import AWKWARD, Read
from .test_lessons import curve

RNG = np.random.default_rng(0)
FORMS = [np.asarray, lambda a: a.tolist(), lambda a: tt.tensor(a, dtype=tt.float64, requires_grad=True)]
FORM_NAMES = ["NumPy", "lists", "Tensors"]


# ---- curves


@pytest.mark.parametrize("form", FORMS, ids=FORM_NAMES)
def test_curves_from_anywhere_are_the_same_picture(form):
    x, y = np.linspace(0, 6, 20), np.sin(np.linspace(0, 6, 20))
    expected = visualize.curves({"a": (x, y), "b": y})
    assert str(visualize.curves({"a": (form(x), form(y)), "b": form(y)})) == str(expected)


def test_a_curve_alone_counts_from_0_and_has_no_legend():
    picture = Read(visualize.curves([1.0, 2.0, 4.0], x_label="n", y_label="size", title="Growth"))
    texts = [t.text for t in picture.all("text")]
    assert {"Growth", "n", "size", "0", "2"} <= set(texts)
    assert "curve" not in texts
    assert picture.description == "curve goes from 1 at 0 to 4 at 2; it is lowest, 1, at 0 and highest, 4, at 2."


@pytest.mark.parametrize("axis", [0, 1])
def test_logarithmic_axes(axis):
    values = [np.arange(4.0), np.arange(4.0)]
    values[axis] = 10.0 ** np.arange(4)
    (points,) = curve(visualize.curves(tuple(values), log_x=axis == 0, log_y=axis == 1))
    steps = np.diff(points, axis=0)
    np.testing.assert_allclose(steps, np.broadcast_to(steps[0], (3, 2)), atol=0.011)


@pytest.mark.parametrize(("name", "text"), [("rate", "rate, logarithmic"), ("", "logarithmic")])
@pytest.mark.parametrize("axis", ["x", "y"])
def test_a_logarithmic_axis_says_so(axis, name, text):
    picture = visualize.curves([1.0, 10.0], **{f"{axis}_label": name, f"log_{axis}": True})
    assert text in [t.text for t in Read(picture).all("text")]


@pytest.mark.parametrize("gap", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_not_finite_is_a_gap_in_a_curve(gap, axis):
    values = [np.arange(5.0), np.arange(5.0)]
    values[axis][2] = gap
    assert [len(part) for part in curve(visualize.curves(tuple(values)))] == [2, 2]


def test_what_is_not_positive_is_a_gap_on_a_logarithmic_axis():
    assert [len(part) for part in curve(visualize.curves(([1, 2, 0, 4, 5], [1.0] * 5), log_x=True))] == [2, 2]
    with pytest.raises(ValueError, match="expected finite positive numbers"):
        visualize.curves(([0, -1], [1.0, 2.0]), log_x=True)


def test_markers_stand_on_the_points():
    picture = visualize.curves({"a": [1.0, math.nan, 3.0], "b": [2.0, 2.0, 2.0]}, markers=True)
    groups = Read(picture).all("g", "markers")
    assert [len(group) for group in groups] == [3, 2]  # the first curve is drawn last
    (x, y), end = (float(groups[1][0].get(k)) for k in ("cx", "cy")), curve(picture, 1)[0][0]
    np.testing.assert_allclose([x, y], end, atol=0.01)
    assert Read(visualize.curves([1.0, 2.0])).all("circle") == []


def test_many_curves_are_told_apart_and_named_beside():
    values = {f"curve {i}": [i, i + 1] for i in range(40)}
    picture = Read(visualize.curves(values))
    looks = {(p.get("stroke"), p.get("stroke-dasharray")) for p in picture.all("path", "curve")}
    assert len(looks) == 40
    names = [t for t in picture.all("text") if (t.text or "").startswith("curve ")]
    assert {t.text for t in names} == set(values)
    assert all(float(t.get("x")) > 720 and float(t.get("y")) < picture.height for t in names)
    two = Read(visualize.curves({"a": [1.0], "b": [2.0]}))
    assert two.width == 720  # names that fit stand above


def test_tiny_values_have_ticks_of_their_own():
    texts = Read(visualize.curves([1e-15, 3e-15])).texts("y-tick")
    assert texts[0] == "1e\N{MINUS SIGN}15"
    assert len(set(texts)) == len(texts) > 3
    assert Read(visualize.curves([5e-324, 1e308], log_y=True)).texts("y-tick")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "no curve was given"),
        ({"a": ([1, 2], [1.0])}, r"curves: a has shape \(1,\) and its steps \(2,\)"),
        ({"a": np.ones((2, 2))}, r"curves: a has shape \(2, 2\)"),
        ([math.nan], "no value can be drawn; expected finite numbers"),
    ],
)
def test_curves_that_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        visualize.curves(values)


# ---- matrices


def cells(picture):
    """The colour and the title of each cell."""
    found = [r for r in Read(picture).all("rect") if len(r)]
    return [r.get("fill") for r in found], [r[0].text for r in found]


def written(picture):
    return [t.text for g in Read(picture).all("g", "numbers") for t in g]


@pytest.mark.parametrize("form", FORMS, ids=FORM_NAMES)
def test_matrices_from_anywhere_are_the_same_picture(form):
    values = RNG.normal(size=(3, 4))
    assert str(visualize.matrix(form(values))) == str(visualize.matrix(values))
    assert str(visualize.matrix(form(values[0]))) == str(visualize.matrix(values[0]))


def test_a_signed_matrix_has_two_colours_from_0():
    colours, titles = cells(visualize.matrix([[-2.0, 0.0], [1.0, 2.0]]))
    assert titles == ["0, 0: −2", "0, 1: 0", "1, 0: 1", "1, 1: 2"]
    assert colours[0] == "#0a5b94"
    assert colours[1] == "#f7f7f7"
    assert colours[3] == "#b04a00"
    scale = [
        t.text for g in Read(visualize.matrix([[-2.0, 0.5]])).all("g", "scale") for t in g if t.tag.endswith("text")
    ]
    assert scale == ["−2", "0", "2"]


def test_a_matrix_without_negative_numbers_has_one_colour():
    colours, _ = cells(visualize.matrix([[0.0, 4.0]]))
    assert colours == ["#ffffff", "#00284d"]


def test_labels_of_a_matrix():
    picture = Read(visualize.matrix(np.ones((2, 3)), rows=["<cat>", "dog"], columns=[10, 20, 30]))
    assert picture.texts("row") == ["<cat>", "dog"]
    assert picture.texts("column") == ["10", "20", "30"]
    assert "<cat>, 20: 1" in picture.titles()
    assert picture.description == "2 rows and 3 columns, values from 1 to 1."


def test_numbers_stand_in_the_cells_where_they_are_few():
    assert written(visualize.matrix([[1, 20], [300, 4]])) == ["1", "20", "300", "4"]
    assert written(visualize.matrix([[0.5, -0.004]])) == ["0.50", "0.00"]
    assert written(visualize.matrix([[0.00012, 0.0]])) == ["1.2e−04", "0"]
    assert written(visualize.matrix([[math.nan, math.inf, -math.inf, 1]])) == ["NaN", "∞", "−∞", "1"]
    assert written(visualize.matrix(np.ones((13, 13)))) == []
    assert len(written(visualize.matrix(np.ones((13, 13)), numbers=True))) == 169
    assert written(visualize.matrix([[1, 2]], numbers=False)) == []


def test_numbers_can_be_read_on_their_cells():
    texts = [t for g in Read(visualize.matrix([[0.0, 4.0]])).all("g", "numbers") for t in g]
    assert [t.get("fill") for t in texts] == ["#000000", "#ffffff"]  # on white, on dark blue
    assert texts[0].get("class") != texts[1].get("class")  # and the other way round in the dark


def test_what_is_not_finite_is_hatched():
    picture = Read(visualize.matrix([[1.0, -math.inf], [math.nan, 2.0]]))
    assert len(picture.all("rect", "masked")) == 2
    assert picture.description == "2 rows and 2 columns, values from 1 to 2, 2 not finite."


def test_matrices_side_by_side_have_one_scale():
    both = np.stack([np.full((2, 2), 1.0), np.full((2, 2), 4.0)])
    wide = Read(visualize.matrix(RNG.normal(size=(3, 20, 20)), rows=[f"row {i}" for i in range(20)]))
    assert wide.height < 400  # all three in one line
    for values, names in ((both, ["0", "1"]), ({"a": both[0], "b": both[1]}, ["a", "b"])):
        picture = visualize.matrix(values)
        assert Read(picture).texts("name") == names
        assert len(set(cells(picture)[0][:4])) == 1
        assert cells(picture)[0][4] == "#00284d"
        assert cells(picture)[0][0] != "#00284d"
    assert Read(visualize.matrix({f"{i}": np.ones((20, 20)) for i in range(9)})).width <= 1000


def test_large_matrices_are_images():
    picture = Read(visualize.matrix(RNG.normal(size=(60, 512))))
    assert len(picture.all("image")) == 2  # light and dark
    assert picture.width < 800
    shown = picture.texts("row")
    assert shown[0] == "0"
    assert len(shown) < 60  # as many as have room


@pytest.mark.parametrize(
    ("values", "options", "error", "message"),
    [
        (3.0, {}, ValueError, r"values has shape \(\)"),
        (np.ones((1, 2, 3, 4)), {}, ValueError, r"values has shape \(1, 2, 3, 4\)"),
        ({"a": np.ones((2, 2, 2))}, {}, ValueError, r"a has shape \(2, 2, 2\)"),
        (np.ones((0, 3)), {}, ValueError, "no axis empty"),
        ({}, {}, ValueError, "no matrix was given"),
        ([[math.nan]], {}, ValueError, "no value can be drawn"),
        ([["a"]], {}, TypeError, "expected real numbers"),
        ([[1, 2], [3]], {}, ValueError, "nested lists of different lengths"),
        (np.ones((2, 3)), {"rows": ["a"]}, ValueError, "1 rows were named, but values has 2"),
        (np.ones((2, 3)), {"columns": "ab"}, ValueError, "2 columns were named, but values has 3"),
    ],
)
def test_matrices_that_are_refused(values, options, error, message):
    with pytest.raises(error, match=message):
        visualize.matrix(values, **options)


# ---- attention as matrices

Q, K, V = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 4)), RNG.normal(size=(5, 2))


def tiles(picture):
    """The numbers of each tile, row after row."""
    groups = Read(picture).all("g", "numbers")
    return [np.array([float(t.text.replace("\N{MINUS SIGN}", "-").replace("∞", "inf")) for t in g]) for g in groups]


def test_tiles_are_the_computation():
    picture = visualize.attention_matrices(Q, K, V)
    weights = softmax(tt.asarray(Q @ K.T / 2)).numpy()
    expected = [Q, K.T, Q @ K.T, Q @ K.T / 2, weights, V, weights @ V]
    for found, numbers in zip(tiles(picture), expected, strict=True):
        np.testing.assert_allclose(found, numbers.ravel(), rtol=0, atol=5.1e-3)
    read = Read(picture)
    assert read.texts("operator") == ["·", "=", "÷ √dₖ", "softmax", "·", "="]
    assert read.texts("formula") == ["Q", "Kᵀ", "Q Kᵀ", "Q Kᵀ ÷ √dₖ", "A = softmax", "V", "A V"]
    assert read.texts("note") == [
        "3×4", "4×5", "3×5", "3×5, √4 = 2.00", "3×5, rows add up to 1", "5×2", "3×2, the result",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["boolean", "float"])
def test_a_mask_is_a_tile(kind):
    hidden = np.arange(5) > 2
    mask = hidden if kind == "boolean" else np.where(hidden, -np.inf, 0.5)
    picture = visualize.attention_matrices(Q, K, V, mask)
    assert "+ mask" in Read(picture).texts("operator")
    scores = Q @ K.T / 2 + (0.5 if kind == "float" else 0.0)
    np.testing.assert_allclose(tiles(picture)[4], np.where(hidden, -np.inf, scores).ravel(), atol=5.1e-3)
    assert (tiles(picture)[5].reshape(3, 5)[:, hidden] == 0).all()
    assert len(Read(picture).all("rect", "masked")) == 6


def test_a_scale_of_ones_own():
    picture = visualize.attention_matrices(Q, K, V, scale=1.0)
    assert "\N{MULTIPLICATION SIGN} 1" in Read(picture).texts("operator")
    np.testing.assert_array_equal(tiles(picture)[2], tiles(picture)[3])


def test_queries_that_see_nothing_are_told():
    picture = Read(visualize.attention_matrices(Q, K, V, np.ones((3, 5), bool)))
    assert "3×5, rows add up to 1, or to 0" in picture.texts("note")


def test_tokens_beside_the_tiles():
    picture = Read(visualize.attention_matrices(Q, K, V, source=list("abcde"), target=["x", "y", "z"]))
    assert picture.texts("column") == list("abcde") * 4  # of Kᵀ, the products, the scores and the weights
    assert picture.texts("row").count("x") == 5
    assert picture.texts("row")[-8:] == ["a", "b", "c", "d", "e", "x", "y", "z"]
    assert (
        "from x to" in picture.description or "from y to" in picture.description or "from z to" in picture.description
    )
    assert Read(visualize.attention_matrices(Q, K, V)).texts("row") == []


def test_long_axes_have_colours_only():
    many = RNG.normal(size=(40, 64))
    picture = visualize.attention_matrices(many, many, many)
    assert tiles(picture) == []
    notes = Read(picture).texts("note")
    assert f"{many.min():.3g} to {many.max():.3g}".replace("-", "\N{MINUS SIGN}") in notes
    assert Read(picture).width <= 1040


def test_a_recorded_call_as_matrices():
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = tt.random.randn(1, 4, 8)
    with nn.record_attention() as attention:
        layer(x, x, x, attn_mask=nn.functional.causal_mask(4))
    call = attention.calls[0]
    picture = visualize.attention_matrices(call, head=1)
    np.testing.assert_allclose(tiles(picture)[5], call.weights[0, 1].ravel(), atol=5.1e-3)
    assert picture.title == "Scaled dot-product attention as matrices, head 1 of MultiheadAttention"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Q,), "attention_matrices: give query, key and value"),
        ((Q, K[:, :2], V), "attention_matrices: query .* must have the same size"),
        ((Q, K, V[:2]), "the same length"),
        ((Q[0], K, V), r"attention_matrices: query has shape \(4,\)"),
        ((Q * np.nan, K, V), "not finite"),
        ((Q, K, V, np.ones((2, 2), bool)), r"must broadcast to .*\(3, 5\)"),
    ],
)
def test_matrices_of_attention_that_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        visualize.attention_matrices(*arguments)
    with pytest.raises(ValueError, match="source: 2 tokens"):
        visualize.attention_matrices(Q, K, V, source=["a", "b"])


# ---- vectors


def ends(picture):
    """Where each arrow ends, in pixels."""
    paths = Read(picture).all("path", "vector")
    return [np.array(re.findall(r"([-\d.]+) ([-\d.]+)", p.get("d"))[3], dtype=float) for p in paths]


@pytest.mark.parametrize("form", FORMS, ids=FORM_NAMES)
def test_vectors_from_anywhere_are_the_same_picture(form):
    values = np.array([[1.0, 2.0], [3.0, -1.0]])
    expected = str(visualize.vectors({"0": (1.0, 2.0), "1": (3.0, -1.0)}))
    assert str(visualize.vectors(form(values))) == expected
    assert str(visualize.vectors({"0": form(values[0]), "1": form(values[1])})) == expected


def test_both_axes_have_one_unit():
    one, two, three = ends(visualize.vectors({"x": (10, 0), "y": (0, 10), "both": (-2, -2)}))
    origin = np.array([two[0], one[1]])
    assert one[0] - origin[0] == pytest.approx(origin[1] - two[1], abs=0.02)
    np.testing.assert_allclose(three - origin, np.array([-0.2, 0.2]) * (one[0] - origin[0]), atol=0.02)


def test_the_angle_and_the_projection_of_a_lesson():
    picture = Read(visualize.vectors({"a": (1, 2), "b": (3, 1)}, angle=("a", "b"), projection=("a", "b")))
    assert picture.texts("angle") == ["45°"]
    assert picture.texts("projection") == [f"|a| cos = {5 / math.sqrt(10):.4g}"]
    assert picture.description == "a at 1, 2; b at 3, 1; the angle between a and b is 45 degrees."
    (shadow,) = picture.all("line", "projection")
    x1, y1, x2, y2 = (float(shadow.get(k)) for k in ("x1", "y1", "x2", "y2"))
    assert (y1 - y2) / (x2 - x1) == pytest.approx(1 / 3, rel=1e-3)  # it lies on b


@pytest.mark.parametrize(("b", "degrees"), [((-1, 0), "180°"), ((0, -2), "90°"), ((-1, -1), "135°"), ((5, 0), "0°")])
def test_angles_all_around(b, degrees):
    for pair in (("a", "b"), ("b", "a")):
        assert Read(visualize.vectors({"a": (1, 0), "b": b}, angle=pair)).texts("angle") == [degrees]


def test_points_have_names_that_do_not_cover_each_other():
    crowd = {f"word {i}": p for i, p in enumerate(RNG.normal(size=(80, 2)) * 0.3)}
    picture = Read(visualize.vectors({**crowd, "far": (5, 5)}, arrows=False))
    assert len(picture.all("circle", "vector")) == 81
    names = picture.texts("name")
    assert "far" in names
    assert len(names) < 81
    assert len([t for t in picture.titles() if t.startswith("word ")]) == 80  # those without room have their titles
    spread = {f"{i}": (i, i % 3) for i in range(10)}
    assert len(Read(visualize.vectors(spread, arrows=False)).texts("name")) == 10


def test_points_need_no_origin():
    picture = Read(visualize.vectors({"a": (100, 100), "b": (101, 101)}, arrows=False))
    a, b = (float(c.get("cx")) for c in picture.all("circle"))
    assert b - a > 300


def test_awkward_names_are_whole():
    values = {name: (i, 3 * i % 7) for i, name in enumerate(AWKWARD)}
    assert "<script" not in str(visualize.vectors(values))
    assert "<script" not in str(visualize.curves({name: [1.0, 2.0] for name in AWKWARD}))
    assert "<script" not in str(visualize.matrix(np.ones((1, len(AWKWARD))), columns=AWKWARD))
    for picture in (visualize.vectors(values), visualize.curves({name: [1.0, 2.0] for name in AWKWARD})):
        Read(picture)


def test_ways_lead_from_one_vector_to_another():
    words = {"man": (0, 0), "king": (1, 2), "woman": (3, 0), "sum": (4, 2)}
    picture = Read(visualize.vectors(words, arrows=False, ways=[("man", "king"), ("woman", "sum")]))
    outlines = [re.findall(r"([-\d.]+) ([-\d.]+)", p.get("d")) for p in picture.all("path", "way")]
    one, other = (np.array([o[3], np.mean(np.array([o[0], o[-1]], float), axis=0)], float) for o in outlines)
    np.testing.assert_allclose(one[0] - one[1], other[0] - other[1], atol=0.02)  # the same way
    dots = {float(c.get("cx")): float(c.get("cy")) for c in picture.all("circle", "vector")}
    for x, y in (*one, *other):
        assert min(abs(x - cx) + abs(y - cy) for cx, cy in dots.items()) < 0.05


def test_a_vector_of_length_0_is_a_dot():
    assert len(Read(visualize.vectors({"0": (0, 0), "a": (1, 1)})).all("circle", "vector")) == 1
    assert Read(visualize.vectors({"0": (0, 0)})).all("circle")


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ({}, {}, "no vector was given"),
        ({"a": (1, 2, 3)}, {}, r"a has shape \(3,\)"),
        ({"a": (1, math.nan)}, {}, "expected two finite numbers"),
        ({"a": (1, 2)}, {"angle": ("a", "b")}, r"angle is \('a', 'b'\); expected the names of two of a"),
        ({"a": (1, 2), "b": (0, 0)}, {"projection": ("a", "b")}, "length 0 has no direction"),
        ({"a": (1, 2), "b": (0, 1)}, {"angle": "ab"}, "angle is 'ab'"),
        ({"a": (1, 2), "b": (0, 1)}, {"ways": [("a", "c")]}, r"ways is \('a', 'c'\); expected the names of two"),
    ],
)
def test_vectors_that_are_refused(values, options, message):
    with pytest.raises(ValueError, match=message):
        visualize.vectors(values, **options)


# ---- all of them

PICTURES = {
    "curves": lambda: visualize.curves({"a": [1.0, 2.0]}),
    "matrix": lambda: visualize.matrix([[1.0, -2.0]]),
    "attention_matrices": lambda: visualize.attention_matrices(Q, K, V),
    "vectors": lambda: visualize.vectors({"a": (1, 2)}),
}


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_what_every_picture_has(draw, tmp_path):
    picture = draw()
    text = str(picture)
    assert text == str(draw())
    assert 'role="img"' in text
    assert f"<title>{picture.title}</title>" in text
    assert "prefers-color-scheme: dark" in text
    assert Read(picture).description.endswith(".")
    assert escape(text) in picture._repr_mimebundle_()["text/html"]
    picture.save(tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8") == text
