"""Optimisers under PyTorch's names: `SGD`, `Adam`, `AdamW`, and the schedulers of their learning rates."""

import typing

import tinytensor as tt

from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "ZeroRedundancyOptimizer", "lr_scheduler"]

if typing.TYPE_CHECKING:
    from .zero_redundancy import ZeroRedundancyOptimizer
else:  # type checkers know all names from above, and complain of others

    def __getattr__(name):
        if name == "ZeroRedundancyOptimizer":  # loaded when it is first asked for
            from .zero_redundancy import ZeroRedundancyOptimizer

            return ZeroRedundancyOptimizer
        raise tt.missing.no_attribute(__name__, name)
