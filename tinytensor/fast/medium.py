"""The choice that `tt.set_float32_matmul_precision("medium")` leaves open: products in bfloat16, or in float32.

A processor may have the instructions and gain nothing by them. So both are timed once for a machine, and the result is
kept on disk, next to the compiled loops: a second run has the same bits as the first.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import time
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numpy as np

from . import half_products, products
from .compiling import Kept
from .pool import empty

KINDS = ("bfloat16", "float32")
VARIABLE = "TINYTENSOR_MEDIUM"
"""The environment variable that chooses one of them, without timing."""

MOST = 0.95  # of float32's time: from here on bfloat16 is not worth its rounding
SIZE, ROUNDS = 256, 9  # rows and columns of the matrices, and interleaved products of each kind: 5 ms


def kind() -> str:
    """Return "bfloat16" if products in it are faster on this machine, otherwise "float32".

    Raises ValueError if the environment variable is neither.
    """
    if (given := os.environ.get(VARIABLE)) is not None:
        if given not in KINDS:
            raise ValueError(f"{VARIABLE}: expected {' or '.join(KINDS)}, got {given!r}")
        return given if half_products.CAN else "float32"
    return "bfloat16" if ratio() <= MOST else "float32"


@functools.cache
def ratio() -> float:
    """The time of a product in bfloat16, divided by float32's; infinite without the instructions."""
    if not half_products.CAN:
        return math.inf
    path = _path()
    if path is None:
        return measure()
    with contextlib.suppress(OSError, ValueError):
        return float(path.read_text(encoding="ascii"))
    found = measure()
    with contextlib.suppress(OSError), open(path, "x", encoding="ascii") as file:  # the first of several processes
        file.write(f"{found:.2f}")
        return round(found, 2)
    with contextlib.suppress(OSError, ValueError):
        return float(path.read_text(encoding="ascii"))
    return found


def measure() -> float:
    """Time both kinds in turn: the ratio of their fastest products."""
    a, b = np.random.default_rng(0).standard_normal((2, SIZE, SIZE), dtype=np.float32)
    out, former, seconds = empty(a.shape, a.dtype), products.rounded, dict.fromkeys(KINDS, math.inf)
    try:
        for n in range(ROUNDS + 1):
            for name, rounded in zip(KINDS, (half_products.rounded_product, None)):
                products.rounded = rounded
                start = time.perf_counter()
                products.multiply_arrays(a, False, b, False, out)
                if n:  # the first compiles
                    seconds[name] = min(seconds[name], time.perf_counter() - start)
    finally:
        products.rounded = former
    return seconds["bfloat16"] / seconds["float32"]


def _path() -> Any:
    """The file that keeps the ratio for this processor and Numba; None if compiled loops are not kept either."""
    with contextlib.suppress(RuntimeError, OSError):
        host = llvmlite.binding.get_host_cpu_name(), sorted(llvmlite.binding.get_host_cpu_features().items())
        name = hashlib.sha256(repr((host, numba.__version__)).encode()).hexdigest()[:16]
        return Path(Kept(measure).cache_path) / f"medium.{name}.txt"
    return None
