"""PyTorch's own samples of its operators and modules, as installed, through those of tinytensor with the same names.

    python benchmarks/samples.py                              # counts: right, wrong, refused; and why, by operator
    python benchmarks/samples.py --only cross_entropy,LSTM    # some operators and modules
    python benchmarks/samples.py --dtype complex128           # float64 by default; float32 too

It calls each sample with PyTorch's order of arguments, as a method if a Tensor has one of that name, or as a function;
`dim`, `keepdim` and similar ones have their names in docs/names.md. Right means: the same numbers, shapes, gradients of
everything that requires one, and second derivatives if PyTorch has them. Decisions against PyTorch, which are in
docs/silent-differences.md and docs/promises.md, are counted separately, with the reason.

The samples are in `torch.testing`, which needs `pip install expecttest`.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from command_line import Parser, refuse, require_torch

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F
from tinytensor.tensors import hints

PLACES = {"nn.functional.": F, "linalg.": tt.linalg, "special.": tt.special, "fft.": tt.fft}

NOT_PASSED: dict[str, Any] = {
    "device": None, "layout": None, "memory_format": None, "out_int32": False, "pin_memory": None,
    "requires_grad": False, "right": False, "sorted": True, "hermitian": False,
    "UPLO": "L", "is_coalesced": None,
}  # fmt: skip
"""Arguments of PyTorch to leave out if they have these values; None: with any value."""

ADAPTED: dict[str, Callable[..., Any]] = {
    "einsum": lambda tensors, equation: tt.einsum(equation, *tensors),
    "meshgrid": lambda first, *rest, **kwargs: tt.meshgrid(*_listed(first), *rest, **kwargs),
    "nn.functional.embedding": lambda weight, ids, **kwargs: F.embedding(ids, weight, **kwargs),
    "special.polygamma": lambda x, n: tt.special.polygamma(n, x),
    "where": lambda x, condition, other: tt.where(condition, x, other),
}
"""Operators whose samples order their arguments differently from the operator itself."""

RANDOM = {"dropout", "dropout1d", "dropout2d", "empty", "empty_like", "rand_like", "randn_like"}
"""Operators with unpredictable numbers: only shapes are compared, as for those with a `dropout_p`."""

RENAMED = {
    "bucketize", "gather", "msort", "repeat_interleave", "resolve_conj", "take_along_dim", "unflatten", "unique",
}  # fmt: skip
"""Operators for which an error names another function that is not quite the same."""

DECIDED = [
    ("std|var", "other", "divides by n, unless `correction` says otherwise"),
    ("max|min|sort|median|nanmedian", "1 results", "gives values alone over an axis"),
    (
        "split|repeat",
        "shape|results|positional|by position|count|divide",
        "takes the number of parts, or repeats each element, as NumPy does",
    ),
    ("equal", "another shape", "compares element by element"),
    ("nonzero", "results|as_tuple", "gives a vector for each dimension"),
    (
        "scatter|scatter_add|take",
        "positional|may be left out",
        "takes a key, or an axis: tt.put_along_axis, tt.take_along_axis",
    ),
    ("T", "expected 2 dimensions", "is for matrices"),
    (".*", "it has none|at least 1 dimension", "a number has no axis"),
    ("squeeze", "has length", "an axis of another length than 1 is no mistake to be passed over"),
    (".*", "got requires_grad=|cannot be changed in place", "a leaf is made by requires_grad_()"),
    ("linalg.svd|linalg.qr", "fill the space", "what fills the space has no gradient"),
    ("linalg.svd|linalg.eig", "other numbers", "the phase of the vectors is free"),
    ("max|min", "of two Tensors it is", "of two Tensors it is another function"),
    ("linalg.eigh|linalg.eigvalsh", "UPLO", "reads the lower triangle"),
    ("linalg.pinv|linalg.matrix_rank", "hermitian", "is the same for Hermitian matrices"),
    ("LSTM", "proj_size", "projections are left out"),
    (
        "BatchNorm.*|nn.functional.batch_norm",
        "more than one number|expected \\(batch",
        "takes the statistics of a batch",
    ),
    ("CrossEntropyLoss", "other numbers", "the mean over nothing but ignored targets is 0, not NaN"),
    (
        "Transformer.*",
        "expected a Module|must be Tensor, not Tensor",
        "a layer or function of PyTorch's is handed over",
    ),
    ("cat", "out of range", "joins arrays of one number of dimensions"),
    ("linalg.pinv", "a tolerance is a number|positional", "a tolerance is one for each matrix, and has its name"),
    ("max|min", "is out of range", "of two Tensors it is another function"),
    ("to", "name it", "non_blocking and copy have their names"),
    ("std|var", r"got None|write x\.", "divides by n, unless `correction` says otherwise"),
    ("linalg.eig|linalg.svd", "specified up to multiplication", "PyTorch's own error"),
    ("linalg.cholesky", "another gradient", "what makes a matrix no longer Hermitian has no part in it"),
    ("std|var|sigmoid|nn.functional.silu", "expected real numbers", "is for real numbers"),
    ("logaddexp|logcumsumexp", "not supported for the input types", "is for real numbers"),
    (".*", "drop the imaginary part", "no imaginary part is dropped"),
    ("searchsorted", "got out_int32=", "places are of 64 bits"),
    ("searchsorted", "expected a sorted vector", "searches one vector"),
    ("linalg.solve", "another shape|mismatch", "a right side of one dimension alone is a vector"),
]
"""Decisions against PyTorch (docs/silent-differences.md, names.md, promises.md, left-out.md): patterns for operators
and for the reason of an outcome, and the decision."""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def find(name: str) -> list[Callable[..., Any]]:
    """The operators here with this name of PyTorch's, or else with the name that an error gives for it."""
    if name in ADAPTED:
        return [ADAPTED[name]]
    for prefix, place in PLACES.items():
        if name.startswith(prefix):
            there = getattr(place, name.removeprefix(prefix), None)
            return [there] if callable(there) else []
    there = [f for place in (tt.Tensor, tt) for f in [getattr(place, name, None)] if inspect.isroutine(f)]
    if not there and name not in RENAMED and (called := hints.table("tinytensor").get(name, ("", ""))[0]):
        there = [f for f in [getattr(tt, called, None)] if inspect.isroutine(f)]
    return there


def ours(value: Any, leaves: list[tuple[Any, Any]]) -> Any:
    """An argument of PyTorch's as one of ours; adds Tensors that require a gradient to the leaves."""
    import torch

    if isinstance(value, torch.Tensor):
        if (known := next((b for a, b in leaves if a is value), None)) is not None:
            return known
        array = np.array(value.detach().resolve_conj().resolve_neg().numpy())
        tensor = tt.asarray(array)
        if value.requires_grad:
            tensor.requires_grad_()
            leaves.append((value, tensor))
        return tensor
    if isinstance(value, torch.dtype):
        return getattr(tt, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return value.type
    if isinstance(value, (list, tuple)):
        return tuple(ours(v, leaves) for v in value) if isinstance(value, tuple) else [ours(v, leaves) for v in value]
    return value


def renamed(function: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments under the function's own names, without those in `NOT_PASSED`."""
    taken = inspect.signature(function).parameters
    names = {k: next((n for n in hints.KEYWORDS.get(k, ()) if n in taken), k) for k in kwargs if k not in taken}
    silent = {k for k in names if k in NOT_PASSED and NOT_PASSED[k] in (None, kwargs[k])}
    words = {"unbiased": int, "right": lambda right: "right" if right else "left"}  # values have other names here
    return {names.get(k, k): words.get(k, lambda v: v)(v) for k, v in kwargs.items() if k not in silent}


def flat(value: Any) -> list[Any]:
    """The results of an operator, one after the other."""
    return [r for part in value for r in flat(part)] if isinstance(value, (tuple, list)) else [value]


def array_of(value: Any) -> np.ndarray:
    """A Tensor of either library as an array."""
    if hasattr(value, "resolve_conj"):
        return value.detach().resolve_conj().resolve_neg().numpy(force=True)
    return np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)


def weights(result: np.ndarray) -> np.ndarray:
    """The weights for the sum of a result's elements; the gradient of that sum is compared."""
    return np.sin(1.0 + np.arange(result.size)).reshape(result.shape).astype(result.real.dtype)


def difference(theirs: Any, mine: Any, tolerance: float, shapes_only: bool) -> str | None:
    """The difference of two results in words, or None."""
    first, second = flat(theirs), flat(mine)
    if len(first) != len(second):
        return f"{len(second)} results, not {len(first)}"
    for a, b in zip(map(array_of, first), map(array_of, second)):
        if a.shape != b.shape:
            return "another shape"
        if (a.dtype.kind == "c") != (b.dtype.kind == "c") or (a.dtype.kind in "fc") != (b.dtype.kind in "fc"):
            return f"{b.dtype.name}, not {a.dtype.name}"
        near = max(tolerance, 1e-4 if b.dtype in (np.float32, np.complex64) else 0.0)  # of integers
        if not shapes_only and not np.allclose(a, b, rtol=near, atol=near, equal_nan=True):
            return "other numbers"
    return None


def weighed(results: Any, one_number: Any) -> Any:
    """The weighted sum of the results of an operator; 0.0 if none depends on a leaf."""
    total = 0.0
    for result in flat(results):
        if getattr(result, "requires_grad", False):
            total = total + one_number(result, weights(array_of(result)))
    return total


def theirs_weighed(result: Any, weight: np.ndarray) -> Any:
    import torch

    total = (result * torch.from_numpy(weight)).sum()
    return total.real + total.imag if total.is_complex() else total


def ours_weighed(result: Any, weight: np.ndarray) -> Any:
    total = tt.sum(result * tt.asarray(weight))
    return tt.real(total) + tt.imag(total) if total.dtype.kind == "c" else total


def other_gradient(
    theirs: Any, mine: Any, leaves: list[tuple[Any, Any]], tolerance: float, orders: int = 2
) -> str | None:
    """The difference of the leaves' gradients, or of the gradients of their squares, in words; or None."""
    import torch

    a, b = weighed(theirs, theirs_weighed), weighed(mine, ours_weighed)
    if isinstance(a, float):
        return None
    first, second = [x for x, _ in leaves], [y for _, y in leaves]
    higher = {"allow_unused": True, "create_graph": orders > 1}
    try:
        wanted = torch.autograd.grad(a, first, **higher)
    except RuntimeError:  # some of PyTorch's operators have no second derivative
        if orders == 1:
            return None
        raise
    found = [None] * len(second) if isinstance(b, float) else tt.grad(b, second, **higher)
    for x, y in zip(wanted, found):
        x, y = (0.0 if g is None else array_of(g) for g in (x, y))
        near = 10 * tolerance * max(1.0, np.max(np.abs(x), initial=0.0))
        if not np.allclose(x, y, rtol=10 * tolerance, atol=near, equal_nan=True):
            return "another gradient" if orders > 1 else "another second derivative"
    if orders == 1:
        return None
    squares = [[g * g.conj() for g in gradients if g is not None] for gradients in (wanted, found)]
    return other_gradient(*squares, leaves, 100 * tolerance, orders=1)


def outcomes(
    info: Any, functions: list[Callable[..., Any]], dtype: Any, tolerance: float, most: int
) -> Iterator[tuple[str, str]]:
    """For each sample of an operator, or for at most `most` of them: right, wrong or refused, and why."""
    import torch

    torch.manual_seed(0)
    wants = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    samples = list(info.sample_inputs("cpu", dtype, requires_grad=wants))
    for sample in samples[:: -(-len(samples) // most)] if most else samples:
        try:
            theirs = info.op(sample.input, *sample.args, **sample.kwargs)
        except Exception:
            continue
        outcome = ("refused", "")
        for function in functions:
            leaves: list[tuple[Any, Any]] = []
            first, *rest = (ours(v, leaves) for v in (sample.input, *sample.args))
            kwargs = ours_by_name(sample.kwargs, leaves)
            try:
                mine = function(first, *rest, **renamed(function, kwargs))
            except Exception as error:
                outcome = outcome if outcome[1] else ("refused", _first_line(error))
                continue
            random = info.name.rpartition(".")[2] in RANDOM or sample.kwargs.get("dropout_p", 0) > 0
            try:
                why = difference(theirs, mine, tolerance, random)
                if why is None and leaves and not random:
                    why = other_gradient(theirs, mine, leaves, tolerance)
                outcome = ("right" if why is None else "wrong", why or "")
            except Exception as error:
                outcome = ("refused", _first_line(error))
            break
        yield outcome


def outcomes_of_module(info: Any, dtype: Any, tolerance: float) -> Iterator[tuple[str, str]]:
    """For each sample of a module: right, wrong or refused, and why; `load_state_dict` copies the weights."""
    import torch

    kind = getattr(nn, info.module_cls.__name__)
    for training in (True, False):
        torch.manual_seed(0)
        for sample in info.module_inputs_func(info, "cpu", dtype, True, training):
            made, given = sample.constructor_input, sample.forward_input
            theirs = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
            leaves: list[tuple[Any, Any]] = []
            try:
                arguments, options = ours(made.args, []), ours_by_name(made.kwargs, [])
                mine = kind(*arguments, **renamed(kind, options)).to(ours(dtype, [])).train(training)
                mine.load_state_dict({name: array_of(value) for name, value in theirs.state_dict().items()})
                expected = theirs(*given.args, **given.kwargs)
                found = mine(*ours(given.args, leaves), **ours_by_name(given.kwargs, leaves))
                leaves += zip(theirs.parameters(), mine.parameters())
                random = any(getattr(part, "p", 0) for part in theirs.modules()) or getattr(theirs, "dropout", 0)
                why = difference(expected, found, tolerance, bool(training and random))
                if why is None and not random:
                    why = other_gradient(expected, found, leaves, tolerance)
                yield ("right" if why is None else "wrong", why or "")
            except Exception as error:
                yield "refused", _first_line(error)


def ours_by_name(values: dict[str, Any], leaves: list[tuple[Any, Any]]) -> dict[str, Any]:
    return {name: ours(value, leaves) for name, value in values.items()}


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def decision(name: str, why: str) -> str | None:
    """The decision that explains an outcome, or None."""
    return next((d for names, said, d in DECIDED if re.fullmatch(names, name) and re.search(said, why)), None)


class Tally:
    """Counts the outcomes of the samples of operators, or of modules."""

    def __init__(self, what: str) -> None:
        self.what, self.counts = what, Counter[str]()
        self.reasons: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.names: Counter[str] = Counter()

    def add(self, name: str, found: Iterator[tuple[str, str]]) -> None:
        self.names["here"] += 1
        for outcome, why in found:
            if outcome != "right" and (decided := decision(name, why)):
                outcome, why = "decided otherwise", decided
            self.counts[outcome] += 1
            if outcome != "right":
                self.reasons[outcome, name][re.sub(r"\d[\d., e+-]*", "#", why)[:150]] += 1

    def tell_reasons(self) -> None:
        for (outcome, name), found in sorted(self.reasons.items()):
            for why, number in found.most_common():
                print(f"{outcome:18} {number:4} {name:36} {why}")

    def tell_counts(self) -> None:
        names, counts = (", ".join(f"{n} {what}" for what, n in c.most_common()) for c in (self.names, self.counts))
        print(f"{self.what}: {names}; {sum(self.counts.values())} samples: {counts}")


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--only", type=lambda text: set(text.split(",")), help="operators, by PyTorch's names")
    parser.add_argument("--dtype", choices=["float32", "float64", "complex128"], default="float64")
    parser.add_argument("--most", type=int, default=40, help="of an operator's samples (default: 40, 0: all of them)")
    parser.add_argument("--quiet", action="store_true", help="the counts alone")
    arguments = parser.parse_args()
    require_torch()
    if importlib.util.find_spec("expecttest") is None:
        refuse("torch.testing needs expecttest; pip install expecttest")
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    warnings.simplefilter("ignore")
    dtype, only = getattr(torch, arguments.dtype), arguments.only
    tolerance = 1e-4 if dtype == torch.float32 else 1e-9
    operators, modules = Tally("operators"), Tally("modules")
    with np.errstate(all="ignore"):
        for info in op_db:
            functions = find(info.name)
            if only and not only & {info.name, info.name.rpartition(".")[2]}:
                continue
            if not functions or not info.supports_dtype(dtype, "cpu"):
                operators.names["not here" if not functions else "not for this dtype"] += 1
            else:
                operators.add(info.name, outcomes(info, functions, dtype, tolerance, arguments.most))
        for info in module_db if dtype.is_floating_point else ():
            name = info.module_cls.__name__
            if only and name not in only:
                continue
            if hasattr(nn, name):
                modules.add(name, outcomes_of_module(info, dtype, tolerance))
            else:
                modules.names["not here"] += 1
    for tally in (operators, modules) if not arguments.quiet else ():
        tally.tell_reasons()
    for tally in (operators, modules):
        tally.tell_counts()


if __name__ == "__main__":
    main()
