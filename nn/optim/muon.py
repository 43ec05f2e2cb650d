"""Muon: a momentum made orthogonal, for the matrices of hidden layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import tinytensor as tt

from .optimizer import Optimizer


class Muon(Optimizer):
    r"""Muon: the step of a matrix is the orthogonal matrix nearest to its momentum, so that all directions count.

    Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks":

        B_t = momentum * B_{t-1} + (1 - momentum) * G_t
        M_t = momentum * B_t + (1 - momentum) * G_t               with Nesterov's momentum, else B_t
        theta_t = (1 - lr * weight_decay) * theta_{t-1} - lr * scale * orthogonalized(M_t)

    For matrices only; the paper gives embeddings, the output layer, biases and the weights of norms to AdamW.
    PyTorch computes the orthogonal matrix in bfloat16; here its dtype is the parameter's (float32 for float16), so
    parameters differ by that rounding.

    Args:
        params: matrices or groups of them.
        lr: the learning rate.
        weight_decay: how much the parameters shrink in each step, times lr.
        momentum: how much of the former momentum remains.
        nesterov: look ahead.
        ns_coefficients: a, b and c of the iteration; see `orthogonalized`.
        eps: keeps its first denominator from 0.
        ns_steps: the number of iterations.
        adjust_lr_fn: the scale of an (m, n) matrix: "original" (and None) is sqrt(max(1, m / n)), the authors';
            "match_rms_adamw" is 0.2 * sqrt(max(m, n)), which suits AdamW's learning rates (Liu et al. 2025, "Muon is
            Scalable for LLM Training", section 2.2).

    Raises ValueError for settings out of range, and for parameters that are not matrices.
    """

    state_names = ("momentum_buffer",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        defaults = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov, "eps": eps}
        iteration = {"ns_coefficients": ns_coefficients, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn}
        super().__init__(params, {**defaults, **iteration})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        for name, high in (("momentum", math.inf), ("eps", math.inf), ("ns_steps", 100)):
            self._check_range(group, name, 0.0, high)
        if len(group["ns_coefficients"]) != 3:
            raise ValueError(f"Muon: ns_coefficients must be three numbers, got {group['ns_coefficients']!r}")
        if group["adjust_lr_fn"] not in (None, *SCALES):
            raise ValueError(
                f"Muon: adjust_lr_fn must be None, 'original' or 'match_rms_adamw', got {group['adjust_lr_fn']!r}"
            )
        for i, parameter in enumerate(group["params"]):
            if parameter.ndim != 2:
                raise ValueError(
                    f"Muon: parameter {i} {parameter.shape} is no matrix; give matrices to Muon, and the rest to AdamW"
                )

    def _required_state(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def update(
        self, theta: tt.Tensor, g: tt.Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> tuple[tt.Tensor, dict[str, Any]]:
        """The equations above."""
        mu = group["momentum"]
        b = mu * state.get("momentum_buffer", 0.0) + (1 - mu) * g
        m = mu * b + (1 - mu) * g if group["nesterov"] else b
        o = orthogonalized(m, group["ns_coefficients"], group["ns_steps"], group["eps"])
        scale = SCALES[group["adjust_lr_fn"] or "original"](*theta.shape)
        theta = (1 - group["lr"] * group["weight_decay"]) * theta
        return theta - group["lr"] * scale * o, {"momentum_buffer": b}


SCALES: dict[str, Callable[[int, int], float]] = {
    "original": lambda rows, columns: math.sqrt(max(1.0, rows / max(columns, 1))),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


def orthogonalized(
    x: tt.Tensor,
    coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
    steps: int = 5,
    eps: float = 1e-7,
) -> tt.Tensor:
    """Nearly U V^T of a matrix U S V^T, using only products: a Newton-Schulz iteration.

    Every singular value s, at most 1 after the division by the norm, becomes a s + b s^3 + c s^5 in each step; with
    the authors' coefficients it comes near 1 in five steps (between 0.68 and 1.16), and stays there.
    """
    a, b, c = coefficients
    if x.shape[0] > x.shape[1]:  # the smaller of the two squares
        return orthogonalized(x.mT, coefficients, steps, eps).mT
    x = x / tt.maximum(tt.linalg.matrix_norm(x), eps)
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x
