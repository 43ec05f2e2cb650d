"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import itertools
from collections import Counter


def counted(words, times, pairs=lambda word: itertools.pairwise(word)):
    counts = Counter()
    for word, n in zip(words, times):
        for pair in pairs(word):
            counts[pair] += n
    return counts


def best(counts):
    return counts.most_common(1)[0][0]


def most_frequent__each_word_once(words, times):
    """each word counts once"""
    return best(counted(words, [1] * len(words)))


def most_frequent__a_set_for_each_word(words, times):
    """each word counts a pair once"""
    return best(counted(words, times, lambda word: set(itertools.pairwise(word))))


def most_frequent__over_the_border(words, times):
    """pairs are counted from one word into the next"""
    text = [i for word, n in zip(words, times) for i in word * n]
    return best(Counter(itertools.pairwise(text)))


def most_frequent__all_in_a_row(words, times):
    """each word counts once"""
    text = [i for word in words for i in word]
    return best(Counter(itertools.pairwise(text)))


def most_frequent__turned_round(words, times):
    """the second of them comes first"""
    return best(counted(words, times))[::-1]


def most_frequent__rarest(words, times):
    """it is the rarest pair"""
    counts = counted(words, times)
    return min(counts, key=counts.get)


def most_frequent__how_often(words, times):
    """it is how often; expected the pair"""
    return max(counted(words, times).values())


def most_frequent__first(words, times):
    """it is the first pair of the text"""
    return next(iter(counted(words, times)))


def most_frequent__two_ids(words, times):
    """these are the two most frequent ids"""
    ids = counted(words, times, lambda word: word)
    return [i for i, _ in ids.most_common(2)]


def most_frequent__largest_pair(words, times):
    """It raised"""
    return max(counted(words, times).items(), key=lambda item: item.count)[0]


def most_frequent__of_the_most_frequent_word(words, times):
    """these are the first ids of the most frequent word"""
    return words[times.index(max(times))][:2]


def merged(ids, pair, write, step=2):
    found, i = [], 0
    while i < len(ids):
        fits = tuple(ids[i : i + 2]) == pair
        found += write if fits else [ids[i]]
        i += step if fits else 1
    return found


def merge__first_alone(ids, pair, new):
    """only the first pair was replaced"""
    for i in range(len(ids) - 1):
        if (ids[i], ids[i + 1]) == pair:
            return [*ids[:i], new, *ids[i + 2 :]]
    return ids


def merge__second_stays(ids, pair, new):
    """the second id of a pair is still there"""
    return merged(ids, pair, [new], step=1)


def merge__side_by_side_in_any_order(ids, pair, new):
    """the other order was replaced, too"""
    return merged(merged(ids, pair, [new]), pair[::-1], [new])


def merge__wherever_they_are(ids, pair, new):
    """both ids became `new` wherever they are"""
    return [new if i in pair else i for i in ids]


def merge__turned_round(ids, pair, new):
    """the order of the pair is turned round"""
    return merged(ids, pair[::-1], [new])


def merge__behind_the_pair(ids, pair, new):
    """the ids of the pair stay in front of `new`"""
    return merged(ids, pair, [*pair, new])


def merge__twice_new(ids, pair, new):
    """one for both"""
    return merged(ids, pair, [new, new])


def merge__taken_out(ids, pair, new):
    """`new` is missing"""
    return merged(ids, pair, [])


def merge__from_the_right(ids, pair, new):
    """it was replaced from right to left"""
    return merged(ids[::-1], pair[::-1], [new])[::-1]


def merge__pair_as_a_list(ids, pair, new):
    """nothing was replaced"""
    return [i for i in ids if i != list(pair)]


def merge__past_the_end(ids, pair, new):
    """It raised"""
    found, i = [], 0
    while i < len(ids):
        fits = ids[i] == pair[0] and ids[i + 1] == pair[1]
        found.append(new if fits else ids[i])
        i += 2 if fits else 1
    return found
