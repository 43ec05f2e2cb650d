"""Attention of one query as a worked example, in numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .heads import Head, Steps, read_head
from .svg import INK, MINUS, MUTED, PANEL, RULE, SERIES, Element, Picture, text_width
from .tokens import check_pair, isolated, label, visible
from .weights import choose

MARGIN, TOP, STEP, GAP, DIGITS = 16.0, 112.0, 24.0, 22.0, 50.0
MOST_KEYS, MOST_NUMBERS = 12, 4
BLUE = SERIES[0]


def attention_steps(
    query: Any,
    key: Any = None,
    value: Any = None,
    mask: Any = None,
    *,
    source: Any = None,
    target: Any = None,
    token: int = -1,
    head: int = 0,
    sample: int = 0,
    scale: float | None = None,
    title: str | None = None,
) -> Picture:
    """One query followed through softmax(q Kᵀ / √d_k + mask) V, in its own numbers (Vaswani et al. 2017, equation 1).

    Of vectors longer than five the first four numbers are shown, and of more than twelve keys the twelve with the
    largest weights, in their order.

    Args:
        query: a recorded AttentionCall, such as `attention.decoder[0]`; or Q, (target, d_k), also as
            (head, target, d_k) or (batch, head, target, d_k).
        key, value: K and V, (source, d_k) and (source, d_v), with the same axes before; not with a recorded call.
        mask: what broadcasts to (target, source): boolean, True where attention is not allowed, or floating, added
            to the scores; not with a recorded call.
        source, target: the tokens of keys and queries; default: their numbers; one list serves both where the lengths
            are the same.
        token: the index of the query; default: the last one.
        head, sample: which one of several.
        scale: what the scores are multiplied by; default: 1 / √d_k.

    Raises ValueError where shapes or tokens do not fit, or numbers are NaN.
    """
    inputs = read_head("attention_steps", query, key, value, mask, head, sample, scale)
    queries, keys = inputs.hidden.shape
    source, target = check_pair(source, target, keys, queries)
    at = choose(token, queries, "token")[0]
    steps = inputs.follow(at)
    columns = _write_out(inputs, steps, target[at], source)

    title = title or f"Scaled dot-product attention, step by step{inputs.name}"
    heading = Element("text", title, x=MARGIN, y=24, font_size=15, font_weight="bold", fill=INK)
    best = int(steps.weights.argmax())
    description = (
        f"The query {isolated(visible(target[at]))} over {keys} keys of size {len(steps.query)}; the largest weight, "
        f"{steps.weights[best]:.2f}, goes to {isolated(visible(source[best]))}."
    )
    width = max(columns.width, text_width(title, 16) + 2 * MARGIN)
    return Picture(width, columns.bottom + 24, title, description, [heading, *columns.elements])


# ---- how they are written


def _write_out(inputs: Head, steps: Steps, query_token: str, source: list[str]) -> _Columns:
    """A column for each step."""
    d_k, d_v = len(steps.query), len(steps.result)
    rows = _heaviest(steps.weights)
    left_out = len(source) - len(rows)
    columns = _Columns(rows, max(len(rows), min(MOST_NUMBERS + 2, max(d_k, d_v))) + bool(left_out))
    widest = max(text_width(visible(token), 13) for token in [query_token, *(source[j] for j in rows)])
    names = min(120.0, max(widest, 30.0)) + 12  # the width of a token, with room behind it

    columns.begin("q", "the query", max(DIGITS + 16, names))
    columns.vector(steps.query, max(4, (names - DIGITS) / 2), "q")
    columns.name_query(query_token)
    columns.begin("K", "the keys", names + _breadth(d_k))
    columns.name_keys(source, names - 12)
    columns.matrix(inputs.key, names, "k")
    columns.begin("q · kⱼ", "scalar products", 96)
    columns.numbers(steps.products, 70, "product")
    columns.begin(*scaling(inputs.scale, d_k), 82)
    columns.numbers(steps.scores, 64, "score")
    if inputs.masked:
        columns.begin("+ mask", f"{MINUS}∞ hides", 82)
        columns.numbers(steps.masked, 64, "masked")
    columns.begin("aⱼ = softmax", "adds up to 1" if steps.seen else "all is masked", 118)
    columns.bars(steps.weights)
    columns.begin("V", "the values", _breadth(d_v))
    columns.matrix(inputs.value, 0, "v")
    columns.begin("Σ aⱼ vⱼ", "weighted sum", max(DIGITS + 16, 80))
    columns.vector(steps.result, 8, "result")
    if left_out:
        rest = 1 - sum(steps.weights[j] for j in rows) if steps.seen else 0.0
        more = f"… and {left_out} more key{'s' * (left_out != 1)}, of weight {_short(max(rest, 0.0))} together"
        columns.note(more, MARGIN + names + GAP + 8)
    return columns


class _Columns:
    """Columns from left to right, in each a line for each key that is shown.

    What is drawn goes into the column that was begun last, so many pixels from its left side.

    Args:
        rows: the indices of the keys that are shown.
        lines: how many lines there is room for.
    """

    def __init__(self, rows: list[int], lines: int) -> None:
        self.rows, self.lines = rows, lines
        self.left = self.next = MARGIN  # where the last column begins, and the one after it
        self.elements: list[Element] = []

    @property
    def width(self) -> float:
        return self.next - GAP + MARGIN

    @property
    def bottom(self) -> float:
        return TOP + self.lines * STEP

    def begin(self, formula: str, meaning: str, width: float) -> None:
        """A column with its heading, and an arrow to it from the one before."""
        x = self.left = self.next
        self.next = x + width + GAP
        middle = x + width / 2
        self._draw("rect", x=x, y=52, width=width, height=self.bottom - 44, rx=6, fill=PANEL)
        heading = {"x": middle, "text_anchor": "middle", "class_": "formula"}
        self._draw("text", formula, y=74, font_size=14, font_style="italic", fill=INK, **heading)
        self._draw("text", meaning, x=middle, y=94, text_anchor="middle", font_size=11, fill=MUTED)
        if x > MARGIN:
            self._draw("path", d=f"M{x - GAP + 5:.1f} 70h10m-4 -4l4 4l-4 4", stroke=MUTED, fill="none")

    def numbers(self, values: np.ndarray, at: float, class_: str) -> None:
        """One for each key."""
        for line, j in enumerate(self.rows):
            self._number(values[j], self.left + at, line, class_)

    def vector(self, values: np.ndarray, at: float, class_: str) -> None:
        """Downwards, with an ellipsis where something is left out."""
        count = _shown(len(values))
        for line, value in enumerate(values[:count]):
            self._number(value, self.left + at + DIGITS, line, class_)
        if len(values) > count:
            self._draw("text", "⋮", x=self.left + at + DIGITS - 12, y=_middle(count) + 4, fill=MUTED)

    def matrix(self, values: np.ndarray, at: float, class_: str) -> None:
        """A row for each key, with an ellipsis likewise."""
        begin, count = self.left + at, _shown(values.shape[1])
        for line, j in enumerate(self.rows):
            for c, value in enumerate(values[j, :count]):
                self._number(value, begin + (c + 1) * DIGITS, line, class_)
            if values.shape[1] > count:
                self._draw("text", "…", fill=MUTED, x=begin + count * DIGITS + 8, y=_middle(line) + 4)

    def bars(self, weights: np.ndarray) -> None:
        """Each weight as a number, and as the filled share of a bar."""
        for line, j in enumerate(self.rows):
            bar = {"x": self.left + 60, "y": _middle(line) - 7, "height": 14, "rx": 2}
            self._draw("rect", width=50, fill=RULE, **bar)
            self._draw("rect", width=50 * weights[j], fill=BLUE, class_="bar", **bar)
            self._number(weights[j], self.left + 52, line, "weight")

    def name_query(self, token: str) -> None:
        """Above the column."""
        self._draw("text", "query", x=self.left, y=46, font_size=11, fill=MUTED)
        place = {"x": self.left + 34, "y": 46}
        self.elements.append(label(token, 160, 13, fill=BLUE, font_weight="bold", class_="query", **place))

    def name_keys(self, tokens: list[str], width: float) -> None:
        for line, j in enumerate(self.rows):
            place = {"x": self.left + 8, "y": _middle(line) + 4}
            self.elements.append(label(tokens[j], width, 13, fill=BLUE, class_="key", **place))

    def note(self, text: str, x: float) -> None:
        """Across the columns, in the last line."""
        self._draw("text", text, x=x, y=_middle(self.lines - 1) + 4, fill=MUTED, class_="more")

    def _number(self, value: float, right: float, line: int, class_: str) -> None:
        place = {"x": right, "y": _middle(line) + 4, "text_anchor": "end", "font_size": 13, "class_": class_}
        self._draw("text", _short(value), fill=MUTED if value == -math.inf else INK, **place)

    def _draw(self, tag: str, *children: str, **attributes: Any) -> None:
        self.elements.append(Element(tag, *children, **attributes))


def _middle(line: int) -> float:
    return TOP + (line + 0.5) * STEP


def _heaviest(weights: np.ndarray) -> list[int]:
    """The keys that are shown, in their order."""
    if len(weights) <= MOST_KEYS:
        return list(range(len(weights)))
    return sorted(np.argsort(-weights, kind="stable")[:MOST_KEYS].tolist())


def _shown(size: int) -> int:
    """How many numbers of a vector are shown."""
    return size if size <= MOST_NUMBERS + 1 else MOST_NUMBERS


def _breadth(size: int) -> float:
    """How wide a row of a matrix is."""
    return _shown(size) * DIGITS + (26 if _shown(size) < size else 8)


def scaling(scale: float, d_k: int) -> tuple[str, str]:
    """The formula of the scale, and its meaning."""
    if math.isclose(scale, 1 / math.sqrt(d_k), rel_tol=1e-6):
        return "/ √dₖ", f"√{d_k} = {_short(math.sqrt(d_k))}"
    return f"\N{MULTIPLICATION SIGN} {scale:.3g}", "not scaled" if scale == 1 else "scaled"


def _short(value: float) -> str:
    """Two decimals, or three digits where that would be wide; a true minus."""
    if math.isinf(value):
        return f"{MINUS}∞" if value < 0 else "∞"
    text = f"{value:.2f}" if abs(value) < 1000 else f"{value:.0e}"
    return "0.00" if text == "-0.00" else text.replace("-", MINUS)
