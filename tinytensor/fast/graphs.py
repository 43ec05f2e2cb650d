"""A CUDA graph: the kernels that a function starts, recorded once and launched again at once.

To launch one kernel takes the interpreter longer than most kernels take to run; a graph launches hundreds in one call.
It repeats addresses and numbers as they were recorded, so whatever would come from the CPU in between is refused with
`CannotRecord`. Seeds alone do come from there: each launch draws new ones, from the same generator in the same order,
and so finds the numbers that the function would have found.
"""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import cupy
import numpy as np

MOST_SEEDS = 4096  # of a recording
PACKAGE = str(Path(__file__).parents[1])


class CannotRecord(RuntimeError):
    """A function cannot be repeated without Python; the message says why."""


class Recording:
    """The kernels that a function launches, with the memory that they use; `launch` launches them again.

    Args:
        memory: where the memory comes from. Recordings that never run at the same time may share one.

    Attributes:
        before_launch: called each time, for what Python has to know of a launch.
        drawn: how many seeds were drawn while it is recorded; set to fewer, the same ones are given again from there.
    """

    def __init__(self, memory: Memory) -> None:
        self.before_launch: list[Callable[[], Any]] = []
        self.drawn = 0
        self._memory = memory
        self._why_not: str | None = None
        self._graph: Any = None
        self._seeds = cupy.empty(MOST_SEEDS, dtype=np.uint64)  # for each draw, in their order
        self._count = 0  # of them
        self._first_seeds: list[int] = []  # those of the recording, for the first launch
        self._generator: Any = None

    def record(self, function: Callable[[], Any]) -> Any:
        """Returns what the function returns; its arrays hold numbers once `launch` is called. Raises CannotRecord."""
        stream = self._memory.stream
        cupy.cuda.Device().synchronize()
        with stream, cupy.cuda.using_allocator(self._memory.pool.malloc):
            stream.begin_capture(cupy.cuda.runtime.streamCaptureModeRelaxed)
            now.recording = self
            try:
                result = function()
                if self._why_not is not None:  # and the function went on nevertheless
                    raise CannotRecord(self._why_not)
                self._graph = stream.end_capture()
            except Exception as error:
                raise error if isinstance(error, CannotRecord) else CannotRecord(_told(error)) from error
            finally:
                now.recording = None
                if self._graph is None:  # it failed; what it was is of no interest any more
                    with contextlib.suppress(Exception):
                        stream.end_capture()
        return result

    def launch(self) -> None:
        """Launch all that was recorded, on the current stream."""
        if self._count:
            seeds = self._first_seeds or [seed(self._generator.origin()) for _ in range(self._count)]
            self._first_seeds = []
            self._seeds[: len(seeds)].set(np.array(seeds, dtype=np.uint64))
        for call in self.before_launch:
            call()
        self._graph.launch()

    def refuse(self, what: str) -> NoReturn:
        """See to it that nothing comes of this recording."""
        self._why_not = what
        raise CannotRecord(what)

    def draw(self, generator: Any) -> Any:
        """A place (1,) on the GPU where each launch finds a new seed from a generator.

        It has a method `origin`, which gives the `tt.random.Generator` that it stands for at the time.
        """
        if not hasattr(generator, "origin"):
            self.refuse("it draws from a generator of its own; only the current one can be drawn from again")
        self.drawn += 1
        if self.drawn > self._count:  # else again, for what is recomputed
            if self.drawn > MOST_SEEDS:
                self.refuse(f"it draws random numbers more than {MOST_SEEDS} times")
            self._count, self._generator = self.drawn, generator
            self._first_seeds.append(seed(generator.origin()))
        return self._seeds[self.drawn - 1 : self.drawn]


def seed(generator: Any) -> int:
    """A seed of masks of dropout, drawn from a `tt.random.Generator`."""
    return int(generator._generator.integers(2**63))


class _Now(threading.local):
    """The recording of this thread."""

    recording: Recording | None = None


now = _Now()


class Memory:
    """Memory for recordings, and the stream on which they are made: CuPy keeps what one leaves for the same one.

    Where a graph remembers addresses, a pool must never give memory back to make room, which CuPy's does when memory
    runs out; so that is told as another error than the one that it waits for.
    """

    def __init__(self) -> None:
        self.pool = cupy.cuda.MemoryPool(_allocate)
        self.stream = cupy.cuda.Stream(non_blocking=True)


def _allocate(size: int) -> Any:
    try:
        return cupy.cuda.MemoryPointer(cupy.cuda.Memory(size), 0)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise CannotRecord(f"the GPU has no {size:,} bytes left for it") from error


def refuse(what: str) -> None:
    """Raise CannotRecord if this thread records."""
    if now.recording is not None:
        now.recording.refuse(what)


def _told(error: BaseException) -> str:
    """The first line of an error, and the last line of this library in which it came up."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(PACKAGE)]
    where = f", at {ours[-1].filename}:{ours[-1].lineno}, in {ours[-1].name}" if ours else ""
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}{where}"
