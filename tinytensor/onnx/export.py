"""The export of a model: recordings at three lengths, then the file."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

import tinytensor as tt

from ..backend import for_array
from ..graph.program import Program
from ..machine.extras import how_to_install
from ..machine.files import atomic_write
from ..tensor import Tensor
from .writer import Writer, recorded, tensors

OPSET = 23  # the version of ONNX's ops (2025)
MOST = 2**31 - 1  # bytes in a file, whose lengths have 32 bits
LONGER = (0,) * 8, (3, 5, 7, 11, 13, 17, 19, 23), (5, 7, 11, 13, 17, 19, 23, 29)
"""By how much each free length is larger in each recording: primes tell them apart."""


def export(
    model: Callable[..., Any],
    args: Any,
    f: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_shapes: Mapping[str, Mapping[int, str]] | None = None,
) -> None:
    """Write what a model computes as a file in ONNX, which ONNX Runtime and many other programs run.

        tt.onnx.export(model, (ids,), "model.onnx", dynamic_shapes={"ids": {0: "batch", 1: "length"}})

    The model runs three times in evaluation mode: on the example, and on other numbers, longer along free axes. What
    differs between the runs must follow these lengths. Weights have their names in the `state_dict`.

    Args:
        model: a module, a method of one, or any function of Tensors.
        args: the example, a tuple of arguments, or one array. Arrays become inputs; other arguments are fixed.
        f: the path of the file, which is written whole or not at all.
        kwargs: more arguments, by name.
        input_names: names of the inputs in order; default: those of the arguments.
        output_names: names of the results; default: "output", "output_0", ..., or the keys of a dictionary.
        dynamic_shapes: for inputs by name, free axes with the names of their lengths; equal names are equal lengths.

    Warns (UserWarning) where Python reads numbers, as `float(x)` does: what it does with them is fixed.

    Raises NotImplementedError for an op that ONNX lacks, random numbers among them, with its line; ValueError for what
    follows no length, for names and axes that do not fit, and for more than 2 GB; ImportError without the package onnx;
    OSError that names a file that cannot be written.
    """
    try:
        from onnx import checker
    except ImportError:
        raise ImportError(f"export: the package onnx is missing; run: {how_to_install('onnx')}") from None
    given = args if isinstance(args, tuple) else (args,)
    call = inspect.signature(getattr(model, "forward", model)).bind(*given, **(kwargs or {}))
    example = [*tensors("", dict(call.arguments))]
    inputs = dict(zip(_named("input_names", input_names, example), [tt.asarray(x) for _, x in example]))
    axes = {name: {i: str(w) for i, w in own.items() if w} for name, own in (dynamic_shapes or {}).items()}
    lengths = _lengths(inputs, axes)
    runs = _runs(model, call, inputs, axes, lengths)
    results = [[*tensors("output", found)] for _, found, _ in runs]
    names = _named("output_names", output_names, results[0])
    for line in sorted(runs[0][2]):
        fixed = "what it does with them, or decides by them, is fixed in the file"
        warnings.warn(f"export: Python reads numbers at {line}; {fixed}", UserWarning, stacklevel=2)
    try:
        program, other = (runs[0][0].with_free_lengths(run[0]) for run in runs[1:])
        for one, two in zip(program.calls, other.calls):  # n // 2 is no n - 3
            if repr((one.inputs, one.params)) != repr((two.inputs, two.params)):
                raise ValueError(f"{one.op.name}{one.at}: a number follows no length, as n // 2 does not")
    except ValueError as error:
        told = str(error).removeprefix("with_free_lengths: ")
        raise ValueError(f"export: the model differs between inputs: {told}") from None
    words = {tuple(sizes[word] for sizes in lengths): word for word in lengths[0]}
    shapes = [zip(*(x.shape for _, x in run)) for run in zip(*results)]
    outputs = {name: [n[0] if len({*n}) == 1 else words.get(n) for n in ns] for name, ns in zip(names, shapes)}
    file = _file(program, inputs, axes, outputs)
    checker.check_model(file, full_check=True)
    atomic_write(f, file.SerializeToString())


def _named(argument: str, given: Sequence[str] | None, arrays: list[tuple[str, Any]]) -> list[str]:
    """The names that were given, or else their own. Raises ValueError unless there is one for each array, and one."""
    names = [name for name, _ in arrays] if given is None else [*given]
    if len({*names}) != len(arrays) or not arrays:
        raise ValueError(f"export: {argument}: expected one name for each of {len(arrays)} arrays, got {names}")
    return names


def _lengths(inputs: Mapping[str, Tensor], axes: Mapping[str, Mapping[int, str]]) -> list[dict[str, int]]:
    """The free lengths in each run, by name. Raises ValueError for axes that do not fit."""
    sizes: dict[str, int] = {}
    for name, axis, word in ((name, axis, word) for name, own in axes.items() for axis, word in own.items()):
        shape = inputs[name].shape if name in inputs else ()
        n = shape[axis] if 0 <= axis < len(shape) else 0
        if not n or sizes.setdefault(word, n) != n or len(sizes) > len(LONGER[0]):
            raise ValueError(
                f"export: dynamic_shapes: {word!r} cannot be the length of axis {axis} of {name!r} {shape}; the inputs "
                f"are {', '.join(inputs)}, and one of at most {len(LONGER[0])} words stands for one length above 0"
            )
    return [{word: max(2, n) + more for (word, n), more in zip(sizes.items(), run)} for run in LONGER]


def _other(x: Tensor, sizes: Mapping[int, int], run: int) -> Tensor:
    """The example, longer along some axes; after the first run with other numbers: floats as positive and smaller."""
    array = np.flip(x.numpy()) if run else x.numpy()
    for axis, n in sizes.items():
        array = np.take(array, np.arange(n) % array.shape[axis], axis=axis)
    if run and array.dtype.kind == "f":
        share = np.random.default_rng(run).uniform(0.5, 1.0, array.shape)
        array = np.where(array == 0, share / 1024, array * share).astype(array.dtype)
    return tt.asarray(array, device=x.device, copy=True)


def _runs(
    model: Any, call: inspect.BoundArguments, inputs: Any, axes: Any, lengths: Any
) -> list[tuple[Program, Any, Any]]:
    """Recordings of the model in evaluation mode, at each of the lengths."""
    module = getattr(model, "__self__", model)
    training = {part: part.training for part in module.modules()} if hasattr(module, "modules") else {}
    weights = {f"state {name}": x for name, x in module.state_dict(keep_vars=True).items()} if training else {}
    found = []
    try:
        for part in training:
            part.training = False
        for run, sizes in enumerate(lengths):
            arrays = {}
            for name, x in inputs.items():
                arrays[f"input {name}"] = _other(x, {i: sizes[word] for i, word in axes.get(name, {}).items()}, run)
            replaced = _replaced(dict(call.arguments), iter([*arrays.values()]))
            given = inspect.BoundArguments(call.signature, replaced)
            try:
                found.append(recorded(partial(model, *given.args, **given.kwargs), arrays | weights))
            except (IndexError, ValueError) as error:
                raise ValueError(f"export: the model fails at {sizes or 'other numbers'}: {error}") from error
    finally:
        for part, was in training.items():
            part.training = was
    return found


def _replaced(value: Any, arrays: Any) -> Any:
    """The same arguments with other arrays."""
    if isinstance(value, dict):
        return {key: _replaced(part, arrays) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_replaced(part, arrays) for part in value])
    return next(arrays) if hasattr(value, "dtype") else value


def _file(program: Program, inputs: Mapping[str, Tensor], axes: Any, outputs: Mapping[str, Any]) -> Any:
    """The file's content, a model of ONNX."""
    named = {place: name.partition(" ")[::2] for name, place in program.names.items() if " " in name}
    writer = Writer({place: name for place, (_, name) in named.items()})
    known = {place: writer.value(name, of=program.leaves[place]) for place, (_, name) in named.items()}
    values = writer.write(program, known)
    for place, name in zip(program.outputs, outputs):
        writer("Identity", values[place], name=name)
    weights = {name: program.leaves[place] for place, (kind, name) in named.items() if kind == "state"}
    if twice := {*inputs} & {*outputs} | {*weights} & {*inputs, *outputs}:
        raise ValueError(f"export: two arrays have the name {min(twice)!r}; see input_names and output_names")
    arrays = {name: for_array(x).to_numpy(x) for name, x in weights.items()} | dict(writer.constants.values())
    arrays = {name: x for name, x in arrays.items() if name in writer.read}
    if (size := sum(x.nbytes for x in arrays.values())) > MOST:
        raise ValueError(f"export: {size / 1e9:.1f} GB of weights, and a file holds 2 GB; export parts, or float16")
    onnx = writer.helper
    tables = [onnx.make_tensor(name, writer.type(x.dtype), x.shape, x.tobytes(), True) for name, x in arrays.items()]
    shapes = {name: [axes.get(name, {}).get(i, n) for i, n in enumerate(x.shape)] for name, x in inputs.items()}
    entries = [writer.info(name, x.dtype, shapes[name]) for name, x in inputs.items()]
    exits = [writer.info(name, values[place].dtype, outputs[name]) for place, name in zip(program.outputs, outputs)]
    graph = onnx.make_graph(writer.nodes, "tinytensor", entries, exits, tables)
    ops = [onnx.make_opsetid("", OPSET)]
    version = onnx.find_min_ir_version_for(ops)
    return onnx.make_model(graph, opset_imports=ops, ir_version=version, producer_name="tinytensor")
