"""The forward and the backward pass of a training step as one call, which a GPU can repeat without the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import may_be_faster

from .module import Module


def compile_step(function: Callable[..., Any], model: Module, *, warn: bool = True) -> CompiledStep:
    """A function that computes what `function` does, and adds the gradient of its first result to each `.grad`.

        def loss_of(source, target_in, target_out):
            logits = model(source, target_in)
            return F.cross_entropy(logits.flatten(0, 1), target_out.flatten())

        step = nn.compile_step(loss_of, model)
        for batch in batches:
            optimizer.zero_grad()
            loss = step(*batch)
            optimizer.step()

    On the CPU that is all it does. On a GPU, where starting kernels one by one from Python takes longer than most of
    them run, it records in its second call which kernels inputs of one shape lead to, and launches them all at once
    from the third on (a CUDA graph). The numbers are the same, dropout's too. What Python does in between is *not*
    repeated: prints, counters and branches are those of the call that was recorded. `optimizer.step()` and the clipping
    of gradients stay outside.

    A step that cannot be recorded is computed op by op, with one warning, and `why_not` says why: numbers are read
    (`item()`, `if loss > 1`) or arrays moved from the CPU within it, a module or a parameter has a hook, a buffer is
    put in place of another.

    What changes from step to step has to be an input; up to 32 shapes of inputs are recorded. The step looks at the
    model, and at modules and Tensors that `function` names itself, and records anew when one of them was replaced;
    Tensors that it reaches in other ways, in a list, say, have to stay where they are.

    Args:
        function: called with the step's inputs, Tensors and constants; returns a loss of one element, or a tuple that
            begins with it. It calls no `backward` itself.
        model: the module whose parameters the loss depends on. Others that it depends on get no gradient.
        warn: False leaves out the warning.

    Raises TypeError if `model` is no Module, or if `function` returns anything else than Tensors.
    """
    if not isinstance(model, Module):
        raise TypeError(f"compile_step: expected a Module as model, got {type(model).__name__}")
    return CompiledStep(function, model, warn)


class CompiledStep:
    """What `compile_step` returns.

    Attributes:
        function, model, warn: as given.
        why_not: why the last call was computed op by op where a GPU might have repeated it; None if nothing was amiss.
    """

    def __init__(self, function: Callable[..., Any], model: Module, warn: bool) -> None:
        self.function, self.model, self.warn = function, model, warn
        self.why_not: str | None = None
        self.recorded: Any = None  # what its faster way remembers

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "recorded": None}  # copies record for themselves

    @may_be_faster
    def __call__(self, *inputs: Any) -> Any:
        """The results of `function`, without a graph."""
        return self.op_by_op(*inputs)

    def op_by_op(self, *inputs: Any) -> Any:
        """Forward and backward as they stand in the textbook."""
        loss, *_others = results = as_tuple(given := self.function(*inputs))
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        for parameter, gradient in zip(parameters, tt.grad(loss, parameters, allow_unused=True)):
            if gradient is not None:
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        detached = tuple(result.detach() for result in results)
        return detached if isinstance(given, tuple) else detached[0]


def as_tuple(given: Any) -> tuple[Tensor, ...]:
    """The results of a step's function, of which the first is the loss. Raises TypeError unless they are Tensors."""
    results = given if isinstance(given, tuple) else (given,)
    for result in results:
        if not isinstance(result, Tensor):
            raise TypeError(
                f"compile_step: the function has to return a loss, or a tuple of Tensors that begins with it; "
                f"got {type(given).__name__ if result is given else f'a tuple with a {type(result).__name__}'}"
            )
    if not results or results[0].size != 1:
        shape = results[0].shape if results else "an empty tuple"
        raise ValueError(f"compile_step: the first result has to be a loss of one element, got {shape}")
    return results
