"""Data for models: datasets and their batches, sequences, toy languages, text files.

from tinytensor.models.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)
for x, y in loader:
    ...
"""

import typing

import tinytensor as tt

from .collate import default_collate
from .dataset import Dataset, Subset, TensorDataset, random_split
from .loader import DataLoader
from .sampler import BatchSampler, RandomSampler, SequentialSampler, TokenBatchSampler

__all__ = [
    "BatchSampler", "DataLoader", "Dataset", "RandomSampler", "SequentialSampler", "Subset", "TensorDataset",
    "TokenBatchSampler", "default_collate", "random_split",
]  # fmt: skip


if not typing.TYPE_CHECKING:  # type checkers know all names from above, and complain about others

    def __getattr__(name):
        raise tt.missing.no_attribute(__name__, name)
