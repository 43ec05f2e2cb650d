"""The fast pair of the cross-entropy: of a row's softmax, only the largest logit and the sum are kept."""

from __future__ import annotations

import tinytensor as tt

from ..functional.losses import _cross_entropy


@_cross_entropy.forward
def cross_entropy_forward(xp, logits, target, weight, *, ignore_index, label_smoothing, reduction):
    counted = target != ignore_index
    safe = xp.astype(xp.where(counted, target, 0), tt.int64)
    row_weight = xp.astype(counted, logits.dtype)
    if weight is not None:
        weight = xp.astype(weight, logits.dtype)
        row_weight = row_weight * weight[safe]
    if cross_entropy := xp.kernel("cross_entropy", logits, weight):
        shift, total, picked, spread_over = cross_entropy(logits, safe, weight, label_smoothing > 0)
    else:
        largest = xp.row_max(logits)
        # Relative to the largest logit, so that the loss of a sure prediction keeps its digits.
        shift, shifted = largest[:, 0], logits - largest
        picked = shifted[xp.arange(len(shifted)), safe]
        if label_smoothing > 0:
            spread_over = xp.row_sum(shifted if weight is None else shifted * weight)[:, 0]
        total = xp.row_sum(xp.exp(shifted))[:, 0]
    log_total = xp.log(total)
    losses = xp.where(counted, log_total - picked, 0) * row_weight  # an ignored row may hold -inf
    if label_smoothing > 0:
        classes = logits.shape[1]
        spread = (log_total * (classes if weight is None else xp.sum(weight)) - spread_over) / classes
        losses = (1 - label_smoothing) * losses + label_smoothing * xp.where(counted, spread, 0)
    count = None
    if reduction == "mean":
        count = xp.sum(row_weight)
        count = xp.where(count == 0, logits.dtype.type(1), count)
        losses = xp.sum(losses) / count
    elif reduction == "sum":
        losses = xp.sum(losses)
    return losses, (logits, shift, total, safe, counted, row_weight, weight, count)


@_cross_entropy.backward
def cross_entropy_backward(xp, g, saved, needs, *, ignore_index, label_smoothing, reduction):
    logits, shift, total, safe, counted, row_weight, weight, count = saved
    if needs[2]:
        raise NotImplementedError("cross_entropy is not differentiable with respect to the class weights")
    if label_smoothing == 0:
        weight = None  # that of other classes counts for nothing then, not even where it is infinite
    if reduction == "mean":
        g = g / count
    hit = (1 - label_smoothing) * row_weight * g
    classes = logits.shape[1]
    spread = xp.astype(counted, logits.dtype) * (g * (label_smoothing / classes))
    factor = (hit + spread * (classes if weight is None else xp.sum(weight))) / total
    if cross_entropy_gradient := xp.kernel("cross_entropy_gradient", logits, weight):
        return cross_entropy_gradient(logits, safe, weight, shift, factor, spread, hit), None, None
    gradient = xp.exp(logits - shift[:, None])
    gradient *= factor[:, None]
    if label_smoothing > 0:
        gradient -= spread[:, None] if weight is None else spread[:, None] * weight
    gradient[xp.arange(len(safe)), safe] -= hit
    return gradient, None, None
