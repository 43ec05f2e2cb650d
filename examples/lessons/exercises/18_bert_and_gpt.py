"""Exercises of lesson 18: the mask of the Transformer, and BERT's way of hiding words."""

import numpy as np

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def hidden(source, target):",
    "Start with the causal mask of all: `tt.triu(tt.ones((n, n)), k=1)` is 1 where nobody may look.",
    "Rows of the source may look at the whole source, and at nothing of the target. Only the first square changes.",
)
def check_hidden(hidden):
    """The mask of a Transformer that reads `source` words and writes `target` words, as one square matrix of source +
    target rows and columns: True where a word must not look (the third picture, turned round)."""
    for source, target in ((2, 3), (4 + int(tt.random.integers(0, 4)), 2), (1, 1)):
        row, column = np.indices((source + target, source + target))
        future, reads, read = column > row, row < source, column < source
        expected = future & ~read
        mistakes = {
            "True and False are exchanged: True is where a word must not look": ~expected,
            "it is the causal mask of all: source words see the whole source": future,
            "source words must not see the target": future & ~read & ~reads,
            "target words must not see later ones": reads & ~read,
            "target words see the source": expected | (~reads & read),
            "a word may see itself": (column >= row) & ~(read & reads),
            "a word may see itself ": column >= row,
            "it hides the past, and shows the future": (column < row) & ~read,
            "it is transposed: a row is a word that looks": expected.T,
            "the target comes first; in this matrix the source does": expected[::-1, ::-1].T,
            "nothing is hidden": np.zeros_like(expected),
            "source and target are exchanged": future & (column >= target),
        }
        what = f"the mask of {source} words read and {target} written"
        agree(hidden(source, target), expected, what, mistakes=mistakes)


@exercise(
    "def bert_input(ids, chosen, dice, other, mask):",
    "Where a word is not chosen it stays: begin with `np.where(chosen, ..., ids)`.",
    "`np.where(dice < 0.8, mask, np.where(dice < 0.9, other, ids))` is what chosen words become.",
)
def check_bert_input(bert_input):
    """The words that BERT reads. A chosen word becomes `mask` if its dice is below 0.8, and the word in `other` if it
    is below 0.9; else it stays. Words that are not chosen stay, too. Arrays of one shape; `mask` is an id."""
    for shape, mask in (((8, 20), 99), ((30,), 57)):
        ids = tt.random.integers(3, 25, shape).numpy()
        other = tt.random.integers(26, 50, shape).numpy()
        chosen, dice = tt.random.rand(*shape).numpy() < 0.5, tt.random.rand(*shape).numpy().copy()
        flat = dice.reshape(-1)
        flat[:6], chosen.reshape(-1)[:6] = [0.85, 0.95, 0.1, 0.8, 0.9, 0.15], [True] * 5 + [False]

        def becomes(low, middle, high, rest=ids, first=0.8, second=0.9, where=chosen):
            return np.where(where, np.where(dice < first, low, np.where(dice < second, middle, high)), rest)

        mistakes = {
            "all chosen words become `mask`; the dice says which do": becomes(mask, mask, mask),
            "words that were not chosen change, too": becomes(mask, other, ids, where=np.ones(shape, bool)),
            "from 0.8 to 0.9 and from 0.9 are exchanged": becomes(mask, ids, other),
            "from 0.8 on all become `other`; from 0.9 on they stay": becomes(mask, other, other),
            "from 0.8 on all stay; up to 0.9 they become `other`": becomes(mask, ids, ids),
            "chosen words stay, and the others change: `chosen` is turned round": becomes(
                mask, other, ids, where=~chosen
            ),
            "`other` and `mask` are exchanged": becomes(other, mask, ids),
            "the dice is turned round: below 0.8 is `mask`": becomes(ids, other, mask, first=0.1, second=0.2),
            "`mask` is 99 whatever is given": becomes(99, other, ids),
            "the limits are 0.8 and 0.9, not 0.8 and 0.1 more of the rest": becomes(mask, other, ids, second=0.98),
            "below 0.1 is `other`; it is from 0.8 to below 0.9": np.where(
                chosen, np.where(dice < 0.1, other, np.where(dice < 0.9, mask, ids)), ids
            ),
            "chosen words from 0.9 on become 0; they stay": becomes(mask, other, 0),
            "words that were not chosen become 0; they stay": becomes(mask, other, ids, rest=0),
            "at 0.8 `other` begins: below 0.8 is `mask`": np.where(
                chosen, np.where(dice <= 0.8, mask, np.where(dice < 0.9, other, ids)), ids
            ),
        }
        dice[(dice == 0.8) & ~chosen] = 0.5
        given = bert_input(ids, chosen, dice, other, mask)
        agree(given, becomes(mask, other, ids), f"what BERT reads of words in shape {shape}", mistakes=mistakes)
