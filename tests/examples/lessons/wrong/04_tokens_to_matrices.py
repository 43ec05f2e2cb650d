"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import math
from functools import partial

import tinytensor as tt
from tinytensor.nn import functional as F


def squares(x):
    return (x**2).sum(axis=1, keepdims=True)


def distances__with_a_loop(queries, keys):
    """it has a loop"""
    return tt.stack([((keys - query) ** 2).sum(axis=1) for query in queries])


def distances__with_two_loops(queries, keys):
    """it has a loop"""
    found = tt.zeros((len(queries), len(keys)))
    for i in range(len(queries)):
        for j in range(len(keys)):
            found[i, j] = ((queries[i] - keys[j]) ** 2).sum()
    return found


def from_one(keys, query):
    return ((keys - query) ** 2).sum(axis=1)


def distances__with_a_hidden_loop(queries, keys):
    """it has a loop"""
    return tt.stack(list(map(partial(from_one, keys), queries)))


def distances__over_features(queries, keys):
    """it has a loop"""
    return sum((queries[:, i, None] - keys[None, :, i]) ** 2 for i in range(keys.shape[1]))


def distances__not_squared(queries, keys):
    """these are distances, not their squares"""
    return (squares(queries) + squares(keys).mT - 2 * queries @ keys.mT) ** 0.5


def distances__products(queries, keys):
    """these are the dot products"""
    return queries @ keys.mT


def distances__product_added(queries, keys):
    """the product is added"""
    return squares(queries) + squares(keys).mT + 2 * queries @ keys.mT


def distances__without_2(queries, keys):
    """the 2 is missing"""
    return squares(queries) + squares(keys).mT - queries @ keys.mT


def distances__without_keys(queries, keys):
    """|k|² is missing"""
    return squares(queries) - 2 * queries @ keys.mT


def distances__transposed(queries, keys):
    """there is a row for each key"""
    return squares(keys) + squares(queries).mT - 2 * keys @ queries.mT


def distances__means(queries, keys):
    """it is the mean of the squares"""
    return ((queries[:, None] - keys[None]) ** 2).mean(axis=-1)


def rows(i, X, W_q, W_k, W_v, divisor):
    return F.softmax(X @ W_k @ (X[i] @ W_q) / divisor, dim=0) @ (X @ W_v)


def output_of__all_rows_first(i, X, W_q, W_k, W_v):
    """it computes the scores of all"""
    return F.scaled_dot_product_attention(X @ W_q, X @ W_k, X @ W_v)[i]


def output_of__all_scores_first(i, X, W_q, W_k, W_v):
    """it computes the scores of all"""
    weights = F.softmax(X @ W_q @ (X @ W_k).mT / math.sqrt(W_k.shape[1]), dim=-1)
    return weights[i] @ (X @ W_v)


def output_of__without_scale(i, X, W_q, W_k, W_v):
    """the scores are not scaled"""
    return rows(i, X, W_q, W_k, W_v, 1)


def output_of__divided_by_d_k(i, X, W_q, W_k, W_v):
    """divided by d_k, not by its square root"""
    return rows(i, X, W_q, W_k, W_v, W_k.shape[1])


def output_of__divided_by_root_of_d_v(i, X, W_q, W_k, W_v):
    """divided by √d_v"""
    return rows(i, X, W_q, W_k, W_v, math.sqrt(W_v.shape[1]))


def output_of__exchanged(i, X, W_q, W_k, W_v):
    """queries and keys are exchanged"""
    return rows(i, X, W_k, W_q, W_v, math.sqrt(W_k.shape[1]))


def output_of__values_not_projected(i, X, W_q, W_k, W_v):
    """the values are not projected"""
    return F.softmax(X @ W_k @ (X[i] @ W_q) / math.sqrt(W_k.shape[1]), dim=0) @ X


def output_of__all_rows(i, X, W_q, W_k, W_v):
    """all rows came out"""
    return F.scaled_dot_product_attention(X @ W_q, X @ W_k, X @ W_v)


def output_of__first_row(i, X, W_q, W_k, W_v):
    """it is the first row, whatever i is"""
    return rows(0, X, W_q, W_k, W_v, math.sqrt(W_k.shape[1]))


def output_of__own_value(i, X, W_q, W_k, W_v):
    """it is the value of row i alone"""
    return F.scaled_dot_product_attention(X[i : i + 1] @ W_q, X[i : i + 1] @ W_k, X[i : i + 1] @ W_v)[0]


def output_of__without_softmax(i, X, W_q, W_k, W_v):
    """softmax is missing"""
    return X @ W_k @ (X[i] @ W_q) / math.sqrt(W_k.shape[1]) @ (X @ W_v)
