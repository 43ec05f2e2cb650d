"""Modes of a thread: whether ops are recorded for backward, whether formulas alone compute, and who watches.

Every thread has its own modes, in `state`; `grad_mode.py` has the context managers that change them.
"""

from __future__ import annotations

import threading
from abc import ABCMeta
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .node import Node
    from .tracing import Recording

Modes = dict[str, Any]


class State(threading.local):
    """The modes of a thread.

    Attributes:
        grad_enabled: True if ops leave nodes behind.
        textbook: True if ops compute by their formulas and rules alone, without `fast/`.
        anomaly: True if the first number that is not finite raises.
        recording: the `Recording` that remembers ops for pictures, or None.
        observer: makes the nodes in place of `Node`, and sees every op that computes; None if nobody watches.
        told: computes a function whose variables somebody listens to (`nn.listening`); or None.
        plain: grad_enabled if nothing else is asked for, else None; short cuts look at this alone.
        recomputing: True during the second call of a checkpoint.
        scopes: names of the modules and stages being called, outermost first.
    """

    grad_enabled = True
    textbook = False
    anomaly = False
    recording: Recording | None = None
    observer: Callable[..., Node | None] | None = None
    told: Callable[..., Any] | None = None
    plain: bool | None = True
    recomputing = False

    def __init__(self) -> None:
        self.scopes: list[str] = []

    def change(self, **modes: Any) -> Modes:
        """Set some modes; returns them as they were."""
        before = {name: getattr(self, name) for name in modes}
        vars(self).update(modes)
        self.plain = None if self.textbook or self.observer is not None or self.told else self.grad_enabled
        return before

    @property
    def modes(self) -> Modes:
        """The modes as they are, for another thread to set by `change`."""
        return {name: getattr(self, name) for name in ("grad_enabled", "textbook", "anomaly", "recording", "observer")}


state = State()

failure_listeners: list[Callable[..., None]] = []
"""Called with the op, its arrays, their nodes and the error when an op fails; `recording` draws a picture of it."""


class Stage(str):
    """A name on the stack of scopes that is not a module's, so a module's path leaves it out."""

    __slots__ = ()


class Replaceable(ABCMeta):
    """The type of a class that reports when one of its methods is replaced: formulas obey, and `fast` has to."""

    __instancecheck__, __subclasscheck__ = type.__instancecheck__, type.__subclasscheck__  # ABC's take longer
    _tell: Any = staticmethod(lambda cls, name, before: None)  # `fast` puts its own here

    def __setattr__(cls, name: str, value: Any) -> None:
        before = vars(cls).get(name)
        super().__setattr__(name, value)
        Replaceable._tell(cls, name, before)

    def __delattr__(cls, name: str) -> None:
        before = vars(cls).get(name)
        super().__delattr__(name)
        Replaceable._tell(cls, name, before)


def module_path() -> str:
    """The path of the module being called in this thread; "" outside of all."""
    return ".".join([name for name in state.scopes if type(name) is not Stage])
