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
        free: dict[tuple[int, int], Length] = {}
        for sizes, length in _lengths(one, other):
            free.setdefault(sizes, length)
        if len(one.calls) != len(other.calls):
            raise ValueError(f"one recording has {len(one.calls)} ops, the other {len(other.calls)}")
        calls = tuple([_freed(a, b, free) for a, b in zip(one.calls, other.calls)])
    except ValueError as error:
        raise ValueError(f"with_free_lengths: {error}") from None
    return dataclasses.replace(one, calls=calls, lengths=tuple(free.values()))


def with_lengths(value: Any, arrays: Mapping[str, Any]) -> Any:
    """A parameter with the numbers that its lengths have for these arrays."""

    def number(x: Any) -> Any:
        return x.factor * arrays[x.array].shape[x.axis] + x.more if isinstance(x, Length) else x

    return _mapped(number, value)


def _mapped(function: Callable[..., Any], *values: Any) -> Any:
    """A function of the numbers in one parameter, or of those in the same places of several."""
    first = values[0]
    if isinstance(first, dict):
        return {name: _mapped(function, *(value[name] for value in values)) for name in first}
    if all(type(value) is tuple and len(value) == len(first) for value in values):
        return tuple([_mapped(function, *parts) for parts in zip(*values)])
    if all(isinstance(value, slice) for value in values):
        return slice(*(_mapped(function, *ends) for ends in zip(*((x.start, x.stop, x.step) for x in values))))
    return function(*values)


def _lengths(one: Program, other: Program) -> Iterator[tuple[tuple[int, int], Length]]:
    """The pairs of sizes in which arrays from outside differ, each with its axis."""
    names = {place: name for name, place in one.names.items()}
    for place, array in one.leaves.items():
        second = other.leaves.get(place)
        if array is None or second is None or array.ndim != second.ndim or array.dtype != second.dtype:
            raise ValueError(f"{names.get(place, 'a constant')} is another array in each recording")
        if place in names:
            sizes = enumerate(zip(array.shape, second.shape))
            yield from ((pair, Length(place, axis)) for axis, pair in sizes if pair[0] != pair[1])
        elif array.shape != second.shape:
            raise ValueError(
                f"a constant {tuple(array.shape)} is {tuple(second.shape)} in the other recording; compute it from an "
                "input, or give it as one"
            )
        elif not np.array_equal(*(for_array(x).to_numpy(x) for x in (array, second))):
            raise ValueError(f"a constant {tuple(array.shape)} has other numbers in each recording")


def _freed(one: Call, other: Call, free: dict[tuple[int, int], Length]) -> Call:
    """A call with a `Length` in place of each number that follows one."""

    def shared(x: Any, y: Any) -> Any:
        are_arrays = hasattr(x, "dtype") and hasattr(y, "dtype")
        if np.array_equal(x, y) if are_arrays else x == y:
            return x
        found = []
        for (a, b), length in free.items() if type(x) is int and type(y) is int else ():
            factor, rest = divmod(x - y, a - b)
            found += [] if rest else [length._replace(factor=factor, more=x - factor * a)]
        if not found:
            raise ValueError(f"{one.op.name}: {x!r} and {y!r} follow no length")
        return min(found, key=lambda length: (abs(length.more), abs(length.factor)))

    if one.op is not other.op or len(one.inputs) != len(other.inputs):
        raise ValueError(f"the recordings differ in their ops: {one.op.name}, {other.op.name}")
    inputs, params = _mapped(shared, (one.inputs, one.params), (other.inputs, other.params))
    return one._replace(inputs=inputs, params=params)
