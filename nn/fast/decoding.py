"""A step of decoding: all layers of a decoder in one compiled loop, where no gradient is wanted.

`TransformerDecoder.step` goes this way where the loop of `tinytensor/fast/decoding.py` is there and nothing unusual is
asked for: layers of these very classes without hooks, norms before or behind, ReLU or GELU, no dropout at work, float32
or float64, nobody who watches. All else goes through the layers' own `step`.
"""

from __future__ import annotations

import functools
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tinytensor import Tensor
from tinytensor.backend import for_array
from tinytensor.modes import state
from tinytensor.tensor import wrap

from ..attention import MultiheadAttention
from ..decoder_cache import DecoderCache
from ..functional.activations import gelu, relu
from ..functional.attention import watch
from ..functional.precision import autocast
from ..layers import Dropout, LayerNorm, Linear
from ..module import Module
from ..self_attention import SelfAttention
from ..transformer import TransformerDecoder, TransformerDecoderLayer
from .plain import is_plain

FLOATS = (np.dtype("float32"), np.dtype("float64"))

LAYER: dict[str, type[Module]] = {
    "self_attn": MultiheadAttention, "multihead_attn": MultiheadAttention, "linear1": Linear, "linear2": Linear,
    "norm1": LayerNorm, "norm2": LayerNorm, "norm3": LayerNorm,
    "dropout": Dropout, "dropout1": Dropout, "dropout2": Dropout, "dropout3": Dropout,
}  # fmt: skip
"""The modules of a decoder layer, unless somebody put others in their place."""


class Plan:
    """What was found out about a module at the first step from a cache; each step asks whether it still holds.

    Attributes:
        module: of which it tells.
        taken: the module as a loop takes it; None where it computes something else.
    """

    def __init__(self, module: Module) -> None:
        self.module, modules = module, list(module.modules())
        self.hooks = [hooks for m in modules for hooks in (m._forward_hooks, m._forward_pre_hooks)]
        self.dropping = [m for m in modules if _drops(m)]
        owned: list[dict[str, Any]] = [m._parameters for m in modules]
        self.slots = [(held, name) for held in owned for name, p in held.items() if p is not None]
        self.arrays = [held[name]._data for held, name in self.slots]
        self.taken: Any = None

    def holds(self) -> bool:
        """Whether nobody hooks into a module, nothing is dropped, and the parameters are those arrays still."""
        return (
            not any(self.hooks)
            and not any(m.training for m in self.dropping)
            and all(map(is_, self.arrays, [held[name]._data for held, name in self.slots]))
        )


_plans: WeakKeyDictionary[DecoderCache, Plan] = WeakKeyDictionary()


def step(
    decoder: TransformerDecoder, tgt: Tensor, cache: DecoderCache, tgt_key_padding_mask: Tensor | None = None
) -> Tensor | None:
    """What `TransformerDecoder.step` gives; None where that is to be gone through."""
    if not nobody_looks(tgt) or tgt._data.ndim != 3 or not cache.layers:
        return None
    x = tgt._data
    loops = for_array(x).decoding(x)
    if loops is None or not _is_kept(cache, x, tgt_key_padding_mask):
        return None
    plan = _plans.get(cache)
    if plan is None or plan.module is not decoder or not plan.holds():
        plan = _plans[cache] = Plan(decoder)
        plan.taken = _stack(decoder, x, loops) if plan.holds() else None
    if plan.taken is None or len(decoder.layers) != len(cache.layers):
        return None
    stack, norm = plan.taken
    hidden = loops.as_mask(_extend(cache, x.shape[1], tgt_key_padding_mask), x.dtype)
    memory_hidden = loops.as_mask(None if cache.memory_hidden is None else cache.memory_hidden._data, x.dtype)
    places = cache.layers[0].places
    kept = [layer.grow(places + x.shape[1])._data for layer in cache.layers]
    out = stack.step(x, kept, [layer.memory._data for layer in cache.layers], places, hidden, memory_hidden)
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


def _is_kept(cache: DecoderCache, x: Any, padding: Tensor | None) -> bool:
    """Whether what is kept fits to x and its padding, is as long in each layer, and no gradient is wanted of it."""
    first = cache.layers[0]
    shapes = first.memory._data.shape, first._buffer._data.shape
    if not shapes[0][::2] == shapes[1][::2] == (len(x), 2 * x.shape[2]):
        return False
    for layer in cache.layers:
        for kept, shape in zip((layer.memory, layer._buffer), shapes):
            array = kept._data
            if kept._node is not None or not (array.dtype == x.dtype and array.shape == shape and array.flags.carray):
                return False
        if layer.places != first.places:
            return False
    hidden = cache.hidden
    return (
        (hidden is None or hidden._data.shape[:2] == x.shape[:2])
        and _is_mask(padding, x.shape[:2])
        and _is_mask(cache.memory_hidden, (len(x), 1, 1, shapes[0][1]))
    )


def _is_mask(mask: Tensor | None, shape: tuple[int, ...]) -> bool:
    array = None if mask is None else mask._data
    return array is None or (type(array) is np.ndarray and array.dtype == bool and array.shape == shape)


def _extend(cache: DecoderCache, branches: int, padding: Tensor | None) -> Any:
    """What `DecoderCache.extend` gives and does, on raw arrays."""
    fresh = ~np.eye(branches, dtype=bool)[None]
    if padding is not None:
        fresh = fresh | padding._data[:, None]
    else:
        fresh = np.repeat(fresh, len(cache.layers[0].memory._data), axis=0)
    hidden = fresh if cache.hidden is None else np.concatenate((cache.hidden._data, fresh), axis=2)
    cache.hidden, cache.length = wrap(hidden, None), cache.length + 1
    return hidden[:, None]


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
    layers = [_layer(layer, d, dtype, loops) for layer in decoder.layers]
    norm: Any = decoder.norm
    if not layers or None in layers:
        return None
    end: tuple[Any, Any, float] = (None, None, 0.0)
    if is_plain(norm, LayerNorm) and fit(found := arrays_of(norm), dtype, d):
        end, norm = (*found, norm.eps), None
    return loops.Stack(*map(list, zip(*layers)), end), norm


def _layer(layer: Any, d: int, dtype: Any, loops: Any) -> tuple[list[Any], list[int], list[float]] | None:
    """Arrays, sizes and reals of a layer, as `Stack` takes them; None where its `step` computes something else."""
    if not is_plain(layer, TransformerDecoderLayer) or not (layer.activation is relu or layer.activation is gelu):
        return None
    if not all(is_plain(getattr(layer, name), kind) for name, kind in LAYER.items()):
        return None
    attentions, norms = (layer.self_attn, layer.multihead_attn), (layer.norm1, layer.norm2, layer.norm3)
    if any(attention.has_own_keys or not is_plain(attention.out_proj, Linear) for attention in attentions):
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
    activation = loops.GELU if layer.activation is gelu else loops.RELU
    return (
        [array for pair, _ in pairs for array in pair],
        [inner, *(attention.num_heads for attention in attentions), activation, layer.norm_first],
        [*(attention.scale for attention in attentions), *(norm.eps for norm in norms)],
    )


own_step = TransformerDecoder.step


@functools.wraps(own_step)
def _step(
    self: TransformerDecoder, tgt: Tensor, cache: DecoderCache, tgt_key_padding_mask: Tensor | None = None
) -> Tensor:
    out = step(self, tgt, cache, tgt_key_padding_mask) if type(self) is TransformerDecoder else None
    return own_step(self, tgt, cache, tgt_key_padding_mask) if out is None else out


TransformerDecoder.step = _step  # type: ignore[method-assign]
