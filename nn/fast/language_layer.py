"""A step of a language model: a layer as one compiled loop, where no gradient is wanted.

`Layer.forward` goes this way for few rows and a cache; `decoding.py` beside it says what must not be asked for.
All else goes through the layer's own lines.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tinytensor import Tensor
from tinytensor.backend import for_array
from tinytensor.fast.texts import Way
from tinytensor.tensor import wrap

from ..decoder_cache import LayerCache
from ..feed_forward import GATES, PLAIN, FeedForward
from ..functional.relative_positions import PAIRINGS
from ..language_layer import Layer
from ..layers import Dropout, LayerNorm, Linear, RMSNorm
from ..self_attention import Rotation, SelfAttention
from .decoding import Plan, arrays_of, fit, is_usual, nobody_looks
from .plain import is_plain
from .sublayers import MODULES, WITHIN

MOST_ROWS = 256
"""Of more rows, products are divided among the cores, and the interpreter's share is small."""

_plans: WeakKeyDictionary[LayerCache, Plan] = WeakKeyDictionary()


def step(layer: Layer, x: Tensor, mask: Any, rotation: Rotation | None, cache: LayerCache | None = None) -> Any:
    """What `Layer.forward` gives; None where that is to be gone through."""
    if (
        cache is None
        or not is_usual(cache)
        or not nobody_looks(x)
        or x._data.ndim != 3
        or x._data.size > MOST_ROWS * x._data.shape[2]
    ):
        return None
    array = x._data
    batch, branches, d = array.shape
    if (loops := for_array(array).decoding(array)) is None:
        return None
    plan = _plans.get(cache)
    if plan is None or plan.module is not layer or not plan.holds():
        plan = _plans[cache] = Plan(layer)
        plan.taken = _block(layer, array, loops) if plan.holds() else None
    if (block := plan.taken) is None or (block.d, block.dtype) != (d, array.dtype):
        return None
    places = cache.places
    added = _as_added(loops, mask, (batch, block.heads, branches, places + branches), array.dtype)
    angles = angles_of(rotation, batch, branches, block.head_dim, array.dtype)
    if added is None or angles is None or not _is_kept(cache, (batch, block.kv_size), array.dtype):
        return None
    return wrap(block.step(array, cache.grow(places + branches)._data, places, *added, angles), None)


def _block(layer: Layer, x: Any, loops: Any) -> Any:
    """The layer as the loop takes it; None where it computes something else."""
    modules, attention, activation = parts_of(layer, x), layer.self_attn, layer.feed_forward.activation
    if modules is None:
        return None
    norms = eps_of(layer.norm1, x), eps_of(layer.norm2, x)
    arrays = [a for module in modules for a in ((None, None) if module is None else arrays_of(module))]
    return loops.Block(
        arrays, attention.num_heads, attention.num_kv_heads, attention._scale, attention.pairing == "interleaved",
        WITHIN.get(activation, activation), type(layer.norm1) is RMSNorm, norms,
    )  # fmt: skip


def parts_of(layer: Layer, x: Any) -> tuple[Any, ...] | None:
    """The linear maps of attention and of the network, of which the last is the gate or None, and the norms.

    None where one of them does not compute what its class says, or not with arrays that loops take, of x's dtype.
    """
    attention, network, norms = layer.self_attn, layer.feed_forward, (layer.norm1, layer.norm2)
    if not is_plain(attention, SelfAttention) or not is_plain(network, FeedForward) or attention.q_norm is not None:
        return None
    if attention.pairing not in PAIRINGS or network.activation not in (PLAIN if network.gate is None else GATES):
        return None
    if not is_plain(layer.dropout, Dropout) or not is_plain(network.dropout, Dropout):
        return None
    maps = attention.in_proj, attention.out_proj, network.up, network.down, network.gate
    kind = RMSNorm if isinstance(layer.norm1, RMSNorm) else LayerNorm
    if not all(is_plain(m, Linear) for m in maps if m is not None) or not all(is_plain(n, kind) for n in norms):
        return None
    d, inner, size = x.shape[2], network.up.out_features, attention.head_dim
    width = attention.num_heads * size
    shapes = (width + attention.kv_size, d), (d, width), (inner, d), (d, inner), (inner, d), (d,), (d,)
    found = *maps, *norms
    fitting = all(m is None or fit(arrays_of(m), x.dtype, *shape) for m, shape in zip(found, shapes))
    return found if fitting else None


def eps_of(norm: Any, x: Any) -> float:
    """What a norm adds to the mean square for x."""
    return float(np.finfo(x.dtype).eps) if norm.eps is None else norm.eps


def _is_kept(cache: LayerCache, expected: tuple[int, int], dtype: Any) -> bool:
    """Whether what is kept has these sizes, and no gradient is wanted of it."""
    buffer = cache._buffer
    array = buffer._data
    return (
        buffer._node is None
        and type(array) is np.ndarray
        and array.dtype == dtype
        and array.shape[::2] == expected
        and array.flags.carray
    )


def _as_added(loops: Any, mask: Any, scores: tuple[int, ...], dtype: Any) -> tuple[Any, bool] | None:
    """What a mask adds to scores (batch, heads, target, source), and whether that are numbers of its own.

    None where the loop knows no such mask.
    """
    if mask is None:
        return loops.as_mask(None, dtype), False
    array = mask._data if isinstance(mask, Tensor) and mask._node is None else None
    if type(array) is not np.ndarray or array.ndim > 4 or array.shape[-1:] != scores[-1:]:
        return None
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    if not all(n in (1, size) for n, size in zip(array.shape, scores)):
        return None
    if array.dtype.kind == "b":
        return loops.as_mask(array, dtype), False
    return (np.array(array, order="C"), True) if array.dtype == dtype else None


def angles_of(rotation: Rotation | None, batch: int, rows: int, size: int, dtype: Any) -> tuple[Any, ...] | None:
    """cos and sin, (batch * rows, size / 2), None each without a rotation; None for angles that loops do not take.

    With a batch of 1, those that all sentences have.
    """
    if rotation is None:
        return None, None
    if not all(isinstance(angle, Tensor) and angle._node is None and angle.ndim <= 4 for angle in rotation):
        return None
    arrays = [angle._data for angle in rotation]
    if any(type(a) is not np.ndarray or a.dtype != dtype for a in arrays) or arrays[0].shape != arrays[1].shape:
        return None
    items, heads, *last = (1,) * (4 - arrays[0].ndim) + arrays[0].shape
    if items not in (1, batch) or heads != 1 or last != [rows, size / 2]:
        return None
    every = (np.broadcast_to(a.reshape(items, *last), (batch, *last)) for a in arrays)
    return tuple([np.array(a, order="C").reshape(batch * rows, -1) for a in every])


LAYERS = Way(
    "layers of language models", "nn.language_layer:Layer.forward", "nn.self_attention:SelfAttention.forward",
    "nn.self_attention:SelfAttention.heads", "nn.feed_forward:FeedForward.forward",
    "nn.decoder_cache:LayerCache.append", "nn.decoder_cache:LayerCache.grow",
    "nn.attention:MultiheadAttention._project", *MODULES,
)  # fmt: skip
