"""What came after 2017, written with PyTorch's own functions and given the weights of our layers."""

from __future__ import annotations

from typing import Any

import torch

from tinytensor import nn

Weights = dict[str, torch.Tensor]


def turned(x: torch.Tensor, pairing: str, base: float) -> torch.Tensor:
    """Rotary positions of x (..., length, size) as a product of complex numbers."""
    length, size = x.shape[-2:]
    angles = torch.arange(length).double()[:, None] * base ** (-torch.arange(0, size, 2).double() / size)
    turns = torch.polar(torch.ones_like(angles), angles).to(x.dtype.to_complex())
    if pairing == "interleaved":
        return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turns).flatten(-2)
    product = torch.complex(*x.chunk(2, dim=-1)) * turns
    return torch.cat([product.real, product.imag], dim=-1)


def self_attention(
    ours: nn.SelfAttention, x: torch.Tensor, added: torch.Tensor, base: float | None = None
) -> tuple[torch.Tensor, Weights]:
    """Our attention's result for x (batch, length, d_model), and the weights, which take gradients.

    Args:
        added: what is added to the scores.
        base: of rotary positions, where there are any.
    """
    weights = _weights(ours)
    linear = torch.nn.functional.linear
    projected = linear(x, weights["in_proj.weight"], weights.get("in_proj.bias"))
    counts, size = (ours.num_heads, ours.num_kv_heads, ours.num_kv_heads), ours.head_dim
    parts = projected.split([count * size for count in counts], dim=-1)
    q, k, v = (part.unflatten(-1, (count, size)).transpose(1, 2) for part, count in zip(parts, counts))
    if ours.q_norm is not None:
        q = torch.nn.functional.rms_norm(q, (size,), weights["q_norm.weight"], ours.q_norm.eps)
        k = torch.nn.functional.rms_norm(k, (size,), weights["k_norm.weight"], ours.k_norm.eps)
    if base is not None:
        q, k = turned(q, ours.pairing, base), turned(k, ours.pairing, base)
    heads = torch.nn.functional.scaled_dot_product_attention(q, k, v, added, enable_gqa=True)
    return linear(heads.transpose(1, 2).flatten(2), weights["out_proj.weight"], weights.get("out_proj.bias")), weights


def swiglu(ours: nn.FeedForward, x: torch.Tensor) -> tuple[torch.Tensor, Weights]:
    """The same of a gated feed-forward network without biases, both maps as one product."""
    weights = _weights(ours)
    both = torch.nn.functional.linear(x, torch.cat([weights["gate.weight"], weights["up.weight"]]))
    first, second = both.chunk(2, dim=-1)
    return torch.nn.functional.linear(torch.nn.functional.silu(first) * second, weights["down.weight"]), weights


def rms_norm(ours: nn.RMSNorm, x: torch.Tensor) -> tuple[torch.Tensor, Weights]:
    """The same of RMSNorm."""
    weights = _weights(ours)
    return torch.nn.functional.rms_norm(x, ours.normalized_shape, weights["weight"], ours.eps), weights


def _weights(ours: Any) -> Weights:
    return {name: torch.tensor(p.detach().numpy(), requires_grad=True) for name, p in ours.named_parameters()}
