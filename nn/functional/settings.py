"""Settings: a constructor's numbers are what its annotations say, or an error names the setting at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import tinytensor as tt
from tinytensor.typing import UNFIT, fitted

F = TypeVar("F", bound=Callable[..., Any])


def settings(function: F) -> F:
    """The function, or the constructor, which checks its numbers by its annotations and gets them as Python's.

    An `int` is whatever counts: integers of Python and NumPy, and one in an array without dimensions; a `float` is a
    finite number. True is no number, and a text is none of the three. TypeError and ValueError name the setting.
    """
    names = function.__code__.co_varnames[: function.__code__.co_argcount]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        owner = type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__
        first = check_settings(owner, function, dict(zip(names, args))).values()
        kwargs = check_settings(owner, function, kwargs)
        try:
            return function(*first, *args[len(names) :], **kwargs)
        except TypeError as error:
            tt.missing.explain_call(function, args, error)
            raise

    return call  # type: ignore[return-value]


class WithSettings:
    """The base of classes whose constructors are all `settings`; annotations elsewhere than here promise nothing."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls) and cls.__module__.partition(".")[0] == __name__.partition(".")[0]:
            type.__setattr__(cls, "__init__", settings(vars(cls)["__init__"]))


def check_settings(owner: str, function: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a function as `settings` gives them. Raises TypeError or ValueError, which begin with the owner."""
    return {name: check_setting(owner, name, value, _kinds(function).get(name, Any)) for name, value in given.items()}


def check_setting(owner: str, name: str, value: Any, kind: Any = float) -> Any:
    """The same for one of them, by its annotation."""
    if (found := fitted(value, kind)) is UNFIT:
        raise tt.hints.wrong_setting(owner, name, value, kind)
    return found


@functools.cache
def _kinds(function: Any) -> dict[str, Any]:
    """The annotations of a function that name numbers, by the arguments' names."""
    numbers = ("int", "float", "bool", "Extended", "Limit")
    texts = {name: text for name, text in function.__annotations__.items() if any(word in text for word in numbers)}
    return {name: eval(text, function.__globals__) for name, text in texts.items()}
