"""Exercises of lesson 28: the word order of a language, a test that was never read, and the shares that BLEU takes."""

from collections import Counter

import numpy as np

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def word_order(kinds):",
    "Go from left to right, and keep the place of a verb back until its clause ends.",
    'A clause ends at "and" and at "mark": write the verb there, then the place of the "and" or of the mark.',
)
def check_word_order(word_order):
    """The order of a language whose verb comes last in its clause. kinds has the kind of each word of an English
    sentence: "adjective", "noun", "verb", "and" or "mark". Each clause has one verb, and ends before an "and" or before
    the mark at the end. A list of places in the order in which this language says the words, all but verbs in
    their order: [0, 2, 1, 3] for noun, verb, noun, mark."""
    for clauses in (2, 3, 1):
        kinds, parts = [], []
        for clause in range(clauses):
            before = int(tt.random.integers(0, 3))
            after = int(tt.random.integers(1, 4)) if clause else 2
            start = len(kinds)
            words = [*["adjective"] * before, "noun", "verb", *["adjective"] * after, "noun"]
            kinds += [*words, "and" if clause < clauses - 1 else "mark"]
            verb = start + before + 1
            parts.append((list(range(start, verb)), verb, list(range(verb + 1, len(kinds) - 1)), len(kinds) - 1))

        def said(of, parts=parts):
            return [place for part in parts for place in of(*part)]

        right = said(lambda one, verb, other, end: [*one, verb, end] if not other else [*one, *other, verb, end])
        verbs = [verb for _, verb, _, _ in parts]
        others = [place for place in range(len(kinds)) if place not in verbs]
        still = {
            verb: [
                place
                for one, v, other, end in parts
                for place in ([*one, *other, v, end] if v == verb else [*one, v, *other, end])
            ]
            for verb in (verbs[0], verbs[-1])
        }
        mistakes = {
            "the verbs of all clauses come last in the sentence; each ends its own clause": [
                *others[:-1],
                *verbs,
                others[-1],
            ],
            "the verbs of all clauses come behind the sentence; each ends its own clause": [*others, *verbs],
            'the verb comes behind the "and" or the mark, which the clause does not have': said(
                lambda one, verb, other, end: [*one, *other, end, verb]
            ),
            "the verb comes first in its clause, and it is to come last": said(
                lambda one, verb, other, end: [verb, *one, *other, end]
            ),
            "no word has moved": list(range(len(kinds))),
            "the verb of the first clause alone has moved": still[verbs[0]],
            "the verb of the last clause alone has moved": still[verbs[-1]],
            "it is where each word goes; expected the word that comes at each place": np.argsort(right),
            "what comes after the verb is said before what comes before it": said(
                lambda one, verb, other, end: [*other, *one, verb, end]
            ),
            "the words of a clause are turned round; only its verb moves": said(
                lambda one, verb, other, end: [*other[::-1], verb, *one[::-1], end]
            ),
            "places count from 0, and these count from 1": np.array(right) + 1,
            'the places of "and" and of the mark are missing': said(lambda one, verb, other, end: [*one, *other, verb]),
            "the verbs are missing": others,
            "the verb moves by one place; it comes last in its clause": said(
                lambda one, verb, other, end: [*one, other[0], verb, *other[1:], end]
            ),
        }
        agree(list(word_order(list(kinds))), right, f"the order of {clauses} clauses", mistakes=mistakes)


@exercise(
    "def held_out(sentences, count):",
    "A set of sentences seen so far says whether one is new; a list cannot be in a set, but a tuple can.",
    "First find the test, `count` sentences; then ask of each sentence of the text whether it is in the test.",
)
def check_held_out(held_out):
    """Which sentences are for the test, so that no sentence is on both sides. sentences is a text, a list of sentences,
    each a list of ids; the same sentence may come again. The test is the first `count` different ones, wherever they
    come: a list with True for each sentence of the text that is in the test, else False."""
    for different, count in ((9, 4), (12, 5)):
        base = [int(i) for i in 10 + tt.random.permutation(80)[: 3 * different]]
        unlike = [base[3 * i : 3 * i + 3][: 2 + i % 2] for i in range(different)]
        unlike[count + 1] = unlike[1][::-1]  # the words of a sentence of the test, in another order
        unlike[count + 2] = [unlike[2][0], *unlike[count + 2][1:]]  # and the first word of one
        rest = [unlike[int(i)] for i in tt.random.permutation(different)]
        text = [unlike[0], unlike[1], unlike[0], *unlike[2:], unlike[1], *rest, unlike[-1], unlike[-1]]
        tuples = [tuple(each) for each in text]
        order = list(dict.fromkeys(tuples))

        def among(chosen, tuples=tuples):
            return [each in chosen for each in tuples]

        right = among(order[:count])
        first = [each not in tuples[:place] for place, each in enumerate(tuples)]
        bags = [tuple(sorted(each)) for each in tuples]
        often = [each for each, _ in Counter(tuples).most_common(count)]
        mistakes = {
            "a sentence of the test comes again, and that is for training: the model reads it": [
                a and b for a, b in zip(right, first)
            ],
            "the first places of the text are taken, and sentences come again: the test is too small": among(
                tuples[:count]
            ),
            "the first places of the text are taken, and what comes again is on both sides": [
                place < count for place in range(len(text))
            ],
            "sentences with the same words in another order are taken for the same one": [
                bag in list(dict.fromkeys(bags))[:count] for bag in bags
            ],
            "it is True for training; expected True for the test": [not each for each in right],
            "the test has a sentence too many": among(order[: count + 1]),
            "the test has a sentence too few": among(order[: count - 1]),
            "the last different sentences are taken; expected the first": among(order[-count:]),
            "the most frequent sentences are taken; expected the first": among(often),
            "it is True where a sentence comes for the first time; expected for those of the test": first,
            "sentences that begin with the same word are taken for the same one": [
                each[0] in [one[0] for one in order[:count]] for each in tuples
            ],
            "every sentence is for the test": [True] * len(text),
            "no sentence is for the test": [False] * len(text),
            "these are places; expected True or False for each sentence": np.flatnonzero(right),
            "these are the sentences of the test; expected True or False for each of the text": [
                place for place, each in enumerate(first) if each
            ][:count],
        }
        what = f"a text of {len(text)} sentences, {count} of them for the test,"
        agree(list(held_out([list(each) for each in text], count)), right, what, mistakes=mistakes)


def groups(words, n, step=1):
    """How often each n words in a row are there."""
    return Counter(tuple(words[i : i + n]) for i in range(0, len(words) - n + 1, step))


def alike(numbers, all_of_them):
    """True if the first number, or any of them, comes again, so that a mistake could not be told."""
    first = numbers if all_of_them else numbers[:1]
    return any(abs(a - b) < 1e-3 for i, a in enumerate(first) for b in numbers[i + 1 :])


@exercise(
    "def precision(answers, references, n):",
    "`Counter(zip(*(words[i:] for i in range(n))))` counts each n words in a row; `a & b` takes the smaller counts.",
    "Add up what was found over all sentences, add up what the answers have, and divide once.",
)
def check_precision(precision):
    """The share of n-grams (n words in a row) of all answers that are right, as BLEU counts them (Papineni et al. 2002,
    section 2.1). answers and references are lists of sentences, each a list of ids; references[i] is the right answer
    to answers[i]. An n-gram counts at most as often as the reference has it, and all sentences are counted together.
    An answer shorter than n has no n-gram, and may be empty."""
    for sentences, n in ((4, 2), (6, 3), (5, 1)):
        right, mistakes = None, {}
        while right is None or alike([right, *mistakes.values()], all_of_them=n > 1):
            ids = [int(i) for i in 10 + tt.random.permutation(80)[:4]]
            lengths = [n + 3 + int(i) for i in tt.random.integers(0, 6, (sentences,))]
            references = [[ids[int(i)] for i in tt.random.integers(0, 4, (length,))] for length in lengths]
            answers = [list(each) for each in references]
            for answer in answers:
                answer[int(tt.random.integers(0, len(answer)))] = ids[0]
                answer[int(tt.random.integers(0, len(answer)))] = ids[1]
                answer += [ids[0]] * int(tt.random.integers(0, 4))
            answers[-1] = answers[-1][: n - 1]  # too short for n in a row
            mine, theirs = ([groups(each, n) for each in side] for side in (answers, references))
            found = [(a & b).total() for a, b in zip(mine, theirs)]
            had = [a.total() for a in mine]
            right = sum(found) / sum(had)
            every = set().union(*theirs)
            pooled = sum(mine, Counter()) & sum(theirs, Counter())

            def share(count, step=1, answers=answers, references=references):
                a, b = ([groups(each, count, step) for each in side] for side in (answers, references))
                return sum((x & y).total() for x, y in zip(a, b)) / sum(x.total() for x in a)

            mistakes = {
                "an n-gram counts more often than its reference has it: take the smaller of both counts": sum(
                    a[gram] for a, b in zip(mine, theirs) for gram in a if gram in b
                )
                / sum(had),
                "it is the mean of the sentences' shares; count all sentences together, and divide once": np.mean(
                    [f / h if h else 0.0 for f, h in zip(found, had)]
                ),
                "it is the mean of the sentences' shares; count all sentences together, and divide once ": np.mean(
                    [f / h for f, h in zip(found, had) if h]
                ),
                "it is divided by the n-grams of the references; expected by those of the answers": sum(found)
                / sum(b.total() for b in theirs),
                "each n-gram counts once, not as often as it is there": sum(len(a & b) for a, b in zip(mine, theirs))
                / sum(map(len, mine)),
                "each n-gram that is found counts once; it counts as often as it is there": sum(
                    len(a & b) for a, b in zip(mine, theirs)
                )
                / sum(had),
                "n-grams are looked for in all references; each answer has one of its own": sum(
                    a[gram] for a in mine for gram in a if gram in every
                )
                / sum(had),
                "the references are counted together; each answer has one of its own": pooled.total() / sum(had),
                "these are n + 1 words in a row; expected n": share(n + 1),
                "n-grams are compared at the same place alone; they may come anywhere": sum(
                    a[i : i + n] == b[i : i + n] for a, b in zip(answers, references) for i in range(len(a) - n + 1)
                )
                / sum(had),
                "it is in percent; expected a share": 100 * right,
                "it is the number of those that are right; divide by all n-grams of the answers": sum(found),
                "it is the share of those that are wrong": 1 - right,
            }
            if n > 1:
                words = [[Counter({tuple(sorted(g)): 0 for g in side}) for side in sides] for sides in (mine, theirs)]
                for counts, sides in zip(words, (mine, theirs)):
                    for count, side in zip(counts, sides):
                        for gram, times in side.items():
                            count[tuple(sorted(gram))] += times
                mistakes |= {
                    "these are single words; expected n words in a row": share(1),
                    "n-grams do not overlap here; the next begins a word later": share(n, n),
                    "the order within an n-gram is lost": sum((a & b).total() for a, b in zip(*words)) / sum(had),
                }
        what = f"the precision of {sentences} sentences with n = {n}"
        agree(precision([list(a) for a in answers], [list(b) for b in references], n), right, what, mistakes=mistakes)
