"""Using every core: NumPy's loops and products release the interpreter's lock.

`in_parts` calls a function with one slice of rows after another, on several threads where there is enough to do. The
function works on raw arrays and writes its results into arrays made before. Which rows are computed together changes
results by rounding; so that follows from the sizes alone, and the bits do not depend on the number of threads.

Matrix products are split here, too, and BLAS computes on one thread meanwhile: its own threads spin after a product, on
the cores that element-wise work could use. `take_cores` lets it do so for good. Without threadpoolctl, or where
`OPENBLAS_NUM_THREADS` has a number, all work stays on one thread unless `set_num_threads` says otherwise.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..machine import cores
from ..machine.extras import how_to_install
from ..machine.speed import Outcome

if TYPE_CHECKING:
    from .workers import Part

GRAIN = 1 << 19  # element-wise operations that are worth waking another thread for

SHARES = 16  # slices of rows at most, on as many threads at most

IN_CACHE = 1 << 18  # elements of an array that a core's own cache holds, with a few more of that size

INSTALL = how_to_install("fast")

_blas_is_single = os.environ.get("OPENBLAS_NUM_THREADS", os.environ.get("OMP_NUM_THREADS")) == "1"


def _from_environment() -> int | None:
    """The number in `TINYTENSOR_NUM_THREADS`, else in `OMP_NUM_THREADS`, which may be a list, meant for others."""
    for name in ("TINYTENSOR_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").strip()
        if text.isdecimal() and len(text) < 10 and int(text) > 0:
            return int(text)
        if text and name == "TINYTENSOR_NUM_THREADS":
            warnings.warn(f"{name}={text}: ignored; expected a whole number of threads, 1 or more", stacklevel=2)
    return None


_chosen = _from_environment()  # by the user, here or with `set_num_threads`
_threads = _chosen or (cores.count() if _blas_is_single else 0)  # 0: not known before the first large work


def get_num_threads() -> int:
    """On how many threads the work on large arrays is split."""
    global _threads
    if not _threads:
        _threads = cores.count() if alone.libraries else 1
    return _threads


def set_num_threads(count: int) -> None:
    """Split the work on large arrays over so many threads."""
    global _chosen, _threads
    _chosen = _threads = count


class Alone:
    """Within it, BLAS computes on one thread, so that ours share the work.

    Threads of BLAS spin for a while after a product, on the cores that the next loop could use. Their number is one
    for the whole process; afterwards it is what it was, so that NumPy elsewhere keeps its threads.
    """

    def __init__(self) -> None:
        self._lock, self._depth = threading.Lock(), 0
        self._former: list[tuple[Any, int]] = []

    @functools.cached_property
    def libraries(self) -> list[Any]:
        """The libraries whose threads can be counted; none if somebody has chosen them in the environment."""
        return [] if os.environ.get("OPENBLAS_NUM_THREADS") else _libraries(user_api="blas") or []

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._former = [(library, library.get_num_threads()) for library in self.libraries]
                for library, _ in self._former:
                    _let_have(library, 1)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self.leave()

    def leave(self) -> None:
        """Give BLAS its threads back."""
        for library, count in self._former:
            _let_have(library, count)
        self._former = []

    def after_fork(self) -> None:
        """In a new process, no thread of the former one is within."""
        self._lock, self._depth = threading.Lock(), 0
        self.leave()


def _let_have(library: Any, count: int) -> None:
    """Set a library's number of threads. From 3.7 on, threadpoolctl itself serves the first thread that asks alone."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(count)


alone = Alone()
is_alone: contextvars.ContextVar[bool] = contextvars.ContextVar("is_alone", default=False)
"""Within `alone_for_long`."""


@contextlib.contextmanager
def alone_for_long() -> Iterator[None]:
    """Let our threads share all work within it, of products and of loops; BLAS computes on one thread."""
    from .workers import InterruptsLater

    if _blas_is_single or is_alone.get() or not alone.libraries:
        yield
        return
    with InterruptsLater(), alone:
        token = is_alone.set(True)
        try:
            yield
        finally:
            is_alone.reset(token)


def wakes_soon() -> bool:
    """True if no thread of BLAS spins on our cores, so that smaller work is worth waking them for."""
    return _blas_is_single or is_alone.get()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=alone.after_fork)


def take_cores() -> Outcome:
    """Let BLAS compute on one thread from now on, and split all work over the cores here.

    A number of threads that was chosen before stays, and so does one for OpenBLAS in the environment.
    """
    global _blas_is_single, _threads
    asked = os.environ.get("OPENBLAS_NUM_THREADS")
    if not _blas_is_single:
        if asked:
            return Outcome(
                "threads",
                False,
                f"BLAS keeps its threads, as OPENBLAS_NUM_THREADS={asked} in the environment says",
                f"leave OPENBLAS_NUM_THREADS={asked} away: not only products are then split over the cores",
            )
        libraries = _libraries(user_api="blas")
        if libraries is None:
            return Outcome("threads", False, "BLAS keeps its threads, since threadpoolctl is not installed", INSTALL)
        if not libraries:
            return Outcome("threads", False, "NumPy's BLAS keeps its threads: threadpoolctl does not recognise it")
        for library in libraries:
            _let_have(library, 1)
        _blas_is_single = True
        _threads = _chosen or cores.count()
    return Outcome("threads", True, f"on by default: {_threads} of tinytensor share large work; from now on, 1 of BLAS")


def _libraries(**selection: str) -> list[Any] | None:
    """The controllers of threads in the libraries of this process; None without threadpoolctl."""
    from importlib.util import find_spec  # only now: to load it takes longer than to load most files here

    if find_spec("threadpoolctl") is None:
        return None
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(**selection).lib_controllers


def in_parts(
    function: Part, rows: int, work: int, *, product: bool = False, width: int | None = None, most: int = SHARES
) -> None:
    """Call `function` with slices that together are `range(rows)`, the same ones on any number of threads.

    Args:
        function: computes the rows of a slice.
        rows: how many there are.
        work: how many element-wise operations it all is.
        product: whether it is matrix products, for which BLAS then has one thread.
        width: elements of a row. The function then gets few rows at a time, so that what one of its lines wrote is
            still in the cache when the next line reads it.
        most: how many slices at most.
    """
    if width is not None:
        function = _in_blocks(function, max(1, IN_CACHE // max(1, width)))
    goes_alone = product and not _blas_is_single and not is_alone.get()
    worth = 1 if goes_alone and not alone.libraries else min(most, SHARES, work // GRAIN, rows)
    if worth < 2:
        function(slice(0, rows))
        return
    shares = 1 << worth.bit_length() - 1  # a power of two, so that two threads and four have as much to do each

    def compute_shares(some: slice) -> None:
        for i in range(some.start, some.stop):
            function(slice(rows * i // shares, rows * (i + 1) // shares))

    if not goes_alone:
        in_shares(compute_shares, shares, work // GRAIN)
        return
    from .workers import InterruptsLater

    with InterruptsLater(), alone:
        in_shares(compute_shares, shares, work // GRAIN)


def in_shares(function: Part, shares: int, most: int = SHARES) -> None:
    """Call `function` with slices that together are `range(shares)`, on `most` threads at most."""
    count = min(_available(), most, shares)
    if count < 2:
        function(slice(0, shares))
    else:
        _divide(function, shares, count)


def multiply_in_parts(function: Part, shares: int, most: int | None = None) -> None:
    """`in_parts` for shares in which compiled loops multiply by themselves; `most` is how many are worth a thread.

    They go on every core, whatever BLAS does.
    """
    _divide(function, shares, min(_share.get() or _chosen or _cores(), most or shares, shares))


_cores = functools.cache(cores.count)


def _divide(function: Part, rows: int, count: int) -> None:
    """Call the function with so many slices, on as many threads."""
    from .workers import run  # here, so that `import tinytensor` need not wait for what only threads need

    step = -(-rows // count)
    run(function, [slice(start, min(start + step, rows)) for start in range(0, rows, step)], count - 1)


def concurrently(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call some functions at the same time, on all threads; returns their results, or raises the first error.

    Each has its share of the threads for the work inside it.
    """
    found: list[Any] = [None] * len(tasks)
    threads = _available() if _blas_is_single or _chosen or _share.get() else 1  # after a plain import one by one

    def run_tasks(some: slice) -> None:
        tokens = _share.set(max(1, threads // len(tasks)) if threads > 1 else None), _beside.set(len(tasks) - 1)
        try:
            for i in range(some.start, some.stop):
                found[i] = tasks[i]()
        finally:
            _share.reset(tokens[0])
            _beside.reset(tokens[1])

    if threads < 2 or len(tasks) < 2:
        run_tasks(slice(0, len(tasks)))
    else:
        _divide(run_tasks, len(tasks), min(threads, len(tasks)))
    return found


_share: contextvars.ContextVar[int | None] = contextvars.ContextVar("_share", default=None)
_beside: contextvars.ContextVar[int] = contextvars.ContextVar("_beside", default=0)


def is_beside_others() -> bool:
    """True within one of several tasks of `concurrently`, on any number of threads."""
    return _beside.get() > 0


def _available() -> int:
    """On how many threads work that begins here may be split."""
    return _share.get() or get_num_threads()


def _in_blocks(function: Part, block: int) -> Part:
    """The function, called for at most `block` rows at a time."""

    def blocks(i: slice) -> None:
        for start in range(i.start, max(i.stop, i.start + 1), block):  # once for no rows, too
            function(slice(start, min(start + block, i.stop)))

    return blocks
