"""Attention of one query as a worked example, in numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..recording import AttentionCall, record_attention
from .svg import INK, MUTED, PANEL, RULE, SERIES, Colour, Element, Picture, text_width
from .tokens import check_tokens, isolated, label, visible
from .weights import choose, to_numpy

MARGIN, TOP, STEP, GAP, DIGITS = 16.0, 112.0, 24.0, 22.0, 50.0
MOST_KEYS, MOST_NUMBERS = 12, 4
BLUE = SERIES[0]
MINUS = "\N{MINUS SIGN}"


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
    q, k, v, hidden, added, scale, named = _read(query, key, value, mask, head, sample, scale)
    (queries, d_k), keys = q.shape, len(k)
    source = check_tokens(source, "source", keys, "source") if source is not None or queries != keys else source
    target = check_tokens(source if target is None and queries == keys else target, "target", queries, "target")
    source = target if source is None else source
    at = choose(token, queries, "token")[0]

    products = k @ q[at]
    scores = products * scale
    masked = np.where(hidden[at], -math.inf, scores + added[at])
    largest = masked.max()
    powers = np.exp(masked - largest) if largest > -math.inf else np.zeros(keys)
    weights = powers / max(powers.sum(), np.finfo(np.float64).tiny)
    result = weights @ v

    rows = list(range(keys))
    if keys > MOST_KEYS:
        rows = sorted(np.argsort(-weights, kind="stable")[:MOST_KEYS].tolist())
    more = keys - len(rows)
    long = max(len(rows), min(MOST_NUMBERS + 2, max(d_k, v.shape[1])))
    bottom = TOP + long * STEP + (STEP if more else 0)
    words = max(text_width(visible(t), 13) for t in [target[at], *(source[j] for j in rows)])
    tokens = min(120.0, max(words, 30.0)) + 12
    children: list[Element] = []
    x = MARGIN

    def y(i: int) -> float:
        return TOP + (i + 0.5) * STEP

    def column(width: float, step: str, formula: str) -> float:
        """A column with its heading; returns where it begins."""
        nonlocal x
        begin, x = x, x + width + GAP
        middle = begin + width / 2
        children.append(Element("rect", x=begin, y=52, width=width, height=bottom - 44, rx=6, fill=PANEL))
        heading = {"x": middle, "text_anchor": "middle", "class_": "formula"}
        children.append(Element("text", formula, y=74, font_size=14, font_style="italic", fill=INK, **heading))
        children.append(Element("text", step, x=middle, y=94, text_anchor="middle", font_size=11, fill=MUTED))
        if begin > MARGIN:
            children.append(
                Element("path", d=f"M{begin - GAP + 5:.1f} 70h10m-4 -4l4 4l-4 4", stroke=MUTED, fill="none")
            )
        return begin

    def amount(value: float, right: float, i: int, ink: Colour = INK, class_: str | None = None) -> None:
        place = {"x": right, "y": y(i) + 4, "text_anchor": "end", "font_size": 13, "class_": class_}
        children.append(Element("text", _short(value), fill=ink, **place))

    def vector(values: np.ndarray, begin: float, class_: str) -> None:
        """Downwards, with an ellipsis where something is left out."""
        for i, value in enumerate(_first(values)):
            amount(value, begin + DIGITS, i, class_=class_)
        if len(values) > len(_first(values)):
            children.append(Element("text", "⋮", x=begin + DIGITS - 12, y=y(len(_first(values))) + 4, fill=MUTED))

    def matrix(values: np.ndarray, begin: float, class_: str) -> None:
        """A row for each key."""
        for i, j in enumerate(rows):
            first = _first(values[j])
            for c, value in enumerate(first):
                amount(value, begin + (c + 1) * DIGITS, i, class_=class_)
            if values.shape[1] > len(first):
                place = {"x": begin + len(first) * DIGITS + 8, "y": y(i) + 4}
                children.append(Element("text", "…", fill=MUTED, **place))

    def breadth(size: int) -> float:
        return len(_first(np.zeros(size))) * DIGITS + (26 if size > MOST_NUMBERS + 1 else 8)

    begin = column(max(DIGITS + 16, tokens), "the query", "q")
    vector(q[at], begin + max(4, (tokens - DIGITS) / 2), "q")
    children.append(Element("text", "query", x=begin, y=46, font_size=11, fill=MUTED))
    children.append(label(target[at], 160, 13, fill=BLUE, font_weight="bold", x=begin + 34, y=46, class_="query"))
    begin = column(tokens + breadth(d_k), "the keys", "K")
    for i, j in enumerate(rows):
        children.append(label(source[j], tokens - 12, 13, fill=BLUE, x=begin + 8, y=y(i) + 4, class_="key"))
    matrix(k, begin + tokens, "k")
    begin = column(96, "scalar products", "q · kⱼ")
    for i, j in enumerate(rows):
        amount(products[j], begin + 70, i, class_="product")
    default = math.isclose(scale, 1 / math.sqrt(d_k), rel_tol=1e-6)
    formula = "/ √dₖ" if default else f"\N{MULTIPLICATION SIGN} {scale:.3g}"
    begin = column(82, f"√{d_k} = {_short(math.sqrt(d_k))}" if default else "scaled", formula)
    for i, j in enumerate(rows):
        amount(scores[j], begin + 64, i, class_="score")
    if hidden.any() or added.any():
        begin = column(82, f"{MINUS}∞ hides", "+ mask")
        for i, j in enumerate(rows):
            amount(masked[j], begin + 64, i, MUTED if masked[j] == -math.inf else INK, class_="masked")
    begin = column(118, "adds up to 1" if largest > -math.inf else "all is masked", "aⱼ = softmax")
    for i, j in enumerate(rows):
        bar = {"x": begin + 60, "y": y(i) - 7, "height": 14, "rx": 2}
        children.append(Element("rect", width=50, fill=RULE, **bar))
        children.append(Element("rect", width=50 * weights[j], fill=BLUE, class_="bar", **bar))
        amount(weights[j], begin + 52, i, class_="weight")
    begin = column(breadth(v.shape[1]), "the values", "V")
    matrix(v, begin, "v")
    begin = column(max(DIGITS + 16, 80), "weighted sum", "Σ aⱼ vⱼ")
    vector(result, begin + 8, "result")
    if more:
        rest = 1 - sum(weights[j] for j in rows) if largest > -math.inf else 0.0
        text = f"… and {more} more key{'s' * (more != 1)}, of weight {_short(max(rest, 0.0))} together"
        children.append(Element("text", text, x=MARGIN + tokens + GAP + 8, y=y(long) + 4, fill=MUTED, class_="more"))
    title = title or f"Scaled dot-product attention, step by step{named}"
    top = [Element("text", title, x=MARGIN, y=24, font_size=15, font_weight="bold", fill=INK)]
    best = int(weights.argmax())
    description = (
        f"The query {isolated(visible(target[at]))} over {keys} keys of size {d_k}; the largest weight, "
        f"{weights[best]:.2f}, goes to {isolated(visible(source[best]))}."
    )
    return Picture(
        max(x - GAP + MARGIN, text_width(title, 16) + 2 * MARGIN), bottom + 24, title, description, [*top, *children]
    )


def _read(query: Any, key: Any, value: Any, mask: Any, head: int, sample: int, scale: float | None) -> Any:
    """Q, K and V of one head, what is hidden and what is added to the scores (target, source), the scale, a name."""
    named = f", head {head}"
    if isinstance(query, record_attention):
        raise ValueError("attention_steps: choose a call of the recording, such as attention.decoder[0]")
    if isinstance(query, AttentionCall):
        if key is not None or value is not None or mask is not None:
            raise ValueError("attention_steps: a recorded call has its own key, value and mask; leave them out")
        call = query
        query, key, value, mask = call.query, call.key, call.value, call.mask
        scale = call.scale if scale is None else scale
        named += f" of {call.path}" if call.path else ""
    elif key is None or value is None:
        raise ValueError("attention_steps: give query, key and value, or one recorded call")
    arrays = [to_numpy(a) for a in (query, key, value)]
    if arrays[0].ndim < 3:
        named = ""
    q, k, v = (
        _one(np.asarray(a, dtype=np.float64), head, sample, n) for a, n in zip(arrays, ("query", "key", "value"))
    )
    if q.shape[1] != k.shape[1] or len(k) != len(v):
        raise ValueError(
            f"attention_steps: query {q.shape} and key {k.shape} must have the same size, key and value {v.shape} the "
            "same length"
        )
    if not all(np.isfinite(a).all() for a in (q, k, v)):
        raise ValueError("attention_steps: query, key or value hold numbers that are not finite")
    shape = (len(q), len(k))
    hidden, added = np.zeros(shape, dtype=bool), np.zeros(shape)
    if mask is not None:
        given = to_numpy(mask)
        given = _one(given, head, sample, "mask") if given.ndim > 2 else given
        try:
            given = np.broadcast_to(given, shape)
        except ValueError:
            raise ValueError(
                f"attention_steps: mask {given.shape} must broadcast to (target, source), {shape}"
            ) from None
        hidden = given if given.dtype.kind == "b" else given == -math.inf
        added = np.where(hidden, 0.0, given)
    return q, k, v, hidden, added, 1 / math.sqrt(q.shape[1]) if scale is None else float(scale), named


def _one(array: np.ndarray, head: int, sample: int, name: str) -> np.ndarray:
    """The head of the sample: (length, size)."""
    if not 2 <= array.ndim <= 4:
        raise ValueError(
            f"attention_steps: {name} has shape {array.shape}; expected (length, size), (head, length, size) or "
            "(batch, head, length, size)"
        )
    if array.ndim == 4:
        array = array[choose(sample, len(array), "sample")[0]]
    return array[choose(head, len(array), "head")[0]] if array.ndim == 3 else array


def _first(values: np.ndarray) -> np.ndarray:
    return values if len(values) <= MOST_NUMBERS + 1 else values[:MOST_NUMBERS]


def _short(value: float) -> str:
    """Two decimals, or three digits where that would be wide; a true minus."""
    if math.isinf(value):
        return f"{MINUS}∞" if value < 0 else "∞"
    text = f"{value:.2f}" if abs(value) < 1000 else f"{value:.0e}"
    return "0.00" if text == "-0.00" else text.replace("-", MINUS)
