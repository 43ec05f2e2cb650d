"""The engine room: what makes ops fast and changes no number but by rounding. No formula is here.

It registers itself: short cuts for the calls of ops, and what fast pairs need in the namespaces of the backends. It can
be deleted, and all else computes the same; `tt.textbook()` leaves it aside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from .. import backend
from ..grad_mode import Fuser
from ..machine.extras import how_to_install
from ..modes import state
from ..primitive import OPS, has_pair
from . import numpy as numpy_room
from . import shortcuts, switches, texts
from .compiler import jit


def extend(namespace: ModuleType) -> None:
    """Add to a backend's namespace what fast pairs need, and faster versions of what it has."""
    room: ModuleType = numpy_room
    if namespace.device == "gpu":
        from . import cupy as cupy_room

        room = cupy_room
    for name, function in vars(room).items():
        if isinstance(function, FunctionType) and function.__module__.startswith(__name__) and name[0] != "_":
            slow = getattr(namespace, name, None)
            setattr(namespace, name, function if slow is None else _unless_textbook(function, slow))


def _unless_textbook(fast: Callable[..., Any], slow: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fast)
    def choose(*args: Any, **kwargs: Any) -> Any:
        return (slow if state.textbook else fast)(*args, **kwargs)

    return choose


def guard_pairs() -> None:
    """Let each fast pair that was registered so far stand for its formula, and listen to what is replaced."""
    package = __package__.partition(".")[0]
    for primitive in OPS.values():
        module = primitive.function.__module__.removeprefix(f"{package}.")
        if has_pair(primitive) and not module.startswith(texts.NOT_TEXT):
            primitive.way = texts.Way(f"op {primitive.name}", f"{module}:{primitive.function.__name__}")
            if primitive.name in jit.BY_TEXT and jit.is_on():
                jit.prefer_text(primitive)
    texts.listen()


def whole(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """What a function that `tt.compile` was given computes, in a tuple; None where its own lines are to."""
    if not jit.can_compile():
        compiled.why_not = f"llvmlite is missing, or switched off: {how_to_install('fast')}"
        return None
    from .compiler.calls import compute

    return compute(compiled, args, kwargs)


Fuser.whole = staticmethod(whole)
extend(backend.for_device("cpu"))
backend.on_load.append(extend)
