"""The files that the page with an editor loads: its settings, and the library in one archive.

TINYTENSOR_PYODIDE in the environment is the address of Pyodide, the folder with `pyodide.mjs` and its packages.
If it is not set, the site has neither the page nor a link to it.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

from links import ROOT

LESSON = ROOT / "examples" / "lessons" / "01_dot_product.py"
PLACES = {"tinytensor": ROOT / "tinytensor", "tinytensor/nn": ROOT / "nn", "tinytensor/models": ROOT / "models"}
ALWAYS = (2026, 1, 1, 0, 0, 0)  # the time of each file, so that the same library is the same archive


def address() -> str:
    """The address of Pyodide, which ends in a slash; "" if it is not set."""
    given = os.environ.get("TINYTENSOR_PYODIDE", "")
    return f"{given.rstrip('/')}/" if given else ""


def write(static: Path) -> None:
    """Write `playground-settings.js` and `tinytensor.zip` into the folder of static files."""
    settings = {
        "pyodide": address(),
        "archive": "_static/tinytensor.zip",
        "code": LESSON.read_text(encoding="utf-8"),
    }
    (static / "playground-settings.js").write_text(f"window.PLAYGROUND = {json.dumps(settings)};\n", encoding="utf-8")
    with zipfile.ZipFile(static / "tinytensor.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for package, folder in PLACES.items():
            for path in sorted(folder.rglob("*")):
                inside = path.relative_to(folder)
                linked = any((folder / part).is_symlink() for part in inside.parts[:1])
                if path.is_file() and not linked and "__pycache__" not in inside.parts:
                    archive.writestr(zipfile.ZipInfo(f"{package}/{inside.as_posix()}", ALWAYS), path.read_bytes())
