"""A batch of sequences as arrays of ids, and the three ids that mean no word."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

PAD, BOS, EOS = 0, 1, 2


@dataclass(frozen=True)
class Batch:
    """Ids of a padded batch.

    Attributes:
        source: (batch, source), each ending in eos.
        target_in: (batch, target), beginning with bos: the input of the decoder.
        target_out: (batch, target), the same shifted by one, ending in eos: the ids to predict.
        ignored: fills places of target_out without an id to predict.
    """

    ignored: ClassVar[int] = PAD
    source: Any
    target_in: Any
    target_out: Any

    @staticmethod
    def of(pairs: Iterable[tuple[list[int], list[int]]]) -> Batch:
        """The batch of pairs of ids, source and target, without begin and end."""
        sources, targets = zip(*pairs)
        return Batch(
            padded([[*s, EOS] for s in sources]),
            padded([[BOS, *t] for t in targets]),
            padded([[*t, EOS] for t in targets]),
        )

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arguments for calling a model."""
        return self.source, self.target_in

    @property
    def tokens(self) -> int:
        """The number of ids to predict, without padding."""
        return int((self.target_out != self.ignored).sum())


@dataclass(frozen=True)
class TextBatch:
    """Sequences for predicting an id at each place: the next one, or the hidden one.

    Attributes:
        ids: (batch, length), the input of the model.
        target_out: (batch, length), the ids to predict there.
        ignored: fills places of target_out without an id to predict.
    """

    ignored: ClassVar[int] = PAD
    ids: Any
    target_out: Any

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arguments for calling a model."""
        return (self.ids,)

    @property
    def tokens(self) -> int:
        """The number of ids to predict."""
        return int((self.target_out != self.ignored).sum())


AnyBatch = Batch | TextBatch


def padded(rows: list[list[int]], pad: int = PAD) -> Any:
    """Rows of ids as one array (rows, longest), filled up with `pad`."""
    out = np.full((len(rows), max(len(row) for row in rows)), pad, dtype=np.int64)
    for place, row in enumerate(rows):
        out[place, : len(row)] = row
    return out
