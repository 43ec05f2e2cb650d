"""The base of all schedules: counting, the rates of the groups, and the state to save."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...functional.settings import WithSettings
from ..optimizer import Optimizer


class LRScheduler(WithSettings):
    """The base of all schedulers; your own one writes `get_lr`.

    Args:
        optimizer: the optimiser whose parameter groups get the rates.
        last_epoch: the number of steps already taken; -1 at the beginning. Otherwise every group must have its
            `"initial_lr"`, as groups loaded from a `state_dict` have.

    Attributes:
        base_lrs: the learning rate of each group at the beginning.
        last_epoch: the number of calls of `step`.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(self, optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: group {i} has no 'initial_lr', which is needed to go on from "
                    f"last_epoch {last_epoch}; load the optimizer's state first, or begin with last_epoch=-1"
                )
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self._last_lr: list[float] = []
        self._start(last_epoch)

    def _start(self, last_epoch: int = -1) -> None:
        """Set the initial rates, or with another `last_epoch` those to go on with."""
        self.last_epoch, self._step_count = last_epoch, 0
        self.step()

    def _retake(self) -> None:
        """Repeat the step from when it was made, after others have set the rates."""
        self._start(self.last_epoch - 1)

    def _restart(self) -> None:
        """Begin again from the initial rates, whatever they are now, for a schedule's turn in a `SequentialLR`."""
        self._take_in_new_groups()
        for group, base in zip(self.optimizer.param_groups, self.base_lrs):
            group["lr"] = base
        self._start()

    def _take_in_new_groups(self) -> None:
        """Let groups that have joined the optimiser since follow the schedule, too."""
        groups = self.optimizer.param_groups
        for group in groups[len(vars(self).get("base_lrs", groups)) :]:  # a combination leaves it to its parts
            self._take_in(group)

    def _take_in(self, group: dict[str, Any]) -> None:
        """Give a group that has joined its initial rate; a schedule with more values for each group adds them."""
        self.base_lrs = [*self.base_lrs, float(group.setdefault("initial_lr", group["lr"]))]

    def get_lr(self) -> list[float]:
        """The rate of each group at `last_epoch`, from the present rates or from `base_lrs`."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The last rate set for each group; of one that has joined since, its own."""
        return [*self._last_lr, *self._present()[len(self._last_lr) :]]

    def step(self) -> None:
        """Go on to the next epoch (or step) and set its learning rates."""
        self._take_in_new_groups()
        self._step_count += 1
        self.last_epoch += 1
        rates, groups = self.get_lr(), self.optimizer.param_groups
        if len(rates) != len(groups):
            raise ValueError(
                f"{type(self).__name__}: get_lr gave {len(rates)} rates for {len(groups)} parameter groups"
            )
        for group, lr in zip(groups, rates):
            group["lr"] = lr
        self._last_lr = self._present()

    def _present(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    @property
    def _just_made(self) -> bool:
        """True if the rate is still the one it began or went on with."""
        return self._step_count == 1

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser, as plain values."""
        own = {key: value for key, value in self.__dict__.items() if key != "optimizer"}
        return {**own, "_last_lr": self.get_last_lr()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a `state_dict`, from here or from PyTorch. The rates themselves are the optimiser's state.

        Raises ValueError, and changes nothing, for the state of another kind of scheduler or of other groups.
        """
        self._take_in_new_groups()
        self._check_state(state_dict)
        self._load({key: state_dict[key] for key in self.state_dict()})

    def _check_state(self, state_dict: dict[str, Any]) -> None:
        own = self.state_dict()
        missing = sorted(set(own) - set(state_dict))
        unknown = sorted(key for key in set(state_dict) - set(own) if not key.startswith("_"))
        if missing or unknown:
            raise ValueError(
                f"{type(self).__name__}: load_state_dict: missing: {', '.join(missing) or 'nothing'}; "
                f"not known: {', '.join(unknown) or 'nothing'}"
            )
        groups, saved = len(self.optimizer.param_groups), len(state_dict["_last_lr"])
        if saved != groups:
            raise ValueError(f"{type(self).__name__}: load_state_dict: expected {groups} parameter groups, got {saved}")

    def _load(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def check_optimizer(scheduler: LRScheduler, optimizer: Any) -> None:
    """Raise TypeError unless it is an Optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(scheduler).__name__}: expected an Optimizer, got a {type(optimizer).__name__}")


def in_common(scheduler: LRScheduler, name: str, values: Sequence[Any] = ()) -> Any:
    """The value of all groups, for one that joins them; default: their setting of this name.

    Raises ValueError where they differ.
    """
    first, *others = values or [group[name] for group, _ in zip(scheduler.optimizer.param_groups, scheduler.base_lrs)]
    if any(each != first for each in others):
        raise ValueError(
            f"{type(scheduler).__name__}: a parameter group was added, but the others differ in {name}; give "
            f"one {name} for all, or add the group before you make the schedule"
        )
    return first


def for_each_group(name: str, value: Any, optimizer: Optimizer) -> list[float]:
    """One number for each parameter group, from one number for all or a list.

    Raises ValueError for a list of another length.
    """
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [float(value)] * groups
    if len(value) != groups:
        raise ValueError(f"{name}: got {len(value)} values for {groups} parameter groups")
    return [float(each) for each in value]
