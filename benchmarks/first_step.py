"""How long a newcomer waits for the first training step of a process, ours against PyTorch's.

    python benchmarks/first_step.py [--workloads copy,toy] [--rounds 5]

Each round starts a process for each side in turn. It imports the library, makes the model of plain_loop.py, with
nothing switched on, and takes two steps. The figures are the seconds of the first step, of the second, and from the
start of the interpreter to the end of the first step; a ratio (below 1: ours is faster) is the median over rounds.

    ours      an earlier process has compiled the loops, and Numba kept them on disk
    fresh     no process has: a machine with a new installation of tinytensor
    torch     PyTorch, as installed
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from busy import Elsewhere, is_quiet
from command_line import Parser, count, require_torch, some_of, write_json
from interleaved import environment_of, ratio
from plain_loop import ROOT, side
from train_step import WORKLOADS

PROGRAM = "import first_step, sys; first_step.two_steps(*sys.argv[1:])"
PARTS = ("all", "first", "second")


def two_steps(library: str, workload: str, started: str) -> None:
    """The task of a side's process: take two steps, and print the seconds of each part."""
    steps, _ = side(library, ROOT, WORKLOADS[workload])
    ready = time.time()
    steps(1)
    first = time.time()
    steps(1)
    seconds = {"all": first - float(started), "first": first - ready, "second": time.time() - first}
    print(json.dumps(seconds))


@contextmanager
def environment(name: str) -> Iterator[dict[str, str]]:
    """The environment of a side's process; a fresh one has an empty folder of its own for compiled loops."""
    settings = {"PYTHONPATH": os.path.dirname(__file__)}
    if name != "fresh":
        yield environment_of(settings)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield environment_of(settings | {"NUMBA_CACHE_DIR": folder})


def ask(name: str, workload: str) -> dict[str, float]:
    """The seconds that a process of this side reports."""
    library = "torch" if name == "torch" else "ours"
    with environment(name) as variables:
        command = [sys.executable, "-c", PROGRAM, library, workload, repr(time.time())]
        result = subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout)


def compare(workload: str, arguments: Any) -> dict[str, Any]:
    """Time one workload on all sides, print a line for each and return the figures."""
    sides = ("ours", "fresh", "torch")
    ask("ours", workload)  # compiles the loops, if no process has yet
    elsewhere = Elsewhere([])
    told = [{name: ask(name, workload) for name in sides} for _ in range(arguments.rounds)]
    used = elsewhere.cores()
    results: dict[str, Any] = {"cores_used_by_others": used}
    for name in sides if is_quiet(workload, used, arguments.anyway) else ():
        line = f"{workload:6} {name:6}"
        results[name] = {}
        for part in PARTS:
            seconds = [found[name][part] for found in told]
            of_torch = ratio(seconds, [found["torch"][part] for found in told])
            line += f"  {part} {statistics.median(seconds):6.3f} s {of_torch!s:22}"
            results[name][part] = {"seconds": statistics.median(seconds), "of_torch": of_torch._asdict()}
        print(line, flush=True)
    return results


def main() -> None:
    parser = Parser(__doc__)
    known = some_of(*WORKLOADS)
    parser.add_argument("--workloads", type=known, default=["copy"], help=f"some of {','.join(WORKLOADS)} (copy)")
    parser.add_argument("--rounds", type=count, default=5, help="interleaved rounds (default 5)")
    parser.add_anyway()
    parser.add_json()
    arguments = parser.parse_args()
    require_torch()
    print("in brackets what a side takes of PyTorch's time")
    write_json(arguments.json, {name: compare(name, arguments) for name in arguments.workloads})


if __name__ == "__main__":
    main()
