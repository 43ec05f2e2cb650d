"""The functions behind the layers, with PyTorch's names and arguments.

Where speed matters, a function's formula stands first, in the notation of its paper, and its fast pair for raw arrays
below it; see `tinytensor.primitive`.
"""

import os

from tinytensor.recording.tracing import looks_through

from .activations import gelu, log_softmax, relu, sigmoid, softmax, tanh
from .attention import causal_mask, multi_head_attention_forward, scaled_dot_product_attention
from .linear import embedding, linear
from .losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss
from .normalization import dropout, layer_norm
from .recurrent import gru, lstm, rnn

__all__ = [
    "binary_cross_entropy_with_logits",
    "causal_mask",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "gru",
    "layer_norm",
    "linear",
    "log_softmax",
    "lstm",
    "mse_loss",
    "multi_head_attention_forward",
    "nll_loss",
    "relu",
    "rnn",
    "scaled_dot_product_attention",
    "sigmoid",
    "softmax",
    "tanh",
]

looks_through(os.path.dirname(__file__), True)
