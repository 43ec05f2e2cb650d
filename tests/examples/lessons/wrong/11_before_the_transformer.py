"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import tinytensor as tt
from tinytensor.nn import functional as F


def additive_scores__without_tanh(h, s, W, U, v):
    """tanh is missing"""
    return ((h @ W.mT)[:, None] + (s @ U.mT)[None]) @ v


def additive_scores__turned_w(h, s, W, U, v):
    """W is transposed"""
    return tt.tanh((h @ W)[:, None] + (s @ U.mT)[None]) @ v


def additive_scores__turned_u(h, s, W, U, v):
    """U is transposed"""
    return tt.tanh((h @ W.mT)[:, None] + (s @ U)[None]) @ v


def additive_scores__turned_both(h, s, W, U, v):
    """W and U are transposed"""
    return tt.tanh((h @ W)[:, None] + (s @ U)[None]) @ v


def additive_scores__exchanged(h, s, W, U, v):
    """W and U are exchanged"""
    return tt.tanh((h @ U.mT)[:, None] + (s @ W.mT)[None]) @ v


def additive_scores__transposed(h, s, W, U, v):
    """there is a row for each word"""
    return tt.tanh((s @ U.mT)[:, None] + (h @ W.mT)[None]) @ v


def additive_scores__multiplied(h, s, W, U, v):
    """W h and U s are multiplied"""
    return tt.tanh((h @ W.mT)[:, None] * (s @ U.mT)[None]) @ v


def additive_scores__tanh_last(h, s, W, U, v):
    """tanh comes last"""
    return tt.tanh(((h @ W.mT)[:, None] + (s @ U.mT)[None]) @ v)


def additive_scores__tanh_of_each(h, s, W, U, v):
    """tanh is of each alone"""
    return (tt.tanh(h @ W.mT)[:, None] + tt.tanh(s @ U.mT)[None]) @ v


def additive_scores__without_sum(h, s, W, U, v):
    """the sum over the numbers of v is missing"""
    return tt.tanh((h @ W.mT)[:, None] + (s @ U.mT)[None]) * v


def additive_scores__pair_by_pair(h, s, W, U, v):
    """It raised"""
    return tt.tanh(h @ W.mT + s @ U.mT) @ v


def context(h, memory, scale=1.0):
    return F.softmax(memory @ h * scale, dim=0) @ memory


def found__exchanged(h, memory, W_c):
    """the context comes first"""
    return tt.tanh(W_c @ tt.concat([h, context(h, memory)]))


def found__without_tanh(h, memory, W_c):
    """tanh is missing"""
    return W_c @ tt.concat([context(h, memory), h])


def found__scaled(h, memory, W_c):
    """Luong's scores are not scaled"""
    return tt.tanh(W_c @ tt.concat([context(h, memory, len(h) ** -0.5), h]))


def found__without_softmax(h, memory, W_c):
    """softmax is missing"""
    return tt.tanh(W_c @ tt.concat([memory @ h @ memory, h]))


def found__mean(h, memory, W_c):
    """every word has the same weight"""
    return tt.tanh(W_c @ tt.concat([memory.mean(axis=0), h]))


def found__best_word(h, memory, W_c):
    """the word with the largest score takes all"""
    return tt.tanh(W_c @ tt.concat([memory[(memory @ h).argmax()], h]))


def found__context(h, memory, W_c):
    """it is the context alone"""
    return context(h, memory)


def found__without_h(h, memory, W_c):
    """h is missing"""
    return tt.tanh(W_c[:, : len(h)] @ context(h, memory))


def found__added(h, memory, W_c):
    """It raised"""
    return tt.tanh(W_c @ (context(h, memory) + h))


def found__without_w_c(h, memory, W_c):
    """W_c is missing"""
    return tt.tanh(tt.concat([context(h, memory), h]))
