"""The switches of `tt.speed_up`, each with its outcome. Loading this file makes it known to `tt`."""

from __future__ import annotations

import os
import sys

from ..machine import cores, speed
from ..machine.speed import Outcome
from . import memory, pool, texts, threads
from .threads import concurrently as concurrently
from .threads import get_num_threads as get_num_threads
from .threads import set_num_threads as set_num_threads


def all_on() -> tuple[Outcome, ...]:
    """Switch on what can be."""
    pool, threads, memory, loops = pooled(), take_cores(), keep_memory(), compile_loops()
    return pool, threads, memory, loops, *_edited()


def _edited() -> tuple[Outcome, ...]:
    """Text that was edited, whose fast versions step aside; nothing where none was."""
    if not (names := texts.edited()):
        return ()
    advice = f"change the fast versions as well, then run: {texts.RENEW}"
    return (Outcome("text", False, f"formulas compute what was edited: {', '.join(names)}", advice),)


def pooled() -> Outcome:
    """The pool, which is on by default: large results are written into memory of the library."""
    if _is_off("TINYTENSOR_POOL"):
        return _off("pool", "TINYTENSOR_POOL", "fetching memory anew costs much of a training step")
    if not pool.MOST:
        return Outcome("pool", False, "the system does not tell how much memory there is")
    return Outcome(
        "pool", True, f"on by default: large results reuse memory of the library, at most {pool.MOST >> 20:,} MiB"
    )


def take_cores() -> Outcome:
    """Let BLAS compute on one thread, and tinytensor's own threads take the cores."""
    outcome = threads.take_cores()
    if outcome.in_force and get_num_threads() < cores.count():
        advice = f"TINYTENSOR_NUM_THREADS={cores.count()} in the environment would use all {cores.count()} cores"
        return outcome._replace(advice=advice)
    return outcome


def keep_memory() -> Outcome:
    """Keep the memory of freed arrays."""
    if _is_off("TINYTENSOR_KEEP_MEMORY"):
        return _off("memory", "TINYTENSOR_KEEP_MEMORY", "fetching memory anew costs much of a training step")
    if not memory.keep():
        return Outcome("memory", False, "only the C library glibc can be told to keep freed memory")
    return Outcome("memory", True, "freed memory is kept for the next arrays")


def compile_loops() -> Outcome:
    """Put compiled loops in the place of NumPy's passes over memory."""
    if _is_off("TINYTENSOR_COMPILE_LOOPS"):
        return _off("loops", "TINYTENSOR_COMPILE_LOOPS", "compiled loops save passes over memory")
    from importlib.util import find_spec  # only now: to load it takes longer than to load most files here

    if find_spec("numba") is None:
        return Outcome("loops", False, "Numba is not installed", threads.INSTALL)
    from . import numpy as room

    room.loops = room.load("loops")
    large = f"on by default for arrays of {room.LARGE:,} elements and more"
    text = f"Numba compiles stacks, linear maps, norms, losses and more; {large}"
    return Outcome("loops", True, text)


def round_products(precision: str) -> str:
    """Let the GPU and compiled loops round inputs of products in float32, or not; returns why loops cannot, or ""."""
    if gpu := sys.modules.get(f"{__package__}.cublas"):  # else it asks when it is loaded
        gpu.multiply_in_tf32(precision != "highest")
    is_rounded = precision == "medium" and medium_kind() == "bfloat16"
    if is_rounded:
        from . import half_products, products

        products.rounded = half_products.rounded_product
    elif loaded := sys.modules.get(f"{__package__}.products"):
        loaded.rounded = None  # type: ignore[attr-defined]
    return medium_report() if precision == "medium" and not is_rounded else ""


_kind: str | None = None  # that a checkpoint or other ranks chose


def medium_kind() -> str:
    """The dtype of products on the CPU after `tt.set_float32_matmul_precision("medium")`."""
    if _lacking():
        return "float32"
    from . import medium

    return _kind or medium.kind()


def medium_report() -> str:
    """Describe that choice and its reason."""
    if lacking := _lacking():
        return f"float32, since {lacking}"
    from . import medium

    if _kind is not None:
        return f"{_kind}, as the run began"
    if medium.VARIABLE in os.environ:
        return f"{medium.kind()}, by {medium.VARIABLE}"
    gain = "" if medium.kind() == "bfloat16" else " (no AVX512_BF16 speed-up)"
    return f"{medium.kind()}, since bfloat16 takes {medium.ratio():.2f} of float32's time on this processor{gain}"


def set_medium_kind(kind: str) -> str:
    """Choose that dtype; returns why it cannot be, or ""."""
    global _kind
    _kind = kind
    return _lacking() if kind == "bfloat16" else ""


def _lacking() -> str:
    """Why loops cannot compute in bfloat16, or ""."""
    from . import numpy as room

    if room.loops is None and room.loops_unasked() is None:
        return f"there are no compiled loops; {threads.INSTALL}"
    from . import half_products

    return "" if half_products.CAN else "this processor has no AVX512_BF16"


def _is_off(variable: str) -> bool:
    return os.environ.get(variable) == "0"


def _off(subject: str, variable: str, reason: str) -> Outcome:
    return Outcome(
        subject, False, f"switched off by {variable}=0 in the environment", f"leave {variable}=0 away: {reason}"
    )


speed.switches = sys.modules[__name__]
