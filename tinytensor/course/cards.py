"""The report card of a student's op, as words about its first mistake."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tinytensor.models.scripts.exercises import Wrong, expect
from tinytensor.testing import report

from .drawing import declared

LEFT_OUT = dict.fromkeys(
    ("second order", "empty arrays", "large inputs", "dtypes", "saved", "speed"), "a small engine does without"
)


def numbers(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    """An array of random numbers from low to high."""
    return np.random.default_rng(sum(shape)).uniform(low, high, shape)


def expect_type(result: Any, kind: type, what: str = "", more: str = "or no gradient flows") -> None:
    """Raise Wrong unless a result is of this type, and no hole."""
    expect(result is not ..., f"{what}the hole is still there")
    has = f"{what}the result has type {type(result).__name__}"
    expect(isinstance(result, kind), f"{has}; expected {kind.__name__}, {more}")


def card(
    op: Any, *samples: tuple[Any, ...], reference: Any = None, skip: Iterable[str] = (), **parameters: Any
) -> None:
    """Raise Wrong, with what the report card says, unless all gradients of an op are right on all samples.

    Args:
        op: with `forward`, `rules` and `inputs`, as the student's.
        samples: inputs, a tuple of arrays each.
        reference: the same function of NumPy arrays.
        skip: lines of the card to leave out, beside those that a small engine does without.
        parameters: of the op.
    """
    expect(hasattr(op, "rules"), f"it has type {type(op).__name__}; expected an op, declared with @op")
    out = op.forward(np, *samples[0], **parameters)
    expect(out is not ..., "the hole is still there: the forward function returns ...")
    for name, rule in op.rules.items():
        known = {**dict(zip(op.inputs, samples[0])), **parameters, "out": out, "shape": np.shape(samples[0][0])}
        reads = rule.__code__.co_varnames[2 : rule.__code__.co_argcount]
        unknown = [read for read in reads if read not in known]
        expect(not unknown, f"the rule of {name} names {', '.join(unknown)}; there are {', '.join(known)}")
        try:
            gradient = rule(np, np.ones_like(out), *(known[read] for read in reads))
        except Exception as error:
            shapes = ", ".join(f"{each} has shape {np.shape(known[each])}" for each in (*op.inputs, "out"))
            raise Wrong(f"the rule of {name} fails: {error}. g has the shape of out; {shapes}") from None
        expect(gradient is not ..., f"the rule of {name}: the hole is still there")
    left_out = {**LEFT_OUT, **dict.fromkeys(skip, "")}
    failed = report(declared(op), samples=samples, skip=left_out, reference=reference, **parameters).failed
    if failed:
        advice = f". {failed[0].advice}" if failed[0].advice else ""
        raise Wrong(f"{failed[0].name}: {failed[0].found}{advice}")
