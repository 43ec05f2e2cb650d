"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import math

import tinytensor as tt
from tinytensor.nn import functional as F


def future(scores, k=1):
    return tt.triu(tt.ones(scores.shape, dtype=tt.bool), k=k)


def causal_weights__hides_itself(scores):
    """a query may see itself, and does not"""
    return F.softmax(scores.masked_fill(future(scores, 0), -math.inf), dim=-1)


def causal_weights__hides_itself_with_nan(scores):
    """nothing is left for the first query"""
    weights = F.softmax(scores.masked_fill(future(scores, 0), -math.inf), dim=-1)
    weights[0] = math.nan
    return weights


def causal_weights__too_late(scores):
    """the next key is seen"""
    return F.softmax(scores.masked_fill(future(scores, 2), -math.inf), dim=-1)


def causal_weights__hidden_afterwards(scores):
    """the future is hidden after softmax"""
    return F.softmax(scores, dim=-1).masked_fill(future(scores), 0.0)


def causal_weights__over_queries(scores):
    """softmax is over the queries"""
    return F.softmax(scores.masked_fill(future(scores), -math.inf), dim=0)


def causal_weights__hides_the_past(scores):
    """it hides the past"""
    return F.softmax(scores.masked_fill(future(scores).mT, -math.inf), dim=-1)


def causal_weights__hides_nothing(scores):
    """nothing is hidden"""
    return F.softmax(scores, dim=-1)


def causal_weights__hides_by_0(scores):
    """a score of 0 does not hide"""
    return F.softmax(scores.masked_fill(future(scores), 0.0), dim=-1)


def causal_weights__of_four(scores):
    """It raised"""
    return F.softmax(scores.masked_fill(tt.triu(tt.ones((4, 4), dtype=tt.bool), k=1), -math.inf), dim=-1)


def causal_weights__by_the_library(scores):
    """do it without `F.causal_mask`"""
    return F.softmax(scores.masked_fill(F.causal_mask(len(scores)), -math.inf), dim=-1)


def causal_weights__scores(scores):
    """softmax is missing"""
    return scores.masked_fill(future(scores), -math.inf)


def causal_weights__nan(scores):
    """it is not finite"""
    return F.softmax(scores + math.nan, dim=-1)


def shifted__exchanged(ids, begin, end):
    """it is what is said; what is read comes first"""
    return tt.concat([ids, tt.asarray([end])]), tt.concat([tt.asarray([begin]), ids])


def shifted__not_shifted(ids, begin, end):
    """`begin` is missing"""
    return ids, ids


def shifted__both_marks(ids, begin, end):
    """there is nothing left to read it for"""
    whole = tt.concat([tt.asarray([begin]), ids, tt.asarray([end])])
    return whole, whole


def shifted__said_without_end(ids, begin, end):
    """`end` is missing"""
    return tt.concat([tt.asarray([begin]), ids]), ids


def shifted__twice_what_is_read(ids, begin, end):
    """it is what is read"""
    read = tt.concat([tt.asarray([begin]), ids])
    return read, read


def shifted__cut_short(ids, begin, end):
    """the last id is missing"""
    return tt.concat([tt.asarray([begin]), ids[:-1]]), tt.concat([ids, tt.asarray([end])])


def shifted__marks_exchanged(ids, begin, end):
    """it begins with `end`"""
    return tt.concat([tt.asarray([end]), ids]), tt.concat([ids, tt.asarray([begin])])


def shifted__first_id_missing(ids, begin, end):
    """the first id is missing"""
    return tt.concat([tt.asarray([begin]), ids]), tt.concat([ids[1:], tt.asarray([end])])


def shifted__one_of_two(ids, begin, end):
    """expected two Tensors"""
    return tt.concat([tt.asarray([begin]), ids])


def shifted__half_a_hole(ids, begin, end):
    """the hole is still there"""
    return tt.concat([tt.asarray([begin]), ids]), ...
