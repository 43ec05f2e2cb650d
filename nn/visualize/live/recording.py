"""A model as a recorded program for texts of any length, with the names that `nn.cache` and `nn.intervene` have."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import tinytensor as tt
from tinytensor.graph.program import Program
from tinytensor.onnx.writer import recorded, tensors

from ...inside.watching import VARIABLES, Watcher, places
from ...module import Module, evaluating

LENGTHS = ((3, 2), (4, 5), (6, 7))
"""Of source and target in each recording, so that a number shows by its changes which of them it follows."""
LONGEST = max(map(max, LENGTHS))
ARGUMENTS = ("mask", "tgt_mask", "rotation")
"""The arguments that levers change, beside the variables of attention, positions and layers."""
NEEDED = ("generate", "max_length", "pad_id", "bos_id", "eos_id")


@dataclass(frozen=True)
class Attention:
    """One attention of a model.

    Attributes:
        name, layer, reads: the paths of its module and of the layer around it, and the name of what the layer reads.
        queries, keys: the inputs that they belong to: "ids", "source" or "target".
        heads, scale: their number, and what scores are multiplied by.
    """

    name: str
    layer: str
    reads: str
    queries: str
    keys: str
    heads: int
    scale: float


@dataclass(frozen=True)
class Recorded:
    """The computation of a model.

    Attributes:
        program: for one text of any length; its first output are the logits.
        names, values: by the names of `nn.intervene`, names within the program, one for each call, and what was there.
        attentions: in the order in which they are computed.
    """

    program: Program
    names: dict[str, list[str]]
    values: dict[str, Any]
    attentions: list[Attention]


def record(model: Any) -> Recorded:
    """Record a model at three lengths, in evaluation mode.

    Raises TypeError for a model that does not generate from ids, or from source and target; ValueError where a number
    follows no length, and for ops that no recording has.
    """
    inputs = tuple(inspect.signature(getattr(model, "forward", record)).parameters)
    if inputs not in (("ids",), ("source", "target")) or not all(hasattr(model, name) for name in NEEDED):
        raise TypeError(f"live: expected a models.LanguageModel or a models.Transformer, got a {type(model).__name__}")
    if model.max_length < LONGEST:
        raise ValueError(f"live: the model's max_length is {model.max_length}; expected at least {LONGEST}, to try it")
    with evaluating(model):
        (program, names, values), *others = [_run(model, inputs, lengths) for lengths in LENGTHS]
    try:
        one, two = (program.with_free_lengths(other) for other, _, _ in others)
        for a, b in zip(one.calls, two.calls):
            if repr((a.inputs, a.params)) != repr((b.inputs, b.params)):
                raise ValueError(f"{a.op.name}{a.at}: a number follows no length")
    except ValueError as error:
        why = str(error).removeprefix("with_free_lengths: ")
        raise ValueError(f"live: the model computes otherwise at other lengths: {why}") from None
    lengths, attentions = dict(zip(LENGTHS[0], inputs)), []
    for name in [name.removesuffix(".weights") for name in names if name.endswith(".weights")]:
        _, heads, queries, keys = values[f"{name}.weights"].shape
        layer, module = name.rpartition(".")[0], model.get_submodule(name)
        scale = getattr(module, "scale", 1 / math.sqrt(values[f"{name}.q"].shape[-1]))
        reads = f"{layer}.{_first(model.get_submodule(layer))}"
        attentions.append(Attention(name, layer, reads, lengths[queries], lengths[keys], heads, scale))
    return Recorded(one, names, values, attentions)


def _run(model: Any, inputs: Any, lengths: Any) -> tuple[Program, dict[str, list[str]], dict[str, Any]]:
    """The program at these lengths, with the names in it and the values of those that levers or pictures need."""
    arrays, seen = {}, _Seen(model)
    for name, length in zip(inputs, lengths):
        words = (model.embedding if name == "ids" else getattr(model, f"{name}_embedding")).weight
        ids = [i for i in range(len(words)) if i != model.pad_id]
        arrays[f"input {name}"] = tt.asarray([[ids[i % len(ids)] for i in range(length)]], device=words.device)
    given = [*arrays.values()]

    def call() -> Any:
        with seen:
            logits = model(*given)
        return [logits, *(value for _, value in seen.met)]

    weights = {f"state {name}": x for name, x in model.state_dict(keep_vars=True).items()}
    try:
        program, _, _ = recorded(call, arrays | weights)
    except NotImplementedError as error:
        raise ValueError(f"live: the page cannot compute this: {str(error).removeprefix('export: ')}") from None
    names: dict[str, list[str]] = {}
    for (name, _), place in zip(seen.met, program.outputs[1:], strict=True):
        names.setdefault(name, []).append(place)
    return program, names, dict(seen.met)


class _Seen(Watcher):
    """Meets what levers change and pictures show: `met` are the names and values in their order."""

    def __init__(self, model: Module) -> None:
        known = places(model)
        layers = {name.rpartition(".")[0].rpartition(".")[0] for name in known if name.endswith(".weights")}
        wanted = layers | ({"positions"} & known.keys())
        wanted |= {f"{name}.{_first(known[name].module)}" for name in wanted}
        last = {name: name.rpartition(".")[2] for name in known}
        super().__init__({n: at for n, at in known.items() if n in wanted or last[n] in (*VARIABLES, *ARGUMENTS)})
        self.met: list[tuple[str, Any]] = []

    def meet(self, name: str, value: Any) -> Any:
        self.met += tensors(name, value)


def _first(module: Module) -> str:
    """The name of the first argument of a module."""
    return next(iter(inspect.signature(module.forward).parameters))
