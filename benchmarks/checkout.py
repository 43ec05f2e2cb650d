"""A checkout of tinytensor in this process, in any layout: all that the benchmarks know of other versions.

In the old layout `nn` and `models` are packages of their own beside tinytensor, in the new one they are parts of it.

This file only imports modules that every interpreter has loaded, so that benchmarks can time `import tinytensor`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any


class Checkout:
    """The packages in one folder.

    Attributes:
        folder: the folder of the checkout.
        tt, nn, models: the packages.

    Raises ImportError if another tinytensor is loaded already.
    """

    def __init__(self, folder: Path) -> None:
        enter(folder)
        self.folder = folder
        self.tt: Any = import_module("tinytensor")
        self.nn: Any = module("nn")
        self.models: Any = module("models")
        if not os.path.samefile(self.tt.__path__[0], folder / "tinytensor"):
            raise ImportError(f"tinytensor of {self.tt.__path__[0]} is loaded already; expected that of {folder}")

    def speed_up(self) -> None:
        """Switch on everything that the scripts in `examples/` switch on."""
        if hasattr(self.tt, "speed_up"):
            self.tt.speed_up()
        else:
            self.tt.keep_memory()
            self.tt.compile_loops()
            self.tt.use_blas_threads()

    def textbook(self) -> AbstractContextManager[Any] | None:
        """A context that computes fused ops by their formulas; None if this version has none."""
        if hasattr(self.tt, "textbook"):
            return self.tt.textbook()
        formulas = getattr(import_module("tinytensor.testing"), "_formulas", None)
        return None if formulas is None else formulas()


def enter(folder: Path) -> None:
    """Import packages from this folder first, from here on."""
    sys.path.insert(0, str(folder))


def module(name: str) -> Any:
    """`nn`, `models` or a module in them, as `models.decoding`: from tinytensor or, in the old layout, beside it."""
    try:
        return import_module(f"tinytensor.{name}")
    except ModuleNotFoundError as error:
        if error.name not in ("tinytensor.nn", "tinytensor.models"):
            raise
        return import_module(name)
