"""A recurrent network unrolled over its words, attention over its states, and the path length between two words."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .svg import BOLD, INK, MUTED, PANEL, SERIES, Element, Picture, number, text_width, titled
from .tokens import check_tokens, isolated, label, visible
from .weights import read_layers

# Kinds of nodes: a word read, the encoder's state in either direction, both in one, the decoder's state, a word said
READ, FORWARD, BACKWARD, BOTH, DECODER, SAID = "x", "→", "←", "h", "s", "y"
Node = tuple[str, int]
Edges = dict[tuple[Node, Node], float]  # the weight of each edge: 1 except for attention
WIDE, HALF = 52.0, 22.0  # a state's width, and the height of each direction of it
FAINT = 0.02  # weights below this are not drawn
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def recurrence(
    source: Any,
    target: Any = None,
    weights: Any = None,
    *,
    bidirectional: bool = False,
    ends: int | None = None,
    path: tuple[int, int] | None = None,
    sample: int = 0,
    title: str | None = None,
) -> Picture:
    """The states of an encoder, one for each word it reads, and above them a decoder's states with the words it says.

    Without weights the decoder only knows the state it begins with (dashed; Sutskever et al. 2014, figure 1). With
    weights each of its states sees all states of the encoder, through lines as opaque as their weights (Bahdanau et al.
    2014, figure 1). With `path` the shortest way from one word to another is bold, and its length, in steps from state
    to state, is the path length of Vaswani et al. 2017, table 1.

        with nn.record_attention() as attention:
            model(source, target)
        visualize.recurrence(words, said, attention.cross, bidirectional=True, path=(0, 3)).save("recurrence.svg")

    Args:
        source: the words that the encoder reads.
        target: the words that the decoder says; None: there is no decoder.
        weights: the weights of one head: (target, source), or another form that `attention_lines` takes.
        bidirectional: True if the encoder also reads from right to left.
        ends: if so, how many last states make the decoder's first one: 1, only the one from right to left (Bahdanau et
            al., appendix A.2.2), or 2; default: 1 with weights, 2 without.
        path: the numbers of a word of the source and of a word of the target; without a target, of the source too.
        sample: the index in a batch of weights.
        title: a line above the picture.

    Raises ValueError if there are no words, if weights do not fit them or have several heads, or if no way leads from
    one word of the path to the other; TypeError if words are not a list of str.
    """
    values = _weights(weights, target, sample)
    read = _words(source, "source", None if values is None else values.shape[1])
    said = [] if target is None else _words(target, "target", None if values is None else values.shape[0])
    if ends not in (None, 1, 2):
        raise ValueError(f"recurrence: ends is {ends!r}; expected 1 or 2")
    both = ends == 2 or (ends is None and values is None)
    edges = _edges(len(read), len(said), bidirectional, both, values)
    way, words, caption = [], _describe(read, said, values), ""
    if path is not None:
        start, goals = _start_and_goals(path, read, said)
        way = _shortest(edges, start, goals)
        words = f"From {_quoted(read, start)} to {_quoted(said or read, goals[0])}: {_steps(way)}"
        if values is not None:
            alone = _edges(len(read), len(said), bidirectional, both, None)
            words += f" through attention, {_steps(_shortest(alone, start, goals))} without it"
        words = caption = f"{words}."
    title = title or ("A recurrence, and attention over it" if values is not None else "A recurrence, step by step")

    places = _Places(read, said, bidirectional)
    quiet = [edge for edge in edges if edge not in way and edges[edge] >= FAINT]
    passed = {node for edge in way for node in edge}
    children = [line for edge in [*quiet, *way] for line in places.line(edge, edges[edge], edge in way)]
    children += [part for i in range(len(read)) for part in places.encoder(i, passed)]
    children += [part for j in range(len(said)) for part in places.decoder(j, passed)]
    if caption:
        children.append(Element("text", caption, x=16, y=places.foot + 66, font_size=12, fill=MUTED))
    width = max(places.width, 32 + text_width(caption, 12))
    return titled(width, places.foot + (78 if caption else 54), title, words, children)


# ---- what the user gave


def _words(tokens: Any, name: str, length: int | None) -> list[str]:
    if length is None:
        length = len(tokens) if isinstance(tokens, Sequence) else 0
    found = check_tokens(tokens, name, length, name)
    if not found:
        raise ValueError(f"recurrence: {name} has no words; expected one at least")
    return found


def _weights(weights: Any, target: Any, sample: int) -> np.ndarray | None:
    if weights is None:
        return None
    if target is None:
        raise ValueError("recurrence: weights but no target were given; expected the words that were said as well")
    layers = read_layers(weights, sample)
    heads = [len(layer.weights) for layer in layers]
    if heads != [1]:
        raise ValueError(f"recurrence: weights of {sum(heads)} heads in {len(heads)} layers; expected one head's")
    return layers[0].weights[0]


def _start_and_goals(path: Any, read: list[str], said: list[str]) -> tuple[Node, list[Node]]:
    """The start of the way, and its possible ends."""
    try:
        start, end = (operator.index(i) for i in path)
    except (TypeError, ValueError):
        raise ValueError(f"recurrence: path is {path!r}; expected the numbers of two words, such as (0, 3)") from None
    for i, words, name in ((start, read, "source"), (end, said or read, "target" if said else "source")):
        if not 0 <= i < len(words):
            raise ValueError(f"recurrence: path: there is no word {i} in the {name}; expected 0 to {len(words) - 1}")
    return (READ, start), [(SAID, end)] if said else [(FORWARD, end), (BACKWARD, end)]


def _quoted(words: list[str], node: Node) -> str:
    return isolated(f"“{visible(words[node[1]])}”")


def _describe(read: list[str], said: list[str], weights: np.ndarray | None) -> str:
    """The picture for those who cannot see it."""
    if weights is None:
        return f"{len(read)} words are read" + (f", {len(said)} said." if said else ".")
    most = [f"{_quoted(said, (SAID, j))} to {_quoted(read, (READ, i))}" for j, i in enumerate(weights.argmax(axis=1))]
    return f"{len(read)} words are read, {len(said)} said. Most attention goes from {', '.join(most)}."


# ---- what leads where


def _edges(read: int, said: int, bidirectional: bool, both: bool, weights: np.ndarray | None) -> Edges:
    """The edges between words and states, with their weights."""
    found: list[tuple[Node, Node]] = []
    directions = [FORWARD, BACKWARD] if bidirectional else [FORWARD]
    for i in range(read):
        found += [((READ, i), (way, i)) for way in directions]
        found += [((way, i), (BOTH, i)) for way in directions]
        if i:
            found.append(((FORWARD, i - 1), (FORWARD, i)))
        if i and bidirectional:
            found.append(((BACKWARD, i), (BACKWARD, i - 1)))
    if said and (both or not bidirectional):
        found.append(((FORWARD, read - 1), (DECODER, 0)))
    if said and bidirectional:
        found.append(((BACKWARD, 0), (DECODER, 0)))
    for j in range(said):
        found.append(((DECODER, j), (SAID, j)))
        if j:
            found += [((DECODER, j - 1), (DECODER, j)), ((SAID, j - 1), (DECODER, j))]
    seen: Edges = {}
    if weights is not None:
        seen = {((BOTH, i), (DECODER, j)): float(weights[j, i]) for j, i in np.argwhere(weights > 0).tolist()}
    return seen | dict.fromkeys(found, 1.0)  # attention comes first, below all else


def _shortest(edges: Iterable[tuple[Node, Node]], start: Node, goals: list[Node]) -> list[tuple[Node, Node]]:
    """The edges of a shortest way, found by breadth-first search.

    Raises ValueError if there is none.
    """
    after: dict[Node, list[Node]] = {}
    for one, other in edges:
        after.setdefault(one, []).append(other)
    came: dict[Node, Node | None] = {start: None}
    waiting = [start]
    for node in waiting:
        if node in goals:
            way = []
            while (before := came[node]) is not None:
                way.append((before, node))
                node = before
            return way[::-1]
        for following in after.get(node, []):
            if following not in came:
                came[following] = node
                waiting.append(following)
    raise ValueError(
        f"recurrence: path: nothing of word {start[1]} gets to word {goals[0][1]}; expected one that is read later, or "
        "bidirectional=True"
    )


def _steps(way: list[tuple[Node, Node]]) -> str:
    """The number of steps from state to state on the way, in words."""
    count = sum(one[0] != READ and other[0] not in (BOTH, SAID) for one, other in way)
    return f"{count} step{'s' * (count != 1)}"


# ---- where it stands


class _Places:
    """The places of words and states: a column for each word, with the shorter row in the middle.

    Args:
        read, said: the words; `said` is empty without a decoder.
        bidirectional: True if a state of the encoder has a half for each direction.
    """

    def __init__(self, read: list[str], said: list[str], bidirectional: bool) -> None:
        self.read, self.said = read, said
        self.directions = [FORWARD, BACKWARD] if bidirectional else [FORWARD]
        widest = BOLD * max(text_width(visible(word), 13) for word in [*read, *said])
        self.column = max(WIDE + 26, min(120.0, widest) + 12)
        across = self.column * max(len(read), len(said))
        self.left = {row: 16 + (across - self.column * len(words)) / 2 for row, words in ((READ, read), (SAID, said))}
        self.low = 52.0 if not said else 230.0  # the top of the encoder's states
        self.high = 76.0  # the top of the decoder's
        self.foot = self.low + HALF * len(self.directions)
        self.width = across + 32

    def x(self, node: Node) -> float:
        row = SAID if node[0] in (SAID, DECODER) else READ
        return self.left[row] + self.column * (node[1] + 0.5)

    def line(self, edge: tuple[Node, Node], weight: float, is_bold: bool) -> list[Element]:
        """The line or arrow of an edge, unless the edge is inside one box."""
        (one, i), (other, j) = edge
        x, x_end = self.x((one, i)), self.x((other, j))
        if other == BOTH:
            return []
        look = {"stroke": SERIES[1], "stroke_width": 3.5} if is_bold else {"stroke": MUTED, "stroke_width": 1.2}
        if one == BOTH:
            quiet = {"stroke": SERIES[0], "stroke_width": 0.6 + 2.4 * weight, "stroke_opacity": weight}
            strand = Element("line", x1=x, x2=x_end, y1=self.low, y2=self.high + HALF, **(look if is_bold else quiet))
            strand.attributes["class_"] = "attention"
            strand.children.append(Element("title", f"{self.read[i]} → {self.said[j]}: {weight:.3f}"))
            return [strand]
        if one == READ:
            return _arrow((x, self.foot + 26), (x, self.foot), look)
        if other == SAID:
            return _arrow((x, self.high), (x, self.high - 12), look)
        if one == SAID:
            return _arrow((x + 12, self.high - 10), (x_end - WIDE / 2 + 6, self.high), look)
        if one in (FORWARD, BACKWARD) and other == DECODER:
            return _arrow((x, self.low), (x_end - WIDE / 3, self.high + HALF), {**look, "stroke_dasharray": "5 3"})
        side = WIDE / 2 if x < x_end else -WIDE / 2
        y = self.high + HALF / 2 if one == DECODER else self.low + HALF * (self.directions.index(one) + 0.5)
        return _arrow((x + side, y), (x_end - side, y), look)

    def encoder(self, i: int, passed: set[Node]) -> list[Element]:
        """A word that was read, and its states."""
        x, found = self.x((READ, i)), []
        for row, way in enumerate(self.directions):
            name = _name("h", i) if len(self.directions) == 1 else f"{way} {_name('h', i)}"
            found += _state(name, x, self.low + row * HALF, (way, i) in passed)
        return [*found, self._word(self.read[i], x, self.foot + 42, "read", (READ, i) in passed)]

    def decoder(self, j: int, passed: set[Node]) -> list[Element]:
        """A word that was said, and the state that said it."""
        x = self.x((SAID, j))
        word = self._word(self.said[j], x, self.high - 18, "said", (SAID, j) in passed)
        return [*_state(_name("s", j), x, self.high, (DECODER, j) in passed), word]

    def _word(self, word: str, x: float, y: float, row: str, is_bold: bool) -> Element:
        place = {"x": x, "y": y, "text_anchor": "middle", "class_": row}
        return label(word, self.column - 8, 13, fill=INK, font_weight="bold" if is_bold else None, **place)


def _name(letter: str, i: int) -> str:
    return f"{letter}{str(i + 1).translate(SUBSCRIPTS)}"


def _state(name: str, x: float, y: float, is_bold: bool) -> list[Element]:
    look = {"stroke": SERIES[1], "stroke_width": 2} if is_bold else {"stroke": INK, "stroke_width": 1}
    box = Element("rect", x=x - WIDE / 2, y=y, width=WIDE, height=HALF, rx=3, fill=PANEL, class_="state", **look)
    text = Element("text", name, x=x, y=y + HALF / 2 + 4, text_anchor="middle", font_size=12, fill=INK)
    return [box, text]


def _arrow(start: tuple[float, float], end: tuple[float, float], look: dict[str, Any]) -> list[Element]:
    (x, y), (x_end, y_end) = start, end
    length = math.hypot(x_end - x, y_end - y)
    dx, dy = (x_end - x) / length, (y_end - y) / length
    head, half = (9.0, 4.5) if look["stroke_width"] > 2 else (7.0, 3.0)
    back = (x_end - head * dx, y_end - head * dy)
    corners = ((x_end, y_end), (back[0] - half * dy, back[1] + half * dx), (back[0] + half * dy, back[1] - half * dx))
    points = " ".join(f"{number(px)},{number(py)}" for px, py in corners)
    shaft = Element("line", x1=x, y1=y, x2=back[0], y2=back[1], class_="step", **look)
    return [shaft, Element("polygon", points=points, fill=look["stroke"])]
