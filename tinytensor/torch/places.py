"""PyTorch's modules by their dotted names: `torch.nn.functional`, `torch.utils.data`, `torch.cuda`, ..."""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from types import ModuleType
from typing import Any

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import data

from .dtypes import KEPT, kept
from .functions import METHODS
from .speaking import device, spelled, tell

SPEED = {"fused", "foreach", "capturable", "differentiable"}
LOADING = {"pin_memory", "num_workers", "prefetch_factor", "persistent_workers", "worker_init_fn", "timeout",
           "multiprocessing_context", "pin_memory_device", "in_order"}  # fmt: skip
INPLACE = """
    ReLU ReLU6 LeakyReLU ELU SELU CELU SiLU Mish Hardtanh Hardswish Hardsigmoid Threshold Dropout Dropout1d Dropout2d
"""


class Place(ModuleType):
    """A module that has the names it is given, and otherwise those of one of ours, said as PyTorch does."""

    def __init__(self, name: str, ours: Any = None, change: Any = lambda value: value, **names: Any) -> None:
        super().__init__(f"{__package__}.{name}")
        self.__dict__.update(names, _ours=ours, _change=change, __path__=[])
        outer, _, own = self.__name__.rpartition(".")
        sys.modules[self.__name__] = self
        setattr(sys.modules[outer], own, self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self._ours, name):
            place = self.__name__.removeprefix(__package__)
            raise AttributeError(f"torch{place}.{name} is not in tinytensor; docs/left-out.md says what to use")
        self.__dict__[name] = value = self._change(getattr(self._ours, name))
        return value


def without(names: set[str], words: str = "") -> Any:
    """Makes subclasses that take arguments which change no number, and, with words, say once that they do nothing."""

    def change(kind: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            given = [name for name in sorted(names) if kwargs.pop(name, None)]
            if given and words:
                tell(f"{kind.__name__}: {', '.join(given)} {words}")
            whole = [int(arg) if isinstance(arg, float) and arg.is_integer() else arg for arg in args]
            kind.__init__(self, *whole, **kwargs)  # PyTorch counts in floats as well

        return type(kind.__name__, (kind,), {"__init__": __init__}) if isinstance(kind, type) else kind

    return change


def function_of_nn(function: Any) -> Any:
    """The function, which takes `inplace` as well: its input takes over the result."""

    def call(*args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return args[0]._update("inplace", lambda *_: result, None) if inplace and result is not args[0] else result

    return call if callable(function) and not isinstance(function, type) else function


def in_place(kind: Any) -> Any:
    """The class, which takes `inplace`, by keyword or after its other arguments."""

    class InPlace(kind):
        def __init__(self, *args: Any, inplace: bool = False, **kwargs: Any) -> None:
            last = args[-1:] if args and isinstance(args[-1], bool) else ()
            super().__init__(*args[: len(args) - len(last)], **kwargs)
            self.inplace = any(last) or inplace

        def forward(self, x: Any) -> Any:
            return function_of_nn(super().forward)(x, inplace=self.inplace)

    InPlace.__name__ = kind.__name__
    return InPlace


def lazy(kind: Any, dim: int) -> Any:
    """A layer that takes its number of inputs from the first batch, and is an ordinary layer from then on."""

    class Lazy(kind):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            nn.Module.__init__(self)
            self._arguments = args, kwargs

        def forward(self, x: Any) -> Any:
            (args, kwargs), training, scope = self._arguments, self.training, self._scope
            kind.__init__(self, x.shape[dim], *args, **kwargs)
            self.__dict__.update(training=training, _scope=scope)
            self.__class__ = kind
            return self.forward(x)

    return Lazy


class _Optimizers(type(nn.optim.Optimizer)):  # type: ignore[misc]
    def __instancecheck__(cls, value: Any) -> bool:
        return type.__instancecheck__(nn.optim.Optimizer if cls is Optimizer else cls, value)


class Optimizer(nn.optim.Optimizer, metaclass=_Optimizers):
    """The base of optimisers of one's own, which finds a state for every parameter; true of all optimisers."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        self.state = defaultdict(dict)


class Sampler:
    """The base of samplers."""

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source


class SubsetRandomSampler(Sampler):
    """Some indices in a random order."""

    def __init__(self, indices: Any, generator: Any = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Any:
        order = tt.random.permutation(len(self.indices), generator=self.generator).tolist()
        return iter([self.indices[i] for i in order])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Indices drawn by their weights."""

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True, generator: Any = None) -> None:
        self.drawn, self.by = (tt.asarray(weights), num_samples, replacement), {"generator": generator}

    def __iter__(self) -> Any:
        return iter(METHODS["multinomial"](*self.drawn, **self.by).tolist())

    def __len__(self) -> int:
        return self.drawn[1]


class ConcatDataset(data.Dataset[Any]):
    """Datasets one after the other."""

    def __init__(self, datasets: Any) -> None:
        self.datasets = list(datasets)

    def __len__(self) -> int:
        return sum(map(len, self.datasets))

    def __getitem__(self, index: int) -> Any:
        for dataset in self.datasets:
            if index < len(dataset):
                return dataset[index]
            index -= len(dataset)
        raise IndexError("ConcatDataset: the index is beyond all datasets")


class IterableDataset:
    """A dataset that can only be gone through."""


class DataLoader(without(LOADING, "change nothing here: batches are made in the calling thread")(data.DataLoader)):  # type: ignore[misc]
    """Ours, and batches of an `IterableDataset`."""

    def __init__(self, dataset: Any, batch_size: Any = 1, *args: Any, **kwargs: Any) -> None:
        self.stream = dataset if isinstance(dataset, IterableDataset) else None
        self.is_whole = self.stream is not None and batch_size is None  # the dataset makes batches by itself
        super().__init__(dataset if self.stream is None else [], 1 if self.is_whole else batch_size, *args, **kwargs)
        self.batch_size = None if self.is_whole else getattr(self.batch_sampler, "batch_size", None)

    def __len__(self) -> int:
        if self.stream is None:
            return super().__len__()
        count, size = len(self.stream), self.batch_sampler.batch_size  # type: ignore[arg-type]
        return count // size if self.batch_sampler.drop_last else -(-count // size)

    def __iter__(self) -> Any:
        if self.stream is None:
            return super().__iter__()
        samples: Any = iter(self.stream)  # type: ignore[call-overload]
        if self.is_whole:
            return samples
        size = self.batch_sampler.batch_size
        batches: Any = iter(lambda: list(itertools.islice(samples, size)), [])
        return (self.collate_fn(batch) for batch in batches if len(batch) == size or not self.batch_sampler.drop_last)


def _has_gpu(*place: Any) -> bool:
    return "gpu" in tt.__array_namespace_info__().devices()


def _nothing(*args: Any, **kwargs: Any) -> None:
    """There is nothing to do here."""


def autocast(device_type: Any = "cuda", dtype: Any = tt.float16, enabled: bool = True, **options: Any) -> Any:
    """float16 on a GPU; nothing elsewhere, and for other dtypes."""
    return nn.amp.autocast(
        enabled=enabled and dtype == tt.float16 and device(device_type).type == "cuda" and _has_gpu()
    )


def scaler(device: Any = "cuda", enabled: bool = True, **settings: Any) -> Any:
    return nn.amp.GradScaler(enabled=enabled and _has_gpu(), **settings)


def _norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Any:
    if ord is None or isinstance(dim, int) or x.ndim == 1:
        return tt.linalg.vector_norm(x, ord=2 if ord is None else ord, axis=dim, keepdims=keepdim)
    return tt.linalg.matrix_norm(x, ord=ord, keepdims=keepdim)


def _grad(outputs: Any, inputs: Any, *args: Any, **by: Any) -> Any:
    return tuple(tt.grad(outputs, list(inputs) if isinstance(inputs, (list, tuple)) else [inputs], *args, **by))


_layers = {name: in_place(getattr(nn, name)) for name in INPLACE.split()}
for _name, _dim in {"Linear": -1, "Conv1d": 1, "Conv2d": 1, "BatchNorm1d": 1, "BatchNorm2d": 1}.items():
    _layers[f"Lazy{_name}"] = lazy(getattr(nn, _name), _dim)
Place("nn", nn, **_layers)
F = Place(
    "nn.functional", nn.functional, function_of_nn, softmax=METHODS["softmax"], log_softmax=METHODS["log_softmax"],
    softmin=lambda input, dim=None, _stacklevel=3, dtype=None: METHODS["softmax"](-input, dim, dtype=dtype),
    **{name: kept(function_of_nn(getattr(nn.functional, name))) for name in KEPT if hasattr(nn.functional, name)},
)  # fmt: skip
for _name in ("relu", "leaky_relu", "elu"):
    setattr(F, f"{_name}_", lambda x, *args, _name=_name: getattr(F, _name)(x, *args, inplace=True))
for _name, _ours in {"init": nn.init, "parallel": nn.parallel, "modules": nn, "parameter": nn.parameter}.items():
    Place(f"nn.{_name}", _ours)
Place("nn.utils", nn.utils)
Place("nn.utils.rnn", nn.utils.rnn)
Place("optim", nn.optim, without(SPEED), Optimizer=Optimizer)
_schedules = nn.optim.lr_scheduler
_schedule = dict.fromkeys(("LRScheduler", "_LRScheduler"), _schedules.LRScheduler)
Place("optim.lr_scheduler", _schedules, without({"verbose"}), **_schedule)
Place("optim.swa_utils", nn.optim.swa_utils)
Place("utils")
Place("utils.data", data, Sampler=Sampler, SubsetRandomSampler=SubsetRandomSampler, ConcatDataset=ConcatDataset,
      WeightedRandomSampler=WeightedRandomSampler, DataLoader=DataLoader, IterableDataset=IterableDataset)  # fmt: skip
for _name in ("dataloader", "dataset", "sampler", "distributed"):
    Place(f"utils.data.{_name}", sys.modules[f"{__package__}.utils.data"])
Place("utils.checkpoint", checkpoint=nn.utils.checkpoint)
for _name, _ours in {"fft": tt.fft, "special": tt.special, "linalg": tt.linalg}.items():
    Place(_name, _ours, spelled, **({"norm": _norm} if _name == "linalg" else {}))
Place("autograd", detect_anomaly=tt.detect_anomaly, gradcheck=tt.gradcheck, grad=_grad,
      Variable=lambda x, requires_grad=False, volatile=False: x.requires_grad_() if requires_grad else x,
      set_detect_anomaly=lambda mode: tt.modes.state.change(anomaly=mode))  # fmt: skip
Place("autograd.functional", jacobian=tt.jacobian, hessian=tt.hessian)
Place("func", vmap=tt.vmap, jacrev=tt.jacobian, jacfwd=tt.jacobian, hessian=tt.hessian, vjp=tt.vjp, jvp=tt.jvp)
Place("amp", autocast=autocast, GradScaler=scaler)
_device: dict[str, Any] = {"is_available": _has_gpu, "device_count": lambda: int(_has_gpu())}
_device |= dict.fromkeys(("manual_seed", "manual_seed_all", "synchronize", "empty_cache", "set_device"), _nothing)
Place("accelerator", **_device, current_accelerator=lambda *args, **by: device("cuda") if _has_gpu() else None)
_device |= dict.fromkeys(
    ("is_bf16_supported", "memory_allocated", "max_memory_allocated", "current_device"), lambda *_: 0
)
Place("cuda", **_device, get_device_name=lambda *_: "gpu")
Place("cuda.amp", GradScaler=scaler, autocast=lambda enabled=True, **by: autocast(enabled=enabled, **by))
for _name in ("mps", "xpu", "backends", "backends.mps", "backends.cudnn", "backends.cuda", "backends.cuda.matmul"):
    Place(_name, **{**_device, "is_available": lambda: False, "device_count": lambda: 0}, is_built=lambda: False,
          benchmark=False, enabled=False, deterministic=True, allow_tf32=False)  # fmt: skip
Place("version", cuda=None, hip=None)
