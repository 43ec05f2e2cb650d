"""Speed: one call, `speed_up`, switches on all that is not on by default, and reports the result.

    print(tt.speed_up())

Below it are the single switches. They switch on code in `fast/`, which is not part of the textbook: without it every
formula computes the same, up to rounding, and each function here says that there is nothing to switch.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

PRECISIONS = ("highest", "high", "medium")
_precision = "highest"
switches: Any = None  # the module fast/switches.py, which puts itself here when it is loaded


class Outcome(NamedTuple):
    """The outcome of one switch.

    Attributes:
        subject: its subject: "pool", "threads", "memory" or "loops"; "text" if some text was edited.
        in_force: True if it is switched on.
        text: what it does, or why it is not in force.
        advice: what would put it in force; "" if nothing would, or if nothing has to.
    """

    subject: str
    in_force: bool
    text: str
    advice: str = ""

    def __str__(self) -> str:
        text = self.text if self.in_force else f"no: {self.text}"
        return f"{self.subject + ':':<11}{text}" + (f"; {self.advice}" if self.advice else "")


class Report(NamedTuple):
    """The report of `speed_up`, what it did and why not the rest: `str` gives a line for each switch.

    Attributes:
        outcomes: those of all switches; none if `missing` says why.
        missing: why there is nothing to switch on; "" if there is something.
    """

    outcomes: tuple[Outcome, ...]
    missing: str = ""

    def __str__(self) -> str:
        return self.missing or "\n".join(map(str, self.outcomes))


def speed_up() -> Report:
    """Let this process compute as fast as it can, with what is installed and what other programs leave to it.

    In this order:

    - NumPy's BLAS multiplies on one thread from now on, not only within large products of this library. That affects
      everything that calls BLAS in this process. It needs threadpoolctl, or `OPENBLAS_NUM_THREADS=1` in the
      environment; another number there is left alone.
    - `keep_memory`: freed memory is kept for the next arrays.
    - `compile_loops`: stacks of layers, linear maps, norms, losses and more in compiled loops. It needs Numba.

    Three things are on by default, since they change no setting of the process for good: large results reuse memory of
    the library (`TINYTENSOR_POOL=0` in the environment switches that off), threads share large work
    (`TINYTENSOR_NUM_THREADS=1`), and if Numba is installed, compiled loops compute arrays of 16,384 elements and more
    (`TINYTENSOR_COMPILE_LOOPS=0`).

    Results differ by rounding, and with the same seed dropout drops other elements in stacks that compiled loops
    compute. Call it once, as early as you like; a second call changes nothing. The library never calls it by itself.
    `TINYTENSOR_KEEP_MEMORY=0`, `TINYTENSOR_COMPILE_LOOPS=0` and `TINYTENSOR_NUM_THREADS=1` in the environment leave out
    one each.

    Returns a report, to print or to throw away. It says so if `fast/` is missing, or left out by
    `TINYTENSOR_TEXTBOOK=1` in the environment.
    """
    return Report((), _missing()) if switches is None else Report(switches.all_on())


def keep_memory() -> bool:
    """Let this process keep the memory of freed arrays for the next ones, instead of fetching it page by page again.

    It then holds the largest amount that was ever in use. `TINYTENSOR_KEEP_MEMORY=0` in the environment switches it
    off. Returns True if it is in force; False also if the C library is not glibc, or `fast/` is missing.
    """
    return switches is not None and switches.keep_memory().in_force


def compile_loops() -> bool:
    """Let this process compute stacks of layers, linear maps, norms, losses and more in loops that Numba compiles.

    Each takes one pass over memory where NumPy takes several. Results differ by rounding. If Numba is installed,
    arrays of 16,384 elements and more use them without this call; with it, all arrays do. The first use of a loop on a
    machine takes a third of a second to compile, that of a stack several; later processes find it on disk.
    `TINYTENSOR_COMPILE_LOOPS=0` in the environment switches it off. Returns True if it is in force; False also without
    Numba (`pip install -e '.[fast]'`) or `fast/`.
    """
    return switches is not None and switches.compile_loops().in_force


def get_num_threads() -> int:
    """The number of tinytensor's threads that share the work on large arrays; 1 without `fast/`.

    By default it is the number of cores; 1 if the library cannot set the threads of BLAS, since threadpoolctl is
    not installed or `OPENBLAS_NUM_THREADS` has a number. `TINYTENSOR_NUM_THREADS` in the environment overrides it.
    """
    return 1 if switches is None else switches.get_num_threads()


def set_num_threads(count: int, /) -> None:
    """Split the work on large arrays over `count` threads; 1 turns it off. Without `fast/` nothing is ever split.

    Raises ValueError for anything but an integer of at least 1.
    """
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"set_num_threads: expected an integer of at least 1, got {count!r}")
    if switches is not None:
        switches.set_num_threads(count)


def get_float32_matmul_precision() -> str:
    """`"highest"`, `"high"` or `"medium"`: see `set_float32_matmul_precision`."""
    return _precision


def set_float32_matmul_precision(precision: str) -> None:
    """How exactly products of matrices in float32 are computed; arrays and sums stay float32.

    Args:
        precision: `"highest"`, the default: in float32. `"high"`: a GPU, from Ampere on, may round the inputs of a
            product of two matrices to TF32, whose fraction has 10 bits; batches of matrices stay exact. `"medium"`: a
            GPU as for `"high"`; compiled loops on the CPU may round them to bfloat16, whose fraction has 7 bits.
            Magnitudes above 3.39e38 become infinite, and magnitudes below 1.18e-38 count as 0. That takes Numba and a
            processor that multiplies bfloat16 faster than float32: both are timed once for a machine (5 ms), unless
            `TINYTENSOR_MEDIUM` in the environment is `bfloat16` or `float32`. Otherwise the CPU computes as before,
            with a warning. Checkpoints of `models.training` keep the choice, and ranks agree on it.

    Raises ValueError for anything else. The name and the values are PyTorch's.
    """
    global _precision
    if precision not in PRECISIONS:
        raise ValueError(f"set_float32_matmul_precision: expected one of {', '.join(PRECISIONS)}, got {precision!r}")
    _precision = precision
    lacking = _missing() if switches is None else switches.round_products(precision)
    if lacking and precision == "medium":
        message = f"set_float32_matmul_precision: products on the CPU stay as exact as they were: {lacking}"
        warnings.warn(message, stacklevel=2)


def medium_kind() -> str:
    """Return the dtype of the CPU's products after `set_float32_matmul_precision("medium")`: bfloat16 or float32."""
    return "float32" if switches is None else switches.medium_kind()


def medium_report() -> str:
    """Describe that choice and its reason."""
    return "" if switches is None else switches.medium_report()


def set_medium_kind(kind: str) -> None:
    """Choose that dtype, for the bits of a run that began with it; warn if this machine has no bfloat16."""
    lacking = (_missing() if kind == "bfloat16" else "") if switches is None else switches.set_medium_kind(kind)
    if lacking:
        message = f"the run began with products in bfloat16, and continues in float32 with other bits: {lacking}"
        warnings.warn(message, stacklevel=2)
    if switches is not None and _precision == "medium":
        switches.round_products(_precision)


def concurrently(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of some functions, called at the same time on all threads there are; in turn without `fast/`.

    The first error is raised.
    """
    return [task() for task in tasks] if switches is None else switches.concurrently(tasks)


def _missing() -> str:
    """Why there is nothing to switch on."""
    if os.environ.get("TINYTENSOR_TEXTBOOK") == "1":
        return "TINYTENSOR_TEXTBOOK=1 in the environment leaves tinytensor/fast out: all is computed by the formulas."
    util = importlib.import_module("importlib.util")  # only now: it takes longer to load than most files here
    if util.find_spec("tinytensor.fast") is None:
        return "The folder tinytensor/fast is missing: all is computed by the formulas."
    return "tinytensor/fast was not loaded: all is computed by the formulas."
