"""Exercises of lesson 2: an analogy, and the pairs of skip-gram."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect


@exercise(
    "def analogy(x, a, b, c):",
    "The place to look near is `x[a] - x[b] + x[c]`; compare by cosine, so divide each row of x by its length.",
    "The three rows themselves are near, and no answer: give them a similarity of `-tt.inf` before `argmax`.",
)
def check_analogy(analogy):
    """The number of the row of x (words, size) nearest in angle to x[a] − x[b] + x[c], other than a, b and c."""
    x = tt.tensor([[1.0, 0.0, 0.1], [1.0, 1.0, 0.1], [0.0, 0.2, 1.0], [0.0, 2.0, 2.2], [9.0, 9.0, 9.0]])
    given = analogy(x, 1, 0, 2)
    expect(given is not ..., "the hole is still there")
    expect(given not in (0, 1, 2), f"row {given} is one of the three that were given")
    longest = "; row 4 is only longer: compare angles" if given == 4 else ""
    agree(given, 3, f"the answer to x[1] − x[0] + x[2]{longest}")


@exercise(
    "def neighbours(ids, window):",
    "Two loops: over the places i of the words, and over the places j from i − window to i + window.",
    "j must be a place in the sentence, `range(max(0, i - window), min(len(ids), i + window + 1))`, and not i.",
)
def check_neighbours(neighbours):
    """All pairs (word, neighbour) of a sentence, a list of ids: neighbours are at most `window` places apart."""
    given = neighbours([7, 8, 9, 8], 2)
    expect(given is not ..., "the hole is still there")
    given = sorted(tuple(pair) for pair in given)
    expected = sorted([(7, 8), (7, 9), (8, 7), (8, 9), (8, 8), (9, 7), (9, 8), (9, 8), (8, 8), (8, 9)])
    extra, missing = [p for p in given if p not in expected], [p for p in expected if p not in given]
    expect(not extra, f"of [7, 8, 9, 8] with a window of 2, {extra[:1]} is no pair")
    expect(not missing, f"of [7, 8, 9, 8] with a window of 2, {missing[:1]} is missing")
    expect(len(given) == len(expected), f"of [7, 8, 9, 8] with a window of 2 there are 10 pairs, got {len(given)}")
