"""Adam, and AdamW, which takes the weight decay out of the gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tinytensor as tt
from tinytensor.tensor import wrap

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
        eps: what keeps the denominator from 0.
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
        self._launches: dict[tuple[Any, ...], list[tuple[Any, list[Any]]]] = {}
        super().__init__(params, {**defaults, "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        self._check_range(group, "eps", 0.0, math.inf)
        betas = group["betas"]
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"{self._name}: betas must be two numbers, at least 0 and below 1, got {betas!r}")

    def _required_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("step", "exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group.get("amsgrad") else []))

    def _update(self, xp: Any, values: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]
        state["step"] = t = state.get("step", 0) + 1
        for name in names:
            if name not in state:
                state[name] = wrap(xp.zeros_like(values), None)

        lr, weight_decay, sign = float(group["lr"]), float(group["weight_decay"]), -1.0 if group["maximize"] else 1.0
        beta1, beta2 = float(group["betas"][0]), float(group["betas"][1])
        # m^ / (sqrt(v^) + eps) with the corrections taken out of the arrays (the paper, end of section 2).
        correction = math.sqrt(1.0 - beta2**t)
        alpha = lr * correction / (1.0 - beta1**t)
        eps = float(group["eps"]) * correction
        shrink = 1.0 - lr * weight_decay if group["decoupled_weight_decay"] else 1.0
        penalty = 0.0 if group["decoupled_weight_decay"] else weight_decay

        arrays = [values, gradient, *(state[name]._data for name in names)]
        if len(arrays) == 4 and (adam := xp.kernel("adam", *arrays)):
            scalars = (alpha, beta1, 1.0 - beta1, beta2, 1.0 - beta2, eps, shrink, penalty, sign)
            self._launches.setdefault((values.dtype, *scalars), []).append((adam, arrays))
            return

        def update(pieces: list[Any]) -> None:
            theta, g, m, v, *largest, d, s = pieces
            if sign < 0:
                g = xp.multiply(g, sign, out=d)
            if penalty:
                xp.multiply(theta, penalty, out=s)
                g = xp.add(g, s, out=d)
            xp.multiply(m, beta1, out=m)
            xp.multiply(g, 1.0 - beta1, out=s)
            xp.add(m, s, out=m)
            xp.multiply(v, beta2, out=v)
            xp.multiply(g, g, out=s)
            xp.multiply(s, 1.0 - beta2, out=s)
            xp.add(v, s, out=v)
            for maximum in largest:
                v = xp.maximum(maximum, v, out=maximum)
            xp.sqrt(v, out=s)
            xp.add(s, eps, out=s)
            xp.divide(m, s, out=s)
            xp.multiply(s, alpha, out=s)
            if shrink != 1.0:
                xp.multiply(theta, shrink, out=theta)
            xp.subtract(theta, s, out=theta)

        self._in_pieces(xp, arrays, update)

    def _work_off(self) -> None:
        """A kernel updates all parameters whose settings are the same at once."""
        for (_, *scalars), launches in self._launches.items():
            kernel, _ = launches[0]
            kernel([arrays for _, arrays in launches], scalars)
        super()._work_off()

    def _forget_work(self) -> None:
        self._launches.clear()
        super()._forget_work()


class AdamW(Adam):
    """Adam with decoupled weight decay: the parameter shrinks by itself, and its moments do not see it.

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


def adam_formula(
    theta: tt.Tensor,
    g: tt.Tensor,
    m: tt.Tensor,
    v: tt.Tensor,
    t: int,
    largest: tt.Tensor | None = None,
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = False,
    maximize: bool = False,
) -> tuple[tt.Tensor, tt.Tensor, tt.Tensor, tt.Tensor | None]:
    """Step t of `Adam` (or `AdamW`) as it is written: the new theta, m, v, and with AMSGrad the largest v so far."""
    beta1, beta2 = betas
    if maximize:
        g = -g
    decay = 0.0
    if decoupled_weight_decay:
        decay = lr * weight_decay
    else:
        g = g + weight_decay * theta
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    largest = None if largest is None else tt.maximum(largest, v)
    m_hat = m / (1 - beta1**t)
    v_hat = (v if largest is None else largest) / (1 - beta2**t)
    return theta - lr * m_hat / (tt.sqrt(v_hat) + eps) - decay * theta, m, v, largest
