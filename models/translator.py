"""A trained model with its text codec: lines in, lines out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import tinytensor as tt

from .data.languages import ToyText
from .data.tokenizer import Tokenizer
from .decoding import Hypothesis
from .pretrained import PretrainedError, make_codec, make_model, read_folder, write_folder
from .recurrent import Seq2Seq
from .sentence_attention import END, SentenceAttention
from .training.evaluation import decode_all
from .transformer import Transformer


class TextCodec(Protocol):
    """Text to ids and back, without begin and end."""

    @property
    def sizes(self) -> tuple[int, int]:
        """How many ids there are, of the source and of the target."""

    def encode(self, text: str) -> list[int]:
        """The ids of a line to translate. Raises ValueError if it cannot be written in ids."""

    def decode(self, ids: Iterable[int]) -> str:
        """The line that a translation's ids say; begin, end and padding are nothing."""

    def source_pieces(self, ids: Iterable[int]) -> list[str]:
        """What each id of a source stands for, for pictures."""

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """What each id of a translation stands for, for pictures."""

    def saved(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What makes the codec again: plain values, with its `kind`, and files by their role."""


CODECS: dict[str, Callable[[dict[str, Any], dict[str, bytes]], TextCodec]] = {
    "subwords": lambda values, files: Tokenizer(files["tokenizer.model"]),
    "toy": lambda values, files: ToyText(values["pair"], values.get("everyday_too", False)),
}


@dataclass(frozen=True)
class Translation:
    """A translation of a line.

    Attributes:
        text: the line.
        ids: what the model said, with the end unless the limit came first.
        score: its log-probability (nats), divided by the number of ids to the power of the length penalty.
    """

    text: str
    ids: list[int]
    score: float


class Translator:
    """Translates lines of text.

    Args:
        model: `Transformer` or `Seq2Seq`, or another `Pretrained` module that can be decoded.
        codec: makes ids of text, and text of ids.
    """

    def __init__(self, model: Any, codec: TextCodec) -> None:
        self.model, self.codec = model, codec

    def translate(
        self,
        lines: Sequence[str],
        *,
        beam: int = 5,
        n_best: int = 1,
        length_penalty: float = 1.0,
        decode: Callable[[Any, Any], list[Hypothesis]] | None = None,
    ) -> list[list[Translation]]:
        """The best translations of each line, the best first; of an empty line there is none.

        Args:
            lines: lines of like length are decoded together; the order of the results is that of the lines.
            beam: hypotheses that are followed; 1 is greedy decoding.
            n_best: how many translations of a line; at most `beam`.
            length_penalty: more favours longer translations; see `beam_search`.
            decode: in place of beam search, gives one hypothesis for each row of padded ids: `decode(model, ids)`.

        Raises ValueError that names the line, counted from 1, if it holds words that the codec does not know, or is
        longer than the model takes.
        """
        if not 1 <= n_best <= beam:
            raise ValueError(f"translate: n_best must be from 1 to beam = {beam}, got {n_best}")
        sources = [self._encode(line, number) for number, line in enumerate(lines, 1)]
        filled = [i for i, source in enumerate(sources) if source]
        found = decode_all(
            self.model, [sources[i] for i in filled], beam=beam, length_penalty=length_penalty, decode=decode
        )
        results: list[list[Translation]] = [[] for _ in lines]
        for i, hypotheses in zip(filled, found):
            results[i] = [Translation(self.codec.decode(h.ids), h.ids, h.score) for h in hypotheses[:n_best]]
        return results

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without the end.

        Raises ValueError that says why it cannot be translated: words that the codec does not know, or too many.
        """
        ids = self.codec.encode(line.strip())
        longest = getattr(self.model, "max_length", None)
        if longest is not None and len(ids) + 1 > longest:
            raise ValueError(f"{len(ids)} ids, but the model takes at most {longest - 1} of a sentence")
        return ids

    def _encode(self, line: str, number: int) -> list[int]:
        try:
            return self.encode(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None

    def attention(self, line: str, translation: Translation) -> tuple[list[np.ndarray], list[str], list[str]]:
        """What each id of a translation looked at in the line.

        Returns the weights, for each layer (heads, target, source), and the pieces of source and target. Row t belongs
        to the id that was said at step t. The list is empty for a model without attention.
        """
        found = self.sentence_attention(line, translation)
        return [call.weights[0] for call in found.layers.get("cross", [])], found.source, found.said

    def sentence_attention(self, line: str, translation: Translation) -> SentenceAttention:
        """What was looked at in the line, and in the translation, of every kind: for pictures."""
        source = [*self.encode(line), self.model.eos_id]
        device = self.model.projection.weight.device
        read = [self.model.bos_id, *translation.ids[:-1]]
        target = [i for i in translation.ids if i != self.model.eos_id]
        said = self.codec.target_pieces(target) + [END] * (len(translation.ids) - len(target))
        pieces = [*self.codec.source_pieces(source[:-1]), END]
        source_ids, target_ids = (tt.asarray([row], device=device) for row in (source, read))
        return SentenceAttention.of(self.model, source_ids, target_ids, pieces, said)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write model and codec into a folder; see `Pretrained.save_pretrained`."""
        values, files = self.codec.saved()
        write_folder(folder, self.model, values, files)

    @staticmethod
    def from_pretrained(folder: str | os.PathLike[str], device: str = "cpu") -> Translator:
        """The translator in a folder, its model on a device.

        Raises PretrainedError, with the file's name, if the folder holds none or a damaged one.
        """
        name = os.fspath(folder)
        found = read_folder(folder)
        if found.text is None:
            raise PretrainedError(f"{name}: holds a model without a codec for text; Translator.save_pretrained adds it")
        codec = make_codec(found, CODECS, name)
        classes = {made.__name__: made for made in (Transformer, Seq2Seq)}
        model = make_model(found, classes, name, device)
        sizes = (
            model.config["source_vocabulary"],
            model.config["target_vocabulary"] or model.config["source_vocabulary"],
        )
        if sizes != codec.sizes:
            raise PretrainedError(
                f"{name}: the model has vocabularies of {sizes[0]} and {sizes[1]} ids, the codec of its text has "
                f"{codec.sizes[0]} and {codec.sizes[1]}"
            )
        return Translator(model, codec)
