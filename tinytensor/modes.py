"""Modes of a thread: whether ops are recorded, by what, and inside which modules.

Every thread has its own modes. `state.recorder` is what an op calls to leave a node behind: `Node` itself, `trace` in
anomaly mode and while recording for a picture, or None while gradients are off, so that an op asks one question and
not four.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, TypeVar

from .node import Node, trace

F = TypeVar("F", bound=Callable[..., Any])
Modes = tuple[bool, bool, bool]  # grad_enabled, anomaly, recording


class State(threading.local):
    recorder: Callable[..., Node] | None = Node
    grad_enabled = True
    anomaly = False
    recording = False

    def __init__(self) -> None:
        self.scopes: list[str] = []  # names of the modules being called, outermost first

    def change(
        self, grad_enabled: bool | None = None, anomaly: bool | None = None, recording: bool | None = None
    ) -> Modes:
        """Set what is given; returns all as they were."""
        before = self.grad_enabled, self.anomaly, self.recording
        if grad_enabled is not None:
            self.grad_enabled = grad_enabled
        if anomaly is not None:
            self.anomaly = anomaly
        if recording is not None:
            self.recording = recording
        if not self.grad_enabled:
            self.recorder = None
        else:
            self.recorder = functools.partial(trace, self) if self.anomaly or self.recording else Node
        return before


state = State()


class Mode:
    """A context manager that is also a decorator, of functions, generator functions and coroutines alike.

    It nests, one instance may be entered again while it is active, and the former mode returns after an exception.
    """

    def __init__(self) -> None:
        self._former: dict[int, list[Modes]] = {}  # by thread

    def _enter(self) -> Modes:
        raise NotImplementedError

    def _clone(self) -> Mode:
        return type(self)()

    def __enter__(self) -> None:
        self._former.setdefault(threading.get_ident(), []).append(self._enter())

    def __exit__(self, *exception: object) -> None:
        state.change(*self._former[threading.get_ident()].pop())

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def wrapped_generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                return (yield from self._drive(function(*args, **kwargs)))

            return wrapped_generator  # type: ignore[return-value]

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapped_coroutine(*args: Any, **kwargs: Any) -> Any:
                return await _awaitable(self._drive(function(*args, **kwargs)))

            return wrapped_coroutine  # type: ignore[return-value]

        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def wrapped_async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
                inner, value = function(*args, **kwargs), None
                try:
                    while True:
                        value = yield await _awaitable(self._drive(inner.asend(value)))
                except StopAsyncIteration:
                    return
                finally:
                    await inner.aclose()

            return wrapped_async_generator  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self._clone():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

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


class no_grad(Mode):
    """Within it, nothing is recorded: results do not require a gradient. Context manager and decorator."""

    def _enter(self) -> Modes:
        return state.change(grad_enabled=False)


class enable_grad(Mode):
    """Within it, ops are recorded again, also inside `no_grad`. Context manager and decorator."""

    def _enter(self) -> Modes:
        return state.change(grad_enabled=True)


class set_grad_enabled(Mode):
    """`no_grad` or `enable_grad`, chosen by an argument."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)

    def _enter(self) -> Modes:
        return state.change(grad_enabled=self.mode)

    def _clone(self) -> Mode:
        return set_grad_enabled(self.mode)


class detect_anomaly(Mode):
    """Find the first op that makes a number which is not finite, forward or backward.

    Within it every recorded op remembers the source line and the modules it was called from. An op whose inputs are
    finite and whose result is not raises FloatingPointError; so does a gradient rule. Slow: for finding a fault.
    """

    def _enter(self) -> Modes:
        return state.change(anomaly=True)


class record(Mode):
    """Within it, every op remembers for `draw` the modules and the source line it was called from, and its constants.

    A picture can be drawn without it; then it has no module clusters, and shows only what gradients flow through.
    Constant arrays live as long as the graph. Context manager and decorator.
    """

    def _enter(self) -> Modes:
        return state.change(recording=True)


def is_grad_enabled() -> bool:
    """Whether ops are recorded in this thread."""
    return state.grad_enabled


def is_anomaly_enabled() -> bool:
    """Whether `detect_anomaly` is on in this thread."""
    return state.anomaly
