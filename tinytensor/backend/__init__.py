"""Where arrays live: one small namespace module per array library, with the same names in each.

`NAMESPACES` maps an array's type to the module that computes with it. Ops receive that module as `xp`, so no op asks
which library it runs on; everything that differs between NumPy and CuPy is in the modules beside this file. CuPy is
imported when it is first asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ..machine.extras import how_to_install
from . import numpy as numpy_backend

NAMESPACES: dict[type, ModuleType] = {np.ndarray: numpy_backend}

DEVICES = ("cpu", "gpu")

on_load: list[Callable[[ModuleType], None]] = []
"""Called with the namespace of the GPU when it is loaded; `fast` adds to it."""


class Making(threading.local):
    """How this thread makes arrays on the CPU, in another way while a function is recorded.

    Attributes:
        namespace: computes them.
        refused: why a function cannot be recorded: it may catch the error itself.
    """

    namespace: Any = numpy_backend
    refused: list[str] | None = None


making = Making()


class Name(str):
    """The name of a device, "cpu" or "gpu", which says what PyTorch's devices have."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        told = "write x.device == 'gpu'" if name in ("type", "index") else f"it has no {name!r}"
        raise AttributeError(f"x.device is a text, {str(self)!r}; {told}", name=name, obj=self)


NAMES = {name: Name(name) for name in DEVICES}


class DeviceError(RuntimeError):
    """A device is missing, or arrays of different devices met."""


def for_device(device: str | None) -> ModuleType:
    """The backend module of a device, `"cpu"` (also for None) or `"gpu"`.

    Raises ValueError for another name, and DeviceError with one line that says what is missing for the GPU.
    """
    if device is None or device == "cpu":
        return making.namespace
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


def common_namespace(name: str, arrays: Sequence[Any]) -> Any:
    """The namespace that computes with all these arrays; NumPy's if there are only Python numbers.

    A namespace that has `adopt` takes over the arrays of others, in the list itself. Raises DeviceError, with the name
    of the op, if arrays are on different devices.
    """
    kinds = {type(a): for_array(a) for a in arrays if hasattr(a, "dtype") and not isinstance(a, np.generic)}
    if len(kinds) < 2:
        return next(iter(kinds.values()), numpy_backend)
    for namespace in kinds.values():
        if hasattr(namespace, "adopt"):
            namespace.adopt(arrays)
            return namespace
    devices = " and ".join(sorted({str(namespace.device) for namespace in kinds.values()}))
    raise DeviceError(f"{name}: inputs are on {devices}; move them to one device first, for example x.to('gpu')")


def is_finite(value: Any) -> bool:
    """True if a value, an array or several hold finite numbers only (a value without numbers counts as finite)."""
    if isinstance(value, (tuple, list)):
        return all(is_finite(v) for v in value)
    if value is None or isinstance(value, (bool, str)):
        return True
    if hasattr(value, "dtype"):
        return value.dtype.kind not in "fc" or bool(for_array(value).isfinite(value).all())
    return bool(np.isfinite(value))


def _load_cupy() -> ModuleType:
    try:
        from . import cupy as cupy_backend

        is_available = cupy_backend.is_available()
    except Exception as error:  # its libraries raise all kinds
        if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            raise DeviceError(
                "device 'gpu' needs CuPy, which is not installed; "
                f"run: {how_to_install('gpu')} (CUDA 12) or {how_to_install('gpu-cuda13')} (CUDA 13)"
            ) from None
        raise DeviceError(
            f"device 'gpu' needs CuPy, and the one that is installed does not work ({_first_cause(error)}); it must be "
            "the only one (`pip list` shows cupy-...), and made for the CUDA version that `nvidia-smi` tells: "
            "uninstall it and install cupy-cuda12x or cupy-cuda13x"
        ) from error
    if not is_available:
        raise DeviceError(
            "device 'gpu' needs an NVIDIA GPU, and CuPy finds none; "
            "check that `nvidia-smi` lists one and that the installed CuPy matches its CUDA version"
        )
    if cupy_backend.ndarray not in NAMESPACES:
        NAMESPACES[cupy_backend.ndarray] = cupy_backend
        for extend in on_load:
            extend(cupy_backend)
    return cupy_backend


def _first_cause(error: BaseException) -> str:
    """The exception that started it all, in one line: CuPy wraps it in pages of advice."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
