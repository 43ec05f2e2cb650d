"""The alignment error rate: how well attention finds corresponding words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

Alignment = frozenset[tuple[int, int]]


def alignment_error_rate(weights: Any, alignment: Iterable[tuple[int, int]]) -> float:
    """The alignment error rate of cross-attention (Och and Ney 2003, equation 20), 0 for a perfect alignment.

    AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), where all true links are sure, so that P = S. A has one link for each
    target word that has a true one: to the source word of the largest weight, the first of equals. Target words
    without counterpart (particles, the rest of a contraction) do not count, since attention must go somewhere. If a
    word has two true links, the second always counts as missed, so a perfect rate needs one link per target word.

    Args:
        weights: (target, source); rows and columns of padding and of the sentences' ends may follow the words.
        alignment: pairs (source index, target index).

    Raises ValueError if there is no link, or if a link is outside the weights.
    """
    return corpus_alignment_error_rate([(weights, alignment)])


def corpus_alignment_error_rate(sentences: Iterable[tuple[Any, Iterable[tuple[int, int]]]]) -> float:
    """The same over many sentences, counting their links together.

    Args:
        sentences: weights and alignment of each.

    Raises ValueError if none of them has a link, or if a link is outside the weights.
    """
    found = true = right = 0
    for weights, alignment in sentences:
        links = set(alignment)
        guessed = _most_attended(np.asarray(weights), links)
        found, true, right = found + len(guessed), true + len(links), right + len(guessed & links)
    if not true:
        raise ValueError("alignment_error_rate: there is no true link to compare with")
    return 1 - 2 * right / (found + true)


def _most_attended(weights: np.ndarray, links: set[tuple[int, int]]) -> set[tuple[int, int]]:
    for source, target in links:
        if weights.ndim != 2 or not (0 <= target < weights.shape[0] and 0 <= source < weights.shape[1]):
            raise ValueError(
                f"alignment_error_rate: link ({source}, {target}) (source, target) is outside weights of shape "
                f"{weights.shape}; expected (target, source)"
            )
    return {(int(weights[target].argmax()), target) for target in {target for _, target in links}}
