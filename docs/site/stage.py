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
"""What stands at the side of every page; pages that are not named here stand under "Look up"."""


def stage(folder: Path, results: Path, only: list[str] | None) -> None:
    """Fill a folder with the sources of the site; results of notebooks are kept in another.

    Args:
        folder: is made anew, but files that did not change keep their time, so that Sphinx reads them once.
        results: of scripts that have run.
        only: names of the scripts to run; None runs them all.
    """
    pages: dict[str, bytes] = {}
    links = Links()
    for path in sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "docs" / "lessons").glob("*.md")):
        pages[links.page_of(path)] = links.rewritten(path).encode()
    for name in ABOVE:
        pages[links.page_of(ROOT / name)] = links.rewritten(ROOT / name).encode()
    for path in sorted((ROOT / "docs").rglob("*.svg")):
        if "build" not in path.relative_to(ROOT / "docs").parts:
            pages[path.relative_to(ROOT / "docs").as_posix()] = path.read_bytes()
    lessons = sorted((ROOT / "examples" / "lessons").glob("[0-9]*.py"))
    index = pages.get("lessons/index.md", _list_of(lessons, links).encode())
    pages["lessons/index.md"] = index + LESSONS.encode()
    named = {name for part in NAVIGATION.values() for name in part}
    others = tuple(sorted(page.removesuffix(".md") for page in pages if "/" not in page and page.endswith(".md")))
    others = tuple(name for name in others if name not in named | {"index", "readme", "gallery"})
    parts = {**NAVIGATION, "Look up": NAVIGATION["Look up"] + others}
    pages["index.md"] += "".join(_toctree(*part) for part in parts.items()).encode()
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
