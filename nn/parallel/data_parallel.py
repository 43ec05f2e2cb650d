"""Data parallelism over processes: each computes the gradient of its share of the batch, and all take their mean.

Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".

The engine turns to leaves last, so a hook on a parameter would see its gradient when all others are there, too. So a
module reads, instead of a parameter, a view of it that is made when it is first used: the latest nodes have their turn
first, and the gradient arrives at the view as soon as nothing is left that may add to it. From there it is copied into
its bucket, and a full bucket is added up over all ranks while the backward pass goes on.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_array
from tinytensor.in_place import is_writable
from tinytensor.modes import state
from tinytensor.tensor import wrap

from ..distributed import Communicator, world
from ..module import Module
from .buckets import Bucket, assigned


class DistributedDataParallel(Module):
    """A module whose gradients are the mean over all ranks of a process group.

        model = nn.parallel.DistributedDataParallel(model)
        loss = F.cross_entropy(model(x[rank::size]), y[rank::size])  # each rank has its share of the batch
        loss.backward()  # `.grad` is the same on all ranks
        optimizer.step()

    At the start all ranks get the parameters and buffers of rank 0. Every rank calls `forward` and `backward` as often
    as the others; the gradient of `loss.backward()` is averaged, a loss in which the parameters occur beside the
    module, too. The mean of losses over different numbers of tokens is not the loss over all: multiply each by its own
    number, by the number of ranks, and divide by the number of all. One thread at a time may use it.

    Args:
        module: what computes; `ddp.module` from then on, so that the keys of `state_dict` begin with "module.".
        process_group: default: all processes, `nn.distributed.world()`.
        bucket_cap_mb: million bytes of gradients that are added up at once.
        find_unused_parameters: parameters that a forward pass does not use count as having a gradient of 0, unless no
            rank uses them, and then they keep what they have. Otherwise they are an error.

    Raises RuntimeError for a module without parameters that require a gradient, and where ranks have other parameters
    than rank 0; `backward` raises it for a parameter that got no gradient. Second derivatives raise
    NotImplementedError.
    """

    def __init__(
        self,
        module: Module,
        *,
        process_group: Communicator | None = None,
        bucket_cap_mb: float = 25.0,
        find_unused_parameters: bool = False,
    ) -> None:
        super().__init__()
        self.module = module
        self.process_group = world() if process_group is None else process_group
        self.find_unused_parameters = find_unused_parameters
        self._is_synchronised = True
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not named:
            raise RuntimeError("DistributedDataParallel: no parameter of the module requires a gradient")
        same_everywhere(self.process_group, module)
        self._reducer = Reducer(self.process_group, named, bucket_cap_mb, find_unused_parameters)
        for inner in module.modules():
            if not isinstance(inner._parameters, Watched):
                inner.__dict__["_parameters"] = Watched(inner._parameters)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if not (self._is_synchronised and tt.is_grad_enabled()):
            return self.module(*args, **kwargs)
        token = _views.set(self._reducer.begin())
        try:
            return self.module(*args, **kwargs)
        finally:
            _views.reset(token)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, gradients add up on each rank alone; the next backward pass after it averages the sums.

        It is the forward pass that has to be in it.
        """
        former, self._is_synchronised = self._is_synchronised, False
        try:
            yield
        finally:
            self._is_synchronised = former


def same_everywhere(group: Communicator, module: Module) -> None:
    """Give all ranks the parameters and buffers of rank 0. Raises RuntimeError where a rank has others."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    shapes = [(name, tensor.shape, str(tensor.dtype)) for name, tensor in tensors]
    all_shapes = group.gather_objects(shapes)
    for rank, others in enumerate(all_shapes):
        if others != all_shapes[0]:
            unlike = next((a or b for a, b in zip_all(others, all_shapes[0]) if a != b), None)
            raise RuntimeError(
                f"DistributedDataParallel: rank {rank} has another model than rank 0; they differ at {unlike}"
            )
    for _, tensor in tensors:
        if group.size > 1 and tensor.size:
            if not is_writable(tensor) or not tensor._data.flags.c_contiguous:
                tensor._data, tensor._memory = tensor._data.copy(order="C"), None
            group.broadcast(tensor._data)
            tt.mark_written(tensor._data)


def zip_all(first: Sequence[Any], second: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Pairs as long as the longer one; None where the other has ended."""
    for i in range(max(len(first), len(second))):
        yield first[i] if i < len(first) else None, second[i] if i < len(second) else None


# ---- views in the place of parameters

# Of the forward pass that runs; and where `nn.utils.checkpoint` runs a part of it once more, the views of that part.
_views: ContextVar[Views | None] = ContextVar("views", default=None)
_twins: ContextVar[dict[Tensor, Tensor] | None] = ContextVar("twins", default=None)


class Watched(dict[str, Any]):
    """A module's parameters; in a forward pass of DistributedDataParallel, reading one gives the pass's view of it."""

    def __getitem__(self, name: str) -> Any:
        parameter = super().__getitem__(name)
        views = _views.get()
        return parameter if views is None else views.of(parameter)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 (which would ask itself)


class Views:
    """The views of one forward pass, and the gradients that arrive at them in the backward pass."""

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer
        self._nodes: dict[Tensor, weakref.ref[Any]] = {}  # of views, by the parameter, while they are used
        self.forget()

    def forget(self) -> None:
        """Begin anew: nothing has arrived."""
        self.buckets: list[Bucket] = []
        self.next = 0  # the first bucket that is not being added up
        self.arrived: dict[int, Any] = {}

    def of(self, parameter: Any) -> Any:
        """What stands for a parameter in this pass."""
        place = self._reducer.places.get(parameter)
        if place is None:
            return parameter
        known = self._nodes.get(parameter)
        node = None if known is None else known()
        if node is None:
            view = tt.reshape(parameter, parameter.shape)
            view.register_hook(partial(self._arrive, place))
            self._nodes[parameter] = weakref.ref(view._node)
            return view
        return _twin(parameter) if state.recomputing and node.recomputation is not None else wrap(parameter._data, node)

    def _arrive(self, place: int, gradient: Tensor) -> None:
        if gradient.requires_grad:
            raise NotImplementedError("DistributedDataParallel: second derivatives do not go through the mean")
        self.arrived[place] = gradient._data
        self._reducer.put(self, place, gradient._data)


def _twin(parameter: Tensor) -> Tensor:
    """A view that was made in a part which runs once more is made once more, too, so that the part has the same ops."""
    twins = _twins.get()
    if twins is None:
        _twins.set(twins := {})
    if parameter not in twins:
        twins[parameter] = tt.reshape(parameter, parameter.shape)
    return twins[parameter]


class Reducer:
    """Adds up gradients over ranks, bucket after bucket, in the same order on every rank.

    Attributes:
        places: of the parameters, by the parameter.
    """

    def __init__(
        self, group: Communicator, named: Sequence[tuple[str, Any]], cap_mb: float, finds_unused: bool
    ) -> None:
        self.group, self.finds_unused = group, finds_unused
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.places = {parameter: place for place, parameter in enumerate(self.parameters)}
        self._cap_mb, self._has_seen_order = cap_mb, False
        self._assign(reversed(range(len(named))))  # a guess: the last layers have their gradients first
        self._passes: list[Views] = []  # with gradients that have arrived
        self._means: dict[int, tuple[Any, Any]] = {}  # by place, until collected: the mean, and what it is the mean of
        for place, parameter in enumerate(self.parameters):
            parameter.register_hook(partial(self._collect, place))

    def _assign(self, order: Iterable[int]) -> None:
        self.assigned = assigned(self.parameters, order, self._cap_mb)
        self.where = {place: (b, i) for b, places in enumerate(self.assigned) for i, place in enumerate(places)}

    def begin(self) -> Views:
        """The views for a forward pass. What a backward pass has left that ended in an error is forgotten."""
        for views in self._passes:
            views.forget()
        self._passes, self._means = [], {}
        return Views(self)

    def put(self, views: Views, place: int, gradient: Any) -> None:
        """A gradient has arrived. It joins what `no_sync` has left in the parameter's `.grad`."""
        if not views.buckets:
            self._passes.append(views)
            views.buckets = [Bucket([self.parameters[i] for i in places]) for places in self.assigned]
        parameter = self.parameters[place]
        if parameter.grad is not None:
            gradient, parameter.grad = gradient + parameter.grad._data, None
        b, i = self.where[place]
        views.buckets[b].put(i, gradient)
        self._reduce(complete=True)
        self.group.poke()

    def _reduce(self, *, complete: bool) -> None:
        """Begin to add up the next buckets; where `complete` is asked for, up to the first that lacks a gradient.

        It is the order that has to be the same on all ranks, also where one lacks what another has.
        """
        for views in self._passes:
            while views.next < len(views.buckets):
                if complete and views.buckets[views.next].missing:
                    return
                views.buckets[views.next].reduce(self.group)
                views.next += 1

    def _collect(self, place: int, gradient: Tensor) -> Tensor | None:
        """The mean in the place of a parameter's gradient: the engine has come to the leaves, so all has arrived."""
        if self._passes:
            self._finish()
        if place not in self._means:
            return None  # of a backward pass within no_sync, or one that is not through the module
        mean, own = self._means.pop(place)
        array = gradient._data
        xp = for_array(array)
        if own is None or xp.storage(array) != xp.storage(own):  # the parameter is also used beside the module
            rest = xp.copy(array) if own is None else array - own
            self.group.all_reduce(rest).wait()
            mean = mean + rest * (1 / self.group.size)
        return wrap(mean.astype(array.dtype, copy=False), None)

    def _finish(self) -> None:
        """See that all buckets of all passes are added up, the gradients that did not arrive counting as 0."""
        passes = self._passes
        used = np.array([any(i in views.arrived for views in passes) for i in range(len(self.names))], np.float64)
        unused = [i for i in range(len(self.names)) if not used[i]]
        if unused and not self.finds_unused:
            self._passes = []
            raise self._unused(unused)
        self._reduce(complete=False)
        self._passes = []
        if self.finds_unused:
            self.group.all_reduce(used).wait()
        for views in passes:
            for bucket in views.buckets:
                bucket.wait(self.group.size)
        self._means = {place: self._mean_of(place, passes) for place in range(len(self.names))}
        if not self._has_seen_order:
            self._has_seen_order = True
            seen = [*passes[0].arrived, *(i for i in range(len(self.names)) if i not in passes[0].arrived)]
            self._assign(self.group.broadcast_object(seen))
        for views in passes:
            views.forget()
        for place in unused:
            parameter, (mean, _) = self.parameters[place], self._means[place]
            if used[place]:  # on another rank
                mean, self._means[place] = mean.astype(parameter.dtype, copy=False), (mean * 0, None)
                parameter.grad = wrap(mean, None) if parameter.grad is None else parameter.grad + wrap(mean, None)

    def _mean_of(self, place: int, passes: Sequence[Views]) -> tuple[Any, Any]:
        b, i = self.where[place]
        means = [views.buckets[b].views[i] for views in passes]
        own = [views.arrived[place] for views in passes if place in views.arrived]
        return sum(means[1:], means[0]), sum(own[1:], own[0]) if own else None

    def _unused(self, places: Sequence[int]) -> RuntimeError:
        names = ", ".join(self.names[place] for place in places[:5]) + (", ..." if len(places) > 5 else "")
        return RuntimeError(
            f"DistributedDataParallel: no gradient arrived for {names}: the forward pass on rank {self.group.rank} did "
            "not use them, or did not read them from their modules. find_unused_parameters=True lets parameters be "
            "unused; requires_grad=False leaves them out"
        )
