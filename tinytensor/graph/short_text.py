"""Values as short text without addresses: the same in every run."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"


def shape_text(shape: tuple[int, ...]) -> str:
    """`6×64`, or `scalar`."""
    return TIMES.join(map(str, shape)) or "scalar"


def short(value: Any) -> str:
    """A parameter in a few characters; arrays as dtype and shape."""
    if isinstance(value, (tuple, list)):
        if len(value) == 1:
            return short(value[0])
        shown = [short(v) for v in value[:4]] + ["…"] * (len(value) > 4)
        return f"({', '.join(shown)})"
    if isinstance(value, slice):
        ends = ["" if end is None else short(end) for end in (value.start, value.stop)]
        return ":".join(ends if value.step is None else [*ends, short(value.step)])
    if isinstance(value, np.dtype):
        return value.name
    if hasattr(value, "dtype"):
        return f"{value.dtype} {shape_text(value.shape)}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if value is Ellipsis:
        return "..."
    if value is None or isinstance(value, (int, complex, str)):
        return cut(str(value), 24)
    return getattr(value, "__name__", type(value).__name__)


def numbers_text(numbers: Any) -> str:
    """A number, or a list of numbers, with four digits: `[1, −2.5]`."""
    if isinstance(numbers, (list, tuple)):
        return f"[{', '.join(map(numbers_text, numbers))}]"
    return f"{float(numbers):.4g}".replace("-", MINUS)


def cut(text: str, length: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def plural(count: int, noun: str) -> str:
    """`1 op`, `2 ops`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def bytes_text(count: float) -> str:
    """`1.5 kB`: decimal units, as disks and networks count."""
    return _scaled(count, (" B", " kB", " MB", " GB"))


def count_text(count: float) -> str:
    """`1.5 M`."""
    return _scaled(count, ("", " k", " M", " G", " T"))


def seconds_text(seconds: float) -> str:
    """`1.5 ms`."""
    return _scaled(seconds * 1e9, (" ns", " µs", " ms", " s"))


def _scaled(count: float, units: tuple[str, ...]) -> str:
    power = next((i for i in range(len(units) - 1) if count < 1000 ** (i + 1)), len(units) - 1)
    return f"{count / 1000**power:.3g}{units[power]}"


def escape(text: str) -> str:
    """Text escaped for XML, without control characters, which XML cannot hold."""
    return html.escape(printable(text), quote=True)


def printable(text: str) -> str:
    """Text with a space for each character that is not printable."""
    return "".join(c if c.isprintable() else " " for c in text)
