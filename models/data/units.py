"""Units of text for a language model: bytes, characters, or the subwords of its lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from .batch import BOS, EOS, PAD
from .tokenizer import Tokenizer, known

FIRST = 3  # the id after padding, begin and end


class Units(Protocol):
    """A text as ids, and ids as a text."""

    def __len__(self) -> int:
        """The number of ids."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text. Raises ValueError if it cannot be written in ids."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; padding and begin add nothing. Raises ValueError for an id that no text has."""

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The text of each id, for pictures."""

    def saved(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The data to rebuild the units from: plain values, with their `kind`, and files by their role."""


class Bytes:
    """The bytes of a text in UTF-8: 256 ids for every language, after the three that mean no byte."""

    def __len__(self) -> int:
        return FIRST + 256

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return [FIRST + byte for byte in text.encode()]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; bytes that are no character become a replacement mark."""
        return bytes(i - FIRST for i in known(ids, len(self)) if i >= FIRST).decode(errors="replace")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The text of each id: a character of ASCII, or a number in hexadecimal."""
        ids = known(ids, len(self))
        return [_shown(chr(i - FIRST)) if FIRST <= i < FIRST + 128 else f"{i - FIRST:02x}" * (i >= FIRST) for i in ids]

    def saved(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The data to rebuild the units from."""
        return {"kind": "bytes"}, {}


class Characters:
    """The characters that occur in a text, in the order of Unicode, each with an id.

    Args:
        text: contains every character; repeats do not matter.
    """

    def __init__(self, text: str) -> None:
        self.characters = "".join(sorted(set(text)))
        self._ids = {character: FIRST + i for i, character in enumerate(self.characters)}

    def __len__(self) -> int:
        return FIRST + len(self.characters)

    def encode(self, text: str) -> list[int]:
        """The ids of a text. Raises ValueError that names the characters without one."""
        unknown = sorted(set(text) - self._ids.keys())
        if unknown:
            raise ValueError(f"no id for {', '.join(map(repr, unknown[:10]))}: the text of training had none of it")
        return [self._ids[character] for character in text]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids."""
        return "".join(self.characters[i - FIRST] for i in known(ids, len(self)) if i >= FIRST)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The text of each id; a space becomes an underline."""
        return [_shown(self.characters[i - FIRST]) if i >= FIRST else "" for i in known(ids, len(self))]

    def saved(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The data to rebuild the units from."""
        return {"kind": "characters", "characters": self.characters}, {}


class Subwords:
    """The subwords of a text's lines (Sennrich et al. 2016), by sentencepiece; eos is the end of a line.

    White space within a line becomes one space, as in sentencepiece.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def __len__(self) -> int:
        return len(self.tokenizer)

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        first, *others = [self.tokenizer.encode(line) for line in text.split("\n")]
        return first + [i for line in others for i in (EOS, *line)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids."""
        lines: list[list[int]] = [[]]
        for i in ids:
            if i == EOS:
                lines.append([])
            elif i not in (PAD, BOS):
                lines[-1].append(i)
        return "\n".join(map(self.tokenizer.decode, lines))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The text of each id; a space before a word becomes an underline."""
        return self.tokenizer.pieces(ids)

    def saved(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The data to rebuild the units from."""
        return {"kind": "subwords of lines"}, self.tokenizer.saved()[1]


def _shown(character: str) -> str:
    return {" ": "▁", "\n": "↵", "\t": "⇥"}.get(character, character)


UNITS: dict[str, Callable[[str, int], Units]] = {
    "bytes": lambda text, vocabulary: Bytes(),
    "characters": lambda text, vocabulary: Characters(text),
    "subwords": lambda text, vocabulary: Subwords(Tokenizer.train(re.split(r"\n+", text.strip()), vocabulary)),
}
"""By name, functions that make units from a text and the number of subwords."""

SAVED: dict[str, Callable[[dict[str, Any], dict[str, bytes]], Units]] = {
    "bytes": lambda values, files: Bytes(),
    "characters": lambda values, files: Characters(values["characters"]),
    "subwords of lines": lambda values, files: Subwords(Tokenizer(files["tokenizer.model"])),
}
"""By kind, functions that rebuild units from the data of `saved`."""
