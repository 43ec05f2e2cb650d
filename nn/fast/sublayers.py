"""The sub-layers of a Transformer as one op each: norm(x + f(x)), f being attention or the feed-forward network.

`TransformerEncoderLayer` and `TransformerDecoderLayer` go this way where the loops of `tinytensor/fast/sublayers.py`
are there and nothing unusual is asked for: norms behind the sums, ReLU, no dropout at work, float32 or float64, layers
of these very classes without hooks, and nobody who watches. All else goes through the layers' own `forward`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_array
from tinytensor.modes import state

from ..attention import MultiheadAttention
from ..functional.activations import relu
from ..functional.attention import watch
from ..functional.linear import linear
from ..functional.masks import merge_masks
from ..functional.normalization import layer_norm
from ..functional.precision import autocast
from ..layers import Dropout, LayerNorm, Linear
from ..transformer import TransformerDecoderLayer, TransformerEncoderLayer
from .activations import relu_backward, relu_forward
from .attention import by_formula, multi_head_backward, multi_head_forward, project
from .attention_blocks import is_long
from .linear import linear_backward, linear_forward
from .normalization import layer_norm_backward, layer_norm_forward

ALL = (True,) * 4  # which gradients are wanted: those of every input
FLOATS = (tt.float32, tt.float64)


def _are(arrays: tuple[Any, ...], *shapes: tuple[int, ...]) -> bool:
    """Whether arrays have these shapes; None is passed over. A loop would write beside one that has not."""
    return all(a is None or a.shape == shape for a, shape in zip(arrays, shapes))


def _feed_forward_shapes(d: int, inner: int) -> tuple[tuple[int, ...], ...]:
    return (inner, d), (inner,), (d, inner), (d,), (d,), (d,)


def _attention_shapes(d: int) -> tuple[tuple[int, ...], ...]:
    return (3 * d, d), (3 * d,), (d, d), (d,), (d,), (d,)


# ---- feed-forward


@tt.op
def _feed_forward(x, weight1, bias1, weight2, bias2, norm_weight, norm_bias, *, eps):
    """LayerNorm(x + max(0, x W₁ᵀ + b₁) W₂ᵀ + b₂).

    ∂L/∂x = s + h W₁, s being the gradient of what LayerNorm is given, h = (s W₂) ⊙ [hidden > 0]
    ∂L/∂weight1 = hᵀ x
    ∂L/∂bias1 = Σ h, over the rows
    ∂L/∂weight2 = sᵀ hidden
    ∂L/∂bias2 = Σ s, over the rows
    ∂L/∂norm_weight = Σ g ⊙ y, over the rows, y being what LayerNorm is given, normalised
    ∂L/∂norm_bias = Σ g, over the rows
    """
    y = x + linear(relu(linear(x, weight1, bias1)), weight2, bias2)
    return layer_norm(y, y.shape[-1], norm_weight, norm_bias, eps)


@_feed_forward.forward
def feed_forward_forward(xp, x, weight1, bias1, weight2, bias2, norm_weight, norm_bias, *, eps):
    d, inner = x.shape[-1], len(weight1)
    parameters = weight1, bias1, weight2, bias2, norm_weight, norm_bias
    rows = xp.contiguous(x).reshape(-1, d)
    if (loops := xp.sublayers(rows, *parameters)) and _are(parameters, *_feed_forward_shapes(d, inner)):
        out, saved = loops.feed_forward(rows, *parameters, eps)
        return out.reshape(x.shape), (loops, rows, weight1, weight2, norm_weight, saved)
    within, first = linear_forward(xp, x, weight1, bias1)
    hidden, clipped = relu_forward(xp, within)
    y, second = linear_forward(xp, hidden, weight2, bias2)
    out, normal = layer_norm_forward(xp, x + y, norm_weight, norm_bias, eps=eps)
    return out, (first, clipped, second, normal)


@_feed_forward.backward
def feed_forward_backward(xp, g, residuals, needs, *, eps):
    if len(residuals) == 6:
        loops, rows, *saved = residuals
        return loops.feed_forward_gradient(xp.contiguous(g), rows, *saved)
    first, clipped, second, normal = residuals
    g_sum, g_norm_weight, g_norm_bias = layer_norm_backward(xp, g, normal, ALL, eps=eps)
    g_hidden, g_weight2, g_bias2 = linear_backward(xp, g_sum, second, ALL)
    (g_within,) = relu_backward(xp, g_hidden, clipped, ALL)
    g_x, g_weight1, g_bias1 = linear_backward(xp, g_within, first, ALL)
    return g_x + g_sum, g_weight1, g_bias1, g_weight2, g_bias2, g_norm_weight, g_norm_bias


# ---- attention


@tt.op
def _attend(
    x, memory, weight, bias, out_weight, out_bias, norm_weight, norm_bias, mask, *, num_heads, scale, eps
):  # fmt: skip
    """LayerNorm(x + MultiHead(x, memory, memory)); memory None: x attends to itself.

    ∂L/∂x = s + p W, s being the gradient of what LayerNorm is given, p that of the projections (`multi_head`)
    ∂L/∂memory = p W, of keys and values
    ∂L/∂weight = pᵀ x, for keys and values pᵀ memory
    ∂L/∂bias = Σ p, over the rows
    ∂L/∂out_weight = sᵀ heads
    ∂L/∂out_bias = Σ s, over the rows
    ∂L/∂norm_weight = Σ g ⊙ y, over the rows, y being what LayerNorm is given, normalised
    ∂L/∂norm_bias = Σ g, over the rows
    ∂L/∂mask = as that of `multi_head`
    """
    source = x if memory is None else memory
    heads, _ = by_formula(project(x, source, source, weight, bias), mask, num_heads, scale, None)
    y = x + linear(heads, out_weight, out_bias)
    return layer_norm(y, y.shape[-1], norm_weight, norm_bias, eps)


@_attend.forward
def attend_forward(
    xp, x, memory, weight, bias, out_weight, out_bias, norm_weight, norm_bias, mask, *, num_heads, scale, eps
):  # fmt: skip
    inputs = x, memory, weight, bias, out_weight, out_bias, norm_weight, norm_bias, mask
    parameters, d = inputs[2:8], x.shape[-1]
    rows, source = (None if a is None else xp.contiguous(a).reshape(-1, d) for a in (x, memory))
    loops = xp.sublayers(rows, source, *parameters)
    if not loops or not _are(parameters, *_attention_shapes(d)):
        return attend_in_pieces(xp, inputs, num_heads, scale, eps)
    sizes = loops.Sizes(len(x), num_heads, x.shape[1], (x if memory is None else memory).shape[1])
    if mask is not None and not loops.takes_mask(mask, sizes):
        return attend_in_pieces(xp, inputs, num_heads, scale, eps)
    out, saved = loops.attention(rows, source, *parameters, mask, sizes, scale, eps)
    return out.reshape(x.shape), (loops, inputs, rows, source, weight, out_weight, norm_weight, saved, sizes)


def attend_in_pieces(xp: Any, inputs: tuple[Any, ...], num_heads: int, scale: float, eps: float) -> Any:
    """One fast pair's forward half after the other."""
    x, memory, weight, bias, out_weight, out_bias, norm_weight, norm_bias, mask = inputs
    d = x.shape[-1]
    parts = [(x, weight, bias)]
    if memory is not None:
        biases = (None, None) if bias is None else (bias[:d], bias[d:])
        parts = [(x, weight[:d], biases[0]), (memory, weight[d:], biases[1])]
    projections = [linear_forward(xp, *part) for part in parts]
    first, second, third = [p for p, _ in projections] + [None] * (3 - len(projections))
    heads, attended = multi_head_forward(xp, first, second, third, mask, num_heads=num_heads, scale=scale)
    y, last = linear_forward(xp, heads, out_weight, out_bias)
    out, normal = layer_norm_forward(xp, x + y, norm_weight, norm_bias, eps=eps)
    return out, ([saved for _, saved in projections], attended, last, normal)


@_attend.backward
def attend_backward(xp, g, residuals, needs, *, num_heads, scale, eps):
    if len(residuals) == 9:
        loops, inputs, *saved = residuals
        if not needs[8]:
            return (*loops.attention_gradient(xp.contiguous(g), *saved, scale), None)
        residuals = attend_in_pieces(xp, inputs, num_heads, scale, eps)[1]  # the loops know none of a mask's
    firsts, attended, last, normal = residuals
    g_sum, g_norm_weight, g_norm_bias = layer_norm_backward(xp, g, normal, ALL, eps=eps)
    g_heads, g_out_weight, g_out_bias = linear_backward(xp, g_sum, last, ALL)
    needs_mask = (True, True, True, needs[8])
    *g_projected, g_mask = multi_head_backward(xp, g_heads, attended, needs_mask, num_heads=num_heads, scale=scale)
    parts = [linear_backward(xp, one, first, ALL) for one, first in zip(g_projected, firsts)]
    g_inputs, g_weights, g_biases = zip(*parts)
    g_memory = g_inputs[1] if len(parts) > 1 else None
    g_weight, g_bias = (part[0] if len(part) == 1 else xp.concat(part) for part in (g_weights, g_biases))
    g_x = g_inputs[0] + g_sum
    return g_x, g_memory, g_weight, g_bias, g_out_weight, g_out_bias, g_norm_weight, g_norm_bias, g_mask


# ---- the layers: each way gives None where the layer's own `forward` is to be gone


def _is_plain(module: Any, kind: Any) -> bool:
    """Whether a module is of this very class, and nobody hooks into it."""
    return type(module) is kind and not module._forward_hooks and not module._forward_pre_hooks


def _leaves_alone(module: Any) -> bool:
    """Whether dropout gives its input back as it is."""
    return _is_plain(module, Dropout) and (module.p == 0 or not module.training)


def _is_known(norm: Any, d: int) -> bool:
    return _is_plain(norm, LayerNorm) and norm.normalized_shape == (d,) and norm.weight is not None


def _attends(attention: Any, d: int) -> bool:
    return (
        _is_plain(attention, MultiheadAttention)
        and attention.embed_dim == d
        and attention.batch_first
        and attention.in_proj_weight is not None
        and (attention.dropout == 0 or not attention.training)
        and _is_plain(attention.out_proj, Linear)
    )


def _is_usual(layer: Any, x: Any, memory: Any) -> bool:
    """Whether the layer's `forward` computes just what the ops here do."""
    if state.recording is not None or watch.see is not None or autocast.get() is not None:
        return False
    if layer.norm_first or layer.activation is not relu or "_feed_forward" in vars(layer):
        return False
    for tensor in (x, memory):
        array = tensor._data
        if type(array) is not np.ndarray or array.dtype not in FLOATS or array.ndim != 3 or not array.size:
            return False
    if (loops := for_array(x._data).sublayers(x._data, memory._data)) is None:
        return False
    d, modules = x.shape[-1], layer._modules
    return (
        len(memory) == len(x)
        and memory.shape[-1] == d
        and not is_long(x.shape[1], max(x.shape[1], memory.shape[1]), "cpu")
        and all(_leaves_alone(module) for name, module in modules.items() if name.startswith("dropout"))
        and all(_is_known(module, d) for name, module in modules.items() if name.startswith("norm"))
        and all(_attends(module, d) for name, module in modules.items() if name.endswith("attn"))
        and _is_plain(modules["linear1"], Linear)
        and _is_plain(modules["linear2"], Linear)
        and loops.pay_for(layer.linear1.weight, layer.linear2.weight, layer.self_attn.in_proj_weight)
    )


def _feed(layer: Any, x: Tensor, norm: Any) -> Tensor:
    """norm(x + FeedForward(x))."""
    first, second = layer.linear1, layer.linear2
    return _feed_forward(x, first.weight, first.bias, second.weight, second.bias, norm.weight, norm.bias, eps=norm.eps)


def _see(attention: Any, x: Tensor, memory: Tensor | None, norm: Any, attn_mask: Any, padding: Any) -> Tensor:
    """norm(x + Attention(x, memory, memory))."""
    source = x if memory is None else memory
    mask = merge_masks(padding, attn_mask, (len(x), attention.num_heads, x.shape[1], source.shape[1]), x)
    out = attention.out_proj
    return _attend(
        x, memory, attention.in_proj_weight, attention.in_proj_bias, out.weight, out.bias, norm.weight, norm.bias, mask,
        num_heads=attention.num_heads, scale=attention.scale, eps=norm.eps,
    )  # fmt: skip


def encode(
    layer: Any, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
) -> Any:
    """What `TransformerEncoderLayer.forward` gives."""
    if (is_causal and src_mask is None) or not _is_usual(layer, src, src):
        return None
    x = _see(layer.self_attn, src, None, layer.norm1, src_mask, src_key_padding_mask)
    return _feed(layer, x, layer.norm2)


def decode(
    layer: Any,
    tgt: Any,
    memory: Any,
    tgt_mask: Any = None,
    memory_mask: Any = None,
    tgt_key_padding_mask: Any = None,
    memory_key_padding_mask: Any = None,
    tgt_is_causal: bool = False,
    memory_is_causal: bool = False,
) -> Any:
    """What `TransformerDecoderLayer.forward` gives."""
    lacks_mask = (tgt_is_causal and tgt_mask is None) or (memory_is_causal and memory_mask is None)
    if lacks_mask or "_sublayers" in vars(layer) or not _is_usual(layer, tgt, memory):
        return None
    x = _see(layer.self_attn, tgt, None, layer.norm1, tgt_mask, tgt_key_padding_mask)
    x = _see(layer.multihead_attn, x, memory, layer.norm2, memory_mask, memory_key_padding_mask)
    return _feed(layer, x, layer.norm3)


def sooner(kind: type, way: Callable[..., Any]) -> Any:
    """The `forward` of layers of this very class, with another way in front."""
    own = kind.forward  # type: ignore[attr-defined]

    @functools.wraps(own)
    def forward(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if type(layer) is kind and state.plain is not None:
            try:
                out = way(layer, *args, **kwargs)
            except Exception:
                out = None  # the layer's own lines say what is wrong, and where
            if out is not None:
                return out
        return own(layer, *args, **kwargs)

    return forward


TransformerEncoderLayer.forward = sooner(TransformerEncoderLayer, encode)  # type: ignore[method-assign]
TransformerDecoderLayer.forward = sooner(TransformerDecoderLayer, decode)  # type: ignore[method-assign]
