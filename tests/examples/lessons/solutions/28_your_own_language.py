"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

from collections import Counter
from itertools import groupby

import numpy as np

import tinytensor as tt


def word_order(kinds):
    order, verbs = [], []
    for place, kind in enumerate(kinds):
        if kind == "verb":
            verbs.append(place)
            continue
        if kind in ("and", "mark"):
            order += verbs
            verbs = []
        order.append(place)
    return order


def word_order__sorted(kinds):
    clause = np.cumsum([0, *(kind == "and" for kind in kinds[:-1])])
    rank = {"verb": 1, "and": 2, "mark": 2}
    return sorted(range(len(kinds)), key=lambda i: (clause[i], rank.get(kinds[i], 0), i))


def word_order__by_slices(kinds):
    order, start = [], 0
    for end in [i for i, kind in enumerate(kinds) if kind in ("and", "mark")]:
        verb = start + kinds[start:end].index("verb")
        order += [*range(start, verb), *range(verb + 1, end), verb, end]
        start = end + 1
    return np.array(order)


def word_order__by_groups(kinds):
    order = []
    for ends, group in groupby(range(len(kinds)), key=lambda i: kinds[i] in ("and", "mark")):
        places = list(group)
        order += places if ends else sorted(places, key=lambda i: kinds[i] == "verb")
    return tt.asarray(order)


def held_out(sentences, count):
    test = list(dict.fromkeys(map(tuple, sentences)))[:count]
    return [tuple(sentence) in test for sentence in sentences]


def held_out__in_one_pass(sentences, count):
    test, found = [], []
    for sentence in sentences:
        if len(test) < count and sentence not in test:
            test.append(sentence)
        found.append(sentence in test)
    return found


def held_out__by_text(sentences, count):
    lines = [" ".join(map(str, sentence)) for sentence in sentences]
    numbers = {}
    for line in lines:
        numbers.setdefault(line, len(numbers))
    return np.array([numbers[line] for line in lines]) < count


def precision(answers, references, n):
    found = said = 0
    for answer, reference in zip(answers, references):
        mine, theirs = (Counter(zip(*(words[i:] for i in range(n)))) for words in (answer, reference))
        found += (mine & theirs).total()
        said += mine.total()
    return found / said


def precision__struck_out(answers, references, n):
    hits = []
    for answer, reference in zip(answers, references):
        left = [reference[i : i + n] for i in range(len(reference) - n + 1)]
        for i in range(len(answer) - n + 1):
            gram = answer[i : i + n]
            hits.append(gram in left)
            if gram in left:
                left.remove(gram)
    return np.mean(hits)


def precision__with_the_sentence(answers, references, n):
    def grams(sides):
        return Counter((k, *words[i : i + n]) for k, words in enumerate(sides) for i in range(len(words) - n + 1))

    mine, theirs = grams(answers), grams(references)
    return tt.asarray(sum(min(times, theirs[gram]) for gram, times in mine.items()) / sum(mine.values()))
