"""A step of a language model: self-attention with a cache, and feed-forward networks of few rows, as one loop each.

Where no gradient is wanted and nothing unusual asked for; `decoding.py` beside it says what that is. All else goes
through the modules' own `forward`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tinytensor import Tensor
from tinytensor.backend import for_array
from tinytensor.tensor import wrap

from ..decoder_cache import LayerCache
from ..feed_forward import FeedForward
from ..layers import Linear
from ..self_attention import Rotation, SelfAttention
from .decoding import arrays_of, fit, is_plain, nobody_looks

MOST_ROWS = 128
"""Of more rows, products are divided among the cores, and the interpreter's share is small."""

ACTIVATIONS = {
    "relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELU_TANH", "silu": "SILU", "bilinear": "IDENTITY", "glu": "SIGMOID",
    "reglu": "RELU", "geglu": "GELU", "geglu_tanh": "GELU_TANH", "swiglu": "SILU",
}  # fmt: skip
"""What the loops call the function within each kind of network, plain and gated."""


def attend(
    layer: SelfAttention, x: Tensor, mask: Any = None, rotation: Rotation | None = None, cache: LayerCache | None = None
) -> Tensor | None:
    """What `SelfAttention.forward` gives with a cache; None where that is to be gone through."""
    if cache is None or not nobody_looks(x) or x._data.ndim != 3 or x._data.size > MOST_ROWS * x._data.shape[2]:
        return None
    array = x._data
    batch, branches, d = array.shape
    loops, heads, size = for_array(array).decoding(array), layer.num_heads, layer.head_dim
    into, out = layer.in_proj, layer.out_proj
    parameters = *arrays_of(into), *arrays_of(out)
    if (
        loops is None
        or layer.q_norm is not None
        or layer._dropout_p
        or not is_plain(into, Linear)
        or not is_plain(out, Linear)
        or not fit(parameters[:2], array.dtype, (heads + 2 * layer.num_kv_heads) * size, d)
        or not fit(parameters[2:], array.dtype, d, heads * size)
    ):
        return None
    places = cache.places
    added = _as_added(loops, mask, (batch, heads, branches, places + branches), array.dtype)
    angles = _angles(rotation, batch, branches, size, array.dtype)
    if added is None or angles is None or not _is_kept(cache, (batch, layer.kv_size), array.dtype):
        return None
    kept = cache.grow(places + branches)._data
    is_interleaved = layer.pairing == "interleaved"
    return wrap(
        loops.self_attention(
            array, parameters, kept, places, added, angles, heads, layer.num_kv_heads, layer._scale, is_interleaved
        ),
        None,
    )


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


def _as_added(loops: Any, mask: Any, scores: tuple[int, ...], dtype: Any) -> Any:
    """A mask as the loop adds it to scores (batch, heads, target, source); None where it knows no such mask."""
    if mask is None:
        return loops.as_mask(None, dtype)
    array = mask._data if isinstance(mask, Tensor) and mask._node is None else None
    if type(array) is not np.ndarray or array.ndim > 4 or array.shape[-1:] != scores[-1:]:
        return None
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    if not all(n in (1, size) for n, size in zip(array.shape, scores)):
        return None
    if array.dtype.kind == "b":
        return loops.as_mask(array, dtype)
    return np.ascontiguousarray(array) if array.dtype == dtype else None


def _angles(rotation: Rotation | None, batch: int, branches: int, size: int, dtype: Any) -> Any:
    """cos and sin for each row, (batch * branches, size / 2), empty without a rotation; None for other angles."""
    if rotation is None:
        nothing = np.empty((0, 0), dtype)
        return nothing, nothing
    found = []
    for angle in rotation:
        array = angle._data
        if angle._node is not None or type(array) is not np.ndarray or array.dtype != dtype or array.ndim > 4:
            return None
        array = array.reshape((1,) * (4 - array.ndim) + array.shape)
        if array.shape[1] != 1 or array.shape[0] not in (1, batch) or array.shape[2:] != (branches, size // 2):
            return None
        every = np.broadcast_to(array[:, 0], (batch, branches, size // 2))
        found.append(np.ascontiguousarray(every).reshape(-1, size // 2))
    return tuple(found)


def feed(network: FeedForward, x: Tensor) -> Tensor | None:
    """What `FeedForward.forward` gives for few rows; None where that is to be gone through."""
    if not nobody_looks(x) or x._data.size > MOST_ROWS * x._data.shape[-1]:
        return None
    rows = x._data.reshape(-1, x._data.shape[-1])
    loops, d, gate = for_array(rows).decoding(rows), rows.shape[1], network.gate
    drops = network.dropout.p and network.dropout.training
    if loops is None or drops or not all(is_plain(m, Linear) for m in (network.up, network.down, gate or network.up)):
        return None
    inner = network.up.out_features
    pairs = [arrays_of(network.up), arrays_of(network.down), (None, None) if gate is None else arrays_of(gate)]
    shapes = (inner, d), (d, inner), (inner, d)
    if not all(fit(pair, rows.dtype, *shape) for pair, shape in zip(pairs, shapes[: 2 if gate is None else 3])):
        return None
    activation = getattr(loops, ACTIVATIONS[network.activation])
    parameters = tuple(array for pair in pairs for array in pair)
    return wrap(loops.feed_forward(rows, parameters, activation).reshape(x._data.shape), None)


def sooner(kind: Any, way: Any) -> Any:
    """The `forward` of modules of this very class, with another way in front."""
    own = kind.forward

    @functools.wraps(own)
    def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
        out = way(module, *args, **kwargs) if type(module) is kind else None
        return own(module, *args, **kwargs) if out is None else out

    return forward


SelfAttention.forward = sooner(SelfAttention, attend)  # type: ignore[method-assign]
FeedForward.forward = sooner(FeedForward, feed)  # type: ignore[method-assign]
