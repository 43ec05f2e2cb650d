"""Attention in blocks that fit the cache: no matrix of all weights is ever held, so memory is linear in length.

The keys come to a block of queries one block after another (Rabe and Staats 2021, "Self-attention does not need O(n^2)
memory"; Dao 2023, "FlashAttention-2"). Of a query's softmax, what is known so far is the largest score m, the sum
l = sum_j exp(s_j - m) and the unfinished result sum_j exp(s_j - m) v_j; a larger score m' makes both smaller by
exp(m - m'). Kept for the backward pass is only L = m + log l: a block of weights is then exp(scores - L) at once. And
since sum_j p_j (g . v_j) = g . out, the gradient of a score needs its own block alone: p_j (g . v_j - g . out).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_device
from tinytensor.fast.texts import Way
from tinytensor.tensor import wrap

from ..functional.dropout import Dropped

LONG = {"cpu": 1 << 20, "gpu": 1 << 24}  # elements of a head's weights from which on attention goes in blocks


class Size(NamedTuple):
    """Queries and keys of a block."""

    queries: int
    keys: int


# The scores of a block fit the cache of a core; a GPU, where every call has its price, gets few large ones.
SIZES = {"cpu": Size(256, 512), "gpu": Size(2048, 4096)}


def is_long(queries: int, keys: int, device: str) -> bool:
    """True if attention between so many positions goes in blocks."""
    return queries * keys >= LONG[device]


class Attention(NamedTuple):
    """The inputs of attention, as raw arrays with the same leading dimensions.

    Attributes:
        query, key, value: (..., target, d_k), (..., source, d_k), (..., source, d_v).
        mask: broadcasts to (..., target, source): True for what must not be seen, or added to the scores; or None.
        causal: whether position i sees the source up to i only.
        scale: a factor of the scores.
        dropped: which weights dropout keeps; where attention goes in blocks, `SeededDropped`; or None.
    """

    query: Any
    key: Any
    value: Any
    mask: Any
    causal: bool
    scale: float
    dropped: Any

    def lengths(self) -> tuple[int, int]:
        """How many queries and keys there are."""
        return self.query.shape[-2], self.key.shape[-2]

    def is_long(self, xp: Any) -> bool:
        real = self.query.dtype.kind == "f"  # complex numbers have no largest, by which blocks are joined
        return real and is_long(*self.lengths(), xp.device)

    def heads(self) -> list[tuple[int, ...]]:
        """The indices of all leading dimensions."""
        return list(itertools.product(*map(range, self.query.shape[:-2])))

    def head(self, xp: Any, index: tuple[int, ...]) -> Attention:
        """One head, its queries scaled; 16-bit floats become float32."""
        wide = _wide(self.query.dtype)
        query, key, value = (xp.astype(x[index], wide) for x in (self.query, self.key, self.value))
        mask = self.mask
        if mask is not None:
            mask = xp.broadcast_to(mask, (*self.query.shape[:-1], self.key.shape[-2]))[index]
        return self._replace(query=query * self.scale, key=key, value=value, mask=mask)

    def scores(self, xp: Any, rows: slice, columns: slice, buffer: Any) -> Any:
        """A block of the masked scores of one head, in the buffer or not; None where nothing may be seen."""
        count, width = rows.stop - rows.start, columns.stop - columns.start
        if self.causal and columns.start >= rows.stop:
            return None
        hidden: Any = self.mask[rows, columns] if self.mask is not None else None
        boolean = hidden is not None and hidden.dtype.kind == "b"
        if boolean and xp.device == "cpu" and hidden.all():  # on a GPU, to ask means to wait
            return None
        scores = xp.reshape(buffer[: count * width], (count, width))
        xp.matmul(self.query[rows], xp.matrix_transpose(self.key[columns]), out=scores)
        nothing = scores.dtype.type(-math.inf)
        if boolean:
            scores = xp.where(hidden, nothing, scores)
        elif hidden is not None:
            scores += hidden
        if self.causal and columns.stop > rows.start + 1:
            future = xp.arange(columns.start, columns.stop) > xp.arange(rows.start, rows.stop)[:, None]
            scores = xp.where(future, nothing, scores)
        return scores


def attend(xp: Any, attention: Attention, out: Any) -> Any:
    """Write softmax(Q K^T * scale + mask) V into `out`; returns L, (..., target), which the backward pass needs."""
    heads, size = attention.heads(), SIZES[xp.device]
    wide = _wide(out.dtype)
    log_total = xp.fresh(out.shape[:-1], dtype=wide)

    def attend_heads(some: slice) -> None:
        buffer = xp.fresh(size.queries * size.keys, dtype=wide)
        for number in range(some.start, some.stop):
            index = heads[number]
            head = attention.head(xp, index)
            for rows in _blocks(out.shape[-2], size.queries):
                result, log_total[index][rows] = _attend_rows(xp, head, number, rows, buffer)
                out[index][rows] = result

    xp.in_parts(attend_heads, len(heads), len(heads) * out.shape[-2] * attention.key.shape[-2])
    return log_total


def _attend_rows(xp: Any, head: Attention, number: int, rows: slice, buffer: Any) -> tuple[Any, Any]:
    """The result for a block of queries of one head, and its L."""
    count = rows.stop - rows.start
    largest = xp.full((count, 1), -math.inf, dtype=buffer.dtype)
    total = xp.zeros((count, 1), dtype=buffer.dtype)
    result = xp.zeros((count, head.value.shape[-1]), dtype=buffer.dtype)
    for columns in _blocks(len(head.key), SIZES[xp.device].keys):
        scores = head.scores(xp, rows, columns, buffer)
        if scores is None:
            continue
        larger = xp.maximum(largest, xp.row_max(scores))
        shift = xp.where(larger == -math.inf, buffer.dtype.type(0), larger)  # of rows that see nothing so far
        fading = xp.exp(largest - shift)
        scores -= shift
        weights = xp.exp(scores, out=scores)
        total *= fading
        total += xp.row_sum(weights)
        if head.dropped is not None:
            weights *= head.dropped.block(number, rows, columns)
            weights *= head.dropped.scale
        result *= fading
        result += xp.matmul(weights, head.value[columns])
        largest = larger
    nothing = total == 0
    total[nothing] = 1
    result /= total
    # exp(score - inf) = 0: the weights of a row that sees nothing
    log_total = xp.where(nothing, buffer.dtype.type(math.inf), largest + xp.log(total))
    return result, log_total[:, 0]


def attend_back(xp: Any, g: Any, attention: Attention, out: Any, log_total: Any, gradients: tuple[Any, ...]) -> None:
    """Write the gradients for query, key and value into three arrays, given that of the result."""
    heads, size = attention.heads(), SIZES[xp.device]

    def differentiate_heads(some: slice) -> None:
        buffers = [xp.fresh(size.queries * size.keys, dtype=log_total.dtype) for _ in range(3)]
        for number in range(some.start, some.stop):
            index = heads[number]
            head = attention.head(xp, index)
            given, result = (xp.astype(x[index], log_total.dtype) for x in (g, out))
            found = _head_back(xp, given, head, number, xp.row_dot(given, result), log_total[index][:, None], buffers)
            for gradient, value in zip(gradients, found):
                gradient[index] = value

    xp.in_parts(differentiate_heads, len(heads), len(heads) * out.shape[-2] * attention.key.shape[-2])


def _head_back(
    xp: Any, g: Any, head: Attention, number: int, along: Any, log_total: Any, buffers: list[Any]
) -> tuple[Any, Any, Any]:
    """The gradients of one head for query, key and value; `along` is g . out for each query."""
    g_query, g_key, g_value = (xp.zeros(x.shape, dtype=x.dtype) for x in (head.query, head.key, head.value))
    size = SIZES[xp.device]
    for columns in _blocks(len(head.key), size.keys):
        for rows in _blocks(len(head.query), size.queries):
            scores = head.scores(xp, rows, columns, buffers[0])
            if scores is None:
                continue
            g_scores = xp.reshape(buffers[1][: scores.size], scores.shape)
            xp.matmul(g[rows], xp.matrix_transpose(head.value[columns]), out=g_scores)
            keep = None
            if head.dropped is not None:
                keep = head.dropped.block(number, rows, columns)
                g_scores *= keep
                g_scores *= head.dropped.scale
            scores -= log_total[rows]
            weights = kept = xp.exp(scores, out=scores)
            g_scores -= along[rows]
            g_scores *= weights
            if keep is not None:
                kept = xp.multiply(weights, keep, out=xp.reshape(buffers[2][: scores.size], scores.shape))
                kept *= head.dropped.scale
            g_value[columns] += xp.matmul(xp.matrix_transpose(kept), g[rows])
            g_query[rows] += xp.matmul(g_scores, head.key[columns])
            g_key[columns] += xp.matmul(xp.matrix_transpose(g_scores), head.query[rows])
    g_query *= head.scale
    return g_query, g_key, g_value


def _blocks(length: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


def _wide(dtype: Any) -> Any:
    return tt.float32 if dtype.itemsize < 4 else dtype


# ---- dropout: each block draws its part of the mask from a seed and from its place, so none needs the whole of it


SEEDED = Way("dropout of long sequences", "nn.functional.dropout:Dropped.draw", "nn.functional.dropout:Dropped.apply")


class SeededDropped(Dropped):
    """A dropout mask of long sequences, which a seed stands for.

    Attributes:
        seed: what the mask is drawn from.
        shape: (..., target, source) of the weights.
    """

    def __init__(self, seed: int, shape: tuple[int, ...], scale: float, device: str) -> None:
        self.seed, self.shape, self.scale, self.device = seed, shape, scale, device

    @staticmethod
    def draw_long(p: float, shape: tuple[int, ...], device: str) -> SeededDropped | None:
        """A mask of this shape, drawn from a seed when needed; None if it is small enough to be held."""
        if not is_long(shape[-2], shape[-1], device) or not SEEDED.holds():
            return None
        seed = int(tt.random.integers(2**62).item())
        return SeededDropped(seed, shape, 1 / (1 - p) if p < 1 else 0.0, device)

    @property
    def keep(self) -> Tensor:
        """The whole mask: true with probability 1 / scale."""
        xp = for_device(self.device)
        mask, size = xp.fresh(self.shape, dtype=bool), SIZES[self.device]
        for number, index in enumerate(itertools.product(*map(range, self.shape[:-2]))):
            for rows in _blocks(self.shape[-2], size.queries):
                for columns in _blocks(self.shape[-1], size.keys):
                    mask[index][rows, columns] = self.block(number, rows, columns)
        return wrap(mask, None)

    def block(self, number: int, rows: slice, columns: slice) -> Any:
        """The raw mask of a block of the head of this number."""
        place = ((number << 40 | rows.start) << 40 | columns.start) << 64 | self.seed
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        p = 1 / self.scale if self.scale else 0.0
        return tt.random.Generator(place).bernoulli(p, shape, device=self.device)._data
