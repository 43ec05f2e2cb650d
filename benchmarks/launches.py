"""Count the launches of kernels in a training step on a GPU, and the places where it waits. It needs no GPU.

    python benchmarks/launches.py [--workload copy] [--dropout 0.1] [--plain] [--json FILE]

The step of train_step.py runs on the stand-in for CuPy that the tests use, and the calls of Python are counted: in a
step whose forward and backward pass were recorded (`nn.compile_step`), with --plain in one that goes op by op. A call
that computes or copies an array counts as one launch (CuPy makes a few for some calls, such as sums over two axes), a
call that gives a view of its operand as none. To read a number, Python waits until the GPU has computed it.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import train_step
from command_line import Parser, probability, refuse, write_json
from interleaved import Side, print_blas
from train_step import ROOT, WORKLOADS, Workload

sys.path.insert(0, str(ROOT / "tests" / "standin"))
import cuda_on_cpu
import cupy

NO_LAUNCH = {"empty", "empty_like", "asnumpy", "ascontiguousarray"}  # the last calls a counted one to copy
READS = ("get", "item", "tolist", "__bool__", "__int__", "__float__", "__index__")
CHANGES = ("__setitem__", "fill", "set", *(f"__{name}__" for name in cupy.IN_PLACE.split()))


class Count:
    """Counts launches by name, and waits by the place that reads."""

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
        """Count all calls of the stand-in from here on."""
        array, module = cupy.ndarray, vars(cupy)
        for name in {*cupy.METHODS.split(), "__getitem__"}:
            setattr(array, name, self.computing(name.strip("_"), getattr(array, name)))
        for name in CHANGES:
            setattr(array, name, self.changing(name.strip("_"), getattr(array, name)))
        for name in READS:
            setattr(array, name, self.reading(name.strip("_"), getattr(array, name)))
        for name in {*cupy.FUNCTIONS.split(), "array", "argsort"} - NO_LAUNCH:
            module[name] = self.computing(name, module[name])
        for name in ("add", "maximum"):
            module[name].at = self.changing(f"{name}.at", module[name].at)
        get_function = cupy.RawModule.get_function
        cupy.RawModule.get_function = lambda own, name: self.changing(f"our {name}", get_function(own, name))
        cupy.cuda.Graph.launch = self.changing("graph", cupy.cuda.Graph.launch)


OURS = tuple(str(ROOT / name) for name in ("tinytensor", "nn", "models", "benchmarks"))


def counted_step(w: Workload, dropout: float, plain: bool) -> tuple[Callable[[], tuple[dict, dict]], None]:
    """The side: a function that makes a step and returns its launches and waits."""
    count = Count()
    count.watch()  # before the library takes names from CuPy
    cupy.get_default_memory_pool = lambda: SimpleNamespace(total_bytes=lambda: 0)
    steps, _ = train_step.ours(ROOT, w, dropout, "gpu", plain)
    steps(3)  # the second is recorded

    def step() -> tuple[dict[str, int], dict[str, int]]:
        count.launches.clear()
        count.waits.clear()
        steps(1)
        return dict(count.launches.most_common()), dict(count.waits.most_common())

    return step, None


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--workload", choices=list(WORKLOADS), default="copy", help="default copy")
    parser.add_argument("--dropout", type=probability, default=0.0, help="in all the paper's places (default 0)")
    parser.add_argument("--plain", action="store_true", help="op by op, as without nn.compile_step")
    parser.add_json()
    arguments = parser.parse_args()
    if cuda_on_cpu.COMPILER is None:
        refuse("a C++ compiler is needed, g++ or clang++: the kernels are compiled for the CPU")
    side = Side(counted_step, {}, WORKLOADS[arguments.workload], arguments.dropout, arguments.plain)
    results = dict(zip(("launches", "waits"), side.ask()))
    side.close()
    for title, numbers in results.items():
        print(f"{title}: {sum(numbers.values())}")
        for name, number in numbers.items():
            print(f"  {number:5}  {name}")
    print_blas(used := {"the stand-in": side.blas})
    write_json(arguments.json, {"blas": used} | results)


if __name__ == "__main__":
    main()
