"""The features of this implementation of the array API standard: `__array_namespace_info__`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..backend import DeviceError, for_device


class ArrayNamespaceInfo:
    """Devices, dtypes and capabilities, as the standard's inspection API asks for them."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        try:
            for_device("gpu")
        except DeviceError:
            return ("cpu",)
        return "cpu", "gpu"

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype[Any]]:
        return {
            "real floating": dtypes.get_default_dtype(),
            "complex floating": dtypes.default_complex(),
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        known = {str(d): d for d in (dtypes.bool_, *dtypes.KINDS["numeric"])}
        return {name: d for name, d in known.items() if kind is None or dtypes.isdtype(d, kind)}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """The standard's inspection object."""
    return ArrayNamespaceInfo()
