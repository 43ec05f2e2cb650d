"""Free lengths of a program: two recordings of one function at two lengths say which numbers follow the length.

    with tt.record() as short:
        model(x[:, :4])
    with tt.record() as long:
        model(x[:, :7])
    program = short.program().with_free_lengths(long.program())

Where the recordings differ, a size or a number in a parameter must be a times a length of an input, plus b.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..backend import for_array

if TYPE_CHECKING:
    from .program import Call, Program


class Length(NamedTuple):
    """A number that follows a length: `factor * length + more`.

    Attributes:
        array, axis: the name of an array from outside, and the axis that is as long.
    """

    array: str
    axis: int
    factor: int = 1
    more: int = 0


def free_lengths(one: Program, other: Program) -> Program:
    """The work of `Program.with_free_lengths`; see there."""
    try:
        for a, b in zip(one.calls, other.calls):
            if a.op is not b.op or len(a.inputs) != len(b.inputs):
                raise ValueError(f"the recordings differ in their ops: {a.op.name}, {b.op.name}{a.at}")
        if len(one.calls) != len(other.calls):
            raise ValueError(f"one recording has {len(one.calls)} ops, the other {len(other.calls)}")
        free: dict[tuple[int, int], Length] = {}
        for sizes, length in _lengths(one, other):
            free.setdefault(sizes, length)
        calls = tuple([_freed(a, b, free) for a, b in zip(one.calls, other.calls)])
        rules = {**one.rules}
        for place, (function, arguments) in one.rules.items():
            if place in other.rules:
                shared = _shared(function.__name__ + _reader(one, place), free)
                rules[place] = function, mapped(shared, arguments, other.rules[place][1])
    except ValueError as error:
        raise ValueError(f"with_free_lengths: {error}") from None
    return dataclasses.replace(one, calls=calls, lengths=tuple(free.values()), rules=rules)


def with_lengths(value: Any, arrays: Mapping[str, Any]) -> Any:
    """A parameter with the numbers that its lengths have for these arrays."""

    def number(x: Any) -> Any:
        return x.factor * arrays[x.array].shape[x.axis] + x.more if isinstance(x, Length) else x

    return mapped(number, value)


def mapped(function: Callable[..., Any], *values: Any) -> Any:
    """A function of the numbers in one parameter, or of those in the same places of several."""
    first = values[0]
    if isinstance(first, dict):
        return {name: mapped(function, *(value[name] for value in values)) for name in first}
    if all(type(value) is tuple and len(value) == len(first) for value in values):
        return tuple([mapped(function, *parts) for parts in zip(*values)])
    if all(isinstance(value, slice) for value in values):
        return slice(*(mapped(function, *ends) for ends in zip(*((x.start, x.stop, x.step) for x in values))))
    return function(*values)


def _lengths(one: Program, other: Program) -> Iterator[tuple[tuple[int, int], Length]]:
    """The pairs of sizes in which arrays from outside differ, each with its axis."""
    names = {place: name for name, place in one.names.items()}
    for place, array in one.leaves.items():
        second = other.leaves.get(place)
        if place in one.rules and place in other.rules:
            continue
        if array is None or second is None or array.ndim != second.ndim or array.dtype != second.dtype:
            raise ValueError(f"{names.get(place, 'a constant')} is another array in each recording")
        if place in names:
            sizes = enumerate(zip(array.shape, second.shape))
            yield from ((pair, Length(place, axis)) for axis, pair in sizes if pair[0] != pair[1])
        elif array.shape != second.shape:
            raise ValueError(
                f"a constant {tuple(array.shape)} is {tuple(second.shape)} in the other recording; compute it from an "
                f"input, or give it as one{_reader(one, place)}"
            )
        elif not np.array_equal(*(for_array(x).to_numpy(x) for x in (array, second))):
            raise ValueError(
                f"a constant {tuple(array.shape)} has other numbers in each recording{_reader(one, place)}"
            )


def _freed(one: Call, other: Call, free: dict[tuple[int, int], Length]) -> Call:
    """Replace each number in a call that depends on a free length by a `Length`, and -1 for one length of a reshape."""
    sizes = [call.params["to"] for call in (one, other)] if one.op.name == "reshape" else [(), ()]
    if sum(a != b for a, b in zip(*sizes)) == 1 and not {0, -1} & {*sizes[0], *sizes[1]}:
        to = tuple([a if a == b else -1 for a, b in zip(*sizes)])  # also a product of lengths
        one, other = one._replace(params={"to": to}), other._replace(params={"to": to})
    shared = _shared(one.op.name + one.at, free)
    inputs, params = mapped(shared, (one.inputs, one.params), (other.inputs, other.params))
    return one._replace(inputs=inputs, params=params)


def _reader(program: Program, place: str) -> str:
    """The first op that reads an array, and its line, as words at the end."""
    return next((f", read by {call.op.name}{call.at}" for call in program.calls if place in call.inputs), "")


def _shared(within: str, free: dict[tuple[int, int], Length]) -> Callable[[Any, Any], Any]:
    """A function that gives what two recordings have in one place, or the length that it follows."""

    def shared(x: Any, y: Any) -> Any:
        are_arrays = hasattr(x, "dtype") and hasattr(y, "dtype")
        if np.array_equal(x, y) if are_arrays else x == y or (x != x and y != y):
            return x
        found = []
        for (a, b), length in free.items() if type(x) is int and type(y) is int else ():
            factor, rest = divmod(x - y, a - b)
            found += [] if rest else [length._replace(factor=factor, more=x - factor * a)]
        if not found:
            raise ValueError(f"{within}: {x!r} and {y!r} follow no length")
        return min(found, key=lambda length: (abs(length.more), abs(length.factor)))

    return shared
