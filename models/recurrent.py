"""The recurrent models that the Transformer replaced: an encoder-decoder of GRUs, with attention and without.

    Sutskever et al. 2014   the decoder gets the encoder's last state, and nothing else of the source
    Bahdanau et al. 2014    at each step it looks at all of the source: additive attention
    Luong et al. 2015       the same with scores that are products, and with a window that moves (local attention)

They have the methods of `Transformer`, so whatever trains, decodes or draws one also works with the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.nn import functional as F
from tinytensor.nn.recording import recorders

from .pretrained import arguments_of
from .sequence_model import SequenceModel


class Seq2Seq(SequenceModel):
    """Recurrent encoder-decoder for sequences of ids: a bidirectional GRU reads the source, a GRU writes the target.

    Every size is `d_model`: of the embeddings, of the memory (d_model / 2 for each direction), of the decoder's state.

    Args:
        source_vocabulary, target_vocabulary: the numbers of ids; the target's defaults to the source's.
        attention: how the decoder looks at the source: "bahdanau"; "dot", "general", "concat" or "local-p" (Luong et
            al. 2015); None for not at all (Sutskever et al. 2014).
        d_model: the size of everything; even.
        num_layers: layers of the encoder, and also of the decoder.
        dropout: of embeddings, between layers, and before the final projection.
        window: D of "local-p": it sees positions at most D from its centre.
        max_length: the default for the most ids that `generate` returns.
        tie_weights: use the target embedding as the final projection too (Press and Wolf 2017).
        share_embeddings: use one embedding for source and target.
        pad_id, bos_id, eos_id: the ids of padding, begin and end of a sequence.

    Raises ValueError if the sizes do not fit, or for an unknown attention.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int | None = None,
        *,
        attention: str | None = "bahdanau",
        d_model: int = 512,
        num_layers: int = 1,
        dropout: float = 0.1,
        window: int = 10,
        max_length: int = 1024,
        tie_weights: bool = False,
        share_embeddings: bool = False,
        pad_id: int = 0,
        bos_id: int = 1,
        eos_id: int = 2,
    ) -> None:
        if d_model < 2 or d_model % 2:
            raise ValueError(f"Seq2Seq: d_model must be even, half of it for each direction; got {d_model}")
        super().__init__(
            source_vocabulary,
            target_vocabulary,
            d_model,
            max_length=max_length,
            tie_weights=tie_weights,
            share_embeddings=share_embeddings,
            pad_id=pad_id,
            bos_id=bos_id,
            eos_id=eos_id,
        )
        self.config = arguments_of(locals())
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.GRU(
            d_model,
            d_model // 2,
            num_layers,
            batch_first=True,
            dropout=dropout if num_layers > 1 else 0.0,
            bidirectional=True,
        )
        self.decoder = _decoder(attention, d_model, num_layers, dropout, window)
        self._make_projection()

    @classmethod
    def sizes_in(cls, weights: Mapping[str, Any]) -> dict[str, int]:
        """The arguments that the shapes of the weights show, as `Pretrained.sizes_in` says."""
        layers = [path for path in weights if re.fullmatch(r"encoder\.weight_ih_l\d+", path)]
        return super().sizes_in(weights) | {"num_layers": len(layers)}

    def embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        """Embeddings times sqrt(d_model): (batch, length, d_model)."""
        return self.dropout(embedding(ids) * math.sqrt(self.d_model))

    def encode(self, source: Any) -> tuple[Tensor, Tensor]:
        """The memory (batch, source, d_model) of ids (batch, source), and where it is padding.

        The memory of a position joins the forward state and the backward state after reading it, h_j = [→h_j; ←h_j]
        (Bahdanau et al. 2014, section 3.2); at padding it is 0.

        Raises ValueError if an id follows padding.
        """
        source = self._ids(source)
        padding = source == self.pad_id
        if bool(tt.any(padding[:, :-1] & ~padding[:, 1:])):
            raise ValueError("Seq2Seq: an id follows padding in the source; padding must stand at the end")
        lengths = tt.sum(~padding, axis=1)
        memory, _ = self.encoder(self.embed(self.source_embedding, source), lengths=lengths)
        return memory, padding

    def decode(self, target: Any, memory: Tensor, memory_padding: Tensor) -> Tensor:
        """Logits (batch, target, vocabulary) for the id that follows each prefix of the target (batch, target)."""
        target = self._ids(target)
        if len(target) != len(memory):
            raise ValueError(f"Seq2Seq: {len(memory)} sources and {len(target)} targets; expected one for each")
        embedded = self.embed(self.target_embedding, target)
        return self._logits(self.decoder(embedded, self.decoder.start(memory, memory_padding)))

    def _logits(self, features: Tensor) -> Tensor:
        return self.projection(self.dropout(self.decoder.read(features)))

    # ---- decoding, step by step (the methods of `decoding.Decodable`)

    def initial_state(self, source: Any) -> State:
        """The state before the first step, from ids (batch, source)."""
        return self.decoder.start(*self.encode(source))

    def next_logits(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (batch, branches, vocabulary) of the ids that follow `ids` (batch, branches), and the new state."""
        features, state = self.decoder.step(self.embed(self.target_embedding, ids), state)
        self.decoder.show(state, state.query, state.weights)
        return self._logits(features), state

    def reorder(self, state: State, sentences: Tensor, branches: Tensor) -> State:
        """The state of the branches branches[i] of sentence sentences[i], for each i; see `decoding.Decodable`."""
        return state.reorder(sentences, branches)

    def _ids(self, ids: Any) -> Tensor:
        found = super()._ids(ids)
        if found.shape[1] == 0:
            raise ValueError(f"Seq2Seq: expected one id at least in each row, got {found.dtype} of shape {found.shape}")
        return found


# ---- attention: how well a query fits each position of the memory


class Attention(nn.Module):
    """Weights a_t(s) = exp(score(h_t, h̄_s)) / sum_s' exp(score(h_t, h̄_s')) over the positions s that are not padding.

    (Luong et al. 2015, equation 7.) A subclass defines the score.
    """

    products = False  # True if weights are just softmax(query keys^T)

    def keys(self, memory: Tensor) -> Tensor:
        """The part of the scores that depends on the memory alone, computed once for all steps."""
        return memory

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """(batch, queries, source) from queries (batch, queries, d_model) and keys (batch, source, d_model)."""
        raise NotImplementedError

    def forward(self, query: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
        """Weights (batch, queries, source); `padding` is (batch, source). If all is padding, they are 0."""
        return _softmax_where(~tt.expand_dims(padding, axis=1), self.scores(query, keys))


def _softmax_where(visible: Tensor, scores: Tensor) -> Tensor:
    return F.softmax(tt.masked_fill(scores, ~visible, -math.inf))


class DotAttention(Attention):
    """score(h_t, h̄_s) = h_t^T h̄_s (Luong et al. 2015, equation 8, "dot")."""

    products = True

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return tt.matmul(query, tt.matrix_transpose(keys))


class GeneralAttention(DotAttention):
    """score(h_t, h̄_s) = h_t^T W_a h̄_s (Luong et al. 2015, equation 8, "general")."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.memory = nn.Linear(d_model, d_model, bias=False)  # W_a

    def keys(self, memory: Tensor) -> Tensor:
        return self.memory(memory)


class AdditiveAttention(Attention):
    """e_ij = v^T tanh(W s_{i-1} + U h_j) (Bahdanau et al. 2014, appendix A.1.2).

    It is also "concat" of Luong et al. 2015, v^T tanh(W_a [h_t; h̄_s]): W and U are the two halves of W_a.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_model, d_model, bias=False)  # W
        self.memory = nn.Linear(d_model, d_model, bias=False)  # U
        self.energy = nn.Linear(d_model, 1, bias=False)  # v^T

    def keys(self, memory: Tensor) -> Tensor:
        return self.memory(memory)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        inner = tt.expand_dims(self.query(query), axis=2) + tt.expand_dims(keys, axis=1)
        return tt.squeeze(self.energy(tt.tanh(inner)), -1)


class LocalAttention(GeneralAttention):
    """Attention to a window around a predicted position: local-p of Luong et al. 2015, with "general" scores.

        p_t    = S sigmoid(v_p^T tanh(W_p h_t))                          (equation 9), S the length of the source
        a_t(s) = align(h_t, h̄_s) exp(-(s - p_t)^2 / (2 σ^2))             (equation 10), σ = D / 2

    Here s counts from 1 to S, and `align` is the softmax over the positions in [p_t - D, p_t + D]. Weights add up to
    less than 1: the further from the centre, the less.
    """

    products = False

    def __init__(self, d_model: int, window: int) -> None:
        super().__init__(d_model)
        if window < 1:
            raise ValueError(f"LocalAttention: window must be at least 1, got {window}")
        self.window = window  # D
        self.place = nn.Linear(d_model, d_model, bias=False)  # W_p
        self.centre = nn.Linear(d_model, 1, bias=False)  # v_p^T

    def forward(self, query: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
        lengths = tt.reshape(tt.sum(~padding, axis=1), (-1, 1, 1))
        p = tt.sigmoid(self.centre(tt.tanh(self.place(query)))) * lengths
        distance = tt.arange(1, keys.shape[1] + 1, device=keys.device) - p
        visible = (tt.abs(distance) <= self.window) & ~tt.expand_dims(padding, axis=1)
        weights = _softmax_where(visible, self.scores(query, keys))
        return weights * tt.exp(tt.square(distance) * (-2 / self.window**2))


# ---- decoders: how they use the context that attention finds


class State(NamedTuple):
    """A decoder's state between two steps. A sentence may have several branches, the hypotheses of a beam search.

    Attributes:
        memory, keys: (batch, source, d_model).
        padding: (batch, source).
        hidden: the states of the layers, (layers, batch, branches, d_model).
        fed: Luong's h̃ of the step before, (batch, branches, d_model).
        query, weights: the attention of the step before, (batch, branches, d_model) and (batch, branches, source); None
            before the first step, and after `reorder`.
    """

    memory: Tensor
    keys: Tensor
    padding: Tensor
    hidden: Tensor
    fed: Tensor | None = None
    query: Tensor | None = None
    weights: Tensor | None = None

    def reorder(self, sentences: Tensor, branches: Tensor) -> Self:
        """The state of other branches: branches[i] (batch, branches) of sentence sentences[i] (batch)."""
        chosen = (tt.expand_dims(sentences, axis=1), branches)
        return self._replace(
            memory=self.memory[sentences],
            keys=self.keys[sentences],
            padding=self.padding[sentences],
            hidden=self.hidden[(slice(None), *chosen)],
            fed=None if self.fed is None else self.fed[chosen],
            query=None,
            weights=None,
        )


class Decoder(nn.Module):
    """A decoder without attention (Sutskever et al. 2014): it knows the source only by its initial state.

    h_0 = tanh(W_0 [→h_S; ←h_1]), from the encoder's last state in either direction, and h_t = GRU(y_{t-1}, h_{t-1}).
    """

    ends = 2  # the number of encoder directions in the initial state

    def __init__(self, d_model: int, num_layers: int, dropout: float, width: int | None = None) -> None:
        super().__init__()
        self.bridge = nn.Linear(self.ends * (d_model // 2), num_layers * d_model)  # W_0, of every layer
        self.recurrent = nn.GRU(
            d_model if width is None else width,
            d_model,
            num_layers,
            dropout=dropout if num_layers > 1 else 0.0,
        )

    def start(self, memory: Tensor, padding: Tensor) -> State:
        """The state before the first step, with one branch, from memory (batch, source, d_model) and its padding."""
        batch, _, d_model = memory.shape
        last = memory[:, 0, d_model // 2 :]
        if self.ends == 2:
            end = tt.clip(tt.sum(~padding, axis=1) - 1, 0)
            last = tt.concat([memory[tt.arange(batch, device=end.device), end, : d_model // 2], last], axis=-1)
        hidden = tt.reshape(tt.tanh(self.bridge(last)), (batch, 1, self.recurrent.num_layers, d_model))
        return State(memory, self.keys(memory), padding, tt.permute_dims(hidden, (2, 0, 1, 3)))

    def keys(self, memory: Tensor) -> Tensor:
        """The memory in the form that attention compares with queries."""
        return memory

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State]:
        """One step: the features for `read`, (batch, branches, features), and the new state.

        `embedded` (batch, branches, d_model) holds the embeddings of the ids before.
        """
        output, hidden = self.advance(embedded, state.hidden)
        return output, state._replace(hidden=hidden)

    def advance(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """One step of the GRU for inputs (batch, branches, width): the last layer's state, and all layers'."""
        rows = (1, x.shape[0] * x.shape[1], x.shape[2])
        output, new = self.recurrent(tt.reshape(x, rows), tt.reshape(hidden, (hidden.shape[0], rows[1], -1)))
        return tt.reshape(output, (*x.shape[:2], -1)), tt.reshape(new, hidden.shape)

    def read(self, features: Tensor) -> Tensor:
        """Turn features into the input of the projection to logits, (batch, target, d_model)."""
        return features

    def show(self, state: State, query: Any, weights: Any) -> None:
        """Show `nn.record_attention` the attention of some steps, (batch, steps, ...), as one call with one head."""

    def forward(self, embedded: Tensor, state: State) -> Tensor:
        """All steps for embedded targets (batch, target, d_model): the features of each."""
        x = tt.permute_dims(embedded, (1, 0, 2))
        output, _ = self.recurrent(x, tt.squeeze(state.hidden, 2))
        return tt.permute_dims(output, (1, 0, 2))


class AttentionDecoder(Decoder):
    """The base of decoders with attention: each step needs the one before, so they loop over the target."""

    def __init__(self, attention: Attention, d_model: int, num_layers: int, dropout: float) -> None:
        super().__init__(d_model, num_layers, dropout, width=2 * d_model)
        self.attention = attention

    def keys(self, memory: Tensor) -> Tensor:
        return self.attention.keys(memory)

    def attend(self, query: Tensor, state: State) -> tuple[Tensor, State]:
        """The context c = sum_s a(s) h_s of each query (batch, branches, d_model), and the state with the weights a."""
        weights = self.attention(query, state.keys, state.padding)
        return tt.matmul(weights, state.memory), state._replace(query=query, weights=weights)

    def forward(self, embedded: Tensor, state: State) -> Tensor:
        features: list[Tensor] = []
        looked: list[tuple[Any, Any]] = []
        for y in tt.split(embedded, embedded.shape[1], axis=1):
            found, state = self.step(y, state)
            features.append(found)
            looked.append((state.query, state.weights))
        if recorders():
            self.show(state, *(tt.concat(parts, axis=1) for parts in zip(*looked)))
        return tt.concat(features, axis=1)

    def show(self, state: State, query: Any, weights: Any) -> None:
        q, k, scale = (query, state.keys, 1.0) if self.attention.products else (None, None, None)
        for recorder in recorders():
            recorder.add(q, k, state.memory, tt.expand_dims(state.padding, axis=1), scale, weights, same=False)


class BahdanauDecoder(AttentionDecoder):
    """The decoder of Bahdanau et al. 2014 (section 3.1 and appendix A.2.2): it looks first, then steps.

        s_0 = tanh(W_s ←h_1)
        α_i = softmax over j of e_ij,  e_ij = v^T tanh(W s_{i-1} + U h_j)
        c_i = sum_j α_ij h_j
        s_i = GRU([y_{i-1}; c_i], s_{i-1})
        t_i = maxout of pairs of U_o s_i + V_o y_{i-1} + C_o c_i,  logits = W_o t_i

    (The appendix has s_{i-1} in the last line; equation 4 has s_i, as here.)
    """

    ends = 1

    def __init__(self, attention: Attention, d_model: int, num_layers: int, dropout: float) -> None:
        super().__init__(attention, d_model, num_layers, dropout)
        self.readout = nn.Linear(3 * d_model, 2 * d_model)  # U_o, V_o and C_o side by side

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State]:
        context, state = self.attend(state.hidden[-1], state)
        output, hidden = self.advance(tt.concat([embedded, context], axis=-1), state.hidden)
        features = tt.concat([output, embedded, context], axis=-1)
        return features, state._replace(hidden=hidden)

    def read(self, features: Tensor) -> Tensor:
        pairs = self.readout(features)
        return tt.max(tt.reshape(pairs, (*pairs.shape[:-1], -1, 2)), axis=-1)


class LuongDecoder(AttentionDecoder):
    """The decoder of Luong et al. 2015 (sections 3 and 3.3): it steps, looks, and feeds the result to the next step.

    h_t = GRU([y_{t-1}; h̃_{t-1}], h_{t-1})      input feeding, h̃_0 = 0
    c_t = sum_s a_t(s) h̄_s                       a_t by the attention it is given
    h̃_t = tanh(W_c [c_t; h_t])                   (equation 5), logits = W_s h̃_t (equation 6)
    """

    def __init__(self, attention: Attention, d_model: int, num_layers: int, dropout: float) -> None:
        super().__init__(attention, d_model, num_layers, dropout)
        self.combine = nn.Linear(2 * d_model, d_model, bias=False)  # W_c

    def step(self, embedded: Tensor, state: State) -> tuple[Tensor, State]:
        fed = tt.zeros_like(embedded) if state.fed is None else state.fed
        output, hidden = self.advance(tt.concat([embedded, fed], axis=-1), state.hidden)
        context, state = self.attend(output, state)
        found = tt.tanh(self.combine(tt.concat([context, output], axis=-1)))
        return found, state._replace(hidden=hidden, fed=found)


ATTENTIONS = ("bahdanau", "dot", "general", "concat", "local-p")


def _decoder(attention: str | None, d_model: int, num_layers: int, dropout: float, window: int) -> Decoder:
    sizes: Sequence[Any] = (d_model, num_layers, dropout)
    match attention:
        case None:
            return Decoder(*sizes)
        case "bahdanau":
            return BahdanauDecoder(AdditiveAttention(d_model), *sizes)
        case "dot":
            return LuongDecoder(DotAttention(), *sizes)
        case "general":
            return LuongDecoder(GeneralAttention(d_model), *sizes)
        case "concat":
            return LuongDecoder(AdditiveAttention(d_model), *sizes)
        case "local-p":
            return LuongDecoder(LocalAttention(d_model, window), *sizes)
    raise ValueError(f"Seq2Seq: unknown attention {attention!r}; expected one of {', '.join(ATTENTIONS)}, or None")
