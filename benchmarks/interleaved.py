"""Sides of a comparison, each in a process of its own with its own environment, asked in turn: A B A B ...

Machines are shared and their clocks change, so only ratios of neighbouring times are reliable: a round asks every side
once, and the figure is the median of the rounds' ratios.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import blas
from command_line import script

FORCED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # a machine that sets them uses kernels that no user has


class Ratio(NamedTuple):
    """The median, the least and the largest ratio of several rounds."""

    median: float
    least: float
    largest: float

    def __str__(self) -> str:
        return f"{self.median:5.2f} ({self.least:.2f} to {self.largest:.2f})"


def ratio(times: Sequence[float], others: Sequence[float]) -> Ratio:
    """The ratio of the times of one side to another's, round by round."""
    ratios = sorted(a / b for a, b in zip(times, others))
    return Ratio(statistics.median(ratios), ratios[0], ratios[-1])


def ours(threads: int) -> dict[str, str]:
    """The environment of tinytensor, with this many threads of its own and one of BLAS."""
    return {"TINYTENSOR_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"}


def torch(threads: int) -> dict[str, str]:
    """The environment of PyTorch, with this many threads."""
    return {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}


def numpy(threads: int) -> dict[str, str]:
    """The environment of NumPy alone, with this many threads of BLAS."""
    return {"OPENBLAS_NUM_THREADS": str(threads)}


KEPT = {"MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_MMAP_THRESHOLD_": str(2**40)}
"""Variables that make the allocator keep freed memory, as `tt.keep_memory` does."""


class SideEnded(SystemExit):
    """The process of a side ended before it was asked to."""


class Side:
    """A process that calls `make(*arguments)`, which returns a function to call, and a greeting.

    It starts at once, and the first use waits for it, so that several sides can start side by side. The function may
    have an attribute `peak`, a function for its peak memory if that is not the process's.

    Args:
        environment: variables for the process in addition to those of this one; `FORCED` are never passed on.

    Attributes:
        greeting: the second result of `make`, for example the initial weights.
        blas: the library that the process multiplies matrices with.
        process_id: the id of the process.
        seconds: the time of each call.
    """

    def __init__(
        self, make: Callable[..., tuple[Callable[..., Any], Any]], environment: Mapping[str, str], *arguments: Any
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, make, arguments), daemon=True)
        with _in_environment(environment):  # a spawned process reads it before it loads NumPy
            self._process.start()
        there.close()
        self.process_id = self._process.pid
        self.seconds: list[float] = []

    @property
    def greeting(self) -> Any:
        return self._made()[0]

    @property
    def blas(self) -> str:
        return self._made()[1]

    @functools.cache  # noqa: B019 (a side lives as long as its run)
    def _made(self) -> tuple[Any, str]:
        return self._receive()

    def ask(self, *request: Any) -> Any:
        """The function's result; its time is added to `seconds`. Raises SideEnded."""
        self._made()
        self._pipe.send(request)
        answer, seconds = self._receive()
        self.seconds.append(seconds)
        return answer

    def close(self) -> float:
        """End the process; returns its peak memory in bytes."""
        self._made()
        self._pipe.send(None)
        peak = self._receive()
        self._process.join()
        return peak

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError:
            raise SideEnded(f"{script()}: a side ended early; its own message is above") from None


def multiply_alone(calls: Sequence[tuple[Any, Any, Any]]) -> Callable[[int], list[float]]:
    """The steps of a side that only computes out = a b, by NumPy, for each (a, b, out); it has no losses."""
    import numpy as np

    def steps(number: int) -> list[float]:
        for _ in range(number):
            for a, b, out in calls:
                np.matmul(a, b, out=out)
        return []

    return steps


def compare_steps(
    sides: Mapping[str, Side], rounds: int, *, first: int, apart: float, seconds: float
) -> tuple[str, dict[str, Any]]:
    """Compare two sides that make n training steps and return their losses and the seconds they took: a line, figures.

    Args:
        sides: the two, and others that take their turns and compute no loss.
        first: how many steps have losses that are compared.
        apart: the largest relative difference; beyond it the script ends.
        seconds: of a round.
    """
    losses = [side.ask(first)[0] for side in sides.values()][:2]
    found = max(abs(a - b) / abs(b) for a, b in zip(*losses))
    if found > apart:
        raise SystemExit(f"{script()}: the losses are {found:.2g} apart: {losses[0]}, {losses[1]}")
    steps = max(first, round(seconds * first / next(iter(sides.values())).ask(first)[1]))
    asked = [[side.ask(steps)[1] for side in sides.values()] for _ in range(rounds + 1)]
    mine, theirs, *others = zip(*asked[1:])  # the first round warms up
    milliseconds = [1e3 * statistics.median(times) / steps for times in (mine, theirs, *others)]
    used = {name: side.blas for name, side in sides.items()}
    for side in sides.values():
        side.close()
    takes = ratio(mine, theirs)
    line = " ".join(f"{time:9.2f}" for time in milliseconds)
    return f"{line}   {takes}", {"losses_apart": found, "blas": used, "ms": milliseconds, "ours_takes": takes._asdict()}


def take_turns(
    sides: Mapping[str, Side], rounds: int, *request: Any, untimed: tuple[Any, ...] | None = None, settled: float
) -> None:
    """In each round, ask each side once in turn, after `settled` seconds of untimed requests (default: the same)."""
    for side in sides.values():
        side.seconds.clear()
    for _ in range(rounds):
        for side in sides.values():
            passed = 0.0
            while passed < settled:
                side.ask(*(request if untimed is None else untimed))
                passed += side.seconds.pop()
            side.ask(*request)


def environment_of(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a side: that of this process without `FORCED`, with some settings."""
    return {name: value for name, value in os.environ.items() if name not in FORCED} | dict(settings)


@contextmanager
def _in_environment(settings: Mapping[str, str]) -> Iterator[None]:
    former, side = dict(os.environ), environment_of(settings)
    try:
        os.environ.clear()
        os.environ.update(side)
        yield
    finally:
        os.environ.clear()
        os.environ.update(former)


def _serve(pipe: Any, make: Callable[..., tuple[Callable[..., Any], Any]], arguments: tuple[Any, ...]) -> None:
    function, greeting = make(*arguments)
    pipe.send((greeting, str(blas.in_use())))
    while True:
        try:
            request = pipe.recv()
        except EOFError:  # the run has ended early, and has said why
            return
        if request is None:
            break
        start = time.perf_counter()
        answer = function(*request)
        pipe.send((answer, time.perf_counter() - start))
    pipe.send(getattr(function, "peak", peak_memory)())


def print_blas(used: Mapping[str, str]) -> None:
    """Print a line for each side with the library that it multiplies matrices with."""
    for name, library in used.items():
        print(f"{name} multiplies with {library}", flush=True)


def peak_memory() -> float:
    """The most memory that this process has held so far, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
