"""Modes of a thread: whether ops are recorded, by what, and inside which modules.

Every thread has its own modes. `state.recorder` is what an op calls to leave a node behind: `Node` itself, `trace` in
anomaly mode and while recording for a picture, or None while gradients are off, so that an op asks one question and
not four.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from .node import Node
from .recording.tracing import Recording, Scope, Stage, calling_frame, trace

if TYPE_CHECKING:
    from .graph import Graph

F = TypeVar("F", bound=Callable[..., Any])
Modes = tuple[bool, bool, Recording | None]  # grad_enabled, anomaly, recording


class State(threading.local):
    recorder: Callable[..., Node | None] | None = Node
    grad_enabled = True
    anomaly = False
    recording: Recording | None = None
    recomputing = False  # whether what runs is the second call of a checkpoint

    def __init__(self) -> None:
        self.scopes: list[str] = []  # names of the modules being called, outermost first

    @property
    def modes(self) -> Modes:
        return self.grad_enabled, self.anomaly, self.recording

    def change(self, grad_enabled: bool, anomaly: bool, recording: Recording | None) -> Modes:
        """Set all modes; returns them as they were."""
        before = self.modes
        self.grad_enabled, self.anomaly, self.recording = grad_enabled, anomaly, recording
        if recording is not None or (anomaly and grad_enabled):
            self.recorder = functools.partial(trace, self)
        else:
            self.recorder = Node if grad_enabled else None
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
        return state.change(False, state.anomaly, state.recording)


class enable_grad(Mode):
    """Within it, ops are recorded again, also inside `no_grad`. Context manager and decorator."""

    def _enter(self) -> Modes:
        return state.change(True, state.anomaly, state.recording)


class set_grad_enabled(Mode):
    """`no_grad` or `enable_grad`, chosen by an argument."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)

    def _enter(self) -> Modes:
        return state.change(self.mode, state.anomaly, state.recording)

    def _clone(self) -> Mode:
        return set_grad_enabled(self.mode)


class detect_anomaly(Mode):
    """Find the first op that makes a number which is not finite, forward or backward.

    Within it every recorded op remembers the source line and the modules it was called from. An op whose inputs are
    finite and whose result is not raises FloatingPointError; so does a gradient rule. Slow: for finding a fault.
    """

    def _enter(self) -> Modes:
        return state.change(state.grad_enabled, True, state.recording)


class record(Mode):
    """Within it, every op is remembered with its inputs, its module and its source line: for pictures.

        with tt.record() as graph:
            loss = model(x).sum()
        graph.save("loss.svg")

    Ops without a gradient are remembered as well. `graph` is a `tinytensor.graph.Graph` of all that was computed, and
    `draw` takes any Tensor computed within. The arrays live as long as the graph or the Tensors. It nests, and is a
    decorator as well.
    """

    def _enter(self) -> Modes:
        return state.change(state.grad_enabled, state.anomaly, Recording(state.recording, state.scopes))

    def __enter__(self) -> Graph:  # type: ignore[override]
        from .graph import Graph  # first, or the first op would be said to take the time of it

        super().__enter__()
        assert state.recording is not None
        return Graph(state.recording.nodes)

    def __exit__(self, *exception: object) -> None:
        from .tensor import Tensor

        recording = state.recording
        super().__exit__(*exception)
        assert recording is not None
        frame = calling_frame()
        variables = frame.f_locals
        for name, value in list(variables.items()):
            if isinstance(value, Tensor):
                recording.name(value, name)
        if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            variables.clear()  # a copy that the function would hold until it returns, and with it what it computed
        if state.recording is not None:
            state.recording.nodes += recording.nodes


class named_scope:
    """Within it, ops belong to a stage of this name: pictures draw it as they draw a module. A decorator as well."""

    def __init__(self, name: str) -> None:
        self.name = Stage(name)

    def __enter__(self) -> None:
        state.scopes.append(self.name)
        if state.recording is not None:
            state.recording.scope = Scope(self.name, "", state.recording.scope)

    def __exit__(self, *exception: object) -> None:
        state.scopes.pop()
        if state.recording is not None:
            state.recording.leave()

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


def is_grad_enabled() -> bool:
    """Whether ops are recorded in this thread."""
    return state.grad_enabled


def is_anomaly_enabled() -> bool:
    """Whether `detect_anomaly` is on in this thread."""
    return state.anomaly
