"""A report of what this machine computes with and what would make it faster: `python -m tinytensor`."""

from __future__ import annotations

import importlib.util
import platform
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy

from . import __version__
from .backend import DeviceError, for_device
from .machine import cores
from .machine.speed import Report, medium_report

BUSY = 0.25  # cores that other programs use: from this many on they are reported


@dataclass(frozen=True)
class Machine:
    """The findings of `examine`.

    Attributes:
        processor: its name.
        cores: how many this process may use.
        busy: how many of them other programs use; None if unknown.
        flags: the processor's instruction sets that matter here.
        blas: the library of matrix products that NumPy calls, with its version.
        kernels: the kernels that it runs; "" if unknown.
        blas_threads: the number of its threads; 0 if unknown.
        gpu: the GPU, or why there is none.
    """

    processor: str
    cores: int
    busy: float | None
    flags: tuple[str, ...]
    blas: str
    kernels: str
    blas_threads: int
    gpu: str


def examine() -> Machine:
    """Look at this process and the machine it runs on. Nothing is changed."""
    blas, kernels, blas_threads = _blas()
    text = _cpuinfo()
    name = re.search(r"^model name\s*:\s*(.*)$", text, flags=re.M)
    flags = re.search(r"^flags\s*:\s*(.*)$", text, flags=re.M)
    present = set(flags[1].split()) if flags else set()
    return Machine(
        processor=name[1] if name else platform.processor() or platform.machine(),
        cores=cores.count(),
        busy=cores.used_by_others(),
        flags=tuple(flag for flag in ("avx2", "avx512f") if flag in present),
        blas=blas,
        kernels=kernels,
        blas_threads=blas_threads,
        gpu=_gpu(),
    )


def describe(machine: Machine, report: Report) -> str:
    """Lines of text: the findings, what `tt.speed_up` does here, and what would make this machine faster.

    Args:
        report: what `tt.speed_up` returned in this process, after `examine`.
    """
    kernels = f" with {machine.kernels} kernels" if machine.kernels else ""
    plural = "s" * (machine.blas_threads != 1)
    threads = f", {machine.blas_threads} thread{plural}" if machine.blas_threads else ""
    busy = f" (other programs use {machine.busy:.1f} now)" if machine.busy and machine.busy >= BUSY else ""
    flags = " and ".join(machine.flags) or "flags unknown"
    rows = {
        "versions": f"tinytensor {__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"Python {platform.python_version()}, {platform.system()}",
        "processor": f"{machine.processor}, {machine.cores} cores{busy}, {flags}",
        "BLAS": f"{machine.blas}{kernels}{threads}, as NumPy loads it",
        "GPU": machine.gpu,
    }
    lines = [f"{name + ':':<11}{text}" for name, text in rows.items()]
    if report.missing:
        return "\n".join([*lines, "", f"tt.speed_up() has nothing to switch on. {report.missing}"])
    lines += [
        "",
        'After tt.speed_up() a script here has the following; without the call, only what is "on by default":',
    ]
    lines += [str(outcome._replace(advice="")) for outcome in report.outcomes]
    lines += [f"{'medium:':<11}products are in {medium_report()}"]
    steps = advice(report)
    return "\n".join(
        [*lines, "", *(["What would make it faster:", *steps] if steps else ["Nothing here would make it faster."])]
    )


def advice(report: Report) -> list[str]:
    """Steps that would make this machine faster, one line each."""
    reasons: dict[str, list[str]] = {}
    for outcome in report.outcomes:
        if outcome.advice:
            reasons.setdefault(outcome.advice, []).append(outcome.subject)
    return [f"- {step} ({', '.join(subjects)})" for step, subjects in reasons.items()]


def _cpuinfo() -> str:
    """Linux's description of the processor; "" elsewhere."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


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
