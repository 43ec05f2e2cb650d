"""A recorded computation as a program: what is called, on what, in which order. It runs on other arrays, too.

    with tt.record() as graph:
        y = model(x)
    program = graph.program()
    (again,) = program.run(x=other)

Pictures are read back into programs (`check`), and other forms of a computation are made of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..backend import for_array
from ..modes import state
from ..primitive import Primitive
from ..tensor import wrap
from .lengths import Length, free_lengths, with_lengths

CLOSE = {"float16": 1e-2, "float32": 1e-4, "complex64": 1e-4}
"""How far numbers may differ when they are computed again, relative to the largest; by dtype, else 1e-8."""


class Call(NamedTuple):
    """One call of an op.

    Attributes:
        op: the op.
        inputs: for each input the name of an array, or a number, or None; behind them, the arrays in the key of x[key].
        params: its keyword arguments.
        output: the name of the result.
        result: the recorded result; None if its memory was written since.
        origin: the source line that called it.
    """

    op: Primitive
    inputs: tuple[Any, ...]
    params: dict[str, Any]
    output: str
    result: Any
    origin: str = ""

    @property
    def at(self) -> str:
        """The source line, as words at the end."""
        return f" at {self.origin}" if self.origin else ""

    def again(self, arrays: Mapping[str, Any]) -> Any:
        """The op's result on arrays by name; None if one of them is None."""
        inputs = [arrays[x] if isinstance(x, str) else with_lengths(x, arrays) for x in self.inputs]
        if any(array is None for x, array in zip(self.inputs, inputs) if isinstance(x, str)):
            return None
        count = len(inputs) if self.op.variadic else len(self.op.inputs)
        params = _with_key(with_lengths(self.params, arrays), inputs[count:])
        tensors = [wrap(x, None) if hasattr(x, "dtype") else x for x in inputs[:count]]
        return self.op.call(*tensors, **params)._data


@dataclass(frozen=True)
class Program:
    """A computation without loops or branches, in the order in which it ran.

    Attributes:
        calls: the ops.
        leaves: the arrays from outside, by name.
        names: for users' names of arrays (parameters, inputs, variables), the names within the program.
        outputs: the names of the results.
        lengths: those that may be others when it runs.
        rules: for leaves that a rule makes, as `arange` does, the function and its arguments.
    """

    calls: tuple[Call, ...]
    leaves: dict[str, Any]
    names: dict[str, str]
    outputs: tuple[str, ...]
    lengths: tuple[Length, ...] = ()
    rules: Mapping[str, tuple[Any, tuple[Any, ...]]] = field(default_factory=dict)

    def with_free_lengths(self, other: Program) -> Program:
        """The program for any lengths in which two recordings of one function differ, as those of two texts do.

        Raises ValueError, naming it, for what differs and does not follow the length of an input: an op, a number, a
        constant (those of `arange`, `zeros`, `ones` and `full` follow).
        """
        return free_lengths(self, other)

    def run(self, **arrays: Any) -> tuple[Any, ...]:
        """The results, computed on other arrays: give those by the names of inputs and parameters.

        Raises KeyError for a name that the program does not have, RuntimeError if memory was written since.
        """
        unknown = arrays.keys() - self.names.keys()
        if unknown:
            raise KeyError(f"run: there is no array {min(unknown)!r}; there are {', '.join(sorted(self.names))}")
        known = {**self.leaves, **{self.names[name]: getattr(x, "_data", x) for name, x in arrays.items()}}
        written = [name for name, place in self.names.items() if known.get(place, name) is None]
        if written:
            raise RuntimeError(f"run: {', '.join(written)} was written since it was recorded; give it by name")
        with nothing_recorded():
            for place, (function, arguments) in self.rules.items():
                if (like := known[place]) is self.leaves[place] is not None:
                    made = function(*with_lengths(arguments, known), dtype=like.dtype, device=for_array(like).device)
                    known[place] = made._data
            for call in self.calls:
                known[call.output] = call.again(known)
        return tuple([known[name] for name in self.outputs])

    def are_equal(self, one: str | None, other: str | None) -> bool:
        """True if two arrays from outside, or results, hold the same numbers."""
        known = {**self.leaves, **{call.output: call.result for call in self.calls}}
        first, second = (known.get(name or "") for name in (one, other))
        if first is None or second is None or (first.shape, first.dtype) != (second.shape, second.dtype):
            return False
        x, y = (for_array(array).to_numpy(array) for array in (first, second))
        return bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fc"))

    def differences(self, recorded: Program) -> list[str]:
        """Results that differ from the recorded ones, in words; each op runs on the recorded arrays that it reads."""
        was = {**recorded.leaves, **{call.output: call.result for call in recorded.calls}}
        found = []
        with nothing_recorded():
            for call in self.calls:
                array = call.again(was)
                read = [was[x] for x in call.inputs if isinstance(x, str)]
                if array is not None and was[call.output] is not None and not _is_close(array, was[call.output], read):
                    found.append(f"{call.op.name} gives {_short(array)}; recorded was {_short(was[call.output])}")
        return found


@contextlib.contextmanager
def nothing_recorded() -> Iterator[None]:
    """Within it, ops compute and leave nothing behind."""
    before = state.change(grad_enabled=False, anomaly=False, recording=None, observer=None)
    try:
        yield
    finally:
        state.change(**before)


def _with_key(params: dict[str, Any], indices: list[Any]) -> dict[str, Any]:
    """Replace the arrays in the key of the keyword arguments by these."""
    if not indices:
        return params
    parts = list(params["key"])
    places = [i for i, part in enumerate(parts) if hasattr(part, "dtype")]
    for i, array in zip(places, indices):
        parts[i] = parts[i] if array is None else array
    return {**params, "key": tuple(parts)}


def _is_close(one: Any, other: Any, read: list[Any]) -> bool:
    """True if two results differ by no more than rounding, relative to their largest number or that of the inputs."""
    x, y = (np.asarray(a if isinstance(a, np.generic) else for_array(a).to_numpy(a)) for a in (one, other))
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind not in "fc":
        return bool(np.array_equal(x, y))
    finite = np.isfinite(y)
    if not np.array_equal(finite, np.isfinite(x)):
        return False
    largest = max([_largest(y), *[_largest(for_array(a).to_numpy(a)) for a in read if a is not None]])
    return bool((np.abs(x[finite] - y[finite]) <= CLOSE.get(x.dtype.name, 1e-8) * max(largest, 1e-30)).all())


def _largest(x: Any) -> float:
    x = np.asarray(x)
    return float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) if x.dtype.kind in "fc" else 0.0


def _short(array: Any) -> str:
    text = np.array2string(for_array(array).to_numpy(array).ravel()[:3], precision=4)
    return f"{text}… {tuple(array.shape)} {array.dtype}"
