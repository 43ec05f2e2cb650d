"""RAdam: Adam that does not use its second moment until its estimate is good enough."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tinytensor as tt

from .optimizer import Optimizer


class RAdam(Optimizer):
    r"""RAdam: Adam with a rectified second moment, which needs no warm-up of the learning rate.

    Liu et al. 2020, "On the Variance of the Adaptive Learning Rate and Beyond", Algorithm 2:

        g_t = \nabla f(theta_{t-1}) + weight_decay * theta_{t-1}
        m_t = beta_1 * m_{t-1} + (1 - beta_1) * g_t,        m^_t = m_t / (1 - beta_1^t)
        v_t = beta_2 * v_{t-1} + (1 - beta_2) * g_t^2
        rho_inf = 2 / (1 - beta_2) - 1,    rho_t = rho_inf - 2 * t * beta_2^t / (1 - beta_2^t)
        r_t = sqrt((rho_t - 4) (rho_t - 2) rho_inf / ((rho_inf - 4) (rho_inf - 2) rho_t))
        l_t = sqrt(1 - beta_2^t) / (sqrt(v_t) + eps)
        theta_t = theta_{t-1} - lr * m^_t * r_t * l_t        if rho_t > 5, else theta_{t-1} - lr * m^_t

    Args:
        params: Tensors or groups of them.
        lr: the step size.
        betas: the decay rates of the first and the second moment.
        eps: keeps the denominator from 0.
        weight_decay: the L2 penalty's factor.
        decoupled_weight_decay: shrink the parameters separately, as `AdamW` does.
        maximize: go up the gradient instead of down.

    Raises ValueError for settings out of range.
    """

    state_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, {**defaults, "decoupled_weight_decay": decoupled_weight_decay})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        self._check_range(group, "eps", 0.0, math.inf)
        self._check_betas(group)

    def _required_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "exp_avg", "exp_avg_sq")

    def update(
        self, theta: tt.Tensor, g: tt.Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> tuple[tt.Tensor, dict[str, Any]]:
        """Algorithm 2 of the paper."""
        beta1, beta2 = group["betas"]
        t = state.get("step", 0) + 1
        g = -g if group["maximize"] else g
        if not group["decoupled_weight_decay"]:
            g = g + group["weight_decay"] * theta
        m = beta1 * state.get("exp_avg", 0.0) + (1 - beta1) * g
        v = beta2 * state.get("exp_avg_sq", 0.0) + (1 - beta2) * g**2
        direction = m / (1 - beta1**t)
        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * t * beta2**t / (1 - beta2**t)
        if rho > 5:
            r = ((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5
            direction = direction * r * (1 - beta2**t) ** 0.5 / (tt.sqrt(v) + group["eps"])
        if group["decoupled_weight_decay"]:
            direction = direction + group["weight_decay"] * theta
        return theta - group["lr"] * direction, {"step": t, "exp_avg": m, "exp_avg_sq": v}
