"""The functions behind the layers, with PyTorch's names and arguments.

Each is written as a formula, in the notation of its paper. What computes the same faster on raw arrays stands in
`nn/fast`, in a file of the same name, and is registered on the formula; see `tinytensor.primitive`.
"""

import os
import typing

import tinytensor as tt
from tinytensor.tracing import looks_through

from .activations import gelu, log_softmax, relu, sigmoid, softmax, tanh
from .attention import multi_head_attention_forward, scaled_dot_product_attention
from .convolution import conv1d
from .dropout import dropout
from .embedding import embedding
from .linear import linear
from .losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss
from .masks import causal_mask
from .nonlinearities import (
    celu,
    elu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    prelu,
    relu6,
    selu,
    silu,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
)
from .normalization import layer_norm
from .recurrent import gru, lstm, rnn
from .similarity import cosine_similarity
from .topk import log_softmax_topk

__all__ = [
    "binary_cross_entropy_with_logits",
    "causal_mask",
    "celu",
    "conv1d",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "gru",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "log_softmax_topk",
    "logsigmoid",
    "lstm",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rnn",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]

looks_through(os.path.dirname(__file__), True)


if not typing.TYPE_CHECKING:  # type checkers know all names from above, and complain of others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
