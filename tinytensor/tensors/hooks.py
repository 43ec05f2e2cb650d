"""Looking at gradients on their way: hooks, and keeping the gradient of a Tensor that was computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tinytensor as tt

from ..backend import for_array
from ..messages import describe
from ..node import Node, tick
from ..tensor import Tensor, part_of_tensor, wrap

if TYPE_CHECKING:
    from ..typing import TensorCore
else:
    TensorCore = object


@part_of_tensor
class Hooks(TensorCore):
    """The part of `Tensor` behind `x.register_hook(see)` and `x.retain_grad()`."""

    __slots__ = ()

    def retain_grad(self) -> None:
        """Ask backward to fill `.grad` of this Tensor although it was computed."""
        if self._node is None:
            raise RuntimeError("retain_grad: this Tensor does not require a gradient")
        self._node.retains_grad = True

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Hook:
        """Call `hook(gradient)` when this Tensor's gradient is known; what it returns, if anything, replaces it.

        Writing into the gradient changes nothing: others may share it.
        """
        if self._node is None:
            raise RuntimeError("register_hook: this Tensor does not require a gradient")
        if self._node.hooks is None:
            self._node.hooks = {}
        return Hook(self._node.hooks, hook)


class Hook:
    """The handle of a registered hook: `remove()` takes it away again."""

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks, self._key = hooks, tick()  # a key of its own, never used again
        hooks[self._key] = hook

    def remove(self) -> None:
        self._hooks.pop(self._key, None)


def call(node: Node, g: Any) -> Any:
    """A gradient, a raw array or a Tensor, after the hooks of a node, which may replace it."""
    for hook in list((node.hooks or {}).values()):
        array, source = (g._data, g._node) if isinstance(g, Tensor) else (g, None)
        before = wrap(for_array(array).read_only(array), source)  # the array may be shared
        changed = hook(before)
        if changed is not None:
            if not isinstance(changed, Tensor) or changed.shape != node.shape:
                raise ValueError(
                    f"hook: expected None or a Tensor of shape {tuple(node.shape)}, got "
                    f"{describe(changed) if hasattr(changed, 'dtype') else type(changed).__name__}"
                )
            if changed.device != before.device:
                raise tt.DeviceError(f"hook: the gradient is on {before.device}, what it gave on {changed.device}")
            changed = changed if changed.dtype == node.dtype else tt.astype(changed, node.dtype)
            g = changed if isinstance(g, Tensor) else changed._data
    return g
