"""The threads that `parallel.in_parts` splits work over: they start when first needed, then wait for parts."""

from __future__ import annotations

import contextvars
import os
import signal
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

Part = Callable[[slice], None]

_tasks: SimpleQueue[tuple[contextvars.Context, Part, slice, SimpleQueue[BaseException | None]]] = SimpleQueue()
_workers: list[threading.Thread] = []
_starting = threading.Lock()


def run(function: Part, slices: list[slice], others: int) -> None:
    """Call `function` with every slice: the first on this thread, the rest on the `others`, as many threads at most.

    Returns when all are done. The first error of a part is raised then.
    """
    if len(_workers) < others:
        _start(others)
    failures = _run(function, slices)
    if failures:
        raise failures[0]


def _run(function: Part, slices: list[slice]) -> list[BaseException]:
    """The same, for threads that are there; returns the errors of the other threads."""
    done: SimpleQueue[BaseException | None] = SimpleQueue()
    with InterruptsLater():
        for part in slices[1:]:
            _tasks.put((contextvars.copy_context(), function, part, done))
        try:
            function(slices[0])
        finally:  # whatever happens here, nobody writes into the caller's arrays after this returns
            failures = [failure for _ in slices[1:] if (failure := _next(done)) is not None]
    return failures


class InterruptsLater:
    """Ctrl-C is noted meanwhile and heard behind it: in between it would lose a part, or leave a module half loaded."""

    _within = False  # the main thread, already

    def __enter__(self) -> None:
        self.noted: list[Any] = []
        self.former: Any = None
        if InterruptsLater._within:
            return
        former = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
        self.former = former if callable(former) else None  # only the main thread hears signals
        if self.former:
            signal.signal(signal.SIGINT, lambda *given: self.noted.append(given))
            InterruptsLater._within = True

    def __exit__(self, *error: object) -> None:
        if self.former:
            InterruptsLater._within = False
            signal.signal(signal.SIGINT, self.former)
            if self.noted:
                self.former(*self.noted[0])


def _next(done: SimpleQueue[BaseException | None]) -> BaseException | None:
    """Wait for a part to be done, and take on what waits for a thread meanwhile.

    Parts may have parts of their own, so if every thread only waited, nobody might be left to do the innermost.
    """
    while done.empty():
        try:
            _do(*_tasks.get_nowait())
        except Empty:
            break  # what is waited for is being done by a thread that finds its own parts the same way
    return done.get()


def _start(count: int) -> None:
    with _starting:
        while len(_workers) < count:
            worker = threading.Thread(target=_work, name="tinytensor", daemon=True)
            try:
                worker.start()
            except RuntimeError:  # no more of them are allowed: who waits for parts takes on what nobody does
                return
            _workers.append(worker)


def _work() -> None:
    while True:
        _do(*_tasks.get())


def _do(context: contextvars.Context, function: Part, part: slice, done: SimpleQueue[BaseException | None]) -> None:
    failure: BaseException | None = None
    try:
        context.run(function, part)
    except BaseException as error:
        failure = error
    del function, context
    done.put(failure)


def _after_fork() -> None:
    """A forked process has none of its parent's threads, and nothing is split in it yet."""
    global _tasks, _starting
    _workers.clear()
    _tasks, _starting = SimpleQueue(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
