"""nn: layers, losses and what trains them, under PyTorch's names."""

if __name__ == "nn":  # the folder itself, found in the root of the repository
    raise ImportError("nn is a part of tinytensor; write: from tinytensor import nn")

import os
import typing

import tinytensor as tt
from tinytensor.tracing import looks_through

from . import amp, distributed, functional, init, optim, parallel, utils
from .activations import GELU, LogSoftmax, ReLU, Sigmoid, Softmax, Tanh
from .attention import MultiheadAttention
from .checkpoint import CheckpointError, load, save
from .containers import ModuleDict, ModuleList, Sequential
from .convolution import Conv1d
from .layers import Dropout, Embedding, Identity, LayerNorm, Linear
from .losses import BCEWithLogitsLoss, CrossEntropyLoss, MSELoss, NLLLoss
from .module import Module
from .parameter import Parameter
from .positional import LearnedPositionalEncoding, PositionalEncoding, sinusoidal_encoding
from .recording import AttentionCall, record_attention
from .recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from .transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

__all__ = [
    "GELU", "GRU", "LSTM", "RNN", "AttentionCall", "BCEWithLogitsLoss", "CheckpointError", "Conv1d", "CrossEntropyLoss",
    "Dropout", "Embedding", "GRUCell", "Identity", "LSTMCell", "LayerNorm", "LearnedPositionalEncoding", "Linear",
    "LogSoftmax", "MSELoss", "Module", "ModuleDict", "ModuleList", "MultiheadAttention", "NLLLoss", "Parameter",
    "PositionalEncoding", "RNNCell", "ReLU", "Sequential", "Sigmoid", "Softmax", "Tanh", "Transformer",
    "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "amp",
    "distributed", "functional", "init", "load", "optim", "parallel", "record_attention", "save",
    "sinusoidal_encoding", "utils",
]  # fmt: skip

if os.environ.get("TINYTENSOR_TEXTBOOK") != "1" and os.path.exists(
    os.path.join(os.path.dirname(__file__), "fast", "__init__.py")
):
    from . import fast

looks_through(os.path.dirname(__file__), False)  # what is called in here is shown here


if not typing.TYPE_CHECKING:  # type checkers know all names from above, and complain of others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
