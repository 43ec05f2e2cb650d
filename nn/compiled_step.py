"""The forward and backward pass of a training step as one call, which a GPU can repeat without the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import may_be_faster

from .module import Module


def compile_step(function: Callable[..., Any], model: Module, *, warn: bool = True) -> CompiledStep:
    """A function that computes `function`, and adds the gradient of its first result to each `.grad`.

        def loss_of(source, target_in, target_out):
            logits = model(source, target_in)
            return F.cross_entropy(logits.flatten(0, 1), target_out.flatten())

        step = nn.compile_step(loss_of, model)
        for batch in batches:
            optimizer.zero_grad()
            loss = step(*batch)
            optimizer.step()

    On the CPU that is all it does. On a GPU, launching kernels one by one from Python takes longer than most of them
    run. There the second call records the kernels for inputs of one shape, and later calls launch them all at once (a
    CUDA graph). The numbers are the same, also with dropout. Python code in between is *not* repeated: prints,
    counters and branches are those of the recorded call. `optimizer.step()` and the clipping of gradients stay
    outside.

    A step that cannot be recorded is computed op by op, with one warning, and `why_not` says why: it reads numbers
    (`item()`, `if loss > 1`) or moves arrays from the CPU, a module or a parameter has a hook, or it replaces a
    buffer.

    Everything that changes from step to step must be an input; it records up to 32 shapes of inputs. The step watches
    the model, and modules and Tensors that `function` names itself, and records anew when one of them is replaced;
    Tensors that it reaches in other ways, in a list for example, must stay where they are.

    Args:
        function: called with the step's inputs, Tensors and constants; returns a loss of one element, or a tuple that
            begins with it. It must not call `backward` itself.
        model: the module whose parameters the loss depends on. Other parameters get no gradient.
        warn: if False, do not warn.

    Raises TypeError if `model` is not a Module, or if `function` returns anything but Tensors.
    """
    if not isinstance(model, Module):
        raise TypeError(f"compile_step: expected a Module as model, got {type(model).__name__}")
    return CompiledStep(function, model, warn)


class CompiledStep:
    """The result of `compile_step`.

    Attributes:
        function, model, warn: as given.
        why_not: why the last call ran op by op although a GPU might have repeated it; None if nothing was wrong.
    """

    def __init__(self, function: Callable[..., Any], model: Module, warn: bool) -> None:
        self.function, self.model, self.warn = function, model, warn
        self.why_not: str | None = None
        self.recorded: Any = None  # the state of its faster version

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "recorded": None}  # copies record for themselves

    @may_be_faster
    def __call__(self, *inputs: Any) -> Any:
        """The results of `function`, without a graph."""
        return self.op_by_op(*inputs)

    def op_by_op(self, *inputs: Any) -> Any:
        """Forward and backward as in the textbook."""
        loss, *_others = results = as_tuple(given := self.function(*inputs))
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        for parameter, gradient in zip(parameters, tt.grad(loss, parameters, allow_unused=True)):
            if gradient is not None:
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        detached = tuple(result.detach() for result in results)
        return detached if isinstance(given, tuple) else detached[0]


def as_tuple(given: Any) -> tuple[Tensor, ...]:
    """The results of a step's function, the loss first. Raises TypeError unless they are Tensors."""
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
