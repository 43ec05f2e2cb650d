"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import tinytensor as tt


def units(x):
    return x / tt.linalg.vector_norm(x, axis=1, keepdims=True)


def nearest(near, *left_out):
    near[list(left_out)] = -tt.inf
    return near.argmax()


def analogy__without_leaving_out(x, a, b, c):
    """is one of the three that were given"""
    return (units(x) @ (x[a] - x[b] + x[c])).argmax()


def analogy__leaving_two_out(x, a, b, c):
    """is one of the three that were given"""
    return nearest(units(x) @ (x[a] - x[b] + x[c]), a, b)


def analogy__by_dot_product(x, a, b, c):
    """is only longer: compare angles"""
    return nearest(x @ (x[a] - x[b] + x[c]), a, b, c)


def analogy__by_distance(x, a, b, c):
    """is nearest by distance: compare angles"""
    return nearest(-((x - (x[a] - x[b] + x[c])) ** 2).sum(axis=1), a, b, c)


def analogy__of_the_sum(x, a, b, c):
    """is near the sum of all three"""
    return nearest(units(x) @ (x[a] + x[b] + x[c]), a, b, c)


def analogy__turned_round(x, a, b, c):
    """the difference is turned round"""
    return nearest(units(x) @ (x[b] - x[a] + x[c]), a, b, c)


def analogy__the_vector(x, a, b, c):
    """the answer has shape (3,); expected the number of one row"""
    return x[a] - x[b] + x[c]


def analogy__similarities(x, a, b, c):
    """expected the number of one row"""
    return units(x) @ (x[a] - x[b] + x[c])


def pairs(ids, which):
    return [(ids[i], ids[j]) for i in range(len(ids)) for j in range(len(ids)) if which(i, j)]


def neighbours__with_itself(ids, window):
    """a word is no neighbour of itself"""
    return pairs(ids, lambda i, j: abs(i - j) <= window)


def neighbours__last_one_missing(ids, window):
    """the last neighbour to the right is missing"""
    return [
        (ids[i], ids[j])
        for i in range(len(ids))
        for j in range(max(0, i - window), min(len(ids), i + window))
        if i != j
    ]


def neighbours__to_the_right(ids, window):
    """neighbours to the left are missing"""
    return pairs(ids, lambda i, j: 0 < j - i <= window)


def neighbours__to_the_left(ids, window):
    """neighbours to the right are missing"""
    return pairs(ids, lambda i, j: 0 < i - j <= window)


def neighbours__by_ids(ids, window):
    """compare places, not ids"""
    return pairs(ids, lambda i, j: ids[i] != ids[j] and abs(i - j) <= window)


def neighbours__each_once(ids, window):
    """a set keeps it once"""
    return set(pairs(ids, lambda i, j: i != j and abs(i - j) <= window))


def neighbours__places(ids, window):
    """these are places"""
    return [(i, j) for i in range(len(ids)) for j in range(len(ids)) if i != j and abs(i - j) <= window]


def neighbours__round_the_end(ids, window):
    """the sentence is no ring"""
    return [
        (ids[i], ids[j]) for i in range(len(ids)) for j in range(i - window, min(len(ids), i + window + 1)) if i != j
    ]


def neighbours__of_all(ids, window):
    """words further apart are there, too"""
    return pairs(ids, lambda i, j: i != j)


def neighbours__lists_of_neighbours(ids, window):
    """has shape"""
    return [ids[max(0, i - window) : i + window + 1] for i in range(len(ids) - 2 * window)]
