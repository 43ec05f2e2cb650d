"""Exercises of lesson 26: the most that words say alone, and a word in its context."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise
from tinytensor.nn import functional as F


@exercise(
    "def most_right(counts):",
    "Alone, a word has one answer. Its most frequent meaning is right most often: `counts.max(axis=1)`.",
    "Add up how often these answers are right, and divide by how many words were read: `counts.sum()`.",
)
def check_most_right(most_right):
    """A reader sees a word alone and names its meaning. The largest share of right answers that it can reach. counts
    (words, meanings) is a NumPy array: how often each word occurred with each meaning."""
    for words, meanings in ((7, 3), (5, 2), (4, 6)):
        counts = tt.random.integers(1, 60, (words, meanings)).numpy().copy()
        counts *= tt.random.integers(1, 9, (words, 1)).numpy()  # some words are more frequent
        likeliest = counts.argmax(axis=1)
        for word in (0, 1):  # two words whose meanings are not most frequent in the same place
            wanted = (likeliest[2] + word) % meanings
            counts[word, [wanted, likeliest[word]]] = counts[word, [likeliest[word], wanted]]
            counts[word, wanted] += 7
        best, rarest, of_word, total = counts.max(axis=1), counts.min(axis=1), counts.sum(axis=1), counts.sum()
        drawn = (counts**2).sum(axis=1) / of_word
        expected = best.sum() / total
        mistakes = {
            "rare words count as much as frequent ones; count what was read, and not words": (best / of_word).mean(),
            "all words get the same answer; the reader sees which word it is": counts.sum(axis=0).max() / total,
            "it guesses; the most frequent meaning is right more often": 1 / meanings,
            "it draws a meaning as often as it occurs; the most frequent one is right more often": drawn.sum() / total,
            "it is how often the answer is right; divide by how many words were read": best.sum(),
            "it is how often the answer is right, over the number of words; divide by how many were read": best.mean(),
            "the maximum is over the words; each word has its most frequent meaning": counts.max(axis=0).sum() / total,
            "it counts one word with one meaning; each word has its most frequent one": counts.max() / total,
            "it is one share for each word; expected one for all that was read": best / of_word,
            "it is the share of the word that is easiest; expected one for all that was read": (best / of_word).max(),
            "it is the share of the word that is hardest; expected one for all that was read": (best / of_word).min(),
            "it is the share of mistakes": 1 - expected,
            "it is in percent; a share is between 0 and 1": 100 * expected,
            "these are the meanings; expected how often they are right": counts.argmax(axis=1),
            "it names the rarest meaning of each word; the most frequent one is right more often": rarest.sum() / total,
        }
        what = f"the most that {words} words with {meanings} meanings say alone"
        agree(most_right(counts.copy()), expected, what, mistakes=mistakes)


@exercise(
    "def in_context(vectors, i):",
    "The dot products of word i with all words: `vectors @ vectors[i]`.",
    "`F.softmax(scores, dim=0)` from `tinytensor.nn.functional` makes weights of them. Each weighs its word's vector.",
)
def check_in_context(in_context):
    """The vector of word i in its sentence: the weighted mean of all vectors, its own among them. Word i chooses the
    weights: the softmax of its dot products with them. vectors is (length, size), the result (size,)."""
    for length, size in ((8, 3), (5, 6), (7, 2)):
        vectors = tt.random.randn(length, size) / size**0.5
        i, like = (int(place) for place in tt.random.permutation(length - 2)[:2] + 1)
        vectors = tt.where(tt.arange(length)[:, None] == like, vectors[i] * 1.6, vectors)  # it fits better than itself
        own = vectors[i]
        scores, cosines = vectors @ own, F.cosine_similarity(vectors, own, dim=1)
        right, scaled = F.softmax(scores, dim=0), F.softmax(scores / size**0.5, dim=0)
        others = tt.where(tt.arange(length) == i, -tt.inf, scores)
        table = vectors @ vectors.mT
        mistakes = {
            "every word has the same weight": vectors.mean(axis=0),
            "nothing was taken from other words": own,
            "softmax is missing: the weights are the dot products": scores @ vectors,
            "the dot products are divided by their sum; softmax makes them positive": scores / scores.sum() @ vectors,
            "the weights do not add up to 1: divide exp by its sum": tt.exp(scores) @ vectors,
            "the word that fits best takes all; softmax shares": vectors[int(scores.argmax())],
            "these are the weights; they have to weigh the vectors": right,
            "these are the dot products; softmax makes weights of them": scores,
            "the word leaves itself out; it is one of the words": F.softmax(others, dim=0) @ vectors,
            "the word is added once more": right @ vectors + own,
            "the cosine is taken, and not the dot product": F.softmax(cosines, dim=0) @ vectors,
            "the dot products are divided by √size; that comes in lesson 3": scaled @ vectors,
            "the first word chooses; word i has to": F.softmax(vectors @ vectors[0], dim=0) @ vectors,
            "the last word chooses; word i has to": F.softmax(vectors @ vectors[-1], dim=0) @ vectors,
            "all words choose how much they want of word i; word i chooses": F.softmax(table, dim=0)[i] @ vectors,
            "all words choose how much they want of word i; word i chooses ": F.softmax(table, dim=1)[:, i] @ vectors,
            "all words are here; expected word i": F.softmax(table, dim=1) @ vectors,
            "softmax is over one number at a time, and every weight is 1: it is over the words": vectors.sum(axis=0),
            "the weighted vectors are not added up": right[:, None] * vectors,
            "words that fit least have the largest weights": F.softmax(-scores, dim=0) @ vectors,
        }
        what = f"word {i} of {length}, in vectors of {size} numbers"
        agree(in_context(vectors, i), right @ vectors, what, mistakes=mistakes)
