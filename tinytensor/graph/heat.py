"""Colouring by a measurement: the kinds of measurement, and the scale from number to colour."""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..tensor import wrap
from .program import nothing_recorded
from .short_text import bytes_text, count_text, seconds_text
from .structure import Op, Structure, Value

RAMP = ("#fff7bc", "#fee391", "#fec44f", "#fe9929", "#ec7014", "#cc4c02", "#993404", "#662506")
"""From little to much: yellow to brown, ever darker (for print and for the colour-blind)."""


@dataclass(frozen=True)
class Scale:
    """From a number to one of the ramp's colours; logarithmic if the numbers span more than `decades`.

    Attributes:
        name: the measured quantity.
        low, high: the smallest and the largest number in the picture.
        text: writes a number with its unit.
    """

    name: str
    low: float
    high: float
    text: Callable[[float], str]
    decades: float = 3

    def place(self, number: float) -> int:
        """The place of a number's colour in the ramp."""
        if not math.isfinite(number) or self.high <= self.low:
            return len(RAMP) - 1
        share = (number - self.low) / (self.high - self.low)
        if self.logarithmic:
            share = math.log(max(number, self.low) / self.low) / math.log(self.high / self.low)
        return min(int(share * len(RAMP)), len(RAMP) - 1)

    @property
    def logarithmic(self) -> bool:
        return self.low > 0 and self.high > 10**self.decades * self.low

    @property
    def middle(self) -> float:
        """The number in the middle of the ramp."""
        return math.sqrt(self.low * self.high) if self.logarithmic else (self.low + self.high) / 2


KINDS: dict[str, tuple[str, Callable[[float], str]]] = {
    "time": ("time", seconds_text),
    "bytes": ("memory of the result", bytes_text),
    "flops": ("floating-point operations", count_text),
    "grad": ("norm of the gradient", lambda x: f"{x:.3g}"),
}
"""The kinds of measurement: the name of each, and a function that writes its numbers."""


def measured_again(structure: Structure, nodes: dict[str, Any], repeat: int) -> Structure:
    """The structure with the time of each op as the median of several runs on the recorded arrays.

    The first ops have paid for memory and for threads that wake up, and one run of a short op tells little.
    """
    with nothing_recorded():
        ops = [
            dataclasses.replace(op, seconds=_median(nodes[op.id], repeat)) if nodes[op.id].traced else op
            for op in structure.ops
        ]
    return dataclasses.replace(structure, ops=tuple(ops))


def _median(node: Any, repeat: int) -> float:
    inputs = [wrap(x, None) if hasattr(x, "dtype") else x for x in node.values[:-1]]
    times = []
    for _ in range(repeat + 1):
        began = time.perf_counter()
        node.op.call(*inputs, **node.params)
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])  # the first warms up


def of_ops(kind: str, ops: Iterable[Op], values: dict[str, Value]) -> float | None:
    """The sum over some ops; for gradients, the norm at the last op. None if nothing was measured."""
    found: list[float] = []
    for op in ops:
        if kind == "time" and op.seconds is not None:
            found.append(op.seconds)
        elif kind == "bytes":
            found.append(values[op.output].nbytes)
        elif kind == "flops":
            found.append(op.flops)
        elif kind == "grad" and op.step is not None:
            found = [op.step.arrived.norm]
    return math.fsum(found) if found else None


def scale(kind: str, numbers: Iterable[float | None]) -> Scale:
    """The scale of a picture's numbers. Raises ValueError if nothing was measured."""
    known = [x for x in numbers if x is not None]
    finite = [x for x in known if math.isfinite(x)]
    name, text = KINDS[kind]
    if not known:
        raise ValueError(
            "draw: heat='grad' needs gradients: compute within tt.record(), then call backward()"
            if kind == "grad"
            else f"draw: heat={kind!r} needs measurements: compute within tt.record()"
        )
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    return Scale(name, low, high, text, 1 if kind == "grad" else 3)
