"""A model's attention in one sentence, and the words for pictures of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn.module import evaluating
from tinytensor.nn.recording import AttentionCall, Kind
from tinytensor.nn.visualize.weights import shares

KINDS: tuple[Kind, ...] = ("cross", "encoder", "decoder")
BEGIN, END = "<begin>", "<end>"


@dataclass(frozen=True, eq=False)
class SentenceAttention:
    """The attention of a sentence and its translation, of every kind that the model has.

    Attributes:
        layers: for each kind ("cross", "encoder", "decoder") the calls of its layers, each of a batch of one. Rows are
            divided by their sum, which is already 1 except for local attention (Luong et al. 2015, equation 10); there
            is a mask only if it hides anything.
        source: the text of each position of the source.
        said: the text that each position of the target predicts.
    """

    layers: dict[Kind, list[AttentionCall]]
    source: list[str]
    said: list[str]

    @classmethod
    def of(cls, model: Any, inputs: Any, pieces: Sequence[str], said: Sequence[str] = ()) -> SentenceAttention:
        """A model's attention in what it is called with: ids (1, length), or those of a source and of a target.

        Args:
            pieces: the text of each id of the source, or of the only sequence.
            said: the text that follows each id of the target, or of the only sequence of a language model.
        """
        with tt.no_grad(), evaluating(model), nn.record_attention() as attention:
            model(*inputs)
        found = {kind: [_shares(call) for call in getattr(attention, kind)] for kind in KINDS}
        return cls({kind: calls for kind, calls in found.items() if calls}, list(pieces), list(said))

    def tokens(self, kind: Kind) -> tuple[list[str], list[str]]:
        """The words of the keys and of the queries.

        A row of the decoder belongs to the word it predicts; its keys are the words before, which it reads.
        """
        keys = [BEGIN, *self.said[:-1]] if kind == "decoder" else self.source
        return keys, self.source if kind == "encoder" else self.said

    def find(self, kind: Kind, token: str) -> int:
        """The place of a word among the queries; "it:2" is the second of several.

        Raises ValueError that lists the words.
        """
        queries = self.tokens(kind)[1]
        places = _places(queries, token)
        word, colon, number = token.rpartition(":")
        if not places and colon and number.isdecimal():
            places = _places(queries, word)[int(number) - 1 : int(number)] if int(number) else []
        if len(places) == 1:
            return places[0]
        if places:
            raise ValueError(f"{token!r} is there {len(places)} times; say which: {token}:1 to {token}:{len(places)}")
        where = "the sentence" if kind == "encoder" else "its translation"
        raise ValueError(f"{token!r} is not in {where}, which has {' '.join(queries)}")


def _places(queries: list[str], word: str) -> list[int]:
    """The places of a word; a subword may be given without the mark of the space before it."""
    return [i for i, query in enumerate(queries) if word in (query, query.removeprefix("▁"))]


def _shares(call: AttentionCall) -> AttentionCall:
    hidden = call.hidden
    return replace(call, weights=shares(call.weights), mask=call.mask if hidden is not None and hidden.any() else None)
