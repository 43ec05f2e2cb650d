"""Adagrad: the gradient, divided by the root of the sum of all its squares."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tinytensor as tt

from .optimizer import WIDER, Optimizer


class Adagrad(Optimizer):
    r"""Adagrad: steps become small where gradients have been large, and stay large where they are rare.

    Duchi, Hazan & Singer 2011, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization", with a
    diagonal matrix:

        g_t = \nabla f(theta_{t-1}) + weight_decay * theta_{t-1}
        s_t = s_{t-1} + g_t^2,    s_0 = initial_accumulator_value
        theta_t = theta_{t-1} - lr / (1 + (t - 1) * lr_decay) * g_t / (sqrt(s_t) + eps)

    As in PyTorch, a parameter has state from the beginning, before its first gradient.

    Args:
        params: Tensors or groups of them.
        lr: the learning rate.
        lr_decay: how fast it falls with the number of steps.
        weight_decay: the L2 penalty's factor.
        initial_accumulator_value: the initial value of the sums of squares.
        eps: keeps the denominator from 0.
        maximize: go up the gradient instead of down.

    Raises ValueError for settings out of range.
    """

    state_names = ("sum",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
        defaults["initial_accumulator_value"] = initial_accumulator_value
        super().__init__(params, {**defaults, "maximize": maximize})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in group["params"]:
            dtype = WIDER.get(parameter.dtype, parameter.dtype)
            first = tt.full_like(parameter, group["initial_accumulator_value"], dtype=dtype)
            self.state[parameter] = {"step": 0, "sum": first}

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        for name in ("lr_decay", "initial_accumulator_value", "eps"):
            self._check_range(group, name, 0.0, math.inf)

    def _required_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "sum")

    def update(
        self, theta: tt.Tensor, g: tt.Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> tuple[tt.Tensor, dict[str, Any]]:
        """The equations above."""
        t = state.get("step", 0) + 1
        g = -g if group["maximize"] else g
        g = g + group["weight_decay"] * theta
        s = state.get("sum", group["initial_accumulator_value"]) + g**2
        lr = group["lr"] / (1 + (t - 1) * group["lr_decay"])
        return theta - lr * g / (tt.sqrt(s) + group["eps"]), {"step": t, "sum": s}
