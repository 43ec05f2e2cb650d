"""What you read is what runs: a fast way names the text that it computes, and steps aside where that text was changed.

A *text* is a function or a table of the textbook. A *place* is where a text looks something up: a name in a module, a
method of a class. `texts.txt` beside this file has both for each way, and of each text a digest of its syntax tree,
comments and docstrings aside; `python -m tinytensor.testing.renew` writes it.

    STACKS = Way("stacks of layers", "nn.transformer:TransformerEncoder.forward", ...)

    if not STACKS.holds():
        ...                                    # by the formula

Edited text is found when a way is first asked for: files are compared as bytes, and parsed only where those differ.
Python without sources counts as unchanged. A replaced function or method is found when it is put in its place, so that
nothing is asked in a call; put back, it is fast again.
"""

from __future__ import annotations

import binascii
import contextlib
import functools
import os
import sys
import warnings
from types import ModuleType
from typing import Any

from ..modes import Replaceable

PACKAGE = __name__.partition(".")[0]
CORE = (
    "primitive:_call_of", "primitive:gather", "primitive:_constant", "primitive:_copied", "primitive:_unify",
    "primitive:as_array", "primitive:has_pair", "primitive:named_after", "primitive:by_name", "node:Node.__init__",
    "engine:_carry_back", "engine:Arrived.add", "engine:Arrived.take", "engine:op_vjp", "engine:_vjp_by_rules",
    "engine:_vjp_by_formula", "engine:_as_tensors", "engine:_fit", "engine:_unbroadcast", "engine:_collect",
)  # fmt: skip
"""The text of every way: calls of ops, and the chain rule from one to the next."""

LIST = os.path.join(os.path.dirname(__file__), "texts.txt")
NOT_TEXT = ("fast", "graph", "testing", "program", "nn.fast", "nn.visualize", "models.fast")
"""Packages that no way stands for."""

MADE = ("_abc_impl", "__abstractmethods__", "__parameters__", "__slotnames__")  # by Python, on a class
RENEW = f"python -m {PACKAGE}.testing.renew"


class Known:
    """The contents of `texts.txt`.

    Attributes:
        files: the checksum of each, by the name of its module.
        texts: the module, the name in it and the digest of each.
        owners: "module" or "module:Class", and the names that are looked up in it.
        ways: the numbers of the texts and of the places of each, by its name.
        is_there: True if the file exists; a fast path that it lacks is off then.
    """

    def __init__(self, is_there: bool = False) -> None:
        self.is_there = is_there
        self.files: dict[str, int] = {}
        self.texts: list[tuple[str, str, str]] = []
        self.owners: list[list[str]] = []
        self.ways: dict[str, tuple[list[int], list[int]]] = {}


@functools.cache
def known() -> Known:
    """`texts.txt`, read once. Without the file everything counts as it was; in a damaged one everything as edited."""
    try:
        with open(LIST, "rb") as file:
            content = file.read()
    except OSError:
        return Known()
    try:
        return _read(content.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except (ValueError, IndexError, RuntimeError):  # also a generator that lacks a digest
        return Known(is_there=True)


def _read(content: str) -> Known:
    found = Known(is_there=True)
    for line in content.splitlines():
        kind, name, first, *rest = line.split("\t")
        if kind == "file":
            found.files[name] = int(first)
            digests = iter(rest)
            found.texts.extend((name, text, next(digests)) for text in digests)
        elif kind == "owner":
            found.owners.append([name, first, *rest])
        else:
            found.ways[name] = list(map(int, first.split())), list(map(int, rest[0].split()))
    places = [name for _, *names in found.owners for name in names]
    for texts, others in found.ways.values():  # raises IndexError if the file was cut before what these name
        found.texts[max(texts, default=0)], places[max(others, default=0)]
    return found


@functools.cache
def all_places() -> list[tuple[str, str]]:
    """The owner and the name of each place, in their order."""
    return [(owner, name) for owner, *names in known().owners for name in names]


class Way:
    """A fast way.

    Args:
        name: what it computes, for warnings.
        roots: where its text begins, "module:name"; what that calls follows from it (`renew.py`).
        calls: functions of the textbook that it calls itself, so that it need not know what they say.

    Attributes:
        off: True until it was first asked for, and while its text is edited or something that it looks up is replaced.
    """

    def __init__(self, name: str, *roots: str, calls: tuple[str, ...] = ()) -> None:
        self.name, self.roots, self.calls = name, (*roots, *CORE), calls
        self.off = True
        self._edited: bool | None = None
        ways[name] = self

    def holds(self) -> bool:
        """True if the textbook says what this way computes. Warns once of a text that was edited."""
        return not self.off or self._look()

    def _look(self) -> bool:
        """The same, looked up anew."""
        if self._edited is None:
            listen()  # in modules that were loaded since, too
            texts = [known().texts[number] for number in known().ways.get(self.name, ((), ()))[0]]
            changed = {module: edited_in(module) for module in {module for module, *_ in texts}}
            met = [(module, name) for module, name, _ in texts if name in changed[module]]
            new = [(module, name) for module in changed for name in changed[module]]
            met += [text for text in new if text not in met and text[0] in self.places.get(text[1], ())]
            is_lost = known().is_there and self.name not in known().ways
            self._edited = is_lost or bool(met)
            if is_lost:
                tell_damaged()
            for text in met:
                tell(*text)
        self.look_again()
        return not self.off

    def look_again(self) -> None:
        """Something was replaced, or put back."""
        self.off = bool(self._edited) or any(
            _is_affected(owner, namespace) for namespace, name in list(replaced) for owner in self.places.get(name, ())
        )

    @functools.cached_property
    def places(self) -> dict[str, list[str]]:
        """By a name, the owners in which it is looked up."""
        found: dict[str, list[str]] = {}
        for number in known().ways.get(self.name, ((), ()))[1]:
            owner, name = all_places()[number]
            found.setdefault(name, []).append(owner)
        return found


ways: dict[str, Way] = {}
replaced: dict[tuple[Any, str], Any] = {}
"""Names that were replaced: by module or class and name, the value before."""


class Count:
    """How often something was replaced, which what is recorded (`nn.compile_step`) goes by."""

    replacements = 0


# ---- edited text


@functools.cache
def edited_in(module: str) -> frozenset[str]:
    """The texts of a module that are others than `texts.txt` knows."""
    try:
        with open(file_of(module), "rb") as file:
            source = file.read()
    except OSError:
        return frozenset()
    if binascii.crc32(source) == known().files[module]:
        return frozenset()
    from .digests import digests  # only now: it parses

    now: dict[str, str] = {}
    with contextlib.suppress(SyntaxError, ValueError):  # half-written, say: all of it counts as edited
        now = digests(source)
    then = {name: digest for of, name, digest in known().texts if of == module}
    new = {name for of, name in all_places() if of == module and name in now} - then.keys()  # in front of another
    return frozenset(name for name, digest in then.items() if now.get(name) != digest) | new


@functools.cache
def tell_damaged() -> None:
    message = f"{LIST} is damaged, so formulas compute, slower; install tinytensor again, or run: {RENEW}"
    warnings.warn(message, UserWarning, stacklevel=2)


@functools.cache
def tell(module: str, name: str) -> None:
    what = name or "a statement"
    warnings.warn(
        f"{file_of(module)}: {what} was edited, so its fast version steps aside, and what you wrote computes, slower. "
        f"To have it fast again, change the fast version as well (docs/engine-room.md), then run: {RENEW}",
        UserWarning,
        stacklevel=2,
    )


def edited() -> list[str]:
    """All texts that were edited, as "module: name", whether they were met or not."""
    return [f"{module}: {name}" for module in known().files for name in sorted(edited_in(module))]


def file_of(module: str) -> str:
    """The file of a module, loaded or not; in a checkout without links `nn` lies beside the package."""
    parts = module.split(".") if module else []
    places = [os.path.join(folder, *parts) for folder in sys.modules[PACKAGE].__path__]
    files = [file for place in places for file in (f"{place}.py", os.path.join(place, "__init__.py"))]
    return next((file for file in files if os.path.exists(file)), files[0])


# ---- what is replaced while the program runs


class Listening(ModuleType):
    """A module that tells when a name of it is given to something else."""

    def __setattr__(self, name: str, value: Any) -> None:
        before = vars(self).get(name)
        super().__setattr__(name, value)
        if name == "__spec__":  # `importlib.reload` begins so, and `%autoreload` with it
            look_anew()
        note(self, name, before)

    def __delattr__(self, name: str) -> None:
        before = vars(self).get(name)
        super().__delattr__(name)
        note(self, name, before)


def listen() -> None:
    """From here on, notice what is replaced in the modules that are loaded now."""
    for name, module in list(sys.modules.items()):
        top, _, rest = name.partition(".")
        if top == PACKAGE and type(module) is ModuleType and not rest.startswith(NOT_TEXT):
            module.__class__ = Listening
    Replaceable._tell = staticmethod(note)


def look_anew() -> None:
    """A module is about to be loaded again: its file may be another one now."""
    Count.replacements += 1
    edited_in.cache_clear()
    for way in ways.values():
        way._edited, way.off = None, True


def note(namespace: Any, name: str, before: Any) -> None:
    """A module or class has something else under a name than before; modules that are imported do not count."""
    now, place = vars(namespace).get(name), (namespace, name)
    module = namespace.__module__ if isinstance(namespace, type) else namespace.__name__
    is_ours = module == PACKAGE or module.startswith(f"{PACKAGE}.")  # a subclass of a user's is no place
    is_import = before is None and isinstance(now, ModuleType) and place not in replaced
    if now is before or name in MADE or is_import:
        return
    if not is_ours:
        Count.replacements += callable(now) or callable(before)
        return
    Count.replacements += 1
    if place not in replaced:
        replaced[place] = before
    elif replaced[place] is now:
        del replaced[place]
    for way in list(ways.values()):
        if way._edited is not None and name in way.places:
            way.look_again()


def _is_affected(owner: str, namespace: Any) -> bool:
    """True if a place's owner is a module or class, or one of the two classes inherits from the other."""
    module, _, name = owner.partition(":")
    found = sys.modules.get(f"{PACKAGE}.{module}" if module else PACKAGE)
    if name:
        found = getattr(found, name, None)
    if not isinstance(found, type) or not isinstance(namespace, type):
        return found is namespace
    return found in namespace.__mro__ or namespace in found.__mro__  # `issubclass` refuses protocols
