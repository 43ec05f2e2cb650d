"""The functions behind the layers, with PyTorch's names and arguments.

Each is written as a formula, in the notation of its paper. Faster versions on raw arrays are in `nn/fast`, in a file of
the same name, and register themselves on the formula; see `tinytensor.primitive`.
"""

import os
import typing

import tinytensor as tt
from tinytensor.tracing import looks_through

from .activations import gelu, log_softmax, relu, sigmoid, softmax, tanh
from .attention import multi_head_attention_forward, scaled_dot_product_attention
from .channel_normalization import batch_norm, group_norm
from .convolution import conv1d, conv2d
from .dropout import dropout, dropout1d, dropout2d
from .embedding import embedding, one_hot
from .linear import linear
from .losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from .masks import causal_mask, sliding_window_mask
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
from .normalization import layer_norm, rms_norm
from .pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, avg_pool1d, avg_pool2d, max_pool1d, max_pool2d
from .recurrent import gru, lstm, rnn
from .relative_positions import RotaryStretch, alibi, alibi_slopes, rotary_angles, rotate
from .similarity import cosine_similarity, normalize, pairwise_distance
from .topk import log_softmax_topk
from .windows import pad, unfold

__all__ = [
    "RotaryStretch",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "alibi",
    "alibi_slopes",
    "avg_pool1d",
    "avg_pool2d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "causal_mask",
    "celu",
    "conv1d",
    "conv2d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "dropout1d",
    "dropout2d",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "group_norm",
    "gru",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "log_softmax_topk",
    "logsigmoid",
    "lstm",
    "max_pool1d",
    "max_pool2d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "rnn",
    "rotary_angles",
    "rotate",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "sliding_window_mask",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "unfold",
]

looks_through(os.path.dirname(__file__), True)


if not typing.TYPE_CHECKING:  # type checkers know all names from above, and complain about others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
