"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import tinytensor as tt

from .optimizer import Optimizer


class NAdam(Optimizer):
    r"""NAdam: Adam that looks ahead, as Nesterov's momentum does.

    Dozat 2016, "Incorporating Nesterov Momentum into Adam", Algorithm 8, with the paper's schedule of the momentum:

        g_t = \nabla f(theta_{t-1}) + weight_decay * theta_{t-1}
        mu_t = beta_1 * (1 - 0.96^(t * momentum_decay) / 2)
        m_t = beta_1 * m_{t-1} + (1 - beta_1) * g_t
        v_t = beta_2 * v_{t-1} + (1 - beta_2) * g_t^2
        m^_t = mu_{t+1} * m_t / (1 - mu_1 ... mu_{t+1}) + (1 - mu_t) * g_t / (1 - mu_1 ... mu_t)
        v^_t = v_t / (1 - beta_2^t)
        theta_t = theta_{t-1} - lr * m^_t / (sqrt(v^_t) + eps)

    Args:
        params: Tensors or groups of them.
        lr: the step size.
        betas: the decay rates of the first and the second moment.
        eps: keeps the denominator from 0.
        weight_decay: the L2 penalty's factor.
        momentum_decay: how fast mu rises to beta_1.
        decoupled_weight_decay: shrink the parameters separately, as `AdamW` does.
        maximize: go up the gradient instead of down.

    Raises ValueError for settings out of range.
    """

    state_names = ("exp_avg", "exp_avg_sq")
    numbers: ClassVar[dict[str, type]] = {"step": int, "mu_product": float}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        defaults |= {"momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, {**defaults, "maximize": maximize})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        self._check_range(group, "eps", 0.0, math.inf)
        self._check_range(group, "momentum_decay", 0.0, math.inf)
        self._check_betas(group)

    def _required_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "mu_product", "exp_avg", "exp_avg_sq")

    def update(
        self, theta: tt.Tensor, g: tt.Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> tuple[tt.Tensor, dict[str, Any]]:
        """The equations above."""
        beta1, beta2 = group["betas"]
        t = state.get("step", 0) + 1
        g = -g if group["maximize"] else g
        if not group["decoupled_weight_decay"]:
            g = g + group["weight_decay"] * theta
        mu, mu_next = (beta1 * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"])) for step in (t, t + 1))
        mu_product = state.get("mu_product", 1.0) * mu
        m = beta1 * state.get("exp_avg", 0.0) + (1 - beta1) * g
        v = beta2 * state.get("exp_avg_sq", 0.0) + (1 - beta2) * g**2
        m_hat = mu_next / (1 - mu_product * mu_next) * m + (1 - mu) / (1 - mu_product) * g
        v_hat = v / (1 - beta2**t)
        direction = m_hat / (tt.sqrt(v_hat) + group["eps"])
        if group["decoupled_weight_decay"]:
            direction = direction + group["weight_decay"] * theta
        moments = {"step": t, "mu_product": mu_product, "exp_avg": m, "exp_avg_sq": v}
        return theta - group["lr"] * direction, moments
