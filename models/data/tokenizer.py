"""Text as subword ids: byte-pair encoding (Sennrich et al. 2016) by sentencepiece, trained on the given text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tinytensor.machine.files import atomic_write

from .batch import BOS, EOS, PAD

UNKNOWN = 3


class TokenizerError(ValueError):
    """A text or a file that does not give a tokenizer; the message is one line that says which, and why."""


class Tokenizer:
    """Subwords of one vocabulary for all languages of a model.

    Args:
        model: the bytes of a sentencepiece model, as in `train` and `load`.
    """

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self.model = model
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)

    @staticmethod
    def train(sentences: Iterable[str], vocabulary: int) -> Tokenizer:
        """Learn a vocabulary of this size. Raises TokenizerError if the text cannot fill it, or it is too small."""
        import sentencepiece

        written = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences),
                model_writer=written,
                model_type="bpe",
                vocab_size=vocabulary,
                character_coverage=1.0,
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_id=UNKNOWN,
                max_sentence_length=2**30,  # bytes; longer ones would be left out silently
                num_threads=1,  # the same text gives the same vocabulary
                minloglevel=2,
            )
        except (RuntimeError, ValueError) as error:
            raise TokenizerError(f"vocabulary {vocabulary} does not suit this text: {_reason(str(error))}") from None
        return Tokenizer(written.getvalue())

    @staticmethod
    def load(path: Path) -> Tokenizer:
        """Read a tokenizer's file. Raises TokenizerError, with the file's name, for any other file."""
        try:
            return Tokenizer(path.read_bytes())
        except OSError as error:
            raise TokenizerError(f"cannot read {path}: {error.strerror or error}") from None
        except RuntimeError:
            raise TokenizerError(f"{path} is no sentencepiece model") from None

    def save(self, path: Path) -> None:
        """Write the tokenizer's file, whole or not at all."""
        atomic_write(path, self.model)

    def saved(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The data that `translator` writes into a model's folder: plain values and files."""
        return {"kind": "subwords"}, {"tokenizer.model": self.model}

    def __len__(self) -> int:
        return self._processor.vocab_size()

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of source ids and of target ids."""
        return len(self), len(self)

    def encode(self, text: str) -> list[int]:
        """The ids of a sentence, without begin and end."""
        return self._processor.encode(text)

    def words(self, text: str) -> list[str]:
        """The words that subwords come from, in the vocabulary's spelling, each with an underline for its space."""
        return ["▁" + word for word in "".join(self.cut(text)).split("▁") if word]

    def cut(self, text: str) -> list[str]:
        """The subwords of a sentence."""
        return self._processor.encode(text, out_type=str)

    def join(self, pieces: list[str]) -> str:
        """The sentence of some subwords."""
        return self._processor.decode_pieces(pieces)

    def decode(self, ids: Iterable[int]) -> str:
        """The sentence of some ids; begin, end and padding add nothing."""
        return self._processor.decode([i for i in known(ids, len(self)) if i not in (PAD, BOS, EOS)])

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The subwords of some ids, for pictures: a space before a word is an underline."""
        return [self._processor.id_to_piece(i) for i in known(ids, len(self))]

    source_pieces = target_pieces = pieces  # one vocabulary for both languages


def known(ids: Iterable[int], count: int) -> list[int]:
    """The ids as a list. Raises ValueError for one that no text has."""
    found = [int(i) for i in ids]
    if unknown := [i for i in found if not 0 <= i < count]:
        raise ValueError(f"no text has the id {unknown[0]}; expected ids from 0 to {count - 1}")
    return found


def _reason(message: str) -> str:
    """The reason from sentencepiece's message, in our words if we know it."""
    if "unk_id" in message:
        return f"padding, begin, end and unknown words take {UNKNOWN + 1}"
    if needed := re.search(r"(\d+) vs (\d+)", message):
        return f"its characters and {UNKNOWN + 1} special ids take {needed[2]}"
    if possible := re.search(r"<= (\d+)", message):
        return f"it has {possible[1]} subwords at most"
    return " ".join(message.split())
