"""Language modelling as a task: stretches of one long text, to predict each id from those before it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from .batch import PAD, TextBatch
from .languages import context_pairs, written
from .languages.pairs import pairs


class StretchTask:
    """Stretches of a text, as long as the model's input, from anywhere in it.

    Args:
        ids: the text.
        length: the length of a stretch.
        seed: determines the stretches, together with the step.

    Raises ValueError for a text that is not longer than a stretch.
    """

    def __init__(self, ids: Any, length: int, seed: int = 0) -> None:
        if len(ids) <= length:
            raise ValueError(f"a text of {len(ids):,} ids is too short for stretches of {length:,}")
        self.ids, self.length, self.seed = np.asarray(ids), length, seed

    def training_batch(self, step: int, size: int) -> TextBatch:
        """The batch of a training step: always the same for the same seed and step."""
        starts = np.random.default_rng((self.seed, step)).integers(0, len(self.ids) - self.length, size)
        stretches = self.ids[starts[:, None] + np.arange(self.length + 1)]
        return TextBatch(stretches[:, :-1], stretches[:, 1:])


def whole(ids: Any, length: int, size: int = 64) -> Iterator[TextBatch]:
    """Batches to predict each id of a text once, except the first: most follow half a stretch or more."""
    ids = np.asarray(ids)
    step = max(1, length // 2)
    rows = []
    for start in range(0, max(1, len(ids) - 1 - (length - step)), step):
        row = np.full(length + 1, PAD)
        part = ids[start : start + length + 1]
        row[: len(part)] = part
        target = row[1:].copy()
        if start:
            target[: length - step] = PAD  # predicted already
        rows.append((row[:-1], target))
    waiting = iter(rows)
    while some := list(islice(waiting, size)):
        yield TextBatch(np.stack([row for row, _ in some]), np.stack([target for _, target in some]))


def toy_text(lines: int, seed: int = 0) -> str:
    """Sentences of the toy English, one per line: everyday ones, and ones that continue from clause to clause."""
    everyday = pairs("en-fr", f"text {seed}", False, True)
    context = context_pairs("en-fr", f"text {seed}", held_out=False)
    both = (written(pair.source, "en") for two in zip(everyday, context) for pair in two)
    return "".join(line + "\n" for line in islice(both, lines))
