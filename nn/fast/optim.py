"""The optimisers' steps in place, all parameters together in one compiled loop or kernel, or one after the other."""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar, NamedTuple

import tinytensor as tt
from tinytensor.backend import for_array
from tinytensor.fast.texts import Way
from tinytensor.in_place import is_writable
from tinytensor.tensor import wrap

from ..optim.adam import Adam
from ..optim.optimizer import WIDER, Due, Optimizer
from ..optim.sgd import SGD


class Batch(NamedTuple):
    """Parameters that are updated together, since they have their numbers in common.

    Attributes:
        names: of the Tensors that are remembered of each.
        numbers: what their updates compute with.
        parameters: of each the values, the gradient and what is remembered, as arrays of one dtype.
    """

    names: tuple[str, ...]
    numbers: tuple[float, ...]
    parameters: list[list[Any]]


class Step:
    """How the step of an algorithm is taken in place. Calling it takes one, for all parameters that are due.

    A subclass has

        way         the text that it stands for
        kernels     the loop or kernel for a batch, by how many Tensors are remembered of each parameter
        names       (group) -> those of these Tensors, which are 0 at first
        age         (state) -> the part of a state that the numbers follow from
        counted     (age) -> what a state has beside Tensors
        numbers     (group, age) -> what an update computes with, in the order of the loop
        update      (xp, arrays, numbers): updates a parameter, given as its values, gradient and Tensors
    """

    way: ClassVar[Way]
    kernels: ClassVar[dict[int, str]]
    names: Any
    age: Any
    numbers: Any
    update: Any

    def counted(self, age: Any) -> dict[str, Any]:
        return {}

    def __call__(self, optimizer: Optimizer, due: list[Due]) -> None:
        batches: dict[Any, Batch] = {}
        planned = []
        for parameter, state, group in due:
            array, gradient = parameter._data, parameter.grad._data  # type: ignore[union-attr]
            xp, is_own, age = for_array(array), is_writable(parameter), self.age(state)
            batch = batches.get(how := (xp, array.dtype, id(group), age))
            if batch is None:
                batch = batches[how] = Batch(self.names(group), self.numbers(group, age), [])
            if array.dtype in WIDER:
                values, gradient = (xp.contiguous(a.astype(WIDER[array.dtype])) for a in (array, gradient))
            else:
                values = xp.contiguous(array) if is_own else xp.copy(array)
            new = {**state, **self.counted(age)}
            for name in batch.names:
                new[name] = _that_fits(state, name, values, xp)
            arrays = [values, xp.contiguous(gradient), *[new[name]._data for name in batch.names]]
            if array.size:
                batch.parameters.append(arrays)
            planned.append((parameter, array, is_own, arrays, new))
        try:
            self._update_all(batches, sum(p.size for group in optimizer.param_groups for p in group["params"]))
        finally:
            for parameter, array, is_own, (values, *_), new in planned:
                if not is_own:
                    parameter._data, parameter._memory = values.astype(array.dtype, copy=False), None
                elif values is not array:
                    array[...] = values
                if new:
                    optimizer.state[parameter] = new
            tt.mark_written(*[a for _, array, _, arrays, _ in planned for a in (array, *arrays[2:])])

    def _update_all(self, batches: dict[Any, Batch], size: int) -> None:
        """Update the parameters of each batch together, by loops if all parameters have enough elements.

        ZeroRedundancyOptimizer takes the steps of a share, which must have the bits of the whole.
        """
        for (xp, *_), (names, numbers, parameters) in batches.items():
            if not parameters:
                continue
            every = itertools.chain(*parameters)
            if kernel := xp.kernel(self.kernels.get(len(names), ""), *every, size=size):
                kernel(parameters, numbers)
            else:
                for arrays in parameters:
                    self.update(xp, arrays, numbers)


def _that_fits(state: dict[str, Any], name: str, values: Any, xp: Any) -> Any:
    """The arrays of a state under a name, in one piece as the values are; zeros where it has none."""
    if name not in state:
        return wrap(xp.zeros_like(values), None)
    kept = state[name]._data
    if kept.shape != values.shape:
        raise ValueError(f"state {name!r} has shape {kept.shape}, but its parameter {values.shape}")
    whole = xp.contiguous(kept)
    return state[name] if whole is kept else wrap(whole, None)


class AdamStep(Step):
    """Algorithm 1 with the corrections taken out of the arrays (the paper, end of section 2)."""

    way = Way("Adam's step", "nn.optim.adam:Adam.update", "nn.optim.optimizer:Optimizer._step_by_formula")
    kernels: ClassVar[dict[int, str]] = {2: "adam"}

    def names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return Adam.state_names if group["amsgrad"] else Adam.state_names[:2]

    def age(self, state: dict[str, Any]) -> int:
        return state.get("step", 0) + 1

    def counted(self, age: int) -> dict[str, Any]:
        return {"step": age}

    def numbers(self, group: dict[str, Any], age: int) -> tuple[float, ...]:
        lr, weight_decay, eps = float(group["lr"]), float(group["weight_decay"]), float(group["eps"])
        beta1, beta2 = float(group["betas"][0]), float(group["betas"][1])
        correction = math.sqrt(1.0 - beta2**age)
        alpha = lr * correction / (1.0 - beta1**age)
        shrink = 1.0 - lr * weight_decay if group["decoupled_weight_decay"] else 1.0
        penalty = 0.0 if group["decoupled_weight_decay"] else weight_decay
        sign = -1.0 if group["maximize"] else 1.0
        return alpha, beta1, 1.0 - beta1, beta2, 1.0 - beta2, eps * correction, shrink, penalty, sign

    def update(self, xp: Any, arrays: list[Any], numbers: tuple[float, ...]) -> None:
        theta, g, m, v, *largest = arrays
        alpha, beta1, rest1, beta2, rest2, eps, shrink, penalty, sign = numbers
        g = sign * g + penalty * theta if penalty else sign * g
        m *= beta1
        m += rest1 * g
        v *= beta2
        v += rest2 * (g * g)
        for maximum in largest:
            v = xp.maximum(maximum, v, out=maximum)
        theta *= shrink
        theta -= alpha * (m / (xp.sqrt(v) + eps))


class SGDStep(Step):
    """The equations of `SGD`."""

    way = Way("SGD's step", "nn.optim.sgd:SGD.update", "nn.optim.optimizer:Optimizer._step_by_formula")
    kernels: ClassVar[dict[int, str]] = {0: "sgd", 1: "sgd"}

    def names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return SGD.state_names if group["momentum"] else ()

    def age(self, state: dict[str, Any]) -> bool:
        return "momentum_buffer" in state

    def numbers(self, group: dict[str, Any], age: bool) -> tuple[float, ...]:
        share = 1.0 - float(group["dampening"]) if age else 1.0
        sign, nesterov = -1.0 if group["maximize"] else 1.0, float(group["nesterov"])
        return float(group["lr"]), float(group["weight_decay"]), sign, float(group["momentum"]), share, nesterov

    def update(self, xp: Any, arrays: list[Any], numbers: tuple[float, ...]) -> None:
        theta, g, *buffer = arrays
        lr, weight_decay, sign, momentum, share, nesterov = numbers
        direction = g * sign + theta * weight_decay if weight_decay else g * sign
        for b in buffer:
            b *= momentum
            b += direction * share
            direction = direction + b * momentum if nesterov else b
        theta -= direction * lr


STEPS: dict[Any, Step] = {Adam.update: AdamStep(), SGD.update: SGDStep()}
"""By the `update` whose step it takes."""


def step_in_place(optimizer: Optimizer, due: list[Due]) -> bool | None:
    step = STEPS.get(type(optimizer).update)
    if step is None or "update" in vars(optimizer) or not step.way.holds():
        return None
    step(optimizer, due)
    return True


Optimizer._step_by_formula.faster = step_in_place  # type: ignore[attr-defined]
