"""Layers by what flows through them: arrays as blocks, and small feed-forward networks as neurons."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import tinytensor as tt

from ..module import Module
from .ramp import SIGNED, ink_on
from .svg import INK, MUTED, PANEL, Element, Picture, text_width, titled
from .tiles import Scale, written
from .tokens import fitted
from .weights import real

if TYPE_CHECKING:
    from tinytensor.graph import Graph

MARGIN, TOP, PAGE, MOST_BLOCKS = 40.0, 64.0, 820.0, 40
COLUMN, ROW, RADIUS, MOST_UNITS = 170.0, 44.0, 18.0, 16


def blocks(graph: Graph, *, title: str = "Arrays on their way") -> Picture:
    """The arrays on the longest path through a recorded computation as blocks, and the ops between them.

        with tt.record() as graph:
            feed_forward(x)
        visualize.blocks(graph).save("blocks.svg")

    The last axis of an array goes across, the one before it upward, all others back, each by the logarithm of its size.

    Raises TypeError for anything but a graph, ValueError for one without ops or with more than 40 arrays on the path.
    """
    from tinytensor.graph import Graph  # no other of these pictures needs graphs

    if not isinstance(graph, Graph):
        raise TypeError(
            f"blocks: got a {type(graph).__name__}; expected a graph, as `with tt.record() as graph: ...` gives it"
        )
    path = _longest_path(graph)
    if not 0 < len(path) <= MOST_BLOCKS:
        raise ValueError(
            f"blocks: the longest path has {len(path)} arrays; expected 1 to {MOST_BLOCKS}: record one layer, or a few"
        )
    every = [(1, 1, *shape) for _, shape in path]
    sizes = [[8 + 14 * math.log2(max(n, 1)) for n in (*s[:-3:-1], math.prod(s[:-2]))] for s in every]
    tallest = max(up + back / 2 for _, up, back in sizes)
    children: list[Element] = []
    x, y, right = MARGIN, TOP, 0.0
    for (name, shape), (across, up, deep) in zip(path, sizes):
        back = deep / 2  # it is seen at an angle
        gap = max(50.0, text_width(name, 12))
        if x > MARGIN and x + gap + across + back > PAGE:
            x, y = MARGIN, y + tallest + 60
        if name:
            middle = y + tallest - 30
            children.append(Element("path", d=f"M{x:g} {middle:g}h{gap:g}m-6 -4l6 4l-6 4", stroke=MUTED, fill="none"))
            children.append(_words(name, x + gap / 2, middle - 8, 12, fill=INK, class_="op"))
            x += gap + 30
        top, edge = y + tallest - up, f"{back:g} -{back:g}"
        front = f"M{x:g} {top:g}h{across:g}v{up:g}h-{across:g}z"
        sides = f"l{edge}h{across:g}v{up:g}l-{back:g} {back:g}v-{up:g}zm{across:g} 0l{edge}"
        look = {"fill": SIGNED(0.35), "stroke": INK, "stroke_linejoin": "round", "class_": "block"}
        children.append(Element("path", Element("title", _sizes(shape)), d=front + sides, **look))
        beside = [(x + across / 2, top + up + 16), (x - 9, top + up / 2 + 4), (x + back / 2 - 8, top - back / 2)]
        numbers = [*map(str, shape[:-3:-1]), _sizes(shape[:-2])][: min(len(shape), 3)]
        children += [_words(text, *place, 11, fill=MUTED, class_="size") for text, place in zip(numbers, beside)]
        x += across + back + 12
        right = max(right, x)
    words = "; ".join(f"{name} gives {_sizes(shape)}" if name else _sizes(shape) for name, shape in path)
    return titled(right + 16, y + tallest + 36, title, f"Blocks with their sizes: {words}.", children)


def _longest_path(graph: Graph) -> list[tuple[str, tuple[int, ...]]]:
    """The shapes of arrays on the longest path, parameters aside, with the ops that gave them ("" for an input)."""
    values = {value.id: value for value in graph.values}
    before: dict[str, tuple[str, str]] = {}
    reach: dict[str, int] = {}
    for op in graph.ops:
        inputs = [value for value in op.inputs if value and values[value].kind != "parameter"]
        first = max(inputs, key=lambda value: reach.get(value, 0), default="")
        before[op.output], reach[op.output] = (op.name.replace("_", " "), first), 1 + reach.get(first, 0)
    path, value = [], max(reach, key=lambda value: reach[value], default="")
    while value:
        name, former = before.get(value, ("", ""))
        path.append((name, values[value].shape))
        value = former
    return path[::-1]


def _sizes(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "a number"


def _words(text: str, x: float, y: float, size: float, **look: Any) -> Element:
    return fitted(text, COLUMN - 12, size, x=x, y=y, text_anchor="middle", **look)


def neurons(module: Module, x: Any = None, *, title: str = "Neurons") -> Picture:
    """A feed-forward network of up to 16 units a layer as neurons, with a line for each weight.

        model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
        visualize.neurons(model, [1.0, -2.0, 0.5]).save("neurons.svg")

    The width and the colour of a line are its weight, relative to the largest of the layer. With x, a neuron shows its
    number after the last op named below it; its colour is relative to the largest of the layer. Biases have no lines.

    Args:
        module: products with matrices of weights, and other ops that keep the number of units, one after the other.
        x: one input, (features,) or (1, features); default: there are no numbers.
        title: a line above the picture.

    Raises TypeError for anything but a module, ValueError for another x, for larger layers, and where an op does not
    read what the one before it gave, as in a residual connection.
    """
    if not isinstance(module, Module):
        raise TypeError(f"neurons: got a {type(module).__name__}; expected a module, such as nn.Sequential")
    layers, weights = _run(module, x)
    counts = [len(values) for _, values in layers]
    if max(counts) > MOST_UNITS:
        raise ValueError(f"neurons: layers of {counts} units; expected at most {MOST_UNITS}")

    def middle(column: int, row: int) -> tuple[float, float]:
        return 60 + COLUMN * column, TOP + ROW * (row + (max(counts) - counts[column]) / 2)

    lines, circles = Element("g", class_="weights"), Element("g", class_="neurons")
    for column, matrix in enumerate(weights):
        for (i, j), share in np.ndenumerate(_shares(matrix)):
            (x1, y1), (x2, y2) = middle(column, j), middle(column + 1, i)
            look = {"stroke": SIGNED(share), "stroke_width": 0.5 + 4 * abs(2 * share - 1)}
            text = Element("title", f"weight {matrix[i, j]:.3g}")
            lines.children.append(Element("line", text, x1=x1, y1=y1, x2=x2, y2=y2, **look))
    for column, (name, values) in enumerate(layers):
        for i, (text, share) in enumerate(zip(written(values), _shares(values).tolist())):
            (left, y), fill = middle(column, i), PANEL if x is None else SIGNED(share)
            circles.children.append(Element("circle", cx=left, cy=y, r=RADIUS, fill=fill, stroke=MUTED))
            number = fitted(text, 2 * RADIUS, 11, x=left, y=y + 4, text_anchor="middle", fill=ink_on(fill))
            circles.children += [number] * (x is not None)
        circles.children.append(_words(name, middle(column, 0)[0], TOP + ROW * max(counts), 12, fill=INK))
    description = f"Layers of {', '.join(map(str, counts))} units, with lines between them."
    return titled(COLUMN * len(counts) - 50, TOP + ROW * max(counts) + 24, title, description, [lines, circles])


def _shares(values: np.ndarray) -> np.ndarray:
    return Scale(Scale.of([values]).most, True).shares(values)


def _run(module: Module, x: Any) -> tuple[list[tuple[str, np.ndarray]], list[np.ndarray]]:
    """For each layer its ops and its numbers, and the matrices (units, units before) between them."""
    first = next((p for p in module.parameters() if p.ndim == 2), None)
    if first is None:
        raise ValueError(f"neurons: {type(module).__name__} has no matrix of weights; expected one at least")
    given = tt.asarray(np.zeros(first.shape[1]) if x is None else x, dtype=first.dtype, device=first.device)
    if given.ndim not in (1, 2) or given.size != given.shape[-1]:
        raise ValueError(f"neurons: x has shape {given.shape}; expected one input, (features,) or (1, features)")
    given = given.reshape(1, -1)
    with tt.no_grad(), tt.record() as graph:
        module(given)
    kinds, program = {value.id: value.kind for value in graph.values}, graph.program()
    known = {place: array for place, array in program.leaves.items() if kinds[place] in ("parameter", "constant")}
    layers, weights, last = [("input", _units(given))], [], ""
    for call in program.calls:
        read = {place for place in call.inputs if isinstance(place, str)} - known.keys()
        if not read:  # as a transposed matrix
            known[call.output] = call.result
            continue
        units, name = _units(call.result), call.op.name.replace("_", " ")
        matrices = [(i, known[v]) for i, v in enumerate(call.inputs[:2]) if v in known and known[v].ndim == 2]
        is_product = call.op.name in ("linear", "matmul") and len(matrices) == 1
        if len(read) > 1 or (last and read != {last}) or (not is_product and len(units) != len(layers[-1][1])):
            raise ValueError(
                f"neurons: {name} does not read the units of the op before it alone, or changes their number; expected "
                "products with matrices of weights, and other ops that keep the number, one after the other"
            )
        last = call.output
        if is_product:
            ((place, matrix),) = matrices
            turned = call.op.name == "matmul" and place == 1
            weights.append(real(matrix.T if turned else matrix, "neurons: a weight"))
            layers.append((name, units))
        else:
            layers[-1] = f"{layers[-1][0]}, {name}", units
    return layers, weights


def _units(array: Any) -> np.ndarray:
    return real(array, "neurons: units").ravel()
