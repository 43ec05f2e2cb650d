"""Context managers and decorators that change a thread's modes for a while: `no_grad`, `textbook`, ..."""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, TypeVar

from .modes import Modes, state

F = TypeVar("F", bound=Callable[..., Any])


class Former(dict[int, list[Modes]]):
    """The modes to go back to, by thread."""

    def __missing__(self, thread: int) -> Any:
        raise RuntimeError(
            "a mode, such as no_grad, was left in another thread than it was entered in, and stays on there"
        )


class Mode:
    """A context manager that is also a decorator, of functions, generator functions and coroutines alike.

    It nests, one instance may be entered again while it is active, and the former mode returns after an exception.
    """

    def __init__(self) -> None:
        self._former = Former()

    def _modes(self) -> Modes:
        """The modes that it sets."""
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

    It stays out of the engine room (`fast`, `nn.fast`, `models.fast`): no fast pairs of fused ops, no compiled loops
    or kernels, no short cuts. For a walk with a debugger, and to tell whether a number comes from a formula or
    from its fast twin. With `TINYTENSOR_TEXTBOOK=1` in the environment, the engine room is not loaded at all. Context
    manager and decorator.
    """

    def _modes(self) -> Modes:
        return {"textbook": True}


def is_grad_enabled() -> bool:
    """True if ops are recorded in this thread."""
    return state.grad_enabled


def is_anomaly_enabled() -> bool:
    """True if `detect_anomaly` is on in this thread."""
    return state.anomaly


class Fuser:
    """Computes functions of Tensors in few passes over memory, or gives None where it cannot; `fast` has one.

    Attributes:
        fuse: for a function that is `fusible`, with its arguments.
        whole: for one that `tt.compile` was given.
    """

    fuse: Callable[..., Any] | None = None
    whole: Callable[..., Any] | None = None


def fusible(function: F) -> F:
    """The function of Tensors, in one pass over large arrays where `fast` can compile it; else by its lines.

    It must be pure: no random numbers, nothing written, the same for the same arguments.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if (fuse := Fuser.fuse) and state.plain is not None and (found := fuse(function, args, kwargs)) is not None:
            return found
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def may_be_faster(function: F) -> F:
    """The function, with a faster way in front where there is one: `function.faster = way`.

    The way takes the same arguments and gives the same result, or None where it does not apply: then the function's
    own lines compute. They always do in textbook mode, and without `fast/`.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if state.told and (found := state.told(function, call.faster, args, kwargs)) is not None:  # type: ignore[attr-defined]
            return found
        if call.faster and not state.textbook and (found := call.faster(*args, **kwargs)) is not None:  # type: ignore[attr-defined]
            return found
        return function(*args, **kwargs)

    call.faster = None  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]
