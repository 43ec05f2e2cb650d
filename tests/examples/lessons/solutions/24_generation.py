"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import heapq

import numpy as np

import tinytensor as tt


def nucleus(probabilities, top_p):
    order = np.argsort(-probabilities)
    falling = probabilities[order]
    kept = order[np.cumsum(falling) - falling < top_p]
    found = np.zeros_like(probabilities)
    found[kept] = probabilities[kept] / probabilities[kept].sum()
    return found


def nucleus__word_by_word(probabilities, top_p):
    kept, reached = [], 0.0
    for i in sorted(range(len(probabilities)), key=lambda i: -probabilities[i]):
        kept.append(i)
        reached += probabilities[i]
        if reached >= top_p:
            break
    return [probabilities[i] / reached if i in kept else 0.0 for i in range(len(probabilities))]


def nucleus__by_search(probabilities, top_p):
    falling = np.sort(probabilities)[::-1]
    least = falling[np.searchsorted(np.cumsum(falling), top_p)]
    kept = np.where(probabilities >= least, probabilities, 0)
    return tt.asarray(kept / kept.sum())


def nucleus__each_word_for_itself(probabilities, top_p):
    likelier = (probabilities[None] > probabilities[:, None]) @ probabilities
    kept = probabilities * (likelier < top_p)
    return kept / kept.sum()


def best_branches(scores, log_p, width):
    sums = scores[:, None] + log_p
    return np.stack(np.unravel_index(np.argsort(-sums, axis=None)[:width], sums.shape), axis=1)


def best_branches__pairs(scores, log_p, width):
    pairs = [(b, w) for b in range(len(scores)) for w in range(log_p.shape[1])]
    return sorted(pairs, key=lambda pair: scores[pair[0]] + log_p[pair], reverse=True)[:width]


def best_branches__by_division(scores, log_p, width):
    sums = (scores.reshape(-1, 1) + log_p).ravel()
    return [divmod(int(place), log_p.shape[1]) for place in sums.argsort()[::-1][:width]]


def best_branches__by_a_heap(scores, log_p, width):
    sums = {(b, w): score + p for b, score in enumerate(scores) for w, p in enumerate(log_p[b])}
    return heapq.nlargest(width, sums, key=sums.get)


def best_branches__by_topk(scores, log_p, width):
    _, places = tt.topk(tt.asarray(scores[:, None] + log_p).reshape(-1), width)
    return tt.stack([places // log_p.shape[1], places % log_p.shape[1]], axis=1)
