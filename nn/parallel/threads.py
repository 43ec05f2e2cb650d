"""Data parallelism on the cores of one machine: parts of a batch side by side, one graph for each.

Threads that share every op must wait after every op for the slowest. A thread with its own part of the batch waits for
the others once per step.
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

from ..inside.watching import watchers

T = TypeVar("T")

WORTH_IT = 10**9  # parameters times tokens; from here on two threads save more time than a second graph costs
MOST_WEIGHTS = 20_000  # parameters per token; with more, adding two gradients costs more than the threads save


def worth_splitting(parameters: Iterable[Tensor], tokens: int) -> bool:
    """True if a batch with `tokens` tokens is faster in two halves: on a CPU, unless the batch or the model is small.

    The answer does not depend on the number of threads, and so neither do the numbers that follow.
    """
    given = list(parameters)
    size = sum(p.size for p in given)
    return all(p.device == "cpu" for p in given) and size * tokens >= WORTH_IT and size <= MOST_WEIGHTS * tokens


def backward_of_sum(losses: Sequence[Callable[[], Tensor]], parameters: Iterable[Tensor]) -> Tensor:
    """Add the gradient of the sum of several losses to `.grad` of the parameters, each loss on its own thread.

        halves = [(x[:32], y[:32]), (x[32:], y[32:])]
        losses = [lambda x=x, y=y: F.mse_loss(model(x), y) / 2 for x, y in halves]
        loss = nn.parallel.backward_of_sum(losses, model.parameters())
        optimizer.step()

    All graphs exist at the same time. Hooks of the parameters see the gradient of each loss, from its thread.
    The results do not depend on the number of threads (`tt.set_num_threads`), not even with dropout: each loss draws
    from its own generator, seeded by the default one. A single loss draws from the default generator itself.

    Args:
        losses: functions without arguments that each return a Tensor of one element. They must not write to anything
            that they share.
        parameters: the Tensors to add gradients to; one that no loss depends on is left alone.

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
    """Add to each parameter's `.grad` the sum of the gradients that follow it in its tuple."""
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
    """Call some functions, each on its own thread with gradients on or off as here, and return their results.

    Calls them one after another, on this thread, if they compute on a GPU, or if it records, listens or watches.
    """
    if device != "cpu" or state.recording is not None or state.told is not None or watchers():
        return [task() for task in tasks]
    return speed.concurrently([partial(_in_modes, state.modes, task) for task in tasks])


def _in_modes(modes: Modes, task: Callable[[], T]) -> T:
    """Call it with this thread in the given modes."""
    former = state.change(**modes)
    try:
        return task()
    finally:
        state.change(**former)
