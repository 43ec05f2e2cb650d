"""Adam, and AdamW, which takes the weight decay out of the gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tinytensor as tt

from .optimizer import Optimizer


class Adam(Optimizer):
    r"""Adam: a step for each parameter by the running moments of its gradient.

    Kingma & Ba 2015, "Adam: A Method for Stochastic Optimization", Algorithm 1:

        g_t = \nabla f(theta_{t-1}) + weight_decay * theta_{t-1}
        m_t = beta_1 * m_{t-1} + (1 - beta_1) * g_t
        v_t = beta_2 * v_{t-1} + (1 - beta_2) * g_t^2
        m^_t = m_t / (1 - beta_1^t),    v^_t = v_t / (1 - beta_2^t)
        theta_t = theta_{t-1} - lr * m^_t / (sqrt(v^_t) + eps)

    Args:
        params: Tensors or groups of them.
        lr: the step size, alpha in the paper.
        betas: the decay rates of the first and the second moment.
        eps: keeps the denominator from 0.
        weight_decay: the L2 penalty's factor; with `decoupled_weight_decay` as in `AdamW`.
        amsgrad: divide by the largest second moment so far (Reddi et al. 2018, "On the Convergence of Adam and
            Beyond", Algorithm 2).
        maximize: go up the gradient instead of down.

    Raises ValueError for settings out of range.
    """

    state_names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(params, {**defaults, "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        self._check_range(group, "eps", 0.0, math.inf)
        self._check_betas(group)

    def _required_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group.get("amsgrad") else []))

    def update(
        self, theta: tt.Tensor, g: tt.Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> tuple[tt.Tensor, dict[str, Any]]:
        """Algorithm 1 of the paper."""
        beta1, beta2 = group["betas"]
        t = state.get("step", 0) + 1
        g = -g if group["maximize"] else g
        if not group["decoupled_weight_decay"]:
            g = g + group["weight_decay"] * theta
        m = beta1 * state.get("exp_avg", 0.0) + (1 - beta1) * g
        v = beta2 * state.get("exp_avg_sq", 0.0) + (1 - beta2) * g**2
        moments = {"step": t, "exp_avg": m, "exp_avg_sq": v}
        if group["amsgrad"]:
            v = moments["max_exp_avg_sq"] = tt.maximum(v, state.get("max_exp_avg_sq", 0.0))
        m_hat = m / (1 - beta1**t)
        v_hat = v / (1 - beta2**t)
        direction = m_hat / (tt.sqrt(v_hat) + group["eps"])
        if group["decoupled_weight_decay"]:
            direction = direction + group["weight_decay"] * theta
        return theta - group["lr"] * direction, moments


class AdamW(Adam):
    """Adam with decoupled weight decay: the parameter shrinks separately, without effect on its moments.

    Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization", Algorithm 2, with the schedule multiplier in lr:

        theta_t = theta_{t-1} - lr * (m^_t / (sqrt(v^_t) + eps) + weight_decay * theta_{t-1})

    The arguments are Adam's, with a weight decay of 0.01.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True
        )  # fmt: skip
