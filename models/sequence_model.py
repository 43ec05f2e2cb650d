"""The base of the Transformer and the recurrent models: ids in, logits over ids out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.nn.module import evaluating

from .generation import Generates
from .pretrained import Pretrained


class SequenceModel(Pretrained, Generates, nn.Module):
    """Embeddings of source and target, and the final projection; a subclass puts the rest between them.

    A subclass's `__init__` begins with `super().__init__(...)` and `self.config = arguments_of(locals())`, makes its
    own parts, and ends with `self._make_projection()`.

    Args:
        source_vocabulary, target_vocabulary: the numbers of ids; the target's defaults to the source's.
        d_model: the size of an embedding.
        max_length: the most ids that `generate` returns.
        tie_weights: use the target embedding as the final projection too (Vaswani et al. 2017, section 3.4; Press and
            Wolf 2017).
        share_embeddings: use one embedding for source and target.
        pad_id, bos_id, eos_id: the ids of padding, begin and end of a sequence.

    Raises ValueError if the sizes do not fit.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int | None,
        d_model: int,
        *,
        max_length: int,
        tie_weights: bool,
        share_embeddings: bool,
        pad_id: int,
        bos_id: int,
        eos_id: int,
    ) -> None:
        super().__init__()
        target_vocabulary = source_vocabulary if target_vocabulary is None else target_vocabulary
        if share_embeddings and source_vocabulary != target_vocabulary:
            raise ValueError(
                f"{type(self).__name__}: share_embeddings needs one vocabulary, got sizes {source_vocabulary} and "
                f"{target_vocabulary}"
            )
        size = min(source_vocabulary, target_vocabulary)
        for name, value in {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id}.items():
            if not isinstance(value, int) or not 0 <= value < size:
                raise ValueError(f"{name} must be an id below {size}, got {value!r}")
        self.d_model, self.max_length, self.tie_weights = d_model, max_length, tie_weights
        self.pad_id, self.bos_id, self.eos_id = pad_id, bos_id, eos_id
        self.source_embedding = nn.Embedding(source_vocabulary, d_model, padding_idx=pad_id)
        self.target_embedding = (
            self.source_embedding
            if share_embeddings
            else nn.Embedding(target_vocabulary, d_model, padding_idx=None if tie_weights else pad_id)
        )

    def _make_projection(self) -> None:
        self.projection = nn.Linear(self.d_model, self.target_embedding.num_embeddings, bias=not self.tie_weights)
        # Scaled by sqrt(d_model), as before use, embeddings have variance 1, like the positions.
        with tt.no_grad():
            for embedding in dict.fromkeys((self.source_embedding, self.target_embedding)):  # a set has no order
                nn.init.normal_(embedding.weight, std=self.d_model**-0.5)
                if embedding.padding_idx is not None:
                    embedding.weight[embedding.padding_idx] = 0.0
        if self.tie_weights:
            self.projection.weight = self.target_embedding.weight

    @classmethod
    def sizes_in(cls, weights: Mapping[str, Any]) -> dict[str, int]:
        """The arguments that the shapes of the weights show, as `Pretrained.sizes_in` says."""
        source = weights["source_embedding.weight"]
        target = weights.get("target_embedding.weight", source)  # missing if both are one
        return {"source_vocabulary": len(source), "target_vocabulary": len(target), "d_model": source.shape[1]}

    def encode(self, source: Any) -> tuple[Tensor, Tensor]:
        """The memory (batch, source, d_model) of ids (batch, source), and where it is padding."""
        raise NotImplementedError

    def decode(self, target: Any, memory: Tensor, memory_padding: Tensor) -> Tensor:
        """Logits (batch, target, vocabulary) for the id that follows each prefix of the target (batch, target)."""
        raise NotImplementedError

    def forward(self, source: Any, target: Any) -> Tensor:
        """Logits (batch, target, vocabulary) from ids (batch, source) and (batch, target), both padded with pad_id.

        Position t of the target sees the target up to t and the whole source; no position sees padding.
        """
        memory, padding = self.encode(source)
        return self.decode(target, memory, padding)

    def _asked(self, prompt: Any, padding: int | None) -> tuple[Tensor, int]:
        return self._ids(prompt), self.max_length

    @tt.no_grad()
    def cross_attention(self, source: Any, target: Any) -> list[Tensor]:
        """The decoder's attention to the source, layer by layer: (batch, heads, target, source) each.

        A recurrent model has one layer with one head; without attention the list is empty.
        """
        with evaluating(self), nn.record_attention() as attention:
            self(source, target)
        return [tt.asarray(call.weights, device=self.projection.weight.device) for call in attention.cross]

    def _ids(self, ids: Any) -> Tensor:
        """Ids on the model's device. Raises ValueError for anything but a batch of ids."""
        found = tt.asarray(ids, device=self.projection.weight.device)
        if found.ndim != 2 or found.dtype.kind not in "iu":
            raise ValueError(
                f"{type(self).__name__}: expected integer ids (batch, length), got {found.dtype} of shape {found.shape}"
            )
        return found
