"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import tinytensor as tt


def feed_forward__linear(x, w_1, b_1, w_2, b_2):
    """it is linear"""
    return (x @ w_1 + b_1) @ w_2 + b_2


def feed_forward__bent_twice(x, w_1, b_1, w_2, b_2):
    """it bends the result as well"""
    return tt.maximum(tt.maximum(x @ w_1 + b_1, 0.0) @ w_2 + b_2, 0.0)


def feed_forward__bent_at_the_end(x, w_1, b_1, w_2, b_2):
    """it bends the result; what is inside is bent"""
    return tt.maximum((x @ w_1 + b_1) @ w_2 + b_2, 0.0)


def feed_forward__without_b_2(x, w_1, b_1, w_2, b_2):
    """b₂ is missing"""
    return tt.maximum(x @ w_1 + b_1, 0.0) @ w_2


def feed_forward__without_b_1(x, w_1, b_1, w_2, b_2):
    """b₁ is missing"""
    return tt.maximum(x @ w_1, 0.0) @ w_2 + b_2


def feed_forward__b_1_late(x, w_1, b_1, w_2, b_2):
    """b₁ is added after max(0, ·)"""
    return (tt.maximum(x @ w_1, 0.0) + b_1) @ w_2 + b_2


def feed_forward__residual(x, w_1, b_1, w_2, b_2):
    """the residual connection is not in the formula"""
    return x + tt.maximum(x @ w_1 + b_1, 0.0) @ w_2 + b_2


def feed_forward__minimum(x, w_1, b_1, w_2, b_2):
    """it is min(0, ·)"""
    return tt.minimum(x @ w_1 + b_1, 0.0) @ w_2 + b_2


def feed_forward__size(x, w_1, b_1, w_2, b_2):
    """it is |·|"""
    return abs(x @ w_1 + b_1) @ w_2 + b_2


def feed_forward__hidden(x, w_1, b_1, w_2, b_2):
    """W₂ is missing"""
    return tt.maximum(x @ w_1 + b_1, 0.0)


def feed_forward__max_of_python(x, w_1, b_1, w_2, b_2):
    """It raised"""
    return max(0, x @ w_1 + b_1) @ w_2 + b_2


def without_bend__without_b_1(w_1, b_1, w_2, b_2):
    """b₁ is missing: it goes through W₂ as x does"""
    return w_1 @ w_2, b_2


def without_bend__without_b_2(w_1, b_1, w_2, b_2):
    """b₂ is missing"""
    return w_1 @ w_2, b_1 @ w_2


def without_bend__biases_added(w_1, b_1, w_2, b_2):
    """It raised"""
    return w_1 @ w_2, b_1 + b_2


def without_bend__order_turned(w_1, b_1, w_2, b_2):
    """It raised"""
    return w_2 @ w_1, b_1 @ w_2 + b_2


def without_bend__transposed(w_1, b_1, w_2, b_2):
    """it is transposed: x stands on the left of it"""
    return (w_1 @ w_2).mT, b_1 @ w_2 + b_2


def without_bend__bias_first(w_1, b_1, w_2, b_2):
    """it is the bias; the weight comes first"""
    return b_1 @ w_2 + b_2, w_1 @ w_2


def without_bend__bent(w_1, b_1, w_2, b_2):
    """max(0, ·) is in it"""
    return tt.maximum(w_1, 0.0) @ w_2, b_1 @ w_2 + b_2


def without_bend__weight_alone(w_1, b_1, w_2, b_2):
    """expected a pair"""
    return w_1 @ w_2


def without_bend__b_1_alone(w_1, b_1, w_2, b_2):
    """it is b₁"""
    return w_1 @ w_2, b_1
