"""Decoding: the candidates at each step, and beam search as a tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .svg import (
    BOLD,
    INK,
    MINUS,
    MUTED,
    PANEL,
    RULE,
    SERIES,
    Element,
    Picture,
    legend,
    text_width,
    titled,
)
from .tokens import isolated, label, visible

NARROW, WIDE, APART, LINE = 150.0, 260.0, 14.0, 30.0  # the widths of a step and between steps, a candidate's height
PAGE = 820.0  # the width of steps side by side, as on a page of text
SHARE = BOLD * text_width("<0.001", 11) + 10  # a probability, and room before it


def decoding_steps(
    candidates: Sequence[Sequence[tuple[str, float]]], chosen: Sequence[int], *, title: str = "Token by token"
) -> Picture:
    """The candidates at each step, with their probabilities as bars; the chosen token is framed and bold.

        choices = trace_choices(model, source, hypothesis.ids)         # tinytensor.models.decoding_trace

    Args:
        candidates: for each step, tokens with their probabilities (from 0 to 1), given all tokens said before.
        chosen: for each step, the place of the token that was said.
        title: a line above the picture.

    Raises ValueError if there are no steps, lengths differ, a place does not exist, a number is not a probability, or
    the probabilities of a step add up to more than 1.
    """
    steps = [[(str(token), float(p)) for token, p in step] for step in candidates]
    _check_steps(steps, chosen)
    children: list[Element] = []
    longest = max(BOLD * text_width(visible(token), 13) for step in steps for token, _ in step)
    top, wide = 44.0, min(max(NARROW, longest + SHARE + 12), WIDE)
    per_row = int((PAGE + APART) // (wide + APART))
    for start in range(0, len(steps), per_row):
        row = range(start, min(start + per_row, len(steps)))
        for column, i in enumerate(row):
            children += _step(i, steps[i], chosen[i], 16 + column * (wide + APART), top, wide)
        top += 34 + LINE * max(len(steps[i]) for i in row) + 16
    width = 32 + min(len(steps), per_row) * (wide + APART) - APART
    words = [(isolated(visible(step[place][0])), share_text(step[place][1])) for step, place in zip(steps, chosen)]
    said = ", ".join(" ".join(word) for word in words)
    return titled(width, top, title, f"Said, with its probability: {said}.", children)


def _check_steps(steps: list[list[tuple[str, float]]], chosen: Sequence[int]) -> None:
    if not steps or len(steps) != len(chosen):
        raise ValueError(
            f"decoding_steps: {len(steps)} steps of candidates, {len(chosen)} choices; expected equal numbers, not 0"
        )
    for i, (step, place) in enumerate(zip(steps, chosen)):
        if not 0 <= place < len(step):
            raise ValueError(f"decoding_steps: step {i} has {len(step)} candidates, and number {place} was chosen")
        for token, p in step:
            if not 0 <= p <= 1 + 1e-6:
                raise ValueError(
                    f"decoding_steps: {visible(token)} has probability {p} at step {i}; expected 0 to 1, no logarithm"
                )
        together = sum(p for _, p in step)
        if together > 1 + 1e-3:  # narrow dtypes may round up
            raise ValueError(
                f"decoding_steps: the probabilities of step {i} add up to {together:.4g}; expected 1 at most, of "
                "candidates that exclude each other"
            )


def _step(
    number: int, candidates: list[tuple[str, float]], chosen: int, left: float, top: float, wide: float
) -> list[Element]:
    """The candidates of a step, below the token that was said."""
    aside = text_width(str(number + 1), 11) + 10
    found = [
        Element("text", str(number + 1), x=left, y=top + 14, font_size=11, fill=MUTED),
        label(candidates[chosen][0], wide - aside, 14, x=left + aside, y=top + 14, fill=INK, font_weight="bold"),
        Element("line", x1=left, x2=left + wide, y1=top + 22, y2=top + 22, stroke=RULE),
    ]
    for i, (token, p) in enumerate(candidates):
        y, is_chosen = top + 28 + i * LINE, i == chosen
        weight = "bold" if is_chosen else None
        if is_chosen:
            frame = {"x": left, "y": y, "width": wide, "height": LINE - 1, "rx": 3}
            found.append(Element("rect", **frame, fill=PANEL, stroke=SERIES[0], class_="chosen"))
        found.append(label(token, wide - 12 - SHARE, 12, x=left + 6, y=y + 12, fill=INK, font_weight=weight))
        number_of = {"x": left + wide - 6, "y": y + 12, "text_anchor": "end", "font_size": 11}
        found.append(Element("text", share_text(p), fill=INK if is_chosen else MUTED, font_weight=weight, **number_of))
        track = {"x": left + 6, "y": y + 17, "height": 7, "rx": 2}
        found.append(Element("rect", width=wide - 12, fill=RULE, **track))
        fill = SERIES[0] if is_chosen else MUTED
        found.append(Element("rect", width=max((wide - 12) * min(p, 1.0), 0.5), fill=fill, class_="bar", **track))
    return found


def share_text(p: float) -> str:
    """A probability in three digits; never 0.000 or 1.000 unless it is exactly that."""
    return "<0.001" if 0 < p < 0.0005 else ">0.999" if 0.9995 <= p < 1 else f"{p:.3f}"


# ---- beam search


class BeamNode(NamedTuple):
    """The beginning of a hypothesis, one token longer than its parent.

    Attributes:
        parent: the place of the parent in the list; None for the root.
        token: its last token.
        log_probability: the log-probability of this token, given those before.
        score: the score of a hypothesis that ends here; the best is the result; None if it continues or was given up.
    """

    parent: int | None
    token: str
    log_probability: float
    score: float | None = None


Look = dict[str, object]
ROW, GAP, NODE = 40.0, 46.0, 30.0  # between rows, between columns, the height of a node
LONGEST, PAD = 160.0, 12.0  # a token's width at most, and from each side of a node
BEND = 9.0  # the part of a gap where an edge bends to its row; the rest has its probability


def beam_tree(nodes: Sequence[BeamNode], *, title: str = "Beam search") -> Picture:
    """The hypotheses that beam search followed, from left to right; the result is bold and blue, on top.

    The edge to a token shows its probability; below the token is the sum Σ of log-probabilities, which ranks the
    hypotheses. Round ones ended and have a score. Dashed ones were given up for better ones (Sutskever et al. 2014,
    section 3.2).

        branches, hypotheses = trace_beam(model, source, beam=3)       # tinytensor.models.decoding_trace

    Args:
        nodes: parents before children; the first is the root.
        title: a line above the picture.

    Raises ValueError if the nodes are not a tree, a log-probability or score is not valid, or no hypothesis ended.
    """
    nodes = [BeamNode(*node) for node in nodes]
    _check_tree(nodes)
    children: list[list[int]] = [[] for _ in nodes]
    depth, totals = [0] * len(nodes), [0.0] * len(nodes)
    scores = [-math.inf if node.score is None else node.score for node in nodes]
    best = list(scores)  # the best score below each node
    for i, node in enumerate(nodes[1:], 1):
        parent = node.parent or 0
        children[parent].append(i)
        depth[i], totals[i] = depth[parent] + 1, totals[parent] + node.log_probability
    for i in range(len(nodes) - 1, 0, -1):
        best[nodes[i].parent or 0] = max(best[nodes[i].parent or 0], best[i])
    winner = scores.index(max(scores))
    result = _way(nodes, winner)
    rows = _rows(children, [(i in result, best[i], totals[i]) for i in range(len(nodes))])
    widths = [0.0] * (max(depth) + 1)
    for i, node in enumerate(nodes):
        widths[depth[i]] = max(widths[depth[i]], _width(node, totals[i], i in result))
    lefts = [16 + sum(widths[:column]) + GAP * column for column in range(len(widths))]

    drawing: list[Element] = []
    boxes: list[Element] = []
    for i, node in enumerate(nodes):
        x, y, width = lefts[depth[i]], 50 + ROW * rows[i], widths[depth[i]]
        look = _look(i in result, best[i] > -math.inf)
        if node.parent is not None:
            above = 50 + ROW * rows[node.parent]
            drawing += _edge(node, (x - GAP, above + NODE / 2), (x, y + NODE / 2), look)
        boxes += _node(node, totals[i], i in result, x, y, width, look)
    bottom = 50 + ROW * (max(rows) + 1)
    looks = ((True, True, "the result"), (False, True, "ended, with its score"), (False, False, "given up"))
    row, _ = legend(16, bottom + 20, [(_look(is_result, ended), text) for is_result, ended, text in looks])
    said = " ".join(isolated(visible(nodes[i].token)) for i in sorted(result)[1:])
    description = f"The result is {said}, with score {scores[winner]:.3f}; of {len(nodes) - 1} beginnings looked at."
    return titled(max(lefts[-1] + widths[-1] + 16, 560), bottom + 30, title, description, [*drawing, *boxes, *row])


def _check_tree(nodes: list[BeamNode]) -> None:
    for i, node in enumerate(nodes):
        if (node.parent is None) != (i == 0) or (node.parent is not None and not 0 <= node.parent < i):
            raise ValueError(
                f"beam_tree: node {i} has parent {node.parent}; expected one before it, and none for node 0"
            )
        if not -math.inf < node.log_probability <= 1e-6:  # rounding may lift log 1 above 0
            raise ValueError(
                f"beam_tree: node {i} has log-probability {node.log_probability}; expected the logarithm of a "
                "probability: finite, at most 0"
            )
        if node.score is not None and not math.isfinite(node.score):
            raise ValueError(f"beam_tree: node {i} has score {node.score}; expected a finite number, or None")
        if node.parent is not None and nodes[node.parent].score is not None:
            raise ValueError(f"beam_tree: node {i} follows node {node.parent}, which has a score: it ended there")
    if all(node.score is None for node in nodes):
        raise ValueError("beam_tree: no node has a score; expected one at least where a hypothesis ended")


def _way(nodes: list[BeamNode], place: int | None) -> set[int]:
    """A node and all its ancestors."""
    found = set()
    while place is not None:
        found.add(place)
        place = nodes[place].parent
    return found


def _rows(children: list[list[int]], rank: Sequence[tuple[bool, float, float]]) -> list[int]:
    """The row of each node: the best child shares its parent's row, the others get separate rows below."""
    rows, free, waiting = [0] * len(children), 0, [(0, True)]
    while waiting:
        place, is_first = waiting.pop()
        if not is_first:
            free += 1
        rows[place] = free
        ordered = sorted(children[place], key=rank.__getitem__, reverse=True)
        waiting += [(child, i == 0) for i, child in reversed(list(enumerate(ordered)))]
    return rows


def _look(is_result: bool, ends: bool) -> Look:
    if is_result:
        return {"stroke": SERIES[0], "stroke_width": 2.5}
    if ends:
        return {"stroke": INK, "stroke_width": 1}
    return {"stroke": MUTED, "stroke_width": 1, "stroke_dasharray": "4 3"}


def _node(node: BeamNode, total: float, is_result: bool, x: float, y: float, width: float, look: Look) -> list[Element]:
    ink = MUTED if "stroke_dasharray" in look else INK
    corner = 3 if node.score is None else 13
    box = Element("rect", x=x, y=y, width=width, height=NODE, rx=corner, fill=PANEL, **look)
    probability = "" if node.parent is None else f", probability {math.exp(node.log_probability):.4g}"
    box.children.append(Element("title", f"{visible(node.token)}: sum of log-probabilities {total:.4g}{probability}"))
    place = {"x": x + width / 2, "text_anchor": "middle"}
    weight = "bold" if is_result else None
    down = 19 if node.parent is None else 13  # in the middle if there is no number below
    token = label(node.token, width - 2 * PAD, 13, y=y + down, fill=ink, font_weight=weight, **place)
    return [box, token, Element("text", _under(node, total), y=y + 25, font_size=10, fill=ink, **place)]


def _edge(node: BeamNode, start: tuple[float, float], end: tuple[float, float], look: Look) -> list[Element]:
    """The line to a node, with its probability."""
    (x, y), (x_end, y_end) = start, end
    path = f"M{x:g} {y:g}C{x + BEND:g} {y:g} {x:g} {y_end:g} {x + BEND:g} {y_end:g}H{x_end:g}"
    place = {"x": x_end - 3, "y": y_end - 4, "text_anchor": "end", "font_size": 10}
    ink = MUTED if "stroke_dasharray" in look else INK
    probability = Element("text", share_text(math.exp(min(node.log_probability, 0.0))), fill=ink, **place)
    return [Element("path", d=path, fill="none", class_="edge", **look), probability]


def _width(node: BeamNode, total: float, is_result: bool) -> float:
    token = text_width(visible(node.token), 13 * (BOLD if is_result else 1))
    return 2 * PAD + max(min(LONGEST, token), text_width(_under(node, total), 10))


def _under(node: BeamNode, total: float) -> str:
    """The numbers below a token."""
    if node.parent is None:
        return ""
    score = "" if node.score is None else f", score {node.score:.3f}"
    return f"Σ {total:.2f}{score}".replace("-", MINUS)
