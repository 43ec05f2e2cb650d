"""A layer of a language model as one op, of `sublayers.py`, where whole sequences go through it.

`Layer.forward` goes this way where the loops are there and nothing unusual is asked for, as `transformer.py` says. With
a cache it goes that of `language_layer.py`.
"""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from ..decoder_cache import LayerCache
from ..language_layer import Layer
from ..layers import RMSNorm
from ..self_attention import Rotation
from .attention_blocks import is_long
from .language_layer import LAYERS, angles_of, eps_of, parts_of, step
from .plain import is_plain
from .sublayers import NOTHING, AttendToItself, Feed, FeedGated, _sublayers, as_added, dropping_of, loops_for, sooner


def run(layer: Layer, x: Tensor, mask: Any, rotation: Rotation | None, cache: LayerCache | None = None) -> Any:
    """What `Layer.forward` gives; None where that is to be gone through."""
    if cache is not None or (room := loops_for(x)) is None or not is_plain(layer, Layer):
        return None
    attention, network, drop = layer.self_attn, layer.feed_forward, layer.dropout
    modules = parts_of(layer, x._data)
    if modules is None or (network.dropout.training and network.dropout.p > 0):
        return None
    batch, length, _ = x.shape
    sizes = batch, attention.num_heads, length, length
    weights = [module.weight for module in modules if module is not None]
    added, angles = _added(mask, x), angles_of(rotation, 1, length, attention.head_dim, x.dtype)
    if (
        added is None
        or angles is None
        or is_long(length, length, "cpu")
        or not room.pay_for(batch * length, *weights)
        or not (added[0] is None or room.takes_mask(added[0]._data, *sizes))
    ):
        return None
    dropping, p = dropping_of(3), layer.dropout.p
    by_size, (first, second) = type(layer.norm1) is RMSNorm, (eps_of(norm, x) for norm in (layer.norm1, layer.norm2))
    attend = AttendToItself(
        attention.num_heads, attention.num_kv_heads, attention._scale, first, by_size,
        None if rotation is None else (*angles, attention.pairing),
        (dropping(attention.dropout, attention.training), dropping(p, drop.training)),
    )  # fmt: skip
    droppings, name = (NOTHING, dropping(p, drop.training)), network.activation
    if network.gate is None:
        feed: Any = Feed(second, True, droppings, name, by_size)
    else:
        feed = FeedGated(second, droppings, name, by_size)
    in_proj, out_proj, up, down, gate, norm1, norm2 = modules
    parts = in_proj, out_proj, norm1, gate, up, down, norm2
    arrays = [a for module in parts if module is not None for a in (module.weight, module._parameters.get("bias"))]
    return _sublayers(x, None, added[0], None, *arrays, plan=(attend, feed), hides=(added[1], False))


def _added(mask: Any, x: Tensor) -> tuple[Any, bool] | None:
    """What a mask adds to scores, of four dimensions, and whether that is 0 and -inf alone.

    None where somebody wants its gradient.
    """
    if mask is None:
        return None, False
    if not isinstance(mask, Tensor) or mask._node is not None or mask.ndim > 4 or mask.dtype not in (bool, x.dtype):
        return None
    return as_added(tt.reshape(mask, (1,) * (4 - mask.ndim) + mask.shape), x)


def either(layer: Layer, x: Tensor, mask: Any, rotation: Rotation | None, cache: LayerCache | None = None) -> Any:
    """What `Layer.forward` gives, for whole sequences or from a cache; None where that is to be gone through."""
    return (run if cache is None else step)(layer, x, mask, rotation, cache)


Layer.forward.faster = sooner(Layer, LAYERS, Layer.forward, either)  # type: ignore[attr-defined]
