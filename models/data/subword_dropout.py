"""Subwords that differ from epoch to epoch: BPE-dropout (Provilkov et al. 2020)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from .tokenizer import UNKNOWN, Tokenizer

FORMS = 8  # forms of a frequent word in one draw; independent draws for each occurrence take four times as long


class SubwordDropout:
    """Draws the ids of texts again and again, each time leaving out other merges of subwords.

    A model that sees a word in different pieces learns its parts, and memorises less. sentencepiece can draw as well,
    but another process does not repeat its draws, and a resumed run must see the same data as an uninterrupted one.
    It also leaves out more: there a merge left out once never comes back.

    Args:
        tokenizer: gives the merges of byte-pair encoding; used unchanged wherever nothing is drawn.
        texts: the sentences.
        probability: the probability of leaving out a possible merge, drawn anew at every step of putting a word
            together; from 0 (the ids of `tokenizer.encode`) to 1 (characters). The paper has 0.1.
    """

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[str], probability: float) -> None:
        self.probability = probability
        pieces = tokenizer.pieces(range(UNKNOWN + 1, len(tokenizer)))
        self._ids = {piece: i for i, piece in enumerate(pieces, UNKNOWN + 1)}
        numbers: dict[str, int] = {}
        self._texts = [[numbers.setdefault(w, len(numbers)) for w in tokenizer.words(text)] for text in texts]
        count = Counter(number for words in self._texts for number in words)
        self._words = [(word, min(count[number], FORMS)) for word, number in numbers.items()]

    def draw(self, seed: int) -> list[list[int]]:
        """The ids of all texts, without begin and end; the seed determines them.

        A frequent word has `FORMS` forms, drawn anew for each call, and each occurrence picks one of them.
        """
        rng = random.Random(seed)
        forms = [[self.split(word, rng) for _ in range(times)] for word, times in self._words]
        return [[i for word in words for i in rng.choice(forms[word])] for words in self._texts]

    def split(self, word: str, rng: random.Random) -> list[int]:
        """The ids of one word, with an underline for the space before it (Provilkov et al. 2020, algorithm 1)."""
        ids, pieces = self._ids, list(word)
        while True:
            # pieces are numbered in the order they were learned: the merge learned first comes first
            possible = [
                (ids[merged], i)
                for i in range(len(pieces) - 1)
                if (merged := pieces[i] + pieces[i + 1]) in ids and rng.random() >= self.probability
            ]
            if not possible:
                found = [ids.get(piece, UNKNOWN) for piece in pieces]
                # as in sentencepiece, consecutive characters without an id are one unknown subword
                return [i for i, before in zip(found, [None, *found]) if not i == before == UNKNOWN]
            _, i = min(possible)
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
