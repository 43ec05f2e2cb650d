"""Sides of a comparison, each in a process of its own with its own environment, asked in turn: A B A B ...

Machines are shared and their clocks change, so only ratios of neighbouring times say anything: a round asks every side
once, and the figure is the median of the rounds' ratios.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn


class Ratio(NamedTuple):
    """Of several rounds: the median, the least and the largest ratio."""

    median: float
    least: float
    largest: float

    def __str__(self) -> str:
        return f"{self.median:5.2f} ({self.least:.2f} to {self.largest:.2f})"


def ratio(times: Sequence[float], others: Sequence[float]) -> Ratio:
    """What the times of one side are of another's, round by round."""
    ratios = sorted(a / b for a, b in zip(times, others))
    return Ratio(statistics.median(ratios), ratios[0], ratios[-1])


def ours(threads: int) -> dict[str, str]:
    """The environment of tinytensor, as `before_numpy.prepare` sets it, with so many threads."""
    return {"TINYTENSOR_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"}


def torch(threads: int, keep_memory: bool = False) -> dict[str, str]:
    """The environment of PyTorch; `keep_memory` has its allocator keep freed memory, as `tt.keep_memory` does."""
    environment = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    kept = {"MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_MMAP_THRESHOLD_": str(2**40)}
    return environment | kept if keep_memory else environment


class Side:
    """A process that was told `make(*arguments)`: a function to call, and a greeting.

    The function may have an attribute `peak`, which tells its peak memory where that is not the process's.

    Attributes:
        greeting: what `make` gave beside the function, for example the weights to start from.
        seconds: how long each call took.
    """

    def __init__(self, make: Callable[..., tuple[Callable[..., Any], Any]], environment: dict[str, str], *arguments):
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        former = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)  # a spawned process reads it before it loads NumPy
        self._process = context.Process(target=_serve, args=(there, make, arguments), daemon=True)
        self._process.start()
        for name, value in former.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        there.close()
        self.seconds: list[float] = []
        self.greeting = self._receive()

    def ask(self, *request: Any) -> Any:
        """The function's result; how long it took is remembered in `seconds`."""
        self._pipe.send(request)
        answer, seconds = self._receive()
        self.seconds.append(seconds)
        return answer

    def close(self) -> float:
        """End the process; returns its peak memory in bytes."""
        self._pipe.send(None)
        peak = self._receive()
        self._process.join()
        return peak

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError:
            raise SystemExit(f"{script()}: a side ended early; its own message is above") from None


def _serve(pipe: Any, make: Callable[..., tuple[Callable[..., Any], Any]], arguments: tuple[Any, ...]) -> None:
    function, greeting = make(*arguments)
    pipe.send(greeting)
    while (request := pipe.recv()) is not None:
        start = time.perf_counter()
        answer = function(*request)
        pipe.send((answer, time.perf_counter() - start))
    pipe.send(getattr(function, "peak", peak_memory)())


def peak_memory() -> float:
    """The most memory that this process has held so far, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# ---- what the command lines share


def script() -> str:
    return Path(sys.argv[0]).name


def refuse(message: str) -> NoReturn:
    """End with one line and exit code 2: a mistake on the command line."""
    print(f"{script()}: {message}", file=sys.stderr)
    raise SystemExit(2)


def choices(option: str, text: str, known: Sequence[str]) -> list[str]:
    """The names in a comma-separated list, all of them known."""
    names = [name for name in text.split(",") if name]
    unknown = sorted(set(names) - set(known))
    if unknown or not names:
        refuse(f"{option}: {', '.join(unknown) or 'nothing'} given; expected some of {','.join(known)}")
    return names


def write_json(path: Path | None, results: Any) -> None:
    """Write the figures to a file, if one was asked for."""
    if path is not None:
        path.write_text(json.dumps(results, indent=1) + "\n")
