"""Adadelta: steps in the units of the parameters themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tinytensor as tt

from .optimizer import Optimizer


class Adadelta(Optimizer):
    r"""Adadelta: the gradient over its root mean square, times that of the steps so far, so that units agree.

    Zeiler 2012, "ADADELTA: An Adaptive Learning Rate Method", Algorithm 1. Bahdanau et al. 2015 trained the first
    attention with it (rho = 0.95):

        g_t = \nabla f(theta_{t-1}) + weight_decay * theta_{t-1}
        v_t = rho * v_{t-1} + (1 - rho) * g_t^2
        d_t = sqrt(u_{t-1} + eps) / sqrt(v_t + eps) * g_t
        u_t = rho * u_{t-1} + (1 - rho) * d_t^2
        theta_t = theta_{t-1} - lr * d_t

    Args:
        params: Tensors or groups of them.
        lr: the factor of the steps; 1 in the paper.
        rho: the decay rate of the running averages.
        eps: makes the first steps, and keeps the denominator from 0.
        weight_decay: the L2 penalty's factor.
        maximize: go up the gradient instead of down.

    Raises ValueError for settings out of range.
    """

    state_names = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        self._check_range(group, "rho", 0.0, 1.0)
        self._check_range(group, "eps", 0.0, math.inf)

    def _required_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "square_avg", "acc_delta")

    def update(
        self, theta: tt.Tensor, g: tt.Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> tuple[tt.Tensor, dict[str, Any]]:
        """Algorithm 1 of the paper."""
        rho, eps = group["rho"], group["eps"]
        g = -g if group["maximize"] else g
        g = g + group["weight_decay"] * theta
        v = rho * state.get("square_avg", 0.0) + (1 - rho) * g**2
        u = state.get("acc_delta", tt.zeros_like(g))
        delta = tt.sqrt(u + eps) / tt.sqrt(v + eps) * g
        u = rho * u + (1 - rho) * delta**2
        return theta - group["lr"] * delta, {"step": state.get("step", 0) + 1, "square_avg": v, "acc_delta": u}
