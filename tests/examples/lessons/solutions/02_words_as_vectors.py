import tinytensor as tt


def analogy(x, a, b, c):
    unit = x / tt.linalg.vector_norm(x, axis=1, keepdims=True)
    near = unit @ (x[a] - x[b] + x[c])
    near[[a, b, c]] = -tt.inf
    return near.argmax()


def neighbours(ids, window):
    places = range(len(ids))
    return [(ids[i], ids[j]) for i in places for j in places if i != j and abs(i - j) <= window]
