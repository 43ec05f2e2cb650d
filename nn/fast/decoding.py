"""A step of decoding: all layers of a decoder in one compiled loop, where no gradient is wanted.

`TransformerDecoder.step` goes this way where the loop of `tinytensor/fast/decoding.py` is there and nothing unusual is
asked for: layers of these very classes without hooks, norms before or behind, ReLU or GELU, no dropout at work, float32
or float64, nobody who watches. All else goes through the layers' own `step`.
"""

from __future__ import annotations

import functools
import itertools
from operator import eq, is_
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tinytensor import Tensor
from tinytensor.backend import for_array
from tinytensor.fast.texts import Way
from tinytensor.modes import state
from tinytensor.tensor import wrap

from ..attention import MultiheadAttention
from ..decoder_cache import DecoderCache, LayerCache
from ..functional.activations import gelu, relu
from ..functional.attention import watch
from ..functional.precision import autocast
from ..layers import Dropout, LayerNorm, Linear
from ..module import Module
from ..self_attention import SelfAttention
from ..transformer import TransformerDecoder, TransformerDecoderLayer
from .plain import is_plain
from .sublayers import ACTIVATIONS, FLOATS, MODULES, sooner

LAYER: dict[str, type[Module]] = {
    "self_attn": MultiheadAttention, "multihead_attn": MultiheadAttention, "linear1": Linear, "linear2": Linear,
    "norm1": LayerNorm, "norm2": LayerNorm, "norm3": LayerNorm,
    "dropout": Dropout, "dropout1": Dropout, "dropout2": Dropout, "dropout3": Dropout,
}  # fmt: skip
"""The modules of a decoder layer, unless somebody put others in their place."""

SETTINGS = {
    "activation", "dropout", "eps", "norm_first", "num_heads", "num_kv_heads", "p", "pairing", "scale", "_scale",
}  # fmt: skip
"""Attributes of modules that a loop computes with."""


class Plan:
    """What was found out about a module at the first step from a cache; each step asks whether it still holds.

    Attributes:
        module: of which it tells.
        taken: the module as a loop takes it; None where it computes something else.
        kept: the arrays of a decoder's cache that were found to fit, and `where` they lie.
    """

    def __init__(self, module: Module) -> None:
        self.module, modules = module, list(module.modules())
        self.hooks = [hooks for m in modules for hooks in (m._forward_hooks, m._forward_pre_hooks)]
        self.dropping = [m for m in modules if _drops(m)]
        self.modules, self.own = modules, [vars(m) for m in modules]
        self.kinds = self._kinds()
        self.parents = [(m._modules, dict(m._modules)) for m in modules if m._modules]
        owned: list[tuple[dict[str, Any], str]] = [(m._parameters, name) for m in modules for name in m._parameters]
        self.slots = [(held, name) for held, name in owned if held[name] is not None]
        self.others = [(held, name) for held, name in owned if held[name] is None]
        self.others += [(vars(m), name) for m in modules for name in SETTINGS.intersection(vars(m))]
        self.found = self._look()
        self.taken: Any = None
        self.kept: list[Any] = []
        self.where: Any = None

    def holds(self) -> bool:
        """Whether nobody hooks into a module, nothing is dropped, and all is as it was found."""
        try:
            now = self._look()
        except (AttributeError, KeyError):  # one of the parameters is gone
            return False
        return (
            not any(self.hooks)
            and not any(m.training for m in self.dropping)
            and all(map(is_, self.found, now))
            and self.kinds == self._kinds()
            and all(itertools.starmap(eq, self.parents))
        )

    def _kinds(self) -> tuple[list[type], list[int]]:
        """The classes of the modules, and how many attributes each has of its own: a method of its own is one more."""
        return list(map(type, self.modules)), list(map(len, self.own))

    def _look(self) -> list[Any]:
        """The arrays of parameters, and settings."""
        return [held[name]._data for held, name in self.slots] + [held[name] for held, name in self.others]

    def knows(self, arrays: list[Any]) -> bool:
        """Whether these arrays of a cache are those that were found to fit."""
        return bool(self.kept) and all(map(is_, self.kept, arrays))


_plans: WeakKeyDictionary[DecoderCache, Plan] = WeakKeyDictionary()


def step(
    decoder: TransformerDecoder, tgt: Tensor, cache: DecoderCache, tgt_key_padding_mask: Tensor | None = None
) -> Tensor | None:
    """What `TransformerDecoder.step` gives; None where that is to be gone through."""
    if not nobody_looks(tgt) or tgt._data.ndim != 3 or not cache.layers:
        return None
    x, layers = tgt._data, cache.layers
    loops = for_array(x).decoding(x)
    if loops is None or not _fits(cache, x, tgt_key_padding_mask):
        return None
    plan = _plans.get(cache)
    if plan is None or plan.module is not decoder or not plan.holds():
        plan = _plans[cache] = Plan(decoder)
        plan.taken = _stack(decoder, x, loops) if plan.holds() else None
    if plan.taken is None or len(decoder.layers) != len(layers) or plan.taken[0].dtype != x.dtype:
        return None
    arrays = _arrays(cache)
    if not plan.knows(arrays) and not _alike(arrays):
        return None
    stack, norm = plan.taken
    hidden = loops.as_mask(_extend(cache, x.shape[1], tgt_key_padding_mask), x.dtype)
    memory_hidden = loops.as_mask(None if cache.memory_hidden is None else cache.memory_hidden._data, x.dtype)
    places = layers[0].places
    if places + x.shape[1] > arrays[1].shape[1]:
        plan.kept = arrays = []  # so that each buffer goes when a larger one is there
    for layer in layers:
        layer.grow(places + x.shape[1])
    arrays = _arrays(cache)
    if not plan.knows(arrays):
        plan.kept, plan.where = arrays, loops.places(*arrays).reshape(-1, 2)
    out = stack.step(x, plan.where, arrays[1].shape[1], arrays[0].shape[1], places, hidden, memory_hidden)
    return wrap(out, None) if norm is None else norm(wrap(out, None))


def nobody_looks(x: Tensor) -> bool:
    """Whether nothing but the result is wanted of a computation, which is one on a processor with floats of ours."""
    array = x._data
    return (
        state.plain is False
        and state.recording is None
        and not state.anomaly
        and watch.see is None
        and autocast.get() is None
        and type(array) is np.ndarray
        and array.dtype in FLOATS
        and array.flags.carray
        and array.size > 0
    )


def _arrays(cache: DecoderCache) -> list[Any]:
    """Of each layer keys and values of the memory, and those of the tree; None where a gradient is wanted of them."""
    kept = [tensor for layer in cache.layers for tensor in (layer.memory, layer._buffer)]
    return [tensor._data if tensor._node is None else None for tensor in kept]


def _alike(arrays: list[Any]) -> bool:
    """Whether all of them are as the loop takes them, and those of each layer like those of the first."""
    if any(array is None for array in arrays):
        return False
    memory, tree = arrays[:2]
    return memory.shape[::2] == tree.shape[::2] and all(
        array.dtype == memory.dtype and array.shape == like.shape and array.flags.carray
        for array, like in zip(arrays, itertools.cycle((memory, tree)))
    )


def _fits(cache: DecoderCache, x: Any, padding: Tensor | None) -> bool:
    """Whether the cache is of items like x, all layers have as many places, and masks are for (batch, branches)."""
    first, hidden, branches = cache.layers[0], cache.hidden, x.shape[:2]
    memory = first.memory._data
    return (
        type(cache) is DecoderCache
        and "extend" not in vars(cache)
        and all(map(is_usual, cache.layers))
        and memory.dtype == x.dtype
        and memory.shape[::2] == (len(x), 2 * x.shape[2])
        and all(layer.places == first.places for layer in cache.layers)
        and (first.places == 0 if hidden is None else hidden._data.shape == (*branches, first.places))
        and _is_mask(padding, branches)
        and _is_mask(cache.memory_hidden, (len(x), 1, 1, memory.shape[1]))
    )


def is_usual(cache: LayerCache) -> bool:
    """True if the cache of a layer is one of this very class, with nothing of its own in its methods' place."""
    return type(cache) is LayerCache and "append" not in vars(cache) and "grow" not in vars(cache)


def _is_mask(mask: Tensor | None, shape: tuple[int, ...]) -> bool:
    array = None if mask is None else mask._data
    return array is None or (type(array) is np.ndarray and array.dtype == bool and array.shape == shape)


def _extend(cache: DecoderCache, branches: int, padding: Tensor | None) -> Any:
    """What `DecoderCache.extend` gives and does, on raw arrays."""
    batch = len(cache.layers[0].memory._data)
    if padding is None:
        fresh = np.broadcast_to(_others(branches), (batch, branches, branches))
    else:
        fresh = _others(branches) | padding._data[:, None]
    hidden = fresh if cache.hidden is None else np.concatenate((cache.hidden._data, fresh), axis=2)
    cache.hidden, cache.length = wrap(hidden, None), cache.length + 1
    return hidden[:, None]


@functools.cache
def _others(branches: int) -> Any:
    """True for each pair of two branches, (branches, branches)."""
    return ~np.eye(branches, dtype=bool)


def _drops(module: Any) -> bool:
    """Whether a module drops something in training."""
    if isinstance(module, Dropout):
        return module.p > 0
    return isinstance(module, (MultiheadAttention, SelfAttention)) and module.dropout > 0


def arrays_of(module: Module, weight: str = "weight", bias: str = "bias") -> tuple[Any, ...]:
    """A module's weight and bias; None for what it does without."""
    found = (module._parameters.get(name) for name in (weight, bias))
    return tuple(None if parameter is None else parameter._data for parameter in found)


def fit(arrays: tuple[Any, ...], dtype: Any, *shape: int) -> bool:
    """Whether a weight of this shape and a bias, or None, are as the loops take them: they would read beside others."""
    return arrays[0] is not None and all(
        a is None or (type(a) is np.ndarray and a.dtype == dtype and a.shape == expected and a.flags.carray)
        for a, expected in zip(arrays, (shape, shape[:1]))
    )


def _stack(decoder: TransformerDecoder, x: Any, loops: Any) -> tuple[Any, Module | None] | None:
    """The layers as the loop takes them for x, and the norm at the end unless it is among them; None for others."""
    d, dtype = x.shape[2], x.dtype
    layers = [_layer(layer, d, dtype) for layer in decoder.layers]
    norm: Any = decoder.norm
    if not layers or None in layers:
        return None
    end: tuple[Any, Any, float] = (None, None, 0.0)
    if is_plain(norm, LayerNorm) and fit(found := arrays_of(norm), dtype, d):
        end, norm = (*found, norm.eps), None
    return loops.Stack(*map(list, zip(*layers)), end), norm


def _layer(layer: Any, d: int, dtype: Any) -> tuple[list[Any], list[int], str, list[float]] | None:
    """Arrays, sizes, activation and reals, as `Stack` takes them; None where the layer computes something else."""
    if not is_plain(layer, TransformerDecoderLayer) or not (layer.activation is relu or layer.activation is gelu):
        return None
    if not all(is_plain(getattr(layer, name), kind) for name, kind in LAYER.items()):
        return None
    attentions, norms = (layer.self_attn, layer.multihead_attn), (layer.norm1, layer.norm2, layer.norm3)
    if any(attention.has_own_keys or not is_plain(attention.out_proj, Linear) for attention in attentions):
        return None
    if any(d % attention.num_heads for attention in attentions):
        return None
    inner = layer.linear1.out_features
    pairs = [
        *((arrays_of(attention, "in_proj_weight", "in_proj_bias"), (3 * d, d)) for attention in attentions),
        *((arrays_of(attention.out_proj), (d, d)) for attention in attentions),
        (arrays_of(layer.linear1), (inner, d)),
        (arrays_of(layer.linear2), (d, inner)),
        *((arrays_of(norm), (d,)) for norm in norms),
    ]
    if not all(fit(pair, dtype, *shape) for pair, shape in pairs):
        return None
    return (
        [array for pair, _ in pairs for array in pair],
        [inner, *(attention.num_heads for attention in attentions), layer.norm_first],
        "gelu" if layer.activation is gelu else "relu",
        [*(attention.scale for attention in attentions), *(norm.eps for norm in norms)],
    )


STEPS = Way(
    "steps of a decoder", "nn.transformer:TransformerDecoder.step", "nn.transformer:TransformerDecoderLayer.step",
    "nn.attention:MultiheadAttention.project", "nn.attention:MultiheadAttention.project_query",
    "nn.attention:MultiheadAttention.attend", "nn.decoder_cache:DecoderCache.extend",
    "nn.decoder_cache:LayerCache.append", "nn.decoder_cache:LayerCache.grow", *MODULES, *ACTIVATIONS,
)  # fmt: skip
TransformerDecoder.step.faster = sooner(TransformerDecoder, STEPS, TransformerDecoder.step, step)  # type: ignore[attr-defined]
