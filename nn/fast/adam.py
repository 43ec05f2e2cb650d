"""Adam's step in place, made by hand: for a GPU's kernel, and where nothing can be compiled."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tinytensor.backend import for_array
from tinytensor.fast.texts import Way

from ..optim.adam import Adam
from ..optim.optimizer import Optimizer
from .update import Plan

WAY = Way("Adam's step", "nn.optim.adam:Adam.update", "nn.optim.optimizer:Optimizer._step_by_formula")


def by_hand(optimizer: Optimizer) -> Callable[..., Plan | None] | None:
    """A function (array, state, group) that gives a plan; None for other algorithms."""
    if type(optimizer).update is not Adam.update or "update" in vars(optimizer) or not WAY.holds():
        return None
    plans: dict[Any, Plan] = {}

    def plan_of(array: Any, state: dict[str, Any], group: dict[str, Any]) -> Plan:
        age = state.get("step", 0) + 1
        key = type(array), array.dtype, id(group), age
        if key not in plans:
            names = Adam.state_names if group["amsgrad"] else Adam.state_names[:2]
            plans[key] = Plan(_update_all, _numbers(group, age), ("theta", "g", *names), {"step": age})
        return plans[key]

    return plan_of


def _numbers(group: dict[str, Any], age: int) -> tuple[float, ...]:
    """What an update computes with, in the kernel's order; corrections taken out of arrays (the paper, section 2)."""
    lr, weight_decay, eps = float(group["lr"]), float(group["weight_decay"]), float(group["eps"])
    beta1, beta2 = float(group["betas"][0]), float(group["betas"][1])
    correction = math.sqrt(1.0 - beta2**age)
    alpha = lr * correction / (1.0 - beta1**age)
    shrink = 1.0 - lr * weight_decay if group["decoupled_weight_decay"] else 1.0
    penalty = 0.0 if group["decoupled_weight_decay"] else weight_decay
    sign = -1.0 if group["maximize"] else 1.0
    return alpha, beta1, 1.0 - beta1, beta2, 1.0 - beta2, eps * correction, shrink, penalty, sign


def _update_all(rows: Sequence[Any], numbers: tuple[float, ...]) -> None:
    """Update parameters, each a row of values, gradient and moments: by a kernel, or one after the other."""
    xp = for_array(rows[0][0])
    if kernel := xp.kernel("adam" if len(rows[0]) == 4 else "", *itertools.chain(*rows)):
        kernel(rows, numbers)
        return
    alpha, beta1, rest1, beta2, rest2, eps, shrink, penalty, sign = numbers
    for theta, g, m, v, *largest in rows:
        g = sign * g + penalty * theta if penalty else sign * g
        m *= beta1
        m += rest1 * g
        v *= beta2
        v += rest2 * (g * g)
        for maximum in largest:
            v = xp.maximum(maximum, v, out=maximum)
        theta *= shrink
        theta -= alpha * (m / (xp.sqrt(v) + eps))
