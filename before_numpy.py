"""What must be settled before NumPy is loaded: on how many threads its BLAS multiplies, and with which kernels.

    from before_numpy import prepare

    prepare()  # then: import numpy, tinytensor, ...

The scripts in `examples/` begin so. Nothing is set that the environment sets already, nothing at all where NumPy is
loaded, since BLAS reads its settings then, and nothing with `TINYTENSOR_PREPARE=0` in the environment.
`python -m tinytensor` tells what a process computes with.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

AVX512 = {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}  # what OpenBLAS's SkylakeX kernels are made of


def prepare() -> dict[str, str]:
    """Set the environment of this process for the fastest matrix products; returns what was set.

    `OPENBLAS_NUM_THREADS=1`: tinytensor then splits all its work over the cores, not only the products.

    `OPENBLAS_CORETYPE=SkylakeX`, on AMD processors that have AVX-512: OpenBLAS runs its Haswell kernels there, which
    leave half of the arithmetic units unused. Never on a processor without these instructions, where it would crash.
    """
    if os.environ.get("TINYTENSOR_PREPARE") == "0" or "numpy" in sys.modules:
        return {}
    wanted = {"OPENBLAS_NUM_THREADS": "1"}
    if overlooks_avx512(cpuinfo()):
        wanted["OPENBLAS_CORETYPE"] = "SkylakeX"
    fresh = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(fresh)
    return fresh


def overlooks_avx512(text: str) -> bool:
    """Whether OpenBLAS leaves the AVX-512 of a processor unused, given the text of /proc/cpuinfo."""
    flags = re.search(r"^flags\s*:\s*(.*)$", text, flags=re.M)
    vendor = re.search(r"^vendor_id\s*:\s*(.*)$", text, flags=re.M)
    return bool(flags and vendor and vendor[1].strip() == "AuthenticAMD" and set(flags[1].split()) >= AVX512)


def cpuinfo() -> str:
    """What Linux says of the processor; nothing elsewhere."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
