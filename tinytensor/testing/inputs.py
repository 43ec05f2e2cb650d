"""The inputs that a report tries an op on: those it is given, or a guess from the op's declaration."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..grad_mode import no_grad
from ..primitive import Primitive
from ..tensor import Tensor, wrap
from .op_checks import Case, to_float64

SHAPES = [(3, 4), (3, 3), (4,), ()]
"""A report takes the first shape that an op computes with: square matrices if it refuses others."""

SPANS = [(-2.0, 2.0), (0.3, 3.0), (-0.9, 0.9), (0.1, 0.9), (1.1, 3.0)]
"""A report takes the first span whose results are finite: for `log` the second, for `atanh` the third."""

Domain = Any
"""(low, high) for floats, a range for integers, bool for masks; or these by the names of inputs."""


class NothingComputes(Exception):
    """No inputs were found on which an op computes."""


class Subject:
    """An op and the inputs that it is tried on.

    Attributes:
        call, primitive, params: the op, its record, and its keyword arguments.
        cases: the inputs, in float64.
        given: True if they were given.
        domain: by the name of an input, the numbers that it may have.
        assumed: the assumptions about the inputs, in words; "" if there are none.
        reference: the same function of NumPy arrays, if there is one.
        no_gradient: True if a rule raised, so that nothing can be said about gradients.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        samples: Sequence[Any] | None,
        domain: Domain,
        params: Mapping[str, Any],
        reference: Callable[..., Any] | None = None,
    ) -> None:
        self.call, self.params, self.reference = call, dict(params), reference
        self.primitive: Primitive = call.op  # type: ignore[attr-defined]
        self.domain = _domains(self.primitive, domain)
        self.given = samples is not None
        self.assumed = ""
        self.no_gradient = False
        self.cases: list[Case] = []
        self._spans: list[Any] = []
        self._seed = itertools.count()
        _check_params(self.primitive, self.params)
        if samples is not None:
            self.cases = [self.case(sample) for sample in _as_inputs(self.primitive, samples)]

    @property
    def path(self) -> str:
        """The file that the op is declared in."""
        return inspect.unwrap(self.primitive.function).__code__.co_filename

    def case(self, inputs: Sequence[Any]) -> Case:
        """One set of inputs, and which of them are differentiated: floats that have a rule, or go into a formula."""
        rules, names = self.primitive.rules, self.primitive.inputs
        tensors = [to_float64(x, "cpu") for x in inputs]
        places = [
            i
            for i, x in enumerate(tensors)
            if isinstance(x, Tensor)
            and x.dtype.kind == "f"
            and (not self.primitive.pure or names[0 if self.primitive.variadic else i] in rules)
        ]
        return Case(self.call, tensors, places, self.params)

    def choose(self) -> None:
        """Find inputs if none were given. Raises NothingComputes with the op's own error."""
        if self.cases:
            self._compute(self.cases[0].inputs)
            return
        refusal: Exception | None = None
        for shape in SHAPES:
            computing = []
            for kinds in self._kinds():
                try:
                    computing.append((kinds, *self._find_spans(kinds, shape)))
                except Exception as error:
                    refusal = refusal or error
            if computing:
                finite = [found for found in computing if found[-1]]
                kinds, self._spans, _ = (finite or computing)[0]
                self.cases = [self.case(self.draw(shape))]
                one_axis = sum(map(len, axes_of_work(self.cases[0]))) == 1  # which an array without axes has not
                more = [(5,), (2, 1, 3)] if one_axis else [(5,), (), (2, 1, 3)]
                self.cases += [self.case(self.draw(s)) for s in more if shape == SHAPES[0] and self._computes(s)]
                self.assumed = self._assumptions()
                return
        assert refusal is not None
        raise NothingComputes(
            f"it computes with no inputs that could be guessed; with {self._words(SHAPES[0])}: {first_line(refusal)}"
        ) from refusal

    def takes(self, place: int, *numbers: float) -> bool:
        """True if an input may hold these numbers, as far as its domain, or the one that was found, says."""
        span = self._spans[place] if self._spans else (-math.inf, math.inf)
        return all(span[0] < number < span[1] for number in numbers)

    def draw(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Inputs of a shape; no two of their floats are equal."""
        return [self._numbers(i, span, shape) for i, span in enumerate(self._spans)]

    def _words(self, shape: tuple[int, ...]) -> str:
        names = (
            [f"{self.primitive.inputs[0]}[{i}]" for i in (0, 1)] if self.primitive.variadic else self.primitive.inputs
        )
        return ", ".join(f"{name} {shape}" for name in names)

    def _kinds(self) -> list[list[Any]]:
        """The kinds to try, each a list with floats, integers or masks for each input."""
        primitive = self.primitive
        names = primitive.inputs * 2 if primitive.variadic else primitive.inputs
        undecided = [float] if not primitive.pure else [float, range(5), bool]
        if primitive.rules and not primitive.variadic:
            undecided = [bool, range(3), float]  # beside inputs with rules: a mask, indices
        options = []
        for kind in undecided:
            options.append([self.domain.get(n, float if n in primitive.rules else kind) for n in names])
        return options if any(n not in self.domain for n in names) else options[:1]

    def _find_spans(self, kinds: list[Any], shape: tuple[int, ...]) -> tuple[list[Any], bool]:
        """The kinds with a span of floats for which all results are finite, and True if there is one.

        Raises the op's first error if it computes with none of the spans.
        """
        computing, refusal = None, None
        for span in SPANS:
            self._spans = [span if kind is float else kind for kind in kinds]
            try:
                outs = self._compute(self.draw(shape))
            except Exception as error:
                refusal = refusal or error
                continue
            if all(np.isfinite(out.numpy()).all() for out in outs):
                return self._spans, True
            computing = computing or self._spans
        if computing is None:
            assert refusal is not None
            raise refusal
        return computing, False

    def _numbers(self, place: int, span: Any, shape: tuple[int, ...]) -> np.ndarray:
        rng = np.random.default_rng([place, *shape])
        count = math.prod(shape)
        if span is bool:
            return np.array(rng.uniform(size=shape) > 0.5)
        if isinstance(span, range):
            return np.array(rng.choice(np.array(span), size=shape))
        low, high = _finite(*span)
        fraction = (place + 0.61) / (len(self._spans) + 0.3)  # one for each input, so that no numbers are equal
        return np.array((low + (high - low) * (rng.permutation(count) + fraction) / max(count, 1)).reshape(shape))

    def _compute(self, inputs: Sequence[Any]) -> list[Tensor]:
        with no_grad():
            return self.case(inputs)(*[to_float64(x) for x in inputs])

    def _computes(self, shape: tuple[int, ...]) -> bool:
        try:
            self._compute(self.draw(shape))
        except Exception:
            return False
        return True

    def _assumptions(self) -> str:
        notes = []
        for name, span in zip(self.primitive.inputs, self._spans):
            if name in self.domain:
                continue
            if span is bool or isinstance(span, range):
                what = "True and False" if span is bool else f"integers from {span.start} to {span.stop - 1}"
                notes.append(f"{name} is {what}")
            elif span != SPANS[0]:
                notes.append(f"{name} is from {span[0]} to {span[1]}, since with -2 to 2 not every result is a number")
        return "; ".join(notes)


def axes_of_work(case: Case) -> tuple[set[int], set[int]]:
    """The axes along which a number of the result depends on several of the first array's, and those that are gone.

    Of softmax's axes the first set has one; of a sum along an axis the second has one.
    """
    place = next((i for i, x in enumerate(case.inputs) if isinstance(x, Tensor) and x.ndim), None)
    if place is None:
        return set(), set()
    x = case.inputs[place].numpy()

    def result(values: np.ndarray) -> np.ndarray:
        inputs = [wrap(values.copy(), None) if i == place else each for i, each in enumerate(case.leaves())]
        with no_grad(), np.errstate(all="ignore"):
            return case(*inputs)[0].numpy()

    out = result(x)
    kept = [n if n in out.shape else 1 for n in x.shape]
    if math.prod(kept) != out.size:
        return set(), set()
    shared = set()
    for axis, j in ((axis, j) for axis, n in enumerate(kept) for j in range(n) if n > 1):
        other = x.copy()
        rows, near = other.swapaxes(0, axis), x.swapaxes(0, axis)[j - 1]
        rows[j] = near if x.dtype.kind in "biu" else rows[j] + (near - rows[j]) / 4  # within the domain, and regular
        apart = ~np.isclose(result(other), out, rtol=1e-9, atol=1e-12, equal_nan=True).reshape(kept)
        if np.delete(apart, j, axis).any():
            shared.add(axis)
    return shared, {axis for axis, n in enumerate(kept) if n < x.shape[axis]}


def _finite(low: float, high: float) -> tuple[float, float]:
    """A span of at most 4 within a domain, away from its ends."""
    if math.isinf(low) and math.isinf(high):
        return SPANS[0]
    low, high = (high - 4 if math.isinf(low) else low), (low + 4 if math.isinf(high) else high)
    middle, half = (low + high) / 2, min((high - low) / 2, 2.0) * 0.95
    return middle - half, middle + half


def _domains(primitive: Primitive, domain: Domain) -> dict[str, Any]:
    """The domain of each input, by its name; one pair for all goes to each input that may be a float."""
    if domain is None:
        return {}
    rules = primitive.rules
    by_name = (
        dict(domain)
        if isinstance(domain, Mapping)
        else dict.fromkeys([n for n in primitive.inputs if n in rules or not rules], domain)
    )
    for name, span in by_name.items():
        if name not in primitive.inputs:
            raise ValueError(f"report: domain of {name!r}, which is no input; inputs: {', '.join(primitive.inputs)}")
        if not _is_domain(span):
            raise ValueError(
                f"report: the domain of {name} is {span!r}; expected (low, high) with low < high, a range, or bool"
            )
    return by_name


def _is_domain(span: Any) -> bool:
    if isinstance(span, range):
        return len(span) > 0
    return span is bool or (isinstance(span, (tuple, list)) and len(span) == 2 and span[0] < span[1])


def _check_params(primitive: Primitive, params: Mapping[str, Any]) -> None:
    unknown = [name for name in params if name not in primitive.params]
    if unknown:
        expected = f"its parameters: {', '.join(primitive.params)}" if primitive.params else "it has no parameters"
        raise TypeError(f"report: {primitive.name} has no parameter {unknown[0]!r}; {expected}")
    missing = [name for name in primitive.params if name not in params and name not in primitive.defaults]
    if missing:
        raise TypeError(f"report: {primitive.name} needs {missing[0]}=, which has no default; say what to try it with")


def _as_inputs(primitive: Primitive, samples: Sequence[Any]) -> list[list[Any]]:
    found = []
    for sample in samples:
        inputs = list(sample) if isinstance(sample, (tuple, list)) else [sample]
        if not primitive.variadic and len(inputs) != len(primitive.inputs):
            raise ValueError(
                f"report: a sample has {len(inputs)} inputs; expected a tuple of {len(primitive.inputs)}: "
                f"({', '.join(primitive.inputs)})"
            )
        found.append([np.asarray(x) if isinstance(x, list) else x for x in inputs])
    if not found:
        raise ValueError("report: samples is empty; leave it out, or give one sample at least")
    return found


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
