"""One head of attention: its inputs, and its computation step by step."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..recording import AttentionCall, record_attention
from .weights import choose, to_numpy

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
        found = read_head(
            who, call.query, call.key, call.value, call.mask, head, sample, call.scale if scale is None else scale
        )
        recorded = _one(who, call.weights, head, sample, "weights")
        if scale is None and not np.allclose(found.weights, recorded, atol=AGREEMENT):
            raise _other_weights(who, call)  # such as local attention, whose window makes them smaller
        return dataclasses.replace(found, name=name)
    elif key is None or value is None:
        raise ValueError(f"{who}: give query, key and value, or one recorded call")
    arrays = [to_numpy(a) for a in (query, key, value)]
    if arrays[0].ndim < 3:
        name = ""
    q, k, v = (
        _one(who, np.asarray(a, dtype=np.float64), head, sample, n) for a, n in zip(arrays, ("query", "key", "value"))
    )
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
