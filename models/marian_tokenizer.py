"""The subwords of Marian's translators: two models of sentencepiece, and one vocabulary for both languages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tinytensor.machine.extras import how_to_install
from tinytensor.machine.files import atomic_write, read_json

from .data.tokenizer import Tokenizer, TokenizerError
from .weights import PretrainedError, reading

FILES = VOCABULARY, SOURCE, TARGET = "vocab.json", "source.spm", "target.spm"


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
        return all((folder / name).exists() for name in FILES)

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
            raise PretrainedError(f"sentencepiece is not installed; run: {how_to_install('text')}") from None

    def save(self, folder: Path) -> None:
        """Write the files that `load` reads."""
        atomic_write(folder / VOCABULARY, json.dumps(self._ids, ensure_ascii=False).encode())
        self.source.save(folder / SOURCE)
        self.target.save(folder / TARGET)

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
