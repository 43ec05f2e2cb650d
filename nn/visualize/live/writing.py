"""A recorded program as plain values, for the interpreter in `machine.js`: ops, operands, and numbers in base64."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from tinytensor.backend import for_array
from tinytensor.graph.lengths import Length
from tinytensor.graph.program import Call

from .recording import Recorded

OPS = """
    add arange astype bitwise_invert bitwise_or cos divide embedding equal exp expand_dims full gelu gelu_tanh getitem
    layer_norm masked_fill matmul matrix_transpose max mean multiply negative permute_dims relu reshape rms_norm rotate
    sigmoid sin sqrt subtract sum tril triu where
"""
"""The ops that `machine.js` has."""
MOST = 64 * 2**20  # bytes of numbers in a page


class Writer:
    """Writes a program: `Writer().write(found)` numbers its arrays, and collects the bytes of weights and constants."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.constants: list[list[Any]] = []
        self.numbers = bytearray()

    def write(self, found: Recorded) -> dict[str, Any]:
        """The program as plain values.

        Raises ValueError that names an op, or a form of it, that the page does not have, and for too many numbers.
        """
        program = found.program
        inputs = {name[6:]: self.place(at) for name, at in program.names.items() if name.startswith("input ")}
        calls = [
            [function.__name__, self.value(arguments), {}, self.place(name), _kind(program.leaves[name].dtype)]
            for name, (function, arguments) in program.rules.items()
        ]
        for name, array in program.leaves.items():
            if name not in self.places:
                self.constant(name, array)
        return {
            "inputs": inputs,
            "calls": calls + [self.call(call) for call in program.calls],
            "names": {name: [self.place(at) for at in calls] for name, calls in found.names.items()},
            "result": self.place(program.outputs[0]),
            "constants": self.constants,
            "count": len(self.places),
            "numbers": base64.b64encode(self.numbers).decode(),
        }

    def place(self, name: str) -> int:
        return self.places.setdefault(name, len(self.places))

    def constant(self, name: str, array: Any) -> int:
        """The place of an array whose bytes are in the page."""
        x, kind = np.ascontiguousarray(for_array(array).to_numpy(array)), _kind(array.dtype)
        self.constants.append([self.place(name), kind, list(array.shape), len(self.numbers)])
        self.numbers += x.astype(np.dtype(kind).newbyteorder("<")).tobytes()
        self.numbers += bytes(-len(self.numbers) % 8)
        if len(self.numbers) > MOST:
            raise ValueError(f"live: a page holds at most {MOST >> 20} MB of weights, and this model has more")
        return self.place(name)

    def call(self, call: Call) -> list[Any]:
        op, params = call.op, call.op.defaults | call.params
        if op.name not in OPS.split() or not op.function.__module__.startswith("tinytensor."):
            raise ValueError(f"live: the page cannot compute {op.name}{call.at}; it has {', '.join(OPS.split())}")
        if op.name == "rms_norm" and params["axes"] != (-1,):
            raise ValueError(f"live: the page has rms_norm{call.at} along the last axis alone")
        count = len(op.inputs)
        if op.name == "getitem":
            params["key"] = self.key(call, params["key"], iter(call.inputs[count:]))
        inputs = [{"array": self.place(x)} if isinstance(x, str) else self.value(x) for x in call.inputs[:count]]
        return [op.name, inputs, self.value(params), self.place(call.output), _kind(call.result.dtype)]

    def key(self, call: Call, key: Any, given: Any) -> tuple[Any, ...]:
        """The key of x[key], in which one part at most is a vector of indices."""
        arrays = [part for part in key if hasattr(part, "dtype")]
        steps = [part.step or 1 for part in key if isinstance(part, slice)]
        if len(arrays) > 1 or any(x.dtype.kind != "i" or x.ndim != 1 for x in arrays) or min([1, *steps]) < 1:
            raise ValueError(f"live: the page reads x[key]{call.at} at slices forwards, and at one vector of indices")
        places = [self.place(name) if name else self.constant(f"index {len(self.places)}", *arrays) for name in given]
        return tuple([{"array": places[0]} if hasattr(part, "dtype") else part for part in key])

    def value(self, x: Any) -> Any:
        """An operand or a parameter as plain values: lengths, slices and infinities are objects."""
        if isinstance(x, Length):
            return {"along": [self.place(x.array), x.axis, x.factor, x.more]}
        if isinstance(x, slice):
            return {"slice": [self.value(end) for end in (x.start, x.stop, x.step)]}
        if isinstance(x, dict):
            return {name: self.value(part) for name, part in x.items()}
        if isinstance(x, (tuple, list)):
            return [self.value(part) for part in x]
        if isinstance(x, float) and not math.isfinite(x):
            return {"number": str(x)}
        return {"ellipsis": True} if x is Ellipsis else str(x) if isinstance(x, np.dtype) else x


def _kind(dtype: Any) -> str:
    """The kind of numbers in the page for a dtype. Raises ValueError for one that it does not have."""
    if dtype.kind in "biu":
        return "bool" if dtype.kind == "b" else "int32"
    if dtype.name not in ("float32", "float64"):
        raise ValueError(f"live: the page has no numbers of {dtype.name}; write model.to(tt.float32)")
    return str(dtype.name)
