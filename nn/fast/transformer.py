"""The layers and stacks of `nn.transformer` as one op each, of `sublayers.py`.

They go this way where the loops are there and nothing unusual is asked for: attention, ReLU or GELU, float32 or
float64, matrices that are not large, modules of these very classes without hooks, and nobody who watches. All else goes
through the modules' own `forward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tinytensor as tt
from tinytensor.fast.texts import Way

from ..attention import MultiheadAttention
from ..containers import ModuleList
from ..functional.activations import gelu, relu
from ..functional.masks import merge_masks
from ..layers import Dropout, LayerNorm, Linear
from ..transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .attention_blocks import is_long
from .plain import is_plain
from .sublayers import (
    ACTIVATIONS,
    ATTENTION,
    MODULES,
    Attend,
    Feed,
    Normalize,
    _sublayers,
    as_added,
    dropping_of,
    loops_for,
    sooner,
)


def _are_of(weight: Any, bias: Any, *shape: int) -> bool:
    """Whether a weight is of this shape, and a bias, or None, as long: the loops would read beside others."""
    return weight is not None and weight.shape == shape and (bias is None or bias.shape == shape[:1])


def _is_known(norm: Any, d: int) -> bool:
    return is_plain(norm, LayerNorm) and norm.normalized_shape == (d,) and _are_of(norm.weight, norm.bias, d)


def _attends(attention: Any, d: int, layer: Any) -> bool:
    return (
        is_plain(attention, MultiheadAttention)
        and attention.embed_dim == d
        and attention.num_heads == layer.self_attn.num_heads
        and d % attention.num_heads == 0
        and attention.batch_first == layer.self_attn.batch_first
        and not attention.has_own_keys
        and _are_of(attention.in_proj_weight, attention.in_proj_bias, 3 * d, d)
        and is_plain(attention.out_proj, Linear)
        and _are_of(attention.out_proj.weight, attention.out_proj.bias, d, d)
    )


def _is_usual(layer: Any, kind: Any, x: Any, room: Any) -> bool:
    """Whether the layer's `forward` computes just what the op here does."""
    modules, (batch, length, d) = layer._modules, x.shape
    if not is_plain(layer, kind) or not (layer.activation is relu or layer.activation is gelu):
        return False
    first, second = modules["linear1"], modules["linear2"]
    return (
        all(is_plain(module, Dropout) for name, module in modules.items() if name.startswith("dropout"))
        and all(_is_known(module, d) for name, module in modules.items() if name.startswith("norm"))
        and all(_attends(module, d, layer) for name, module in modules.items() if name.endswith("attn"))
        and is_plain(first, Linear)
        and is_plain(second, Linear)
        and _are_of(first.weight, first.bias, len(first.weight), d)
        and _are_of(second.weight, second.bias, d, len(first.weight))
        and room.pay_for(batch * length, first.weight, second.weight, layer.self_attn.in_proj_weight)
    )


def run(layers: Sequence[Any], kind: Any, x: Any, memory: Any, masks: Any, norm: Any = None) -> Any:
    """What layers of a stack give, one after the other, and behind them a norm.

    `masks` are pairs, of an attention mask and a key padding mask, of attention to x and to the memory.
    """
    room = loops_for(x, x if memory is None else memory)
    if room is None or not layers or layers[0]._modules.get("self_attn") is None:
        return None
    if any(not _is_usual(layer, kind, x, room) or _layout(layer) != _layout(layers[0]) for layer in layers):
        return None
    d, (head, batch_first) = x.shape[-1], _layout(layers[0])
    if not batch_first:
        x, memory = (None if a is None else tt.permute_dims(a, (1, 0, 2)) for a in (x, memory))
    source = x if memory is None else memory
    sizes = [(len(x), head, x.shape[1], a.shape[1]) for a in (x, source)[: len(masks)]]
    merged = [merge_masks(padding, mask, size, x) for (mask, padding), size in zip(masks, sizes)]
    fit = all(m is None or (m._node is None and room.takes_mask(m._data, *size)) for m, size in zip(merged, sizes))
    if not fit or len(source) != len(x) or source.shape[-1] != d or is_long(*_longest(sizes), "cpu"):
        return None
    plan, arrays = _plan(layers)
    ends_so = norm is not None and _is_known(norm, d)
    if ends_so:
        plan.append(Normalize(norm.eps))
        arrays += [norm.weight, norm.bias]
    added, hides = zip(*[(None, False) if m is None else as_added(m, x) for m in merged])
    out = _sublayers(x, memory, *added, *[None] * (2 - len(added)), *arrays, plan=tuple(plan), hides=hides)
    out = out if batch_first else tt.permute_dims(out, (1, 0, 2))
    return out if norm is None or ends_so else norm(out)


def _layout(layer: Any) -> tuple[int, bool]:
    return layer.self_attn.num_heads, layer.self_attn.batch_first


def _longest(sizes: Sequence[tuple[int, ...]]) -> tuple[int, int]:
    return max(size[2] for size in sizes), max(size[3] for size in sizes)


def _plan(layers: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """How the sub-layers of these layers go, and their arrays."""
    dropping = dropping_of(6 * len(layers))
    plan: list[Any] = []
    arrays: list[Any] = []
    for layer in layers:
        modules = layer._modules
        names = [name for name in ("self_attn", "multihead_attn") if name in modules]
        for number, name in enumerate(names, 1):
            attention, norm, drop = modules[name], modules[f"norm{number}"], modules[f"dropout{number}"]
            droppings = dropping(attention.dropout, attention.training), dropping(drop.p, drop.training)
            plan.append(Attend(attention.num_heads, attention.scale, number > 1, norm.eps, layer.norm_first, droppings))
            out = attention.out_proj
            arrays += [attention.in_proj_weight, attention.in_proj_bias, out.weight, out.bias, norm.weight, norm.bias]
        last = len(names) + 1
        norm, drop, first, second = (modules[name] for name in (f"norm{last}", f"dropout{last}", "linear1", "linear2"))
        droppings = dropping(layer.dropout.p, layer.dropout.training), dropping(drop.p, drop.training)
        plan.append(Feed(norm.eps, layer.norm_first, droppings, "gelu" if layer.activation is gelu else "relu"))
        arrays += [first.weight, first.bias, second.weight, second.bias, norm.weight, norm.bias]
    return plan, arrays


def encode(
    layer: Any, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
) -> Any:
    """What `TransformerEncoderLayer.forward` gives."""
    if is_causal and src_mask is None:
        return None
    return run([layer], TransformerEncoderLayer, src, None, [(src_mask, src_key_padding_mask)])


def encode_all(
    stack: Any, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
) -> Any:
    """What `TransformerEncoder.forward` gives."""
    if (is_causal and mask is None) or not is_plain(stack.layers, ModuleList):
        return None
    return run(list(stack.layers), TransformerEncoderLayer, src, None, [(mask, src_key_padding_mask)], stack.norm)


def decode(
    layer: Any,
    tgt: Any,
    memory: Any,
    tgt_mask: Any = None,
    memory_mask: Any = None,
    tgt_key_padding_mask: Any = None,
    memory_key_padding_mask: Any = None,
    tgt_is_causal: bool | None = False,
    memory_is_causal: bool = False,
) -> Any:
    """What `TransformerDecoderLayer.forward` and `TransformerDecoder.forward` give."""
    if (tgt_is_causal and tgt_mask is None) or (memory_is_causal and memory_mask is None):
        return None
    masks = [(tgt_mask, tgt_key_padding_mask), (memory_mask, memory_key_padding_mask)]
    if type(layer) is TransformerDecoderLayer:
        return run([layer], TransformerDecoderLayer, tgt, memory, masks)
    if not is_plain(layer.layers, ModuleList):
        return None
    return run(list(layer.layers), TransformerDecoderLayer, tgt, memory, masks, layer.norm)


STACKS = Way(
    "stacks of Transformer layers", "nn.transformer:TransformerEncoderLayer.forward",
    "nn.transformer:TransformerDecoderLayer.forward", "nn.transformer:TransformerEncoder.forward",
    "nn.transformer:TransformerDecoder.forward", *MODULES, *ATTENTION, *ACTIVATIONS,
)  # fmt: skip
for kind, way in (
    (TransformerEncoderLayer, encode), (TransformerDecoderLayer, decode), (TransformerEncoder, encode_all),
    (TransformerDecoder, decode),
):  # fmt: skip
    forward: Any = kind.forward
    forward.faster = sooner(kind, STACKS, forward, way)
