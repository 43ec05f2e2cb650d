"""Mixed precision: products in 16-bit floats, weights and sums in 32 (Micikevicius et al. 2018).

    scaler = nn.amp.GradScaler()
    for source, target in batches:
        optimizer.zero_grad()
        with nn.amp.autocast():
            loss = F.cross_entropy(model(source), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

The names are those of `torch.amp`. It is meant for GPUs, which have units for 16-bit products that are several times
faster; on the CPU float16 works, slowly. There are no arrays of bfloat16, since neither NumPy nor CuPy has it, but the
CPU can round products to it: `autocast("cpu", "bfloat16")`.
"""

from __future__ import annotations

import math
from contextlib import ContextDecorator
from contextvars import Token
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import may_be_faster

from .functional.precision import autocast as _state
from .functional.settings import WithSettings
from .optim.optimizer import Optimizer
from .utils.clip_grad import are_finite, unscale_


class autocast(WithSettings, ContextDecorator):
    """Within it, linear maps, convolutions and attention use 16-bit floats; softmax, norms and losses use 32-bit ones.

    Parameters stay float32 and get float32 gradients: each use casts them. All other functions compute in the dtypes
    of their inputs. Leave it before `backward`. It is a context manager and a decorator of functions.

    Args:
        device_type: "gpu" or "cpu": cast Tensors of this device.
        dtype: `tt.float16`; or `"bfloat16"` on the CPU: arrays stay float32, and products round their inputs, as after
            `tt.set_float32_matmul_precision("medium")`. Call `backward` within it as well, then its products do.
        enabled: False turns casting off, also within another one.
    """

    def __init__(self, device_type: str = "gpu", dtype: Any = tt.float16, enabled: bool = True) -> None:
        if device_type not in ("cpu", "gpu"):
            raise ValueError(f"autocast: device_type must be 'cpu' or 'gpu', got {device_type!r}")
        self._precision: Any = None  # of products in float32: as it is
        if dtype == "bfloat16" and device_type == "cpu":
            self._precision = "medium" if enabled else "highest"
        elif dtype != tt.float16:
            raise ValueError(f"autocast: dtype must be tt.float16, or 'bfloat16' on the CPU, got {dtype}")
        self._entered = (tt.float16, device_type) if enabled and dtype != "bfloat16" else None
        self._left: list[tuple[Token[Any], str]] = []

    def __enter__(self) -> autocast:
        self._left.append((_state.set(self._entered), tt.get_float32_matmul_precision()))
        if self._precision not in (None, self._left[-1][1]):
            tt.set_float32_matmul_precision(self._precision)
        return self

    def __exit__(self, *exception: object) -> None:
        token, precision = self._left.pop()
        _state.reset(token)
        if precision != tt.get_float32_matmul_precision():
            tt.set_float32_matmul_precision(precision)


class GradScaler(WithSettings):
    """Keeps the gradients of 16-bit computations from vanishing: it scales the loss up, and the gradients down again.

    If gradients are not finite, it skips the step and makes the scale smaller; after many good steps it makes it
    larger (section 3.2 of the paper).

    Args:
        device: that of the parameters, the first argument as in PyTorch; it makes no difference.
        init_scale: the initial factor of the loss.
        growth_factor, backoff_factor: factors of the scale after `growth_interval` good steps, and after a skipped
            step.
        growth_interval: good steps in a row before the scale grows.
        enabled: if False, every method works without scaling.
    """

    def __init__(
        self,
        device: str = "gpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if device not in ("cpu", "gpu"):
            raise ValueError(f"GradScaler: device must be 'cpu' or 'gpu', got {device!r}")
        if init_scale <= 0 or growth_factor <= 1 or not 0 < backoff_factor < 1 or growth_interval < 1:
            raise ValueError(
                "GradScaler: expected init_scale > 0, growth_factor > 1, 0 < backoff_factor < 1 and growth_interval of "
                f"at least 1, got {init_scale}, {growth_factor}, {backoff_factor} and {growth_interval}"
            )
        self.growth_factor, self.backoff_factor, self.growth_interval = growth_factor, backoff_factor, growth_interval
        self.enabled, self._scale = enabled, float(init_scale)
        self._good_steps = 0
        self._finite: dict[Optimizer, bool] = {}  # by optimiser, once its gradients are scaled down
        self._stepped: set[Optimizer] = set()

    @may_be_faster
    def get_scale(self) -> float:
        """The factor of the loss."""
        return self._scale if self.enabled else 1.0

    @may_be_faster
    def scale(self, loss: Tensor) -> Tensor:
        """The loss (or any Tensor) times the scale, in float32."""
        if not self.enabled:
            return loss
        return (tt.astype(loss, tt.float32) if loss.dtype == tt.float16 else loss) * self._scale

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimiser's parameters by the scale, in place: before clipping them, for example.

        Raises RuntimeError if it was already called for this optimiser since the last `update`.
        """
        if not self.enabled:
            return
        if optimizer in self._finite:
            raise RuntimeError("GradScaler: unscale_ was already called for this optimizer since the last update()")
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        unscale_(parameters, self._scale)
        self._finite[optimizer] = are_finite([p.grad for p in parameters])

    def step(self, optimizer: Optimizer) -> Any:
        """The optimiser's step on the true gradients; skipped if one of them is not finite.

        Returns the result of the optimiser's `step`, or None for a skipped step. Raises RuntimeError if it was already
        called for this optimiser since the last `update`.
        """
        if not self.enabled:
            return optimizer.step()
        if optimizer in self._stepped:
            raise RuntimeError("GradScaler: step was already called for this optimizer since the last update()")
        self._stepped.add(optimizer)
        if optimizer not in self._finite:
            self.unscale_(optimizer)
        return optimizer.step() if self._finite[optimizer] else None

    def update(self) -> None:
        """Adapt the scale to the gradients of the steps since the last call."""
        if not self.enabled:
            return
        if not self._finite:
            raise RuntimeError("GradScaler: update() without a step since the last one")
        if all(self._finite.values()):
            self._good_steps += 1
            if self._good_steps == self.growth_interval:
                grown = self._scale * self.growth_factor
                self._scale, self._good_steps = grown if math.isfinite(grown) else self._scale, 0
        else:
            self._scale, self._good_steps = self._scale * self.backoff_factor, 0
        self._finite.clear()
        self._stepped.clear()

    def state_dict(self) -> dict[str, Any]:
        """The state that the next steps depend on, as plain numbers, under PyTorch's names; empty if not enabled."""
        if not self.enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": self._good_steps,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a `state_dict`; raises ValueError for anything else."""
        if not self.enabled:
            return
        expected = set(self.state_dict())
        if set(state_dict) != expected:
            raise ValueError(f"GradScaler: load_state_dict expects {sorted(expected)}, got {sorted(state_dict)}")
        self._scale = float(state_dict["scale"])
        self.growth_factor, self.backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self.growth_interval, self._good_steps = state_dict["growth_interval"], state_dict["_growth_tracker"]
