"""Marian (Junczys-Dowmunt et al. 2018): the Transformer of the OPUS-MT translators, one for each pair of languages.

It differs from the paper's in four things: sines stand in the first half of a position's vector and cosines in the
second, no norm ends the stacks, the activation is SiLU, and the final projection has a bias beside the shared weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.machine.files import read_json
from tinytensor.nn import functional as F

from .data.tokenizer import Tokenizer, TokenizerError
from .pretrained import arguments_of
from .transformer import Transformer
from .weights import PretrainedError, reading

ACTIVATIONS = {"swish": F.silu, "silu": F.silu, "gelu": F.gelu, "relu": F.relu}
VOCABULARY, SOURCE, TARGET = "vocab.json", "source.spm", "target.spm"


class Marian(Transformer):
    """Encoder-decoder with one vocabulary for both languages, whose translations begin with the id of padding.

    Args:
        vocabulary: the number of ids.
        num_layers, num_decoder_layers: layers of the encoder, and of the decoder; default: as many.
        activation: of the feed-forward layers: "swish", which is SiLU, "gelu" or "relu".
        d_model, num_heads, d_ff, dropout, max_length, pad_id, eos_id: as for `Transformer`.
    """

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
    ) -> None:
        super(Transformer, self).__init__(  # not Transformer's own, which makes other stacks
            vocabulary, None, d_model, max_length=max_length, tie_weights=True, share_embeddings=True,
            pad_id=pad_id, bos_id=pad_id, eos_id=eos_id,
        )  # fmt: skip
        self.config = arguments_of(locals())
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

    def _target_padding(self, target: Tensor) -> None:
        """None: the id of padding begins a translation, and behind its end only padding sees padding."""

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

    def __init__(self, d_model: int, dropout: float, max_len: int, batch_first: bool) -> None:
        super().__init__(d_model, dropout, max_len, batch_first)
        self._follow(self.encoding)

    def _follow(self, x: Tensor) -> None:
        super()._follow(x)
        self.encoding = tt.concat([self.encoding[:, 0::2], self.encoding[:, 1::2]], axis=1)


class MarianTokenizer:
    """Subwords of two languages with ids of one vocabulary: a `TextCodec` for a `Translator`.

    Args:
        source, target: cut the sentences of each language.
        ids: the id of each piece.

    A text may begin with the language to translate to, such as ">>fra<<", where the vocabulary has it.
    """

    def __init__(self, source: Tokenizer, target: Tokenizer, ids: dict[str, int]) -> None:
        self.source, self.target, self._ids = source, target, ids
        self._pieces = {i: piece for piece, i in ids.items()}
        self.special = {"pad_token": ids["<pad>"], "eos_token": ids["</s>"], "unk_token": ids["<unk>"]}

    @staticmethod
    def is_in(folder: Path) -> bool:
        """True if a folder has the files of one."""
        return all((folder / name).exists() for name in (VOCABULARY, SOURCE, TARGET))

    @staticmethod
    def load(folder: Path) -> MarianTokenizer:
        """Read the files of a folder. Raises PretrainedError that names the one at fault."""
        try:
            ids = {piece: int(i) for piece, i in reading(read_json, folder / VOCABULARY).items()}
            return MarianTokenizer(Tokenizer.load(folder / SOURCE), Tokenizer.load(folder / TARGET), ids)
        except TokenizerError as error:
            raise PretrainedError(str(error)) from None
        except (AttributeError, TypeError, ValueError, KeyError) as error:
            raise PretrainedError(f"{folder / VOCABULARY}: no ids of pieces ({error})") from None
        except ImportError:
            raise PretrainedError("sentencepiece is not installed; run: pip install -e '.[text]'") from None

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of source ids and of target ids."""
        return len(self), len(self)

    def __call__(self, *texts: str) -> np.ndarray:
        """The ids of some texts to translate, each with its end: (texts, longest), padded."""
        rows = [[*self.encode(text), self.special["eos_token"]] for text in texts]
        longest = max(map(len, rows), default=0)
        return np.array([row + [self.special["pad_token"]] * (longest - len(row)) for row in rows], dtype=np.int64)

    def encode(self, text: str) -> list[int]:
        """The ids of a text to translate, without its end; pieces that have none become that of <unk>."""
        code, closed, rest = text.partition("<<") if text.startswith(">>") else ("", "", text)
        pieces = [code + closed] * bool(closed) + self.source.cut(rest if closed else text)
        return [self._ids.get(piece, self.special["unk_token"]) for piece in pieces]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a translation's ids; end, padding and unknown pieces add nothing."""
        return self.target.join(self.pieces(i for i in ids if i not in self.special.values())).strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The piece of each id, for pictures. Raises ValueError for an id that none has."""
        found = [int(i) for i in ids]
        if unknown := [i for i in found if i not in self._pieces]:
            raise ValueError(f"MarianTokenizer: no piece has the id {unknown[0]}; expected ids below {len(self)}")
        return [self._pieces[i] for i in found]

    source_pieces = target_pieces = pieces

    def saved(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The data to rebuild the codec from."""
        return {"kind": "marian", "ids": self._ids}, {"source": self.source.model, "target": self.target.model}
