"""Exercises of lesson 18: the mask of the Transformer, and BERT's way of hiding words."""

import numpy as np

from tinytensor.models.scripts.exercises import agree, exercise, expect


@exercise(
    "def hidden(source, target):",
    "Start with the causal mask of all: `tt.triu(tt.ones((n, n)), k=1)` is 1 where nobody may look.",
    "Rows of the source may look at the whole source, and at nothing of the target. Only the first square changes.",
)
def check_hidden(hidden):
    """The mask of a Transformer that reads `source` words and writes `target` words, as one square matrix of source +
    target rows and columns: True where a word must not look (the third picture, turned round)."""
    expected = [
        [False, False, True, True, True],
        [False, False, True, True, True],
        [False, False, False, True, True],
        [False, False, False, False, True],
        [False, False, False, False, False],
    ]
    agree(hidden(2, 3), expected, "the mask of 2 words read and 3 written")
    agree(hidden(1, 1), [[False, True], [False, False]], "the mask of 1 word read and 1 written")


@exercise(
    "def bert_input(ids, chosen, dice, other, mask):",
    "Where a word is not chosen it stays: begin with `np.where(chosen, ..., ids)`.",
    "`np.where(dice < 0.8, mask, np.where(dice < 0.9, other, ids))` is what chosen words become.",
)
def check_bert_input(bert_input):
    """What BERT reads: of the chosen words, those whose dice is below 0.8 become `mask`, those from 0.8 to below 0.9
    another word, given in `other`, and the rest stay, as all do that are not chosen. Arrays of one shape; `mask` is an
    id."""
    rng = np.random.default_rng(0)
    ids, other = rng.integers(3, 50, (2, 8, 20))
    chosen, dice = rng.random((8, 20)) < 0.5, rng.random((8, 20))
    given = bert_input(ids, chosen, dice, other, 99)
    agree(np.shape(given), (8, 20), "the shape")
    given = np.asarray(given)
    expect((given[~chosen] == ids[~chosen]).all(), "a word that was not chosen has changed")
    for name, where, expected in (
        ("below 0.8", dice < 0.8, np.full_like(ids, 99)),
        ("from 0.8 to 0.9", (dice >= 0.8) & (dice < 0.9), other),
        ("from 0.9", dice >= 0.9, ids),
    ):
        at = chosen & where
        agree(given[at], expected[at], f"what chosen words become whose dice is {name}")
