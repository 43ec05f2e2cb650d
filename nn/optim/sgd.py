"""Stochastic gradient descent, with momentum in both classical forms."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tinytensor as tt
from tinytensor.tensor import wrap

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

    def _update(self, xp: Any, values: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, momentum, weight_decay = float(group["lr"]), float(group["momentum"]), float(group["weight_decay"])
        nesterov, sign = group["nesterov"], -1.0 if group["maximize"] else 1.0
        arrays, share = [values, gradient], 1.0
        if momentum:
            if "momentum_buffer" in state:
                share = 1.0 - float(group["dampening"])
            else:
                state["momentum_buffer"] = wrap(xp.zeros_like(values), None)
            arrays.append(state["momentum_buffer"]._data)

        def update(pieces: list[Any]) -> None:
            theta, g, *buffer, d, s = pieces
            xp.multiply(g, sign, out=d)
            if weight_decay:
                xp.multiply(theta, weight_decay, out=s)
                xp.add(d, s, out=d)
            if momentum:
                (b,) = buffer
                xp.multiply(b, momentum, out=b)
                xp.multiply(d, share, out=s)
                xp.add(b, s, out=b)
                if nesterov:
                    xp.multiply(b, momentum, out=s)
                    xp.add(d, s, out=d)
                else:
                    d = b
            xp.multiply(d, lr, out=s)
            xp.subtract(theta, s, out=theta)

        self._in_pieces(xp, arrays, update)


def sgd_formula(
    theta: tt.Tensor,
    g: tt.Tensor,
    b: tt.Tensor | None = None,
    *,
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
) -> tuple[tt.Tensor, tt.Tensor]:
    """One step of `SGD` as it is written: the new theta and b. Before the first step b is None."""
    if maximize:
        g = -g
    g = g + weight_decay * theta
    b = g if b is None else momentum * b + (1 - dampening) * g
    direction = g + momentum * b if nesterov else b if momentum else g
    return theta - lr * direction, b
