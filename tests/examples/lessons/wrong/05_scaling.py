"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import math

import tinytensor as tt
from tinytensor.nn import functional as F


def scores__without_scale(query, key):
    """they are not scaled"""
    return query @ key.mT


def scores__divided_by_d_k(query, key):
    """divided by d_k, not by its square root"""
    return query @ key.mT / query.shape[-1]


def scores__divided_by_root_of_targets(query, key):
    """the root of how many queries there are"""
    return query @ key.mT / math.sqrt(len(query))


def scores__divided_by_root_of_sources(query, key):
    """the root of how many keys there are"""
    return query @ key.mT / math.sqrt(len(key))


def scores__divided_by_4(query, key):
    """divided by 4 whatever d_k is"""
    return query @ key.mT / 4


def scores__multiplied(query, key):
    """multiplied by √d_k"""
    return query @ key.mT * math.sqrt(query.shape[-1])


def scores__transposed(query, key):
    """there is a row for each key"""
    return key @ query.mT / math.sqrt(query.shape[-1])


def scores__softmax(query, key):
    """softmax has been taken"""
    return F.softmax(query @ key.mT / math.sqrt(query.shape[-1]), dim=-1)


def scores__both_scaled(query, key):
    """divided by d_k, not by its square root"""
    root = math.sqrt(query.shape[-1])
    return (query / root) @ (key / root).mT


def scores__not_turned(query, key):
    """It raised"""
    return query @ key / math.sqrt(query.shape[-1])


def softmax_jacobian__by_autograd(scores):
    """write it without `tt.jacobian`"""
    return tt.jacobian(lambda s: F.softmax(s, dim=0), scores)


def softmax_jacobian__by_autograd_under_another_name(scores, derivative=tt.jacobian):
    """write it without `tt.jacobian`"""
    return derivative(lambda s: F.softmax(s, dim=0), scores)


def softmax_jacobian__diagonal(scores):
    """off the diagonal there is −p_i p_j"""
    p = F.softmax(scores, dim=0)
    return tt.eye(len(p)) * (p * (1 - p))


def softmax_jacobian__without_p_i(scores):
    """p_i is missing"""
    p = F.softmax(scores, dim=0)
    return tt.eye(len(p)) - p


def softmax_jacobian__outer_product(scores):
    """on the diagonal p_i is missing"""
    p = F.softmax(scores, dim=0)
    return -p[:, None] * p


def softmax_jacobian__plus(scores):
    """the sign of p_i p_j is turned round"""
    p = F.softmax(scores, dim=0)
    return p[:, None] * (tt.eye(len(p)) + p)


def softmax_jacobian__vector(scores):
    """it is the diagonal alone"""
    p = F.softmax(scores, dim=0)
    return p * (1 - p)


def softmax_jacobian__of_scores(scores):
    """scores stand where p has to"""
    return scores[:, None] * (tt.eye(len(scores)) - scores)


def softmax_jacobian__softmax(scores):
    """it is p itself"""
    return F.softmax(scores, dim=0)
