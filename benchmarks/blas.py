"""The library that multiplies matrices in this process, and its kernels: every figure depends on them."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple


class Blas(NamedTuple):
    """A library with its version, and the instructions that its kernels use; "unknown" if nothing tells."""

    library: str
    kernels: str

    def __str__(self) -> str:
        return f"{self.library}, kernels: {self.kernels}"


def in_use() -> Blas:
    """PyTorch's BLAS in a process that has loaded PyTorch, else NumPy's; both on the CPU."""
    if hasattr(sys.modules.get("torch"), "__config__"):
        return of_torch()
    if "numpy" in sys.modules:
        return of_numpy()
    return Blas("none", "none")


def of_torch() -> Blas:
    import torch

    built = torch.__config__.show()
    mkl = re.search(r"Math Kernel Library Version (\d[\d.]*)", built)
    other = re.search(r"BLAS_INFO=(\w+)", built)
    if torch.backends.mkl.is_available() and mkl:
        library = f"MKL {mkl[1]}"
    else:
        library = other[1] if other else "unknown"
    return Blas(f"PyTorch {torch.__version__} with {library}", torch.backends.cpu.get_cpu_capability())


def of_numpy() -> Blas:
    """The BLAS that threadpoolctl sees; without threadpoolctl, the one that NumPy was built with."""
    import numpy as np

    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return Blas(f"{built['name']} {built['version']}", "unknown")
    loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
    libraries = {f"{library['internal_api']} {library['version']}": None for library in loaded}
    kernels = {library.get("architecture") or "unknown": None for library in loaded}
    return Blas(" and ".join(libraries) or "unknown", " and ".join(kernels) or "unknown")
