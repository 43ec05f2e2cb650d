"""The computation of a model, recorded in ops that ONNX has; and the graph of a file, written from such a recording."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import tinytensor as tt

from .. import dtypes
from ..backend import for_array
from ..graph.build import Builder
from ..graph.lengths import Length
from ..graph.program import Program, nothing_recorded
from ..modes import state
from ..primitive import Primitive, gather
from ..tensor import Tensor, wrap
from ..tracing import Recording, call_site, trace
from .table import FORMULAS, GRADIENTS_ONLY, LACKING, ROWS, Value

INT64 = np.dtype(np.int64)


def recorded(function: Callable[[], Any], arrays: Mapping[str, Tensor]) -> tuple[Program, Any, set[str]]:
    """Record a function that computes with named arrays.

    Returns the program without what leads to no result, what the function gave, and the lines where Python reads
    numbers that depend on an input.
    """
    recording, modes = Recording(None, []), {"grad_enabled": False, "textbook": True, "anomaly": False, "told": _told}
    before = state.change(recording=recording, observer=trace, **modes)
    try:
        given = [recording.node(x) for x in arrays.values()]
        with np.errstate(all="ignore"):  # of numbers that are made up
            found = function()
        roots = [recording.node(x) for _, x in tensors("", found)]
    finally:
        state.change(**before)
    builder = Builder(arrays.items())
    structure = builder.build(recording.nodes, roots)
    program = builder.program(structure)
    fed = {place for name, place in program.names.items() if name.startswith("input ")}
    for call in program.calls:
        fed |= {call.output} if fed.intersection(call.inputs) else set()
    lines = {x.read for x in structure.values if x.id in fed} | {getattr(node, "read", "") for node in given}
    read, calls = {*program.outputs}, []
    for call in program.calls[::-1]:
        if call.output in read:
            calls.append(call._replace(params={k: v for k, v in call.params.items() if k not in GRADIENTS_ONLY}))
            read.update(x for x in call.inputs if isinstance(x, str))
    unread = {name: x._data for name, x in arrays.items() if name not in program.names}
    names, leaves = program.names | {name: name for name in unread}, program.leaves | unread
    return Program(tuple(calls[::-1]), leaves, names, program.outputs, rules=program.rules), found, lines - {""}


def tensors(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The arrays in what a model takes or returns, with a name for each."""
    if isinstance(value, (dict, list, tuple)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from tensors(key if isinstance(key, str) else f"{name}_{key}", part)
    elif hasattr(value, "dtype"):
        yield name, value


def _told(called: Any, call: Any, inputs: Any, params: Any) -> Any:
    """The record of a call: one op where ONNX has it, else the parts of the op."""
    if state.recording is None or not isinstance(called, Primitive):
        return None
    own = called.name if called.function.__module__.startswith("tinytensor.") else ""  # a user's may have the same name
    if own in LACKING:
        raise _lacking(called, f" at {call_site()[0]}", LACKING[own])
    if called.pure == (own in ROWS):
        return None  # a pure op as it is, a fused one by its formula
    if not called.pure:
        _, arrays, nodes = gather(called, inputs)
        with nothing_recorded():
            out = called.function(*(wrap(x, None) if hasattr(x, "dtype") else x for x in arrays), **params)._data
        trace(called, nodes, {}, params, out, arrays)
        return wrap(out, None)
    chosen = _promoted(called, inputs)
    dtype = dtypes.common([getattr(inputs[i], "_data", inputs[i]) for i in chosen], called.floating)
    cast = [tt.astype(x, dtype, copy=False) if i in chosen and hasattr(x, "dtype") else x for i, x in enumerate(inputs)]
    try:
        return FORMULAS[own](*cast, **params) if own in FORMULAS else called.function(tt, *cast, **params)
    except (AttributeError, RecursionError, TypeError) as error:
        raise _lacking(called, f" at {call_site()[0]}", f"its function takes no Tensors ({error!r})") from None


def _promoted(op: Primitive, inputs: Any) -> list[int]:
    """The places of the inputs that get one dtype: of a fused op, all but masks and indices."""
    kinds = ["f" if op.variadic or not hasattr(x, "dtype") else x.dtype.kind for x in inputs]
    chosen = op.promoted if op.pure and not op.variadic else [i for i, kind in enumerate(kinds) if kind in "fc"]
    return [i for i in chosen if inputs[i] is not None]


def _lacking(op: Primitive, at: str, why: str) -> Exception:
    return NotImplementedError(f"export: {op.name}{at} has no counterpart in ONNX: {why}")


class Writer:
    """Writes nodes: `w("Add", x, y)` writes one, and gives the name of its result.

    Attributes:
        inputs: by the names that lengths have for them, the names of the graph's inputs.
        nodes, read: those written so far, and the names that they read.
        constants: by dtype, shape and bytes, the name and the numbers of each.
        call: the recorded op that nodes are written for.
    """

    def __init__(self, inputs: Mapping[str, str]) -> None:
        from onnx import helper  # with the package alone

        self.helper: Any = helper
        self.inputs = inputs
        self.call: Any = None
        self.nodes: list[Any] = []
        self.read: set[str] = set()
        self.constants: dict[Any, tuple[str, Any]] = {}
        self.fresh = map("_{}".format, itertools.count(1))

    def __call__(self, op: str, *inputs: Any, outputs: int = 1, name: str = "", **attributes: Any) -> Any:
        """Write a node; None stands for an input that is not given. Returns the name of its result, or of several."""
        if follow := [key for key, value in attributes.items() if "Length(" in repr(value)]:
            raise self.lacking(f"{follow[0]} of its {op} is a fixed number, and follows a length")
        attributes = {k: self.type(v) if isinstance(v, np.dtype) else v for k, v in attributes.items() if v != ()}
        names = ["" if x is None else getattr(x, "name", x) for x in inputs]
        names = names[:-1] if names and not names[-1] else names
        self.read.update(names)
        results = [name or next(self.fresh) for _ in range(outputs)]
        origin = self.call.origin if self.call else ""
        self.nodes.append(self.helper.make_node(op, names, results, doc_string=origin, **attributes))
        return results[0] if outputs == 1 else results

    def lacking(self, why: str) -> Exception:
        return _lacking(self.call.op, self.call.at, why)

    def write(self, program: Program, known: Mapping[str, Value]) -> dict[str, Value]:
        """Write a program, given its arrays from outside; returns all arrays, by the program's names."""
        values = {place: self._leaf(place, x, program) for place, x in program.leaves.items() if place not in known}
        values |= known
        for self.call in program.calls:
            op, result = self.call.op, self.call.result
            params = op.defaults | self.call.params
            given = [values[x] if isinstance(x, str) else x for x in self.call.inputs]
            count = len(given) if op.variadic else len(op.inputs)
            chosen, indices = _promoted(op, given[:count]), iter(given[count:])
            dtype = dtypes.common([1 if isinstance(given[i], Length) else given[i] for i in chosen], op.floating)
            ready = [self.value(x, dtype if i in chosen else None) for i, x in enumerate(given[:count])]
            if "key" in params:
                key = [(next(indices) or self.value(x)) if hasattr(x, "dtype") else x for x in params["key"]]
                params["key"] = tuple(key)
            if result is None or "c" in (result.dtype.kind, *(x.dtype.kind for x in ready if x is not None)):
                raise self.lacking("its result was written over" if result is None else "it takes no complex numbers")
            values[self.call.output] = self.value(ROWS[op.name](self, *ready, **params), of=result)
        return values

    def _leaf(self, place: str, array: Any, program: Program) -> Value:
        """A constant, or what a rule makes of lengths."""
        function, arguments = program.rules.get(place, (None, ()))
        if "Length(" not in repr(arguments):
            return self.value(array)
        if function is tt.full:
            shape, number = arguments
            return self.value(self("Expand", self.number(number, array.dtype), self.ints(shape)), of=array)
        kind = np.float64 if any(isinstance(x, float) for x in arguments) else INT64
        places = self("Range", *(self.number(x, kind) for x in arguments))
        return self.value(self.cast(places, array.dtype, kind), of=array)

    def value(self, x: Any, dtype: Any = None, of: Any = None) -> Any:
        """An operand or a name as a Value: in a dtype, or that of an array."""
        if x is None or of is not None:
            return None if x is None else Value(getattr(x, "name", x), of.dtype, of.shape)
        if isinstance(x, Value):
            return x if dtype is None else self.cast(x, dtype)
        if isinstance(x, Length):
            return Value(self.number(x, dtype or INT64), dtype or INT64)
        array = np.asarray(for_array(x).to_numpy(x) if hasattr(x, "shape") else x, dtype)
        return Value(self.constant(array), array.dtype, array.shape)

    def scan(self, function: Callable[..., Any], given: tuple[Any, ...], reverse: bool) -> list[str]:
        """Write a function of one step, which gives its new states in rows, as the body of a loop over a sequence.

        Returns the names of the last states, and of the first of them at all steps.
        """
        named = {name: x for name, x in zip(self.call.op.inputs, given) if x is not None}
        steps = [name for name in ("x", "present") if name in named]
        arrays = {k: tt.zeros((1, *x.shape[1:]) if k in steps else x.shape, dtype=x.dtype) for k, x in named.items()}
        program, _, _ = recorded(lambda: function(*map(arrays.get, self.call.op.inputs)), arrays)
        outer, call, self.nodes = self.nodes, self.call, []
        carried = [name for name in ("initial", "cell") if name in named]
        entries = {name: named[name]._replace(name=next(self.fresh)) for name in (*carried, *steps)}
        inner = {**named, **entries}
        inner |= {name: inner[name]._replace(name=self("Unsqueeze", inner[name], self.ints(0))) for name in steps}
        rows = self.write(program, {program.names[name]: x for name, x in inner.items()})[program.outputs[0]]
        results = [self("Gather", rows, self.number(i)) for i in range(len(carried))]
        results.append(self("Identity", results[0]))
        ends = [self.info(x.name, x.dtype) for x in entries.values()], [self.info(x, rows.dtype) for x in results]
        body = self.helper.make_graph(self.nodes, "step", *ends)
        self.nodes, self.call = outer, call
        turned: Any = {"scan_input_directions": [int(reverse)] * len(steps), "scan_output_directions": [int(reverse)]}
        outside = [named[name] for name in entries]
        return self("Scan", *outside, outputs=len(results), body=body, num_scan_inputs=len(steps), **turned)

    def constant(self, array: Any) -> str:
        """The name of a constant; equal ones are one."""
        array = np.asarray(array, order="C")
        key = array.dtype.str, array.shape, array.tobytes()
        return self.constants.setdefault(key, (f"constant_{len(self.constants) + 1}", array))[0]

    def number(self, x: Any, dtype: Any = INT64) -> str:
        """A number, which may follow a length."""
        if isinstance(x, Length):
            return self.cast(self("Squeeze", self.ints(x)), dtype).name
        return self.constant(np.array(x, dtype))

    def ints(self, numbers: Any) -> str:
        """A vector of int64, of which some may follow lengths."""
        numbers = numbers if type(numbers) in (tuple, list, range) else [numbers]
        if not any(isinstance(x, Length) for x in numbers):
            return self.constant(np.array([*numbers], INT64))
        return self("Concat", *(self._length(x) if isinstance(x, Length) else self.ints(x) for x in numbers), axis=0)

    def _length(self, x: Length) -> str:
        y = self.sizes(self.inputs[x.array], x.axis, x.axis + 1)
        y = y if x.factor == 1 else self("Mul", y, self.ints(x.factor))
        return y if x.more == 0 else self("Add", y, self.ints(x.more))

    def sizes(self, x: Any, start: int, end: int) -> str:
        """Some lengths of an array, a vector of int64."""
        return self("Shape", x, start=start, end=end)

    def cast(self, x: Any, dtype: Any, before: Any = INT64) -> Value:
        """An array in another dtype; a name stands for one in the dtype `before`."""
        x = x if isinstance(x, Value) else Value(x, np.dtype(before))
        same = x.dtype == np.dtype(dtype)
        return x if same else x._replace(name=self("Cast", x, to=np.dtype(dtype)), dtype=np.dtype(dtype))

    def type(self, dtype: Any) -> int:
        return self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def info(self, name: str, dtype: Any, shape: Any = None) -> Any:
        return self.helper.make_tensor_value_info(name, self.type(dtype), shape)
