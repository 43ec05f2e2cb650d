"""One head of attention: its projections, its inputs, and its computation step by step."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..attention import MultiheadAttention
from ..recording import AttentionCall, record_attention
from .weights import choose, real, to_numpy

AGREEMENT = 1e-2  # tolerance between weights recorded in half precision and those computed here


@dataclass(frozen=True, eq=False)
class Head:
    """The inputs of one head, for one sample.

    Attributes:
        query, key, value: (target, d_k), (source, d_k) and (source, d_v), float64.
        hidden: (target, source), True where attention is not allowed.
        added: (target, source), the numbers that the mask adds to the scores elsewhere.
        scale: the factor of the scores.
        name: the name of the head, for the title; "" if there is only one.
    """

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    hidden: np.ndarray
    added: np.ndarray
    scale: float
    name: str

    @property
    def masked(self) -> bool:
        """True if a mask changes any score."""
        return bool(self.hidden.any() or self.added.any())

    @property
    def weights(self) -> np.ndarray:
        """The weights of all queries, (target, source)."""
        return np.array([self.follow(at).weights for at in range(len(self.query))])

    def follow(self, at: int) -> Steps:
        """softmax(q Kᵀ · scale + mask) V for the query at an index, step by step."""
        query = self.query[at]
        products = self.key @ query
        scores = products * self.scale
        masked = np.where(self.hidden[at], -math.inf, scores + self.added[at])
        largest = masked.max()
        seen = bool(largest > -math.inf)
        powers = np.exp(masked - largest) if seen else np.zeros(len(masked))
        weights = powers / max(powers.sum(), np.finfo(np.float64).tiny)
        return Steps(query, products, scores, masked, weights, weights @ self.value, seen)


@dataclass(frozen=True, eq=False)
class Steps:
    """The numbers of one query, in the order of their computation.

    Attributes:
        query: (d_k,).
        products, scores, masked, weights: (source,), a number for each key.
        result: (d_v,).
        seen: True if the query may see any key; otherwise all weights are zero.
    """

    query: np.ndarray
    products: np.ndarray
    scores: np.ndarray
    masked: np.ndarray
    weights: np.ndarray
    result: np.ndarray
    seen: bool


def read_head(
    who: str, query: Any, key: Any, value: Any, mask: Any, head: int, sample: int, scale: float | None
) -> Head:
    """One head of the user's arrays or recorded call; `who` is the function that errors name.

    Raises ValueError if shapes do not fit or numbers are not finite, and for a recorded call whose weights are not a
    softmax of products.
    """
    name = f", head {head}"
    if isinstance(query, record_attention):
        raise ValueError(f"{who}: choose a call of the recording, such as attention.decoder[0]")
    if isinstance(query, AttentionCall):
        if key is not None or value is not None or mask is not None:
            raise ValueError(f"{who}: a recorded call has its own key, value and mask; leave them out")
        call = query
        if call.query is None:
            raise _other_weights(who, call)
        name += f" of {call.path}" if call.path else ""
        factor = call.scale if scale is None else scale
        found = read_head(who, call.query, call.key, call.value, call.mask, head, sample, factor)
        recorded = _one(who, call.weights, head, sample, "weights")
        if scale is None and not np.allclose(found.weights, recorded, atol=AGREEMENT):
            raise _other_weights(who, call)  # such as local attention, whose window makes them smaller
        return replace(found, name=name)
    elif key is None or value is None:
        raise ValueError(f"{who}: give query, key and value, or one recorded call")
    arrays = [real(a, f"{who}: {n}") for n, a in (("query", query), ("key", key), ("value", value))]
    if arrays[0].ndim < 3:
        name = ""
    q, k, v = (_one(who, a, head, sample, n) for a, n in zip(arrays, ("query", "key", "value")))
    if q.shape[1] != k.shape[1] or len(k) != len(v):
        raise ValueError(
            f"{who}: query {q.shape} and key {k.shape} must have the same size, key and value {v.shape} the same length"
        )
    if not all(np.isfinite(a).all() for a in (q, k, v)):
        raise ValueError(f"{who}: query, key or value hold numbers that are not finite")
    hidden, added = _read_mask(who, mask, (len(q), len(k)), head, sample)
    return Head(q, k, v, hidden, added, 1 / math.sqrt(q.shape[1]) if scale is None else float(scale), name)


def _other_weights(who: str, call: AttentionCall) -> ValueError:
    return ValueError(
        f"{who}: the weights of {call.path or 'this call'} are no softmax of products of queries and keys; "
        "attention_grid and attention_lines draw them"
    )


def _read_mask(who: str, mask: Any, shape: tuple[int, int], head: int, sample: int) -> tuple[np.ndarray, np.ndarray]:
    """The cells that the mask hides, and the numbers that it adds to the scores elsewhere; both (target, source)."""
    if mask is None:
        return np.zeros(shape, dtype=bool), np.zeros(shape)
    array = to_numpy(mask)
    array = _one(who, array, head, sample, "mask") if array.ndim > 2 else array
    try:
        array = np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{who}: mask {array.shape} must broadcast to (target, source), {shape}") from None
    hidden = array if array.dtype.kind == "b" else array == -math.inf
    return hidden, np.where(hidden, 0.0, array)


def _one(who: str, array: np.ndarray, head: int, sample: int, name: str) -> np.ndarray:
    """The head of the sample: (length, size)."""
    if not 2 <= array.ndim <= 4:
        raise ValueError(
            f"{who}: {name} has shape {array.shape}; expected (length, size), (head, length, size) or "
            "(batch, head, length, size)"
        )
    if array.ndim == 4:
        array = array[choose(sample, len(array), "sample")[0]]
    return array[choose(head, len(array), "head")[0]] if array.ndim == 3 else array


# ---- from x to queries, keys and values


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
            if made.shape != read.shape or not np.allclose(made, read, rtol=1e-3, atol=1e-3):
                raise ValueError(
                    f"attention_steps: x times the weights gives another {name}, {made.shape}, than was given, "
                    f"{read.shape}; expected the x that this layer read, and the same head and sample"
                )


def read_projections(x: Any, weights: Any, head: int, sample: int) -> Projections:
    """The projections of one head from the user's x and weights, which `attention_steps` describes.

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
    array = real(x, "attention_steps: x")
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
    matrices = [real(w, f"attention_steps: W_{name}") for name, w in zip("QKV", weights)]
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
