"""The sub-layers of a Transformer's stack as one op: norm(x + drop(f(x))) again and again, or the norm in front.

The stacks and layers of `nn.transformer` go this way where the loops of `tinytensor/fast/sublayers.py` are there and
nothing unusual is asked for: attention and ReLU, float32 or float64, matrices that are not large, modules of these very
classes without hooks, and nobody who watches. All else goes through the modules' own `forward`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_array, for_device
from tinytensor.modes import state
from tinytensor.tensor import wrap

from ..attention import MultiheadAttention
from ..containers import ModuleList
from ..functional.activations import relu
from ..functional.attention import watch
from ..functional.dropout import Dropped
from ..functional.linear import linear
from ..functional.masks import hide, merge_masks
from ..functional.normalization import layer_norm
from ..functional.precision import autocast
from ..layers import Dropout, LayerNorm, Linear
from ..transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .attention import by_formula, project
from .attention_blocks import is_long
from .plain import is_plain

FLOATS = (tt.float32, tt.float64)
NOTHING = for_device("cpu").dropping()  # no dropout


class Attend(NamedTuple):
    """How a sub-layer attends, to x or across to the memory; its arrays: weight, bias, those of the output, the norm's.

    Dropout is that of the attention weights, and of what is added to x.
    """

    num_heads: int
    scale: float
    across: bool
    eps: float
    norm_first: bool
    dropping: tuple[Any, Any] = (NOTHING, NOTHING)

    def formula(self, x, memory, mask, weight, bias, out_weight, out_bias, *norm):
        def attend(x):
            source = memory if self.across else x
            shape = (len(x), self.num_heads, x.shape[1], source.shape[1])
            dropped = Dropped(_mask(self.dropping[0], shape), self.dropping[0].scale) if self.dropping[0] else None
            heads, _ = by_formula(project(x, source, source, weight, bias), mask, self.num_heads, self.scale, dropped)
            return linear(heads, out_weight, out_bias)

        return _residual(self, x, attend, *norm)

    def loops(self, room: Any, arrays: Any) -> Any:
        return room.Attention(
            *arrays, self.eps, self.norm_first, self.dropping[1], heads=self.num_heads, scale=self.scale,
            across=self.across, weights_dropping=self.dropping[0],
        )  # fmt: skip


class Feed(NamedTuple):
    """How a sub-layer goes through the network; its arrays: weights and biases in their order, then the norm's.

    Dropout is that of the inner layer, and of what is added to x.
    """

    eps: float
    norm_first: bool
    dropping: tuple[Any, Any] = (NOTHING, NOTHING)

    def formula(self, x, memory, mask, weight1, bias1, weight2, bias2, *norm):
        def feed(x):
            return linear(_drop(relu(linear(x, weight1, bias1)), self.dropping[0]), weight2, bias2)

        return _residual(self, x, feed, *norm)

    def loops(self, room: Any, arrays: Any) -> Any:
        return room.FeedForward(*arrays, self.eps, self.norm_first, self.dropping[1], inner=self.dropping[0])


class Normalize(NamedTuple):
    """The norm at the end of a stack."""

    eps: float

    def formula(self, x, memory, mask, weight, bias):
        return layer_norm(x, x.shape[-1], weight, bias, self.eps)

    def loops(self, room: Any, arrays: Any) -> Any:
        return room.Norm(*arrays, self.eps)


def _residual(plan: Attend | Feed, x: Any, f: Callable[[Any], Any], norm_weight: Any, norm_bias: Any) -> Any:
    def norm(x):
        return layer_norm(x, x.shape[-1], norm_weight, norm_bias, plan.eps)

    if plan.norm_first:
        return x + _drop(f(norm(x)), plan.dropping[1])
    return norm(x + _drop(f(x), plan.dropping[1]))


def _drop(x: Any, dropping: Any) -> Any:
    return x * _mask(dropping, x.shape) * dropping.scale if dropping else x


def _mask(dropping: Any, shape: tuple[int, ...]) -> Tensor:
    return tt.asarray(dropping.mask(shape))


# ---- the op


@tt.op
def _sublayers(*arrays, plan, hides):
    """x through sub-layers, one after the other: norm(x + drop(f(x))), or with the norm in front.

    `arrays` are x, the memory or None, what is added to the scores of attention to x and to the memory or None, then
    those of each sub-layer of the plan. `hides` says of the two masks whether they hold 0 and -inf alone.

    ∂L/∂arrays = those of each sub-layer's formula, from the last to the first
    """
    x, memory, *masks = arrays[:4]
    for sublayer, own in _each(plan, arrays[4:]):
        x = sublayer.formula(x, memory, masks[getattr(sublayer, "across", False)], *own)
    return x


def _each(plan: Sequence[Any], arrays: Sequence[Any]) -> Iterable[tuple[Any, Sequence[Any]]]:
    """The sub-layers, each with its arrays."""
    left = iter(arrays)
    for sublayer in plan:
        yield sublayer, [next(left) for _ in range(2 if type(sublayer) is Normalize else 6)]


@_sublayers.forward
def sublayers_forward(xp, *arrays, plan, hides):
    x, memory, *masks = arrays[:4]
    x, memory = xp.contiguous(x), None if memory is None else xp.contiguous(memory)
    if not (room := xp.sublayers(x, memory, *arrays[2:])):
        with tt.no_grad():
            out = _sublayers.op.function(*_as_tensors(arrays), plan=plan, hides=hides)
        return out._data, (None, arrays)
    sublayers = [sublayer.loops(room, own) for sublayer, own in _each(plan, arrays[4:])]
    return room.forward(sublayers, x, memory, masks, hides), (room, arrays, sublayers, memory)


@_sublayers.backward
def sublayers_backward(xp, g, residuals, needs, *, plan, hides):
    room, arrays, *computed = residuals
    if room is None or any(needs[2:4]):  # the loops know no gradient of a mask
        leaves = _as_tensors(arrays)
        wanted = [leaf.requires_grad_() for leaf, needed in zip(leaves, needs) if needed]
        with tt.enable_grad():
            out = _sublayers.op.function(*leaves, plan=plan, hides=hides)
        found = iter(tt.grad(out, wanted, wrap(g, None)))
        return [next(found)._data if needed else None for needed in needs]
    sublayers, memory = computed
    g_x, g_memory, gradients = room.backward(sublayers, xp.contiguous(g), memory)
    return g_x, g_memory, None, None, *gradients


def _as_tensors(arrays: Sequence[Any]) -> list[Any]:
    return [None if a is None else wrap(a, None) for a in arrays]


# ---- the modules: each way gives None where the module's own `forward` is to be gone


def _is_known(norm: Any, d: int) -> bool:
    return is_plain(norm, LayerNorm) and norm.normalized_shape == (d,) and norm.weight is not None


def _attends(attention: Any, d: int, layer: Any) -> bool:
    return (
        is_plain(attention, MultiheadAttention)
        and attention.embed_dim == d
        and attention.num_heads == layer.self_attn.num_heads
        and attention.batch_first == layer.self_attn.batch_first
        and attention.in_proj_weight is not None
        and attention.in_proj_weight.shape == (3 * d, d)
        and not attention.has_own_keys
        and is_plain(attention.out_proj, Linear)
        and attention.out_proj.weight.shape == (d, d)
    )


def _is_usual(layer: Any, kind: Any, x: Any, room: Any) -> bool:
    """Whether the layer's `forward` computes just what the op here does."""
    modules, (batch, length, d) = layer._modules, x.shape
    if not is_plain(layer, kind) or layer.activation is not relu:
        return False
    first, second = modules["linear1"], modules["linear2"]
    return (
        all(is_plain(module, Dropout) for name, module in modules.items() if name.startswith("dropout"))
        and all(_is_known(module, d) for name, module in modules.items() if name.startswith("norm"))
        and all(_attends(module, d, layer) for name, module in modules.items() if name.endswith("attn"))
        and is_plain(first, Linear)
        and is_plain(second, Linear)
        and first.weight.shape == second.weight.shape[::-1] == (first.weight.shape[0], d)
        and room.pay_for(batch * length, first.weight, second.weight, layer.self_attn.in_proj_weight)
    )


def _loops_for(x: Any, memory: Any) -> Any:
    """The loops, if there are any, they take these Tensors, and nobody watches what the modules would do."""
    if state.recording is not None or watch.see is not None or autocast.get() is not None:
        return None
    for tensor in (x, memory):
        array = tensor._data
        if type(array) is not np.ndarray or array.dtype not in FLOATS or array.ndim != 3 or not array.size:
            return None
    return for_array(x._data).sublayers(np.empty(1, x.dtype), size=x.size)


def run(layers: Sequence[Any], kind: Any, x: Any, memory: Any, masks: Any, norm: Any = None) -> Any:
    """What layers of a stack give, one after the other, and behind them a norm.

    `masks` are pairs, of an attention mask and a key padding mask, of attention to x and to the memory.
    """
    room = _loops_for(x, x if memory is None else memory)
    if room is None or not layers or layers[0]._modules.get("self_attn") is None:
        return None
    d, (head, batch_first) = x.shape[-1], _layout(layers[0])
    if any(not _is_usual(layer, kind, x, room) or _layout(layer) != (head, batch_first) for layer in layers):
        return None
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
    hides = tuple([m is not None and m.dtype.kind == "b" for m in merged])
    added = [hide(tt.zeros(m.shape, dtype=x.dtype), m) if hiding else m for m, hiding in zip(merged, hides)]
    out = _sublayers(x, memory, *added, *[None] * (2 - len(added)), *arrays, plan=tuple(plan), hides=hides)
    out = out if batch_first else tt.permute_dims(out, (1, 0, 2))
    return out if norm is None or ends_so else norm(out)


def _layout(layer: Any) -> tuple[int, bool]:
    return layer.self_attn.num_heads, layer.self_attn.batch_first


def _longest(sizes: Sequence[tuple[int, ...]]) -> tuple[int, int]:
    return max(size[2] for size in sizes), max(size[3] for size in sizes)


def _plan(layers: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """How the sub-layers of these layers go, and their arrays."""
    keys: Any = None

    def dropping(p: float, training: bool) -> Any:
        nonlocal keys
        if not p or not training:
            return NOTHING
        if keys is None:
            keys = iter(tt.random.integers(2**62, shape=6 * len(layers)).numpy().tolist())
        return for_device("cpu").dropping(p, next(keys))

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
        plan.append(Feed(norm.eps, layer.norm_first, droppings))
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


def sooner(kind: type, way: Callable[..., Any]) -> Any:
    """The `forward` of modules of this very class, with another way in front."""
    own = kind.forward  # type: ignore[attr-defined]

    @functools.wraps(own)
    def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
        if type(module) is kind and state.plain is not None:
            try:
                out = way(module, *args, **kwargs)
            except Exception:
                out = None  # the module's own lines say what is wrong, and where
            if out is not None:
                return out
        return own(module, *args, **kwargs)

    return forward


TransformerEncoderLayer.forward = sooner(TransformerEncoderLayer, encode)  # type: ignore[method-assign]
TransformerDecoderLayer.forward = sooner(TransformerDecoderLayer, decode)  # type: ignore[method-assign]
TransformerEncoder.forward = sooner(TransformerEncoder, encode_all)  # type: ignore[method-assign]
TransformerDecoder.forward = sooner(TransformerDecoder, decode)  # type: ignore[method-assign]
