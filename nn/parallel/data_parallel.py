"""Data parallelism over processes: each computes the gradient of its share of the batch, and all take their mean.

Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".

The engine visits leaves last, so a hook on a parameter would see its gradient only when all others are there, too. So
a module reads a view of each parameter, made on first use. The engine visits the latest nodes first, and the gradient
arrives at the view as soon as nothing can add to it any more. The view's hook copies it into its bucket. A full bucket
is summed over all ranks while the backward pass continues.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_array
from tinytensor.in_place import is_writable
from tinytensor.modes import state
from tinytensor.node import tick, written_since
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

    At the start all ranks get the parameters and buffers of rank 0. All ranks must call `forward` and `backward`
    equally often. `loss.backward()` averages the whole gradient, even if the loss also uses the parameters outside the
    module. The mean of losses over different numbers of tokens is not the loss over all: multiply each by its number
    of tokens and by the number of ranks, and divide by the number of all tokens. Only one thread at a time may use it.

    Buffers that a forward pass writes, such as a BatchNorm's running statistics, are rank 0's on all ranks after it. So
    ranks that evaluate agree, with each other and with the model that rank 0 saves. (PyTorch sends them before the next
    pass.) A pass within `no_sync` or without gradients sends none.

    Args:
        module: the module to train; it becomes `ddp.module`, so the keys of `state_dict` begin with "module.".
        broadcast_buffers: if False, each rank keeps separate buffers.
        process_group: default: all processes, `nn.distributed.world()`.
        bucket_cap_mb: million bytes of gradients to sum at once.
        find_unused_parameters: if True, a parameter that a forward pass does not use counts as having a gradient of 0,
            or, if no rank uses it, keeps its gradient. If False, it is an error.

    Raises RuntimeError if no parameter of the module requires a gradient, or if a rank's parameters or buffers differ
    from rank 0's; `backward` raises it for a parameter that got no gradient. Second derivatives raise
    NotImplementedError.
    """

    def __init__(
        self,
        module: Module,
        *,
        broadcast_buffers: bool = True,
        process_group: Communicator | None = None,
        bucket_cap_mb: float = 25.0,
        find_unused_parameters: bool = False,
    ) -> None:
        super().__init__()
        self.module = module
        self.process_group = world() if process_group is None else process_group
        self.find_unused_parameters = find_unused_parameters
        self.broadcast_buffers = broadcast_buffers
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
        buffers, then = dict(self.module.named_buffers()), tick()
        token = _views.set(self._reducer.begin())
        try:
            result = self.module(*args, **kwargs)
        finally:
            _views.reset(token)
        if buffers and self.broadcast_buffers and self.process_group.size > 1:
            self._send_buffers(buffers, then)
        return result

    def _send_buffers(self, former: dict[str, Tensor], then: int) -> None:
        """Give all ranks those buffers of rank 0 that a rank has written or replaced since a tick of the clock."""
        named = list(self.module.named_buffers())
        new = [b is not former.get(name) or written_since(then, [b._data]) is not None for name, b in named]
        written = np.array(new, np.float64)
        self.process_group.all_reduce(written).wait()
        for (_, buffer), is_written in zip(named, written):
            if is_written and buffer.size:  # into separate memory: the backward pass may need the old values
                buffer._data, buffer._memory = buffer._data.copy(order="C"), None
                self.process_group.broadcast(buffer._data)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, each rank sums its own gradients; the next backward pass after it averages the sums.

        The forward pass must run within it.
        """
        former, self._is_synchronised = self._is_synchronised, False
        try:
            yield
        finally:
            self._is_synchronised = former


def same_everywhere(group: Communicator, module: Module) -> None:
    """Give all ranks the parameters and buffers of rank 0. Raises RuntimeError if they differ."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    shapes = [(name, tensor.shape, str(tensor.dtype)) for name, tensor in tensors]
    all_shapes = group.gather_objects(shapes)
    for rank, others in enumerate(all_shapes):
        if others != all_shapes[0]:
            unlike = next((a or b for a, b in zip_longest(others, all_shapes[0]) if a != b), None)
            raise RuntimeError(
                f"DistributedDataParallel: rank {rank} has another model than rank 0; they differ at {unlike}"
            )
    for _, tensor in tensors:
        if group.size > 1 and tensor.size:
            if not is_writable(tensor) or not tensor._data.flags.c_contiguous:
                tensor._data, tensor._memory = tensor._data.copy(order="C"), None
            group.broadcast(tensor._data)
            tt.mark_written(tensor._data)


# ---- views that replace parameters

# The views of the running forward pass; and those of a part of it that `nn.utils.checkpoint` runs again.
_views: ContextVar[Views | None] = ContextVar("views", default=None)
_twins: ContextVar[dict[Tensor, Tensor] | None] = ContextVar("twins", default=None)


class Watched(dict[str, Any]):
    """A module's parameters; in a forward pass of DistributedDataParallel, reading one returns that pass's view."""

    def __getitem__(self, name: str) -> Any:
        parameter = super().__getitem__(name)
        views = _views.get()
        return parameter if views is None else views.of(parameter)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 (which would recurse)


class Views:
    """The views of one forward pass, and the gradients that arrive at them in the backward pass."""

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer
        self._nodes: dict[Tensor, weakref.ref[Any]] = {}  # of views, by the parameter, while they are used
        self.forget()

    def forget(self) -> None:
        """Start over with no gradients."""
        self.buckets: list[Bucket] = []
        self.next = 0  # the first bucket that is not being added up
        self.arrived: dict[int, Any] = {}

    def of(self, parameter: Any) -> Any:
        """The view that replaces a parameter in this pass, or the parameter itself if it has no place in a bucket."""
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
    """Make a view again for a part that runs again, so that the part has the same ops as before."""
    twins = _twins.get()
    if twins is None:
        _twins.set(twins := {})
    if parameter not in twins:
        twins[parameter] = tt.reshape(parameter, parameter.shape)
    return twins[parameter]


class Reducer:
    """Sums gradients over ranks, bucket after bucket, in the same order on every rank.

    Attributes:
        places: the place of each parameter.
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
        self._passes: list[Views] = []  # those with gradients
        self._means: dict[int, tuple[Any, Any]] = {}  # by place, until collected: the mean, and this rank's gradient
        for place, parameter in enumerate(self.parameters):
            parameter.register_hook(partial(self._collect, place))

    def _assign(self, order: Iterable[int]) -> None:
        self.assigned = assigned(self.parameters, order, self._cap_mb)
        self.where = {place: (b, i) for b, places in enumerate(self.assigned) for i, place in enumerate(places)}

    def begin(self) -> Views:
        """The views for a forward pass. Forgets the gradients of a backward pass that ended in an error."""
        for views in self._passes:
            views.forget()
        self._passes, self._means = [], {}
        return Views(self)

    def put(self, views: Views, place: int, gradient: Any) -> None:
        """Put a gradient, plus what `no_sync` left in the parameter's `.grad`, into its bucket."""
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
        """Begin to sum the next buckets; if `complete`, only those before the first that lacks a gradient.

        All ranks must sum in the same order, even if one lacks a gradient that another has.
        """
        for views in self._passes:
            while views.next < len(views.buckets):
                if complete and views.buckets[views.next].missing:
                    return
                views.buckets[views.next].reduce(self.group)
                views.next += 1

    def _collect(self, place: int, gradient: Tensor) -> Tensor | None:
        """Replace a parameter's gradient by the mean. The engine has come to the leaves: all gradients are here."""
        if self._passes:
            self._finish()
        if place not in self._means:
            return None  # a backward pass within no_sync, or not through the module
        mean, own = self._means.pop(place)
        array = gradient._data
        xp = for_array(array)
        if own is None or xp.storage(array) != xp.storage(own):  # the parameter is also used outside the module
            rest = xp.copy(array) if own is None else array - own
            self.group.all_reduce(rest).wait()
            mean = mean + rest * (1 / self.group.size)
        return wrap(mean.astype(array.dtype, copy=False), None)

    def _finish(self) -> None:
        """Sum all buckets of all passes; gradients that did not arrive count as 0."""
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
