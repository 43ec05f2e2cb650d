"""Tokens as text that is safe to show: whatever they hold, each is one line that disturbs nothing around it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

from .svg import BOLD, Colour, Element, shorten

SIGNS = {" ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥", "\N{NO-BREAK SPACE}": "⍽"}
JOINERS = {"\N{ZERO WIDTH JOINER}", "\N{ZERO WIDTH NON-JOINER}"}  # they belong to emoji and to Persian words
RIGHT_TO_LEFT = {"R", "AL", "AN"}


def check_tokens(tokens: Any, name: str, length: int, axis: str) -> list[str]:
    """The tokens as a list of str, checked against the length of the weights; None gives their numbers.

    Raises TypeError for anything but a list of str, ValueError for another length.
    """
    if tokens is None:
        return [str(i) for i in range(length)]
    if isinstance(tokens, str) or not isinstance(tokens, Iterable):
        raise TypeError(f"{name}: expected a list of str, one for each token, got {type(tokens).__name__} {tokens!r}")
    found = list(tokens)
    for i, token in enumerate(found):
        if not isinstance(token, str):
            raise TypeError(f"{name}: token {i} is a {type(token).__name__}, {token!r}; expected str")
    if len(found) != length:
        raise ValueError(
            f"{name}: {len(found)} tokens, but the weights have {length} along their {axis} axis; give one token for "
            "each, padding and special tokens included"
        )
    return [str(token) for token in found]


def check_pair(source: Any, target: Any, keys: int, queries: int) -> tuple[list[str], list[str]]:
    """The tokens of the keys and of the queries; if the lengths are the same, one list serves both.

    Raises TypeError and ValueError as `check_tokens` does.
    """
    if source is not None or queries != keys:
        source = check_tokens(source, "source", keys, "source")
    if target is None and queries == keys:
        target = source
    target = check_tokens(target, "target", queries, "target")
    return target if source is None else source, target


def visible(token: str) -> str:
    """A token in one line of visible characters: `the␣cat`, `∅` for an empty one, `[U+202E]` for controls."""
    if not token:
        return "∅"
    return "".join(c if (c.isprintable() and c != " ") or c in JOINERS else _sign(c) for c in token)


def _sign(c: str) -> str:
    if c in SIGNS:
        return SIGNS[c]
    return "\N{REPLACEMENT CHARACTER}" if 0xD800 <= ord(c) < 0xE000 else f"[U+{ord(c):04X}]"


def isolated(text: str) -> str:
    """Text for the middle of a line: letters from right to left do not turn the text around them."""
    if any(unicodedata.bidirectional(c) in RIGHT_TO_LEFT for c in text):
        return f"\N{FIRST STRONG ISOLATE}{text}\N{POP DIRECTIONAL ISOLATE}"
    return text


def label(token: str, width: float, size: float, *, fill: Colour, **attributes: Any) -> Element:
    """A token as a text element of at most this width; if it is cut, its title has the whole."""
    return fitted(visible(token), width, size, fill=fill, **attributes)


def fitted(text: str, width: float, size: float, *, fill: Colour, **attributes: Any) -> Element:
    """A text element of at most this width; if it is cut, its title has the whole."""
    short = shorten(text, width, size * (BOLD if attributes.get("font_weight") == "bold" else 1))
    element = Element("text", isolated(short), font_size=size, fill=fill, **attributes)
    if short != text:
        element.children.append(Element("title", isolated(text)))
    return element
