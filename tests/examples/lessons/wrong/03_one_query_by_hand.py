"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import math

import tinytensor as tt
from tinytensor.nn import functional as F


def attention(y, X, W_q, W_k, W_v, divisor):
    return F.softmax(X @ W_k @ (y @ W_q) / divisor, dim=0) @ (X @ W_v)


def attend__without_scale(y, X, W_q, W_k, W_v):
    """the scores are not scaled: divide them by √d_k"""
    return attention(y, X, W_q, W_k, W_v, 1.0)


def attend__divided_by_d_k(y, X, W_q, W_k, W_v):
    """divided by d_k, not by its square root"""
    return attention(y, X, W_q, W_k, W_v, W_k.shape[1])


def attend__divided_by_root_of_d_v(y, X, W_q, W_k, W_v):
    """divided by √d_v"""
    return attention(y, X, W_q, W_k, W_v, math.sqrt(W_v.shape[1]))


def attend__divided_by_root_of_size(y, X, W_q, W_k, W_v):
    """divided by √size"""
    return attention(y, X, W_q, W_k, W_v, math.sqrt(len(y)))


def attend__divided_by_root_of_length(y, X, W_q, W_k, W_v):
    """the root of how many words there are"""
    return attention(y, X, W_q, W_k, W_v, math.sqrt(len(X)))


def attend__divided_by_2(y, X, W_q, W_k, W_v):
    """divided by 2 whatever d_k is"""
    return attention(y, X, W_q, W_k, W_v, 2)


def attend__multiplied(y, X, W_q, W_k, W_v):
    """multiplied by √d_k: divide"""
    return attention(y, X, W_q, W_k, W_v, 1 / math.sqrt(W_k.shape[1]))


def attend__wrong_axis(y, X, W_q, W_k, W_v):
    """softmax is over the wrong axis: every weight is 1"""
    scores = (X @ W_k) @ (y @ W_q)[:, None] / math.sqrt(W_k.shape[1])
    return (F.softmax(scores, dim=-1).mT @ (X @ W_v))[0]


def attend__values_not_projected(y, X, W_q, W_k, W_v):
    """the values are not projected"""
    return F.softmax(X @ W_k @ (y @ W_q) / math.sqrt(W_k.shape[1]), dim=0) @ X


def attend__keys_weighed(y, X, W_q, W_k, W_v):
    """the keys are weighed; weigh the values"""
    return F.softmax(X @ W_k @ (y @ W_q) / math.sqrt(W_k.shape[1]), dim=0) @ (X @ W_k)


def attend__without_softmax(y, X, W_q, W_k, W_v):
    """softmax is missing"""
    return X @ W_k @ (y @ W_q) / math.sqrt(W_k.shape[1]) @ (X @ W_v)


def attend__scaled_afterwards(y, X, W_q, W_k, W_v):
    """the scores are scaled after softmax"""
    return attention(y, X, W_q, W_k, W_v, 1.0) / math.sqrt(W_k.shape[1])


def attend__exchanged(y, X, W_q, W_k, W_v):
    """W^Q and W^K are exchanged"""
    return attention(y, X, W_k, W_q, W_v, math.sqrt(W_k.shape[1]))


def attend__weights_alone(y, X, W_q, W_k, W_v):
    """these are the weights"""
    return F.softmax(X @ W_k @ (y @ W_q) / math.sqrt(W_k.shape[1]), dim=0)


def attend__keys_not_projected(y, X, W_q, W_k, W_v):
    """It raised"""
    return F.softmax(X @ (y @ W_q) / math.sqrt(W_k.shape[1]), dim=0) @ (X @ W_v)


def attend__a_row_too_many(y, X, W_q, W_k, W_v):
    """has shape (1, 2); expected (2,)"""
    return attention(y, X, W_q, W_k, W_v, math.sqrt(W_k.shape[1]))[None]


def find__too_short(keys, j):
    """points the right way, but is too short"""
    return keys[j]


def find__opposite(keys, j):
    """instead"""
    return -50 * keys[j]


def find__first_key(keys, j):
    """looks at key"""
    return 50 * keys[0]


def find__next_key(keys, j):
    """looks at key"""
    return 50 * keys[(j + 1) % len(keys)]


def find__all_keys(keys, j):
    """expected (2,), as long as a key"""
    return 50 * keys


def find__nothing(keys, j):
    """the same weight"""
    return 0 * keys[j]


def find__number_of_the_key(keys, j):
    """expected a Tensor"""
    return j


def find__endless(keys, j):
    """is not finite"""
    return keys[j] * tt.inf


def find__a_weight_for_each_key(keys, j):
    """expected (2,), as long as a key"""
    return tt.one_hot(tt.asarray(j), len(keys)).float() * 50
