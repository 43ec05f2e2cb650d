"""Who speaks PyTorch: modules that hold a name of this room see PyTorch's attributes of a Tensor, all others ours."""

from __future__ import annotations

import sys
import warnings
from functools import wraps
from inspect import signature
from types import FrameType, FunctionType, ModuleType
from typing import Any

import tinytensor as tt

ROOM = __package__
_speaking: dict[int, dict[str, Any]] = {}  # global names of modules that hold a name of the room, by id
folders: list[str] = []
"""Folders of programs that the room runs: all modules in them speak PyTorch."""


def speaks(frame: FrameType) -> bool:
    """True if the module that this frame runs in speaks PyTorch."""
    names = frame.f_globals
    if id(names) in _speaking:
        return True
    if names.get("__name__", "").partition(".")[0] == "tinytensor":
        return False
    file = names.get("__file__") or ""
    if any(file.startswith(folder) for folder in folders) or any(map(_is_of_the_room, list(names.values()))):
        _speaking[id(names)] = names
        return True
    return False


def _is_of_the_room(value: Any) -> bool:
    if isinstance(value, ModuleType):
        home = value.__name__
    else:
        home = value.__module__ if isinstance(value, (type, FunctionType)) else ""
    return isinstance(home, str) and (home == ROOM or home.startswith(f"{ROOM}."))


class Spoken:
    """An attribute that is PyTorch's for those who speak PyTorch, and ours, if we have one, for all others."""

    def __init__(self, name: str, theirs: Any, ours: Any) -> None:
        self.name, self.theirs, self.ours = name, theirs, ours

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        chosen = self.theirs if speaks(sys._getframe(1)) else self.ours
        if chosen is None and owner is not None:
            raise AttributeError(f"{kind.__name__!r} object has no attribute {self.name!r}")
        return chosen if chosen is None else chosen.__get__(owner, kind)


class SpokenProperty(Spoken):
    """A property with two meanings when read, and one when set."""

    def __set__(self, owner: Any, value: Any) -> None:
        self.ours.__set__(owner, value)


def teach(kind: type, name: str, theirs: Any) -> None:
    """Give an attribute of a class a second meaning, for those who speak PyTorch."""
    ours = vars(kind).get(name)
    spoken = SpokenProperty if hasattr(ours, "__set__") else Spoken
    type.__setattr__(kind, name, spoken(name, theirs, ours))  # past `Replaceable`: library code sees no change


class device(str):
    """A device by PyTorch's name, which tinytensor's functions take as well: `torch.device("cuda:0")` is "gpu"."""

    type: str

    def __new__(cls, kind: Any = "cpu", index: int | None = None) -> device:
        name = "cuda" if isinstance(kind, int) or kind == "gpu" else str.__str__(kind).partition(":")[0]
        self = super().__new__(cls, "gpu" if name in ("cuda", "gpu") else name)
        self.type = "cuda" if self[:] == "gpu" else name
        return self

    def __str__(self) -> str:
        return self.type

    def __repr__(self) -> str:
        return f"device(type={self.type!r})"

    def __format__(self, spec: str) -> str:
        return format(self.type, spec)


def spelled(function: Any) -> Any:
    """The function, which takes PyTorch's names of arguments (`dim`, `keepdim`, `diagonal`, ...) and of devices."""
    try:
        taken = signature(function).parameters
    except (TypeError, ValueError):
        return function
    other = {theirs: ours for theirs, names in tt.hints.KEYWORDS.items() for ours in names if ours in taken}

    def call(*args: Any, **kwargs: Any) -> Any:
        if not args and "input" in kwargs and "input" not in taken:
            args = (kwargs.pop("input"),)
        for name in [name for name in kwargs if name in other and name not in taken]:
            kwargs[other[name]] = kwargs.pop(name)
        if kwargs.get("device") is not None:
            kwargs["device"] = device(kwargs["device"])
        return function(*args, **kwargs)

    return wraps(function)(call)


_told: set[str] = set()


def tell(text: str) -> None:
    """Warn once of what is accepted and changes nothing, at the line of the program."""
    if text not in _told:
        _told.add(text)
        frame, level = sys._getframe(1), 2
        while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "tinytensor":
            frame, level = frame.f_back, level + 1
        warnings.warn(text, stacklevel=level)
