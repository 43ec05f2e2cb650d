"""The error for a loss or a gradient that became infinite or NaN: it names the op that caused it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tinytensor as tt
from tinytensor import Tensor, nn


class NotFiniteError(RuntimeError):
    """The loss or a gradient became infinite or NaN; the message names the first op that caused it."""


def check_finite(step: int, loss: Tensor, norm: Tensor) -> None:
    """Raise NotFiniteError unless the loss of a step and the norm of its gradient are finite numbers."""
    values = loss.item(), norm.item()
    if not all(map(math.isfinite, values)):
        raise NotFiniteError(f"the loss is {values[0]} and the gradient's norm {values[1]} at step {step}")


def explain(
    step: int, loss: Tensor, norm: Tensor, model: nn.Module, repeat: Callable[[], Any]
) -> NotFiniteError | None:
    """Why the loss of a step or the norm of its gradient is not finite; None if both are.

    Args:
        repeat: computes loss and gradients again, with the same random numbers; every op in it is checked.
    """
    if not math.isfinite(loss.item()):
        fault, unclear = f"the loss is {loss.item()}", f"the loss is {loss.item()} at step {step}, from finite inputs"
    elif not math.isfinite(norm.item()):
        fault = "a gradient is not finite"
        unclear = f"the gradient's norm is {norm.item()} at step {step}, from finite results"
    else:
        return None
    for name, parameter in model.named_parameters():
        if not bool(tt.all(tt.isfinite(parameter))):
            return NotFiniteError(
                f"{fault} at step {step}: the optimizer's step before made {name} infinite or NaN; "
                "a lower learning rate may help"
            )
    with tt.detect_anomaly():
        try:
            repeat()
        except FloatingPointError as error:
            return NotFiniteError(f"{fault} at step {step}: {error}")
    return NotFiniteError(f"{unclear} of every op")
