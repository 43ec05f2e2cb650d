"""Calls that a program cannot repeat: a print, a file, a clock.

While a function is recorded, Python reports each call of a function in C (`sys.setprofile`). One that is not known to
depend on its arguments alone ends the recording before it runs, so that the function's lines do it in each call.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import logging
import os
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from ...record.tape import NotRecorded
from .jit import FOLDERS, INSTALLED

KNOWN = frozenset({
    "builtins", "math", "cmath", "itertools", "functools", "_functools", "operator", "_operator", "collections",
    "_collections", "numpy", "re", "_sre", "_abc", "_struct", "_json", "_string", "_bisect", "_heapq", "_weakref",
    "weakref", "contextvars", "_contextvars", "typing", "copyreg", "types", "decimal", "fractions", "array",
})  # fmt: skip
"""Modules whose functions depend on their arguments alone."""

UNKNOWN = frozenset({
    "print", "input", "breakpoint", "eval", "exec", "globals", "locals", "__import__", "id", "open",
    "tofile", "fromfile", "fromregex",
})  # fmt: skip
"""Those of them that act, or read what no name shows."""

ACTS = frozenset({"print", "write", "replace"})
"""Functions that act, and that the library calls only for who asks for it: in a summary, a file, a log."""

ENVIRONMENT = type(os.environ).__getitem__.__code__
LOGGING = os.path.join(os.path.dirname(logging.__file__), "")


@contextlib.contextmanager
def refused(reasons: list[str]) -> Iterator[None]:
    """End what runs in this context by NotRecorded at a call that a program cannot repeat; the reason is added."""
    former, tracing = sys.getprofile(), sys.gettrace()

    def look(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call":
            reason = "" if _is_known(function) else f"it calls {function.__name__}()"
        else:
            reason = _of_code(frame.f_code) if event == "call" else ""
        if not reason or _is_for_the_library(frame, function.__name__ if event == "c_call" else ""):
            return
        reasons.append(reason)
        if event == "c_call" and function.__name__ in ("__exit__", "release"):
            return  # of a lock, which has to be free for the function's lines
        raises: Any = frame if event == "c_call" else frame.f_back
        own = raises.f_trace

        def look_again(frame: FrameType, event: str, arg: Any) -> Any:
            frame.f_trace = own
            sys.settrace(tracing)
            sys.setprofile(look)
            return own

        raises.f_trace = look_again  # an error in `look` ends it, and what is in a `finally` is next
        sys.settrace(look_again)
        raise NotRecorded(reason)

    sys.setprofile(look)
    try:
        yield
    finally:
        if sys.gettrace() is not tracing:
            sys.settrace(tracing)
        getattr(former, "enable", lambda: sys.setprofile(former))()  # cProfile has its own method to resume


@functools.lru_cache(4096)
def _of_code(code: CodeType) -> str:
    """Why a call of a function in Python ends a recording; "" if it does not."""
    if code is ENVIRONMENT:
        return "it reads os.environ"
    if code.co_filename.startswith(LOGGING):
        return "it logs"
    if not code.co_filename.startswith((*FOLDERS, *INSTALLED)):
        names = {(i.opname[:6], i.argval) for i in dis.get_instructions(code)}
        if {("LOAD_G", "type"), ("LOAD_N", "type"), ("LOAD_A", "__class__")} & names:
            return "it asks for a type, which for Tensors is another one while they are recorded"
    return ""


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
