"""PyTorch's modules by their dotted names: `torch.nn.functional`, `torch.utils.data`, `torch.cuda`, ..."""

from __future__ import annotations

import itertools
import sys
from types import ModuleType
from typing import Any

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import data

from .functions import METHODS
from .speaking import device, spelled, tell

SPEED = {"fused", "foreach", "capturable", "differentiable"}
LOADING = {
    "pin_memory", "num_workers", "prefetch_factor", "persistent_workers", "worker_init_fn", "multiprocessing_context",
    "timeout", "pin_memory_device", "in_order",
}  # fmt: skip
OLD = ("size_average", "reduce", "_stacklevel")
INPLACE = (
    "ReLU ReLU6 LeakyReLU ELU SELU CELU SiLU Mish Hardtanh Hardswish Hardsigmoid Threshold Dropout Dropout1d Dropout2d"
)


class Place(ModuleType):
    """A module that has the names it is given, and otherwise those of one of ours, said as PyTorch does."""

    def __init__(self, name: str, ours: Any = None, change: Any = None, **names: Any) -> None:
        super().__init__(f"{__package__}.{name}")
        self.__dict__.update(names, _ours=ours, _change=change or (lambda value: value), __path__=[])
        sys.modules[self.__name__] = self
        outer, _, own = self.__name__.rpartition(".")
        setattr(sys.modules[outer], own, self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not hasattr(self._ours, name):
            raise AttributeError(f"torch{self.__name__.removeprefix(__package__)}.{name} is not in tinytensor")
        value = self._change(getattr(self._ours, name))
        setattr(self, name, value)
        return value


def without(names: set[str], words: str = "") -> Any:
    """Makes subclasses which take arguments that change no number, and say once that they do nothing."""

    def change(kind: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            given = [name for name in sorted(names) if kwargs.pop(name, None)]
            if given and words:
                tell(f"{kind.__name__}: {', '.join(given)} {words}")
            whole = [int(arg) if isinstance(arg, float) and arg.is_integer() else arg for arg in args]
            kind.__init__(self, *whole, **kwargs)  # PyTorch counts in floats as well

        return type(kind.__name__, (kind,), {"__init__": __init__}) if isinstance(kind, type) else kind

    return change


def _changed(x: Any, result: Any, inplace: bool) -> Any:
    """The result, which x takes over if it is asked to."""
    return x._update("inplace=True", lambda *_: result, None) if inplace and result is not x else result


def function_of_nn(function: Any) -> Any:
    """The function, which takes `inplace` as well."""

    def call(*args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        result = function(*args, **{name: value for name, value in kwargs.items() if name not in OLD})
        return _changed(args[0], result, inplace)

    return call if callable(function) and not isinstance(function, type) else function


def in_place(kind: Any) -> Any:
    """The class, which takes `inplace`, by keyword or after its other arguments."""

    class InPlace(kind):
        def __init__(self, *args: Any, inplace: bool = False, **kwargs: Any) -> None:
            if args and isinstance(args[-1], bool):
                *args, inplace = args  # type: ignore[assignment]
            super().__init__(*args, **kwargs)
            self.inplace = inplace

        def forward(self, x: Any) -> Any:
            return _changed(x, super().forward(x), self.inplace)

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

    Lazy.__name__ = f"Lazy{kind.__name__}"
    return Lazy


class Sampler:
    """The base of samplers; your own one writes `__iter__` and `__len__`."""

    def __init__(self, data_source: Any = None) -> None:
        self.data_source = data_source


class SubsetRandomSampler(Sampler):
    """Some indices, in a random order."""

    def __init__(self, indices: Any, generator: Any = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Any:
        order = tt.random.permutation(len(self.indices), generator=self.generator).tolist()
        return iter([self.indices[i] for i in order])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(SubsetRandomSampler):
    """Indices drawn by their weights."""

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True, generator: Any = None) -> None:
        drawn = METHODS["multinomial"](tt.asarray(weights), num_samples, replacement, generator=generator)
        super().__init__(drawn.tolist(), generator)


class IterableDataset:
    """A dataset that can only be gone through; your own one writes `__iter__`."""


class DataLoader(without(LOADING, "change nothing here: batches are made in the calling thread")(data.DataLoader)):  # type: ignore[misc]
    def __init__(self, dataset: Any, batch_size: int = 1, *args: Any, **kwargs: Any) -> None:
        self.stream = dataset if isinstance(dataset, IterableDataset) else None
        super().__init__(dataset if self.stream is None else [], batch_size, *args, **kwargs)

    def __iter__(self) -> Any:
        return super().__iter__() if self.stream is None else self._from_stream(self.stream)

    def _from_stream(self, samples: Any) -> Any:
        batches: Any = self.batch_sampler
        samples = iter(samples)
        while batch := list(itertools.islice(samples, batches.batch_size)):
            if len(batch) == batches.batch_size or not batches.drop_last:
                yield self.collate_fn(batch)


class ConcatDataset(data.Dataset[Any]):
    """Datasets one after the other."""

    def __init__(self, datasets: Any) -> None:
        self.datasets = list(datasets)

    def __len__(self) -> int:
        return sum(map(len, self.datasets))

    def __getitem__(self, index: int) -> Any:
        for dataset in self.datasets:
            if 0 <= index < len(dataset):
                return dataset[index]
            index -= len(dataset)
        raise IndexError("ConcatDataset: index out of range")


def _list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _has_gpu() -> bool:
    return "gpu" in tt.__array_namespace_info__().devices()


def _nothing(*args: Any, **kwargs: Any) -> None:
    """There is nothing to do here."""


_named = {name: in_place(getattr(nn, name)) for name in INPLACE.split()}
_lazy = {"Linear": -1, "Conv1d": 1, "Conv2d": 1, "BatchNorm1d": 1, "BatchNorm2d": 1}
Place("nn", nn, **_named, **{f"Lazy{name}": lazy(getattr(nn, name), dim) for name, dim in _lazy.items()})
_softmax = {name: function_of_nn(METHODS[name]) for name in ("softmax", "log_softmax")}
_nn_f = Place("nn.functional", nn.functional, function_of_nn, **_softmax)
for _name in ("relu", "leaky_relu", "elu"):
    setattr(_nn_f, f"{_name}_", lambda x, *args, _name=_name: getattr(_nn_f, _name)(x, *args, inplace=True))
Place("nn.init", nn.init)
Place("nn.parallel", nn.parallel)
Place("nn.parameter", Parameter=nn.Parameter)
Place("nn.modules", nn)
Place("nn.utils", nn.utils)
Place("nn.utils.rnn", nn.utils.rnn)
Place("optim", nn.optim, without(SPEED))
Place("optim.lr_scheduler", nn.optim.lr_scheduler, without({"verbose"}), _LRScheduler=nn.optim.lr_scheduler.LRScheduler)
Place("optim.swa_utils", nn.optim.swa_utils)
Place("utils")
Place(
    "utils.data", data, Sampler=Sampler, SubsetRandomSampler=SubsetRandomSampler, ConcatDataset=ConcatDataset,
    WeightedRandomSampler=WeightedRandomSampler, DataLoader=DataLoader, IterableDataset=IterableDataset,
)  # fmt: skip
Place("utils.checkpoint", checkpoint=nn.utils.checkpoint)


def _norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Any:
    if ord is None or isinstance(dim, int) or x.ndim == 1:
        return tt.linalg.vector_norm(x, ord=2 if ord is None else ord, axis=dim, keepdims=keepdim)
    return tt.linalg.matrix_norm(x, ord=ord, keepdims=keepdim)


Place("linalg", tt.linalg, spelled, norm=_norm)
Place("fft", tt.fft, spelled)
Place("special", tt.special, spelled)
Place(
    "autograd", detect_anomaly=tt.detect_anomaly, gradcheck=tt.gradcheck,
    grad=lambda outputs, inputs, *args, **by: tuple(tt.grad(outputs, _list(inputs), *args, **by)),
    set_detect_anomaly=lambda mode: tt.modes.state.change(anomaly=mode),
    Variable=lambda x, requires_grad=False, volatile=False: x.requires_grad_() if requires_grad else x,
    backward=lambda tensors, gradients=None, **by: tensors.backward(gradients, **by),
)  # fmt: skip
Place("autograd.functional", jacobian=tt.jacobian, hessian=tt.hessian)
Place("func", vmap=tt.vmap, jacrev=tt.jacobian, jacfwd=tt.jacobian, hessian=tt.hessian, vjp=tt.vjp, jvp=tt.jvp)


def autocast(device_type: Any = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> Any:
    half = (tt.float16 if dtype is None else dtype) == tt.float16 and device(device_type) == "cuda" and _has_gpu()
    return nn.amp.autocast(enabled=enabled and half)


def grad_scaler(device: Any = "cuda", enabled: bool = True, **settings: Any) -> Any:
    return nn.amp.GradScaler(enabled=enabled and _has_gpu(), **settings)


Place("amp", autocast=autocast, GradScaler=grad_scaler)
Place(
    "cuda", is_available=_has_gpu, device_count=lambda: int(_has_gpu()), current_device=lambda: 0, manual_seed=_nothing,
    manual_seed_all=_nothing, synchronize=_nothing, empty_cache=_nothing, is_bf16_supported=lambda *args: False,
    get_device_name=lambda *args: "gpu", set_device=_nothing, memory_allocated=lambda *args: 0,
    max_memory_allocated=lambda *args: 0, reset_peak_memory_stats=_nothing,
)  # fmt: skip
Place(
    "cuda.amp", autocast=lambda enabled=True, **by: autocast(enabled=enabled, **by),
    GradScaler=lambda **by: grad_scaler(**by),
)  # fmt: skip
Place(
    "accelerator", is_available=_has_gpu, device_count=lambda: int(_has_gpu()), synchronize=_nothing,
    current_accelerator=lambda *args, **by: device("cuda") if _has_gpu() else None,
)  # fmt: skip
for _name in ("mps", "xpu"):
    Place(_name, is_available=lambda: False, device_count=lambda: 0, manual_seed=_nothing, synchronize=_nothing,
          empty_cache=_nothing)  # fmt: skip
Place("backends")
Place("backends.mps", is_available=lambda: False, is_built=lambda: False)
Place("backends.cudnn", is_available=lambda: False, deterministic=True, benchmark=False, enabled=False)
Place("backends.cuda", is_built=lambda: False)
Place("backends.cuda.matmul", allow_tf32=False)
Place("version", cuda=None, hip=None, git_version=None)
