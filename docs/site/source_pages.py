"""A page for each source file of the library, with an anchor at each line, and one for each folder."""

from __future__ import annotations

from pathlib import Path

from links import ROOT, SHOWN, Links
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

LIBRARY = ("tinytensor", "nn", "models", "examples")
FORMAT = HtmlFormatter(linenos="inline", anchorlinenos=True, lineanchors="L", cssclass="highlight", wrapcode=True)


def source_pages(links: Links) -> dict[str, str]:
    """Pages by their names: of the library, and of whatever else pages link to."""
    files = {
        path
        for top in LIBRARY
        for path in (ROOT / top).rglob("*")
        if path.suffix in SHOWN and not path.is_symlink() and "__pycache__" not in path.parts
    }
    files = {path for path in files if not any(parent.is_symlink() for parent in path.parents if parent != ROOT)}
    files |= {path for path in links.sources if path.is_file()}
    pages = {}
    for path in sorted(files):
        inside = path.relative_to(ROOT).as_posix()
        pages[f"source/{inside}.md"] = f"---\norphan: true\n---\n\n# {inside}\n\n{{}}".replace("{}", _listing(path))
    folders = {parent for path in files for parent in path.parents if parent != ROOT and ROOT in parent.parents}
    for folder in sorted(folders):
        inside = folder.relative_to(ROOT).as_posix()
        inner = sorted(p for p in {*files, *folders} if p.parent == folder)
        rows = "".join(f"- [{p.name}](/{_page(p, folders)})\n" for p in inner)
        pages[f"source/{inside}/index.md"] = f"---\norphan: true\n---\n\n# {inside}/\n\n{rows}"
    tops = "".join(f"- [{p.name}](/{_page(p, folders)})\n" for p in sorted({*files, *folders}) if p.parent == ROOT)
    pages["source/index.md"] = f"# Source\n\nEvery file of the library, as this site was built from it.\n\n{tops}"
    return pages


def _page(path: Path, folders: set[Path]) -> str:
    inside = path.relative_to(ROOT).as_posix()
    return f"source/{inside}/index.md" if path in folders else f"source/{inside}.md"


def _listing(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    try:
        lexer = get_lexer_for_filename(path.name, stripnl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False)
    html = highlight(text, lexer, FORMAT)
    return f"````````{{raw}} html\n{html}\n````````\n"
