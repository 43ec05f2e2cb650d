"""Optimisers under PyTorch's names, the schedulers of their learning rates, and averages of weights.

`SGD`, `Adam` and `AdamW` train most models, and have in-place steps in `nn/fast/`. The others are only formulas, and
are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

import tinytensor as tt

from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD

if TYPE_CHECKING:
    from . import swa_utils
    from .adadelta import Adadelta
    from .adagrad import Adagrad
    from .adamax import Adamax
    from .lion import Lion
    from .muon import Muon
    from .nadam import NAdam
    from .radam import RAdam
    from .rmsprop import RMSprop
    from .zero_redundancy import ZeroRedundancyOptimizer

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lion", "Muon", "NAdam", "Optimizer", "RAdam", "RMSprop",
    "ZeroRedundancyOptimizer", "lr_scheduler", "swa_utils",
]  # fmt: skip

_LATER = {name: name.lower() for name in __all__ if name not in globals()} | {
    "ZeroRedundancyOptimizer": "zero_redundancy"
}
"""The file of each name that is loaded on first use."""


if not TYPE_CHECKING:  # type checkers know all names from above, and complain about others

    def __getattr__(name):
        if name not in _LATER:
            raise tt.missing.no_attribute(__name__, name)
        module = import_module(f"{__name__}.{_LATER[name]}")
        found = globals()[name] = module if _LATER[name] == name else getattr(module, name)
        return found


def __dir__():
    return sorted({*globals(), *__all__})
