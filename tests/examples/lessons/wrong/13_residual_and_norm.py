"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F


def parts(x, axis=-1):
    mean = x.mean(axis=axis, keepdims=True)
    return x - mean, ((x - mean) ** 2).mean(axis=axis, keepdims=True)


def layer_norm__by_the_library(x, weight, bias, eps=1e-5):
    """do it without `F.layer_norm`"""
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def layer_norm__by_the_module(x, weight, bias, eps=1e-5):
    """do it without `F.layer_norm`"""
    return nn.LayerNorm(len(weight), eps)(x) * weight + bias


def layer_norm__n_minus_1(x, weight, bias, eps=1e-5):
    """divided by n − 1"""
    return (x - x.mean(axis=-1, keepdims=True)) / tt.sqrt(
        x.var(axis=-1, keepdims=True, correction=1) + eps
    ) * weight + bias


def layer_norm__eps_outside(x, weight, bias, eps=1e-5):
    """eps is outside of the root"""
    apart, variance = parts(x)
    return apart / (tt.sqrt(variance) + eps) * weight + bias


def layer_norm__without_eps(x, weight, bias, eps=1e-5):
    """eps is missing"""
    apart, variance = parts(x)
    return apart / tt.sqrt(variance) * weight + bias


def layer_norm__eps_of_its_own(x, weight, bias, eps=1e-5):
    """eps is 1e-5, whatever is given"""
    apart, variance = parts(x)
    return apart / tt.sqrt(variance + 1e-5) * weight + bias


def layer_norm__over_positions(x, weight, bias, eps=1e-5):
    """are over the positions; each position has its own"""
    apart, variance = parts(x, 0)
    return apart / tt.sqrt(variance + eps) * weight + bias


def layer_norm__of_all(x, weight, bias, eps=1e-5):
    """one mean and variance for all positions"""
    apart, variance = parts(x, None)
    return apart / tt.sqrt(variance + eps) * weight + bias


def layer_norm__without_root(x, weight, bias, eps=1e-5):
    """the root is missing"""
    apart, variance = parts(x)
    return apart / (variance + eps) * weight + bias


def layer_norm__rms(x, weight, bias, eps=1e-5):
    """it is the RMS norm"""
    return x / tt.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weight + bias


def layer_norm__without_weight(x, weight, bias, eps=1e-5):
    """weight and bias are missing"""
    apart, variance = parts(x)
    return apart / tt.sqrt(variance + eps)


def layer_norm__bias_inside(x, weight, bias, eps=1e-5):
    """the weight multiplies the bias, too"""
    apart, variance = parts(x)
    return (apart / tt.sqrt(variance + eps) + bias) * weight


def layer_norm__without_keepdims(x, weight, bias, eps=1e-5):
    """It raised"""
    return (x - x.mean(axis=-1)) / tt.sqrt(x.var(axis=-1, correction=0) + eps) * weight + bias


def sublayer__turned_round(x, f, norm, norm_first):
    """this is what the other norm_first gives"""
    return norm(x + f(x)) if norm_first else x + f(norm(x))


def sublayer__always_behind(x, f, norm, norm_first):
    """with norm_first=True"""
    return norm(x + f(x))


def sublayer__always_in_front(x, f, norm, norm_first):
    """with norm_first=False"""
    return x + f(norm(x))


def sublayer__norm_is_added(x, f, norm, norm_first):
    """what is added is x, not norm(x)"""
    return norm(x) + f(norm(x)) if norm_first else norm(x + f(x))


def sublayer__without_x(x, f, norm, norm_first):
    """x is not added"""
    return f(norm(x)) if norm_first else norm(f(x))


def sublayer__norm_of_f(x, f, norm, norm_first):
    """the norm is of f's result alone"""
    return x + norm(f(x))


def sublayer__without_norm(x, f, norm, norm_first):
    """the norm is missing"""
    return x + f(x)


def sublayer__twice_normed(x, f, norm, norm_first):
    """once is enough"""
    return norm(x + f(norm(x))) if norm_first else norm(x + f(x))


def sublayer__x_lost_in_front(x, f, norm, norm_first):
    """x is not added: the norm alone comes before f"""
    return f(norm(x)) if norm_first else norm(x + f(x))
