"""A computation in a sentence: the description of a picture for those who cannot see it."""

from __future__ import annotations

import math
from collections import Counter

from .short_text import plural
from .structure import Op, Structure, Value

SOFTMAX = ("softmax", "log_softmax")
ATTENTION = ("attention", "multi_head")


def describe(
    structure: Structure, ops: list[Op], labels: dict[str, str], around: dict[str, str], ran: int | None = None
) -> str:
    """For example "12 ops; softmax over 10 keys; residual from x; 3 parameters (192 numbers)"."""
    values = {value.id: value for value in structure.values}
    drawn = {op.id for op in ops}
    parts = [plural(len(ops) if ran is None else ran, "op")]
    modules = [s for s in structure.scopes if s.kind not in ("formula", "stage")]
    if modules:
        kinds = Counter(s.kind for s in modules)
        parts.append(
            f"{plural(len(modules), 'module call')} ({', '.join(f'{n} {k}' for k, n in kinds.most_common(4))})"
        )
    folded = sorted(labels, key=lambda place: int(place[1:]))
    paths = {s.id: s.place for s in structure.scopes}
    folds = Counter(f"{labels[place]} from {paths[place]}" for place in folded)
    parts.extend(text + (f" ({n} times)" if n > 1 else "") for text, n in folds.items())
    softmaxes: Counter[str] = Counter()
    for op in structure.ops:
        if op.id not in drawn:
            continue
        if op.name in SOFTMAX:
            shape = values[op.output].shape
            axis = dict(op.parameters).get("axis", "-1")
            length = shape[int(axis)] if shape and axis.lstrip("-").isdigit() else math.prod(shape)
            softmaxes[f"softmax over {length} keys" if shape else "softmax"] += 1
        elif op.name in ATTENTION:
            inputs = [values[v] for v in op.inputs if v is not None and not values[v].mask]
            memory = inputs[1] if len(inputs) > 1 and inputs[1].dtype.startswith("float") else inputs[0]
            softmaxes[f"softmax over {memory.shape[-2]} keys"] += 1
    last = {op.scope: op for op in structure.ops}
    for scope in structure.scopes:
        if scope.kind == "formula" and scope.name in SOFTMAX and scope.id in last:
            softmaxes[f"softmax over {values[last[scope.id].output].shape[-1]} keys"] += 1
    parts.extend(f"{text} ({n} times)" if n > 1 else text for text, n in softmaxes.items())
    starts = Counter(_start(values[value]) for op, value in around.items() if op in drawn)
    parts.extend(f"residual from {text}" + (f" ({n} times)" if n > 1 else "") for text, n in starts.items())
    again = sum(op.again > 0 for op in structure.ops)
    parts.extend([f"{plural(again, 'op')} computed again in the backward pass"] if again else [])
    masks = dict.fromkeys(v.mask for v in structure.values if v.mask)
    parts.extend(f"{mask} mask" for mask in masks)
    parameters = [v for v in structure.values if v.kind == "parameter" and not v.same_as]
    if parameters:
        numbers, frozen = (
            sum(math.prod(v.shape) for v in some) for some in (parameters, [v for v in parameters if v.frozen])
        )
        rest = f", {frozen:,} of them frozen" if frozen else ""
        parts.append(f"{plural(len(parameters), 'parameter')} ({numbers:,} numbers{rest})")
    return "; ".join(parts)


def _start(value: Value) -> str:
    """The start of a residual connection, in words."""
    return "the input" if value.kind == "input" else value.name or "an inner result"
