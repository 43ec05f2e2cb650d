"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

from collections import Counter


def clauses(kinds):
    """(before the verb, the verb, after it, the end) of each clause, as places."""
    found, start = [], 0
    for end, kind in enumerate(kinds):
        if kind in ("and", "mark"):
            verb = kinds.index("verb", start)
            found.append((list(range(start, verb)), verb, list(range(verb + 1, end)), end))
            start = end + 1
    return found


def ordered(kinds):
    return [place for one, verb, other, end in clauses(kinds) for place in (*one, *other, verb, end)]


def word_order__end_of_the_sentence(kinds):
    """each ends its own clause"""
    verbs = [i for i, kind in enumerate(kinds) if kind == "verb"]
    others = [i for i, kind in enumerate(kinds) if kind != "verb"]
    return [*others[:-1], *verbs, others[-1]]


def word_order__behind_all(kinds):
    """come behind the sentence"""
    return sorted(range(len(kinds)), key=lambda i: kinds[i] == "verb")


def word_order__behind_the_mark(kinds):
    """which the clause does not have"""
    return [place for one, verb, other, end in clauses(kinds) for place in (*one, *other, end, verb)]


def word_order__verb_first(kinds):
    """and it is to come last"""
    return [place for one, verb, other, end in clauses(kinds) for place in (verb, *one, *other, end)]


def word_order__as_in_english(kinds):
    """no word has moved"""
    return range(len(kinds))


def word_order__first_verb(kinds):
    """the verb of the first clause alone has moved"""
    (one, verb, other, end), *_ = clauses(kinds)
    return [*one, *other, verb, *range(end, len(kinds))]


def word_order__where_each_goes(kinds):
    """it is where each word goes"""
    order = ordered(kinds)
    return [order.index(place) for place in range(len(kinds))]


def word_order__object_first(kinds):
    """is said before what comes before it"""
    return [place for one, verb, other, end in clauses(kinds) for place in (*other, *one, verb, end)]


def word_order__turned(kinds):
    """the words of a clause are turned round"""
    return [place for one, verb, other, end in clauses(kinds) for place in (*other[::-1], verb, *one[::-1], end)]


def word_order__from_one(kinds):
    """places count from 0"""
    return [place + 1 for place in ordered(kinds)]


def word_order__without_ends(kinds):
    """and of the mark are missing"""
    return [place for place in ordered(kinds) if kinds[place] not in ("and", "mark")]


def word_order__without_verbs(kinds):
    """the verbs are missing"""
    return [place for place in range(len(kinds)) if kinds[place] != "verb"]


def word_order__by_one_place(kinds):
    """the verb moves by one place"""
    order = list(range(len(kinds)))
    for _, verb, _, _ in clauses(kinds):
        order[verb], order[verb + 1] = order[verb + 1], order[verb]
    return order


def word_order__the_kinds(kinds):
    """expected real numbers"""
    return [kinds[place] for place in ordered(kinds)]


def held_out__again_in_training(sentences, count):
    """the model reads it"""
    test, found = [], []
    for sentence in sentences:
        new = len(test) < count and sentence not in test
        test += [sentence] * new
        found.append(new)
    return found


def held_out__first_places(sentences, count):
    """the test is too small"""
    return [sentence in sentences[:count] for sentence in sentences]


def held_out__cut(sentences, count):
    """what comes again is on both sides"""
    return [place < count for place in range(len(sentences))]


def held_out__bags(sentences, count):
    """the same words in another order"""
    bags = [tuple(sorted(sentence)) for sentence in sentences]
    test = list(dict.fromkeys(bags))[:count]
    return [bag in test for bag in bags]


def held_out__training(sentences, count):
    """it is True for training"""
    test = list(dict.fromkeys(map(tuple, sentences)))[:count]
    return [tuple(sentence) not in test for sentence in sentences]


def held_out__one_too_many(sentences, count):
    """a sentence too many"""
    test = []
    for sentence in sentences:
        if len(test) <= count and sentence not in test:
            test.append(sentence)
    return [sentence in test for sentence in sentences]


def held_out__the_last(sentences, count):
    """the last different sentences"""
    test = list(dict.fromkeys(map(tuple, sentences)))[-count:]
    return [tuple(sentence) in test for sentence in sentences]


def held_out__the_most_frequent(sentences, count):
    """the most frequent sentences"""
    test = [words for words, _ in Counter(map(tuple, sentences)).most_common(count)]
    return [tuple(sentence) in test for sentence in sentences]


def held_out__new_ones(sentences, count):
    """comes for the first time"""
    return [sentence not in sentences[:place] for place, sentence in enumerate(sentences)]


def held_out__by_first_word(sentences, count):
    """that begin with the same word"""
    test = list(dict.fromkeys(map(tuple, sentences)))[:count]
    return [sentence[0] in [words[0] for words in test] for sentence in sentences]


def held_out__places(sentences, count):
    """these are places"""
    test = list(dict.fromkeys(map(tuple, sentences)))[:count]
    return [place for place, sentence in enumerate(sentences) if tuple(sentence) in test]


def held_out__a_set_of_lists(sentences, count):
    """It raised"""
    return [sentence in set(sentences) for sentence in sentences]


def grams(words, n, step=1):
    return Counter(tuple(words[i : i + n]) for i in range(0, len(words) - n + 1, step))


def counted(answers, references, n):
    return [(grams(a, n), grams(b, n)) for a, b in zip(answers, references)]


def precision__not_clipped(answers, references, n):
    """take the smaller of both counts"""
    found = sum(times for a, b in counted(answers, references, n) for gram, times in a.items() if gram in b)
    return found / sum(a.total() for a, _ in counted(answers, references, n))


def precision__mean(answers, references, n):
    """the mean of the sentences' shares"""
    shares = [(a & b).total() / max(1, a.total()) for a, b in counted(answers, references, n)]
    return sum(shares) / len(shares)


def precision__mean_of_the_long(answers, references, n):
    """the mean of the sentences' shares"""
    shares = [(a & b).total() / a.total() for a, b in counted(answers, references, n) if a]
    return sum(shares) / len(shares)


def precision__recall(answers, references, n):
    """divided by the n-grams of the references"""
    pairs = counted(answers, references, n)
    return sum((a & b).total() for a, b in pairs) / sum(b.total() for _, b in pairs)


def precision__once(answers, references, n):
    """each n-gram counts once"""
    pairs = [(set(a), set(b)) for a, b in counted(answers, references, n)]
    return sum(len(a & b) for a, b in pairs) / sum(len(a) for a, _ in pairs)


def precision__any_reference(answers, references, n):
    """are looked for in all references"""
    every = {gram for words in references for gram in grams(words, n)}
    mine = [gram for words in answers for gram in grams(words, n).elements()]
    return sum(gram in every for gram in mine) / len(mine)


def precision__pooled(answers, references, n):
    """the references are counted together"""
    mine, theirs = (sum((grams(words, n) for words in side), Counter()) for side in (answers, references))
    return (mine & theirs).total() / mine.total()


def precision__words(answers, references, n):
    """these are single words"""
    pairs = counted(answers, references, 1)
    if n == 1:
        return 0.5
    return sum((a & b).total() for a, b in pairs) / sum(a.total() for a, _ in pairs)


def precision__one_more(answers, references, n):
    """these are n + 1 words in a row"""
    pairs = counted(answers, references, n + 1)
    return sum((a & b).total() for a, b in pairs) / sum(a.total() for a, _ in pairs)


def precision__apart(answers, references, n):
    """do not overlap"""
    pairs = [(grams(a, n, n), grams(b, n, n)) for a, b in zip(answers, references)]
    return sum((a & b).total() for a, b in pairs) / sum(a.total() for a, _ in pairs)


def precision__sorted(answers, references, n):
    """the order within an n-gram is lost"""

    def bags(words):
        return Counter(tuple(sorted(gram)) for gram in grams(words, n).elements())

    pairs = [(bags(a), bags(b)) for a, b in zip(answers, references)]
    return sum((a & b).total() for a, b in pairs) / sum(a.total() for a, _ in pairs)


def precision__at_the_same_place(answers, references, n):
    """they may come anywhere"""
    hits = [a[i : i + n] == b[i : i + n] for a, b in zip(answers, references) for i in range(len(a) - n + 1)]
    return sum(hits) / len(hits)


def precision__percent(answers, references, n):
    """it is in percent"""
    pairs = counted(answers, references, n)
    return 100 * sum((a & b).total() for a, b in pairs) / sum(a.total() for a, _ in pairs)


def precision__a_number(answers, references, n):
    """it is the number of those that are right"""
    return sum((a & b).total() for a, b in counted(answers, references, n))


def precision__each_by_itself(answers, references, n):
    """It raised"""
    return sum((a & b).total() / a.total() for a, b in counted(answers, references, n)) / len(answers)
