"""Links of pages: written as paths of the repository, turned into pages of the site."""

from __future__ import annotations

import re
from pathlib import Path

SITE = Path(__file__).parent
ROOT = SITE.parents[1]

CODE = re.compile(r"^(```|~~~).*?^\1[^\n]*$|`[^`\n]+`", re.M | re.S)
LINK = re.compile(r"(?P<open>\]\(|^ *\[[^\]\n]+\]: +)(?P<target>[^)\s]+)", re.M)
MADE = {ROOT / "docs" / name / "index.md" for name in ("lessons", "api", "source")}
"""Pages that stand on the site even where no file has them."""

SHOWN = (".py", ".js", ".css", ".cu", ".sh", ".toml", ".txt")


class Links:
    """Where each file of the repository is on the site.

    Attributes:
        sources: files that a page of source is wanted for, beside those of the library.
    """

    def __init__(self) -> None:
        self.sources: set[Path] = set()

    def page_of(self, path: Path) -> str:
        """The page for a file or a folder of the repository, as a path below the root of the site's sources."""
        inside = path.relative_to(ROOT)
        if inside.as_posix() == "docs/api/index.md":
            return "api/index.rst"
        if inside.parts[0] == "docs" and inside.suffix in (".md", ".svg"):
            return inside.relative_to("docs").as_posix()
        if inside.parts[0] == "docs" and inside.suffix == ".py" and len(inside.parts) == 2:
            return f"{inside.stem}.ipynb"
        if inside.suffix == ".md":
            return f"{inside.stem.lower()}.md"
        if inside.parts[:2] == ("examples", "lessons") and inside.stem[0].isdigit() and len(inside.parts) == 3:
            return f"lessons/{inside.stem}.ipynb"
        if path.is_dir():
            return f"source/{inside.as_posix()}/index.md"
        self.sources.add(path)
        return f"source/{inside.as_posix()}.md"

    def rewritten(self, path: Path) -> str:
        """The text of a Markdown file with links to pages."""
        return self.in_text(path.read_text(encoding="utf-8"), path)

    def in_text(self, text: str, path: Path) -> str:
        """The same for text that stands in a file; what is code stays as it is."""
        code = [match.span() for match in CODE.finditer(text)]

        def replaced(match: re.Match[str]) -> str:
            if any(start <= match.start() < end for start, end in code):
                return match[0]
            return match["open"] + self._target(match["target"], path)

        return LINK.sub(replaced, text)

    def _target(self, target: str, path: Path) -> str:
        file, hash_sign, anchor = target.partition("#")
        if not file or ":" in file:
            return target
        found = (path.parent / file).resolve()
        if not found.exists() and found not in MADE:
            raise FileNotFoundError(f"{path.relative_to(ROOT)}: a link to {target}, which is not there")
        return f"/{self.page_of(found)}{hash_sign}{anchor}"
