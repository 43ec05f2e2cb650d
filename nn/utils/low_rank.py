"""LoRA: a model learns by small additions to its linear maps, whose weights stay as they are (Hu et al. 2021).

y = x Wᵀ + b + (alpha / r) x Aᵀ Bᵀ,   A (r, in), B (out, r),   r far below both
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any, TypeVar

import tinytensor as tt
from tinytensor import Tensor

from .. import functional as F
from .. import init
from ..functional.settings import settings
from ..layers import Linear
from ..module import Module
from ..parameter import Parameter

M = TypeVar("M", bound=Module)


class LoRA(Linear):
    """A linear map and an addition of low rank: y = x Wᵀ + b + (alpha / rank) x Aᵀ Bᵀ.

    Args:
        base: the map. Its weight W and its bias are the parameters here, too, and need no gradient from now on; its
            hooks go on.
        rank: r, the rank of B A.
        alpha: the addition counts alpha / rank times, so that rates need no change with the rank.

    `lora_A` is A, (rank, in_features), drawn as a Linear's weight; `lora_B` is B, (out_features, rank), zeros at first,
    so it begins as the map. Raises ValueError for a rank below 1 and TypeError for what is no Linear.
    """

    def __init__(self, base: Linear, rank: int = 8, alpha: float = 16.0) -> None:
        if type(base) is not Linear:
            raise TypeError(f"LoRA: base must be a Linear, got a {type(base).__name__}")
        if rank < 1:
            raise ValueError(f"LoRA: rank must be at least 1, got {rank}")
        Module.__init__(self)
        self.in_features, self.out_features, self.training = base.in_features, base.out_features, base.training
        self.rank, self.alpha = rank, alpha
        self._forward_hooks, self._forward_pre_hooks = base._forward_hooks, base._forward_pre_hooks
        self.weight = base.weight
        self.register_parameter("bias", base.bias)
        self.requires_grad_(False)
        like: dict[str, Any] = {"dtype": base.weight.dtype, "device": base.weight.device}
        self.lora_A = Parameter(tt.empty((rank, self.in_features), **like))
        self.lora_B = Parameter(tt.empty((self.out_features, rank), **like))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw A anew and set B to zeros."""
        init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        init.zeros_(self.lora_B)

    def forward(self, input: Tensor) -> Tensor:
        added = F.linear(F.linear(input, self.lora_A), self.lora_B)
        return F.linear(input, self.weight, self.bias) + added * (self.alpha / self.rank)

    @tt.no_grad()
    def merge(self) -> Linear:
        """A Linear that computes the same up to rounding: its weight, a new one, is W + (alpha / rank) B A."""
        merged = Linear(0, 0, bias=False)
        merged.in_features, merged.out_features, merged.training = self.in_features, self.out_features, self.training
        merged._forward_hooks, merged._forward_pre_hooks = self._forward_hooks, self._forward_pre_hooks
        merged.weight = Parameter(self.weight + (self.alpha / self.rank) * (self.lora_B @ self.lora_A))
        merged.register_parameter("bias", self.bias)
        return merged

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rank={self.rank}, alpha={self.alpha}"


@settings
def lora(model: M, rank: int = 8, alpha: float = 16.0, targets: str | None = None) -> M:
    """Put a `LoRA` in the place of linear maps of a model, and freeze all other parameters; returns the model.

    Args:
        targets: a regular expression that the paths of the maps contain, such as "in_proj|out_proj"; default: all maps
            that share their weight with nothing, as a projection tied to an embedding does.

    Only `nn.Linear` is a map: `nn.MultiheadAttention` has W^Q, W^K and W^V as a parameter, and of it only `out_proj` is
    one. Raises ValueError for targets that name no map, or one that shares its weight.
    """
    maps = {path: module for path, module in _maps(model).items() if type(module) is Linear}
    uses = Counter(id(parameter) for module in model.modules() for parameter in module._parameters.values())
    alone = [path for path, module in maps.items() if uses[id(module.weight)] == 1]
    chosen = alone if targets is None else [path for path in maps if re.search(targets, path)]
    if shared := [path for path in chosen if path not in alone]:
        raise ValueError(f"lora: {shared[0]} shares its weight with another module; leave it out of targets")
    if not chosen:
        there_are = ", ".join(maps) or "none"
        raise ValueError(f"lora: targets {targets!r} match no path of a linear map; there are {there_are}")
    _replace(model, {maps[path]: LoRA(maps[path], rank, alpha) for path in chosen})
    for name, parameter in model.named_parameters():
        parameter.requires_grad = _is_added(name)
    return model


def lora_state_dict(model: Module) -> dict[str, Tensor]:
    """A and B of all `LoRA` in a model, by path, as `state_dict` has them.

    `load_state_dict(..., strict=False)` of a model on which `lora` put the same ones reads them.
    """
    return {name: tensor for name, tensor in model.state_dict().items() if _is_added(name)}


def merge_lora(model: M) -> M:
    """Put `LoRA.merge()` in the place of each `LoRA` in a model; returns the model, which has its former paths."""
    _replace(model, {module: module.merge() for module in _maps(model).values() if isinstance(module, LoRA)})
    return model


def _maps(model: Module) -> dict[str, Linear]:
    """The linear maps within a model, one in two places under both paths."""
    found = model.named_modules(remove_duplicate=False)
    return {path: module for path, module in found if path and isinstance(module, Linear)}


def _replace(model: Module, others: dict[Linear, Linear]) -> None:
    for path, module in _maps(model).items():
        parent, _, name = path.rpartition(".")
        if module in others:
            setattr(model.get_submodule(parent), name, others[module])


def _is_added(name: str) -> bool:
    return name.rpartition(".")[2] in ("lora_A", "lora_B")
