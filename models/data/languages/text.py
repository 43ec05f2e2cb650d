"""Toy languages as text: from a line to the ids of a model trained on them, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..tokenizer import known
from .pairs import languages_of
from .task import Vocabulary

TOKEN = re.compile(r"[\w'-]+|[^\w\s]")


class ToyText:
    """English lines to ids, and ids to lines of the other language.

    Args:
        pair: "en-fr" or "en-ko".
        everyday_too: whether to know the words of everyday sentences as well, see `everyday`.

    Raises ValueError for another pair.
    """

    def __init__(self, pair: str, everyday_too: bool = False) -> None:
        languages_of(pair)
        self.pair, self.everyday_too = pair, everyday_too
        self.source, self.target = (Vocabulary(language, everyday_too) for language in pair.split("-"))

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of source ids and of target ids."""
        return len(self.source), len(self.target)

    def encode(self, text: str) -> list[int]:
        """The ids of a line, without begin and end; words as `written` joins them, or with spaces between all.

        Raises ValueError for a word that the language does not have.
        """
        return self.source.ids(TOKEN.findall(text))

    def decode(self, ids: Iterable[int]) -> str:
        """The line for ids up to the end of the sentence."""
        return self.target.text(list(ids))

    def source_pieces(self, ids: Iterable[int]) -> list[str]:
        """The words of source ids, for pictures."""
        return [self.source.words[i] for i in known(ids, len(self.source))]

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """The words of target ids, for pictures."""
        return [self.target.words[i] for i in known(ids, len(self.target))]

    def saved(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The data that `translator` writes into a model's folder: plain values and files."""
        return {"kind": "toy", "pair": self.pair} | ({"everyday_too": True} if self.everyday_too else {}), {}
