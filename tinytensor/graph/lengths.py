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
from collections.abc import Mapping
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


class _Pair:
    def __init__(self, one: Program, other: Program) -> None:
        names = {place: name for name, place in one.names.items()}
        self.free: dict[tuple[int, int], Length] = {}
        for place, array in one.leaves.items():
            second = other.leaves.get(place)
            if array is None or second is None or array.ndim != second.ndim or array.dtype != second.dtype:
                raise ValueError(
                    f"with_free_lengths: {names.get(place, 'a constant')} is another array in each recording"
                )
            for axis, (a, b) in enumerate(zip(array.shape, second.shape)):
                if a != b and place not in names:
                    raise ValueError(
                        f"with_free_lengths: a constant {tuple(array.shape)} is {tuple(second.shape)} in the other "
                        "recording; compute it from an input, or give it as one"
                    )
                if a != b:
                    self.free.setdefault((a, b), Length(place, axis))
            if place not in names and not np.array_equal(*(for_array(x).to_numpy(x) for x in (array, second))):
                raise ValueError(
                    f"with_free_lengths: a constant {tuple(array.shape)} has other numbers in each recording"
                )

    def call(self, one: Call, other: Call) -> Call:
        if one.op is not other.op or len(one.inputs) != len(other.inputs):
            raise ValueError(f"with_free_lengths: the recordings differ in their ops: {one.op.name}, {other.op.name}")
        try:
            inputs = tuple([self.value(x, y) for x, y in zip(one.inputs, other.inputs)])
            return one._replace(inputs=inputs, params=self.value(one.params, other.params))
        except ValueError as error:
            raise ValueError(f"with_free_lengths: {one.op.name}: {error}") from None

    def value(self, one: Any, other: Any) -> Any:
        """What two parameters have in common; a `Length` for numbers that follow a length."""
        if isinstance(one, dict):
            return {name: self.value(x, other[name]) for name, x in one.items()}
        if type(one) is tuple and type(other) is tuple and len(one) == len(other):
            return tuple([self.value(x, y) for x, y in zip(one, other)])
        if isinstance(one, slice) and isinstance(other, slice):
            return slice(*(self.value(getattr(one, end), getattr(other, end)) for end in ("start", "stop", "step")))
        if type(one) is int and type(other) is int and one != other:
            return self.number(one, other)
        same = np.array_equal(one, other) if hasattr(one, "dtype") and hasattr(other, "dtype") else one == other
        if not same:
            raise ValueError(f"{one!r} and {other!r} follow no length")
        return one

    def number(self, one: int, other: int) -> Length:
        found = []
        for (a, b), length in self.free.items():
            factor, rest = divmod(one - other, a - b)
            if not rest:
                found.append(length._replace(factor=factor, more=one - factor * a))
        if not found:
            raise ValueError(f"{one} and {other} follow no length")
        return min(found, key=lambda length: (abs(length.more), abs(length.factor)))


def free_lengths(one: Program, other: Program) -> Program:
    """The work of `Program.with_free_lengths`; see there."""
    if len(one.calls) != len(other.calls):
        raise ValueError(f"with_free_lengths: one recording has {len(one.calls)} ops, the other {len(other.calls)}")
    pair = _Pair(one, other)
    calls = tuple([pair.call(a, b) for a, b in zip(one.calls, other.calls)])
    return dataclasses.replace(one, calls=calls, lengths=tuple(pair.free.values()))


def with_lengths(value: Any, arrays: Mapping[str, Any]) -> Any:
    """A parameter with the numbers that its lengths have for these arrays."""
    if isinstance(value, Length):
        return value.factor * arrays[value.array].shape[value.axis] + value.more
    if isinstance(value, dict):
        return {name: with_lengths(x, arrays) for name, x in value.items()}
    if type(value) is tuple:
        return tuple([with_lengths(x, arrays) for x in value])
    if isinstance(value, slice):
        return slice(*(with_lengths(end, arrays) for end in (value.start, value.stop, value.step)))
    return value
