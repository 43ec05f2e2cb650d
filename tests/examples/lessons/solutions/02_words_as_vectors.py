"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import tinytensor as tt
from tinytensor.nn import functional as F


def analogy(x, a, b, c):
    unit = x / tt.linalg.vector_norm(x, axis=1, keepdims=True)
    near = unit @ (x[a] - x[b] + x[c])
    near[[a, b, c]] = -tt.inf
    return near.argmax()


def neighbours(ids, window):
    places = range(len(ids))
    return [(ids[i], ids[j]) for i in places for j in places if i != j and abs(i - j) <= window]


def analogy__in_a_loop(x, a, b, c):
    aim = x[a] - x[b] + x[c]

    def cosine(i):
        return (x[i] @ aim).item() / float(tt.linalg.vector_norm(x[i]))

    return max((i for i in range(len(x)) if i not in (a, b, c)), key=cosine)


def analogy__sorted(x, a, b, c):
    aim = x[a] - x[b] + x[c]
    cosines = F.cosine_similarity(x, aim[None], dim=-1)
    return next(int(i) for i in tt.argsort(cosines, descending=True) if int(i) not in (a, b, c))


def neighbours__with_ranges(ids, window):
    found = []
    for i, word in enumerate(ids):
        for j in range(max(0, i - window), min(len(ids), i + window + 1)):
            if j != i:
                found.append([word, ids[j]])
    return found


def neighbours__by_slices(ids, window):
    for i, word in enumerate(ids):
        for other in ids[max(0, i - window) : i] + ids[i + 1 : i + window + 1]:
            yield word, other
