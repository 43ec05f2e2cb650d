"""RMSprop: the gradient, divided by its running root mean square."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tinytensor as tt

from .optimizer import Optimizer


class RMSprop(Optimizer):
    r"""RMSprop: each element of the gradient in units of its own running root mean square.

    Tieleman & Hinton 2012, "Neural Networks for Machine Learning", lecture 6.5; centred, and with momentum, as in
    Graves 2013, "Generating Sequences With Recurrent Neural Networks", equations 38 to 45:

        g_t = \nabla f(theta_{t-1}) + weight_decay * theta_{t-1}
        v_t = alpha * v_{t-1} + (1 - alpha) * g_t^2
        a_t = alpha * a_{t-1} + (1 - alpha) * g_t             if centered, else 0
        d_t = g_t / (sqrt(v_t - a_t^2) + eps)
        b_t = momentum * b_{t-1} + d_t
        theta_t = theta_{t-1} - lr * b_t

    Args:
        params: Tensors or groups of them.
        lr: the learning rate.
        alpha: the decay rate of the running averages.
        eps: keeps the denominator from 0.
        weight_decay: the L2 penalty's factor.
        momentum: how much of the former direction remains.
        centered: divide by the standard deviation of the gradient instead of its root mean square.
        maximize: go up the gradient instead of down.

    Raises ValueError for settings out of range.
    """

    state_names = ("square_avg", "momentum_buffer", "grad_avg")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered}
        super().__init__(params, {**defaults, "weight_decay": weight_decay, "maximize": maximize})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        for name, high in (("eps", math.inf), ("momentum", math.inf), ("alpha", 1.0)):
            self._check_range(group, name, 0.0, high)

    def _required_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        momentum = ["momentum_buffer"] if group.get("momentum") else []
        return ("step", "square_avg", *momentum, *(["grad_avg"] if group.get("centered") else []))

    def update(
        self, theta: tt.Tensor, g: tt.Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> tuple[tt.Tensor, dict[str, Any]]:
        """The equations above."""
        alpha, momentum = group["alpha"], group["momentum"]
        g = -g if group["maximize"] else g
        g = g + group["weight_decay"] * theta
        v = alpha * state.get("square_avg", 0.0) + (1 - alpha) * g**2
        remembered = {"step": state.get("step", 0) + 1, "square_avg": v}
        if group["centered"]:
            a = remembered["grad_avg"] = alpha * state.get("grad_avg", 0.0) + (1 - alpha) * g
            v = tt.maximum(v - a**2, 0.0)  # a variance is not negative, but rounding might make it so
        direction = g / (tt.sqrt(v) + group["eps"])
        if momentum:
            direction = remembered["momentum_buffer"] = momentum * state.get("momentum_buffer", 0.0) + direction
        return theta - group["lr"] * direction, remembered
