"""Optimisers under PyTorch's names, the schedulers of their learning rates, and averages of weights.

`SGD`, `Adam` and `AdamW` are what most models are trained with, and have steps in place in `nn/fast/`; the others are
their formulas.
"""

import typing

import tinytensor as tt

from . import lr_scheduler, swa_utils
from .adadelta import Adadelta
from .adagrad import Adagrad
from .adam import Adam, AdamW
from .adamax import Adamax
from .lion import Lion
from .muon import Muon
from .nadam import NAdam
from .optimizer import Optimizer
from .radam import RAdam
from .rmsprop import RMSprop
from .sgd import SGD

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lion", "Muon", "NAdam", "Optimizer", "RAdam", "RMSprop",
    "lr_scheduler", "swa_utils",
]  # fmt: skip


if not typing.TYPE_CHECKING:  # type checkers know all names from above, and complain of others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
