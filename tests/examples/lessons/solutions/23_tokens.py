"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import itertools
from collections import Counter, defaultdict

import numpy as np


def most_frequent(words, times):
    counts = Counter()
    for word, n in zip(words, times):
        for pair in itertools.pairwise(word):
            counts[pair] += n
    return counts.most_common(1)[0][0]


def merge(ids, pair, new):
    found, i = [], 0
    while i < len(ids):
        if tuple(ids[i : i + 2]) == pair:
            found.append(new)
            i += 2
        else:
            found.append(ids[i])
            i += 1
    return found


def most_frequent__by_index(words, times):
    counts = defaultdict(int)
    for i in range(len(words)):
        for j in range(len(words[i]) - 1):
            counts[words[i][j], words[i][j + 1]] += times[i]
    return max(counts, key=counts.get)


def most_frequent__as_a_table(words, times):
    table = np.zeros((100, 100))
    for word, n in zip(words, times):
        np.add.at(table, (word[:-1], word[1:]), n)
    return np.unravel_index(table.argmax(), table.shape)


def most_frequent__every_word_written_out(words, times):
    pairs = [pair for word, n in zip(words, times) for pair in list(itertools.pairwise(word)) * n]
    return list(max(set(pairs), key=pairs.count))


def merge__as_the_lesson(ids, pair, new):
    found, joined = [], False
    for i in ids:
        if found and not joined and (found[-1], i) == pair:
            found[-1], joined = new, True
        else:
            found.append(i)
            joined = False
    return found


def merge__in_place(ids, pair, new):
    i = 0
    while i < len(ids) - 1:
        if (ids[i], ids[i + 1]) == pair:
            ids[i : i + 2] = [new]
        i += 1
    return ids


def merge__by_recursion(ids, pair, new):
    if len(ids) < 2:
        return ids
    if tuple(ids[:2]) == pair:
        return [new, *merge__by_recursion(ids[2:], pair, new)]
    return [ids[0], *merge__by_recursion(ids[1:], pair, new)]
