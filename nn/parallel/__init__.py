"""Data parallelism: parts of a batch on the cores of one machine (`threads`), or on many processes and machines."""

import typing

import tinytensor as tt

from .threads import backward_of_sum, side_by_side, worth_splitting

__all__ = ["DistributedDataParallel", "backward_of_sum", "side_by_side", "worth_splitting"]

if typing.TYPE_CHECKING:
    from .data_parallel import DistributedDataParallel
else:  # type checkers know all names from above, and complain about others

    def __getattr__(name):
        if name == "DistributedDataParallel":  # loaded on first use
            from .data_parallel import DistributedDataParallel

            return DistributedDataParallel
        raise tt.missing.no_attribute(__name__, name)
