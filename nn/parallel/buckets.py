"""Gradients in flat buckets: few large all-reduces instead of one for each (Li et al. 2020, section 3.2.3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import tinytensor as tt
from tinytensor.backend import for_array, for_device

from ..distributed import Communicator, Pending

FIRST_CAP_MB = 1.0  # of the first bucket, to begin the first all-reduce early; as in PyTorch
WIDER = {tt.float16: tt.float32}  # dtypes that are sent and added up in a wider one


def assigned(parameters: Sequence[Any], order: Iterable[int], cap_mb: float) -> list[list[int]]:
    """The places of each bucket's parameters, in the order given, that of arriving gradients.

    A bucket has one dtype and device, and at most `cap_mb` million bytes, unless a single parameter has more.
    """
    buckets: list[list[int]] = []
    kind, room = None, 0.0
    for place in order:
        parameter = parameters[place]
        dtype = WIDER.get(parameter.dtype, parameter.dtype)
        size = parameter.size * dtype.itemsize
        if size > room or kind != (dtype, parameter.device):
            buckets.append([])
            kind, room = (dtype, parameter.device), (cap_mb if len(buckets) > 1 else min(cap_mb, FIRST_CAP_MB)) * 1e6
        buckets[-1].append(place)
        room -= size
    return buckets


class Bucket:
    """The gradients of some parameters, one after another in one array."""

    def __init__(self, parameters: Sequence[Any]) -> None:
        sizes = [parameter.size for parameter in parameters]
        xp = for_device(parameters[0].device)
        dtype = WIDER.get(parameters[0].dtype, parameters[0].dtype)
        self.flat = xp.zeros((sum(sizes),), dtype=dtype)
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.views = [
            xp.reshape(self.flat[start : start + math.prod(p.shape)], p.shape) for start, p in zip(starts, parameters)
        ]
        self.missing = len(sizes)
        self._pending: Pending | None = None

    def put(self, place: int, gradient: Any) -> None:
        """Write the gradient of one of the parameters."""
        self.views[place][...] = gradient
        self.missing -= 1

    def reduce(self, communicator: Communicator) -> None:
        """Begin to sum the bucket over all ranks."""
        self._pending = communicator.all_reduce(self.flat)

    def wait(self, size: int) -> None:
        """Wait for the sum, and divide it by `size`, the number of ranks."""
        assert self._pending is not None
        self._pending.wait()
        if size > 1:
            xp = for_array(self.flat)
            xp.divide(self.flat, size, out=self.flat)
