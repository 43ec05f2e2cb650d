"""The lines of a report about numbers: values, dtypes, shapes and gradients, on inputs of every kind.

Each tries one thing on an op and returns the input and what came out, or raises `Failed` or `Skipped`.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..grad_mode import no_grad
from ..tensor import Tensor, wrap
from . import op_checks
from .inputs import Subject, axes_of_work, first_line
from .op_checks import Case
from .trying import (
    Failed,
    Outcome,
    Skipped,
    all_on,
    floats_of,
    line_in,
    needs_digits,
    needs_gradients,
    on,
    trying,
    without_rules,
)

LARGE = (10.0, 100.0, 1000.0, 10000.0)
WIDE = np.dtype(np.longdouble)
"""The dtype that judges large numbers: it holds larger ones than float64, or on some machines only than float32."""


def forward(subject: Subject) -> Outcome:
    """The op computes, and agrees with the reference, if there is one."""
    subject.choose()
    case = subject.cases[0]
    with no_grad():
        outs = case(*case.leaves())
    found = " and ".join(f"{out.shape} {out.dtype}" for out in outs)
    if subject.reference is not None:
        with trying(subject, "correct the forward function, or the reference") as tried:
            for case in tried(subject.cases):
                op_checks.check_values(case, subject.reference, 1e-7)
        found += ", the same as the reference"
    elif not all(np.isfinite(out.numpy()).all() for out in outs):
        raise Failed(on(case), f"{found}, with nan or infinity in it", "say where it is defined: domain=(low, high)")
    if subject.assumed:
        found += f" (assumed: {subject.assumed}; domain= or samples= say otherwise)"
    return all_on(subject.cases), found, ""


def purity(subject: Subject) -> Outcome:
    """The op changes nothing that it is given, and the same input gives the same result."""
    with trying(subject, "make a new array: no out=, no x += 1, no x[...] = 1 on what was given") as tried:
        for case in tried(subject.cases):
            try:
                op_checks.check_unchanged(case)
            except AssertionError as error:
                if error.__cause__ is None:  # else it does not compute, which another line reports
                    raise
    with trying(subject, "keep no state between calls; what is random belongs to the caller") as tried:
        for case in tried(subject.cases):
            with no_grad():
                once, again = case(*case.leaves()), case(*case.leaves())
            if any(op_checks.as_bytes(a) != op_checks.as_bytes(b) for a, b in zip(once, again)):
                raise AssertionError("two calls with the same input give different results")
    return all_on(subject.cases), "inputs and incoming gradient stay as they were; two calls agree", ""


def first_order(subject: Subject) -> Outcome:
    """The gradient of every input against differences."""
    needs_gradients(subject)
    needs_digits(subject)
    with trying(subject, "correct what it says") as tried:
        subject.no_gradient = True  # unless all of them compute
        for case in tried(subject.cases):
            case.gradients(case.leaves())
        subject.no_gradient = False
    with trying(subject) as tried:
        for case in tried(subject.cases):
            op_checks.check_first_order(case)
    return all_on(subject.cases), "what differences give" + without_rules(subject), ""


def second_order(subject: Subject) -> Outcome:
    """The gradient of the gradient against differences."""
    needs_gradients(subject)
    needs_digits(subject)
    advice = "let the rule use operators and xp only, on x itself: no .detach(), .item(), .numpy(), no other library"
    with trying(subject, advice) as tried:
        for case in tried(subject.cases):
            op_checks.check_second_order(case)
            op_checks.check_create_graph(case)
    return all_on(subject.cases), "what differences give", ""


def special_values(subject: Subject) -> Outcome:
    """The gradient where a function may have a kink: finite, and between the slopes to both sides."""
    needs_gradients(subject)
    needs_digits(subject)
    advice = "say what the rule gives there, with xp.where; equal inputs may share the gradient, as tt.maximum's do"
    several = [case for case in _special(subject, subject.cases[0]) if _computes(case, case.inputs)]
    if not several:
        raise Skipped("it computes neither with zeros nor with equal elements")
    with trying(subject, advice) as tried:
        for case in tried(several):
            op_checks.check_slopes(case)
    return all_on(several[:1]), "finite, and between the slopes to both sides", ""


def _special(subject: Subject, case: Case) -> Iterator[Case]:
    """The inputs with zeros among them, all zeros, equal neighbours, elements that are all equal, and equal inputs."""
    rng = np.random.default_rng(0)
    arrays = {i: case.inputs[i].numpy() for i in case.places if case.inputs[i].size}
    some = {i: rng.random(x.shape) < 0.4 for i, x in arrays.items()}
    pairs = {i: np.array(x.flat)[np.arange(x.size) // 2 * 2].reshape(x.shape) for i, x in arrays.items()}
    found = [pairs, {i: np.full_like(x, x.flat[0]) for i, x in arrays.items()}]
    if all(subject.takes(i, 0.0) for i in arrays):
        found += [{i: np.where(some[i], zero, x) for i, x in arrays.items()} for zero in (0.0, -0.0)]
        found += [{i: np.zeros_like(x) for i, x in arrays.items()}]
    first = next(iter(arrays.values()), np.zeros(0))
    if len(arrays) > 1 and all(x.shape == first.shape and subject.takes(i, *first.flat) for i, x in arrays.items()):
        found += [dict.fromkeys(arrays, first)]
    for changed in found:
        yield subject.case([changed.get(i, x) for i, x in enumerate(case.inputs)])


def broadcasting(subject: Subject) -> Outcome:
    """Inputs of different shapes: the gradient of each has its own shape, and is right."""
    arrays = [i for i, x in enumerate(subject.cases[0].inputs) if isinstance(x, Tensor) and x.ndim]
    if len(arrays) + sum(not isinstance(x, Tensor) for x in subject.cases[0].inputs) < 2:
        raise Skipped("it has one input: there is nothing to broadcast")
    cases, refusal = [], ""
    for inputs in _narrowed(subject.cases[0], arrays):
        case = subject.case(inputs)
        try:
            with no_grad():
                case(*case.leaves())
            cases.append(case)
        except Exception as error:
            refusal = refusal or f"{on(case)}: {first_line(error)}"
    if not cases:
        raise Skipped(f"it does not broadcast: {refusal}")
    if not cases[0].places:
        return all_on(cases), "it computes; nothing was differentiated", ""
    needs_digits(subject)
    advice = "a rule gives the shape of the result, or of the input it is for; what is longer is summed for you"
    with trying(subject, advice) as tried:
        for case in tried(cases):
            op_checks.check_first_order(case)
    return all_on(cases), "each gradient has the shape of its input, and is what differences give", ""


def _narrowed(case: Case, places: Sequence[int]) -> Iterator[list[Any]]:
    """The inputs with one of them shorter: an axis of length 1 in front or behind, the first axis gone, a number."""
    for i in places:
        x = case.inputs[i]
        for shorter in (x[:1], x[..., :1], x[0], x.reshape(-1)[0]) if x.size else ():
            if shorter.shape != x.shape:
                yield [shorter if j == i else y for j, y in enumerate(case.inputs)]
    if len(places) > 1 and case.inputs[places[0]].ndim > 1:
        first, last = places[0], places[-1]
        changed = {first: case.inputs[first][:1], last: case.inputs[last][..., :1]}
        yield [changed.get(j, y) for j, y in enumerate(case.inputs)]


def dtypes_line(subject: Subject) -> Outcome:
    """A result has the dtype of its inputs, and a gradient that of its input."""
    case = subject.cases[0]
    if not floats_of(case):
        raise Skipped("no input is a float")
    seen = []
    for dtype in (dtypes.float64, dtypes.float32, dtypes.float16):
        try:
            outs = case(*case.leaves(dtype))
        except TypeError as error:
            if dtype != dtypes.float16:  # which LAPACK, for one, does not know
                raise Failed(on(case, str(dtype)), first_line(error) + line_in(subject.path, error)) from error
            seen.append("float16 is refused")
            continue
        wrong = [out.dtype for out in outs if out.dtype.kind == "f" and out.dtype != dtype]
        if wrong:
            advice = "keep the dtype: no NumPy scalars, no dtype by name; xp.asarray(v, dtype=x.dtype)"
            raise Failed(on(case, str(dtype)), f"a result in {wrong[0]}, expected {dtype}", advice)
        seen.append(f"{outs[0].dtype}")
    with trying(subject, "let the rule compute in the dtype of g: Python numbers, no NumPy scalars") as tried:
        for one in tried(subject.cases):
            op_checks.check_float32(one)
    gradients = "; gradients have the dtype of their inputs" if case.places else ""
    return on(case), f"{', '.join(seen)}{gradients}", ""


def strides(subject: Subject) -> Outcome:
    """The same results, whatever the layout in memory."""
    with trying(subject, "nothing may depend on the order in memory: no .ravel(order='K'), .view, .data") as tried:
        for case in tried(subject.cases):
            op_checks.check_layouts(case)
            op_checks.check_broadcast_views(case)
    return all_on(subject.cases), "the same values and gradients", ""


def empty_arrays(subject: Subject) -> Outcome:
    """Arrays without elements, as a last batch may be."""
    case = subject.cases[0]
    arrays = [i for i, x in enumerate(case.inputs) if isinstance(x, Tensor) and x.ndim]
    if not arrays:
        raise Skipped("no input has an axis")
    cases, refused, (shared, _) = [], "", axes_of_work(case)
    ndim = max(case.inputs[i].ndim for i in arrays)
    for axes in [set(range(ndim)), *({axis} for axis in range(ndim))]:
        inputs = [_first(x, 0, axes) if i in arrays else x for i, x in enumerate(case.inputs)]
        if not _computes(case, [_first(x, 2, axes) if i in arrays else x for i, x in enumerate(case.inputs)]):
            continue  # not any length will do
        if axes & shared and not _computes(case, inputs):
            refused = f"; nothing is shared out along axis {min(axes & shared)} where it has length 0"
        else:
            cases.append(subject.case(inputs))
    if not cases:
        raise Skipped("it asks for these lengths: with others it does not compute")
    with trying(subject, "give an answer for nothing, or raise an error that says why there is none") as tried:
        for case in tried(cases):
            try:
                _check_shapes(case)
            except Exception as error:
                if not _raised_on_purpose(subject, error):
                    raise
                refused = f"; it refuses {on(case)}: {first_line(error)}"
    return all_on(cases), "it computes" + (", and so do its gradients" if case.places else "") + refused, ""


def _first(x: Tensor, length: int, axes: set[int]) -> Tensor:
    return x[tuple(slice(length) if i in axes else slice(None) for i in range(x.ndim))]


def _computes(case: Case, inputs: Sequence[Any]) -> bool:
    try:
        with no_grad():
            case(*inputs)
    except Exception:
        return False
    return True


def _check_shapes(case: Case) -> None:
    """It computes, and so do its gradients, which have the shapes of their inputs."""
    leaves = case.leaves()
    case(*leaves)
    found = case.gradients(leaves) if case.places else []
    for i, gradient in zip(case.places, found):
        if gradient is not None and gradient.shape != leaves[i].shape:
            raise AssertionError(f"the gradient of {case.names[i]} has shape {gradient.shape}")


def _raised_on_purpose(subject: Subject, error: BaseException) -> bool:
    """True if an error began with a `raise` in the op's own file."""
    while error.__cause__ is not None:
        error = error.__cause__
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename == subject.path and (last.line or "").startswith("raise")


def large_inputs(subject: Subject) -> Outcome:
    """Values and gradients of large numbers are finite wherever more digits give finite ones."""
    case = subject.cases[0]
    chosen = [i for i in floats_of(case) if isinstance(case.inputs[i], Tensor)]
    if not chosen:
        raise Skipped("no input is a float")
    tried: list[tuple[str, float]] = []
    wrong = []
    for dtype in (dtypes.float64, dtypes.float32):
        for i, value in _extremes(subject, case, chosen):
            tried.append((case.names[i], value))
            what = _overflow(case, i, value, dtype)
            if what:
                wrong.append(f"{case.names[i]} = {value:g} in {dtype} gives {what}")
                break
    if wrong:
        advice = (
            "compute without large numbers on the way: subtract the largest first, or exp(-abs(x)), log1p, logaddexp"
        )
        raise Failed(f"{case.names[chosen[0]]} {tuple(case.inputs[chosen[0]].shape)}", "; ".join(wrong), advice)
    if not tried:
        raise Skipped(f"numbers from {LARGE[0]:g} on are outside of its domain")
    values = sorted({value for _, value in tried})
    names = " or ".join(dict.fromkeys(name for name, _ in tried))
    return (
        f"{names} = {', '.join(f'{value:g}' for value in values)}",
        "finite wherever more digits give a finite number",
        "",
    )


def _extremes(subject: Subject, case: Case, places: Iterable[int]) -> Iterator[tuple[int, float]]:
    names = subject.primitive.inputs
    for value in LARGE:
        for i in places:
            span = subject.domain.get(names[0 if subject.primitive.variadic else i], (-np.inf, np.inf))
            if isinstance(span, (tuple, list)):
                yield from ((i, v) for v in (value, -value) if span[0] <= v <= span[1])


def _overflow(case: Case, place: int, value: float, dtype: Any) -> str:
    """The result or gradient that is not finite though it is in the wider dtype, and the right number; "" if none."""

    def at(dtype: Any) -> list[tuple[str, np.ndarray]]:
        leaves: list[Any] = []
        for i, x in enumerate(case.inputs):
            if isinstance(x, Tensor) and x.dtype.kind == "f":
                values = np.full(x.shape, value) if i == place else x.numpy()
                x = wrap(np.array(values, dtype=dtype), None).requires_grad_(i in case.places)
            leaves.append(x)
        outs = case.results(*leaves)
        found = [("", out.detach().numpy()) for out in outs]
        if any(out._node is not None for out in outs):
            gradients = case.backward(leaves, [o for o in outs if o._node is not None], ones=True)
            found += [
                (f"the gradient of {case.names[i]} as ", g.numpy())
                for i, g in zip(case.places, gradients)
                if g is not None
            ]
        return found

    try:
        expected = at(WIDE)
    except Exception:  # an op may know no wider dtype
        try:
            expected = at(dtypes.float64)
        except Exception:
            return ""  # it refuses such numbers
    for (what, found), (_, right) in zip(at(dtype), expected):
        bad = np.isfinite(right.astype(dtype)) & ~np.isfinite(found)
        if bad.any():
            return f"{what}{found[bad][0]:g} instead of {float(right[bad][0]):.6g}"
    return ""
