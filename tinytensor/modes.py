"""Modes of a thread: whether ops are recorded for backward, whether formulas alone compute, and who watches.

Every thread has its own modes, in `state`.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .node import Node
    from .tracing import Recording

F = TypeVar("F", bound=Callable[..., Any])
Modes = dict[str, Any]


class State(threading.local):
    """The modes of a thread.

    Attributes:
        grad_enabled: whether ops leave nodes behind.
        textbook: whether ops compute by their formulas and rules alone, without what is in `fast/`.
        anomaly: whether the first number that is not finite raises.
        recording: what remembers ops for pictures, if anything does.
        observer: makes the nodes in place of `Node`, and sees all that is computed; None where nobody watches.
        plain: grad_enabled where nothing else is asked for, else None: the one question that the short cuts ask.
        recomputing: whether what runs is the second call of a checkpoint.
        scopes: names of the modules and stages being called, outermost first.
    """

    grad_enabled = True
    textbook = False
    anomaly = False
    recording: Recording | None = None
    observer: Callable[..., Node | None] | None = None
    plain: bool | None = True
    recomputing = False

    def __init__(self) -> None:
        self.scopes: list[str] = []

    def change(self, **modes: Any) -> Modes:
        """Set some modes; returns them as they were."""
        before = {name: getattr(self, name) for name in modes}
        for name, value in modes.items():
            setattr(self, name, value)
        self.plain = None if self.textbook or self.observer is not None else self.grad_enabled
        return before

    @property
    def modes(self) -> Modes:
        """All that `change` can set, as another thread may want it."""
        names = ("grad_enabled", "textbook", "anomaly", "recording", "observer")
        return {name: getattr(self, name) for name in names}


state = State()

failure_listeners: list[Callable[..., None]] = []
"""Called with the op, its arrays, their nodes and the error when an op fails; `recording` draws a picture of it."""


class Stage(str):
    """A name on the stack of scopes that is no module, so that a module's path leaves it out."""

    __slots__ = ()


def module_path() -> str:
    """The path of the module being called in this thread; "" outside of all."""
    return ".".join([name for name in state.scopes if type(name) is not Stage])


class Mode:
    """A context manager that is also a decorator, of functions, generator functions and coroutines alike.

    It nests, one instance may be entered again while it is active, and the former mode returns after an exception.
    """

    def __init__(self) -> None:
        self._former: dict[int, list[Modes]] = {}  # by thread

    def _modes(self) -> Modes:
        """What it sets."""
        raise NotImplementedError

    def _clone(self) -> Mode:
        return type(self)()

    def __enter__(self) -> Any:
        self._former.setdefault(threading.get_ident(), []).append(state.change(**self._modes()))

    def __exit__(self, *exception: object) -> None:
        state.change(**self._former[threading.get_ident()].pop())

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def decorated(*args: Any, **kwargs: Any) -> Any:
                return (yield from self._drive(function(*args, **kwargs)))

        elif inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def decorated(*args: Any, **kwargs: Any) -> Any:
                return await _awaitable(self._drive(function(*args, **kwargs)))

        elif inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def decorated(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
                inner, value = function(*args, **kwargs), None
                try:
                    while True:
                        value = yield await _awaitable(self._drive(inner.asend(value)))
                except StopAsyncIteration:
                    return
                finally:
                    await inner.aclose()

        else:

            @functools.wraps(function)
            def decorated(*args: Any, **kwargs: Any) -> Any:
                with self._clone():
                    return function(*args, **kwargs)

        return decorated  # type: ignore[return-value]

    def _drive(self, inner: Any) -> Generator[Any, Any, Any]:
        """Run a generator or coroutine; the mode holds while its own code runs, never in between."""
        resume, value = inner.send, None
        try:
            while True:
                with self._clone():
                    item = resume(value)
                try:
                    resume, value = inner.send, (yield item)
                except GeneratorExit:
                    with self._clone():
                        inner.close()
                    raise
                except BaseException as error:
                    resume, value = inner.throw, error
        except StopIteration as end:
            return end.value


@types.coroutine
def _awaitable(generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    return (yield from generator)


class set_grad_enabled(Mode):
    """Within it, ops are recorded for backward or not, as `mode` says. Context manager and decorator."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)

    def _modes(self) -> Modes:
        return {"grad_enabled": self.mode}

    def _clone(self) -> Mode:
        return set_grad_enabled(self.mode)


class no_grad(Mode):
    """Within it, nothing is recorded: results do not require a gradient. Context manager and decorator."""

    def _modes(self) -> Modes:
        return {"grad_enabled": False}


class enable_grad(Mode):
    """Within it, ops are recorded again, also inside `no_grad`. Context manager and decorator."""

    def _modes(self) -> Modes:
        return {"grad_enabled": True}


class textbook(Mode):
    """Within it, this thread computes by formulas and gradient rules alone: what you read is what runs.

    Nothing of the engine room (`tinytensor.fast`, `tinytensor.nn.fast`) is entered: no fast pairs of fused ops, no
    compiled loops or kernels, no short cuts. For a walk with a debugger, and to tell whether a number comes from a
    formula or from its fast twin. With `TINYTENSOR_TEXTBOOK=1` in the environment, the engine room is not loaded at
    all. Context manager and decorator.
    """

    def _modes(self) -> Modes:
        return {"textbook": True}


def is_grad_enabled() -> bool:
    """Whether ops are recorded in this thread."""
    return state.grad_enabled


def is_anomaly_enabled() -> bool:
    """Whether `detect_anomaly` is on in this thread."""
    return state.anomaly
