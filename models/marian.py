"""Marian (Junczys-Dowmunt et al. 2018): the Transformer of the OPUS-MT translators, one for each pair of languages.

It differs from the paper's in four things: sines stand in the first half of a position's vector and cosines in the
second, no norm ends the stacks, the activation is SiLU, and the final projection has a bias beside the shared weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.nn import functional as F
from tinytensor.typing import Device, DType

from .generation_config import checked
from .huggingface import ReadsHuggingFace
from .pretrained import arguments_of
from .transformer import Transformer

ACTIVATIONS = {"swish": F.silu, "silu": F.silu, "gelu": F.gelu, "relu": F.relu}


class Marian(ReadsHuggingFace, Transformer):
    """Encoder-decoder with one vocabulary for both languages, whose translations begin with the id of padding.

    Args:
        vocabulary: the number of ids.
        num_layers, num_decoder_layers: layers of the encoder, and of the decoder; default: as many.
        activation: of the feed-forward layers: "swish", which is SiLU, "gelu" or "relu".
        d_model, num_heads, d_ff, dropout, max_length, pad_id, eos_id: as for `Transformer`.
        generation_config: as for `LanguageModel`.
    """

    pads_targets = False  # the id of padding begins a translation, and behind its end only padding sees padding

    def __init__(
        self,
        vocabulary: int,
        *,
        d_model: int = 512,
        num_heads: int = 8,
        num_layers: int = 6,
        num_decoder_layers: int | None = None,
        d_ff: int = 2048,
        activation: str = "swish",
        dropout: float = 0.1,
        max_length: int = 512,
        pad_id: int = 0,
        eos_id: int = 1,
        generation_config: Mapping[str, Any] | None = None,
    ) -> None:
        super(Transformer, self).__init__(  # not Transformer's own, which makes other stacks
            vocabulary, None, d_model, max_length=max_length, tie_weights=True, share_embeddings=True,
            pad_id=pad_id, bos_id=pad_id, eos_id=eos_id,
        )  # fmt: skip
        self.config = arguments_of(locals())
        self.generation_config = self.config["generation_config"] = checked(generation_config)
        if activation not in ACTIVATIONS:
            expected = ", ".join(map(repr, ACTIVATIONS))
            raise ValueError(f"Marian: unknown activation {activation!r}; expected one of {expected}")
        self.positions = SineThenCosine(d_model, dropout, max_length, batch_first=True)
        layer: Any = {"dim_feedforward": d_ff, "dropout": dropout, "activation": ACTIVATIONS[activation]}
        layer |= {"d_model": d_model, "nhead": num_heads, "batch_first": True}
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer), num_layers)
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**layer), num_decoder_layers or num_layers)
        self.transformer = nn.Transformer(
            d_model, num_heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
        )
        self._make_projection()
        self.projection.bias = nn.Parameter(tt.zeros(vocabulary))

    @classmethod
    def sizes_in(cls, weights: Mapping[str, Any]) -> dict[str, int]:
        """The arguments that the shapes of the weights show, as `Pretrained.sizes_in` says."""
        sizes = super().sizes_in(weights)
        decoder = {path.split(".")[3] for path in weights if path.startswith("transformer.decoder.layers.")}
        vocabulary = sizes.pop("target_vocabulary")
        del sizes["source_vocabulary"]
        return sizes | {"vocabulary": vocabulary, "num_decoder_layers": len(decoder)}


class SineThenCosine(nn.PositionalEncoding):
    """The sinusoids of section 3.5, all sines before all cosines; arguments as for `nn.PositionalEncoding`."""

    def table(self, dtype: DType = None, device: Device = None) -> Tensor:
        table = super().table(dtype, device)
        return tt.concat([table[:, 0::2], table[:, 1::2]], axis=1)
