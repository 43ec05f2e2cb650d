"""Attention of one query as a worked example, in numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .heads import Head, Projections, Steps, read_head, read_projections
from .svg import INK, MINUS, MUTED, PANEL, RULE, SERIES, Element, Picture, text_width, titled
from .tokens import check_pair, isolated, label, visible
from .weights import choose

MARGIN, TOP, STEP, GAP, DIGITS = 16.0, 112.0, 24.0, 22.0, 50.0
TIMES = "\N{MULTIPLICATION SIGN}"
HEADING = 6.0  # the overlap of a band of columns with the band above it
MOST_KEYS, MOST_NUMBERS = 12, 4
BLUE = SERIES[0]


def attention_steps(
    query: Any = None,
    key: Any = None,
    value: Any = None,
    mask: Any = None,
    *,
    x: Any = None,
    weights: Any = None,
    source: Any = None,
    target: Any = None,
    token: int = -1,
    head: int = 0,
    sample: int = 0,
    scale: float | None = None,
    title: str | None = None,
) -> Picture:
    """One query on its way through softmax(q Kᵀ / √d_k + mask) V, in numbers (Vaswani et al. 2017, equation 1).

    It shows the first four numbers of vectors longer than five, and the twelve keys with the largest weights of more
    than twelve, in their order. With `x` and `weights` the picture begins with the projections q = x W^Q, K = x W^K
    and V = x W^V of the head (section 3.2.2).

        visualize.attention_steps(x=x, weights=layer, head=1, token=2)  # of a trained nn.MultiheadAttention
        visualize.attention_steps(x=x, weights=(w_q, w_k, w_v), token=2)

    Args:
        query: a recorded AttentionCall, such as `attention.decoder[0]`; or Q, (target, d_k), also as
            (head, target, d_k) or (batch, head, target, d_k); default: computed from x and weights.
        key, value: K and V, (source, d_k) and (source, d_v), with the same axes before; not with a recorded call.
        mask: an array that broadcasts to (target, source): boolean, True where attention is not allowed, or floating,
            added to the scores; not with a recorded call.
        x: the input of the layer, (length, size), or a batch of it in the layer's layout; for attention from one
            sequence to another a pair: the input of the queries, and the input of keys and values.
        weights: the layer, a MultiheadAttention; or W^Q, W^K and W^V, (size, d_k), (size, d_k) and (size, d_v).
        source, target: the tokens of keys and queries; default: their numbers; if the lengths are the same, one list
            serves both.
        token: the index of the query; default: the last one.
        head, sample: the index of the head, and of the sample in a batch.
        scale: the factor of the scores; default: that of the recorded call or the layer, else 1 / √d_k.

    Raises ValueError if shapes or tokens do not fit, if numbers are not finite, or if x and weights give another query,
    key or value than the given ones.
    """
    inputs, projections = _read(query, key, value, mask, x, weights, head, sample, scale)
    queries, keys = inputs.hidden.shape
    source, target = check_pair(source, target, keys, queries)
    at = choose(token, queries, "token")[0]
    steps = inputs.follow(at)
    rows = sorted(np.argsort(-steps.weights, kind="stable")[:MOST_KEYS].tolist())  # the heaviest, in their order
    shown = [target[at], *(source[j] for j in rows)]
    names = min(120.0, max(30.0, *(text_width(visible(token), 13) for token in shown))) + 12  # a column's width
    before = _write_projections(projections, rows, at, names, target[at], source) if projections else None
    columns = _write_out(inputs, steps, rows, names, target[at], source, before)

    title = title or f"Scaled dot-product attention, step by step{inputs.name}"
    best = int(steps.weights.argmax())
    description = (
        f"The query {isolated(visible(target[at]))} over {keys} keys of size {len(steps.query)}; the largest weight, "
        f"{steps.weights[best]:.2f}, goes to {isolated(visible(source[best]))}."
    )
    bands = [columns] if before is None else [before, columns]
    width = max(band.width for band in bands)
    elements = [element for band in bands for element in band.elements]
    return titled(width, columns.bottom + 24, title, description, elements)


def _read(
    query: Any, key: Any, value: Any, mask: Any, x: Any, weights: Any, head: int, sample: int, scale: float | None
) -> tuple[Head, Projections | None]:
    """One head, and its projections if x and weights were given."""
    who = "attention_steps"
    if (x is None) != (weights is None):
        raise ValueError(f"{who}: x and weights belong together; give both, or neither")
    if x is None:
        return read_head(who, query, key, value, mask, head, sample, scale), None
    projections = read_projections(x, weights, head, sample)
    computed = query is None and key is None and value is None
    if computed:
        query, key, value = projections.project()
        scale = projections.scale if scale is None else scale
    inputs = read_head(who, query, key, value, mask, head, sample, scale)
    projections.check(inputs)
    return replace(inputs, name=projections.name) if computed else inputs, projections


# ---- how they are written


def _write_projections(
    projections: Projections, rows: list[int], at: int, names: float, token: str, source: list[str]
) -> _Columns:
    """The columns at the beginning: x and its weights."""
    longest = max(projections.x.shape[1], *(len(w) for w in projections.weights))
    columns = _Columns(rows, max(len(rows), min(MOST_NUMBERS + 1, longest) + (projections.biases is not None)))
    size = projections.memory.shape[1]
    columns.begin("x", "of the query", max(_breadth(projections.x.shape[1]), names))
    columns.table(projections.x[at][None], 0, "x")
    columns.name_query(token)
    for i, (letter, matrix) in enumerate(zip("QKV", projections.weights)):
        if letter == "K":
            columns.begin("X", "of the keys and values", names + _breadth(size), joint="")
            columns.name_keys(source, names - 12)
            columns.matrix(projections.memory, names, "memory")
        bias = None if projections.biases is None else projections.biases[i]
        shape = TIMES.join(map(str, matrix.shape)) + (", below it + b" if bias is not None else "")
        columns.begin(f"W^{letter}", shape, _breadth(matrix.shape[1]), joint="," if letter == "V" else "·")
        columns.table(matrix, 0, f"w{letter.lower()}", bias)
    return columns


def _write_out(
    inputs: Head, steps: Steps, rows: list[int], names: float, token: str, source: list[str], before: _Columns | None
) -> _Columns:
    """A column for each step, below the columns of the projections."""
    d_k, d_v = len(steps.query), len(steps.result)
    left_out = len(source) - len(rows)
    lines = max(len(rows), min(MOST_NUMBERS + 2, max(d_k, d_v))) + bool(left_out)
    columns = _Columns(rows, lines, 0.0 if before is None else before.bottom - HEADING)
    q, k, v = ("q", "K", "V") if before is None else ("q = x W^Q", "K = X W^K", "V = X W^V")

    room = 16 if before is None else 36  # for the longer formula
    columns.begin(q, "the query", max(DIGITS + room, names))
    columns.table(steps.query[:, None], max((room - 8) / 2, (names - DIGITS) / 2), "q")
    columns.name_query(token)
    columns.begin(k, "the keys", names + _breadth(d_k))
    columns.name_keys(source, names - 12)
    columns.matrix(inputs.key, names, "k")
    columns.begin("q · kⱼ", "scalar products", 96)
    columns.matrix(steps.products[:, None], 20, "product")
    columns.begin(*scaling(inputs.scale, d_k), 82)
    columns.matrix(steps.scores[:, None], 14, "score")
    if inputs.masked:
        columns.begin("+ mask", f"{MINUS}∞ hides", 82)
        columns.matrix(steps.masked[:, None], 14, "masked")
    columns.begin("aⱼ = softmax", "adds up to 1" if steps.seen else "all is masked", 118)
    columns.bars(steps.weights)
    columns.begin(v, "the values", _breadth(d_v))
    columns.matrix(inputs.value, 0, "v")
    columns.begin("Σ aⱼ vⱼ", "weighted sum", max(DIGITS + 16, 80))
    columns.table(steps.result[:, None], 8, "result")
    if left_out:
        rest = 1 - sum(steps.weights[j] for j in rows) if steps.seen else 0.0
        more = f"… and {left_out} more key{'s' * (left_out != 1)}, of weight {_short(max(rest, 0.0))} together"
        columns.note(more, MARGIN + names + GAP + 8)
    return columns


class _Columns:
    """Columns from left to right, with a line in each for every key shown.

    Each method draws into the last column begun; `at` is in pixels from its left side.

    Args:
        rows: the indices of the keys shown.
        lines: how many lines there is room for.
        above: the height of the picture above them.
    """

    def __init__(self, rows: list[int], lines: int, above: float = 0.0) -> None:
        self.rows, self.lines, self.above = rows, lines, above
        self.left = self.next = MARGIN  # the left sides of the last column and of the next one
        self.elements: list[Element] = []

    @property
    def width(self) -> float:
        return self.next - GAP + MARGIN

    @property
    def bottom(self) -> float:
        return self.above + TOP + self.lines * STEP

    def begin(self, formula: str, meaning: str, width: float, joint: str = "→") -> None:
        """Begin a column with its heading, and an arrow or another sign between it and the column before."""
        x = self.left = self.next
        self.next = x + width + GAP
        middle, top = x + width / 2, self.above
        self._draw("rect", x=x, y=top + 52, width=width, height=self.bottom - top - 44, rx=6, fill=PANEL)
        self.elements += _formula(formula, middle, top + 74)
        self._draw("text", meaning, x=middle, y=top + 94, text_anchor="middle", font_size=11, fill=MUTED)
        if x > MARGIN and joint == "→":
            self._draw("path", d=f"M{x - GAP + 5:.1f} {top + 70:.1f}h10m-4 -4l4 4l-4 4", stroke=MUTED, fill="none")
        elif x > MARGIN:
            self._draw("text", joint, x=x - GAP / 2, y=top + 75, text_anchor="middle", font_size=16, fill=INK)

    def matrix(self, values: np.ndarray, at: float, class_: str) -> None:
        """Draw a row of numbers for each key, with an ellipsis if some are left out."""
        for line, j in enumerate(self.rows):
            self._row(values[j], self.left + at, line, class_)

    def table(self, values: np.ndarray, at: float, class_: str, bias: np.ndarray | None = None) -> None:
        """Draw a matrix from its first row on, with ellipses; below it a bias, after a plus."""
        left = self.left + at
        rows = _shown(len(values))
        lines = [*values[:rows], *([None] if rows < len(values) else []), *([bias] if bias is not None else [])]
        for line, numbers in enumerate(lines):
            if numbers is None:
                self._draw("text", "⋮", x=left + DIGITS - 12, y=self._middle(line) + 4, fill=MUTED)
                continue
            self._row(numbers, left, line, "bias" if numbers is bias else class_)
            if numbers is bias:
                self._draw("text", "+", x=self.left + 4, y=self._middle(line) + 4, fill=MUTED)

    def bars(self, weights: np.ndarray) -> None:
        """Draw each weight as a number, and as the filled share of a bar."""
        for line, j in enumerate(self.rows):
            bar = {"x": self.left + 60, "y": self._middle(line) - 7, "height": 14, "rx": 2}
            self._draw("rect", width=50, fill=RULE, **bar)
            self._draw("rect", width=50 * weights[j], fill=BLUE, class_="bar", **bar)
            self._number(weights[j], self.left + 52, line, "weight")

    def name_query(self, token: str) -> None:
        """Write the query's token above the column."""
        self._draw("text", "query", x=self.left, y=self.above + 46, font_size=11, fill=MUTED)
        place = {"x": self.left + 34, "y": self.above + 46}
        self.elements.append(label(token, 160, 13, fill=BLUE, font_weight="bold", class_="query", **place))

    def name_keys(self, tokens: list[str], width: float) -> None:
        for line, j in enumerate(self.rows):
            place = {"x": self.left + 8, "y": self._middle(line) + 4}
            self.elements.append(label(tokens[j], width, 13, fill=BLUE, class_="key", **place))

    def note(self, text: str, x: float) -> None:
        """Write a text across the columns, in the last line."""
        self._draw("text", text, x=x, y=self._middle(self.lines - 1) + 4, fill=MUTED, class_="more")

    def _row(self, values: np.ndarray, left: float, line: int, class_: str) -> None:
        count = _shown(len(values))
        for c, value in enumerate(values[:count]):
            self._number(value, left + (c + 1) * DIGITS, line, class_)
        if count < len(values):
            self._draw("text", "…", fill=MUTED, x=left + count * DIGITS + 8, y=self._middle(line) + 4)

    def _number(self, value: float, right: float, line: int, class_: str) -> None:
        place = {"x": right, "y": self._middle(line) + 4, "text_anchor": "end", "font_size": 13, "class_": class_}
        self._draw("text", _short(value), fill=MUTED if value == -math.inf else INK, **place)

    def _middle(self, line: int) -> float:
        return self.above + TOP + (line + 0.5) * STEP

    def _draw(self, tag: str, *children: Element | str, **attributes: Any) -> None:
        self.elements.append(Element(tag, *children, **attributes))


def _formula(text: str, middle: float, y: float) -> list[Element]:
    """A formula around a middle, with the part after a ^ raised."""
    base, _, raised = text.partition("^")
    look = {"font_style": "italic", "fill": INK}
    if not raised:
        return [Element("text", base, x=middle, y=y, text_anchor="middle", class_="formula", font_size=14, **look)]
    at = middle + (text_width(base, 14) - text_width(raised, 10)) / 2
    return [
        Element("text", base, x=at, y=y, text_anchor="end", class_="formula", font_size=14, **look),
        Element("text", raised, x=at + 1, y=y - 5, class_="raised", font_size=10, **look),
    ]


def _shown(size: int) -> int:
    """How many numbers of a vector to show."""
    return size if size <= MOST_NUMBERS + 1 else MOST_NUMBERS


def _breadth(size: int) -> float:
    """The width of a row of a matrix."""
    return _shown(size) * DIGITS + (26 if _shown(size) < size else 8)


def scaling(scale: float, d_k: int) -> tuple[str, str]:
    """The formula of the scale, and its meaning."""
    if math.isclose(scale, 1 / math.sqrt(d_k), rel_tol=1e-6):
        return "/ √dₖ", f"√{d_k} = {_short(math.sqrt(d_k))}"
    return f"{TIMES} {scale:.3g}", "not scaled" if scale == 1 else "scaled"


def _short(value: float) -> str:
    """A number with two decimals, or as a power of ten from 1000 on; with a true minus."""
    if math.isinf(value):
        return f"{MINUS}∞" if value < 0 else "∞"
    text = f"{value:.2f}" if abs(value) < 1000 else f"{value:.0e}"
    return "0.00" if text == "-0.00" else text.replace("-", MINUS)
