"""A room that spells PyTorch: `import tinytensor.torch as torch`, and a program for PyTorch runs as it is.

Results of all of tinytensor are the one class `Tensor`, so its attributes get a second meaning, PyTorch's, which those
modules see that hold a name of this room or are run by it. Every other module, tinytensor's own first of all, sees what
it saw before, and a process that does not import the room knows nothing of it.

    import tinytensor.torch as torch
    from tinytensor.torch import nn

`install()` puts the room in place of `torch`, so that `import torch.nn as nn` finds it; `python -m tinytensor.torch
script.py` runs a script so. Random numbers are tinytensor's, and files are those of `tinytensor.nn.save`.
"""

from __future__ import annotations

import sys
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import nn as _nn
from tinytensor.nn import functional as _functional

from . import dtypes, functions, keys, places, speaking
from .creating import Generator, Typed
from .functions import FUNCTIONS, METHODS, Size
from .speaking import device, spelled, tell

float, double, half = tt.float32, tt.float64, tt.float16
int, long, short = tt.int32, tt.int64, tt.int16
bool, strided, channels_last, contiguous_format, preserve_format = tt.bool, None, None, None, None
cfloat, cdouble, dtype = tt.complex64, tt.complex128, np.dtype
set_printoptions = np.set_printoptions
set_float32_matmul_precision = tt.set_float32_matmul_precision
use_deterministic_algorithms = places._nothing
autocast, GradScaler = places.autocast, places.scaler
Tensor = Typed("Tensor", (), {"__module__": __name__})
for _kind, _dtype in functions.KINDS.items():
    globals()[_kind] = Typed(_kind, (), {"__module__": __name__, "kind": np.dtype(_dtype)})
__version__ = "2.13.0+tinytensor"  # of the PyTorch that these names are of


def manual_seed(seed: Any) -> Any:
    tt.manual_seed(seed)
    return tt.random.default_generator


def inference_mode(mode: Any = True) -> Any:
    """`torch.inference_mode()`, and as a decorator without brackets."""
    return tt.no_grad()(mode) if callable(mode) else tt.no_grad() if mode else tt.enable_grad()


def compile(model: Any = None, **options: Any) -> Any:
    """A function compiled by `tt.compile`; a module itself, with its `forward` compiled."""
    if not isinstance(model, _nn.Module):
        return compile if model is None else tt.compile(model)
    model.__dict__["forward"] = tt.compile(model.forward)
    return model


def save(obj: Any, f: Any, **options: Any) -> None:
    """Write a `state_dict`, or nested values, to a path or an open file, by `tinytensor.nn.save`."""
    if isinstance(obj, _nn.Module):
        raise TypeError("torch.save: a whole model would be a pickle, which runs code when loaded; save state_dict()")
    with TemporaryDirectory() as folder:
        path = Path(folder, "state") if hasattr(f, "write") else f
        _nn.save(obj, path)
        if path is not f:
            f.write(path.read_bytes())


def load(f: Any, map_location: Any = None, **options: Any) -> Any:
    """The value that `save` wrote."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "state") if hasattr(f, "read") else f
        if path is not f:
            path.write_bytes(f.read())
        return _nn.load(path, device=device(map_location) if isinstance(map_location, str) else "cpu")


class set_grad_enabled:
    """Record ops or not, from now on, within `with`, or within a function."""

    def __init__(self, mode: Any) -> None:
        self.mode, self.before = mode, tt.modes.state.change(grad_enabled=mode)

    def __call__(self, function: Any) -> Any:
        tt.modes.state.change(**self.before)
        return tt.set_grad_enabled(self.mode)(function)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        tt.modes.state.change(**self.before)


def _to(self: Any, *args: Any, device: Any = None, dtype: Any = None, non_blocking: Any = False) -> Any:
    """`Module.to`, for devices by PyTorch's names."""
    args = tuple(speaking.device(arg) if isinstance(arg, str) else arg for arg in args if arg is not non_blocking)
    return _OURS(self, *args, device=None if device is None else speaking.device(device), dtype=dtype)


_OURS = _nn.Module.to


def __getattr__(name: str) -> Any:
    if name in METHODS or name in FUNCTIONS:
        found = FUNCTIONS.get(name) or METHODS[name]
    elif name == "bfloat16":
        tell("torch.bfloat16: NumPy has no bfloat16; float32 is computed with")
        return tt.float32
    else:
        found = getattr(places.F if name in _FROM_F else tt, _ALIASES.get(name, name))
    value = globals()[name] = spelled(found) if callable(found) and not isinstance(found, type(Size)) else found
    return value


_FROM_F = set(dir(_functional)) - set(dir(tt)) - {"tt", "os", "typing", "kl_div", "binary_cross_entropy_with_logits"}
_ALIASES = {"cat": "concat", "concatenate": "concat", "broadcast_tensors": "broadcast_arrays"}


def _teach() -> None:
    renamed = {ours for names in tt.hints.KEYWORDS.values() for ours in names} | {"device"}
    METHODS.update({name: spelled(theirs) for name, theirs in METHODS.items()})
    for name, ours in list(vars(tt.Tensor).items()):
        if isinstance(ours, FunctionType) and not name.startswith("_") and name not in METHODS:
            METHODS[name] = spelled(ours) if renamed & set(signature(ours).parameters) else ours
    for name, change in dtypes.CHANGES.items():
        for table in (METHODS, FUNCTIONS):
            table.update({name: change(table[name])} if name in table else {})
    for name, function in list(METHODS.items()):
        if f"{name}_" in (*tt.missing.NAMES.split(), "addcdiv_", "addcmul_", "addmm_", "fmod_", "frac_", "lerp_"):
            METHODS.setdefault(f"{name}_", _in_place(function, f"{name}_"))
    for name, theirs in METHODS.items():
        if vars(tt.Tensor).get(name) is not theirs:
            speaking.teach(tt.Tensor, name, theirs)
    properties: dict[str, Any] = {
        "device": lambda self: device(self.device),
        "shape": lambda self: Size(self.shape),
        "is_cuda": lambda self: self.device == "gpu", "grad_fn": lambda self: None if self.is_leaf else self._node,
    }  # fmt: skip
    for name, get in properties.items():
        speaking.teach(tt.Tensor, name, property(get))
    for name in ("__getitem__", "__setitem__"):
        type.__setattr__(tt.Tensor, name, getattr(keys, name))
    for name in [f"__{side}{name}__" for name in dtypes.OPERATORS for side in ("", "r")]:
        type.__setattr__(tt.Tensor, name, dtypes.operator(getattr(tt.Tensor, name)))
    speaking.teach(_nn.Module, "to", _to)
    speaking.teach(_nn.Module, "cuda", lambda self, device=None: _OURS(self, "gpu"))
    speaking.teach(_nn.Module, "half", lambda self: _OURS(self, half))
    speaking.teach(_nn.Module, "compile", lambda self, **options: compile(self) and None)
    for kind in (_nn.RNN, _nn.LSTM, _nn.GRU):
        speaking.teach(kind, "flatten_parameters", places._nothing)


def _in_place(function: Any, name: Any) -> Any:
    def change(x: Any, *args: Any, **by: Any) -> Any:
        if name not in ("squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_"):
            return x._update(name, lambda x, _: function(x, *args, **by), None)
        x._check_writable(name)
        result = function(x, *args, **by)
        x._data, x._node = result._data, result._node  # the same memory, seen in another shape
        return x

    return change


def install() -> None:
    """Put the room in place of `torch` in this process: `import torch` and its submodules find it from now on.

    All modules but tinytensor's own speak PyTorch then, except those that name tinytensor.

    Raises RuntimeError where PyTorch itself is loaded.
    """
    here = sys.modules[__name__]
    if sys.modules.get("torch", here) is not here:
        raise RuntimeError("install: PyTorch itself is loaded in this process; call install() before `import torch`")
    for name in [name for name in sys.modules if name == __name__ or name.startswith(f"{__name__}.")]:
        sys.modules[f"torch{name.removeprefix(__name__)}"] = sys.modules[name]
    speaking.is_installed = True


_teach()
