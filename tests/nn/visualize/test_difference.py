"""The difference of two checkpoints' attention: its signs, its scale, what it says."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import visualize
from tinytensor.nn.visualize.ramp import SIGNED

from .drawing import Read, plain, softmax

A, B = softmax(2, 3, 4, 5), softmax(2, 3, 4, 5, seed=1)
SOURCE, TARGET = ["a", "b", "c", "d", "e"], ["w", "x", "y", "z"]


def cells(picture):
    """The colours of each map's cells, (map, query, key), and their titles."""
    maps = picture.all("g", "map")
    found = [[e for e in group.iter() if e.tag.endswith("rect") and e.get("x") and len(e)] for group in maps]
    fills = np.array([[e.get("fill") for e in group] for group in found]).reshape(len(maps), 4, 5)
    titles = np.array([[plain(e[0].text) for e in group] for group in found]).reshape(len(maps), 4, 5)
    return fills, titles


def test_cells_are_b_less_a_on_one_scale_around_zero():
    fills, titles = cells(Read(visualize.attention_difference(A, B, SOURCE, TARGET)))
    difference = (B - A).reshape(6, 4, 5)
    most = np.abs(difference).max()
    expected = np.vectorize(lambda share: SIGNED(share).light)((difference / most + 1) / 2)
    assert (fills == expected).all()
    numbers = np.vectorize(lambda text: float(text.rpartition(": ")[2].replace("−", "-")))(titles)
    np.testing.assert_allclose(numbers, difference, rtol=0, atol=5.1e-5)
    assert titles[0, 0, 0].startswith("w → a: ")
    np.testing.assert_allclose(numbers.sum(axis=-1), 0, atol=1e-3)


def test_turned_round_it_has_the_other_signs():
    there, back = (cells(Read(visualize.attention_difference(*pair)))[0] for pair in ((A, B), (B, A)))
    colours = {SIGNED(i / 64).light: i for i in range(65)}
    one, other = (np.vectorize(colours.get)(fills) for fills in (there, back))
    assert np.abs(one + other - 64).max() <= 1


def test_the_legend_says_whose_side_is_which():
    picture = Read(visualize.attention_difference(A, B, names=("before", "after")))
    words = [plain("".join(e.itertext())) for e in picture.all("text")]
    most = f"{np.abs(B - A).max():.3g}"
    places = {word: float(e.get("x")) for word, e in zip(words, picture.all("text"))}
    assert places["more in before"] < places[f"−{most}"] < places["0"] < places[most] < places["more in after"]
    assert words[0] == "Attention of after − before"
    layer, head, query, key = np.unravel_index(np.abs(B - A).argmax(), A.shape)
    side = "after" if (B - A)[layer, head, query, key] > 0 else "before"
    assert f"is in layer {layer}, head {head}, from {query} to {key}: more in {side}." in picture.description


def test_chosen_layers_and_heads_have_a_scale_of_their_own():
    picture = Read(visualize.attention_difference(A, B, layers=1, heads=[0, 2]))
    fills, _ = cells(picture)
    chosen = (B - A)[1, [0, 2]]
    ends = {SIGNED(0).light, SIGNED(1).light}
    assert (np.isin(fills, list(ends)) == (np.abs(chosen) > np.abs(chosen).max() * (1 - 1 / 64))).all()
    assert picture.texts("head") == ["head 0", "head 2"]
    assert plain(picture.all("text")[0].text).endswith(", layer 1")


def test_what_is_the_same_is_neutral():
    picture = Read(visualize.attention_difference(A, A))
    fills, _ = cells(picture)
    assert set(fills.flat) == {SIGNED(0.5).light}
    assert picture.description.endswith("A and B do not differ.")


def test_of_recordings_what_both_masks_hide_is_hatched():
    tt.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    calls = []
    for _ in range(2):
        x = tt.random.randn(1, 4, 8)
        with tt.no_grad(), nn.record_attention() as attention:
            layer(x, x, x, attn_mask=nn.functional.causal_mask(4))
        calls.append(attention.calls)
    picture = Read(visualize.attention_difference(*calls))
    assert len(picture.all("rect", "masked")) == 2 * 6


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"A has 2 layers of \(3, 4, 5\), B has 1 layer of \(3, 4, 5\); expected"):
        visualize.attention_difference(A, B[:1])
    with pytest.raises(ValueError, match="adds up to"):
        visualize.attention_difference(A, B * 2)
    with pytest.raises(ValueError, match="layer 4 does not exist"):
        visualize.attention_difference(A, B, layers=4)


def test_many_cells_are_images():
    a, b = softmax(1, 1, 80, 80), softmax(1, 1, 80, 80, seed=1)
    picture = Read(visualize.attention_difference(a, b))
    assert len(picture.all("image")) == 2
    assert str(visualize.attention_difference(a, b)) == str(visualize.attention_difference(a, b))
