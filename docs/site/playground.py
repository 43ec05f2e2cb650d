"""What the page with an editor needs beside it: its settings, and the library in one archive.

TINYTENSOR_PYODIDE in the environment is the address of Pyodide, the folder in which `pyodide.mjs` and its packages are.
Without it the page says so when it is asked to run something.
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


def write(static: Path) -> None:
    """Write `playground-settings.js` and `tinytensor.zip` into the folder of static files."""
    address = os.environ.get("TINYTENSOR_PYODIDE", "")
    settings = {
        "pyodide": f"{address.rstrip('/')}/" if address else "",
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
