"""ZeRO stage 1: each rank keeps only a share of the optimiser's state.

Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", section 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import tinytensor as tt
from tinytensor.backend import for_array

from ..distributed import Communicator, world
from .optimizer import Optimizer


class ZeroRedundancyOptimizer(Optimizer):
    """Wraps another optimiser: each rank takes the steps of some parameters and sends their new values to the others.

        optimizer = nn.optim.ZeroRedundancyOptimizer(model.parameters(), nn.optim.Adam, lr=1e-3)

    The steps are those of the other optimiser to the last bit, if the gradients are the same on all ranks, as after
    `nn.parallel.DistributedDataParallel`. Adam has 8 bytes of state for each float32 parameter, a rank keeps 8 / n;
    a step sends the parameters besides the gradients, half as much again.

    Args:
        params: Tensors or groups of them, the same on every rank.
        optimizer_class: makes the other optimiser.
        process_group: default: all processes, `nn.distributed.world()`.
        defaults: arguments of `optimizer_class`.

    Attributes:
        optim: the other optimiser, with the state of this rank's parameters.
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: Callable[..., Optimizer],
        process_group: Communicator | None = None,
        **defaults: Any,
    ) -> None:
        self._share(optimizer_class(params, **defaults), process_group)

    @classmethod
    def of(cls, optimizer: Optimizer, process_group: Communicator | None = None) -> Self:
        """Share the work and the state of an existing optimiser."""
        shared = cls.__new__(cls)
        shared._share(optimizer, process_group)
        return shared

    def _share(self, optimizer: Optimizer, process_group: Communicator | None) -> None:
        self.optim = optimizer
        self.process_group = world() if process_group is None else process_group
        self._whole: dict[int, Any] | None = None  # by parameter, in order
        self._drop_state_of_others()

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The groups of the other optimiser."""
        return self.optim.param_groups

    @property
    def state(self) -> dict[tt.Tensor, dict[str, Any]]:  # type: ignore[override]
        """The state of this rank's parameters."""
        return self.optim.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The settings for groups that do not name them."""
        return self.optim.defaults

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.optim.add_param_group(param_group)
        self._drop_state_of_others()

    def owners(self) -> dict[tt.Tensor, int]:
        """The rank that takes each parameter's steps: the largest first, each to the rank with the least so far."""
        loads = [0] * self.process_group.size
        owners = {}
        for parameter in sorted(self._parameters(), key=lambda parameter: -parameter.size):
            rank = loads.index(min(loads))
            owners[parameter] = rank
            loads[rank] += parameter.size
        return owners

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, each on its own rank, and send all of them to all ranks."""
        loss = None
        if closure is not None:
            with tt.enable_grad():
                loss = closure()
        self._whole = None
        due = {p: owner for p, owner in self.owners().items() if p.grad is not None}
        others = {p: p.grad for p, owner in due.items() if owner != self.process_group.rank}
        try:
            for parameter in others:
                parameter.grad = None  # the other optimiser skips it
            self.optim.step()
        finally:
            for parameter, gradient in others.items():
                parameter.grad = gradient
        for kind in sorted({(owner, str(p.dtype), p.device) for p, owner in due.items()}):
            self._send(kind[0], [p for p, owner in due.items() if (owner, str(p.dtype), p.device) == kind])
        return loss

    def _send(self, owner: int, parameters: list[tt.Tensor]) -> None:
        """Send all ranks the owner's values of some parameters, as one array."""
        if self.process_group.size == 1:
            return
        xp = for_array(parameters[0]._data)
        flat = xp.concat([xp.reshape(p._data, (-1,)) for p in parameters])
        self.process_group.broadcast(flat, owner)
        if owner != self.process_group.rank:
            start = 0
            with tt.no_grad():
                for p in parameters:
                    p.copy_(tt.asarray(xp.reshape(flat[start : start + p.size], p.shape), device=p.device))
                    start += p.size

    def _drop_state_of_others(self) -> None:
        owners = self.owners()
        for parameter in list(self.optim.state):
            if owners[parameter] != self.process_group.rank:
                del self.optim.state[parameter]

    # ---- saving

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the state of all ranks on rank `to`, for its `state_dict`. All ranks must call it."""
        state: dict[int, Any] = {}
        for rank in range(self.process_group.size):
            own = self.optim.state_dict()["state"]
            sent = {i: {k: _as_array(v) for k, v in entry.items()} for i, entry in own.items()}
            received = self.process_group.broadcast_object(sent if rank == self.process_group.rank else None, rank)
            if self.process_group.rank == to:
                state |= own if rank == to else received
        self._whole = dict(sorted(state.items())) if self.process_group.rank == to else None

    def state_dict(self) -> dict[str, Any]:
        """The whole state, in the other optimiser's layout.

        Raises RuntimeError unless `consolidate_state_dict` collected it on this rank since the last step.
        """
        if self.process_group.size > 1 and self._whole is None:
            raise RuntimeError(
                "ZeroRedundancyOptimizer: each rank has a share of the state; have all ranks call "
                "consolidate_state_dict(to) after the last step, and rank `to` state_dict()"
            )
        own = self.optim.state_dict()
        return own if self._whole is None else {**own, "state": self._whole}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from the whole state; each rank takes its share. Any number of ranks may have written it.

        Raises the errors of the other optimiser.
        """
        self.optim.load_state_dict(state_dict)
        self._whole = None
        self._drop_state_of_others()


def _as_array(value: Any) -> Any:
    return value.numpy() if isinstance(value, tt.Tensor) else value
