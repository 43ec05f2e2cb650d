"""Optimisers under PyTorch's names: `SGD`, `Adam`, `AdamW`, and the schedulers of their learning rates."""

from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
