"""Slides of a lesson: its cells as pages of one file, with the pictures and numbers of its last run."""

from __future__ import annotations

import base64
import json
import re
from html import escape
from pathlib import Path
from typing import Any

from tinytensor.machine.files import atomic_write, read_text
from tinytensor.models.scripts import command_line
from tinytensor.pages.html_page import html_page, text_of

from .handouts import needed

LINK = re.compile(r'<a href="(?!https?:)[^"]*">(.*?)</a>', re.S)
SHOWN = re.compile(r'lesson\.show\(\s*"([^"]+)"')
NUMBER = re.compile(r'lesson\.number\(\s*"([^"]+)"')


def write_slides(name: str) -> int:
    """Write slides/<lesson>.html. The lesson is a file, or the beginning of its name here or in examples/lessons."""
    path = find(name)
    results = Path("runs", "lessons", path.stem, "lesson.json")
    found = json.loads(read_text(results)) if results.exists() else {"pictures": {}, "numbers": {}}
    pages = slides(read_text(path), results.parent, found)
    out = Path("slides", f"{path.stem}.html")
    out.parent.mkdir(exist_ok=True)
    style, script = (text_of(__package__, f"slides.{kind}") for kind in ("css", "js"))
    body = "".join(f'<section aria-label="slide {i}">{page}</section>' for i, page in enumerate(pages, 1))
    bar = '<nav><button id="back">◀</button> <output id="place"></output> <button id="on">▶</button></nav>'
    title = re.search(r"<h1>(.*?)</h1>", body, re.S)
    text = html_page(
        title[1] if title else escape(path.stem), f"<main>{body}</main>{bar}", {}, style=style, script=script
    )
    atomic_write(out, text.encode())
    print(f"wrote {out}, {len(pages)} slides with {len(found['pictures'])} pictures; arrow keys turn them")
    if not results.exists():
        print(f"the pictures come from a run of the lesson: python {path.as_posix()}")
    return command_line.EXIT_OK


def find(name: str) -> Path:
    """The file of a lesson. Raises UsageError if none has that name, or several."""
    if Path(name).suffix == ".py" and Path(name).is_file():
        return Path(name)
    found = [path for folder in (Path(), Path("examples", "lessons")) for path in sorted(folder.glob(f"{name}*.py"))]
    if len(found) != 1:
        met = (
            f"there are {', '.join(path.name for path in found)}"
            if found
            else "there is none here or in examples/lessons"
        )
        raise command_line.UsageError(f"slides: expected the name of one lesson, got {name!r}; {met}")
    return found[0]


def slides(text: str, folder: Path, found: dict[str, Any]) -> list[str]:
    """The slides of a file of cells, as HTML: each begins with a cell of words and has the code behind it.

    Args:
        text: the file.
        folder: where its pictures are.
        found: what the lesson's run has written: "pictures", files by their names, and "numbers" by what they are.
    """
    jupytext, markdown_it, dollarmath, latex2mathml = (
        needed(name) for name in ("jupytext", "markdown_it", "mdit_py_plugins.dollarmath", "latex2mathml.converter")
    )

    def formula(content: str, options: dict[str, Any]) -> str:
        return latex2mathml.convert(content, display="block" if options["display_mode"] else "inline")

    markdown = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.use(dollarmath.dollarmath_plugin, renderer=formula)
    pages: list[str] = []
    for cell in jupytext.reads(text, fmt="py:percent").cells:
        if cell.cell_type == "markdown":
            pages.append(f"<div>{LINK.sub(lambda link: link[1], markdown.render(cell.source))}</div>")
        elif cell.source.strip():
            shown = [
                folder / found["pictures"][name] for name in SHOWN.findall(cell.source) if name in found["pictures"]
            ]
            numbers = [what for what in NUMBER.findall(cell.source) if what in found["numbers"]]
            code = f"<pre><code>{escape(cell.source)}</code></pre>"
            told = "".join(f"<li>{escape(what)}: <b>{_short(found['numbers'][what])}</b></li>" for what in numbers)
            part = f"<div>{code}{told and f'<ul>{told}</ul>'}</div>" + "".join(map(_picture, shown))
            pages[-1:] = [pages[-1] + part if pages else part]
    return pages


def _short(number: float) -> str:
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:.4g}"


def _picture(path: Path) -> str:
    """A picture within the page; of what is a page itself, its name."""
    if path.suffix != ".svg":
        return f"<p>{escape(path.name)} is a page of its own, in {escape(path.parent.as_posix())}.</p>"
    content = path.read_bytes()
    title = re.search(rb"<title>(.*?)</title>", content, re.S)
    alt = title[1].decode() if title else escape(path.stem)
    return f'<img alt="{alt}" src="data:image/svg+xml;base64,{base64.b64encode(content).decode()}">'
