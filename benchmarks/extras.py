"""The size of each extra on disk, of the packages that are installed here.

    python benchmarks/extras.py

A package counts with all that it needs in turn, but for NumPy, SciPy and the others that every installation has.
"""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from command_line import Parser
from packaging.requirements import Requirement

NAME = "tinytensor-textbook"


def needed(found: Distribution, extras: frozenset[str], names: dict[str, bool]) -> dict[str, bool]:
    """The names of the packages that a distribution needs, with these of its extras; True for those installed here."""
    for line in found.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        inner = frozenset(requirement.extras)
        if name == NAME:
            needed(found, inner, names)
        elif name not in names:
            try:
                names[name] = True
                needed(distribution(name), inner, names)
            except PackageNotFoundError:
                names[name] = False
    return names


def megabytes(name: str) -> float:
    """The size of the files of a package, without those that Python compiles when it is used."""
    files = distribution(name).files or ()
    sizes = (
        Path(str(file.locate())).stat().st_size for file in files if file.suffix != ".pyc" and file.locate().exists()
    )
    return sum(sizes) / 1e6


def main() -> None:
    Parser(__doc__).parse_args()
    ours = distribution(NAME)
    everywhere = needed(ours, frozenset(), {})
    print(f"{'extra':14} {'MB':>5}  packages")
    print(f"{'(none)':14} {sum(map(megabytes, everywhere)):5.0f}  {', '.join(sorted(everywhere))}")
    for extra in sorted(ours.metadata.get_all("Provides-Extra") or ()):
        names = needed(ours, frozenset({extra}), {})
        own = sorted(name for name in names if name not in everywhere)
        missing = [name for name in own if not names[name]]
        size = sum(megabytes(name) for name in own if names[name])
        told = f"   ({', '.join(missing)} is not installed here)" if missing else ""
        print(f"{extra:14} {size:5.0f}  {', '.join(own)}{told}")


if __name__ == "__main__":
    main()
