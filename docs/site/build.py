"""Build the documentation site, offline: pip install -e '.[docs]' && python docs/site/build.py.

Lessons and the gallery run as scripts. Their results are kept in docs/build/results under the content of the lesson and
the code of the library, so that the next build runs only what changed; tests of lessons keep the same results if
LESSON_RESULTS=docs/build/results is in the environment. The site is in docs/build/html. It has a page that runs a
lesson in the browser if TINYTENSOR_PYODIDE in the environment is the address of Pyodide.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import playground  # noqa: E402  (next to this file)
import stage  # noqa: E402


def main() -> int:
    p = argparse.ArgumentParser(description="Build the documentation site.")
    p.add_argument("--out", type=Path, default=HERE.parent / "build", help="default: docs/build")
    p.add_argument("--run", metavar="NAME,NAME", help="run only these lessons, show the others without results")
    arguments = p.parse_args()
    out = arguments.out.resolve()
    only = None if arguments.run is None else arguments.run.split(",")
    stage.stage(out / "source", out / "results", only)
    shutil.rmtree(out / "html", ignore_errors=True)
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    options = ["-b", "html", "-W", "--keep-going", "-q", "-j", "auto", "-c", str(HERE), "-d", str(out / "doctrees")]
    status = build_main([*options, str(out / "source"), str(out / "html")])
    if status == 0:
        if playground.address():
            playground.write(out / "html" / "_static")
        print(f"the site is in {out / 'html' / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
