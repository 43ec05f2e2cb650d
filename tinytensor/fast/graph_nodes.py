"""Whether a stream that is captured has copied something from the CPU.

A graph would copy from the same address again, where something else lies by then. CuPy makes such copies inside some of
its functions; the driver is asked, since CuPy shows no nodes.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

MEMCPY_NODE = 1  # CU_GRAPH_NODE_TYPE_MEMCPY
ON_DEVICE = 2  # CU_MEMORYTYPE_DEVICE
ON_ARRAY, ON_EITHER = 3, 4  # CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_UNIFIED
MEMORY_TYPE = 2  # CU_POINTER_ATTRIBUTE_MEMORY_TYPE


class Copy(ctypes.Structure):
    """The beginning of the driver's CUDA_MEMCPY3D, where a copy comes from."""

    _fields_ = (
        ("start", ctypes.c_size_t * 4),
        ("kind", ctypes.c_int),
        ("on_host", ctypes.c_void_p),
        ("on_device", ctypes.c_void_p),
        ("rest", ctypes.c_char * 256),
    )


@functools.cache
def _driver() -> Any:
    """NVIDIA's driver, or None where it is not found or has other functions."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        for name in ("cuStreamGetCaptureInfo_v2", "cuGraphGetNodes", "cuGraphNodeGetType", "cuPointerGetAttribute"):
            getattr(driver, name)
        driver.cuGraphMemcpyNodeGetParams.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    except (OSError, AttributeError):
        return None
    return driver


def copies_from_cpu(stream: Any) -> bool:
    """Whether what a stream has captured so far copies from the CPU; no, where the driver does not say."""
    driver = _driver()
    if driver is None:
        return False
    status, number, graph = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p()
    depends, count = ctypes.c_void_p(), ctypes.c_size_t()
    of_stream = ctypes.c_void_p(stream.ptr), *map(ctypes.byref, (status, number, graph, depends, count))
    if driver.cuStreamGetCaptureInfo_v2(*of_stream) or not graph:
        return False
    driver.cuGraphGetNodes(graph, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    driver.cuGraphGetNodes(graph, nodes, ctypes.byref(count))
    return any(_is_from_cpu(driver, ctypes.c_void_p(node)) for node in nodes)


def _is_from_cpu(driver: Any, node: Any) -> bool:
    kind, copy = ctypes.c_int(), Copy()
    if driver.cuGraphNodeGetType(node, ctypes.byref(kind)) or kind.value != MEMCPY_NODE:
        return False
    if driver.cuGraphMemcpyNodeGetParams(node, ctypes.byref(copy)):
        return False
    if copy.kind != ON_EITHER:
        return copy.kind not in (ON_DEVICE, ON_ARRAY)
    place = ctypes.c_uint()  # of memory that CUDA does not know there is no attribute: it is the CPU's
    unknown = driver.cuPointerGetAttribute(ctypes.byref(place), MEMORY_TYPE, ctypes.c_void_p(copy.on_device))
    return bool(unknown) or place.value != ON_DEVICE
