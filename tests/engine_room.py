"""The engine room as tests meet it, who pass without it: modules of `tinytensor/fast` and `nn/fast`, if there are any.

They are not where the folders were removed, nor with `TINYTENSOR_TEXTBOOK=1` in the environment. No test may import
one by itself then, for that would register it.
"""

import sys
from types import ModuleType

import tinytensor.nn  # loads both, where they are there


def room(name: str) -> ModuleType | None:
    """The module `tinytensor.<name>`, as "fast.threads" or "nn.fast.optim"; None where it is left out."""
    return sys.modules.get(f"{tinytensor.__name__}.{name}")
