"""A step of a language model: a layer as one compiled loop, where no gradient is wanted.

`Layer.forward` goes this way for few rows and a cache; `decoding.py` beside it says what must not be asked for.
All else goes through the layer's own lines.
"""

from __future__ import annotations

import functools
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tinytensor import Tensor
from tinytensor.backend import for_array
from tinytensor.tensor import wrap

from ..decoder_cache import LayerCache
from ..feed_forward import FeedForward
from ..language_layer import Layer
from ..layers import LayerNorm, Linear, RMSNorm
from ..self_attention import Rotation, SelfAttention
from .decoding import Plan, arrays_of, fit, nobody_looks
from .plain import is_plain

MOST_ROWS = 256
"""Of more rows, products are divided among the cores, and the interpreter's share is small."""

ACTIVATIONS = {
    "bilinear": "identity", "glu": "sigmoid", "reglu": "relu", "geglu": "gelu", "geglu_tanh": "gelu_tanh",
    "swiglu": "silu",
}  # fmt: skip
"""What the loops call the function within each gated network; that of a plain one has its name."""

_plans: WeakKeyDictionary[LayerCache, Plan] = WeakKeyDictionary()


def step(layer: Layer, x: Tensor, mask: Any, rotation: Rotation | None, cache: LayerCache | None = None) -> Any:
    """What `Layer.forward` gives; None where that is to be gone through."""
    if cache is None or not nobody_looks(x) or x._data.ndim != 3 or x._data.size > MOST_ROWS * x._data.shape[2]:
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
    angles = _angles(rotation, batch, branches, block.head_dim, array.dtype)
    if added is None or angles is None or not _is_kept(cache, (batch, block.kv_size), array.dtype):
        return None
    return wrap(block.step(array, cache.grow(places + branches)._data, places, *added, angles), None)


def _block(layer: Layer, x: Any, loops: Any) -> Any:
    """The layer as the loop takes it; None where it computes something else."""
    attention, network, norms = layer.self_attn, layer.feed_forward, (layer.norm1, layer.norm2)
    if not is_plain(attention, SelfAttention) or not is_plain(network, FeedForward) or attention.q_norm is not None:
        return None
    maps = attention.in_proj, attention.out_proj, network.up, network.down, network.gate
    kind = RMSNorm if isinstance(layer.norm1, RMSNorm) else LayerNorm
    if not all(is_plain(each, Linear) for each in maps if each is not None) or not all(
        is_plain(n, kind) for n in norms
    ):
        return None
    d, inner, size = x.shape[2], network.up.out_features, attention.head_dim
    width = attention.num_heads * size
    shapes = (width + attention.kv_size, d), (d, width), (inner, d), (d, inner), (inner, d), (d,), (d,)
    pairs = [(None, None) if each is None else arrays_of(each) for each in (*maps, *norms)]
    if not all(
        fit(pair, x.dtype, *shape) for pair, shape, each in zip(pairs, shapes, (*maps, *norms)) if each is not None
    ):
        return None
    least = float(np.finfo(x.dtype).eps)
    return loops.Block(
        [array for pair in pairs for array in pair], attention.num_heads, attention.num_kv_heads, attention._scale,
        attention.pairing == "interleaved", ACTIVATIONS.get(network.activation, network.activation), kind is RMSNorm,
        tuple(least if norm.eps is None else norm.eps for norm in norms),
    )  # fmt: skip


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


def _angles(rotation: Rotation | None, batch: int, branches: int, size: int, dtype: Any) -> tuple[Any, ...] | None:
    """cos and sin for each row, (batch * branches, size / 2), None each without a rotation; None for other angles."""
    if rotation is None:
        return None, None
    found = []
    for angle in rotation:
        array = angle._data
        if angle._node is not None or type(array) is not np.ndarray or array.dtype != dtype or array.ndim > 4:
            return None
        array = array.reshape((1,) * (4 - array.ndim) + array.shape)
        if array.shape[1] != 1 or array.shape[0] not in (1, batch) or array.shape[2:] != (branches, size // 2):
            return None
        every = np.broadcast_to(array[:, 0], (batch, branches, size // 2))
        found.append(np.array(every, order="C").reshape(-1, size // 2))
    return tuple(found)


own_forward = Layer.forward


@functools.wraps(own_forward)
def _forward(self: Layer, x: Tensor, mask: Any, rotation: Rotation | None, cache: LayerCache | None = None) -> Tensor:
    out = step(self, x, mask, rotation, cache) if type(self) is Layer else None
    return own_forward(self, x, mask, rotation, cache) if out is None else out


Layer.forward = _forward  # type: ignore[method-assign]
