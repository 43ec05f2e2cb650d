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
from .masks import causal_mask, sliding_window_mask
from .normalization import layer_norm, rms_norm
from .recurrent import gru, lstm, rnn
from .relative_positions import alibi, alibi_slopes, rotary_angles, rotate
from .similarity import cosine_similarity
from .topk import log_softmax_topk

__all__ = [
    "alibi",
    "alibi_slopes",
    "binary_cross_entropy_with_logits",
    "causal_mask",
    "conv1d",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "gru",
    "layer_norm",
    "linear",
    "log_softmax",
    "log_softmax_topk",
    "lstm",
    "mse_loss",
    "multi_head_attention_forward",
    "nll_loss",
    "relu",
    "rms_norm",
    "rnn",
    "rotary_angles",
    "rotate",
    "scaled_dot_product_attention",
    "sigmoid",
    "sliding_window_mask",
    "softmax",
    "tanh",
]

looks_through(os.path.dirname(__file__), True)


if not typing.TYPE_CHECKING:  # type checkers know all names from above, and complain of others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
