"""A batch of sequences as arrays of ids, and the three ids that mean no word."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

PAD, BOS, EOS = 0, 1, 2


@dataclass(frozen=True)
class Batch:
    """Ids of a padded batch.

    Attributes:
        source: (batch, source), each ending in eos.
        target_in: (batch, target), beginning with bos: what the decoder sees.
        target_out: (batch, target), the same shifted by one, ending in eos: what it has to say.
    """

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
        """What a model is called with."""
        return self.source, self.target_in

    @property
    def tokens(self) -> int:
        """How many ids are to be predicted, padding not counted."""
        return int((self.target_out != PAD).sum())


def padded(rows: list[list[int]]) -> Any:
    """Rows of ids as one array (rows, longest), filled up with PAD."""
    out = np.full((len(rows), max(len(row) for row in rows)), PAD, dtype=np.int64)
    for place, row in enumerate(rows):
        out[place, : len(row)] = row
    return out
