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
PACKAGE = ROOM.partition(".")[0]
_speaking: dict[int, tuple[dict[str, Any], int, bool | None]] = {}
"""What `speaks` found for modules, by the id of their names; with the names, and how many they were."""
is_installed = False
"""True after `install`: then all modules that name neither speak PyTorch."""


def speaks(frame: FrameType) -> bool | None:
    """True if the module that this frame runs in speaks PyTorch, False if tinytensor, None if it names neither."""
    names = frame.f_globals
    known, count, found = _speaking.get(id(names), (None, 0, None))
    if known is not names or count != len(names):
        is_ours = names.get("__name__", "").partition(".")[0] == PACKAGE
        homes = {PACKAGE} if is_ours else set(map(_home, [*names.values()]))
        found = True if ROOM in homes else False if PACKAGE in homes else None
        if "__name__" in names:  # it stays, unlike the names of one `eval`
            _speaking[id(names)] = names, len(names), found
    return found if found is not None or not is_installed else True


def _home(value: Any) -> str:
    """The room or the package, if a value is a module of it or stems from one."""
    named = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    if not isinstance(named, str) or not isinstance(value, (ModuleType, type, FunctionType)):
        return ""
    return ROOM if f"{named}.".startswith(f"{ROOM}.") else named.partition(".")[0]


class Spoken:
    """An attribute that is PyTorch's in a module that speaks PyTorch, and ours, if we have one, in one of tinytensor.

    In a module that names neither, a method is PyTorch's; where ours of that name gives something else, see
    `TWO_MEANINGS`.
    """

    def __init__(self, name: str, theirs: Any, ours: Any) -> None:
        self.name, self.theirs, self.ours = name, theirs, ours

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        frame = sys._getframe(1)
        spoken = speaks(frame)
        if spoken is None and self.name in TWO_MEANINGS:
            while "__name__" not in frame.f_globals and frame.f_back:  # `eval` with a dictionary of names
                frame = frame.f_back
            spoken = speaks(frame)
            if spoken is None and owner is not None:
                return TWO_MEANINGS[self.name](
                    self.name, self.theirs.__get__(owner, kind), self.ours.__get__(owner, kind)
                )
        chosen = self.theirs if spoken or (spoken is None and not isinstance(self, SpokenProperty)) else self.ours
        if chosen is None and owner is not None:
            raise AttributeError(f"{kind.__name__!r} object has no attribute {self.name!r}")
        return chosen if chosen is None else chosen.__get__(owner, kind)


class Count(int):
    """A number that is called as well: `x.size` and `x.size()`."""

    call: Any

    def __call__(self, *args: Any, **by: Any) -> Any:
        return self.call(*args, **by)


def _count(name: str, theirs: Any, ours: int) -> Count:
    found = Count(ours)
    found.call = theirs
    return found


def _refused(name: str, theirs: Any, ours: Any) -> Any:
    def call(*args: Any, **by: Any) -> Any:
        if name in ("max", "min") and not args and not by:
            return ours()
        raise TypeError(
            f"x.{name}: PyTorch's and tinytensor's give different things, and this module names neither of them: write "
            "import tinytensor.torch as torch, or import tinytensor as tt, at its beginning"
        )

    return call


TWO_MEANINGS = dict.fromkeys(("max", "min", "sort", "std", "var"), _refused) | {"size": _count}


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
