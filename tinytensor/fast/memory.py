"""Keeping freed memory, because fetching it anew costs more than the arithmetic in it.

Every large array that is freed goes back to the operating system, and the next one of its size is fetched from there
page by page, zeroed: up to 40 % of a training step. A training step needs the same sizes again and again, so it pays
to let the C library keep them, at the price of holding the largest amount that was in use.
"""

from __future__ import annotations

import sys

M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8  # of glibc's mallopt


def keep() -> bool:
    """Let this process keep the memory of freed arrays; returns whether the C library does so: glibc alone."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes  # not with the package: it costs a tenth of its import time

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    # What another thread frees goes back whatever the threshold is, unless it takes from the first thread's arena.
    options = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: 2**31 - 1, M_ARENA_MAX: 1}
    return all(mallopt(option, value) for option, value in options.items())
