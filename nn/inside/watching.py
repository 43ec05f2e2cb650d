"""Watchers: they meet the values of a model by name, while it computes.

    layers.3                          what a module returns
    layers.3.norm1.input              an argument of its `forward`, by that name
    layers.3.self_attn.weights        within its attention: a variable of `F.attention.attention`

The path is that of `named_modules`, as in `state_dict`, errors and pictures. A hook on the module tells results and
arguments; `listening` tells variables, and only while that module computes. So only modules that are watched leave
their compiled loops.
"""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import functools
import inspect
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import MethodType
from typing import Any, NamedTuple, Self

import tinytensor as tt
from tinytensor.modes import Stage, state

from ..functional import attention
from ..listening import listening
from ..module import Module, temporary

VARIABLES = ("q", "k", "v", "scores", "weights", "z")
"""The variables of `attention` that have names."""

CALLERS = {"multi_head", "attend_heads", "scaled_dot_product_attention", "multi_head_attention_forward"}
"""The functions that call it; a module's methods call one of them by its name, or there are no variables to tell."""


class Place(NamedTuple):
    """The place of a value: the `name` of an argument or of a variable within attention, "" for a module's result."""

    module: Module
    kind: str
    name: str = ""


def places(model: Module) -> dict[str, Place]:
    """All names of values in a model, in the order of `named_modules`; its own result has the name of its class."""
    if not isinstance(model, Module):
        raise TypeError(f"expected a Module to look into, got a {type(model).__name__}")
    modules = list(model.named_modules())
    found = {path or type(model).__name__: Place(module, "result") for path, module in modules}
    for path, module in modules:
        inner = [Place(module, "variable", name) for name in VARIABLES if _attends(type(module))]
        inner += [Place(module, "argument", name) for name in _signature(module).parameters]
        for place in inner:
            found.setdefault(f"{path}.{place.name}" if path else place.name, place)
    return found


@functools.cache
def _attends(kind: type) -> bool:
    """True if a method of a class calls attention."""
    methods = [inspect.unwrap(f) for base in kind.__mro__ for f in vars(base).values() if callable(f)]
    return any(not CALLERS.isdisjoint(f.__code__.co_names) for f in methods if inspect.isfunction(f))


def _signature(module: Module) -> inspect.Signature:
    return inspect.signature(module.forward)


def matching(who: str, names: Iterable[str], pattern: str) -> list[str]:
    """The names that a pattern means: a name, the end of one name only, or a glob (`layers.*.weights`) of either.

    Raises ValueError for a pattern that means none, or several without a `*`.
    """
    known = list(names)
    for form in (pattern, f"*.{pattern}"):
        found = [pattern] if form in known else [name for name in known if fnmatch.fnmatchcase(name, form)]
        if len(found) == 1 or (found and "*" in pattern):
            return found
    raise ValueError(f"{who}: no value is called {pattern!r}; {near(pattern, known)}")


def near(name: str, known: list[str]) -> str:
    """Names that somebody who wrote this one may have meant: that end so, of the same module, or spelt almost so."""
    path = name.rpartition(".")[0]
    beside = [other for other in known if other.endswith(f".{name}") or (path and other.rpartition(".")[0] == path)]
    found = beside or difflib.get_close_matches(name, known, n=4, cutoff=0.5) or known[:8]
    return f"there are {', '.join(found)}" if found else "there is none"


class Watcher:
    """A context manager that meets values at some places of a model, in this thread.

    Of two watchers, the inner one comes first. The model continues with the result of `meet`, unless that is None.
    """

    def __init__(self, at: dict[str, Place]) -> None:
        self._at = {place: name for name, place in at.items()}
        self._kinds = {(place.module, place.kind) for place in self._at}
        self._on: list[tuple[list[Watcher], ExitStack]] = []

    def meet(self, name: str, value: Any) -> Any:
        """Receive the value of a name."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            for tell, module in {(_tell_both_ends, module) for module, _ in self._kinds} | {
                (_tell_variables, module) for module, kind in self._kinds if kind == "variable"
            }:
                opened.enter_context(_told(tell, module))
            here = _here.entered
            here.insert(0, self)
            opened.callback(self._leave, here)
            self._on.append((here, opened.pop_all()))
        return self

    def __exit__(self, *exception: Any) -> None:
        """Leave the thread that entered, which is another one if that closes a generator."""
        entered = [i for i, (there, _) in enumerate(self._on) if there is _here.entered]
        self._on.pop(entered[-1] if entered else -1)[1].close()

    def _leave(self, here: list[Watcher]) -> None:
        del here[next(i for i, watcher in enumerate(here) if watcher is self)]


class _Here(threading.local):
    """The watchers of this thread, the innermost first."""

    def __init__(self) -> None:
        self.entered: list[Watcher] = []


_here = _Here()
_lock = threading.RLock()
_counts: dict[Any, tuple[int, Callable[[], None]]] = {}  # number of watchers, and how to stop


def watchers() -> tuple[Watcher, ...]:
    """The watchers of this thread, which meet no value that another thread computes."""
    return tuple(_here.entered)


def _hear(place: Place, value: Any) -> Any:
    """Return the value that replaces this one; None if no watcher replaces it."""
    new = None
    for watcher in watchers():
        if place in watcher._at and (found := watcher.meet(watcher._at[place], value)) is not None:
            value = new = found
    return new


def _is_heard(module: Module, kind: str) -> bool:
    return any((module, kind) in watcher._kinds for watcher in watchers())


@contextlib.contextmanager
def _told(tell: Callable[[Module], Callable[[], None]], module: Module) -> Any:
    """Within it, a module tells what `tell` makes it tell: once, however many watchers there are in all threads."""
    key = tell, module
    with _lock:
        count, undo = _counts.get(key) or (0, tell(module))
        _counts[key] = count + 1, undo
    try:
        yield
    finally:
        with _lock:
            count, undo = _counts.pop(key)
            if count > 1:
                _counts[key] = count - 1, undo
            else:
                undo()


def _tell_both_ends(module: Module) -> Callable[[], None]:
    """Register hooks for a module's arguments and its result."""
    before = module.register_forward_pre_hook(temporary(_before), with_kwargs=True)
    after = module.register_forward_hook(temporary(_after))

    def undo() -> None:
        before.remove()
        after.remove()

    return undo


def _before(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not _is_heard(module, "argument"):
        return None
    try:
        given = _signature(module).bind(*args, **kwargs)
    except TypeError:  # which forward will raise
        return None
    heard = {name: _hear(Place(module, "argument", name), value) for name, value in given.arguments.items()}
    given.arguments |= {name: value for name, value in heard.items() if value is not None}
    return (given.args, given.kwargs) if any(value is not None for value in heard.values()) else None


def _after(module: Module, args: Any, output: Any) -> Any:
    """A module's result: of (result, None), as attention without weights gives it, the first."""
    place = Place(module, "result")
    if type(output) is not tuple or len(output) != 2 or output[1] is not None:
        return _hear(place, output)
    return None if (found := _hear(place, output[0])) is None else (found, None)


def _tell_variables(module: Module) -> Callable[[], None]:
    """Return a `forward` for a module that also listens to its attention."""
    whole: Any = type(module).forward
    own, former = vars(module), vars(module).get("forward")

    @functools.wraps(whole)
    def telling(self: Module, *args: Any, **kwargs: Any) -> Any:
        forward = functools.partial(whole, self) if former is None else former
        if not _is_heard(self, "variable"):
            return forward(*args, **kwargs)
        depth = _depth()

        def listen(function: str, name: str, value: Any) -> Any:
            """Tell what the module itself computes; attention in 16 bits calls itself in 32, and tells that."""
            if name not in VARIABLES or value.dtype == tt.float16 or _depth() != depth:
                return None
            return _hear(Place(self, "variable", name), value)

        with listening(listen, attention.attention):
            return forward(*args, **kwargs)

    own["forward"] = here = MethodType(temporary(telling, former), module)

    def undo() -> None:
        if own.get("forward") is not here:  # somebody assigned another one
            return
        del own["forward"]
        if former is not None:
            own["forward"] = former

    return undo


def _depth() -> int:
    """How many modules are being called, within each other."""
    return sum(type(name) is not Stage for name in state.scopes)
