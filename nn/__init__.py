"""nn: layers, losses, optimisers and more, under PyTorch's names."""

if __name__ == "nn":  # the folder itself, found in the root of the repository
    raise ImportError("nn is a part of tinytensor; write: from tinytensor import nn")

import importlib
import os
import typing

import tinytensor as tt
from tinytensor.tracing import looks_through

from . import amp, functional, init, optim, parallel, utils
from .activations import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from .attention import MultiheadAttention
from .channel_dropout import Dropout1d, Dropout2d
from .channel_normalization import BatchNorm1d, BatchNorm2d, GroupNorm
from .checkpoint import CheckpointError, load, save
from .compiled_step import compile_step
from .containers import ModuleDict, ModuleList, ParameterList, Sequential
from .convolution import Conv1d, Conv2d
from .feed_forward import FeedForward
from .inside import cache, intervene
from .layers import Dropout, Embedding, Identity, LayerNorm, Linear, RMSNorm
from .losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from .model_summary import summary
from .module import Module
from .parameter import Parameter
from .pooling import AdaptiveAvgPool1d, AdaptiveAvgPool2d, AvgPool1d, AvgPool2d, MaxPool1d, MaxPool2d
from .positional import LearnedPositionalEncoding, PositionalEncoding, sinusoidal_encoding
from .recording import AttentionCall, record_attention
from .recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from .self_attention import SelfAttention
from .shapes import Flatten, Unflatten, Unfold
from .similarity import CosineSimilarity, PairwiseDistance
from .transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .utils.low_rank import LoRA, lora, lora_state_dict, merge_lora

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "GRU", "LSTM", "RNN", "SELU", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d",
    "AttentionCall", "AvgPool1d", "AvgPool2d", "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d",
    "CheckpointError", "Conv1d", "Conv2d", "CosineEmbeddingLoss", "CosineSimilarity", "CrossEntropyLoss", "Dropout",
    "Dropout1d", "Dropout2d", "Embedding", "FeedForward", "Flatten", "GRUCell", "GroupNorm", "Hardshrink",
    "Hardsigmoid", "Hardswish", "Hardtanh", "HuberLoss", "Identity", "KLDivLoss", "L1Loss", "LSTMCell", "LayerNorm",
    "LeakyReLU", "LearnedPositionalEncoding", "Linear", "LoRA", "LogSigmoid", "LogSoftmax", "MSELoss", "MaxPool1d",
    "MaxPool2d", "Mish", "Module", "ModuleDict", "ModuleList", "MultiheadAttention", "NLLLoss", "PReLU",
    "PairwiseDistance", "Parameter", "ParameterList", "PositionalEncoding", "RMSNorm", "RNNCell", "ReLU", "ReLU6",
    "SelfAttention", "Sequential", "SiLU", "Sigmoid", "SmoothL1Loss", "Softmax", "Softmin", "Softplus",
    "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold", "Transformer", "TransformerDecoder",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "Unflatten", "Unfold", "amp", "cache",
    "compile_step", "distributed", "functional", "init", "intervene", "load", "lora", "lora_state_dict", "merge_lora",
    "optim", "parallel", "record_attention", "save", "sinusoidal_encoding", "summary", "utils",
]  # fmt: skip

if os.environ.get("TINYTENSOR_TEXTBOOK") != "1" and os.path.exists(
    os.path.join(os.path.dirname(__file__), "fast", "__init__.py")
):
    from . import fast

looks_through(os.path.dirname(__file__), False)  # show calls in here as made here
for _place, _name in ((Module, "Module"), (functional, "functional")):
    tt.missing.explain_arguments(_place, tt.missing.EXPLAINED[_name].split())


if typing.TYPE_CHECKING:
    from . import distributed
else:  # type checkers know all names from above, and complain about others

    def __getattr__(name):
        if name == "distributed":  # loaded on first use
            return importlib.import_module(f"{__name__}.{name}")
        raise tt.missing.no_attribute(__name__, name)
