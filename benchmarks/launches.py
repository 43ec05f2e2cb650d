"""What a training step asks of a GPU: launches of kernels, and places where it waits for the GPU. No GPU is needed.

    python benchmarks/launches.py [--workload copy] [--dropout 0.1] [--json FILE]

The step of train_step.py is computed once on the stand-in for CuPy that the tests use, and the calls are counted. A
call that computes or copies an array counts as one launch (CuPy makes a few of some, of sums over two axes say), one
that gives a view of its operand as none. Where a number is read, Python waits until the GPU has computed it.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import interleaved
import numpy as np
from train_step import ROOT, WORKLOADS, ours

sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "standin")]
import cuda_on_cpu  # noqa: E402
import cupy  # noqa: E402
import cupyx  # noqa: E402

if cuda_on_cpu.COMPILER is None:
    interleaved.refuse("a C++ compiler is needed, g++ or clang++: the kernels are compiled for the CPU")

NO_LAUNCH = {"empty", "empty_like", "asnumpy", "ascontiguousarray"}  # the last calls another where it copies
READS = ("get", "item", "tolist", "__bool__", "__int__", "__float__", "__index__")
CHANGES = ("__setitem__", "fill", *(f"__{name}__" for name in cupy.IN_PLACE.split()))


class Count:
    """Launches by name, waits by the place that reads."""

    def __init__(self) -> None:
        self.launches: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()

    def computing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            given = [x._array for x in (*args, *kwargs.values()) if isinstance(x, cupy.ndarray)]
            views = isinstance(result, cupy.ndarray) and any(np.may_share_memory(result._array, x) for x in given)
            if not views or kwargs.get("out") is not None:
                self.launches[name] += 1
            return result

        return counted

    def changing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.launches[name] += 1
            return function(*args, **kwargs)

        return counted

    def reading(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            while frame.f_back is not None and not frame.f_code.co_filename.startswith(OURS):
                frame = frame.f_back
            place = Path(frame.f_code.co_filename)
            where = place.relative_to(ROOT) if place.is_relative_to(ROOT) else place.name
            self.waits[f"{where}, {frame.f_code.co_name}"] += 1
            return function(*args, **kwargs)

        return counted

    def watch(self) -> None:
        """Count from here on whatever is asked of the stand-in."""
        array, module = cupy.ndarray, vars(cupy)
        for name in {*cupy.METHODS.split(), "__getitem__"}:
            setattr(array, name, self.computing(name.strip("_"), getattr(array, name)))
        for name in CHANGES:
            setattr(array, name, self.changing(name.strip("_"), getattr(array, name)))
        for name in READS:
            setattr(array, name, self.reading(name.strip("_"), getattr(array, name)))
        for name in {*cupy.FUNCTIONS.split(), "array", "argsort"} - NO_LAUNCH:
            module[name] = self.computing(name, module[name])
        for name in ("scatter_add", "scatter_max"):
            setattr(cupyx, name, self.changing(name, getattr(cupyx, name)))
        get_function = cupy.RawModule.get_function
        cupy.RawModule.get_function = lambda own, name: self.changing(f"our {name}", get_function(own, name))


OURS = tuple(str(ROOT / name) for name in ("tinytensor", "nn", "models", "benchmarks"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=list(WORKLOADS), default="copy", help="default copy")
    parser.add_argument("--dropout", type=float, default=0.0, help="in all the paper's places (default 0)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    if not 0 <= arguments.dropout < 1:
        interleaved.refuse("--dropout must be in [0, 1)")

    count = Count()
    count.watch()  # before the library takes names from CuPy
    cupy.get_default_memory_pool = lambda: SimpleNamespace(total_bytes=lambda: 0)
    steps, _ = ours(str(ROOT), WORKLOADS[arguments.workload], arguments.dropout, "gpu")
    steps(1)
    count.launches.clear()
    count.waits.clear()
    steps(1)
    for title, found in (("launches", count.launches), ("waits", count.waits)):
        print(f"{title}: {found.total()}")
        for name, number in found.most_common():
            print(f"  {number:5}  {name}")
    interleaved.write_json(arguments.json, {"launches": dict(count.launches), "waits": dict(count.waits)})


if __name__ == "__main__":
    main()
