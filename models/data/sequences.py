"""Sequence tasks made on the fly from a seed: copy, reverse, sort.

A sequence is a few letters; the target is the same letters unchanged, backwards, or in alphabetical order. A checksum
of the sequence itself decides whether it is kept for testing, so training never sees a test sequence.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .batch import EOS, PAD, Batch

LETTERS = "abcdefghijklmnopqrstuvwxyz"
FIRST_LETTER = 3
HELD_OUT = 8  # one in this many sequences is kept for testing

TASKS: dict[str, Callable[[list[int]], list[int]]] = {
    "copy": lambda letters: letters,
    "reverse": lambda letters: letters[::-1],
    "sort": sorted,
}


class SequenceTask:
    """Random sequences of letters and their answers.

    Args:
        name: "copy", "reverse" or "sort".
        seed: determines all sequences.
        min_length, max_length: the range of the number of letters, evenly distributed.
    """

    vocabulary = FIRST_LETTER + len(LETTERS)

    def __init__(self, name: str, seed: int = 0, min_length: int = 1, max_length: int = 12) -> None:
        if name not in TASKS:
            raise ValueError(f"unknown task {name!r}; expected one of {', '.join(TASKS)}")
        if not 1 <= min_length <= max_length:
            raise ValueError(f"lengths must satisfy 1 <= min_length <= max_length, got {min_length} and {max_length}")
        self.name, self.seed = name, seed
        self.min_length, self.max_length = min_length, max_length

    def training_batch(self, step: int, size: int) -> Batch:
        """The batch of a training step: always the same for the same seed and step."""
        return self.make_batch(self._training_sequences(np.random.default_rng((self.seed, 0, step)), size))

    def test_sequences(self, count: int) -> list[list[int]]:
        """Different sequences that training never sees; the first ones are the same for every count.

        Fewer than `count` if the lengths do not allow that many.
        """
        rng = np.random.default_rng((self.seed, 1))
        found: dict[tuple[int, ...], None] = {}
        for _ in range(100 + count // 10):
            for sequence in self._candidates(rng, 256):
                if _held_out(sequence) and len(found) < count:
                    found[tuple(sequence)] = None
            if len(found) == count:
                break
        return [list(sequence) for sequence in found]

    def _training_sequences(self, rng: np.random.Generator, count: int) -> list[list[int]]:
        found: list[list[int]] = []
        while len(found) < count:
            found += [sequence for sequence in self._candidates(rng, count) if not _held_out(sequence)]
        return found[:count]

    def _candidates(self, rng: np.random.Generator, count: int) -> list[list[int]]:
        lengths = rng.integers(self.min_length, self.max_length + 1, size=count)
        letters = rng.integers(FIRST_LETTER, self.vocabulary, size=(count, self.max_length))
        return [row[:length].tolist() for row, length in zip(letters, lengths)]

    def answer(self, sequence: list[int]) -> list[int]:
        """The right answer to a sequence."""
        return TASKS[self.name](sequence)

    def make_batch(self, sequences: list[list[int]]) -> Batch:
        """Sequences and their answers as a padded batch."""
        return Batch.of((sequence, self.answer(sequence)) for sequence in sequences)

    @staticmethod
    def to_ids(text: str) -> list[int]:
        """The ids of letters."""
        return [FIRST_LETTER + LETTERS.index(letter) for letter in text]

    @staticmethod
    def to_text(ids: Any) -> str:
        """Ids up to the end of the sequence, as letters; other ids as "?"."""
        text = ""
        for i in np.asarray(ids).tolist():
            if i in (EOS, PAD):
                break
            text += LETTERS[i - FIRST_LETTER] if i >= FIRST_LETTER else "?"
        return text


def _held_out(sequence: list[int]) -> bool:
    return zlib.crc32(bytes(sequence)) % HELD_OUT == 0
