"""The projections before attention: from x to the queries, keys and values of one head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..attention import MultiheadAttention
from .heads import Head
from .weights import choose, to_numpy

AGREEMENT = 1e-3


@dataclass(frozen=True, eq=False)
class Projections:
    """Q = x W^Q + b^Q, K = m W^K + b^K and V = m W^V + b^V of one head (Vaswani et al. 2017, section 3.2.2).

    Attributes:
        x: (target, size), the input of the queries.
        memory: (source, size), the input of the keys and values; in self-attention it is x.
        weights: W^Q, W^K and W^V, (size, d_k), (size, d_k) and (size, d_v).
        biases: one vector for each; None for none.
        scale: the layer's factor of the scores; None if only matrices were given.
        name: the name of the head, for the title; "" if there is only one.
    """

    x: np.ndarray
    memory: np.ndarray
    weights: list[np.ndarray]
    biases: list[np.ndarray] | None
    scale: float | None
    name: str

    def project(self) -> list[np.ndarray]:
        """Q, K and V."""
        inputs = (self.x, self.memory, self.memory)
        biases = self.biases or (0.0, 0.0, 0.0)
        return [x @ w + b for x, w, b in zip(inputs, self.weights, biases)]

    def check(self, head: Head) -> None:
        """Raise ValueError unless they give the query, key and value of a head."""
        for name, made, read in zip(("query", "key", "value"), self.project(), (head.query, head.key, head.value)):
            if made.shape != read.shape or not np.allclose(made, read, rtol=AGREEMENT, atol=AGREEMENT):
                raise ValueError(
                    f"attention_steps: x times the weights gives another {name}, {made.shape}, than was given, "
                    f"{read.shape}; expected the x that this layer read, and the same head and sample"
                )


def read_projections(x: Any, weights: Any, head: int, sample: int) -> Projections:
    """The projections of one head from the user's x and weights.

    Args:
        x: (length, size), or a batch in the layout of the layer; or a pair of these, for queries and for keys.
        weights: a MultiheadAttention, or W^Q, W^K and W^V, (size, d_k) each.

    Raises ValueError if shapes do not fit or numbers are not finite.
    """
    layer = weights if isinstance(weights, MultiheadAttention) else None
    batch_first = layer is None or layer.batch_first
    pair = x if isinstance(x, tuple) and len(x) == 2 and np.ndim(x[0]) > 1 else (x, x)
    inputs, memory = (_sequence(item, sample, batch_first) for item in pair)
    matrices, biases = _of_layer(layer, head) if layer is not None else (_matrices(weights), None)
    name = f", head {head}" if layer is not None and layer.num_heads > 1 else ""
    for what, given, matrix in zip(("queries", "keys", "values"), (inputs, memory, memory), matrices):
        if given.shape[1] != matrix.shape[0]:
            raise ValueError(
                f"attention_steps: x of the {what}, {given.shape}, and their weights, {matrix.shape}, do not fit; "
                "expected (length, size) and (size, d_k)"
            )
    if not all(np.isfinite(array).all() for array in (inputs, memory, *matrices, *(biases or ()))):
        raise ValueError("attention_steps: x or weights hold numbers that are not finite")
    return Projections(inputs, memory, matrices, biases, None if layer is None else layer.scale, name)


def _sequence(x: Any, sample: int, batch_first: bool) -> np.ndarray:
    """One sample, (length, size)."""
    array = to_numpy(x).astype(np.float64)
    if array.ndim == 3:
        array = array if batch_first else np.moveaxis(array, 1, 0)
        array = array[choose(sample, len(array), "sample")[0]]
    if array.ndim != 2:
        raise ValueError(f"attention_steps: x has shape {array.shape}; expected (length, size) or a batch of that")
    return array


def _matrices(weights: Any) -> list[np.ndarray]:
    if not isinstance(weights, (list, tuple)) or len(weights) != 3:
        raise ValueError(
            f"attention_steps: weights is a {type(weights).__name__}; expected a MultiheadAttention or three matrices, "
            "W_Q, W_K and W_V"
        )
    matrices = [to_numpy(w).astype(np.float64) for w in weights]
    for name, matrix in zip("QKV", matrices):
        if matrix.ndim != 2:
            raise ValueError(f"attention_steps: W_{name} has shape {matrix.shape}; expected (size, d_k)")
    return matrices


def _of_layer(layer: MultiheadAttention, head: int) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
    """W^Q, W^K and W^V of a head, and their biases; the layer stacks the transposed matrices of all heads."""
    at = choose(head, layer.num_heads, "head")[0]
    rows = slice(at * layer.head_dim, (at + 1) * layer.head_dim)
    if layer.in_proj_weight is not None:
        all_heads = np.split(to_numpy(layer.in_proj_weight), 3)
    else:
        all_heads = [to_numpy(w) for w in (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)]
    matrices = [w[rows].T.astype(np.float64) for w in all_heads]
    if layer.in_proj_bias is None or not to_numpy(layer.in_proj_bias).any():
        return matrices, None
    return matrices, [b[rows].astype(np.float64) for b in np.split(to_numpy(layer.in_proj_bias), 3)]
