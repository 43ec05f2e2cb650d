"""A trained model with its text codec: lines in, lines out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import tinytensor as tt
from tinytensor.nn.functional.settings import settings

from .data.languages import ToyText
from .data.tokenizer import Tokenizer
from .decoding import Hypothesis, Rules
from .huggingface import is_theirs
from .huggingface import read_folder as read_theirs
from .marian import Marian
from .marian_tokenizer import FILES, MarianTokenizer
from .pretrained import PretrainedError, make_codec, make_model, read_folder, write_folder
from .recurrent import Seq2Seq
from .sentence_attention import END, SentenceAttention
from .training.evaluation import decode_all
from .transformer import Transformer


class TextCodec(Protocol):
    """Text to ids and back, without begin and end."""

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of source ids and of target ids."""

    def encode(self, text: str) -> list[int]:
        """The ids of a line to translate. Raises ValueError if it cannot be written in ids."""

    def decode(self, ids: Iterable[int]) -> str:
        """The line of text for a translation's ids; begin, end and padding add nothing."""

    def source_pieces(self, ids: Iterable[int]) -> list[str]:
        """The text of each source id, for pictures."""

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """The text of each id of a translation, for pictures."""

    def saved(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The data to rebuild the codec from: plain values, with its `kind`, and files by their role."""


CODECS: dict[str, Callable[[dict[str, Any], dict[str, bytes]], TextCodec]] = {
    "subwords": lambda values, files: Tokenizer(files["tokenizer.model"]),
    "marian": lambda values, files: MarianTokenizer(
        Tokenizer(files["source"]), Tokenizer(files["target"]), values["ids"]
    ),
    "toy": lambda values, files: ToyText(values["pair"], values.get("everyday_too", False)),
}


@dataclass(frozen=True)
class Translation:
    """A translation of a line.

    Attributes:
        text: the line.
        ids: the model's output, with the end unless the limit came first.
        score: its log-probability (nats), divided by the number of ids to the power of the length penalty.
    """

    text: str
    ids: list[int]
    score: float


class Translator:
    """Translates lines of text.

    Args:
        model: `Transformer` or `Seq2Seq`, or another `Pretrained` module that can be decoded.
        codec: turns text into ids, and ids into text.
    """

    def __init__(self, model: Any, codec: TextCodec) -> None:
        self.model, self.codec = model, codec

    @settings
    def translate(
        self,
        lines: Sequence[str],
        *,
        num_beams: int = 5,
        num_return_sequences: int = 1,
        length_penalty: float = 1.0,
        early_stopping: bool | str | None = None,
        repetition_penalty: float = 1.0,
        no_repeat_ngram_size: int = 0,
        decode: Callable[[Any, Any], list[Hypothesis]] | None = None,
    ) -> list[list[Translation]]:
        """The best translations of each line, best first; none for an empty line.

        Args:
            lines: lines of similar length are decoded together; the results keep the order of the lines.
            num_beams: the number of hypotheses to follow; 1 is greedy decoding.
            num_return_sequences: the number of translations of a line; at most num_beams.
            length_penalty: a higher one favours longer translations; see `beam_search`, early_stopping too.
            repetition_penalty, no_repeat_ngram_size: against a translation that repeats itself; see `Rules`.
            decode: replaces beam search; `decode(model, ids)` returns one hypothesis for each row of padded ids.

        Raises ValueError that names the line, counted from 1, if the codec does not know its words, or if it is longer
        than the model takes.
        """
        if not 1 <= num_return_sequences <= num_beams:
            raise ValueError(
                f"translate: num_return_sequences must be from 1 to num_beams = {num_beams}, got {num_return_sequences}"
            )
        sources = [self._encode(line, number) for number, line in enumerate(lines, 1)]
        filled = [i for i, source in enumerate(sources) if source]
        how: dict[str, Any] = {"length_penalty": length_penalty, "early_stopping": early_stopping}
        how["rules"] = Rules(repetition_penalty, no_repeat_ngram_size)
        found = decode_all(self.model, [sources[i] for i in filled], beam=num_beams, decode=decode, **how)
        results: list[list[Translation]] = [[] for _ in lines]
        for i, hypotheses in zip(filled, found):
            best = hypotheses[:num_return_sequences]
            results[i] = [Translation(self.codec.decode(h.ids), h.ids, h.score) for h in best]
        return results

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without the end.

        Raises ValueError that says why the line cannot be translated: unknown words, or too many ids.
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
        """The attention of each id of a translation to the line.

        Returns the weights, for each layer (heads, target, source), and the pieces of source and target. Row t belongs
        to the id of step t. The list of weights is empty for a model without attention.
        """
        found = self.sentence_attention(line, translation)
        return [call.weights[0] for call in found.layers.get("cross", [])], found.source, found.said

    def sentence_attention(self, line: str, translation: Translation) -> SentenceAttention:
        """Attention of every kind, to the line and to the translation: for pictures."""
        source = [*self.encode(line), self.model.eos_id]
        device = self.model.projection.weight.device
        read = [self.model.bos_id, *translation.ids[:-1]]
        target = [i for i in translation.ids if i != self.model.eos_id]
        said = self.codec.target_pieces(target) + [END] * (len(translation.ids) - len(target))
        pieces = [*self.codec.source_pieces(source[:-1]), END]
        source_ids, target_ids = (tt.asarray([row], device=device) for row in (source, read))
        return SentenceAttention.of(self.model, (source_ids, target_ids), pieces, said)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the model and the codec into a folder; see `Pretrained.save_pretrained`."""
        values, files = self.codec.saved()
        write_folder(folder, self.model, values, files)

    @staticmethod
    def from_pretrained(folder: str | os.PathLike[str], device: str = "cpu") -> Translator:
        """Load the translator in a folder, with its model on a device.

        Raises PretrainedError, with the file's name, if the folder holds no translator or a damaged one.
        """
        name = os.fspath(folder)
        if is_theirs(folder):
            found, tokenizer = read_theirs(folder)
            if tokenizer is None:
                raise PretrainedError(f"{name}: holds a model without its tokenizer; add {', '.join(FILES)}")
            return Translator(make_model(found, {"Marian": Marian}, name, device), tokenizer)
        found = read_folder(folder)
        if found.text is None:
            raise PretrainedError(f"{name}: holds a model without a codec for text; Translator.save_pretrained adds it")
        codec = make_codec(found, CODECS, name)
        classes = {made.__name__: made for made in (Transformer, Seq2Seq, Marian)}
        model = make_model(found, classes, name, device)
        sizes = model.source_embedding.num_embeddings, model.target_embedding.num_embeddings
        if sizes != codec.sizes:
            raise PretrainedError(
                f"{name}: the model has vocabularies of {sizes[0]} and {sizes[1]} ids, the codec of its text has "
                f"{codec.sizes[0]} and {codec.sizes[1]}"
            )
        return Translator(model, codec)
