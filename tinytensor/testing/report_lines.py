"""The lines of a report: each tries one thing on an op and says on which input, what came out and what to do."""

from __future__ import annotations

import inspect
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dtypes
from ..grad_mode import no_grad, textbook
from ..graph.source import rule_text
from ..primitive import has_pair
from ..tensor import Tensor, wrap
from . import op_checks
from .gradcheck import GradientError
from .inputs import Subject, first_line, quiet
from .op_checks import Case
from .other_arrays import NotItsOwn, OtherArray, OtherNamespace, wrapped

LARGE = (10.0, 100.0, 1000.0, 10000.0)
WIDE = np.dtype(np.longdouble)
"""What judges large numbers: it holds larger ones than float64, or on some machines only than float32."""

MANY: dict[tuple[int, ...], tuple[int, ...]] = {(3, 4): (128, 128), (3, 3): (32, 32), (4,): (16384,)}
"""The shape for a timing, instead of a first shape."""


@dataclass(frozen=True)
class Line:
    """One line of a report.

    Attributes:
        name: of the line.
        status: "ok", "failed" or "skipped".
        tried: what was tried.
        on: on which input.
        found: what came out; of a line that was skipped, why.
        advice: what to do; "" where there is nothing to do.
    """

    name: str
    status: str
    tried: str
    on: str
    found: str
    advice: str = ""


class Failed(Exception):
    """What was tried went wrong: on which input, what came out, what to do."""

    def __init__(self, on: str, found: str, advice: str = "") -> None:
        super().__init__(on, found, advice)


class Skipped(Exception):
    """Nothing was tried, for this reason."""


Outcome = tuple[str, str, str]
"""On which input, what came out, and advice, if any."""


# ---- forward


def forward(subject: Subject) -> Outcome:
    """The op computes, and what NumPy's function gives."""
    subject.choose()
    case = subject.cases[0]
    with quiet(), no_grad():
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


def broadcasting(subject: Subject) -> Outcome:
    """Inputs of different shapes: the gradient of each has its own shape, and is right."""
    arrays = [i for i, x in enumerate(subject.cases[0].inputs) if isinstance(x, Tensor) and x.ndim]
    if len(arrays) + sum(not isinstance(x, Tensor) for x in subject.cases[0].inputs) < 2:
        raise Skipped("it has one input: there is nothing to broadcast")
    cases, refusal = [], ""
    for inputs in narrowed(subject.cases[0], arrays):
        case = subject.case(inputs)
        try:
            with quiet(), no_grad():
                case(*case.leaves())
            cases.append(case)
        except Exception as error:
            refusal = refusal or f"{on(case)}: {first_line(error)}"
    if not cases:
        raise Skipped(f"it does not broadcast: {refusal}")
    if not cases[0].places:
        return all_on(cases), "it computes; nothing was differentiated", ""
    advice = "a rule gives the shape of the result, or of the input it is for; what is longer is summed for you"
    with trying(subject, advice) as tried:
        for case in tried(cases):
            op_checks.check_first_order(case)
    return all_on(cases), "each gradient has the shape of its input, and is what differences give", ""


def narrowed(case: Case, places: Sequence[int]) -> Iterator[list[Any]]:
    """The inputs with one of them shorter: an axis of length 1 in front or behind, the first axis gone, a number."""
    for i in places:
        x = case.inputs[i]
        for shorter in (x[:1], x[..., :1], x[0], x.reshape(-1)[0]):
            if shorter.shape != x.shape:
                yield [shorter if j == i else y for j, y in enumerate(case.inputs)]
    if len(places) > 1 and case.inputs[places[0]].ndim > 1:
        first, last = places[0], places[-1]
        changed = {first: case.inputs[first][:1], last: case.inputs[last][..., :1]}
        yield [changed.get(j, y) for j, y in enumerate(case.inputs)]


def dtypes_line(subject: Subject) -> Outcome:
    """A result, and a gradient, in the dtype of what it came from."""
    case = subject.cases[0]
    if not floats_of(case):
        raise Skipped("no input is a float")
    seen = []
    for dtype in (dtypes.float64, dtypes.float32, dtypes.float16):
        try:
            with quiet():
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
            with quiet():
                op_checks.check_float32(one)
    gradients = "; gradients have the dtype of their inputs" if case.places else ""
    return on(case), f"{', '.join(seen)}{gradients}", ""


def strides(subject: Subject) -> Outcome:
    """The same numbers, wherever they lie in memory."""
    with trying(subject, "nothing may depend on the order in memory: no .ravel(order='K'), .view, .data") as tried:
        for case in tried(subject.cases):
            op_checks.check_layouts(case)
            op_checks.check_broadcast_views(case)
    return all_on(subject.cases), "the same values and gradients", ""


def empty_arrays(subject: Subject) -> Outcome:
    """Arrays without elements, which a last batch may be."""
    case = subject.cases[0]
    arrays = [i for i, x in enumerate(case.inputs) if isinstance(x, Tensor) and x.ndim]
    if not arrays:
        raise Skipped("no input has an axis")
    cases = []
    for cut in _cuts(max(case.inputs[i].ndim for i in arrays)):
        ones = [x[cut(slice(1), x.ndim)] if i in arrays else x for i, x in enumerate(case.inputs)]
        if _computes(case, ones):  # so it may be of any length
            inputs = [x[cut(slice(0), x.ndim)] if i in arrays else x for i, x in enumerate(case.inputs)]
            cases.append(subject.case(inputs))
    if not cases:
        raise Skipped("it asks for these lengths: with others it does not compute")
    advice = 'give an answer for nothing; if there is none, say so: skip={"empty arrays": "why"}'
    with trying(subject, advice) as tried:
        for case in tried(cases):
            leaves = case.leaves()
            with quiet():
                case(*leaves)
                found = case.gradients(leaves) if case.places else []
            for i, gradient in zip(case.places, found):
                if gradient is not None and gradient.shape != leaves[i].shape:
                    raise AssertionError(f"the gradient of {case.names[i]} has shape {gradient.shape}")
    return all_on(cases), "it computes" + (", and so do its gradients" if case.places else ""), ""


def _cuts(ndim: int) -> Iterator[Callable[[slice, int], tuple[slice, ...]]]:
    """Keys that cut all axes of an array, and one axis after the other: each takes a slice and a number of axes."""
    yield lambda part, ndim: (part,) * ndim
    for axis in range(ndim):
        yield lambda part, ndim, axis=axis: tuple(part if i == axis else slice(None) for i in range(ndim))  # type: ignore[misc]


def _computes(case: Case, inputs: Sequence[Any]) -> bool:
    try:
        with quiet(), no_grad():
            case(*inputs)
    except Exception:
        return False
    return True


# ---- gradients


def first_order(subject: Subject) -> Outcome:
    """The gradient of every input against differences."""
    needs_gradients(subject)
    with trying(subject) as tried:
        for case in tried(subject.cases):
            op_checks.check_first_order(case)
    return all_on(subject.cases), "what differences give" + _without_rules(subject), ""


def second_order(subject: Subject) -> Outcome:
    """The gradient of the gradient against differences."""
    needs_gradients(subject)
    advice = "let the rule use operators and xp only, on x itself: no .detach(), .item(), .numpy(), no other library"
    with trying(subject, advice) as tried:
        for case in tried(subject.cases):
            op_checks.check_second_order(case)
            op_checks.check_create_graph(case)
    return all_on(subject.cases), "what differences give", ""


def purity(subject: Subject) -> Outcome:
    """Nothing that the op is given changes, and the same input gives the same result."""
    with trying(subject, "make a new array: no out=, no x += 1, no x[...] = 1 on what was given") as tried:
        for case in tried(subject.cases):
            try:
                op_checks.check_unchanged(case)
            except AssertionError as error:
                if error.__cause__ is None:  # else it does not compute, which is for another line to tell
                    raise
    with trying(subject, "keep no state between calls; what is random belongs to the caller") as tried:
        for case in tried(subject.cases):
            with quiet(), no_grad():
                once, again = case(*case.leaves()), case(*case.leaves())
            if any(op_checks.as_bytes(a) != op_checks.as_bytes(b) for a, b in zip(once, again)):
                raise AssertionError("two calls with the same input give different results")
    return all_on(subject.cases), "inputs and incoming gradient stay as they were; two calls agree", ""


def large_inputs(subject: Subject) -> Outcome:
    """Values and gradients of large numbers are finite where, computed with more digits, they are."""
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
    """Where the result or a gradient is not finite though it is in the wider dtype: what, and what is right."""

    def at(dtype: Any) -> list[tuple[str, np.ndarray]]:
        leaves: list[Any] = []
        for i, x in enumerate(case.inputs):
            if isinstance(x, Tensor) and x.dtype.kind == "f":
                values = np.full(x.shape, value) if i == place else x.numpy()
                x = wrap(np.array(values, dtype=dtype), None).requires_grad_(i in case.places)
            leaves.append(x)
        with quiet():
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
        with quiet():
            bad = np.isfinite(right.astype(dtype)) & ~np.isfinite(found)
        if bad.any():
            return f"{what}{found[bad][0]:g}, with more digits {float(right[bad][0]):.6g}"
    return ""


# ---- how it is written, and what it costs


def only_xp(subject: Subject) -> Outcome:
    """Forward and rules on arrays that are not NumPy's."""
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
    """How long it takes, and against its formula where it has a fast pair."""
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
    """The first inputs, with more numbers where they were not given."""
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
    with quiet():
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


# ---- what the lines share


def needs_gradients(subject: Subject) -> None:
    """Raises Skipped where nothing can be differentiated."""
    if any(case.places for case in subject.cases):
        return
    if not any(floats_of(case) for case in subject.cases):
        raise Skipped("nothing was differentiated: no input is a float")
    raise Skipped("nothing was differentiated: the op has no gradient rule")


def _without_rules(subject: Subject) -> str:
    """What is said of inputs that have no rule."""
    primitive = subject.primitive
    names = [name for name in primitive.inputs if primitive.pure and name not in primitive.rules]
    return f"; {_listed(names)} has no rule: a gradient through it is an error" if names else ""


def floats_of(case: Case) -> list[int]:
    """Places of the inputs that are arrays of floats."""
    return [i for i, x in enumerate(case.inputs) if isinstance(x, Tensor) and x.dtype.kind == "f"]


def on(case: Case, dtype: str = "") -> str:
    """The inputs in words, as "x (3, 4), y (4,)"; alike ones together, as "x and y (3, 4)"."""
    words: dict[str, list[str]] = {}
    for name, x in zip(case.names, case.inputs):
        kind = "" if not isinstance(x, Tensor) or x.dtype.kind == "f" else f" {x.dtype}"
        words.setdefault(f"{x.shape}{kind}" if isinstance(x, Tensor) else f"= {x!r}", []).append(name)
    return ", ".join(f"{_listed(names)} {what}" for what, names in words.items()) + (f" {dtype}" if dtype else "")


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def all_on(cases: Sequence[Case]) -> str:
    """The inputs of several cases; where each has one shape, their shapes."""
    shapes = [{x.shape if isinstance(x, Tensor) else None for x in case.inputs} for case in cases]
    if len(cases) > 1 and all(len(shape) == 1 and shape != {None} for shape in shapes):
        return f"{on(cases[0])}, {', '.join(str(shape.pop()) for shape in shapes[1:])}"
    several = "" if len(cases) <= 3 else f"; and {len(cases) - 3} more"
    return "; ".join(on(case) for case in cases[:3]) + several


@contextmanager
def trying(subject: Subject, advice: str = "", where: str = "") -> Iterator[Callable[[Iterable[Case]], Iterator[Case]]]:
    """Within it, an error is what came out: a `Failed` that names the input that was being tried, and what to do."""
    current: list[Case] = []

    def tried(cases: Iterable[Case]) -> Iterator[Case]:
        for case in cases:
            current[:] = [case]
            yield case

    try:
        yield tried
    except Failed as failed:
        met, found, own = failed.args
        raise Failed(met, found, own or advice) from None
    except Skipped:
        raise
    except Exception as error:
        entry = _entry_of(error)
        rule = _rule_of(subject, entry.input if entry is not None and not entry.result.startswith("(") else "")
        found = str(entry) if entry is not None else first_line(error).removeprefix("second order: ")
        raise Failed(
            where or (on(current[0]) if current else ""),
            found + line_in(subject.path, error),
            "; ".join(part for part in (f"correct {rule}" if rule else "", advice) if part),
        ) from error


def _entry_of(error: BaseException) -> Any:
    """The wrong entry of a Jacobian, where that is what went wrong."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, GradientError):
            return cause.entry
        cause = cause.__cause__
    return None


def _rule_of(subject: Subject, name: str) -> str:
    """Where the rule for an input stands, and what it says."""
    if not name:
        return ""
    name = name.partition("[")[0]
    if name not in subject.primitive.rules:
        return "the fast backward half" if has_pair(subject.primitive) else ""
    rule = inspect.unwrap(subject.primitive.rules[name][0])
    text = rule_text(rule).formula
    place = f"{os.path.basename(rule.__code__.co_filename)}, line {rule.__code__.co_firstlineno}"
    return f"the rule for {name} ({place}){f': {text}' if text else ''}"


def line_in(path: str, error: BaseException) -> str:
    """The line of the op's own file in which something was raised."""
    found = ""
    cause: BaseException | None = error
    while cause is not None:
        for frame in traceback.extract_tb(cause.__traceback__):
            if frame.filename == path:
                found = f" ({os.path.basename(path)}, line {frame.lineno}: {(frame.line or '').strip()})"
        cause = cause.__cause__
    return found
