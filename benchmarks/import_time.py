"""The time that `import tinytensor` adds to `import numpy`, in milliseconds, from interleaved fresh interpreters.

    python benchmarks/import_time.py [--rounds 15] [--against FOLDER] [--json FILE]

The second line is for tinytensor with tinytensor.nn. With another checkout, both start once in each round, and the
ratio (below 1: ours is faster) is the median over rounds. Byte code is compiled before.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from command_line import Parser, count, write_json
from interleaved import environment_of, print_blas, ratio

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CODE = f"""
import sys, time
sys.path.insert(0, {str(HERE)!r})
import checkout
import numpy
checkout.enter(sys.argv[1])
start = time.perf_counter()
import tinytensor
after_tinytensor = time.perf_counter()
checkout.module("nn")
after_nn = time.perf_counter()
import blas, json
print(json.dumps([after_tinytensor - start, after_nn - start, str(blas.in_use())]))
"""
MODULES = ("tinytensor", "tinytensor.nn")


def imported(folder: Path, byte_code: str) -> tuple[list[float], str]:
    """The seconds that importing each of MODULES takes after NumPy, in an interpreter of its own, and its BLAS."""
    environment = environment_of({"PYTHONPYCACHEPREFIX": byte_code})
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: compiled
    command = [sys.executable, "-c", CODE, str(folder)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    *seconds, used = json.loads(out)
    return seconds, used


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--rounds", type=count, default=15, help="fresh interpreters for each checkout (default 15)")
    parser.add_against()
    parser.add_json()
    arguments = parser.parse_args()
    folders = {"ours": ROOT} | ({"other": arguments.against} if arguments.against else {})
    seconds: dict[str, list[list[float]]] = {side: [] for side in folders}
    used = {}
    with tempfile.TemporaryDirectory() as byte_code:
        for _ in range(arguments.rounds + 1):  # the first writes the byte code
            for side, folder in folders.items():
                took, used[side] = imported(folder, byte_code)
                seconds[side].append(took)
    heading = "   ours takes, of it" if arguments.against else ""
    print(f"{'import':14} {'side':6} {'median ms':>9} {'min ms':>7}{heading}")
    results: dict[str, Any] = {"blas": used}
    for module, *times in zip(MODULES, *([list(column) for column in zip(*seconds[side][1:])] for side in folders)):
        results[module] = {}
        for side, its in zip(folders, times):
            milliseconds, of_it = 1e3 * statistics.median(its), ratio(times[0], its)
            compared = f"   {of_it}" if arguments.against else ""
            print(f"{module:14} {side:6} {milliseconds:9.1f} {1e3 * min(its):7.1f}{compared}", flush=True)
            results[module][side] = {"ms": milliseconds, "min_ms": 1e3 * min(its), "ours_takes": of_it._asdict()}
    print_blas(used)
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
