"""The sources of the site, as Sphinx reads them: Markdown pages, executed notebooks, a page for each source file.

What is written by hand stands where it always did, in docs/, README.md and examples/lessons; a link in it leads to a
file of the repository. Here each of them is copied, and its links are turned into links to pages.
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

import api
import notebooks
import playground
from links import ROOT, SITE, Links
from source_pages import source_pages

ABOVE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
AT_A_TIME = 2  # scripts, each a process that waits now and then for its compiler or for pictures
LESSONS = "\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n"
NAVIGATION = {
    "Learn": ("start", "lessons/index", "playground", "coming-from-pytorch", "coming-from-numpy", "reading"),
    "How to": (
        "your-own-op",
        "your-own-module",
        "your-own-text",
        "your-own-exercise",
        "training-loop",
        "optimisers",
        "gpu",
        "many-machines",
        "speed",
        "compile",
        "engine-room",
        "checkpoints",
        "drawing-a-graph",
        "debugging",
        "looking-inside",
        "teaching",
    ),
    "Look up": ("api/index", "names", "left-out", "silent-differences", "other-libraries", "promises"),
    "Pictures and figures": ("gallery", "pictures", "translation", "language-models", "performance", "figures"),
    "The project": ("README <readme>", "contributing", "changelog", "source/index"),
}
"""The menu at the side of every page; pages without an entry here are under "Look up"."""
START, IN_THE_BROWSER = "| run something | [Start](/start.md)", "[with nothing installed](/playground.md)"


def stage(folder: Path, results: Path, only: list[str] | None) -> None:
    """Fill a folder with the sources of the site; results of notebooks are kept in another.

    Args:
        folder: is made anew, but files that did not change keep their time, so that Sphinx reads them once.
        results: of scripts that have run.
        only: names of the scripts to run; None runs them all.
    """
    links = Links()
    pages = written(links)
    for path in sorted((ROOT / "docs").rglob("*.svg")):
        if "build" not in path.relative_to(ROOT / "docs").parts:
            pages[path.relative_to(ROOT / "docs").as_posix()] = path.read_bytes()
    lessons = sorted((ROOT / "examples" / "lessons").glob("[0-9]*.py"))
    index = pages.get("lessons/index.md", _list_of(lessons, links).encode())
    pages["lessons/index.md"] = index + LESSONS.encode()
    pages["index.md"] += navigation(pages).encode()
    scripts = [*lessons, *sorted((ROOT / "docs").glob("*.py"))]
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        runs = (only is None or path.stem in only for path in scripts)
        shown = threads.map(notebooks.with_results, scripts, repeat(results), runs)
        for path, notebook in zip(scripts, shown):
            pages[links.page_of(path)] = notebooks.as_page(notebook, path, links).encode()
    pages.update({f"notebooks/{path.stem}.ipynb": notebooks.to_download(path).encode() for path in scripts})
    pages.update({name: text.encode() for name, text in api.pages().items()})
    pages.update({name: text.encode() for name, text in source_pages(links).items()})
    _write(folder, pages)


def written(links: Links) -> dict[str, bytes]:
    """The Markdown pages of the repository; the page with an editor only if `TINYTENSOR_PYODIDE` is set."""
    folder = ROOT / "docs"
    paths = [*sorted(folder.glob("*.md")), *sorted((folder / "lessons").glob("*.md")), *(ROOT / name for name in ABOVE)]
    pages = {links.page_of(path): links.rewritten(path) for path in paths}
    if playground.address():
        assert pages["index.md"].count(START) == 1
        pages["index.md"] = pages["index.md"].replace(START, f"{START}; in the browser, {IN_THE_BROWSER}")
    else:
        del pages["playground.md"]
    return {name: text.encode() for name, text in pages.items()}


def navigation(pages: dict[str, bytes]) -> str:
    """The menu at the side of every page, as hidden tables of contents."""
    parts = {**NAVIGATION}
    if "playground.md" not in pages:
        parts["Learn"] = tuple(name for name in parts["Learn"] if name != "playground")
    named = {name for part in NAVIGATION.values() for name in part} | {"index", "readme", "gallery"}
    others = sorted(page.removesuffix(".md") for page in pages if "/" not in page and page.endswith(".md"))
    parts["Look up"] += tuple(name for name in others if name not in named)
    return "".join(_toctree(*part) for part in parts.items())


def _toctree(caption: str, names: tuple[str, ...]) -> str:
    lines = "\n".join(names)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def _list_of(lessons: list[Path], links: Links) -> str:
    """A page for the lessons, where docs/lessons/index.md does not give one."""
    titles = [(path.read_text(encoding="utf-8").splitlines()[1].lstrip("# "), links.page_of(path)) for path in lessons]
    rows = "".join(f"- [{title}]({Path(page).name})\n" for title, page in titles)
    said = "Each is a script, a notebook and a page; the pages here were executed when they were built."
    return f"# Lessons\n\n{said}\n\n{rows}"


def _write(folder: Path, pages: dict[str, bytes]) -> None:
    for name, content in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and path.relative_to(folder).as_posix() not in pages:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            shutil.rmtree(path)
    static = folder / "_static"
    shutil.copytree(SITE / "static", static, dirs_exist_ok=True)
