"""A Tensor's values elsewhere: as text, numbers, NumPy arrays, in other libraries, on another device, copied, pickled.

`import tinytensor as tt` at the top is a circular import on purpose: the names are looked up when called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

import tinytensor as tt

from .. import backend, dtypes
from ..modes import state
from ..node import leaf
from ..tensor import Tensor, part_of_tensor

if TYPE_CHECKING:
    from ..typing import Device, DType, TensorCore
else:
    TensorCore = object


@part_of_tensor
class Conversions(TensorCore):
    """The part of `Tensor` behind `x.item()`, `x.numpy()`, `x.to("gpu")`, `float(x)`, `copy.deepcopy(x)`, ..."""

    __slots__ = ()

    def item(self) -> Any:
        """The only element as a Python number."""
        if self._data.size != 1:
            raise ValueError(f"item: expected a Tensor of one element, got shape {self.shape}")
        return self._to_numpy().item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        return self._to_numpy().tolist()

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as a read-only NumPy array: the same memory on the CPU, a copy from the GPU.

        Read-only because a write would go unseen by gradients that need the old values; `np.array(t.numpy())` is a
        copy to write to.
        """
        array = self._to_numpy().view()
        array.flags.writeable = False
        return array

    def _to_numpy(self) -> Any:
        if state.recording is not None:
            state.recording.read(self)
        return backend.for_array(self._data).to_numpy(self._data)

    def to(
        self,
        *args: Tensor | DType,
        device: Device = None,
        dtype: DType = None,
        non_blocking: bool = False,
        copy: bool = False,
    ) -> Tensor:
        """This Tensor on a device and in a dtype: `x.to("gpu")`, `x.to(tt.float64)`; self if nothing changes.

        Differentiable. Raises DeviceError where the device is missing.

        Args:
            non_blocking: changes nothing here.
            copy: if True, a new Tensor even if nothing changes.
        """
        for value in args:
            if isinstance(value, bool):
                raise TypeError(f"to: got {value}; name it: non_blocking={value}, or copy={value}")
            if isinstance(value, str) and value in backend.DEVICES:
                device = value
            elif isinstance(value, Tensor):
                device, dtype = value.device, value.dtype
            elif isinstance(value, str) and not hasattr(np, value):
                raise ValueError(f"to: unknown device {value!r}; expected 'cpu' or 'gpu'")
            else:
                dtype = value
        result: Any = self if dtype is None else tt.astype(self, dtype, copy=False)
        result = result if device is None else tt.functions.shapes.to_device(result, device)
        return tt.positive(self) if copy and result is self else result

    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """This Tensor on a device, under the array API standard's name."""
        if stream is not None:
            raise ValueError("to_device: streams are not supported; pass stream=None")
        return tt.functions.shapes.to_device(self, device)

    def cpu(self) -> Tensor:
        """This Tensor on the CPU."""
        return self.to("cpu")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self._node is not None and state.grad_enabled:
            raise RuntimeError(
                "NumPy was asked to convert a Tensor that requires a gradient, and the gradient would be lost; "
                "use .detach().numpy(), or the function of the same name in tinytensor"
            )
        if self.device != "cpu":
            raise TypeError("NumPy was asked to convert a Tensor on the GPU; copy it with .cpu() or .numpy() first")
        array = np.array(self._data, dtype=dtype, copy=copy)
        if np.may_share_memory(array, self._data):  # as with numpy(): what a graph needs cannot be written
            array = array.view()
            array.flags.writeable = False
        return array

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
            raise ValueError(f"__array_namespace__: unsupported array API version {api_version!r}; have 2025.12")
        return tt

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if self._node is not None and state.grad_enabled:
            raise RuntimeError("__dlpack__: this Tensor requires a gradient, which would be lost; use .detach()")
        if copy is None and self.device == "cpu":
            copy = True  # what another library writes must not reach a graph
        options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return self._data.__dlpack__(**{name: value for name, value in options.items() if value is not None})

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def _only(self, kind: str) -> Any:
        if self._data.size != 1:
            raise ValueError(
                f"{kind} of a Tensor of shape {self.shape} is ambiguous: it has {self.size} elements; "
                "use tt.any(x), tt.all(x) or an index"
            )
        return self.item()

    def __bool__(self) -> bool:
        return bool(self._only("bool()"))

    def __int__(self) -> int:
        return int(self._only("int()"))

    def __float__(self) -> float:
        return float(self._only("float()"))

    def __complex__(self) -> complex:
        return complex(self._only("complex()"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.ndim:
            raise TypeError(f"only a 0-d integer Tensor can be an index, got {self.dtype} of shape {self.shape}")
        return int(self.item())

    def __repr__(self) -> str:
        parts = [np.array2string(self._to_numpy(), separator=", ", prefix="tensor(")]
        if self.dtype not in (dtypes.get_default_dtype(), dtypes.int64, dtypes.bool_) or self.size == 0:
            parts.append(f"dtype={self.dtype}")
        if self.size == 0 and self.ndim != 1:
            parts.insert(1, f"shape={self.shape}")
        if self.device != "cpu":
            parts.append(f"device='{self.device}'")
        if self._node is not None:
            parts.append("requires_grad=True" if self._node.op is None else f"op={self._node.name}")
        return f"tensor({', '.join(parts)})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.size == 1 else format(str(self), spec)

    def __copy__(self) -> Tensor:
        """A leaf for a leaf, in memory of its own; for a computed Tensor a copy through which gradients flow."""
        return self._twin() if self.is_leaf else tt.positive(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if not self.is_leaf:
            raise RuntimeError("deepcopy: this Tensor was computed; copy a leaf, or use detach() first")
        memo[id(self)] = twin = self._twin()
        if self._node is not None and self._node.grad is not None:
            twin._node.grad = tt.asarray(self._node.grad, copy=True)
        return twin

    def _twin(self) -> Any:
        twin = type(self).__new__(type(self))
        twin._data = backend.for_array(self._data).copy(self._data)
        twin._node = None if self._node is None else leaf(twin._data)
        return twin

    def __reduce__(self) -> Any:
        if not self.is_leaf:
            raise RuntimeError("pickle: this Tensor was computed; use detach() first")
        return _rebuild, (type(self), np.array(self._to_numpy()), self.requires_grad, self.device)


def _rebuild(kind: type[Tensor], array: Any, requires_grad: bool, device: str) -> Tensor:
    tensor = kind.__new__(kind)
    tensor._data = backend.for_device(device).from_numpy(array)
    tensor._node = leaf(tensor._data) if requires_grad else None
    return tensor
