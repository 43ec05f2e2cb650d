"""Listeners: they receive the variables of a function by name while it runs, and may replace them.

    with listening(lambda function, name, value: value * 0 if name == "weights" else None, F.attention.attention):
        model(source, target)

The function's text says nothing of it: its own lines run, with a call behind those that give a variable its last value.
If nothing is replaced, the faster version's result stays, to the last bit; stacks in compiled loops step aside.
"""

from __future__ import annotations

import ast
import functools
import linecache
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType
from typing import Any

import tinytensor as tt
from tinytensor.modes import state
from tinytensor.tracing import looks_through

looks_through(__file__, True)


class _Entry:
    """A listener to functions of these names; `muted` counts the faster versions that compute meanwhile."""

    def __init__(self, listener: Any, names: list[str]) -> None:
        self.listener, self.names, self.muted = listener, names, 0


class _Thread:
    """The entries of a thread, the innermost first: another thread may end one, if it closes a generator."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.heard: dict[str, list[Any]] = {}  # by function
        self.replaced = False  # True once a listener replaced a value
        self.former: Any = None  # the mode `told` before the first entry: an export has its own

    def change(self, entry: _Entry, is_on: bool) -> None:
        self.entries = [entry] * is_on + [other for other in self.entries if other is not entry]
        self.update()

    def mute(self, entries: list[_Entry], by: int) -> None:
        for entry in entries:
            entry.muted += by
        self.update()

    def update(self) -> None:
        heard: dict[str, list[Any]] = {}
        for entry in self.entries:
            for name in () if entry.muted else entry.names:
                heard.setdefault(name, []).append(entry.listener)
        self.heard = heard


class _Here(threading.local):
    def __init__(self) -> None:
        self.thread = _Thread()


_here = _Here()
_lock = threading.Lock()
_own: dict[Any, tuple[int, CodeType]] = {}  # by function: its listeners in all threads, and its own code


@contextmanager
def listening(listener: Callable[[str, str, Any], Any], *functions: Any) -> Iterator[None]:
    """Within it, this thread calls `listener(name of the function, name of the variable, value)`.

    Parameters come when the function is called, other variables once they have their last value. Unless it is None, the
    listener's result replaces the variable. Of two listeners, the inner one comes first.

    Raises RuntimeError for a function whose text is not at hand, or is not the one that runs.
    """
    entry, thread = _Entry(listener, [f.__name__ for f in functions]), _here.thread
    _add(functions, 1)
    if not thread.entries:
        thread.former = state.told
    thread.change(entry, True)
    state.change(told=_told)
    try:
        yield
    finally:
        thread.change(entry, False)
        if thread is _here.thread and not thread.heard:
            state.change(told=thread.former)
        _add(functions, -1)


def listeners() -> set[Any]:
    """The listeners of this thread."""
    return {listener for those in _here.thread.heard.values() for listener in those}


def _tell(function: str, name: str, value: Any) -> Any:
    thread = _here.thread
    for listener in thread.heard.get(function, ()):
        found = listener(function, name, value)
        value, thread.replaced = (value, thread.replaced) if found is None else (found, True)
    return value


def _told(called: Any, faster: Any, args: Any, kwargs: Any) -> Any:
    """The result of a function or op that somebody hears, or that calls such a function; None for others."""
    own, thread = getattr(called, "function", called), _here.thread
    if not thread.heard:  # another thread ended the last entry
        state.change(told=thread.former)
    if getattr(called, "pure", False) or thread.heard.keys().isdisjoint([own.__name__, *own.__code__.co_names]):
        return None
    before, random, thread.replaced = thread.replaced, tt.random.get_state(), False
    out = own(*args, **kwargs)
    if not (thread.replaced or state.textbook or state.observer or faster is None):
        after, modes, muted = tt.random.get_state(), state.change(told=None), thread.entries
        thread.mute(muted, 1)
        tt.random.set_state(random)
        try:
            found = faster(*args, **kwargs)
        finally:
            thread.mute(muted, -1)
            state.change(**modes)
        if found is None:
            tt.random.set_state(after)
        out = out if found is None else found
    thread.replaced = before or thread.replaced
    return out


def _add(functions: tuple[Any, ...], more: int) -> None:
    """Count listeners of these functions; without any, their own code runs, in every thread."""
    with _lock:
        entries = [(f, *_own.get(f, (0, f.__code__))) for f in functions]
        codes = [_telling(own) if count + more else own for _, count, own in entries]
        for (function, count, own), code in zip(entries, codes):
            function.__globals__["__tell__"], function.__code__ = _tell, code
            _own[function] = count + more, own
            if not count + more:
                del _own[function]


# ---- the lines of a function, and calls between them


@functools.cache
def _telling(own: CodeType) -> CodeType:
    """A function's code with calls of `__tell__`, in the places of the lines that they follow."""
    tree = ast.Module([], [])
    with suppress(SyntaxError):  # of a file that is being edited
        tree = ast.parse("".join(linecache.getlines(own.co_filename)))
    node: Any = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == own.co_name), None)
    if node is None or _compiled(tree, own) != own:
        raise RuntimeError(
            f"{own.co_name}: its variables cannot be told, since {own.co_filename} does not have the text that runs; "
            "start Python anew if the file was edited"
        )
    parameters = own.co_varnames[: own.co_argcount + own.co_kwonlyargcount]
    always = {name for part in node.body if isinstance(part, ast.Assign) for name in _assigned(part)}
    last = {name: part for part in node.body for name in _assigned(part) if name in always.difference(parameters)}
    body = node.body[ast.get_docstring(node) is not None :]
    lines = [_call(node.name, name, body[0]) for name in parameters]
    for part in body:
        lines += [part, *[_call(node.name, name, part) for name in last if last[name] is part]]
    node.body[-len(body) :] = lines
    return _compiled(tree, own)


def _assigned(part: ast.stmt) -> list[str]:
    """The variables to which a statement gives a value, by a `=` of its own or in a block of it."""
    targets = [target for node in ast.walk(part) if isinstance(node, ast.Assign) for target in node.targets]
    names = [name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]


def _call(function: str, name: str, place: ast.stmt) -> ast.stmt:
    call = ast.parse(f"{name} = __tell__({function!r}, {name!r}, {name})").body[0]
    for part in ast.walk(call):
        ast.copy_location(part, place)
    return call


def _compiled(tree: ast.Module, like: CodeType) -> Any:
    """A function compiled anew with its whole module, since the imports there change its code."""
    parts = compile(tree, like.co_filename, "exec", dont_inherit=True).co_consts
    codes = [part for part in parts if isinstance(part, CodeType) and part.co_firstlineno == like.co_firstlineno]
    return codes[0] if codes else None
