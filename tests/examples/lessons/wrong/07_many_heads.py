"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import math

import tinytensor as tt
from tinytensor.nn import functional as F


def split_heads__cuts_positions(x, num_heads):
    """it cuts positions apart and not features"""
    return x.reshape(num_heads, len(x), -1)


def split_heads__heads_in_the_middle(x, num_heads):
    """the heads are in the middle"""
    return x.reshape(len(x), num_heads, -1)


def split_heads__every_third(x, num_heads):
    """the features of the heads alternate"""
    return x.reshape(len(x), -1, num_heads).permute(2, 0, 1)


def split_heads__size_and_number_exchanged(x, num_heads):
    """expected d_model / num_heads"""
    return x.reshape(len(x), -1, num_heads).permute(1, 0, 2)


def split_heads__transposed(x, num_heads):
    """positions and features of each head are exchanged"""
    return x.reshape(len(x), num_heads, -1).permute(1, 2, 0)


def split_heads__with_numbers(x, num_heads):
    """It raised"""
    return x.reshape(6, 2, 4).permute(1, 0, 2)


def split_heads__reversed(x, num_heads):
    """the heads come in the reverse order"""
    return x.reshape(len(x), num_heads, -1).permute(1, 0, 2)[::-1]


def split_heads__first_head(x, num_heads):
    """only one head came out"""
    return x[:, : x.shape[1] // num_heads]


def heads_of(x, heads, scale=None):
    return [F.scaled_dot_product_attention(x @ q, x @ k, x @ v, scale=scale) for q, k, v in heads]


def multi_head__without_w_o(x, heads, w_o):
    """W^O is missing"""
    return tt.concat(heads_of(x, heads), axis=-1)


def multi_head__without_scale(x, heads, w_o):
    """the scores are not scaled"""
    return tt.concat(heads_of(x, heads, 1.0), axis=-1) @ w_o


def multi_head__divided_by_d_k(x, heads, w_o):
    """divided by d_k, not by its square root"""
    return tt.concat(heads_of(x, heads, 1 / heads[0][0].shape[1]), axis=-1) @ w_o


def multi_head__divided_by_root_of_d_model(x, heads, w_o):
    """divided by √d_model"""
    return tt.concat(heads_of(x, heads, x.shape[1] ** -0.5), axis=-1) @ w_o


def multi_head__first_head_twice(x, heads, w_o):
    """every head has the matrices of the first"""
    return tt.concat(heads_of(x, [heads[0]] * len(heads)), axis=-1) @ w_o


def multi_head__reversed(x, heads, w_o):
    """the heads come in the reverse order"""
    return tt.concat(heads_of(x, heads)[::-1], axis=-1) @ w_o


def multi_head__alternating(x, heads, w_o):
    """the numbers of the heads alternate"""
    return tt.stack(heads_of(x, heads), axis=-1).reshape(len(x), -1) @ w_o


def multi_head__over_queries(x, heads, w_o):
    """softmax is over the queries"""
    found = [F.softmax(x @ q @ (x @ k).mT / math.sqrt(q.shape[1]), dim=0) @ (x @ v) for q, k, v in heads]
    return tt.concat(found, axis=-1) @ w_o


def multi_head__keys_for_values(x, heads, w_o):
    """keys are weighed"""
    return tt.concat(heads_of(x, [(q, k, k) for q, k, _ in heads]), axis=-1) @ w_o


def multi_head__stacked(x, heads, w_o):
    """It raised"""
    return tt.concat(heads_of(x, heads), axis=0) @ w_o
