"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import math

import tinytensor as tt
from tinytensor.nn import functional as F


def causal_weights(scores):
    future = tt.triu(tt.ones(scores.shape, dtype=tt.bool), k=1)
    return F.softmax(scores.masked_fill(future, -math.inf), dim=-1)


def shifted(ids, begin, end):
    return tt.concat([tt.asarray([begin]), ids]), tt.concat([ids, tt.asarray([end])])


def causal_weights__large_number(scores):
    place = tt.arange(len(scores))
    return F.softmax(tt.where(place[None] > place[:, None], -1e9, scores), dim=1)


def causal_weights__added(scores):
    return F.softmax(scores + tt.triu(tt.full(scores.shape, -math.inf), k=1), dim=-1)


def causal_weights__made_to_add_up(scores):
    weights = tt.tril(F.softmax(scores, dim=-1))
    return weights / weights.sum(axis=-1, keepdims=True)


def causal_weights__row_by_row(scores):
    found = tt.zeros(scores.shape)
    for i in range(len(scores)):
        found[i, : i + 1] = F.softmax(scores[i, : i + 1], dim=0)
    return found


def causal_weights__in_place(scores):
    scores[tt.triu(tt.ones(scores.shape, dtype=tt.bool), k=1)] = -math.inf
    return F.softmax(scores, dim=-1)


def shifted__lists(ids, begin, end):
    return [begin, *ids.tolist()], [*ids.tolist(), end]


def shifted__of_the_whole(ids, begin, end):
    whole = tt.concat([tt.asarray([begin]), ids, tt.asarray([end])])
    return whole[:-1], whole[1:]
