"""Stochastic gradient descent, with momentum in both classical forms."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tinytensor as tt

from .optimizer import Optimizer


class SGD(Optimizer):
    r"""Stochastic gradient descent (Robbins & Monro 1951), optionally with momentum or Nesterov's (Sutskever 2013).

        g_t = \nabla f(theta_{t-1}) + weight_decay * theta_{t-1}
        b_t = momentum * b_{t-1} + (1 - dampening) * g_t,    b_1 = g_1
        theta_t = theta_{t-1} - lr * b_t                      or, with Nesterov, lr * (g_t + momentum * b_t)

    Args:
        params: Tensors or groups of them.
        lr: the learning rate.
        momentum: how much of the former direction remains.
        dampening: how much of the gradient the direction leaves out.
        weight_decay: the L2 penalty's factor.
        nesterov: look ahead; needs a momentum and no dampening.
        maximize: go up the gradient instead of down.

    Raises ValueError for settings out of range.
    """

    state_names = ("momentum_buffer",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "nesterov": nesterov, "maximize": maximize})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        self._check_range(group, "momentum", 0.0, math.inf)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError(
                "SGD: nesterov needs a momentum above 0 and a dampening of 0, "
                f"got momentum {group['momentum']!r} and dampening {group['dampening']!r}"
            )

    def update(
        self, theta: tt.Tensor, g: tt.Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> tuple[tt.Tensor, dict[str, Any]]:
        """The equations above."""
        momentum = group["momentum"]
        g = -g if group["maximize"] else g
        g = g + group["weight_decay"] * theta
        if not momentum:
            return theta - group["lr"] * g, {}
        b = state.get("momentum_buffer")
        b = g if b is None else momentum * b + (1 - group["dampening"]) * g
        direction = g + momentum * b if group["nesterov"] else b
        return theta - group["lr"] * direction, {"momentum_buffer": b}
