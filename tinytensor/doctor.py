"""What this machine computes with, and what would make it faster: `python -m tinytensor`.

Nothing is changed here: the advice is about the environment of the next process, since BLAS chooses its kernels and its
threads when NumPy is loaded.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
from dataclasses import dataclass

import numpy as np
import scipy

from before_numpy import cpuinfo

from . import __version__
from .backend import DeviceError, for_device
from .fast.threads import get_num_threads

NARROW = ("Haswell", "Zen", "Sandybridge", "Nehalem", "Prescott")  # OpenBLAS's kernels that leave AVX-512 unused

BY_ITSELF = "`from before_numpy import prepare; prepare()` before all other imports does so, as in examples/"


@dataclass(frozen=True)
class Machine:
    """What was found.

    Attributes:
        processor: its name.
        cores: how many this process may use.
        flags: the processor's instruction sets, of those that matter here.
        blas: the library of matrix products that NumPy calls, with its version.
        kernels: which of its kernels it runs; "" if unknown.
        blas_threads: on how many threads; 0 if unknown.
        threads: on how many threads tinytensor's own work is split.
        numba: its name and version; "" where it is not installed.
        gpu: the GPU, or why there is none.
    """

    processor: str
    cores: int
    flags: tuple[str, ...]
    blas: str
    kernels: str
    blas_threads: int
    threads: int
    numba: str
    gpu: str


def examine() -> Machine:
    """Look at this process and the machine it runs on."""
    blas, kernels, blas_threads = _blas()
    text = cpuinfo()
    found = re.search(r"^model name\s*:\s*(.*)$", text, flags=re.M)
    flags = re.search(r"^flags\s*:\s*(.*)$", text, flags=re.M)
    present = set(flags[1].split()) if flags else set()
    return Machine(
        processor=found[1] if found else platform.processor() or platform.machine(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        flags=tuple(flag for flag in ("avx2", "avx512f") if flag in present),
        blas=blas,
        kernels=kernels,
        blas_threads=blas_threads,
        threads=get_num_threads(),
        numba=f"Numba {importlib.metadata.version('numba')}" if importlib.util.find_spec("numba") else "",
        gpu=_gpu(),
    )


def describe(machine: Machine) -> str:
    """The findings as lines of text."""
    kernels = f" with {machine.kernels} kernels" if machine.kernels else ""
    threads = f", {machine.blas_threads} threads" if machine.blas_threads else ""
    rows = {
        "versions": f"tinytensor {__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"Python {platform.python_version()}, {platform.system()}",
        "processor": f"{machine.processor}, {machine.cores} cores, {' and '.join(machine.flags) or 'flags unknown'}",
        "BLAS": f"{machine.blas}{kernels}{threads}",
        "threads": f"{machine.threads} for tinytensor's own work{_lent(machine)}",
        "memory": "freed memory is kept only where a script calls tt.keep_memory()"
        + _switched_off("TINYTENSOR_KEEP_MEMORY"),
        "loops": f"{machine.numba or 'Numba, which is not installed,'} compiles some where a script calls "
        f"tt.compile_loops(){_switched_off('TINYTENSOR_COMPILE_LOOPS')}",
        "GPU": machine.gpu,
    }
    lines = [f"{name + ':':<11}{text}" for name, text in rows.items()]
    found = advice(machine)
    return "\n".join([*lines, "", *(found or ["Nothing here would make it faster."])])


def _lent(machine: Machine) -> str:
    """What `tt.use_blas_threads` does here, if anything."""
    if machine.blas_threads != 1 or not machine.blas.startswith("OpenBLAS"):
        return ""
    switched_off = _switched_off("TINYTENSOR_BLAS_THREADS")
    return f"; BLAS has as many for small products where a script calls tt.use_blas_threads(){switched_off}"


def _switched_off(variable: str) -> str:
    return f", switched off by {variable}=0" if os.environ.get(variable) == "0" else ""


def advice(machine: Machine) -> list[str]:
    """What would make this machine faster, a line each."""
    lines = []
    if "avx512f" in machine.flags and machine.kernels in NARROW and machine.blas.startswith("OpenBLAS"):
        lines.append(
            f"OPENBLAS_CORETYPE=SkylakeX in the environment: OpenBLAS runs its {machine.kernels} kernels, which leave "
            f"this processor's AVX-512 unused; {BY_ITSELF}."
        )
    if machine.blas_threads > 1 and machine.threads == 1 and machine.cores > 1:
        lines.append(
            "OPENBLAS_NUM_THREADS=1 in the environment: tinytensor then splits all its work over the cores, not only "
            f"the matrix products; {BY_ITSELF}."
        )
    if machine.blas_threads == 1 and machine.threads < machine.cores:
        lines.append(
            f"TINYTENSOR_NUM_THREADS={machine.cores} in the environment: of {machine.cores} cores, {machine.threads} "
            "are in use."
        )
    if os.environ.get("TINYTENSOR_KEEP_MEMORY") == "0":
        lines.append("Leave TINYTENSOR_KEEP_MEMORY=0 away: fetching memory anew costs much of a training step.")
    if os.environ.get("TINYTENSOR_BLAS_THREADS") == "0" and machine.threads > 1:
        lines.append(
            "Leave TINYTENSOR_BLAS_THREADS=0 away, unless other programs compute: small batches gain from them."
        )
    if os.environ.get("TINYTENSOR_COMPILE_LOOPS") == "0":
        lines.append("Leave TINYTENSOR_COMPILE_LOOPS=0 away: compiled loops save passes over memory.")
    if not machine.numba:
        lines.append("pip install -e '.[fast]': layer norm, the losses, dropout and Adam then run in compiled loops.")
    if not machine.kernels:
        lines.append(
            "pip install threadpoolctl: this page can then tell BLAS's kernels, and a script can give BLAS threads."
        )
    return lines


def _blas() -> tuple[str, str, int]:
    """The name and version of NumPy's BLAS, its kernels, and its threads."""
    config = np.show_config(mode="dicts")
    assert isinstance(config, dict)
    entry = config.get("Build Dependencies", {}).get("blas", {})
    name = str(entry.get("name", "unknown"))
    name = "OpenBLAS" if "openblas" in name.lower() else name
    label = f"{name} {entry.get('version', '')}".strip()
    if importlib.util.find_spec("threadpoolctl") is None:
        return label, "", 0
    from threadpoolctl import threadpool_info

    for info in threadpool_info():
        if info.get("user_api") == "blas" and "numpy" in info.get("filepath", ""):
            return label, str(info.get("architecture", "")), int(info["num_threads"])
    return label, "", 0


def _gpu() -> str:
    try:
        for_device("gpu")
    except DeviceError as error:
        return str(error)
    import cupy

    device = cupy.cuda.runtime.getDeviceProperties(0)
    return f"{device['name'].decode()}, CuPy {cupy.__version__}"
