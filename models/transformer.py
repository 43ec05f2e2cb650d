"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017), from token ids to logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.nn import functional as F
from tinytensor.nn.decoder_cache import DecoderCache

from .pretrained import arguments_of
from .sequence_model import SequenceModel


class NoPositions(nn.Dropout):
    """Replaces positions by their dropout alone; arguments as for `nn.PositionalEncoding`."""

    def __init__(self, d_model: int, dropout: float, max_len: int, batch_first: bool) -> None:
        super().__init__(dropout)

    def forward(self, x: Tensor, *, start: int = 0) -> Tensor:
        return super().forward(x)


POSITIONS: dict[str | None, Callable[..., nn.Module]] = {
    "sinusoidal": nn.PositionalEncoding,
    "learned": nn.LearnedPositionalEncoding,
    None: NoPositions,
}


class Transformer(SequenceModel):
    """Encoder-decoder for sequences of ids: embeddings, positions, the stacks, and the final projection.

    Args:
        source_vocabulary, target_vocabulary: the numbers of ids; the target's defaults to the source's.
        d_model: the size of every layer's output.
        num_heads: attention heads per layer; divides d_model.
        num_layers: layers of the encoder, and also of the decoder (N in the paper).
        d_ff: inner size of the feed-forward layers; default 4 * d_model.
        dropout: after the embeddings and on each sub-layer's result (section 5.4).
        inner_dropout: on attention weights and inside the feed-forward layers, where the paper has none and PyTorch's
            layers have as much as elsewhere; default: `dropout`.
        max_length: the longest sequence, for the positions.
        positions: "sinusoidal", or "learned" (section 3.5; Gehring et al. 2017), or None: the encoder then treats its
            source as a set without order.
        norm_first: normalise before each sub-layer instead of after it.
        scale: the factor of attention scores; default 1 / sqrt(d_model / num_heads) (section 3.2.1).
        tie_weights: use the target embedding as the final projection too (section 3.4; Press and Wolf 2017).
        share_embeddings: use one embedding for source and target.
        pad_id, bos_id, eos_id: the ids of padding, begin and end of a sequence.

    Raises ValueError if the sizes do not fit.
    """

    pads_targets = True  # no position of the target sees padding before it

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int | None = None,
        *,
        d_model: int = 512,
        num_heads: int = 8,
        num_layers: int = 6,
        d_ff: int | None = None,
        dropout: float = 0.1,
        inner_dropout: float | None = None,
        max_length: int = 1024,
        positions: str | None = "sinusoidal",
        norm_first: bool = False,
        scale: float | None = None,
        tie_weights: bool = False,
        share_embeddings: bool = False,
        pad_id: int = 0,
        bos_id: int = 1,
        eos_id: int = 2,
    ) -> None:
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
        if positions not in POSITIONS:
            expected = ", ".join(map(repr, POSITIONS))
            raise ValueError(f"Transformer: unknown positions {positions!r}; expected one of {expected}")
        self.positions = POSITIONS[positions](d_model, dropout=dropout, max_len=max_length, batch_first=True)
        self.transformer = nn.Transformer(
            d_model,
            num_heads,
            num_layers,
            num_layers,
            4 * d_model if d_ff is None else d_ff,
            dropout=dropout,
            norm_first=norm_first,
            batch_first=True,
            scale=scale,
        )
        if inner_dropout is not None:
            self._set_inner_dropout(inner_dropout)
        self._make_projection()

    def embed(self, embedding: nn.Embedding, ids: Tensor, *, start: int = 0) -> Tensor:
        """Embeddings times sqrt(d_model), plus positions from `start` on (sections 3.4 and 3.5).

        Shapes: (batch, length) -> (batch, length, d_model).
        """
        length = start + ids.shape[1]
        if length > self.max_length:
            raise ValueError(f"Transformer: a sequence of {length} is longer than max_length {self.max_length}")
        return self.positions(embedding(ids) * math.sqrt(self.d_model), start=start)

    def encode(self, source: Any) -> tuple[Tensor, Tensor]:
        """The memory (batch, source, d_model) of ids (batch, source), and where it is padding."""
        source = self._ids(source)
        padding = source == self.pad_id
        memory = self.transformer.encoder(self.embed(self.source_embedding, source), src_key_padding_mask=padding)
        return memory, padding

    def decode(self, target: Any, memory: Tensor, memory_padding: Tensor) -> Tensor:
        """Logits (batch, target, vocabulary) for the id that follows each prefix of the target (batch, target)."""
        target = self._ids(target)
        hidden = self.transformer.decoder(
            self.embed(self.target_embedding, target),
            memory,
            tgt_mask=F.causal_mask(target.shape[1], device=target.device),
            tgt_key_padding_mask=target == self.pad_id if self.pads_targets else None,
            memory_key_padding_mask=memory_padding,
        )
        return self.projection(hidden)

    # ---- one position at a time: `decoding.Decodable`

    def initial_state(self, source: Any) -> DecoderCache:
        """The state before the first `next_logits`: each decoder layer's keys and values of the encoded source."""
        return self.transformer.decoder.start(*self.encode(source))

    def next_logits(self, ids: Any, state: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """Logits (sentences, branches, vocabulary) of the ids after `ids` (sentences, branches), the last ones so far.

        The same as `decode` at its last position, at the cost of one position. The state grows by one position.
        """
        ids = self._ids(ids)
        embedded = self.embed(self.target_embedding, tt.reshape(ids, (-1, 1)), start=state.length)
        hidden = self.transformer.decoder.step(
            tt.reshape(embedded, (*ids.shape, self.d_model)),
            state,
            tgt_key_padding_mask=ids == self.pad_id if self.pads_targets else None,
        )
        return self.projection(hidden), state

    def reorder(self, state: DecoderCache, sentences: Tensor, branches: Tensor) -> DecoderCache:
        """The state of other branches, as `DecoderCache.reorder` says."""
        state.reorder(sentences, branches)
        return state

    def _set_inner_dropout(self, p: float) -> None:
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = p
            elif isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
                module.dropout.p = p

    @classmethod
    def sizes_in(cls, weights: Mapping[str, Any]) -> dict[str, int]:
        """The arguments that the shapes of the weights show, as `Pretrained.sizes_in` says."""
        first, last = "transformer.encoder.layers.", ".linear1.weight"
        inner = [len(weight) for path, weight in weights.items() if path.startswith(first) and path.endswith(last)]
        learned = {"max_length": len(weights["positions.encoding"])} if "positions.encoding" in weights else {}
        return super().sizes_in(weights) | {"num_layers": len(inner), "d_ff": inner[0] if inner else 0} | learned
