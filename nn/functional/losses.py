"""Losses: how far a prediction is from its target."""

from __future__ import annotations

import warnings
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import fusible
from tinytensor.typing import ArrayLike, Operand

from .activations import log_softmax, relu
from .checks import beside, check_range
from .precision import summed
from .similarity import cosine_similarity


def _reduce(losses: Any, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    return tt.mean(losses) if reduction == "mean" else tt.sum(losses)


def _check_reduction(name: str, reduction: str) -> None:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{name}: reduction must be 'none', 'mean' or 'sum', got {reduction!r}")


# ---- cross-entropy


@tt.op
def _cross_entropy(logits, target, weight, *, ignore_index, label_smoothing, reduction):
    """-log softmax(logits)[target] for each row; with label smoothing, a share of it for all classes.

    ∂L/∂logits = g (softmax(logits) − target), the target one-hot, of each row that counts, / their number for a mean
    """
    log_p = log_softmax(logits, dim=-1)
    counted = target != ignore_index
    safe = tt.where(counted, target, 0)
    row_weight = tt.astype(counted, logits.dtype)
    if weight is not None:
        row_weight = row_weight * tt.take(weight, safe, axis=0)
    picked = tt.squeeze(tt.take_along_axis(log_p, tt.expand_dims(safe, axis=1), axis=1), 1)
    losses = -tt.where(counted, picked, 0.0) * row_weight
    if label_smoothing > 0:
        spread = -tt.sum(log_p if weight is None else log_p * weight, axis=1) / logits.shape[1]
        losses = (1 - label_smoothing) * losses + label_smoothing * tt.where(counted, spread, 0.0)
    if reduction == "mean":
        total = tt.sum(row_weight)
        return tt.sum(losses) / tt.where(total == 0, 1.0, total)
    return _reduce(losses, reduction)


@summed
def cross_entropy(
    input: ArrayLike,
    target: ArrayLike,
    weight: Operand | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross-entropy of softmax(input) against target classes, without overflow.

    Args:
        input: logits, (classes,), (n, classes) or (n, classes, d1, ...).
        target: class indices, of shape (), (n,) or (n, d1, ...); or class probabilities of the input's shape.
        weight: (classes,), how much each class counts; no gradient flows to it.
        ignore_index: targets with this value do not count.
        reduction: "mean" (over the weights of the targets that count; 0 if none does, where PyTorch gives NaN),
            "sum" or "none".
        label_smoothing: the share of the target that is spread evenly over all classes (Szegedy et al. 2016,
            section 7).

    Raises IndexError for targets out of range; on a GPU only when a number is next read, the loss for example.
    Raises ValueError for shapes that do not fit together.
    """
    _check_reduction("cross_entropy", reduction)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing must be from 0 to 1, got {label_smoothing}")
    logits = tt.asarray(input)
    target = beside(target, logits)
    if logits.ndim > 2:
        logits = tt.moveaxis(logits, 1, -1)
    shape, classes = logits.shape[:-1], logits.shape[-1]
    if weight is not None:
        weight = _class_weight(weight, logits, classes)
    if target.dtype.kind == "f":
        return _soft_cross_entropy(logits, target, weight, reduction, label_smoothing)
    if target.shape != shape:
        raise ValueError(
            f"cross_entropy: input {tt.asarray(input).shape} needs a target of shape {shape}, got {target.shape}"
        )
    if target.dtype.kind not in "iu":
        raise TypeError(f"cross_entropy: target must be integers or probabilities, got {target.dtype}")
    flat_target = target if target.ndim == 1 else tt.reshape(target, (-1,))
    counted = tt.where(flat_target == ignore_index, 0, flat_target)
    check_range("cross_entropy", "targets", counted, classes, later=True)
    losses = _cross_entropy(
        logits if logits.ndim == 2 else tt.reshape(logits, (-1, classes)),
        flat_target,
        weight,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )
    return tt.reshape(losses, shape) if reduction == "none" and len(shape) != 1 else losses


def _class_weight(weight: Any, logits: Tensor, classes: int) -> Tensor:
    w = beside(weight, logits).detach()
    if w.shape != (classes,):
        raise ValueError(f"cross_entropy: weight needs a number for each of {classes} classes, got shape {w.shape}")
    return w


@fusible
def _soft_cross_entropy(logits: Tensor, target: Tensor, weight: Any, reduction: str, label_smoothing: float) -> Tensor:
    """The cross-entropy against class probabilities; the mean is over rows."""
    if target.ndim > 2:
        target = tt.moveaxis(target, 1, -1)
    if target.shape != logits.shape:
        raise ValueError(f"cross_entropy: probabilities {target.shape} do not have the logits' shape {logits.shape}")
    if label_smoothing > 0:
        target = target * (1 - label_smoothing) + label_smoothing / logits.shape[-1]
    terms = log_softmax(logits, dim=-1) * target
    if weight is not None:
        terms = terms * weight
    return _reduce(-tt.sum(terms, axis=-1), reduction)


@summed
def nll_loss(
    input: ArrayLike,
    target: ArrayLike,
    weight: Operand | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood: minus input[target], where the input holds log-probabilities.

    Shapes and arguments as for `cross_entropy`.
    """
    _check_reduction("nll_loss", reduction)
    log_p = tt.asarray(input)
    target = beside(target, log_p)
    if log_p.ndim > 2:
        log_p = tt.moveaxis(log_p, 1, -1)
    if target.shape != log_p.shape[:-1]:
        raise ValueError(
            f"nll_loss: input {tt.asarray(input).shape} needs a target of shape {log_p.shape[:-1]}, got {target.shape}"
        )
    if target.dtype.kind not in "iu":
        raise TypeError(f"nll_loss: target must be integers, got {target.dtype}")
    counted = target != ignore_index
    safe = tt.where(counted, target, 0)
    check_range("nll_loss", "targets", safe, log_p.shape[-1])
    row_weight = tt.astype(counted, log_p.dtype)
    if weight is not None:
        row_weight = row_weight * tt.take(weight, safe, axis=0)
    picked = tt.squeeze(tt.take_along_axis(log_p, tt.expand_dims(safe, axis=-1), axis=-1), -1)
    losses = tt.where(counted, -picked, 0.0) * row_weight
    if reduction == "mean":
        total = tt.sum(row_weight)
        return tt.sum(losses) / tt.where(total == 0, 1.0, total)
    return _reduce(losses, reduction)


# ---- differences


def _difference(name: str, input: Any, target: Any) -> Tensor:
    """input - target. Warns if the shapes differ, since broadcasting is then seldom intended."""
    x = tt.asarray(input)
    y = beside(target, x)
    if x.shape != y.shape:
        warnings.warn(
            f"{name}: input {x.shape} and target {y.shape} differ in shape and are broadcast; "
            "reshape one of them if that is not meant",
            UserWarning,
            stacklevel=5,  # behind this function's caller come its wrappers from `fusible` and `summed`
        )
    return x - y


def _weight(name: str, weight: Any, losses: Tensor) -> Tensor:
    """The weights of losses, one for each loss."""
    w = beside(weight, losses)
    if w.shape != losses.shape:
        raise ValueError(f"{name}: weight {w.shape} must have the shape of the losses, {losses.shape}")
    return w


def _weigh(name: str, losses: Tensor, weight: Operand | None, reduction: str) -> Tensor:
    """Multiply each loss by its weight and reduce; a mean divides by the sum of the weights."""
    if weight is None:
        return _reduce(losses, reduction)
    w = _weight(name, weight, losses)
    return tt.sum(losses * w) / tt.sum(w) if reduction == "mean" else _reduce(losses * w, reduction)


@summed
@fusible
def mse_loss(input: ArrayLike, target: ArrayLike, reduction: str = "mean", *, weight: Operand | None = None) -> Tensor:
    """The squared difference. Warns if the shapes differ, since broadcasting is then seldom intended.

    Args:
        weight: how much each element counts, in the shape of the losses; a mean divides by the sum of the weights.
    """
    _check_reduction("mse_loss", reduction)
    return _weigh("mse_loss", tt.square(_difference("mse_loss", input, target)), weight, reduction)


@summed
@fusible
def l1_loss(input: ArrayLike, target: ArrayLike, reduction: str = "mean", *, weight: Operand | None = None) -> Tensor:
    """The absolute difference. Warns if the shapes differ. `weight` as for `mse_loss`."""
    _check_reduction("l1_loss", reduction)
    return _weigh("l1_loss", tt.abs(_difference("l1_loss", input, target)), weight, reduction)


@summed
@fusible
def smooth_l1_loss(input: ArrayLike, target: ArrayLike, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """The absolute difference |d| less beta / 2, but d² / (2 beta) below beta (Girshick 2015, equation 3).

    With beta 0 it is `l1_loss`. Warns if the shapes differ. Raises ValueError for a negative beta.
    """
    _check_reduction("smooth_l1_loss", reduction)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta must be at least 0, got {beta}")
    d = _difference("smooth_l1_loss", input, target)
    size = tt.abs(d)
    small = tt.minimum(size, beta)
    losses = size if beta == 0 else small * (size - 0.5 * small) / beta
    return _reduce(losses, reduction)


@summed
@fusible
def huber_loss(
    input: ArrayLike, target: ArrayLike, reduction: str = "mean", delta: float = 1.0, weight: Operand | None = None
) -> Tensor:
    """d² / 2 where the difference d is small, delta (|d| - delta / 2) where |d| is delta and more (Huber 1964).

    Warns if the shapes differ. Raises ValueError unless delta is above 0.

    Args:
        weight: how much each element counts, in the shape of the losses; a mean divides by their number, as in PyTorch.
    """
    _check_reduction("huber_loss", reduction)
    if not delta > 0:
        raise ValueError(f"huber_loss: delta must be above 0, got {delta}")
    d = _difference("huber_loss", input, target)
    size = tt.abs(d)
    small = tt.minimum(size, delta)
    losses = small * (size - 0.5 * small)
    return _reduce(losses if weight is None else losses * _weight("huber_loss", weight, losses), reduction)


# ---- probabilities, and yes or no


@summed
@fusible
def kl_div(input: ArrayLike, target: ArrayLike, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target (log target - input): how far probabilities are from a target's (Kullback and Leibler 1951).

    Args:
        input: log-probabilities, as from `log_softmax`.
        target: probabilities, or with `log_target` their logarithms. A probability of 0 costs 0.
        reduction: "batchmean", the sum divided by the length of the first axis, gives the divergence per distribution,
            as defined; "mean" divides by the number of all elements, "sum" and "none" as elsewhere.
    """
    if reduction != "batchmean":
        _check_reduction("kl_div", reduction)
    log_q = tt.asarray(input)
    p = beside(target, log_q)
    losses = tt.exp(p) * (p - log_q) if log_target else tt.special.xlogy(p, p) - p * log_q
    if reduction == "batchmean":
        return tt.sum(losses) / (losses.shape[0] if losses.ndim else 1)
    return _reduce(losses, reduction)


def _log(xp, x):
    """The logarithm of a probability, at least -100."""
    return xp.where(x > 0, xp.maximum(xp.log(xp.where(x > 0, x, 1.0)), -100.0), -100.0)


def _of_probability(xp, g, x, y):
    """g ⊙ (x − y) / (x ⊙ (1 − x)), by at least 10⁻¹² divided"""
    return g * (x - y) / xp.maximum(x * (1 - x), 1e-12)


def _of_target(xp, g, x):
    """g ⊙ (log(1 − x) − log(x))"""
    return g * (_log(xp, 1 - x) - _log(xp, x))


@tt.op(x=_of_probability, y=_of_target)
def _binary_cross_entropy(xp, x, y):
    """-(y log x + (1 - y) log(1 - x)), each logarithm at least -100, for a probability x and a target y."""
    return -(y * _log(xp, x) + (1 - y) * _log(xp, 1 - x))


@summed
def binary_cross_entropy(
    input: ArrayLike, target: ArrayLike, weight: Operand | None = None, reduction: str = "mean"
) -> Tensor:
    """-(y log x + (1 - y) log(1 - x)) of probabilities x; a logarithm below -100 counts as -100.

    For logits, `binary_cross_entropy_with_logits` is exact, and this is not.

    Args:
        input: probabilities, any shape.
        target: probabilities, of the same shape.
        weight: how much each element counts.

    Raises ValueError if shapes differ, and for an input that is not from 0 to 1.
    """
    _check_reduction("binary_cross_entropy", reduction)
    x = tt.asarray(input)
    y = beside(target, x)
    if x.shape != y.shape:
        raise ValueError(f"binary_cross_entropy: input {x.shape} and target {y.shape} must have the same shape")
    if not bool(tt.all((x >= 0) & (x <= 1))):
        raise ValueError(
            "binary_cross_entropy: input must be probabilities, from 0 to 1; of logits take "
            "binary_cross_entropy_with_logits"
        )
    losses = _binary_cross_entropy(x, y)
    return _reduce(losses if weight is None else losses * weight, reduction)


@summed
@fusible
def binary_cross_entropy_with_logits(
    input: ArrayLike,
    target: ArrayLike,
    weight: Operand | None = None,
    reduction: str = "mean",
    pos_weight: Operand | None = None,
) -> Tensor:
    """-(y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))), without overflow.

    Args:
        input: logits, any shape.
        target: probabilities, of the same shape.
        weight: how much each element counts.
        pos_weight: how much the positive part counts.
    """
    _check_reduction("binary_cross_entropy_with_logits", reduction)
    x = tt.asarray(input)
    y = beside(target, x)
    if x.shape != y.shape:
        raise ValueError(
            f"binary_cross_entropy_with_logits: input {x.shape} and target {y.shape} must have the same shape"
        )
    # -log sigmoid(x) = softplus(-x) and -log(1 - sigmoid(x)) = softplus(x) = x + softplus(-x)
    positive = 1.0 if pos_weight is None else pos_weight
    losses = (1 - y) * x + ((1 - y) + positive * y) * tt.softplus(-x)
    if weight is not None:
        losses = losses * weight
    return _reduce(losses, reduction)


# ---- likeness


@summed
@fusible
def cosine_embedding_loss(
    input1: ArrayLike, input2: ArrayLike, target: ArrayLike, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos of two vectors that belong together (target 1), max(0, cos - margin) of others (target -1).

    Shapes: inputs (batch, features) and target (batch,), or (features,) and ().
    Raises ValueError if they do not fit.
    """
    _check_reduction("cosine_embedding_loss", reduction)
    x = tt.asarray(input1)
    y, target = beside(input2, x), beside(target, x)
    if x.shape != y.shape or x.ndim not in (1, 2) or target.shape != x.shape[:-1]:
        raise ValueError(
            "cosine_embedding_loss: expected two inputs (batch, features) and a target (batch,), all without the batch "
            f"for one pair; got {x.shape}, {y.shape} and {target.shape}"
        )
    cosine = cosine_similarity(x, y, dim=-1)
    apart = tt.where(target == -1, relu(cosine - margin), 0.0)
    return _reduce(tt.where(target == 1, 1 - cosine, apart), reduction)
