"""Computation graphs of attention for lessons: from a single head to the whole Transformer, and its predecessors."""

from __future__ import annotations

import math
from collections.abc import Callable

import tinytensor as tt
from tinytensor import nn
from tinytensor.graph import Graph, Options
from tinytensor.nn import functional as F
from tinytensor.nn.functional.attention import join_heads, split_heads

from ..transformer import Transformer

LENGTH = 6


def head(d_model: int = 64, d_k: int = 16, length: int = LENGTH) -> Graph:
    """One attention head with a causal mask, softmax(Q K^T / sqrt(d_k)) V (Vaswani et al. 2017, equation 1).

    Args:
        d_model, d_k: the sizes of the vectors and of the head.
        length: the number of positions.
    """
    x = tt.random.normal((length, d_model))
    W_Q, W_K, W_V = (_weight(d_model, d_k) for _ in range(3))
    with tt.record() as graph:
        Q, K, V = x @ W_Q, x @ W_K, x @ W_V
        future = F.causal_mask(length)
        scores = (Q @ K.mT / math.sqrt(d_k)).masked_fill(future, -math.inf)
        weights = F.softmax(scores, dim=-1)
        result = weights @ V
    graph.options = Options(fused="folded", direction="TB")  # softmax is a single step here, not shown in detail
    return _with_gradients(graph, result, "One attention head: softmax(Q Kᵀ / √dₖ) V")


class Head(nn.Module):
    """head_i = Attention(X W_i^Q, X W_i^K, X W_i^V)."""

    def __init__(self, d_model: int, d_k: int) -> None:
        super().__init__()
        self.W_Q, self.W_K, self.W_V = (_weight(d_model, d_k) for _ in range(3))

    def forward(self, X: tt.Tensor) -> tt.Tensor:
        Q, K, V = X @ self.W_Q, X @ self.W_K, X @ self.W_V
        weights = F.softmax(Q @ K.mT / math.sqrt(K.shape[-1]), dim=-1)
        head = weights @ V
        return head


class HeadByHead(nn.Module):
    """Concat(head_1, ..., head_h) W^O."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.head = nn.ModuleList([Head(d_model, d_model // num_heads) for _ in range(num_heads)])
        self.W_O = _weight(d_model, d_model)

    def forward(self, X: tt.Tensor) -> tt.Tensor:
        joined = tt.concat([head(X) for head in self.head], axis=-1)
        return joined @ self.W_O


def heads(d_model: int = 64, num_heads: int = 4, length: int = LENGTH) -> Graph:
    """Multi-head attention head by head: Concat(head_1, ..., head_h) W^O (section 3.2.2, Figure 2).

    Args:
        d_model, num_heads: the size of the vectors, and the number of heads to share it.
        length: the number of positions.
    """
    model, X = HeadByHead(d_model, num_heads), tt.random.normal((length, d_model))
    with tt.record() as graph:
        result = model(X)
    graph.options = Options(fused="folded", fold=False, direction="TB")
    title = f"Multi-head attention, head by head: {num_heads} heads of {d_model // num_heads}"
    return _with_gradients(graph, result, title)


def multihead() -> Graph:
    """Multi-head self-attention with a causal mask, from its parts, so that a film shows each (section 3.2.2)."""
    x, W_Q, W_K, W_V, W_O = tt.random.normal((2, LENGTH, 64)), *(_weight(64, 64) for _ in range(4))
    with tt.record() as graph:
        Q = split_heads(x @ W_Q, 4)
        K = split_heads(x @ W_K, 4)
        V = split_heads(x @ W_V, 4)
        scores = (Q @ K.mT / math.sqrt(16)).masked_fill(F.causal_mask(LENGTH), -math.inf)
        weights = F.softmax(scores, dim=-1)
        heads = weights @ V
        joined = join_heads(heads)
        result = joined @ W_O
    graph.options = Options(fused="folded", direction="TB")
    return _with_gradients(graph, result, "Multi-head attention: 4 heads of 16")


def encoder_layer() -> Graph:
    """A layer of the encoder (section 3.1)."""
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
    x = tt.random.normal((2, LENGTH, 64))
    with tt.record() as graph:
        result = layer(x)
    return _with_gradients(graph, result, "A layer of the Transformer's encoder")


def transformer() -> Graph:
    """The Transformer with 6 + 6 layers, from ids to probabilities (Figure 1)."""
    model = Transformer(1000, d_model=64, num_heads=4, num_layers=6, dropout=0.0)
    source = tt.asarray([[5, 6, 7, 8, 9, 2, 0, 0], [5, 6, 7, 8, 2, 0, 0, 0]])
    target = tt.asarray([[1, 6, 7, 8, 2, 0], [1, 6, 7, 2, 0, 0]])
    with tt.record() as graph:
        probabilities = F.softmax(model(source, target), dim=-1)
    return _with_gradients(graph, probabilities, "The Transformer (Vaswani et al. 2017, Figure 1), 6 + 6 layers")


class AdditiveAttention(nn.Module):
    """α_j = softmax over j of v^T tanh(W s + U h_j), and their context (Bahdanau et al. 2014, appendix A.1.2)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.W, self.v = _weight(d_model, d_model), _weight(d_model, 1)

    def forward(self, s: tt.Tensor, h: tt.Tensor, Uh: tt.Tensor) -> tt.Tensor:
        Ws = s @ self.W
        e = tt.tanh(Ws + Uh) @ self.v
        alpha = F.softmax(e, dim=0)
        c = alpha.mT @ h
        return c


class BahdanauDecoder(nn.Module):
    """s_i = GRU([y_{i-1}; c_i], s_{i-1}), from s_0 = tanh(W_s ←h_1) on; returns the states."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.encoder = nn.GRU(d_model, d_model // 2, bidirectional=True)
        self.attention = AdditiveAttention(d_model)
        self.decoder = nn.GRUCell(2 * d_model, d_model)
        self.W_s, self.U = _weight(d_model // 2, d_model), _weight(d_model, d_model)

    def forward(self, x: tt.Tensor, target: tt.Tensor) -> tt.Tensor:
        h, last = self.encoder(x)
        Uh = h @ self.U
        s = tt.tanh(last[1:] @ self.W_s)  # the state of the direction that ends at the first word
        states = []
        for i in range(len(target)):
            with tt.named_scope(f"step {i + 1}"):
                y = target[i : i + 1]
                c = self.attention(s, h, Uh)
                s = self.decoder(tt.concat([y, c], axis=-1), s)
                states.append(s)
        return tt.concat(states)


def bahdanau(d_model: int = 16, steps: int = 2) -> Graph:
    """Steps of the decoder of Bahdanau et al. 2014 (appendix A), without its readout: it looks first, then it steps.

    Args:
        d_model: the size of states and annotations.
        steps: the number of steps.
    """
    model = BahdanauDecoder(d_model)
    return _unrolled(model, d_model, steps, "Additive attention (Bahdanau et al. 2014): look, then step")


class GeneralAttention(nn.Module):
    """a(s) = softmax over s of h_t^T W_a h̄_s, and their context (Luong et al. 2015, equations 7 and 8, "general")."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.W_a = _weight(d_model, d_model)

    def forward(self, h: tt.Tensor, memory: tt.Tensor) -> tt.Tensor:
        scores = h @ self.W_a @ memory.mT
        a = F.softmax(scores, dim=-1)
        c = a @ memory
        return c


class LuongDecoder(nn.Module):
    """h_t = GRU([y_{t-1}; h̃_{t-1}], h_{t-1}) and h̃_t = tanh(W_c [c_t; h_t]); returns all h̃."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.encoder = nn.GRU(d_model, d_model // 2, bidirectional=True)
        self.decoder = nn.GRUCell(2 * d_model, d_model)
        self.attention = GeneralAttention(d_model)
        self.W_0, self.W_c = _weight(d_model, d_model), _weight(2 * d_model, d_model)

    def forward(self, x: tt.Tensor, target: tt.Tensor) -> tt.Tensor:
        memory, last = self.encoder(x)
        h = tt.tanh(tt.reshape(last, (1, -1)) @ self.W_0)
        found = tt.zeros_like(h)
        results = []
        for t in range(len(target)):
            with tt.named_scope(f"step {t + 1}"):
                y = target[t : t + 1]
                h = self.decoder(tt.concat([y, found], axis=-1), h)
                c = self.attention(h, memory)
                found = tt.tanh(tt.concat([c, h], axis=-1) @ self.W_c)
                results.append(found)
        return tt.concat(results)


def luong(d_model: int = 16, steps: int = 2) -> Graph:
    """Steps of the decoder of Luong et al. 2015 (sections 3 and 3.3): it steps first, then it looks, and feeds h̃ on.

    Args:
        d_model: the size of states and of the memory.
        steps: the number of steps.
    """
    model = LuongDecoder(d_model)
    return _unrolled(model, d_model, steps, "Multiplicative attention (Luong et al. 2015): step, then look")


def _unrolled(model: nn.Module, d_model: int, steps: int, title: str) -> Graph:
    """The graph of a recurrent model that reads a sentence and gets the words before those to predict."""
    x, target = tt.random.normal((LENGTH, d_model)), tt.random.normal((steps, d_model))
    with tt.record() as graph:
        result = model(x, target)
    graph.options = Options(3, ("GRU", "GRUCell"), "folded", fold=False, constants=True, direction="TB")
    return _with_gradients(graph, result, title)


def _weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(tt.random.normal(shape) / math.sqrt(shape[0]))


def _with_gradients(graph: Graph, result: tt.Tensor, title: str) -> Graph:
    """The graph after a backward pass with a gradient of norm 1, so that gradients can be drawn and played."""
    gradient = tt.random.normal(result.shape)
    result.backward(gradient / tt.linalg.vector_norm(gradient))
    graph.title = title
    return graph


DRAWN: tuple[Callable[[], Graph], ...] = (head, heads, multihead, encoder_layer, transformer, bahdanau, luong)
GRAPHS = {draw.__name__.replace("_", "-"): draw for draw in DRAWN}
"""By their names on the command line."""
