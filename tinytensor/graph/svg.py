"""Lay out a picture by Graphviz, and add to its SVG what Graphviz lacks: a description, words, a dark mode."""

from __future__ import annotations

import html
import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable

from ..machine.extras import how_to_install
from .dot import DARK, FONT, FONTS, PALE, RED, STYLES, DrawingError, ends, to_dot
from .heat import RAMP
from .label import TEXT, lines_of, room, text_width
from .legend import legend
from .marks import dark_rules, shape_rules
from .picture import Edge, Picture, Vertex
from .short_text import TIMES, escape


def to_svg(picture: Picture) -> str:
    """The picture as SVG. Raises DrawingError if Graphviz is missing."""
    return _finish(picture, render(to_dot(picture), "svg").decode())


_own_layout: Callable[[str, str], str | bytes] | None = None


def lay_out_with(function: Callable[[str, str], str | bytes] | None) -> None:
    """Lay out pictures by a function of your own from now on; None: by Graphviz, as before.

    For places that cannot start programs. On a page with Pyodide, whose JavaScript has @viz-js/viz as `viz`:

        tinytensor.graph.lay_out_with(lambda dot, kind: viz.renderString(dot, format=kind))

    Args:
        function: takes the text for Graphviz and the kind of result ("svg", "png", "pdf", "json"), and returns that.
    """
    global _own_layout
    _own_layout = function


def render(dot: str, kind: str) -> bytes:
    """Lay out and draw with the first engine installed: graphviz-pure (not for PDF), pygraphviz, `dot`.

    Raises DrawingError if no engine is installed, or if the engine fails.
    """
    if _own_layout is not None:
        picture = _own_layout(dot, kind)
        return picture.encode() if isinstance(picture, str) else bytes(picture)
    if sys.platform == "emscripten":
        raise DrawingError(
            "draw: a page of a browser starts no programs, so Graphviz cannot lay out here; save as .dot, .mmd or "
            ".txt, or name what lays out instead: tinytensor.graph.lay_out_with"
        )
    command = _engine(kind)
    no_window = getattr(subprocess, "CREATE_NO_WINDOW", 0)  # on Windows each picture would flash a console
    try:
        done = subprocess.run(command, input=dot.encode(), capture_output=True, check=True, creationflags=no_window)
    except (OSError, subprocess.CalledProcessError) as error:
        message = getattr(error, "stderr", b"").decode(errors="replace").strip()
        raise DrawingError(f"draw: {command[0]} failed: {message or error}") from error
    return done.stdout


BY_PYGRAPHVIZ = """import sys, pygraphviz
graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode())
sys.stdout.buffer.write(graph.draw(format=sys.argv[1], prog="dot"))"""


def _engine(kind: str) -> list[str]:
    """Return the command of the first engine installed; `-q1` silences warnings, for `label` measures text."""
    if kind != "pdf" and (program := find_program("graphviz-pure")):
        return [program, "-q1", f"-T{kind}"]
    if importlib.util.find_spec("pygraphviz"):
        return [sys.executable, "-P", "-c", BY_PYGRAPHVIZ, kind]
    if program := find_program("dot"):
        return [program, "-q1", f"-T{kind}"]
    what, extra = ("drawing a PDF", "pdf") if kind == "pdf" else ("drawing", "viz")
    raise DrawingError(f"{what} needs `{how_to_install(extra)}`")


def find_program(name: str) -> str | None:
    """Return the path of a program in this environment's folder of scripts, otherwise on the PATH; None if absent."""
    return shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)


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
    titles |= {"->".join(ends(edge)): words(edge) for edge in picture.edges}
    if picture.scale is not None:
        scale = picture.scale
        titles["scale"] = f"colours: {scale.name} from {scale.text(scale.low)} to {scale.text(scale.high)}"
    svg = _stacked(svg.replace(f'"{FONT},sans-Serif"', f'"{FONTS}"'), picture)
    svg = re.sub(
        r"<title>([^<]*)</title>",
        lambda match: f"<title>{escape(titles.get(match[1].replace('&#45;', '-').replace('&gt;', '>'), ''))}</title>",
        svg[svg.index("<svg") :],
    )
    opening, _, rest = svg.partition(">")
    size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"\s+viewBox="[^"]*"', opening)
    strip = ""
    if size is not None:
        width, height = float(size[1]), float(size[2])
        strip, more = legend(picture, width)
        if strip:
            strip = strip.replace("<g", f'<g transform="translate(0 {height:g})"', 1)
            taller = f'width="{width:g}pt" height="{height + more:g}pt" viewBox="0 0 {width:g} {height + more:g}"'
            opening = opening.replace(size[0], taller)
            paper = f'<polygon fill="white" points="0,0 {width:g},0 {width:g},{height + more:g} 0,{height + more:g}"/>'
            rest = f'\n<g class="graph">{paper}</g>{rest}'
        rest = _names_in_front(_centred(rest, picture, width / 2 - 4))
    opening = opening.replace("<svg", '<svg role="img" class="tinytensor"', 1)
    about = f"<title>{escape(picture.title)}</title><desc>{escape(picture.description)}</desc>"
    dark = _dark_mode(any(v.mark for v in picture.vertices))
    return f"{opening}>\n{about}\n<style>{dark}</style>{rest.replace('</svg>', strip + '</svg>')}"


def _stacked(svg: str, picture: Picture) -> str:
    """The SVG with two more cards behind each part that represents several, like the h heads of Figure 2."""
    several = {f"cluster_{box.id}" for box in picture.boxes if box.label}
    several |= {v.id for v in picture.vertices if v.kind == "module" and any(x.startswith(TIMES) for x in v.lines)}

    def cards(match: re.Match[str]) -> str:
        if html.unescape(match[2]) not in several:
            return match[0]
        behind = (match[3].replace("/>", f' transform="translate({n},{n})"/>', 1) for n in (6, 3))
        return f"{match[1]}{''.join(behind)}{match[3]}"

    return re.sub(
        r'(<g id="(?:clust|node)\d+"[^>]*>\s*<title>([^<]*)</title>\s*)(<(?:path|polygon)[^>]*/>)', cards, svg
    )


CLUSTER = re.compile(r'(<g id="clust\d+" class="[^"]*">)(.*?)(</g>)', re.DOTALL)


def _names_in_front(svg: str) -> str:
    """The SVG with the names of boxes in front of the edges that cross them, each on a patch of the box's colour."""
    names = []

    def without_name(match: re.Match[str]) -> str:
        texts = [(_attributes(attributes), text) for attributes, text in ONE_TEXT.findall(match[2])]
        if texts:
            x, y = (float(texts[0][0][side]) for side in "xy")
            width = sum(text_width(html.unescape(text), float(known["font-size"])) for known, text in texts)
            fill = _attributes(match[2].partition("<path")[2].partition("/>")[0])["fill"]
            patch = f'<rect x="{x - 2:g}" y="{y - 11:g}" width="{width + 4:g}" height="15" rx="3" fill="{fill}"/>'
            names.append(f'<g class="cluster name">{patch}{_texts(match[2], x, None, "start")}</g>\n')
        return f"{match[1]}{TEXTS.sub('', match[2])}{match[3]}"

    svg = CLUSTER.sub(without_name, svg)
    whole, end, after = svg.rpartition("</g>")
    return f"{whole}{''.join(names)}{end}{after}"


SLACK = 80.0
"""Longer bold text and numbers are as long in every font: in DejaVu Sans they would be wider by up to a fifth."""

TEXTS = re.compile(r"(?:<text [^>]*>[^<]*</text>\s*)+")
ONE_TEXT = re.compile(r"<text ([^>]*)>([^<]*)</text>")


def _centred(svg: str, picture: Picture, middle: float) -> str:
    """The SVG with each line of the title and of a vertex as one centred text, whatever the reader's font."""
    vertices = {vertex.id: vertex for vertex in picture.vertices}
    head, *parts = svg.split("<!-- ")
    title, cluster, rest = head.partition('<g id="clust')
    centred = [TEXTS.sub(lambda texts: _texts(texts[0], middle, None), title) + cluster + rest]
    for part in parts:
        place = part.partition(" ")[0]
        shape = re.search(r'<(?:path|polygon|ellipse) [^>]*?(cx="([^"]*)" cy="([^"]*)"|d="[^"]*"|points="[^"]*")', part)
        if place in vertices and 'class="node' in part and shape is not None:
            numbers = [float(x) for x in re.findall(r"-?[\d.]+", shape[1])]
            x, y = ((min(found) + max(found)) / 2 for found in (numbers[::2], numbers[1::2]))
            part = TEXTS.sub(_centering(x, y, vertices[place], picture), part)
        centred.append(part)
    return "<!-- ".join(centred)


def _centering(x: float, y: float, vertex: Vertex, picture: Picture) -> Callable[[re.Match[str]], str]:
    """A function that writes the texts of a vertex anew, around its middle (x, y)."""
    lines = lines_of(vertex, picture)
    _, height = room(vertex, lines)
    below = height - 10 - sum(line.height for line in lines) if vertex.pattern is not None else 0  # a mask's cells
    top = y - (sum(line.height for line in lines) + below) / 2
    if vertex.kind == "parameter":
        top += 3  # for the visible lid of a cylinder
    baselines = []
    for line in lines:
        baselines.append(top + 0.82 * line.height)
        top += line.height
    return lambda texts: _texts(texts[0], x, baselines)


def _texts(texts: str, x: float, baselines: list[float] | None, anchor: str = "middle") -> str:
    """Join the texts of each height into one, around x, or from x on with the anchor "start"."""
    lines: dict[str, list[tuple[str, str]]] = {}
    for attributes, text in ONE_TEXT.findall(texts):
        lines.setdefault(_attributes(attributes)["y"], []).append((attributes, text))
    written = []
    for number, (y, parts) in enumerate(lines.items()):
        if baselines is not None and len(baselines) == len(lines):
            y = f"{baselines[number]:.2f}"
        known = _attributes(parts[0][0])
        about = "".join(f' {name}="{known[name]}"' for name in ("font-family", "font-size", "fill") if name in known)
        spans = [_span(_attributes(a), t, known.get("fill")) if "bold" in a else t for a, t in parts]
        place = f'xml:space="preserve" text-anchor="{anchor}" x="{x:.2f}" y="{y}"'
        size = float(known["font-size"])
        width = sum(text_width(html.unescape(text), size) for _, text in parts)
        wide = anchor == "middle" and width > SLACK
        if wide and (size == TEXT or any("bold" in attributes for attributes, _ in parts)):
            place += f' textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"'
        written.append(f"<text {place}{about}>{''.join(spans)}</text>\n")
    return "".join(written)


def _span(attributes: dict[str, str], text: str, fill: str | None) -> str:
    """Bold text, in its own colour if that differs from the line's."""
    own = attributes.get("fill")
    colour = f' fill="{own}"' if own not in (None, fill) else ""
    return f'<tspan font-weight="bold"{colour}>{text}</tspan>'


def _attributes(text: str) -> dict[str, str]:
    return dict(re.findall(r'([\w:-]+)="([^"]*)"', text))


def _dark_mode(marked: bool) -> str:
    rules = [
        " { background: #0d1117 }",
        ".graph > polygon { fill: #0d1117 }",
        "text { fill: #e6edf3 }",
        f'.cluster > path[fill="{PALE}"] {{ fill: #161b22; stroke: #8b949e }}',
        f'.cluster.name > rect[fill="{PALE}"] {{ fill: #161b22 }}',
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
        rules.extend(shape_rules(parts, fill, line))
    rules.append(f".node.failed > path {{ fill: #5c0f0a; stroke: {RED} }}")
    rules.append(".node.failed tspan[fill] { fill: #ffb4ab }")
    rules.extend(dark_rules() if marked else ())
    for i, (light, dark) in enumerate(zip(RAMP, RAMP[::-1])):  # the hottest is the brightest in the dark
        ink = "#1a1a1a" if len(RAMP) - 1 - i < DARK else "#ffffff"
        node = f'.node[class*="heat{i}"]'
        rules.append(f"{node} > path, .tinytensor {node} > polygon, .tinytensor {node} > ellipse {{ fill: {dark} }}")
        rules.append(f"{node} text {{ fill: {ink} }}")
        rules.append(f'.scale polygon[fill="{light}"] {{ fill: {dark} }}')
    lines = "".join(f"\n.tinytensor {rule}".replace("  {", " {") for rule in rules)
    return f"\n@media (prefers-color-scheme: dark) {{{lines}\n}}\n"
