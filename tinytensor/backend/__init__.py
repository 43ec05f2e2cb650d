"""Where arrays live: one small namespace module per array library, with the same names in each.

`NAMESPACES` maps an array's type to the module that computes with it. Ops receive that module as `xp`, so no op
asks which library it runs on; everything that differs between NumPy and CuPy stands in the two modules beside this
file. CuPy is imported when it is first asked for.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from . import numpy as numpy_backend

NAMESPACES: dict[type, ModuleType] = {np.ndarray: numpy_backend}

DEVICES = ("cpu", "gpu")


class DeviceError(RuntimeError):
    """A device is missing, or arrays of different devices met."""


def for_device(device: str | None) -> ModuleType:
    """The backend module of a device, `"cpu"` (also for None) or `"gpu"`.

    Raises ValueError for another name, and DeviceError with one line that says what is missing for the GPU.
    """
    if device is None or device == "cpu":
        return numpy_backend
    if device == "gpu":
        return _load_cupy()
    raise ValueError(f"unknown device {device!r}; expected 'cpu' or 'gpu'")


def for_array(array: Any) -> ModuleType:
    """The backend module that computes with an array."""
    found = NAMESPACES.get(type(array))
    if found is None:
        if type(array).__module__.partition(".")[0] == "cupy":
            return _load_cupy()
        if isinstance(array, np.ndarray):
            return numpy_backend
        raise TypeError(f"expected a NumPy or CuPy array, got {type(array).__name__}")
    return found


def _load_cupy() -> ModuleType:
    try:
        from . import cupy as cupy_backend
    except ImportError:
        raise DeviceError(
            "device 'gpu' needs CuPy, which is not installed; "
            "run: pip install -e '.[gpu]' (CUDA 12) or '.[gpu-cuda13]' (CUDA 13)"
        ) from None
    if not cupy_backend.is_available():
        raise DeviceError(
            "device 'gpu' needs an NVIDIA GPU, and CuPy finds none; "
            "check that `nvidia-smi` lists one and that the installed CuPy matches its CUDA version"
        )
    NAMESPACES[cupy_backend.ndarray] = cupy_backend
    return cupy_backend
