"""Optimisers under PyTorch's names: `SGD`, `Adam`, `AdamW`, and the schedulers of their learning rates."""

import typing

import tinytensor as tt

from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD
from .zero_redundancy import ZeroRedundancyOptimizer

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "ZeroRedundancyOptimizer", "lr_scheduler"]


if not typing.TYPE_CHECKING:  # type checkers know all names from above, and complain of others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
