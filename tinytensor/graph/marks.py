"""The look of vertices and boxes that differ from those of another graph."""

from __future__ import annotations

from typing import NamedTuple


class Mark(NamedTuple):
    """A sign for print and every eye, the style of the line, and the colours of fill and line in light and dark."""

    sign: str
    style: str
    width: str
    fill: str
    line: str
    dark_fill: str
    dark_line: str


# The colours are Okabe and Ito's (2008); parts that are the same have the palest.
MARKS = {
    "same": Mark("", "solid", "1", "#fafafa", "#767676", "#161b22", "#8b949e"),
    "inside": Mark("…", "dotted", "1.5", "#faf2f7", "#a3487b", "#2c1a27", "#e08fbf"),
    "changed": Mark("≠", "dotted", "2", "#f6e3ef", "#a3487b", "#43213a", "#e08fbf"),
    "moved": Mark("↕", "solid", "2", "#dff4ed", "#007a58", "#063b2c", "#1fc699"),
    "only a": Mark("−", "dashed", "3", "#d9ebf7", "#0072b2", "#0c2f47", "#56b4e9"),
    "only b": Mark("+", "solid", "3", "#fdeacb", "#b35900", "#453005", "#e69f00"),
}


def attributes(mark: str, style: str) -> dict[str, str]:
    """Graphviz's attributes for a vertex or a box with a mark; `style` is that of its kind."""
    look = MARKS[mark]
    kept = [part for part in style.split(",") if part in ("rounded", "filled")]
    return {
        "style": ",".join([*kept, look.style]),
        "fillcolor": look.fill,
        "color": look.line,
        "penwidth": look.width,
        "class": f"marked {mark.replace(' ', '-')}",
    }


def dark_rules() -> list[str]:
    """The CSS rules of all marks for dark backgrounds."""
    rules: list[str] = []
    for name, mark in MARKS.items():
        of = f".marked.{name.replace(' ', '-')}"
        parts = ", ".join(f".tinytensor .node{of} > {part}" for part in ("path", "polygon", "ellipse"))
        rules.extend(shape_rules(parts, mark.dark_fill, mark.dark_line))
        rules.append(f".cluster{of} > path {{ stroke: {mark.dark_line} }}")
    return rules


def shape_rules(parts: str, fill: str, line: str) -> tuple[str, str]:
    """The CSS rules of shapes; shapes without a fill, as the outer line of a result, get none."""
    parts = parts.removeprefix(".tinytensor ")
    inside = ", ".join(f'{part}:not([fill="none"])' for part in parts.split(", "))
    return f"{parts} {{ stroke: {line} }}", f"{inside} {{ fill: {fill} }}"
