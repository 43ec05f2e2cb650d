"""Calls that a program cannot repeat: a print, a file, a clock.

While a function is recorded, Python reports each call of a function in C (`sys.setprofile`). One that is not known to
depend on its arguments alone ends the recording before it runs, so that the function's lines do it in each call.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from ...record.tape import NotRecorded
from .jit import FOLDERS, INSTALLED

KNOWN = frozenset({
    "builtins", "math", "cmath", "itertools", "functools", "_functools", "operator", "_operator", "collections",
    "_collections", "numpy", "re", "_sre", "_abc", "_struct", "_json", "_string", "_bisect", "_heapq", "_weakref",
    "weakref", "contextvars", "_contextvars", "_thread", "typing", "copyreg", "types", "decimal", "fractions",
    "array",
})  # fmt: skip
"""Modules whose functions depend on their arguments alone."""

UNKNOWN = frozenset({
    "print", "input", "breakpoint", "eval", "exec", "globals", "locals", "__import__", "id", "open",
    "start_new_thread", "start_joinable_thread",
})  # fmt: skip
"""Those of them that act, or read what no name shows."""

ACTS = frozenset({"print", "write", "replace"})
"""Functions that act, and that the library calls only for who asks for it: in a summary, a file, a log."""

ENVIRONMENT = type(os.environ).__getitem__.__code__


@contextlib.contextmanager
def refused(reasons: list[str]) -> Iterator[None]:
    """End what runs in this context by NotRecorded at a call that a program cannot repeat; the reason is added."""

    def look(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and _is_known(function):
            return
        if event == "c_call" or (event == "call" and frame.f_code is ENVIRONMENT):
            name = function.__name__ if event == "c_call" else "os.environ"
            if not _is_for_the_library(frame, name):
                reasons.append(f"it calls {name}()" if event == "c_call" else f"it reads {name}")
                raise NotRecorded(reasons[-1])

    former = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        getattr(former, "enable", lambda: sys.setprofile(former))()  # cProfile has its own method to resume


def _is_known(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    module = function.__module__ or (owner if isinstance(owner, type) else type(owner)).__module__
    return module.partition(".")[0] in KNOWN and function.__name__ not in UNKNOWN


def _is_for_the_library(frame: FrameType | None, name: str) -> bool:
    """True for a call on the way of the library's own work, or of an import."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return True
        if file.startswith(FOLDERS):
            return name not in ACTS
        if not file.startswith(INSTALLED):
            return False
        frame = frame.f_back
    return False
