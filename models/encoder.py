"""BERT (Devlin et al. 2019): the Transformer's encoder alone, which predicts hidden words.

It sees both sides of every position. It turns a text into a vector for each position, to predict hidden words from
(section 3.1, "Masked LM"), or into one vector for the whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.nn import functional as F

from .huggingface import ReadsHuggingFace
from .ids import NONE, as_batch, is_padding
from .pretrained import arguments_of

STD = 0.02  # of the initial weights (the authors' code; appendix A.2 has their other settings)
POOLINGS = ("mean", "first", "max", "pooler")


class Encoder(ReadsHuggingFace, nn.Module):
    """Encoder-only model of sequences of ids: embeddings, the stack of the Transformer's encoder, the masked-word head.

    Args:
        vocabulary: the number of ids.
        d_model, num_heads, num_layers: sizes of the stack.
        d_ff: inner size of the feed-forward layers; default 4 * d_model.
        dropout: after the embeddings, on each sub-layer's result, on attention weights.
        max_length: the longest sequence, which is also the number of learned positions.
        segments: the number of kinds of sentences (section 3.2, "segment embeddings"); 0: they are not told apart.
        norm_first: normalise before each sub-layer rather than after it, as BERT does.
        norm_eps: eps of the layer normalisations.
        head: whether to add the head that predicts hidden words.
        pooler: whether to add tanh(W x + b) of the first position, which BERT trains for its second objective.
        pooling, normalize: the defaults of `pooled`: its kind, and whether vectors have length 1.
        pad_id, mask_id: the ids of padding and of the mask that replaces a hidden word. Without a pad_id, and beside
            it, -1 is padding.

    Raises ValueError if the sizes do not fit.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        d_model: int = 768,
        num_heads: int = 12,
        num_layers: int = 12,
        d_ff: int | None = None,
        dropout: float = 0.1,
        max_length: int = 512,
        segments: int = 2,
        activation: str = "gelu",
        norm_first: bool = False,
        norm_eps: float = 1e-12,
        head: bool = True,
        pooler: bool = False,
        pooling: str = "mean",
        normalize: bool = False,
        pad_id: int | None = 0,
        mask_id: int | None = None,
    ) -> None:
        super().__init__()
        self.config = arguments_of(locals())
        mask_id = vocabulary - 1 if mask_id is None else mask_id
        for name, value in {"pad_id": pad_id, "mask_id": mask_id}.items():
            if value is not None and not 0 <= value < vocabulary:
                raise ValueError(f"{name} must be an id below {vocabulary}, got {value!r}")
        self.d_model, self.max_length, self.pad_id, self.mask_id = d_model, max_length, pad_id, mask_id
        self.pooling, self.normalize = pooling, normalize
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.positions = nn.Embedding(max_length, d_model)
        self.segments = nn.Embedding(segments, d_model) if segments else None
        self.norm = nn.LayerNorm(d_model, norm_eps)
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            d_model, num_heads, 4 * d_model if d_ff is None else d_ff, dropout, activation, norm_eps,
            batch_first=True, norm_first=norm_first,
        )  # fmt: skip
        self.encoder = nn.TransformerEncoder(
            layer, num_layers, norm=nn.LayerNorm(d_model, norm_eps) if norm_first else None
        )
        self.head = MaskedWordHead(self.embedding, norm_eps) if head else None
        self.pooler = nn.Linear(d_model, d_model) if pooler else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, from N(0, 0.02²)."""
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=STD)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    @classmethod
    def sizes_in(cls, weights: Mapping[str, Any]) -> dict[str, int]:
        """The arguments that the shapes of the weights show, as `Pretrained.sizes_in` says."""
        vocabulary, d_model = weights["embedding.weight"].shape
        layer = re.compile(r"encoder\.layers\.\d+\.linear1\.weight")
        inner = [len(weight) for path, weight in weights.items() if layer.fullmatch(path)]
        return {
            "vocabulary": vocabulary,
            "d_model": d_model,
            "num_layers": len(inner),
            "d_ff": inner[0] if inner else 0,
            "max_length": len(weights["positions.weight"]),
            "segments": len(weights["segments.weight"]) if "segments.weight" in weights else 0,
        }

    def forward(self, ids: Any, segments: Any = None) -> Tensor:
        """Logits (batch, length, vocabulary) of the word at each position of ids (batch, length).

        Args:
            segments: (batch, length), the kind of sentence of each position; default: the first kind everywhere.
        """
        if self.head is None:
            raise RuntimeError("Encoder: made without a head, so it says no words; see hidden_states and pooled")
        return self.head(self.hidden_states(ids, segments))

    def hidden_states(self, ids: Any, segments: Any = None) -> Tensor:
        """A vector for each position of ids (batch, length): (batch, length, d_model). No position sees padding."""
        ids = self._ids(ids)
        if ids.shape[1] > self.max_length:
            raise ValueError(f"Encoder: a sequence of {ids.shape[1]} is longer than max_length {self.max_length}")
        x = self.embedding(tt.where(ids == NONE, 0, ids)) + self.positions(tt.arange(ids.shape[1], device=ids.device))
        if self.segments is not None:
            kinds = tt.zeros_like(ids) if segments is None else as_batch("Encoder", segments, ids.device, fill=0)
            x = x + self.segments(kinds)
        elif segments is not None:
            raise ValueError("Encoder: made with segments=0, so it does not tell sentences apart; got segments")
        return self.encoder(self.dropout(self.norm(x)), src_key_padding_mask=is_padding(ids, self.pad_id))

    def pooled(
        self, ids: Any, kind: str | None = None, segments: Any = None, *, normalize: bool | None = None
    ) -> Tensor:
        """One vector for each text, (batch, d_model), from ids (batch, length) (Reimers and Gurevych 2019, section 3).

        Args:
            kind: "mean" or "max" over all positions but padding, "first" for the vector of the first position, "pooler"
                for tanh(W x + b) of it; default: the model's `pooling`.
            normalize: divide each vector by its length; default: the model's `normalize`.
        """
        kind = self.pooling if kind is None else kind
        if kind not in POOLINGS or (kind == "pooler" and self.pooler is None):
            has = POOLINGS if self.pooler is not None else POOLINGS[:-1]
            raise ValueError(f"Encoder: cannot pool by {kind!r}; expected one of {', '.join(has)}")
        ids = self._ids(ids)
        x = self._pooled(self.hidden_states(ids, segments), kind, is_padding(ids, self.pad_id)[:, :, None])
        return F.normalize(x) if (self.normalize if normalize is None else normalize) else x

    def _pooled(self, x: Tensor, kind: str, padding: Tensor) -> Tensor:
        if kind == "pooler" and self.pooler is not None:
            return tt.tanh(self.pooler(x[:, 0]))
        if kind == "first":
            return x[:, 0]
        if kind == "max":
            return tt.max(tt.masked_fill(x, padding, -tt.inf), axis=1)
        return tt.sum(tt.masked_fill(x, padding, 0.0), axis=1) / tt.clip(tt.sum(~padding, axis=1), min=1)

    def _ids(self, ids: Any) -> Tensor:
        return as_batch("Encoder", ids, self.embedding.weight.device)


class MaskedWordHead(nn.Module):
    """Logits of words: a layer, GELU, normalisation, and the embedding again with its own bias."""

    def __init__(self, embedding: nn.Embedding, norm_eps: float) -> None:
        super().__init__()
        vocabulary, d_model = embedding.weight.shape
        self.dense = nn.Linear(d_model, d_model)
        self.norm = nn.LayerNorm(d_model, norm_eps)
        self.projection = nn.Linear(d_model, vocabulary)
        self.projection.weight = embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.projection(self.norm(F.gelu(self.dense(x))))
