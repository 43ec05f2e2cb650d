"""A picture laid out by Graphviz, and its SVG with what Graphviz leaves out: a description, words, a dark mode."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from ..extras import how_to_install
from .dot import PALE, RED, STYLES, to_dot
from .picture import Edge, Picture
from .short_text import escape


class DrawingError(RuntimeError):
    """A picture could not be laid out: Graphviz is missing, or failed."""


def to_svg(picture: Picture) -> str:
    """The picture as SVG. Raises DrawingError where Graphviz is missing."""
    return _finish(picture, render(to_dot(picture), "svg").decode())


_own_layout: Callable[[str, str], str | bytes] | None = None


def lay_out_with(function: Callable[[str, str], str | bytes] | None) -> None:
    """Lay out pictures by a function of one's own from now on; None: by Graphviz, as before.

    For places where no program can be started. On a page with Pyodide, whose JavaScript has @viz-js/viz as `viz`:

        tinytensor.graph.lay_out_with(lambda dot, kind: viz.renderString(dot, format=kind))

    Args:
        function: takes the text that Graphviz reads and the kind of picture ("svg", "png", "pdf"), gives the picture.
    """
    global _own_layout
    _own_layout = function


def render(dot: str, kind: str) -> bytes:
    """Lay out and draw: by the `dot` program, or by pygraphviz, whose wheel carries Graphviz.

    Raises DrawingError where neither is there, and where they fail.
    """
    if _own_layout is not None:
        picture = _own_layout(dot, kind)
        return picture.encode() if isinstance(picture, str) else bytes(picture)
    import graphviz

    try:
        return graphviz.pipe("dot", kind, dot.encode(), quiet=True)
    except graphviz.ExecutableNotFound:
        pass
    except graphviz.CalledProcessError as error:
        raise DrawingError(f"draw: Graphviz failed: {error}") from error
    except OSError as error:
        if sys.platform == "emscripten":
            raise DrawingError(
                "draw: a page of a browser starts no programs, so Graphviz cannot lay out here; save as .dot, .mmd or "
                ".txt, or name what lays out instead: tinytensor.graph.lay_out_with"
            ) from error
        raise
    try:
        import pygraphviz
    except ImportError:
        raise DrawingError(f"draw: pictures need Graphviz: {how_to_install('viz')}") from None
    return pygraphviz.AGraph(string=dot).draw(format=kind, prog="dot")


def _finish(picture: Picture, svg: str) -> str:
    vertices = {v.id: v for v in picture.vertices}

    def words(edge: Edge) -> str:
        start = vertices[edge.tail]
        what = {"residual": "goes around: ", "gradient": "gradient: ", "uses": "kept for: "}.get(edge.kind, "")
        return (
            f"{what}{start.name or start.title}, {edge.label}" if edge.label else f"{what}{vertices[edge.head].title}"
        )

    titles = {v.id: v.words for v in picture.vertices}
    titles |= {f"cluster_{b.id}": f"{'.'.join(b.path)} ({b.kind}) {b.label}".rstrip() for b in picture.boxes}
    for edge in picture.edges:
        ends = (edge.head, edge.tail) if edge.kind == "gradient" else (edge.tail, edge.head)
        titles["->".join(ends)] = words(edge)
    if picture.scale is not None:
        scale = picture.scale
        titles["scale"] = f"colours: {scale.name} from {scale.text(scale.low)} to {scale.text(scale.high)}"
    svg = re.sub(
        r"<title>([^<]*)</title>",
        lambda match: f"<title>{escape(titles.get(match[1].replace('&#45;', '-').replace('&gt;', '>'), ''))}</title>",
        svg[svg.index("<svg") :],
    )
    opening, _, rest = svg.partition(">")
    opening = opening.replace("<svg", '<svg role="img" class="tinytensor"', 1)
    about = f"<title>{escape(picture.title)}</title><desc>{escape(picture.description)}</desc>"
    return f"{opening}>\n{about}\n<style>{_dark_mode()}</style>{rest}"


def _dark_mode() -> str:
    rules = [
        " { background: #0d1117 }",
        ".graph > polygon { fill: #0d1117 }",
        "text { fill: #e6edf3 }",
        f'.cluster > path[fill="{PALE}"] {{ fill: #161b22; stroke: #8b949e }}',
        ".edge text { fill: #a8b1bb }",
        ".edge path, .tinytensor .edge polygon { stroke: #a8b1bb }",
        ".edge polygon { fill: #a8b1bb }",
        ".edge.gradient path, .tinytensor .edge.gradient polygon { stroke: #ff9d5c }",
        ".edge.gradient polygon { fill: #ff9d5c }",
    ]
    for kind, (*_, fill, line) in STYLES.items():
        body = f'node.{kind}:not([class*="heat"]):not(.failed)'
        parts = ", ".join(f".tinytensor .{body} > {part}" for part in ("path", "polygon", "ellipse", "g > a > polygon"))
        if kind == "mask":  # its cells keep their colours
            parts = f".tinytensor .{body} > polygon:first-of-type"
        rules.append(f"{parts.removeprefix('.tinytensor ')} {{ fill: {fill}; stroke: {line} }}")
    rules.append(f".node.failed > path {{ fill: #5c0f0a; stroke: {RED} }}")
    rules.extend(f'.node[class*="heat{i}"] text {{ fill: {"#1a1a1a" if i < 4 else "#ffffff"} }}' for i in range(8))
    lines = "".join(f"\n.tinytensor {rule}".replace("  {", " {") for rule in rules)
    return f"\n@media (prefers-color-scheme: dark) {{{lines}\n}}\n"
