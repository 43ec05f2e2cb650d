"""Lessons and other files of percent cells: executed in a folder of their own, their results kept by content."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from functools import cache
from html import unescape
from pathlib import Path

import jupytext
import nbformat
from links import ROOT, Links
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from traitlets.config import Config

from tinytensor.models.scripts import exercises

LIBRARY = ("tinytensor", "nn", "models")
LONGEST = 600  # seconds that one cell may take
HOW_TO_CHECK = """Replace the `...` and run the cell: its last line says that the answer is right, or names the mistake.
This lesson's own cells must have run before."""
AS_NOTEBOOK = "{{download}}`Open as notebook </notebooks/{name}.ipynb>`"


def executed(path: Path, results: Path, run: bool) -> NotebookNode:
    """The notebook of a file, with what its cells print and show, unless it is not to run."""
    text = path.read_text(encoding="utf-8")
    notebook = jupytext.reads(text, fmt="py:percent")
    if not run:
        return notebook
    key = hashlib.sha256(text.encode() + code_of_the_library().encode()).hexdigest()[:16]
    kept = results / f"{path.stem}-{key}.ipynb"
    if not kept.exists():
        _run(notebook, path, results / "work" / path.stem)
        for old in results.glob(f"{path.stem}-*.ipynb"):
            old.unlink()
        whole = kept.with_suffix(".new")
        whole.write_text(nbformat.writes(notebook), encoding="utf-8")
        whole.replace(kept)
    return nbformat.reads(kept.read_text(encoding="utf-8"), as_version=4)


def _run(notebook: NotebookNode, path: Path, work: Path) -> None:
    """Execute the cells in an empty folder; the first error ends it."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(ROOT / "examples" / "lessons" / "exercises", work / "exercises")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    start = time.perf_counter()
    place = {"metadata": {"path": work}}
    with tempfile.TemporaryDirectory() as sockets:  # files, not ports; Windows has none
        files = {} if sys.platform == "win32" else {"transport": "ipc", "ip": f"{sockets}/kernel"}
        config = Config(KernelManager=files)
        NotebookClient(notebook, timeout=LONGEST, kernel_name="python3", resources=place, config=config).execute()
    print(f"{path.name}: executed in {time.perf_counter() - start:.0f} s", flush=True)


@cache
def code_of_the_library() -> str:
    """A hash of what the library computes: its code without comments and docstrings, so that prose runs nothing."""
    total = hashlib.sha256()
    for top in LIBRARY:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".js", ".css", ".cu"):
                total.update(path.read_bytes())
            elif path.suffix == ".py":
                total.update(ast.dump(_without_docstrings(path)).encode())
    return total.hexdigest()


def _without_docstrings(path: Path) -> ast.Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
    return tree


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
        cell.outputs = [output for output in cell.get("outputs", []) if not _is_a_bare_value(output)]
        for output in cell.outputs:
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


def _is_a_bare_value(output: NotebookNode) -> bool:
    """The value of a cell's last line, which a script does not print either."""
    return output.output_type == "execute_result" and output.data.keys() == {"text/plain"}
