"""Lessons and other files of percent cells as notebooks, with what they print and draw as scripts."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import jupytext
import nbformat
from links import ROOT, Links
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from results import LONGEST, printed_by
from traitlets.config import Config

from tinytensor.models.scripts import exercises
from tinytensor.models.scripts.lesson import Shown

HOW_TO_CHECK = """Replace the `...` and run the cell: its last line says that the answer is right, or names the mistake.
This lesson's own cells must have run before."""
AS_NOTEBOOK = "{{download}}`Open as notebook </notebooks/{name}.ipynb>`"


def with_results(path: Path, results: Path, run: bool) -> NotebookNode:
    """The notebook of a file, with what its cells print and draw as a script, unless it is not to run."""
    notebook = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent")
    if run:
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for cell, printed in zip(cells, printed_by(path, results), strict=True):
            cell.outputs = list(_outputs(printed, results / "work"))
    return notebook


def _outputs(printed: str, work: Path) -> Iterator[NotebookNode]:
    """The text that a cell printed, and each picture in the place of the line that names its file."""
    text = ""
    for line in printed.splitlines(keepends=True):
        if not line.startswith("picture: "):
            text += line
            continue
        if text:
            yield new_output("stream", name="stdout", text=text)
        text = ""
        picture = Shown(work / line.removeprefix("picture: ").rstrip("\n"))
        yield new_output("display_data", data=picture._repr_mimebundle_())
    if text:
        yield new_output("stream", name="stdout", text=text)


def executed(path: Path, work: Path) -> NotebookNode:
    """The notebook of a file after Jupyter has executed it in an empty folder; the first error ends it."""
    notebook = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent")
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(ROOT / "examples" / "lessons" / "exercises", work / "exercises")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    place = {"metadata": {"path": work}}
    with tempfile.TemporaryDirectory() as sockets:  # files, not ports; Windows has none
        files = {} if sys.platform == "win32" else {"transport": "ipc", "ip": f"{sockets}/kernel"}
        config = Config(KernelManager=files)
        NotebookClient(notebook, timeout=LONGEST, kernel_name="python3", resources=place, config=config).execute()
    return notebook


def exercise_cells(path: Path) -> list[NotebookNode]:
    """For each exercise of a lesson its task, its hints, folded, and a hole with the line that checks the answer."""
    file = path.parent / "exercises" / path.name
    if not file.exists():
        return []
    cells = [new_markdown_cell(f"## Exercises\n\n{HOW_TO_CHECK}")]
    for each in exercises.read(file):
        hints = "".join(f"\n\n<details><summary>A hint</summary>\n\n{hint}\n\n</details>" for hint in each.hints)
        cells.append(new_markdown_cell(f"### `{each.name}`\n\n{each.task}{hints}"))
        cells.append(new_code_cell(f"{each.hole}\n    return ...\n\n\nlesson.check({each.name})"))
    return cells


def to_download(path: Path) -> str:
    """The notebook of a file as its reader gets it: with its exercises, and not executed yet."""
    notebook = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent")
    notebook.cells += exercise_cells(path)
    return _written(notebook)


def as_page(notebook: NotebookNode, path: Path, links: Links) -> str:
    """The notebook as the site shows it: links to pages, exercises, and each picture's description as its text."""
    notebook.cells += exercise_cells(path)
    title, _, text = notebook.cells[0].source.partition("\n")
    notebook.cells[0].source = f"{title}\n\n{AS_NOTEBOOK.format(name=path.stem)}\n{text}"
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = links.in_text(cell.source, path)
            continue
        for output in cell.get("outputs", []):
            if picture := output.get("data", {}).get("image/svg+xml"):
                title = re.search(r"<title>(.*?)</title>", picture, re.S)
                alt = unescape(title[1]).strip() if title else "A picture"
                cell.metadata["mystnb"] = {"image": {"alt": alt}}
    return _written(notebook)


def _written(notebook: NotebookNode) -> str:
    """The text of a notebook's file, the same for the same cells."""
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for cell in notebook.cells:
        cell.pop("id", None)
    return nbformat.writes(nbformat.from_dict({**notebook, "nbformat": 4, "nbformat_minor": 4}))
