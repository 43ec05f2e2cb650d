"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import numpy as np


def narrowed(probabilities, kept):
    found = np.where(kept, probabilities, 0)
    with np.errstate(invalid="ignore"):  # where nothing is kept
        return found / found.sum()


def likelier(probabilities):
    return (probabilities[None] > probabilities[:, None]) @ probabilities


def nucleus__not_divided(probabilities, top_p):
    """what is kept does not add up to 1"""
    return np.where(likelier(probabilities) < top_p, probabilities, 0)


def nucleus__without_the_last(probabilities, top_p):
    """the word that reaches top_p is left out"""
    return narrowed(probabilities, likelier(probabilities) + probabilities <= top_p)


def nucleus__by_itself(probabilities, top_p):
    """each word is compared by itself"""
    return narrowed(probabilities, probabilities >= top_p)


def nucleus__above_the_rest(probabilities, top_p):
    """each word is compared by itself"""
    return narrowed(probabilities, probabilities > 1 - top_p)


def nucleus__sorted(probabilities, top_p):
    """they stay in their places"""
    return np.sort(narrowed(probabilities, likelier(probabilities) < top_p))[::-1]


def nucleus__not_sorted(probabilities, top_p):
    """words were taken in the order of their places"""
    return narrowed(probabilities, np.cumsum(probabilities) - probabilities < top_p)


def nucleus__least_likely(probabilities, top_p):
    """the least likely are kept"""
    rarer = (probabilities[None] < probabilities[:, None]) @ probabilities
    return narrowed(probabilities, rarer < top_p)


def nucleus__one_too_many(probabilities, top_p):
    """a word too many is kept"""
    kept = likelier(probabilities) < top_p
    kept[np.where(kept, -1, probabilities).argmax()] = True
    return narrowed(probabilities, kept)


def nucleus__greedy(probabilities, top_p):
    """the likeliest alone is kept"""
    return narrowed(probabilities, probabilities == probabilities.max())


def nucleus__all_alike(probabilities, top_p):
    """kept words are all alike"""
    kept = likelier(probabilities) < top_p
    return kept / kept.sum()


def nucleus__softmax(probabilities, top_p):
    """softmax was taken of probabilities"""
    return narrowed(np.exp(probabilities), likelier(probabilities) < top_p)


def nucleus__of_a_list(probabilities, top_p):
    """It raised"""
    return probabilities.sort(reverse=True)


def pairs(sums, width):
    return np.stack(np.unravel_index(np.argsort(-sums, axis=None)[:width], sums.shape), axis=1)


def best_branches__without_scores(scores, log_p, width):
    """the scores of the beginnings are left out"""
    return pairs(log_p, width)


def best_branches__once_each(scores, log_p, width):
    """each branch goes on once"""
    sums = scores[:, None] + log_p
    best = sorted(range(len(scores)), key=lambda b: -sums[b].max())
    return [(b, int(sums[b].argmax())) for b in best][:width]


def best_branches__multiplied(scores, log_p, width):
    """the least likely come out"""
    return pairs(scores[:, None] * log_p, width)


def best_branches__probabilities(scores, log_p, width):
    """probabilities are added to log-probabilities"""
    return pairs(scores[:, None] + np.exp(log_p), width)


def best_branches__of_the_best(scores, log_p, width):
    """the words of the best branch alone"""
    best = int(scores.argmax())
    return [(best, int(word)) for word in np.argsort(-log_p[best])[:width]]


def best_branches__worst(scores, log_p, width):
    """the least likely come out"""
    return pairs(-scores[:, None] - log_p, width)


def best_branches__best_last(scores, log_p, width):
    """the best comes last"""
    return pairs(scores[:, None] + log_p, width)[::-1]


def best_branches__exchanged(scores, log_p, width):
    """branch and word are exchanged"""
    return pairs(scores[:, None] + log_p, width)[:, ::-1]


def best_branches__places(scores, log_p, width):
    """these are places in the table"""
    return np.argsort(-(scores[:, None] + log_p), axis=None)[:width]


def best_branches__words(scores, log_p, width):
    """these are the words"""
    return pairs(scores[:, None] + log_p, width)[:, 1]


def best_branches__sums(scores, log_p, width):
    """these are the log-probabilities"""
    return np.sort((scores[:, None] + log_p).ravel())[::-1][:width]


def best_branches__scores_in_a_row(scores, log_p, width):
    """It raised"""
    return pairs(scores + log_p, width)
