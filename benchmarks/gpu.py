"""The sides of a comparison on a GPU: their device, and how much of its memory they took.

With the stand-in for CuPy in place of CuPy (`on_gpu.py --stand-in`), PyTorch computes on the CPU: it shows that a
benchmark runs, and its figures mean nothing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any


def is_stand_in() -> bool:
    """True where `cupy` is the stand-in of `tests/standin`."""
    return importlib.util.find_spec("cuda_on_cpu") is not None


def torch_device(device: str) -> str:
    """PyTorch's name for one of our devices, "cpu" or "gpu"."""
    return "cuda" if device == "gpu" and not is_stand_in() else "cpu"


def count_memory(function: Any, device: str, library: str) -> Callable[..., Any]:
    """The function of a side; on a GPU, its `peak` gives the GPU memory that "cupy" or "torch" took."""
    if device == "gpu" and not is_stand_in():
        if library == "cupy":
            import cupy

            function.peak = cupy.get_default_memory_pool().total_bytes
        else:
            import torch

            function.peak = torch.cuda.max_memory_reserved
    return function
