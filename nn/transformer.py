"""The Transformer (Vaswani et al. 2017, "Attention Is All You Need", section 3.1).

    encoder layer:  x = LayerNorm(x + SelfAttention(x))         norm_first:  x = x + SelfAttention(LayerNorm(x))
                    x = LayerNorm(x + FeedForward(x))                        x = x + FeedForward(LayerNorm(x))

A layer is a list of such sub-layers. The paper normalises after each residual connection; `norm_first` before each
sub-layer (Xiong et al. 2020), which trains without warm-up. A decoder layer attends to the encoder's output (`memory`)
in between.

Arguments, defaults, masks and `state_dict` keys are PyTorch's. N is the batch, S the source's length, T the target's;
sequences are (S, N, d_model), with `batch_first` (N, S, d_model), and without a batch (S, d_model).

Masks are boolean (True: must not attend) or floating (added to the scores, so that -inf forbids):

    attention masks, such as `src_mask` (S, S), `tgt_mask` (T, T), `memory_mask` (T, S), or with one for each head
        (N nhead, ...);
    key padding masks, such as `src_key_padding_mask` (N, S): no position attends to padding.

An `is_causal` flag is a hint that the mask beside it is causal; it does not replace the mask.
"""

from __future__ import annotations

import copy
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import may_be_faster
from tinytensor.modes import Replaceable
from tinytensor.typing import Device, DType

from . import functional as F
from . import init
from .attention import MultiheadAttention
from .containers import ModuleList
from .decoder_cache import DecoderCache, LayerCache, passed_by
from .layers import Dropout, LayerNorm, Linear
from .module import Module

Activation = str | Callable[[Tensor], Tensor]


# ---- sub-layers: f(x) is one of the classes below, or any function of x


class Sublayer(namedtuple("Sublayer", "f dropout norm norm_first", defaults=[False]), metaclass=Replaceable):
    """f with its residual connection, dropout (section 5.4) and norm: after the sum, or before f."""

    def __call__(self, x: Tensor) -> Tensor:
        if self.norm_first:
            return x + self.dropout(self.f(self.norm(x)))
        return self.norm(x + self.dropout(self.f(x)))


@may_be_faster
def through(x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
    """Pass x through sub-layers, one after the other."""
    for sublayer in sublayers:
        x = sublayer(x)
    return x


class Attend(
    namedtuple("Attend", "attention memory mask padding is_causal cache", defaults=[None]), metaclass=Replaceable
):
    """f(x) = MultiHead(x, memory, memory): x attends to the memory, or without one to itself (section 3.2.3).

    With a cache, it also attends to the positions in it.
    """

    def __call__(self, x: Tensor) -> Tensor:
        memory = x if self.memory is None else self.memory
        masks = {"key_padding_mask": self.padding, "attn_mask": self.mask, "is_causal": self.is_causal}
        cache = {} if self.cache is None else {"cache": self.cache}
        return self.attention(x, memory, memory, need_weights=False, **masks, **cache)[0]


class Feed(namedtuple("Feed", "linear1 activation dropout linear2"), metaclass=Replaceable):
    """f(x) = max(0, x W₁ + b₁) W₂ + b₂ (section 3.3, equation 2), or with another activation."""

    @tt.named_scope("feed forward")
    def __call__(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


# ---- the layers


class TransformerEncoderLayer(Module):
    """Self-attention, then a position-wise feed-forward network, each with its residual connection (section 3.1).

    Args:
        d_model: the size of the vectors between the sub-layers.
        nhead: the number of attention heads; divides d_model.
        dim_feedforward: the inner size of the feed-forward network.
        dropout: applies to each sub-layer's result before the sum (section 5.4), to the attention weights, and within
            the feed-forward network.
        activation: "relu", "gelu" or a function of a Tensor.
        layer_norm_eps: eps of the layer normalisations.
        batch_first: (batch, length, d_model) rather than (length, batch, d_model).
        norm_first: normalise before each sub-layer rather than after the sum.
        bias: whether Linear and LayerNorm have biases.
        scale: of the attention, see `MultiheadAttention`.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: DType = None,
        *,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        attention = {"dropout": dropout, "batch_first": batch_first, "scale": scale, **factory}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, **factory)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        attend = Attend(self.self_attn, None, src_mask, src_key_padding_mask, is_causal)
        return through(src, self.sublayers(attend))

    def sublayers(self, attend: Any) -> list[Sublayer]:
        """The sub-layers in order (Figure 1 of the paper, left)."""
        feed = Feed(self.linear1, self.activation, self.dropout, self.linear2)
        return [
            Sublayer(attend, self.dropout1, self.norm1, self.norm_first),
            Sublayer(feed, self.dropout2, self.norm2, self.norm_first),
        ]


class TransformerDecoderLayer(Module):
    """Self-attention, attention to the encoder's output, feed-forward network, each with its residual (section 3.1).

    Arguments as for `TransformerEncoderLayer`.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: DType = None,
        *,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        attention = {"dropout": dropout, "batch_first": batch_first, "scale": scale, **factory}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, **factory)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, **factory)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        attend = Attend(self.self_attn, None, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        ask = Attend(self.multihead_attn, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        return through(tgt, self.sublayers(attend, ask))

    def start(self, memory: Tensor) -> tuple[LayerCache, LayerCache]:
        """The caches of `step`, in the layout of `forward`: an empty one, and the keys and values of the memory."""
        kept = self.multihead_attn.empty_cache(memory, spare=0)
        Attend(self.multihead_attn, memory, None, None, False, kept)(self._nothing(memory))
        return self.self_attn.empty_cache(memory), kept

    def step(
        self, x: Tensor, past: LayerCache, memory: LayerCache, hidden: Tensor, memory_hidden: Tensor | None
    ) -> Tensor:
        """`forward` for the next position of every branch alone, in the layout of `forward`.

        Its key and value join the past. The memory's are all in its cache, so none are added. The masks are those of
        `DecoderCache`.
        """
        attend = Attend(self.self_attn, None, hidden, None, False, past)
        ask = Attend(self.multihead_attn, self._nothing(x), memory_hidden, None, False, memory)
        return through(x, self.sublayers(attend, ask))

    def _nothing(self, x: Tensor) -> Tensor:
        """No position of x."""
        return x[:, :0] if self.multihead_attn.batch_first else x[:0]

    def sublayers(self, attend: Any, ask: Any) -> list[Sublayer]:
        """The sub-layers in order (Figure 1 of the paper, right): `ask` attends to the encoder's output."""
        feed = Feed(self.linear1, self.activation, self.dropout, self.linear2)
        return [
            Sublayer(attend, self.dropout1, self.norm1, self.norm_first),
            Sublayer(ask, self.dropout2, self.norm2, self.norm_first),
            Sublayer(feed, self.dropout3, self.norm3, self.norm_first),
        ]


class TransformerEncoder(Module):
    """A stack of encoder layers.

    Args:
        encoder_layer: the layer to copy for each layer of the stack: they all start from the same values.
        num_layers: the number of layers.
        norm: a module to apply at the end, for example a `LayerNorm`.
    """

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    @may_be_faster
    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """A stack of decoder layers; arguments as for `TransformerEncoder`."""

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    @may_be_faster
    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)

    def start(self, memory: Tensor, memory_key_padding_mask: Tensor | None = None) -> DecoderCache:
        """An empty cache over a memory (batch, source, d_model), whatever `batch_first`, to `step` from.

        The mask (batch, source) is boolean, True for padding. Each layer projects the memory here, only once.

        Raises ValueError if a module has a hook, or a `forward` of its own, that steps would pass by.
        """
        if path := passed_by(self):
            raise ValueError(
                f"TransformerDecoder: steps would pass by the forward or the hooks of {path}; call the decoder on "
                "whole targets (models.decoding does so by itself), or write its step as well"
            )
        caches = [layer.start(self._swapped(memory)) for layer in self.layers]
        layers, memories = map(list, zip(*caches)) if caches else ([], [])
        return DecoderCache(layers, memories, memory_key_padding_mask)

    def _swapped(self, x: Tensor) -> Tensor:
        """From (batch, length, d_model) to the layout of the layers, or back."""
        batch_first = not len(self.layers) or self.layers[0].self_attn.batch_first
        return x if batch_first else tt.permute_dims(x, (1, 0, 2))

    @may_be_faster
    def step(self, tgt: Tensor, cache: DecoderCache, tgt_key_padding_mask: Tensor | None = None) -> Tensor:
        """The result of `forward` for the last position, from that position alone and a cache of those before it.

        Args:
            tgt: (batch, branches, d_model), whatever `batch_first`: for each source, `branches` targets of equal
                length; see `DecoderCache`.
            tgt_key_padding_mask: (batch, branches), True where no later position may attend to this one.

        Returns (batch, branches, d_model). The cache grows by one position.
        """
        hidden = cache.extend(tgt.shape[:2], tgt_key_padding_mask)
        x = self._swapped(tgt)
        for layer, past, memory in zip(self.layers, cache.layers, cache.memories):
            x = layer.step(x, past, memory, hidden, cache.memory_hidden)
        return self._swapped(x if self.norm is None else self.norm(x))


class Transformer(Module):
    """The encoder and the decoder of the paper, from vectors to vectors, without embeddings and logits.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, scale: as
            for `TransformerEncoderLayer`.
        num_encoder_layers, num_decoder_layers: N of the paper; both stacks end in a LayerNorm.
        custom_encoder, custom_decoder: modules to use instead.

    All weights of two dimensions start from Xavier's uniform distribution.

    Raises ValueError if source and target do not fit together or are not of size d_model.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: DType = None,
        *,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        layer: dict[str, Any] = {
            "d_model": d_model,
            "nhead": nhead,
            "dim_feedforward": dim_feedforward,
            "dropout": dropout,
            "activation": activation,
            "layer_norm_eps": layer_norm_eps,
            "batch_first": batch_first,
            "norm_first": norm_first,
            "scale": scale,
            **factory,
        }
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(**layer), num_encoder_layers, LayerNorm(d_model, layer_norm_eps, **factory)
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(**layer), num_decoder_layers, LayerNorm(d_model, layer_norm_eps, **factory)
        )
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        self._check(src, tgt)
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    def _check(self, src: Tensor, tgt: Tensor) -> None:
        batch = 0 if self.batch_first else 1
        if src.ndim not in (2, 3) or src.ndim != tgt.ndim:
            fault = "both must have 2 dimensions, or 3 with a batch"
        elif src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            fault = f"their batch sizes differ (batch_first={self.batch_first})"
        elif src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            fault = f"the last dimension of both must be d_model, {self.d_model}"
        else:
            return
        raise ValueError(f"Transformer: src {src.shape} and tgt {tgt.shape}: {fault}")

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Device = None, dtype: DType = None) -> Tensor:
        """The causal mask (sz, sz): 0 where position i may attend to j <= i, -inf elsewhere (section 3.2.3)."""
        return tt.triu(tt.full((sz, sz), -tt.inf, dtype=dtype, device=device), k=1)


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if callable(activation):
        return activation
    named: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
    if activation not in named:
        raise ValueError(f"activation: expected 'relu', 'gelu' or a function, got {activation!r}")
    return named[activation]
