"""The lines of a report about the code: how an op is written, what it saves, and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..grad_mode import textbook
from ..primitive import has_pair
from ..tensor import Tensor
from . import op_checks
from .inputs import Subject, first_line
from .op_checks import Case
from .other_arrays import NotItsOwn, OtherArray, OtherNamespace, wrapped
from .trying import Failed, Outcome, Skipped, all_on, needs_gradients, on, trying

MANY: dict[tuple[int, ...], tuple[int, ...]] = {(3, 4): (128, 128), (3, 3): (32, 32), (4,): (16384,)}
"""For each first shape, the shape to time instead."""


def only_xp(subject: Subject) -> Outcome:
    """Run forward and rules on arrays that are not NumPy's."""
    primitive, case = subject.primitive, subject.cases[0]
    xp = OtherNamespace()
    values = [wrapped(np.array(x.numpy())) if isinstance(x, Tensor) else x for x in case.inputs]
    where = f"{on(case)}, as arrays that are not NumPy's"
    if not primitive.pure and not has_pair(primitive):
        with trying(subject, "write the formula with tinytensor's functions: tt.exp, not np.exp") as tried:
            for one in tried(subject.cases[:1]):
                one(*one.leaves())
        return on(case), "a formula of tinytensor's functions", ""
    advice = "write xp. instead of np.: the same function computes on the GPU then"
    with trying(subject, advice, where) as tried:
        for one in tried([case]):
            if primitive.pure:
                out = _other_forward(subject, xp, values)
                _other_rules(subject, xp, one, values, out)
            else:
                out, residuals = primitive.fast_forward(xp, *values, **subject.params)
                _its_own(out, "the fast forward half")
                needs = tuple(i in one.places for i in range(len(values)))
                params = {**primitive.defaults, **subject.params}
                found = primitive.fast_backward(xp, _ones(out), residuals, needs, **params) if any(needs) else ()
                for gradient in found:
                    _its_own(gradient, "the fast backward half")
    used = ", ".join(f"xp.{name}" for name in xp.used)
    return where, f"nothing but {used}" if used else "operators alone", ""


def _other_forward(subject: Subject, xp: Any, values: Sequence[Any]) -> Any:
    out = subject.primitive.function(xp, *values, **subject.params)
    _its_own(out, "forward")
    return out


def _other_rules(subject: Subject, xp: Any, case: Case, values: Sequence[Any], out: Any) -> None:
    primitive = subject.primitive
    names = primitive.inputs
    known = {**primitive.defaults, **subject.params, "xp": xp, "out": out, "g": _ones(out)}
    known.update({names[0]: tuple(values)} if primitive.variadic else dict(zip(names, values)))
    for i in case.places:
        name = names[0 if primitive.variadic else i]
        rule, reads = primitive.rules[name]
        known["shape"], known["index"] = case.inputs[i].shape, i
        _its_own(rule(*[known[r] for r in reads]), f"the rule for {name}")


def _ones(out: Any) -> Any:
    return wrapped(np.ones_like(getattr(out, "values", out)))


def _its_own(value: Any, what: str) -> None:
    if isinstance(value, np.ndarray):
        raise NotItsOwn(f"{what} gave a NumPy array: it makes one with np instead of xp")
    if value is not None and not isinstance(value, (OtherArray, bool, int, float, complex)):
        raise NotItsOwn(f"{what} gave a {type(value).__name__}; expected an array of xp")


def saved(subject: Subject) -> Outcome:
    """Every array that is kept until backward is read there."""
    needs_gradients(subject)
    needed: dict[str, bool] = {}
    with trying(subject, "name in a rule what it reads, and no more; out is often enough where x is named") as tried:
        for case in tried(subject.cases):
            op_checks.check_released(case)
            for name, read in op_checks.needed_by(case).items():
                needed[name] = needed.get(name, False) or read or not all(x.size for x in _tensors(case))
    unread = [name for name, read in needed.items() if not read]
    case = subject.cases[0]
    if unread:
        raise Failed(
            on(case),
            f"{', '.join(unread)}: kept until backward, and no gradient depends on it",
            "take the name out of the rule",
        )
    outs = case.floating(*case.leaves())
    kept = [
        (f"{node.name}.{name}", a.nbytes)
        for node in op_checks.nodes_of(outs)
        for name, a in op_checks.kept_arrays(node)
    ]
    total = sum(size for _, size in kept)
    names = ", ".join(name for name, _ in kept)
    if not kept:
        return on(case), "it saves nothing", ""
    return on(case), f"it saves {names}: {total} bytes for a result of {sum(o._data.nbytes for o in outs)}", ""


def _tensors(case: Case) -> list[Tensor]:
    return [x for x in case.inputs if isinstance(x, Tensor)]


def fast_pair(subject: Subject) -> Outcome:
    """The fast pair of a formula: the same values and gradients."""
    primitive = subject.primitive
    if not has_pair(primitive):
        if primitive.fast_forward is primitive.fast_backward:
            raise Skipped("it has none, and is computed by its formula")
        there, lacking = ("forward", "backward") if primitive.fast_forward else ("backward", "forward")
        raise Failed(
            f"@{primitive.name}.{there}",
            "only half of a pair: it never runs, and the formula computes",
            f"register the other half with @{primitive.name}.{lacking}",
        )
    with trying(subject, "the formula is the definition: correct the pair, or the formula") as tried:
        for case in tried(subject.cases):
            op_checks.check_fused(case, True) if case.places else _same_forward(case)
    return all_on(subject.cases), "the same values and gradients as the formula", ""


def _same_forward(case: Case) -> None:
    fast = case(*case.leaves())
    with textbook():
        slow = case(*case.leaves())
    for a, b in zip(fast, slow):
        op_checks.same("result", a, b, 1e-9)


def speed(subject: Subject) -> Outcome:
    """Time the op, and compare it with its formula if it has a fast pair."""
    try:
        case = _larger(subject)
        _run(case)
    except Exception as error:
        raise Skipped(f"it does not run: {first_line(error)}") from error
    primitive = subject.primitive
    if primitive.pure or not has_pair(primitive):
        (both,) = _times([lambda: _run(case)])
        what = "forward and backward" if case.places else "forward"
        kind = "a pure op: it is its own formula" if primitive.pure else "by its formula, which has no fast pair"
        return on(case), f"{both * 1e3:.3g} ms, {what}; {kind}", ""
    fast, slow = _times([lambda: _run(case), textbook()(lambda: _run(case))])
    found = f"{fast * 1e3:.3g} ms, by its formula {slow * 1e3:.3g} ms: {fast / slow:.2f} of the time"
    return on(case), found, "the pair is no faster: without it there is less to read" if fast > slow else ""


def _larger(subject: Subject) -> Case:
    """The first inputs, with more numbers if they were not given."""
    case = subject.cases[0]
    if not subject.given and case.inputs:
        try:
            larger = subject.case(subject.draw(MANY.get(_tensors(case)[0].shape, ())))
            _run(larger)
            return larger
        except Exception:
            return case
    return case


def _run(case: Case) -> None:
    leaves = case.leaves()
    if case.places:
        case.gradients(leaves)
    else:
        case(*leaves)


def _times(calls: Sequence[Callable[[], Any]], seconds: float = 0.15) -> list[float]:
    """The least time of each call, taken in turns."""
    best = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or best[0] == float("inf"):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    return best
