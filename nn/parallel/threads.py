"""Data parallelism on the cores of one machine: parts of a batch side by side, one graph for each.

Work that is split inside every op meets after every op, and waits each time for the slowest; a thread with a part of
the batch of its own meets the others once in a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.machine import speed
from tinytensor.modes import Modes, state
from tinytensor.random import Generator, using

T = TypeVar("T")

WORTH_IT = 10**9  # parameters times tokens from which on two threads save more time than a second graph costs
MOST_WEIGHTS = 20_000  # parameters for each token; with more, adding up two gradients costs more than is saved


def worth_splitting(parameters: Iterable[Tensor], tokens: int) -> bool:
    """Whether a batch of so many tokens is computed faster in two halves: on a CPU, and unless it is small.

    That does not depend on the number of threads, so that neither the numbers do.
    """
    given = list(parameters)
    size = sum(p.size for p in given)
    return all(p.device == "cpu" for p in given) and size * tokens >= WORTH_IT and size <= MOST_WEIGHTS * tokens


def backward_of_sum(losses: Sequence[Callable[[], Tensor]], parameters: Iterable[Tensor]) -> Tensor:
    """Add the gradient of the sum of several losses to `.grad` of the parameters, each loss on a thread of its own.

        halves = [(x[:32], y[:32]), (x[32:], y[32:])]
        losses = [lambda x=x, y=y: F.mse_loss(model(x), y) / 2 for x, y in halves]
        loss = nn.parallel.backward_of_sum(losses, model.parameters())
        optimizer.step()

    All graphs are there at the same time. Hooks of the parameters see the gradient of each loss, from its thread.
    What is computed does not depend on the number of threads (`tt.set_num_threads`), and neither does dropout: each
    loss draws from a generator of its own, whose seed comes from the default one. A single loss draws from that itself.

    Args:
        losses: functions without arguments, each of which gives a Tensor of one element. They must not write to
            anything that they share.
        parameters: whose `.grad` is filled; one that no loss depends on is passed over.

    Returns the sum of the losses, 0-d, without a graph. Raises ValueError for no losses.
    """
    if not losses:
        raise ValueError("backward_of_sum: no losses were given; expected a list of functions")
    wanted = [p for p in parameters if p.requires_grad]
    generators: list[Generator | None] = [None]
    if len(losses) > 1:
        generators = [Generator(int(seed)) for seed in tt.random.integers(2**62, shape=len(losses)).numpy()]
    tasks = [partial(_gradients, loss, generator, wanted) for loss, generator in zip(losses, generators)]
    device = "gpu" if any(p.device != "cpu" for p in wanted) else "cpu"
    found = side_by_side(tasks, device)
    of_each = list(zip(wanted, *(gradients for _, gradients in found)))
    if len(losses) == 1:
        _add_up(of_each)
    else:
        side_by_side([partial(_add_up, of_each[i :: len(losses)]) for i in range(len(losses))], device)
    with tt.no_grad():
        return tt.reshape(sum((loss for loss, _ in found[1:]), found[0][0]), ())


def _gradients(
    loss_of: Callable[[], Tensor], generator: Generator | None, wanted: list[Tensor]
) -> tuple[Tensor, Sequence[Any]]:
    with nullcontext() if generator is None else using(generator):
        loss = loss_of()
        return loss.detach(), tt.grad(loss, wanted, allow_unused=True)


def _add_up(of_each: Sequence[tuple[Any, ...]]) -> None:
    """Add to `.grad` of some parameters the sum of the gradients that stand beside each."""
    for parameter, *gradients in of_each:
        total = None
        for gradient in gradients:
            if total is None:
                total = gradient
            elif gradient is not None:
                total._data += gradient._data
        if total is not None:
            parameter.grad = total if parameter.grad is None else parameter.grad + total


def side_by_side(tasks: Sequence[Callable[[], T]], device: str = "cpu") -> list[T]:
    """What some functions give, each called on a thread of its own with gradients on or off as they are here.

    One after another where they compute on a GPU, or where what they compute is recorded.
    """
    if device != "cpu" or state.recording is not None or state.told is not None:
        return [task() for task in tasks]
    return speed.concurrently([partial(_in_modes, state.modes, task) for task in tasks])


def _in_modes(modes: Modes, task: Callable[[], T]) -> T:
    """Call it in the given modes of whichever thread this is."""
    former = state.change(**modes)
    try:
        return task()
    finally:
        state.change(**former)
