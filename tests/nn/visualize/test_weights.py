"""Weights and tokens from everywhere, and what is wrong with those that are refused."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import visualize
from tinytensor.nn.visualize.tokens import check_tokens, isolated, visible
from tinytensor.nn.visualize.weights import choose, read_layers

from .drawing import AWKWARD, SHOWN, softmax

FOUR = softmax(2, 3, 4, 5)  # layer, head, target, source


def assert_layers(read, expected):
    assert [layer.weights.dtype for layer in read] == [np.float64] * len(expected)
    for layer, weights in zip(read, expected, strict=True):
        np.testing.assert_array_equal(layer.weights, weights)


@pytest.mark.parametrize(
    "make",
    [
        lambda w: w,
        lambda w: w.tolist(),
        lambda w: list(w),
        lambda w: tuple(layer.tolist() for layer in w),
        lambda w: tt.asarray(w, dtype=tt.float64).requires_grad_(),
        lambda w: [tt.asarray(layer) for layer in w],
        lambda w: [list(layer) for layer in w],
    ],
)
def test_layers_from_numbers(make):
    assert_layers(read_layers(make(FOUR)), FOUR)


def test_one_map_or_one_layer():
    assert_layers(read_layers(FOUR[1, 2]), [FOUR[1, 2][None]])
    assert_layers(read_layers(FOUR[1, 2].tolist()), [FOUR[1, 2][None]])
    assert_layers(read_layers(FOUR[1]), [FOUR[1]])
    assert_layers(read_layers(FOUR[1].tolist()), [FOUR[1]])


def test_batches():
    five = softmax(2, 6, 3, 4, 5)  # layer, batch, head, target, source
    assert_layers(read_layers(five, sample=4), five[:, 4])
    assert_layers(read_layers(tuple(five), sample=-1), five[:, -1])  # as many libraries return them
    with pytest.raises(ValueError, match="sample 6 does not exist: there are 6"):
        read_layers(five, sample=6)


def test_layers_may_have_different_numbers_of_heads():
    layers = [softmax(2, 4, 5), softmax(3, 4, 5)]
    assert_layers(read_layers(layers), layers)


def test_pytorch():
    torch = pytest.importorskip("torch")
    weights = torch.from_numpy(FOUR).requires_grad_()
    assert_layers(read_layers(weights), FOUR)
    assert_layers(read_layers(tuple(weights[:, None])), FOUR)


def test_a_recording():
    tt.random.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = tt.random.normal((2, 3, 4))
    with nn.record_attention() as attention:
        layer(x, x, x, attn_mask=nn.functional.causal_mask(3))
    for given in (attention, attention.decoder, attention.calls[0]):
        (read,) = read_layers(given, sample=1)
        np.testing.assert_array_equal(read.weights, attention.calls[0].weights[1].astype(np.float64))
        np.testing.assert_array_equal(read.hidden, np.triu(np.ones((2, 3, 3), dtype=bool), k=1))
        assert read.name == "MultiheadAttention"
    with attention:
        layer(x, tt.random.normal((2, 3, 4)), x)
        nn.functional.scaled_dot_product_attention(x, x, x)
    with pytest.raises(ValueError, match=r"of kinds None, cross; choose one, such as attention\.encoder"):
        read_layers(attention)
    with pytest.raises(ValueError, match="no layers; was the model called"):
        read_layers(attention.encoder)


def changed(place, value):
    weights = FOUR.copy()
    weights[place] = value
    return weights


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (changed((1, 2, 3), 0.1), "layer 1, head 2, row 3 adds up to 0.5; expected the weights of one query"),
        (changed((0, 1, 2, 3), np.nan), "layer 0, head 1, row 2 holds NaN"),
        (changed((0, 0, 0), [-0.5, 1.5, 0, 0, 0]), "layer 0, head 0, row 0 holds the negative weight -0.5"),
        (changed((0, 0, 1), FOUR[0, 0, 1] * 1.0011), "layer 0, head 0, row 1 adds up to 1.0011"),
        (FOUR.swapaxes(2, 3), "layer 0, head 0, row 0 adds up to"),
        (np.ones(3), r"expected \(target, source\), .* got shape \(3,\)"),
        (np.ones((2, 0, 3, 3)), r"layer 0 has shape \(0, 3, 3\)"),
        ([softmax(2, 4, 5), softmax(2, 4, 4)], r"layer 1 is \(4, 4\) \(target, source\), layer 0 is \(4, 5\)"),
        ([[[[1.0], [0.5, 0.5]]]], "nested lists of different lengths"),
        ([], "no layers; was the model called"),
    ],
)
def test_what_is_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        read_layers(weights)


def test_what_is_no_number():
    with pytest.raises(TypeError, match="layer 0 has dtype <U3; expected numbers"):
        read_layers(np.full((2, 2), "cat"))


def test_masked_rows_and_rounding_are_allowed():
    read_layers(changed((0, 0, 1), 0.0))
    read_layers(np.round(FOUR, 4))
    read_layers(FOUR.astype(np.float16))


def test_choose():
    assert choose(None, 3, "head") == [0, 1, 2]
    assert choose(-1, 3, "head") == [2]
    assert choose((2, 0), 3, "head") == [2, 0]
    with pytest.raises(ValueError, match="head 3 does not exist: there are 3, 0 to 2"):
        choose([0, 3], 3, "head")
    with pytest.raises(ValueError, match="head: none was chosen"):
        choose([], 3, "head")


# ---- tokens


def test_every_token_can_be_seen():
    assert [visible(token) for token in AWKWARD] == SHOWN
    assert visible("a b\n") == "a␣b↵"


def test_only_text_from_right_to_left_is_isolated():
    assert isolated("cat") == "cat"
    assert isolated(AWKWARD[3] + "!") == f"\u2068{AWKWARD[3]}!\u2069"


def test_tokens_are_checked():
    assert check_tokens(None, "source", 2, "source") == ["0", "1"]
    assert check_tokens(("a", "b"), "source", 2, "source") == ["a", "b"]
    with pytest.raises(ValueError, match="source: 1 tokens, but the weights have 2 along their source axis"):
        check_tokens(["a"], "source", 2, "source")
    with pytest.raises(TypeError, match="source: token 1 is a int, 7; expected str"):
        check_tokens(["a", 7], "source", 2, "source")
    with pytest.raises(TypeError, match="source: expected a list of str, one for each token, got str 'ab'"):
        check_tokens("ab", "source", 2, "source")


def test_tokens_stand_beside_several_maps_that_have_room():
    weights = np.full((2, 3, 4, 4), 0.25)
    words = ["my", "name", "is", "Tom"]
    text = str(visualize.attention_grid(weights, words))
    assert text.count(">my<") == 2 + 3  # before each row of maps, above each column
    assert "rows are queries, columns are keys" in text
    assert "masked" not in text
    crowded = str(visualize.attention_grid(np.full((2, 3, 60, 60), 1 / 60), [f"w{i}" for i in range(60)]))
    assert 'class="query' not in crowded


def test_the_title_of_one_layer_names_it():
    weights = np.full((3, 2, 4, 4), 0.25)
    assert "Attention weights, layer 1" in str(visualize.attention_grid(weights, layers=1))
