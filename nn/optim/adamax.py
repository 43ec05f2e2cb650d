"""Adamax: Adam with the largest gradient instead of the mean square."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tinytensor as tt

from .optimizer import Optimizer


class Adamax(Optimizer):
    r"""Adamax: Adam by the infinity norm.

    Kingma & Ba 2015, "Adam: A Method for Stochastic Optimization", Algorithm 2 (section 7.1); eps as in PyTorch:

        g_t = \nabla f(theta_{t-1}) + weight_decay * theta_{t-1}
        m_t = beta_1 * m_{t-1} + (1 - beta_1) * g_t
        u_t = max(beta_2 * u_{t-1}, |g_t| + eps)
        theta_t = theta_{t-1} - lr / (1 - beta_1^t) * m_t / u_t

    Args:
        params: Tensors or groups of them.
        lr: the step size.
        betas: the decay rates of the first moment and of the norm.
        eps: keeps the denominator from 0.
        weight_decay: the L2 penalty's factor.
        maximize: go up the gradient instead of down.

    Raises ValueError for settings out of range.
    """

    state_names = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        self._check_range(group, "eps", 0.0, math.inf)
        self._check_betas(group)

    def _required_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "exp_avg", "exp_inf")

    def update(
        self, theta: tt.Tensor, g: tt.Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> tuple[tt.Tensor, dict[str, Any]]:
        """Algorithm 2 of the paper."""
        beta1, beta2 = group["betas"]
        t = state.get("step", 0) + 1
        g = -g if group["maximize"] else g
        g = g + group["weight_decay"] * theta
        m = beta1 * state.get("exp_avg", 0.0) + (1 - beta1) * g
        u = tt.maximum(beta2 * state.get("exp_inf", 0.0), tt.abs(g) + group["eps"])
        return theta - group["lr"] / (1 - beta1**t) * m / u, {"step": t, "exp_avg": m, "exp_inf": u}
