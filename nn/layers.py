"""Layers with parameters, and dropout: each holds the arguments of its function in `nn.functional`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.typing import Device, DType

from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter


class Linear(Module):
    """y = x Wᵀ + b.

    Shapes: input (..., in_features), output (..., out_features), weight (out_features, in_features), bias
    (out_features). Both start from U(-k, k) with k = 1 / sqrt(in_features).
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Device = None, dtype: DType = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(tt.empty((out_features, in_features), dtype=dtype, device=device))
        self.register_parameter(
            "bias", Parameter(tt.empty((out_features,), dtype=dtype, device=device)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight and the bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))  # U(-1 / sqrt(in_features), 1 / sqrt(in_features))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """A table of vectors, one for each id.

    Args:
        num_embeddings: the number of ids.
        embedding_dim: the size of each vector.
        padding_idx: an id whose vector starts as zeros and gets no gradient; negative counts from the end.

    Shapes: input (...) of integers, output (..., embedding_dim), weight (num_embeddings, embedding_dim), from N(0, 1).

    Raises IndexError for ids out of range. On a GPU, gradients may differ by rounding between runs, see `F.embedding`.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(f"Embedding: padding_idx {padding_idx} is none of the {num_embeddings} ids")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self.weight = Parameter(tt.empty((num_embeddings, embedding_dim), dtype=dtype, device=device))
        self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None) -> Embedding:
        """An Embedding that starts from an exact copy of a table (num_embeddings, embedding_dim).

        Args:
            freeze: whether to keep the table fixed, without a gradient.
        """
        table = Parameter(embeddings, requires_grad=not freeze)
        if table.ndim != 2:
            raise ValueError(f"from_pretrained: expected a table of 2 dimensions, got shape {table.shape}")
        rows, columns = table.shape
        embedding = cls(rows, columns, padding_idx, dtype=table.dtype, device=table.device)
        embedding.weight = table
        return embedding

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with tt.no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class LayerNorm(Module):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, over the last dimensions (Ba, Kiros and Hinton 2016).

    Args:
        normalized_shape: the sizes of these dimensions, or the size of a single one.
        eps: keeps the root away from zero.
        elementwise_affine: whether to learn a weight and a bias of shape normalized_shape, from ones and zeros.
        bias: whether to learn a bias beside the weight.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = tt.functions.creation.as_shape("LayerNorm", normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, present in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            values = tt.empty(self.normalized_shape, dtype=dtype, device=device)
            self.register_parameter(name, Parameter(values) if present else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """y = x / sqrt(mean(x²) + eps) * weight, over the last dimensions (Zhang and Sennrich 2019).

    Args:
        normalized_shape: the sizes of these dimensions, or the size of a single one.
        eps: keeps the root away from zero; default: the distance from 1 to the next number of the input's dtype.
        elementwise_affine: whether to learn a weight of shape normalized_shape, from ones.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = tt.functions.creation.as_shape("RMSNorm", normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        values = tt.empty(self.normalized_shape, dtype=dtype, device=device)
        self.register_parameter("weight", Parameter(values) if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class Dropout(Module):
    """In training, zero each element with probability p and scale the others by 1 / (1 - p) (Srivastava et al. 2014).

    In evaluation mode, return the input unchanged.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p must be between 0 and 1, got {p}")
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace=False"


class Identity(Module):
    """Returns its input; takes any arguments, so that it can replace any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input
