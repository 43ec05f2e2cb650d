"""The optimisers' steps in place: all parameters together, in few passes over memory.

What computes is compiled from the optimiser's own `update`; Adam on a GPU has a kernel. Others go by `update`, one
parameter after the other.
"""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor.backend import for_array
from tinytensor.fast.texts import Way
from tinytensor.in_place import is_writable
from tinytensor.tensor import wrap

from ..optim.optimizer import WIDER, Due, Optimizer
from .adam import by_hand
from .update import compiled

WAY = Way("steps of optimisers", "nn.optim.optimizer:Optimizer._step_by_formula")


def step_in_place(optimizer: Optimizer, due: list[Due]) -> bool | None:
    if not WAY.holds():
        return None
    plan_of = compiled(optimizer) or by_hand(optimizer)
    if plan_of is None:
        return None
    batches: dict[Any, list[Any]] = {}
    rest: list[Due] = []
    written: list[Any] = []
    changed: list[Any] = []
    for one in due:
        parameter, state, group = one
        if (plan := plan_of(parameter._data, state, group)) is None:
            rest.append(one)
            continue
        update, numbers, names, counted = plan
        array, gradient = parameter._data, parameter.grad._data  # type: ignore[union-attr]
        xp, is_own, wider = for_array(array), is_writable(parameter), WIDER.get(array.dtype)
        if wider:
            values, gradient = xp.contiguous(xp.astype(array, wider)), xp.astype(gradient, wider)
        else:
            values = xp.contiguous(array) if is_own else xp.copy(array)
        new, there = {**state, **counted}, {"theta": values, "g": xp.contiguous(gradient)}
        row = []
        for name in names:
            if name not in there:
                new[name] = kept = _that_fits(state, name, values, xp)
                there[name] = kept._data
                changed.append(kept._data)
            row.append(there[name])
        if array.size:
            batches.setdefault((update, numbers, type(values), values.dtype, len(row)), []).append(row)
        changed.append(array)
        written.append((parameter, array, is_own, values, new))
    if rest:  # an error of theirs comes before anything is changed
        Optimizer._step_by_formula.__wrapped__(optimizer, rest)  # type: ignore[attr-defined]
    try:
        for (update, numbers, *_), rows in batches.items():
            update(rows, numbers)
    finally:
        for parameter, array, is_own, values, new in written:
            if not is_own:
                parameter._data, parameter._memory = values.astype(array.dtype, copy=False), None
            elif values is not array:
                array[...] = values
            if new:
                optimizer.state[parameter] = new
        tt.mark_written(*changed)
    return True


def _that_fits(state: dict[str, Any], name: str, values: Any, xp: Any) -> Any:
    """The arrays of a state under a name, contiguous as the values are; zeros if it is missing."""
    if not isinstance(state.get(name), tt.Tensor):
        return wrap(xp.zeros_like(values), None)
    kept = state[name]._data
    if kept.shape != values.shape:
        raise ValueError(f"state {name!r} has shape {kept.shape}, but its parameter {values.shape}")
    whole = xp.contiguous(kept.astype(values.dtype, copy=not getattr(kept.flags, "writeable", True)))
    return state[name] if whole is kept else wrap(whole, None)


Optimizer._step_by_formula.faster = step_in_place  # type: ignore[attr-defined]
