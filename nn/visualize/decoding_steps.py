"""Decoding token by token: the candidates at each step."""

from __future__ import annotations

from collections.abc import Sequence

from .svg import BOLD, INK, MUTED, PANEL, RULE, SERIES, Element, Picture, text_width, titled
from .tokens import isolated, label, visible

NARROW, WIDE, GAP, LINE = 150.0, 260.0, 14.0, 30.0  # the widths of a step and between steps, a candidate's height
PAGE = 820.0  # steps beside each other fit on a page of text
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
    per_row = int((PAGE + GAP) // (wide + GAP))
    for start in range(0, len(steps), per_row):
        row = range(start, min(start + per_row, len(steps)))
        for column, i in enumerate(row):
            children += _step(i, steps[i], chosen[i], 16 + column * (wide + GAP), top, wide)
        top += 34 + LINE * max(len(steps[i]) for i in row) + 16
    width = 32 + min(len(steps), per_row) * (wide + GAP) - GAP
    words = [(isolated(visible(step[place][0])), share_text(step[place][1])) for step, place in zip(steps, chosen)]
    said = ", ".join(" ".join(word) for word in words)
    return titled(width, top, title, f"Said, with its probability: {said}.", children)


def _check_steps(steps: list[list[tuple[str, float]]], chosen: Sequence[int]) -> None:
    if not steps or len(steps) != len(chosen):
        raise ValueError(
            f"decoding_steps: {len(steps)} steps of candidates, {len(chosen)} choices; expected as many, at least one"
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
