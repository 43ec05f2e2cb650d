"""The alignment error rate."""

import numpy as np
import pytest

from tinytensor.models.data.languages import alignment_error_rate, corpus_alignment_error_rate, crossing


def attention(links, shape):
    """Weights that attend most to the sources of the links, given as (source, target)."""
    weights = np.full(shape, 0.1)
    for source, target in links:
        weights[target, source] = 0.9
    return weights


def test_a_perfect_alignment_has_no_error():
    links = {(0, 0), (1, 2), (2, 1)}
    assert alignment_error_rate(attention(links, (3, 3)), links) == 0


def test_a_wrong_alignment_has_nothing_right():
    assert alignment_error_rate(attention({(1, 0), (0, 1)}, (2, 2)), {(0, 0), (1, 1)}) == 1


def test_by_hand():
    """Three target words have links, two of them are found; a word with two links can find one: 1 - 2 * 2 / (3 + 4)."""
    links = {(0, 0), (1, 1), (2, 1), (3, 2)}
    weights = attention({(0, 0), (2, 1), (0, 2)}, (3, 4))
    assert alignment_error_rate(weights, links) == 1 - 4 / 7


def test_words_without_counterpart_the_end_and_padding_do_not_count():
    links = {(0, 0), (2, 2)}
    weights = attention(links, (5, 6))
    for source in range(6):
        weights[[1, 3, 4]] = 0
        weights[[1, 3, 4], source] = 1
        assert alignment_error_rate(weights, links) == 0
    weights[0, 5] = 2  # but a word that attends to the end is wrong
    assert alignment_error_rate(weights, links) == 0.5


def test_the_first_of_equal_weights_is_chosen():
    assert alignment_error_rate(np.ones((1, 3)), {(0, 0)}) == 0
    assert alignment_error_rate(np.ones((1, 3)), {(1, 0)}) == 1


def test_links_of_a_corpus_are_counted_together():
    first = attention({(0, 0)}, (1, 2)), {(0, 0)}
    second = attention({(1, 0), (0, 1), (2, 2)}, (3, 3)), {(0, 0), (1, 1), (2, 2)}
    assert corpus_alignment_error_rate([first, second]) == 1 - 2 * 2 / (4 + 4)
    assert corpus_alignment_error_rate([first]) == alignment_error_rate(*first)


@pytest.mark.parametrize("name", ["en-fr", "en-ko"])
def test_an_attention_that_follows_the_order_of_words_pays_for_crossings(name):
    pair = crossing(name)
    shape = len(pair.target), len(pair.source)
    assert alignment_error_rate(attention(pair.alignment, shape), pair.alignment) == 0
    in_order = np.zeros(shape)
    for target in range(shape[0]):
        in_order[target, min(target, shape[1] - 1)] = 1
    assert alignment_error_rate(in_order, pair.alignment) >= 0.5


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"there is no true link"):
        alignment_error_rate(np.ones((2, 2)), set())
    with pytest.raises(ValueError, match=r"there is no true link"):
        corpus_alignment_error_rate([])
    for link in [(2, 0), (0, 3), (-1, 0)]:
        with pytest.raises(ValueError, match=r"outside weights of shape \(3, 2\); expected \(target, source\)"):
            alignment_error_rate(np.ones((3, 2)), {link})
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        alignment_error_rate(np.ones(2), {(0, 0)})
