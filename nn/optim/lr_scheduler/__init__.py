"""Schedules of the learning rate, under PyTorch's names and with PyTorch's values.

A scheduler sets the learning rate of every parameter group when it is made and at each `step()`; call that after the
optimiser's. Most compute the new rate from the present one (the chained form), so several of them may work on one
optimiser, and a rate changed by hand stays changed. A group that joins the optimiser later follows the schedule, too:
its rate then is its initial rate, and it gets what the other groups have in common.
"""

import typing

import tinytensor as tt

from .combined import ChainedScheduler, SequentialLR
from .cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from .cycles import CyclicLR, OneCycleLR
from .decay import ConstantLR, ExponentialLR, LinearLR, MultiStepLR, PolynomialLR, StepLR
from .functions import LambdaLR, MultiplicativeLR
from .plateau import ReduceLROnPlateau
from .scheduler import LRScheduler
from .transformer import TransformerLR

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR", "TransformerLR",
]  # fmt: skip

for _name in __all__:
    tt.missing.explain_arguments(globals()[_name], ["step"])

if not typing.TYPE_CHECKING:  # type checkers know all names from above, and complain about others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
