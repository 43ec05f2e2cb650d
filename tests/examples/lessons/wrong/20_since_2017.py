"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import numpy as np


def mean_square(x):
    return np.mean(x**2, axis=-1, keepdims=True)


def rms_norm__layer_norm(x, weight, eps):
    """the mean is taken away first"""
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt(mean_square(x) + eps) * weight


def rms_norm__variance(x, weight, eps):
    """divided by the spread around the mean"""
    return weight * x / np.sqrt(x.var(axis=1, keepdims=True) + eps)


def rms_norm__of_all(x, weight, eps):
    """all positions share one mean"""
    return x / np.sqrt(np.mean(x**2) + eps) * weight


def rms_norm__first_axis(x, weight, eps):
    """the mean is over the positions"""
    return x / np.sqrt(np.mean(x**2, axis=0) + eps) * weight


def rms_norm__length(x, weight, eps):
    """the squares are added up"""
    return x / np.sqrt(np.sum(x**2, axis=-1, keepdims=True) + eps) * weight


def rms_norm__without_root(x, weight, eps):
    """the root is missing"""
    return x / (mean_square(x) + eps) * weight


def rms_norm__without_eps(x, weight, eps):
    """eps is missing"""
    return x / np.sqrt(mean_square(x)) * weight


def rms_norm__eps_outside(x, weight, eps):
    """eps is added to the root"""
    return x / (np.sqrt(mean_square(x)) + eps) * weight


def rms_norm__without_weight(x, weight, eps):
    """the weight is missing"""
    return x / np.sqrt(mean_square(x) + eps)


def rms_norm__in_place(x, weight, eps):
    """an argument has changed"""
    x /= np.sqrt(mean_square(x) + eps)
    x *= weight
    return x


def rms_norm__axis_not_kept(x, weight, eps):
    """It raised"""
    return x / np.sqrt(np.mean(x**2, axis=-1) + eps) * weight


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def swiglu__interchanged(x, w, v, out):
    """w and v are interchanged"""
    return (x @ v * sigmoid(x @ v) * (x @ w)) @ out


def swiglu__glu(x, w, v, out):
    """the gate is a sigmoid alone"""
    return (sigmoid(x @ w) * (x @ v)) @ out


def swiglu__without_v(x, w, v, out):
    """v is missing"""
    return (x @ w * sigmoid(x @ w)) @ out


def swiglu__added(x, w, v, out):
    """the two maps are added"""
    return (x @ w * sigmoid(x @ w) + x @ v) @ out


def swiglu__relu(x, w, v, out):
    """that is ReGLU"""
    return (np.maximum(x @ w, 0) * (x @ v)) @ out


def swiglu__of_the_product(x, w, v, out):
    """silu is of the product"""
    both = (x @ w) * (x @ v)
    return (both * sigmoid(both)) @ out


def swiglu__without_silu(x, w, v, out):
    """silu is missing"""
    return ((x @ w) * (x @ v)) @ out


def swiglu__without_gate(x, w, v, out):
    """the gate is missing"""
    return x @ v @ out


def swiglu__sign(x, w, v, out):
    """sigmoid has the other sign"""
    return (x @ w * sigmoid(-(x @ w)) * (x @ v)) @ out


def swiglu__not_back(x, w, v, out):
    """expected"""
    return x @ w * sigmoid(x @ w) * (x @ v)
