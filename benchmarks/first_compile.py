"""The compilation in a first process, without anything of Numba's on disk, and its time.

    python benchmarks/first_compile.py [--works copy,language,attention,convolution,decoding] [--functions]
    python benchmarks/first_compile.py --against FOLDER ...    # beside another checkout of tinytensor

Each work runs once in a process of its own, with an empty folder for Numba's cache:

    copy         a training step of the copy task in plain_loop.py, with nothing switched on
    language     a training step of a language model; this one and those below after `tt.speed_up()`
    attention    a long sequence attends to itself, forward and backward
    convolution  a training step of the network of examples/classify_images.py
    decoding     a beam search of some sentences

The figures are processor seconds of compiling, in Numba's own passes and in LLVM, which Numba calls; the number of
compiled functions; and the processor seconds of the whole work, in all threads, after Numba is loaded. Other programs
disturb these less than the time that passes. `--functions` prints the seconds of each function, without the functions
that it calls and that are compiled by themselves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from command_line import Parser, some_of, write_json
from interleaved import environment_of

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = "import first_compile, sys; first_compile.report(sys.argv[1], sys.argv[2])"
PARTS = ("numba", "llvm")
OUTSIDE = "outside of functions"  # where LLVM makes code for calls from C


# ---- the works, once each, in a checkout


def copy(folder: Path) -> None:
    import plain_loop
    from train_step import WORKLOADS

    steps, _ = plain_loop.side("ours", folder, WORKLOADS["copy"])
    steps(1)


def attention(folder: Path) -> None:
    import attention

    attention.ROOT = folder
    step, _ = attention.ours((1024, 8, 64), False, 0.0, "cpu", False)
    step()


def language(folder: Path) -> None:
    """With 64 ids, as in `train_language_model.py`, too few to compile the loop of long attention."""
    import language_model

    steps, _ = language_model.ours(folder, "gpt2", language_model.SIZES["tiny"], 0.0)
    steps(1)


def convolution(folder: Path) -> None:
    import classify_step

    classify_step.ROOT = folder
    steps, _ = classify_step.tinytensor_side(20, 64, False)
    steps(1)


def decoding(folder: Path) -> None:
    import decoding
    from checkout import Checkout

    checkout = Checkout(folder)
    checkout.speed_up()
    decode, _ = decoding.ours(checkout, None, None, False)
    decode(decoding.batches(decoding.random_sources(16), 16)[0], 5)


WORKS = {work.__name__: work for work in (copy, language, attention, convolution, decoding)}


# ---- the clock


class Clock:
    """Adds up the seconds that each function takes to compile, by Numba's events."""

    def __init__(self) -> None:
        self.seconds: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(PARTS, 0.0))
        self.threads = threading.local()

    def listen(self) -> None:
        from numba.core.event import Listener, register

        class Ear(Listener):
            on_start = staticmethod(self.begin)
            on_end = staticmethod(self.end)

        for kind in ("numba:compile", "numba:run_pass", "numba:llvm_lock"):
            register(kind, Ear())

    def begin(self, event: Any) -> None:
        """Count the time from here on for the function of the event, or for LLVM."""
        open_ = self._pass_time()
        name, _ = open_[-1] if open_ else (OUTSIDE, "")
        if event.kind == "numba:llvm_lock":
            open_.append((name, "llvm"))
        else:
            open_.append((_name(event.data), "numba"))

    def end(self, event: Any) -> None:
        self._pass_time().pop()

    def _pass_time(self) -> list[tuple[str, str]]:
        """The open events of this thread, after the innermost one gets the time since the last event."""
        own, now = self.threads.__dict__, time.thread_time()
        open_ = own.setdefault("open", [])
        if open_:
            name, part = open_[-1]
            self.seconds[name][part] += now - own["last"]
        own["last"] = now
        return open_


def _name(data: dict[str, Any]) -> str:
    """The file and the name of the function that is compiled."""
    if "dispatcher" in data:
        function = data["dispatcher"].py_func
        module, name = function.__module__, function.__qualname__
    else:
        module, name = data["module"], data["qualname"]
    return f"{module.rpartition('.')[2]}.{name}"


def report(work: str, folder: str) -> None:
    """The task of a process: work once, and print the seconds of all of it and of compiling each function."""
    clock = Clock()
    clock.listen()
    started = time.process_time()
    WORKS[work](Path(folder))
    print(json.dumps([time.process_time() - started, clock.seconds]))


# ---- the sides


def ask(work: str, folder: Path) -> tuple[float, dict[str, dict[str, float]]]:
    """The seconds that a process with nothing on disk reports."""
    with tempfile.TemporaryDirectory() as cache:
        variables = environment_of({"PYTHONPATH": os.path.dirname(__file__), "NUMBA_CACHE_DIR": cache})
        command = [sys.executable, "-c", PROGRAM, work, str(folder)]
        result = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--works", type=some_of(*WORKS), default=["copy"], help=f"some of {','.join(WORKS)} (copy)")
    parser.add_argument("--functions", action="store_true", help="tell of each function, too")
    parser.add_against()
    parser.add_json()
    arguments = parser.parse_args()
    folders = {"ours": ROOT} | ({"other": arguments.against} if arguments.against else {})
    print(f"{'seconds of compiling':40} {'all':>7} {'numba':>7} {'llvm':>7} {'functions':>9} {'work':>9}")
    results: dict[str, Any] = {}
    for work in arguments.works:
        results[work] = {}
        for side, folder in folders.items():
            work_seconds, functions = ask(work, folder)
            total = {part: sum(function[part] for function in functions.values()) for part in PARTS}
            print(f"{work:12} {side:27} {_row(total)} {len(functions):9} {work_seconds:9.2f}", flush=True)
            if arguments.functions:
                for name, its in sorted(functions.items(), key=lambda item: -sum(item[1].values())):
                    print(f"  {name:38} {_row(its)}")
            results[work][side] = {"work": work_seconds, "total": total, "functions": functions}
    write_json(arguments.json, results)


def _row(seconds: dict[str, float]) -> str:
    return f"{sum(seconds.values()):7.2f} {seconds['numba']:7.2f} {seconds['llvm']:7.2f}"


if __name__ == "__main__":
    main()
