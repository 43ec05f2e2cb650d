"""Pictures of attention: what stands in them is what the weights say."""

import dataclasses
import re

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import visualize
from tinytensor.nn.visualize.ramp import HIDDEN, SIGNED, WEIGHTS, png

from .drawing import AWKWARD, SHOWN, Read, softmax

WEIGHT = softmax(2, 3, 4, 5)  # layer, head, target, source
SOURCE, TARGET = ["a", "b", "c", "d", "e"], ["w", "x", "y", "z"]


def recorded(mask=None, heads=2, length=4, scale=None):
    tt.random.manual_seed(0)
    layer = nn.MultiheadAttention(4 * heads, heads, batch_first=True, dtype=tt.float64, scale=scale)
    x = tt.random.normal((2, length, 4 * heads), dtype=tt.float64)
    with nn.record_attention() as attention:
        layer(x, x, x, attn_mask=mask)
    return attention.calls[0]


# ---- lines


def lines(picture):
    """(x1, y1, x2, y2, opacity) of the lines of each head."""
    names = ("x1", "y1", "x2", "y2", "stroke-opacity")
    return [
        np.array([[float(line.get(n)) for n in names] for line in group]).reshape(-1, 5)
        for group in picture.all("g", "head")
    ]


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("token", [None, 1])
def test_no_head_covers_another(count, token):
    """Also where all look at the same key: whose line is seen must not depend on which was drawn last."""
    weights = np.full((1, count, 3, 3), 0.05)
    weights[..., 2] = 0.9
    found = lines(Read(visualize.attention_lines(weights, token=token)))
    assert len(found) == count
    places = [{tuple(row[:4]) for row in head} for head in found]
    assert all(places[i].isdisjoint(places[j]) for i in range(count) for j in range(i))
    heights = [sorted(head[:, 1])[0] for head in found]
    assert np.all(np.diff(heights) > 0)
    assert heights[-1] - heights[0] <= 18.001


def test_lines_are_the_weights():
    picture = Read(visualize.attention_lines(WEIGHT, SOURCE, TARGET, layer=1))
    assert picture.texts("query") == TARGET
    assert picture.texts("key") == SOURCE
    rows = [float(t.get("y")) for t in picture.all("text", "query")]
    columns = [float(t.get("y")) for t in picture.all("text", "key")]
    for head, found in enumerate(lines(picture)):
        i, j = np.nonzero(WEIGHT[1, head] >= 0.02)
        np.testing.assert_allclose(found[:, 4], WEIGHT[1, head][i, j], rtol=0, atol=5.1e-4)
        baseline = rows[0] - found[0, 1] if i[0] == 0 else None
        np.testing.assert_allclose(found[:, 1] + baseline, np.array(rows)[i], atol=2e-3)
        np.testing.assert_allclose(found[:, 3] + baseline, np.array(columns)[j], atol=2e-3)
        assert (found[:, 0] < found[:, 2]).all()


def test_one_query_and_chosen_heads():
    picture = Read(visualize.attention_lines(WEIGHT, SOURCE, TARGET, layer=0, heads=[2, 0], token=-1))
    found = lines(picture)
    assert len(found) == 2
    for group, head in zip(found, (2, 0)):
        expected = WEIGHT[0, head, -1]
        np.testing.assert_allclose(group[:, 4], expected[expected >= 0.02], rtol=0, atol=5.1e-4)
        assert len(set(group[:, 1])) == 1
    strokes = [g.get("stroke") for g in picture.all("g", "head")]
    everything = Read(visualize.attention_lines(WEIGHT, SOURCE, TARGET, layer=0))
    assert strokes == [everything.all("g", "head")[head].get("stroke") for head in (2, 0)]
    bold = [t.text for t in picture.all("text", "query") if t.get("font-weight")]
    assert bold == ["z"]
    squares = picture.all("g", "squares")
    assert [g.get("fill") for g in squares] == strokes
    for group, head in zip(squares, (2, 0)):
        given = WEIGHT[0, head, -1]
        shown = [float(s.get("fill-opacity")) for s in group if s.get("fill-opacity")]
        np.testing.assert_allclose(shown, given[given >= 0.02], rtol=0, atol=5.1e-4)
        assert sum(s.get("fill-opacity") is None for s in group) == 1  # the query's own
    best = SOURCE[int(WEIGHT[0, [2, 0], -1].mean(axis=0).argmax())]
    assert re.search(
        f"2 heads: lines from the query z to 5 keys; on average most weight, .* goes to {best}", picture.description
    )


def test_a_bold_query_is_whole():
    words = ["down", "internationally", "W", "."]
    for i, word in enumerate(words):
        picture = Read(visualize.attention_lines(softmax(1, 4, 4), words, token=i))
        assert [t.text for t in picture.all("text", "query") if t.get("font-weight")] == [word]


def test_the_last_layer_is_the_default_and_is_named():
    assert "layer 1" in Read(visualize.attention_lines(WEIGHT)).root[0].text
    call = recorded()
    assert Read(visualize.attention_lines([call])).root[0].text == "Attention, layer 0 (MultiheadAttention)"


def test_squares_and_text_lie_within_the_picture():
    picture = Read(visualize.attention_lines(softmax(16, 10, 10), AWKWARD))
    for rect in picture.all("rect"):
        assert float(rect.get("x", 0)) + float(rect.get("width")) <= picture.width
        assert float(rect.get("y", 0)) + float(rect.get("height")) <= picture.height
    assert picture.width <= 1280


# ---- grid


def test_every_cell_has_its_colour_and_its_words():
    picture = Read(visualize.attention_grid(WEIGHT, SOURCE, TARGET))
    maps = picture.all("g", "map")
    assert len(maps) == 6
    for group, weights in zip(maps, WEIGHT.reshape(6, 4, 5)):
        rects = [r for r in group.iter("{http://www.w3.org/2000/svg}rect") if len(r)]
        assert len(rects) == 20
        for rect, (i, j) in zip(rects, np.ndindex(4, 5)):
            assert rect.get("fill") == WEIGHTS(weights[i, j]).light
            pair, weight = rect[0].text.split(": ")
            assert pair == f"{TARGET[i]} → {SOURCE[j]}"
            assert abs(float(weight) - weights[i, j]) <= 5.1e-5
        places = [(float(r.get("x")), float(r.get("y"))) for r in rects]
        assert places == sorted(places, key=lambda p: (p[1], p[0]))
    assert [t.text for t in picture.all("text", "head")] == ["head 0", "head 1", "head 2"]


def test_chosen_layers_and_heads_and_their_tokens():
    picture = Read(visualize.attention_grid(WEIGHT, SOURCE, TARGET, layers=1, heads=[2]))
    assert len(picture.all("g", "map")) == 1
    assert picture.texts("query") == TARGET
    assert picture.texts("key") == SOURCE
    assert f"w → a: {WEIGHT[1, 2, 0, 0]:.4f}".rstrip("0") in picture.titles()


def test_masked_is_not_zero():
    call = recorded(nn.functional.causal_mask(4))
    picture = Read(visualize.attention_grid([call]))
    masked = picture.all("rect", "masked")
    assert len(masked) == 2 * 6
    assert {r.get("fill") for r in masked} == {HIDDEN.light}
    assert HIDDEN.light not in {c.light for c in WEIGHTS.colours}
    assert {r[0].text.split(": ")[1] for r in masked} == {"masked"}
    assert "masked" in [t.text for t in picture.all("text")]
    assert "masked" not in str(visualize.attention_grid(WEIGHT))
    zeros = Read(visualize.attention_grid(np.eye(4)))
    assert not zeros.all("rect", "masked")


def test_many_cells_become_images():
    weights = softmax(2, 2, 40, 40)
    picture = visualize.attention_grid(weights)
    images = Read(picture).all("image")
    assert len(images) == 2 * 4  # light and dark
    assert {i.get("display") for i in images if "dark-only" in i.get("class")} == {"none"}
    assert Read(picture).titles()[1:] == [f"layer {i}, head {j}" for i in (0, 1) for j in (0, 1)]
    assert len(str(picture)) < 40_000


def test_an_image_holds_the_indices():
    import io

    image = pytest.importorskip("PIL.Image")
    indices = np.array([[0, 1, 2], [2, 1, 0]], dtype=np.uint8)
    palette = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    found = np.asarray(image.open(io.BytesIO(png(indices, palette))).convert("RGB"))
    np.testing.assert_array_equal(found, np.array(palette, dtype=np.uint8)[indices])


def lightness(colour):
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    y = float(linear @ [0.2126, 0.7152, 0.0722])
    return 116 * np.cbrt(y) - 16 if y > 0.008856 else 903.3 * y


@pytest.mark.parametrize(("mode", "sign"), [("light", -1), ("dark", 1)])
def test_weights_change_lightness_all_the_way(mode, sign):
    """So that they can be told apart without colours; CIE L* of each step is beyond that of the step before."""
    steps = np.diff([lightness(getattr(c, mode)) for c in WEIGHTS.colours]) * sign
    assert steps.min() > 0.3
    assert steps.max() < 2.5


def test_signed_colours_are_lightest_or_darkest_at_zero():
    light, dark = ([lightness(getattr(c, mode)) for c in SIGNED.colours] for mode in ("light", "dark"))
    assert int(np.argmax(light)) == int(np.argmin(dark)) == 32


# ---- without a key


SINK = softmax(2, 3, 4, 4) * np.array([0.1, 0.1, 0.1, 0.1]) + np.array([0.9, 0, 0, 0])


@pytest.mark.parametrize("key", [0, -4])
def test_a_sink_is_left_out_and_the_rest_divided_by_its_sum(key):
    tokens = ["<s>", "x", "y", "z"]
    rest = SINK[:, :, :, 1:] / SINK[:, :, :, 1:].sum(-1, keepdims=True)
    grid = Read(visualize.attention_grid(SINK, tokens, layers=1, heads=2, without=key))
    assert (grid.texts("query"), grid.texts("key")) == (tokens, tokens[1:])
    shown = [float(t.split(": ")[1]) for t in grid.titles() if " → " in t]
    np.testing.assert_allclose(np.reshape(shown, (4, 3)), rest[1, 2], atol=5.1e-5)
    assert grid.root[0].text == "Attention weights, layer 1, without <s>"
    drawn = Read(visualize.attention_lines(SINK, tokens, without=[key]))
    assert (drawn.texts("query"), drawn.texts("key")) == (tokens, tokens[1:])
    opacities = [line[:, 4] for line in lines(drawn)]
    for found, weights in zip(opacities, rest[1]):
        np.testing.assert_allclose(found, weights[weights >= 0.02], atol=5.1e-4)
    differing = Read(visualize.attention_difference(SINK[:1], SINK[1:], tokens, without=key))
    assert differing.texts("key") == 3 * tokens[1:]
    assert differing.root[0].text.endswith(", without <s>")


def test_a_query_that_sees_only_the_sink_has_nothing_left():
    picture = Read(visualize.attention_grid([recorded(nn.functional.causal_mask(4))], heads=0, without=0))
    first = [t for t in picture.titles() if t.startswith("0 → ")]
    assert first == ["0 → 1: masked", "0 → 2: masked", "0 → 3: masked"]
    assert "1 → 1: 1" in picture.titles()  # it saw two keys


@pytest.mark.parametrize(
    ("without", "told"), [(4, "without: key 4 does not exist: there are 4"), ([0, 1, 2, 3], "all 4 keys are left out")]
)
def test_keys_that_cannot_be_left_out(without, told):
    for draw in (visualize.attention_grid, visualize.attention_lines):
        with pytest.raises(ValueError, match=told):
            draw(SINK, without=without)


# ---- attribution


def test_tokens_are_shaded_by_their_values_and_attention_is_below():
    values, weights, words = [0.5, -1.0, 0.0], [0.25, 0.75, 0.0], ["my", "name", "is"]
    picture = Read(visualize.attribution(tt.asarray([values]), words, weights, title="log p(Tom)"))
    shaded, looked = picture.all("g", "tile")
    fills = [r.get("fill") for r in shaded.iter() if r.get("fill") and len(r) and r.tag.endswith("rect")]
    assert fills == [SIGNED((v + 1) / 2).light for v in values]
    fills = [r.get("fill") for r in looked.iter() if r.get("fill") and len(r) and r.tag.endswith("rect")]
    assert fills == [WEIGHTS(w).light for w in weights]
    text = [t.text for t in picture.all("text")]
    assert [t for t in text if t in words] == words
    assert picture.texts("column") == ["0.50", "\N{MINUS SIGN}1.00", "0.00"]
    assert picture.texts("row") == ["attribution", "attention"]
    assert [t for t in text if t in ("0.25", "0.75")] == ["0.25", "0.75"]
    assert "attribution, name: \N{MINUS SIGN}1" in picture.titles()
    assert picture.description == "name has the largest share, -1 of -0.5."


@pytest.mark.parametrize("count", [1, 12, 100])
def test_many_and_awkward_tokens_go_on_below(count):
    tokens = (AWKWARD * 10)[:count]
    picture = Read(visualize.attribution(np.linspace(-1, 1, count), tokens, np.full(count, 1 / count)))
    assert picture.width == 640
    for rect in picture.all("rect"):
        assert float(rect.get("x", 0)) + float(rect.get("width")) <= 640
    assert picture.texts("row").count("attention") == picture.texts("row").count("attribution")
    assert len(picture.texts("column")) == count


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([[1.0], [2.0]], ["a"]), r"values have shape \(2, 1\); expected finite numbers, \(length,\)"),
        (([np.nan], ["a"]), "expected finite numbers"),
        (([1.0, 2.0], ["a"]), "tokens: 1 tokens, but the weights have 2"),
        (([1.0, 2.0], ["a", "b"], [1.0]), r"attention has shape \(1, 1\); expected \(1, 2\), as the values"),
    ],
)
def test_attribution_that_does_not_fit(arguments, told):
    with pytest.raises(ValueError, match=told):
        visualize.attribution(*arguments)


def test_attribution_says_which_weights_of_a_recording_it_takes():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = tt.ones((1, 3, 4))
    with nn.record_attention() as recording:
        layer(x, x, x)
    words = ["a", "b", "c"]
    told = r"expected .*weights of one query, \(length,\), such as call\.weights\[0, 2, -1\]"
    for given, found in ((recording, "has type record_attention"), (recording.layers, "has type list")):
        with pytest.raises(TypeError, match=f"attribution: attention {found}; {told}"):
            visualize.attribution([1.0, 2.0, 3.0], words, given)
    with pytest.raises(TypeError, match="attribution: attention has type AttentionCall; expected"):
        visualize.attribution([1.0, 2.0, 3.0], words, recording.layers[0])
    with pytest.raises(ValueError, match=rf"attention has shape \(1, 2, 3, 3\); {told}"):
        visualize.attribution([1.0, 2.0, 3.0], words, recording.layers[0].weights)
    visualize.attribution([1.0, 2.0, 3.0], words, recording.layers[0].weights[0, 1, -1])


@pytest.mark.parametrize("draw", [
    lambda other: visualize.matrix(other), lambda other: visualize.positional_encoding(other),
    lambda other: visualize.vectors({"a": other}), lambda other: visualize.curves({"a": other}),
    lambda other: visualize.attention_steps(other, [[1.0]], [[1.0]]), lambda other: visualize.attribution(other, ["a"]),
])  # fmt: skip
def test_what_is_no_numbers_is_named(draw):
    with pytest.raises(TypeError, match=": .* has type Linear; expected"):
        draw(nn.Linear(1, 1))


# ---- steps


def numbers(picture, class_):
    return [float(t.replace("\N{MINUS SIGN}", "-").replace("∞", "inf")) for t in picture.texts(class_)]


def test_steps_of_a_small_example_by_hand():
    query, key, value = np.array([[2.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])
    picture = Read(visualize.attention_steps(query, key, value, source=["yes", "no"], target=["what"]))
    assert numbers(picture, "q") == [2, 0]
    assert numbers(picture, "k") == [1, 0, 0, 1]
    assert numbers(picture, "product") == [2, 0]
    assert numbers(picture, "score") == [1.41, 0]
    assert numbers(picture, "weight") == [0.8, 0.2]
    assert numbers(picture, "v") == [1, 2, 3, 4]
    assert numbers(picture, "result") == [1.39, 2.39]
    assert picture.texts("masked") == []
    assert picture.texts("query") == ["what"]
    assert picture.texts("key") == ["yes", "no"]
    assert picture.texts("formula") == ["q", "K", "q · kⱼ", "/ √dₖ", "aⱼ = softmax", "V", "Σ aⱼ vⱼ"]
    bars = [float(b.get("width")) / 50 for b in picture.all("rect", "bar")]
    np.testing.assert_allclose(bars, [0.8044, 0.1956], atol=1e-4)


@pytest.mark.parametrize("kind", ["boolean", "float"])
def test_steps_of_a_recording_are_its_numbers(kind):
    mask = nn.functional.causal_mask(4)
    bias = tt.where(mask, -tt.inf, tt.full((4, 4), 0.5, dtype=tt.float64))
    call = recorded(mask if kind == "boolean" else bias)
    picture = Read(visualize.attention_steps(call, token=1, head=1, sample=1))
    np.testing.assert_allclose(numbers(picture, "weight"), call.weights[1, 1, 1], rtol=0, atol=5.1e-3)
    out = call.weights[1, 1, 1] @ call.value[1, 1]
    np.testing.assert_allclose(numbers(picture, "result"), out, rtol=0, atol=5.1e-3)
    scores = call.key[1, 1] @ call.query[1, 1, 1] / 2
    np.testing.assert_allclose(numbers(picture, "score"), scores, rtol=0, atol=5.1e-3)
    after = np.where([False, False, True, True], -np.inf, scores + (0.5 if kind == "float" else 0))
    np.testing.assert_allclose(numbers(picture, "masked"), after, rtol=0, atol=5.1e-3)
    assert "+ mask" in picture.texts("formula")


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        (None, ("/ √dₖ", "√4 = 2.00")),
        (1, ("\N{MULTIPLICATION SIGN} 1", "not scaled")),
        (0.25, ("\N{MULTIPLICATION SIGN} 0.25", "scaled")),
    ],
)
def test_steps_say_by_what_the_scores_were_scaled(scale, said):
    call = recorded(scale=scale)
    picture = Read(visualize.attention_steps(call, token=1))
    scores = call.key[0, 0] @ call.query[0, 0, 1] * (0.5 if scale is None else scale)
    np.testing.assert_allclose(numbers(picture, "score"), scores, rtol=0, atol=5.1e-3)
    assert said[0] in picture.texts("formula")
    assert said[1] in [text.text for text in picture.all("text")]


def test_steps_begin_with_the_projections():
    x = np.array([[1.0, 0.0], [0.0, 2.0]])
    w_q, w_k, w_v = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[3.0], [4.0]])
    picture = Read(visualize.attention_steps(x=x, weights=(w_q, w_k, w_v), token=0, source=["one", "two"]))
    assert numbers(picture, "x") == [1, 0]
    assert numbers(picture, "memory") == x.ravel().tolist()
    assert [numbers(picture, name) for name in ("wq", "wk", "wv")] == [w.ravel().tolist() for w in (w_q, w_k, w_v)]
    assert numbers(picture, "q") == [2, 0]
    assert numbers(picture, "k") == [1, 1, 0, 2]
    assert numbers(picture, "product") == [2, 0]
    assert numbers(picture, "v") == [3, 8]
    assert picture.texts("query") == ["one", "one"]
    assert picture.texts("key") == ["one", "two"] * 2
    assert picture.texts("formula")[:7] == ["x", "W", "X", "W", "W", "q = x W", "K = X W"]
    assert picture.texts("raised") == ["Q", "K", "V", "Q", "K", "V"]
    assert picture.texts("bias") == []


def layer_with_biases(**options):
    layer = nn.MultiheadAttention(8, 2, **options)
    with tt.no_grad():
        layer.in_proj_bias += tt.random.randn(24)
    return layer


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("given", ["call", "x"])
def test_steps_of_a_layer_are_its_numbers(batch_first, given):
    layer, x = layer_with_biases(batch_first=batch_first), tt.random.randn(3, 5, 8)
    x = x if batch_first else tt.permute_dims(x, (1, 0, 2))
    mask = nn.functional.causal_mask(5)
    with nn.record_attention() as attention:
        layer(x, x, x, attn_mask=mask)
    call = attention.calls[0]
    query = {"query": call} if given == "call" else {"mask": mask}
    picture = Read(visualize.attention_steps(**query, x=x, weights=layer, head=1, sample=2, token=3))
    for name, numbers_ in (("q", call.query[2, 1, 3]), ("k", call.key[2, 1]), ("weight", call.weights[2, 1, 3])):
        np.testing.assert_allclose(numbers(picture, name), numbers_.ravel(), rtol=0, atol=5.1e-3)
    biases = layer.in_proj_bias.numpy().reshape(3, 2, 4)[:, 1]
    np.testing.assert_allclose(numbers(picture, "bias"), biases.ravel(), rtol=0, atol=5.1e-3)
    assert len(numbers(picture, "wq")) == 4 * 4  # of 8 rows the first four
    assert picture.width <= 1280


def test_steps_of_a_layer_have_its_scale():
    layer, x = nn.MultiheadAttention(8, 2, scale=1.0), tt.random.randn(4, 8)
    picture = Read(visualize.attention_steps(x=x, weights=layer, token=1))
    assert numbers(picture, "score") == numbers(picture, "product")
    picture = Read(visualize.attention_steps(x=x, weights=layer, token=1, scale=0.5))
    assert numbers(picture, "score") != numbers(picture, "product")


@pytest.mark.parametrize("draw", [visualize.attention_steps, visualize.attention_matrices])
@pytest.mark.parametrize("attention", ["additive", "windowed"])
def test_weights_that_are_no_softmax_of_products_are_refused(draw, attention):
    call = recorded()
    if attention == "additive":
        call = dataclasses.replace(call, query=None, key=None, scale=None)
    else:
        call = dataclasses.replace(call, weights=call.weights * 0.5)
    with pytest.raises(ValueError, match="no softmax of products of queries and keys; attention_grid"):
        draw(call)


def test_steps_across_have_inputs_of_their_own():
    layer = nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True)
    x, memory = tt.random.randn(1, 3, 8), tt.random.randn(1, 4, 6)
    with nn.record_attention() as attention:
        layer(x, memory, memory)
    picture = Read(visualize.attention_steps(attention.calls[0], x=(x, memory), weights=layer, token=1))
    np.testing.assert_allclose(numbers(picture, "x"), x.numpy()[0, 1, :4], atol=5.1e-3)
    np.testing.assert_allclose(numbers(picture, "memory"), memory.numpy()[0, :, :4].ravel(), atol=5.1e-3)


PROJECTED = np.ones((3, 2)), [np.eye(2)] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": PROJECTED[0]}, "x and weights belong together"),
        ({"weights": PROJECTED[1]}, "x and weights belong together"),
        ({"x": np.ones(3), "weights": PROJECTED[1]}, r"x has shape \(3,\)"),
        ({"x": np.ones((3, 4)), "weights": PROJECTED[1]}, r"x of the queries, \(3, 4\), and their weights, \(2, 2\)"),
        ({"x": PROJECTED[0], "weights": PROJECTED[1][:2]}, "three matrices, W_Q, W_K and W_V"),
        ({"x": PROJECTED[0], "weights": [np.ones(2)] * 3}, r"W_Q has shape \(2,\)"),
        ({"x": PROJECTED[0] * np.nan, "weights": PROJECTED[1]}, "not finite"),
        ({"x": PROJECTED[0], "weights": layer_with_biases(), "head": 2}, "head 2 does not exist"),
        (
            {"query": np.zeros((3, 2)), "key": np.ones((3, 2)), "value": np.ones((3, 2)), "x": PROJECTED[0],
             "weights": PROJECTED[1]},
            "x times the weights gives another query",
        ),
    ],
)  # fmt: skip
def test_projections_that_do_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        visualize.attention_steps(**arguments)


def test_long_vectors_and_many_keys_are_cut():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(30, 64)), rng.normal(size=(30, 64)), rng.normal(size=(30, 64))
    picture = Read(visualize.attention_steps(q, k, v, token=3))
    scores = k @ q[3] / 8
    weights = np.exp(scores) / np.exp(scores).sum()
    best = sorted(np.argsort(-weights)[:12].tolist())
    assert picture.texts("key") == [str(j) for j in best]
    np.testing.assert_allclose(numbers(picture, "weight"), weights[best], atol=5.1e-3)
    assert len(numbers(picture, "q")) == len(numbers(picture, "result")) == 4
    assert len(numbers(picture, "k")) == len(numbers(picture, "v")) == 48
    (more,) = picture.texts("more")
    assert more == f"… and 18 more keys, of weight {1 - weights[best].sum():.2f} together"
    assert picture.width <= 1280


def test_steps_where_all_is_masked():
    picture = Read(visualize.attention_steps(np.ones((1, 2)), np.ones((3, 2)), np.ones((3, 2)), np.ones((1, 3), bool)))
    assert numbers(picture, "weight") == [0, 0, 0]
    assert numbers(picture, "result") == [0, 0]


def test_steps_do_not_overflow():
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        picture = Read(visualize.attention_steps(np.full((1, 1), 1e4), np.array([[1.0], [-1.0]]), np.eye(2)))
    assert numbers(picture, "weight") == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((2, 3)),), "give query, key and value, or one recorded call"),
        ((np.ones((2, 3)), np.ones((4, 2)), np.ones((4, 2))), "must have the same size"),
        ((np.ones((2, 3)), np.ones((4, 3)), np.ones((5, 3))), "the same length"),
        ((np.full((2, 3), np.nan), np.ones((4, 3)), np.ones((4, 3))), "not finite"),
        ((np.ones(3), np.ones((4, 3)), np.ones((4, 3))), r"query has shape \(3,\)"),
        ((np.ones((2, 3)), np.ones((4, 3)), np.ones((4, 3)), np.ones((3, 4), bool)), r"must broadcast to .*\(2, 4\)"),
        ((recorded(), np.ones((4, 3))), "a recorded call has its own"),
        ((nn.record_attention(),), "choose a call of the recording"),
    ],
)
def test_steps_refuse_what_does_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        visualize.attention_steps(*arguments)


# ---- all of them

PICTURES = [
    lambda w, tokens: visualize.attention_lines(w, tokens),
    lambda w, tokens: visualize.attention_grid(w, tokens),
    lambda w, tokens: visualize.attention_explorer(w, tokens),
    lambda w, tokens: visualize.attention_steps(w[0], w[0], w[0], source=tokens),
]
NAMES = ["lines", "grid", "explorer", "steps"]


@pytest.mark.parametrize("draw", PICTURES, ids=NAMES)
def test_the_same_input_gives_the_same_bytes(draw):
    weights = softmax(1, 10, 10)
    assert str(draw(weights, AWKWARD)) == str(draw(weights.copy(), list(AWKWARD)))


@pytest.mark.parametrize("draw", [PICTURES[0], PICTURES[1]], ids=NAMES[:2])
def test_awkward_tokens_are_whole(draw):
    picture = Read(draw(softmax(1, 10, 10), AWKWARD))
    assert picture.texts("query") == SHOWN
    assert picture.texts("key") == SHOWN
    assert "<script" not in str(draw(softmax(1, 10, 10), AWKWARD))


@pytest.mark.parametrize("draw", PICTURES, ids=NAMES)
@pytest.mark.parametrize("count", [1, 6, 20, 200])
def test_any_number_of_tokens(draw, count):
    weights = softmax(1, count, count)
    picture = draw(weights, [f"token{i}" for i in range(count)])
    if hasattr(picture, "width"):
        assert picture.width <= 1280
        assert len(str(picture)) < 400_000


@pytest.mark.parametrize("draw", PICTURES[:3], ids=NAMES[:3])
def test_tokens_of_another_length_are_refused(draw):
    with pytest.raises(ValueError, match="9 tokens, but the weights have 10 along"):
        draw(softmax(1, 10, 10), AWKWARD[:9])
    with pytest.raises(ValueError, match="layer 0, head 0, row 2 adds up to"):
        draw(np.concatenate([softmax(1, 2, 3), np.ones((1, 1, 3))], axis=1), ["a", "b", "c"])


def test_self_attention_needs_one_list_of_tokens():
    for draw in (visualize.attention_lines, visualize.attention_grid):
        for tokens in ({"source": TARGET}, {"target": TARGET}):
            picture = Read(draw(softmax(1, 4, 4), **tokens))
            assert picture.texts("query") == picture.texts("key") == TARGET


# ---- the explorer's file; what it does is tested in a browser


def test_the_file_asks_nothing_of_the_network_and_no_token_ends_its_data(tmp_path):
    import json
    from importlib import resources

    tokens = ["</script><script>document.title='x'</script>", "<!--", "&lt;", "\u2028"]
    page = visualize.attention_explorer(softmax(1, 4, 4), tokens)
    html = str(page)
    assert html.count("<script") == html.count("</script>") == 2
    assert re.findall(r"(?:https?:)?//[a-z]+\.", html.replace("http://www.w3.org/2000/svg", "")) == []
    assert "default-src 'none'" in html
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])
    assert data["views"][0]["source"] == [*tokens[:3], "[U+2028]"]
    assert len(resources.files("tinytensor.nn.visualize").joinpath("explorer.js").read_bytes()) < 25_000
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == html
    with pytest.raises(ValueError, match=r"expected \.html"):
        page.save(tmp_path / "page.svg")


def test_the_explorer_of_a_recording():
    from tinytensor.models import Transformer

    tt.random.manual_seed(0)
    model = Transformer(11, d_model=8, num_heads=2, num_layers=2, max_length=16).eval()
    with nn.record_attention() as attention:
        model(np.array([[3, 4, 5]]), np.array([[1, 6]]))
    page = visualize.attention_explorer(attention, ["a", "b", "c"], ["x", "y"])
    assert [v["name"].split()[0] for v in page.data["views"]] == ["encoder", "decoder", "cross"]
    assert [(len(v["target"]), len(v["source"])) for v in page.data["views"]] == [(3, 3), (2, 2), (2, 3)]
    decoder = np.array(page.data["views"][1]["layers"][1]["heads"])
    assert (decoder[:, 0, 1] == -1).all()
    np.testing.assert_allclose(decoder[:, 1], np.rint(attention.decoder[1].weights[0][:, 1] * 10_000))
    with pytest.raises(ValueError, match="no attention was recorded"):
        visualize.attention_explorer(nn.record_attention())


def test_the_explorer_with_tokens_for_each_kind():
    weights = {"cross": softmax(1, 2, 3), "decoder": softmax(1, 2, 2)}
    keys = {"cross": ["a", "b", "c"], "decoder": ["<begin>", "x"]}
    queries = {"cross": ["x", "y"], "decoder": ["x", "y"]}
    cross, decoder = visualize.attention_explorer(weights, keys, queries).data["views"]
    assert (cross["source"], cross["target"]) == (["a", "b", "c"], ["x", "y"])
    assert (decoder["source"], decoder["target"]) == (["<begin>", "x"], ["x", "y"])
    with pytest.raises(ValueError, match="cross: keys: 2 tokens, but the weights have 3"):
        visualize.attention_explorer(weights, keys | {"cross": ["a", "b"]}, queries)
