"""Exercises of lesson 2: an analogy, and the pairs of skip-gram."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect

FAR = {  # rows a, b and c, the one to find, and others that mistakes find
    "a": [1.0, 1.0, 0.1],
    "b": [1.0, 0.0, 0.1],
    "c": [0.0, 0.2, 1.0],
    "right": [0.0, 2.0, 2.2],
    "long": [9.0, 9.0, 9.0],
    "near": [0.7, 1.2, 1.0],
    "sum": [2.1, 1.2, 1.1],
    "turned": [0.0, -0.9, 1.0],
}
CLOSE = {**FAR, "a": [1.0, 0.1, 0.1], "right": [0.0, 1.0, 2.0], "turned": [-1.0, -1.0, 1.0]}


@exercise(
    "def analogy(x, a, b, c):",
    "The place to look near is `x[a] - x[b] + x[c]`; compare by cosine, so divide each row of x by its length.",
    "The three rows themselves are near, and no answer: give them a similarity of `-tt.inf` before `argmax`.",
)
def check_analogy(analogy):
    """The number of the row of x (words, size) nearest in angle to x[a] − x[b] + x[c], other than a, b and c."""
    for rows in (FAR, CLOSE):
        order, columns = tt.random.permutation(len(rows)), tt.random.permutation(3)
        x = tt.asarray(list(rows.values()))[order][:, columns]
        at = {name: [int(i) for i in order].index(place) for place, name in enumerate(rows)}
        given = analogy(x, at["a"], at["b"], at["c"])
        mistakes = {
            f"row {at[name]} is one of the three that were given; leave a, b and c out": at[name] for name in "abc"
        }
        mistakes |= {
            f"row {at['long']} is only longer: compare angles": at["long"],
            f"row {at['near']} is nearest by distance: compare angles": at["near"],
            f"row {at['sum']} is near the sum of all three; x[b] is taken away": at["sum"],
            f"row {at['turned']} is near x[b] − x[a] + x[c]: the difference is turned round": at["turned"],
        }
        size = getattr(given, "shape", ())
        expect(size == (), f"the answer has shape {tuple(size)}; expected the number of one row")
        agree(given, at["right"], "the row that answers", mistakes=mistakes)


@exercise(
    "def neighbours(ids, window):",
    "Two loops: over the places i of the words, and over the places j from i − window to i + window.",
    "j must be a place in the sentence, `range(max(0, i - window), min(len(ids), i + window + 1))`, and not i.",
)
def check_neighbours(neighbours):
    """All pairs (word, neighbour) of a sentence, a list of ids: neighbours are at most `window` places apart."""
    for length, window in ((4, 2), (6, 3), (5, 1)):
        ids = [7 + int(i) for i in tt.random.permutation(length)]
        ids[window] = ids[0]  # one word twice, as neighbours
        places = range(length)

        def pairs(which):
            return [[ids[i], ids[j]] for i in places for j in places if which(i, j)]

        given = neighbours(ids, window)
        expect(isinstance(given, (list, tuple, set)), f"expected a list of pairs, got a {type(given).__name__}")
        expected = pairs(lambda i, j: i != j and abs(i - j) <= window)
        mistakes = {
            "a word is no neighbour of itself: leave j = i out": pairs(lambda i, j: abs(i - j) <= window),
            "the last neighbour to the right is missing: a range ends before its end": pairs(
                lambda i, j: i != j and -window <= j - i < window
            ),
            "neighbours to the left are missing": pairs(lambda i, j: 0 < j - i <= window),
            "neighbours to the right are missing": pairs(lambda i, j: 0 < i - j <= window),
            "a word that comes twice is its own neighbour: compare places, not ids": pairs(
                lambda i, j: ids[i] != ids[j] and abs(i - j) <= window
            ),
            "only the words exactly `window` places apart are there": pairs(lambda i, j: abs(i - j) == window),
            "words further apart are there, too": pairs(lambda i, j: i != j),
            "a pair that comes twice counts twice: a set keeps it once": sorted({tuple(pair) for pair in expected}),
            "these are places; expected the ids there": [
                [i, j] for i in places for j in places if i != j and abs(i - j) <= window
            ],
            "the sentence is no ring: j − window below 0 counts from the end": [
                [ids[i], ids[j]] for i in places for j in range(i - window, min(length, i + window + 1)) if i != j
            ],
        }
        what = f"the pairs of {ids} with a window of {window}"
        try:
            given = sorted(list(pair) for pair in given)
        except TypeError:
            expect(False, f"{what}: expected pairs, two ids each")
        agree(
            given, sorted(expected), what, mistakes={name: sorted(map(list, each)) for name, each in mistakes.items()}
        )
