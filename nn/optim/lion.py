"""Lion: the sign of a momentum, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tinytensor as tt

from .optimizer import Optimizer


class Lion(Optimizer):
    r"""Lion: every element moves by the learning rate, and only the direction is learned.

    Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", Algorithm 2, found by search over programs:

        c_t = beta_1 * m_{t-1} + (1 - beta_1) * g_t
        theta_t = theta_{t-1} - lr * (sign(c_t) + weight_decay * theta_{t-1})
        m_t = beta_2 * m_{t-1} + (1 - beta_2) * g_t

    Its state is half of Adam's. The paper takes a learning rate 3 to 10 times smaller than AdamW's, and a weight decay
    larger by the same factor. PyTorch has no Lion; the arguments have the names of PyTorch's optimisers.

    Args:
        params: Tensors or groups of them.
        lr: how far each element moves.
        betas: the share of the momentum in the direction, and the share that remains.
        weight_decay: how much the parameters shrink in each step, times lr.
        maximize: go up the gradient instead of down.

    Raises ValueError for settings out of range.
    """

    state_names = ("exp_avg",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        self._check_betas(group)

    def _required_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg",)

    def update(
        self, theta: tt.Tensor, g: tt.Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> tuple[tt.Tensor, dict[str, Any]]:
        """Algorithm 2 of the paper."""
        beta1, beta2 = group["betas"]
        g = -g if group["maximize"] else g
        m = state.get("exp_avg", 0.0)
        direction = tt.sign(beta1 * m + (1 - beta1) * g) + group["weight_decay"] * theta
        return theta - group["lr"] * direction, {"exp_avg": beta2 * m + (1 - beta2) * g}
