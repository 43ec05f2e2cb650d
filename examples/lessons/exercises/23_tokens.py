"""Exercises of lesson 23: the pair to merge, and the merge."""

from collections import Counter
from itertools import pairwise

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def most_frequent(words, times):",
    "`zip(word, word[1:])` gives each two that stand side by side in a word.",
    "Add `times[i]` to a count of each pair of word i, and take the pair of the largest count.",
)
def check_most_frequent(most_frequent):
    """The pair of ids that stand side by side most often, (first, second): words is a list of words, each a list of
    ids, and word i is in the text times[i] times. Pairs lie within a word. (There is one that is the most frequent.)"""
    a, b, c, d, e, f = (int(i) for i in 10 + tt.random.permutation(80)[:6])
    more = [int(i) for i in tt.random.integers(0, 3, (4,))]
    first = [[e, c, d], [c, d, c, d, c, d], [a, b], [f, a, b, e]], [4, 2, 12 + more[0], 1 + more[1]]
    second = [[d, e], [a, b, c, a, b], [f], [d, c, e], [e]], [5 + more[2], 4, 14 + more[3], 1, 2]
    for words, times in (first, second):

        def winner(pairs, times=times, sign=1):
            counts = Counter()
            for several, n in zip(pairs, times):
                for pair in several:
                    counts[pair] += n
            return max(counts, key=lambda pair: sign * counts[pair])

        pairs = [list(pairwise(word)) for word in words]
        text = [i for word, n in zip(words, times) for i in word * n]
        right = winner(pairs)
        singles = Counter(text).most_common(2)
        mistakes = {
            "the second of them comes first: turn it round": right[::-1],
            "each word counts once: it is in the text `times[i]` times": winner(pairs, [1] * len(words)),
            "each word counts a pair once, although it may have it twice": winner([set(each) for each in pairs]),
            "pairs are counted from one word into the next": winner([list(pairwise(text))], [1]),
            "pairs are counted from one word into the next ": winner(
                [list(pairwise(i for word in words for i in word))], [1]
            ),
            "it is the rarest pair": winner(pairs, sign=-1),
            "it is the first pair of the text": pairs[0][0],
            "it is the last pair of the text": [each for each in pairs if each][-1][-1],
            "these are the two most frequent ids, which need not stand side by side": [i for i, _ in singles],
            "these are the first ids of the most frequent word": words[times.index(max(times))][:2],
            "it is how often; expected the pair": sum(n * each.count(right) for each, n in zip(pairs, times)),
        }
        agree(most_frequent(words, times), right, f"the pair of {len(words)} words", mistakes=mistakes)


@exercise(
    "def merge(ids, pair, new):",
    "Go from left to right; where the next two ids are the pair, write `new` and go on behind both.",
    "With a place i: `if ids[i : i + 2] == list(pair)`, then i grows by 2, else by 1.",
)
def check_merge(merge):
    """The ids of a text, a list, in which each pair (first, second) has become the one id `new`. From left to right:
    an id that has become part of `new` is not taken again."""
    a, b, c, d = (int(i) for i in 10 + tt.random.permutation(80)[:4])
    new = 100 + int(tt.random.integers(0, 50))
    for ids, pair in (
        ([c, b, a, c, a, b, d, a, b, a, b], (a, b)),
        ([a, b, a, c, d], (a, b)),
        ([b, c, c, c, d, c, c], (c, c)),
        ([d, a, c, b], (a, b)),
        ([d], (d, a)),
    ):

        def replaced(pair=pair, most=9, step=2, write=(new,), ids=ids):
            found, i = [], 0
            while i < len(ids):
                fits = most > 0 and tuple(ids[i : i + 2]) == pair
                found += write if fits else ids[i : i + 1]
                i, most = (i + step, most - 1) if fits else (i + 1, most)
            return found

        turned = {"it was replaced from right to left": replaced(ids=ids[::-1], pair=pair[::-1])[::-1]}
        apart = [new if i in pair else i for i in ids]
        both = replaced(pair[::-1], ids=replaced())
        mistakes = turned | {
            "only the first pair was replaced": replaced(most=1),
            "the second id of a pair is still there, or was taken again": replaced(step=1),
            "the ids of the pair stay in front of `new`": replaced(write=(*pair, new)),
            "the first id of a pair stays in front of `new`": replaced(write=(pair[0], new)),
            "`new` stands where each id of the pair was: one for both": replaced(write=(new, new)),
            "both ids became `new` wherever they are: only side by side, and in this order": apart,
            "the pair was taken out, and `new` is missing": replaced(write=()),
            "the order of the pair is turned round": replaced(pair[::-1]),
            "the other order was replaced, too": both,
            "nothing was replaced": ids,
        }
        agree(merge(list(ids), pair, new), replaced(), f"{ids} with {new} for {pair}", mistakes=mistakes)
