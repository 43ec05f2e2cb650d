"""Sample inputs for every op: what `test_ops.py` is generated from.

`SAMPLES` maps an op's name in `tt.ops` to its samples. A package above adds its own with `register`.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.special

import tinytensor as tt


@dataclass
class Sample:
    """One call of a function: `function(*inputs, **params)`, and the same in NumPy.

    Attributes:
        differentiable: places of the inputs that have gradients; None: all floating arrays.
        second_order: whether second derivatives exist.
        repeats: whether the function is smooth as well where all rows of its inputs are equal.
        slow: whether a check of it takes seconds.
    """

    function: Callable[..., Any]
    inputs: Sequence[Any]
    reference: Callable[..., Any]
    params: dict[str, Any] = field(default_factory=dict)
    differentiable: Sequence[int] | None = None
    second_order: bool = True
    repeats: bool = True
    slow: bool = False


SAMPLES: dict[str, list[Sample]] = {}


def register(name: str, *samples: Sample) -> None:
    """Add samples for an op."""
    SAMPLES.setdefault(name, []).extend(samples)


def alike(name: str, *inputs: Any, **params: Any) -> None:
    """Add a sample of a function that has the same name and arguments in NumPy."""
    register(name, Sample(getattr(tt, name), inputs, getattr(np, name), params))


_rng = np.random.default_rng(0)


def draw(shape: Any, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Float64 numbers, evenly spread between two bounds."""
    return np.array(_rng.uniform(low, high, shape))


def apart(shape: Any, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Numbers of which no two are close, so that no finite difference crosses a tie; none is close to 0."""
    count = int(np.prod(shape))
    return np.array(_rng.permutation(np.linspace(low, high, 2 * count + 2)[1::2][:count] + 0.01).reshape(shape))


def integers(shape: Any, low: int = -4, high: int = 5) -> np.ndarray:
    return np.array(_rng.integers(low, high, shape))


def mask(shape: Any) -> np.ndarray:
    return np.array(_rng.uniform(size=shape) > 0.5)


# ---- element by element

SHAPES = [(3, 4), (), (0,), (2, 0, 3)]
PAIRS = [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((2, 3), ()), ((0,), (1,)), ((2, 1), (0,))]

UNARY: dict[str, tuple[Any, float, float]] = {
    "abs": (np.abs, 0.1, 2),
    "acos": (np.acos, -0.9, 0.9),
    "acosh": (np.acosh, 1.1, 3),
    "asin": (np.asin, -0.9, 0.9),
    "asinh": (np.asinh, -3, 3),
    "atan": (np.atan, -3, 3),
    "atanh": (np.atanh, -0.9, 0.9),
    "ceil": (np.ceil, 0.1, 0.9),
    "conj": (np.conj, -2, 2),
    "cos": (np.cos, -3, 3),
    "cosh": (np.cosh, -2, 2),
    "erf": (scipy.special.erf, -2, 2),
    "exp": (np.exp, -2, 2),
    "exp2": (np.exp2, -2, 2),
    "expm1": (np.expm1, -2, 2),
    "floor": (np.floor, 1.1, 1.9),
    "isfinite": (np.isfinite, -2, 2),
    "isinf": (np.isinf, -2, 2),
    "isnan": (np.isnan, -2, 2),
    "log": (np.log, 0.3, 3),
    "log10": (np.log10, 0.3, 3),
    "log1p": (np.log1p, -0.5, 3),
    "log2": (np.log2, 0.3, 3),
    "negative": (np.negative, -2, 2),
    "positive": (np.positive, -2, 2),
    "real": (np.real, -2, 2),
    "reciprocal": (np.reciprocal, 0.3, 3),
    "round": (np.round, -0.4, 0.4),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.3, 3),
    "sigmoid": (scipy.special.expit, -3, 3),
    "sign": (np.sign, 0.1, 2),
    "signbit": (np.signbit, -2, 2),
    "sin": (np.sin, -3, 3),
    "sinc": (np.sinc, -2, 2),
    "sinh": (np.sinh, -2, 2),
    "softplus": (lambda x: np.logaddexp(x, 0), -3, 3),
    "sqrt": (np.sqrt, 0.3, 3),
    "square": (np.square, -2, 2),
    "tan": (np.tan, -1.2, 1.2),
    "tanh": (np.tanh, -2, 2),
    "trunc": (np.trunc, 0.1, 0.9),
}
for _name, (_reference, _low, _high) in UNARY.items():
    register(_name, *(Sample(getattr(tt, _name), [draw(s, _low, _high)], _reference) for s in SHAPES))
for _name in ("abs", "sign"):
    alike(_name, -draw((2, 3), 0.5, 2))
for _name in ("isfinite", "isinf", "isnan", "signbit"):
    _special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0])
    register(_name, Sample(getattr(tt, _name), [_special], getattr(np, _name), differentiable=()))
register("round", Sample(tt.round, [np.array([0.5, 1.5, -2.5, 2.4])], np.round, differentiable=()))
for _decimals in (1, -1):
    register(
        "round",
        Sample(tt.round, [np.array([0.13, 16.38, -24.7])], np.round, {"decimals": _decimals}, differentiable=()),
    )
for _name in ("ceil", "floor", "trunc", "round", "positive", "bitwise_invert"):
    alike(_name, integers((3,)))
for _name in ("logical_not", "bitwise_invert"):
    for _shape in SHAPES:
        alike(_name, mask(_shape))
for _name in ("imag", "real", "conj", "abs"):
    alike(_name, draw((3, 2)) + 1j * draw((3, 2)))
alike("imag", draw((0, 2)) + 0j)


# ---- special functions

SPECIAL = {"digamma": (0.3, 4), "erfc": (-2, 2), "erfinv": (-0.9, 0.9), "gammaln": (0.3, 4)}
for _name, (_low, _high) in SPECIAL.items():
    _functions = getattr(tt.special, _name), getattr(scipy.special, _name)
    register(_name, *(Sample(_functions[0], [draw(s, _low, _high)], _functions[1]) for s in SHAPES))
for _n in (1, 2):
    for _shape in SHAPES:
        _sample = Sample(
            lambda x, n=_n: tt.special.polygamma(n, x),
            [draw(_shape, 0.3, 4)],
            lambda x, n=_n: scipy.special.polygamma(n, x),
        )
        register("polygamma", _sample)
register("sinc", Sample(tt.sinc, [np.array([0.0, 1e-9, -1e-4, 0.0158, 0.016])], np.sinc))


def _between(low: float, high: float) -> Callable[[Any], np.ndarray]:
    return lambda shape: draw(shape, low, high)


BINARY: dict[str, tuple[Any, Any]] = {
    "add": (draw, draw),
    "atan2": (draw, _between(0.5, 2)),
    "copysign": (_between(0.3, 2), _between(-2, -0.3)),
    "divide": (draw, _between(0.5, 2)),
    "equal": (draw, draw),
    "fmax": (_between(-1, 1), _between(1.1, 2)),
    "fmin": (_between(-1, 1), _between(-2, -1.1)),
    "floor_divide": (_between(3.1, 3.9), _between(0.95, 0.99)),
    "greater": (draw, draw),
    "greater_equal": (draw, draw),
    "hypot": (_between(0.5, 2), _between(-2, -0.5)),
    "less": (draw, draw),
    "less_equal": (draw, draw),
    "logaddexp": (draw, draw),
    "maximum": (_between(-1, 1), _between(1.1, 2)),
    "minimum": (_between(-1, 1), _between(-2, -1.1)),
    "multiply": (draw, draw),
    "not_equal": (draw, draw),
    "pow": (_between(0.3, 2), draw),
    "remainder": (_between(3.1, 3.9), _between(0.95, 0.99)),
    "subtract": (draw, draw),
}
for _name, (_first, _second) in BINARY.items():
    for _a, _b in PAIRS:
        alike(_name, _first(_a), _second(_b))
    alike(_name, _first((2, 3)), 0.95)
    alike(_name, 1.7, _second((2, 3)))
for _name in ("maximum", "minimum", "fmax", "fmin"):
    _values = apart((4, 6))
    alike(_name, _values[:, :3].copy(), _values[:, 3:].copy())
for _name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    alike(_name, integers((5, 5)), integers((5,)))
for _a, _b in PAIRS:
    register("xlogy", Sample(tt.special.xlogy, [draw(_a), draw(_b, 0.3, 2)], scipy.special.xlogy))
    alike("isin", integers(_a), integers(_b))
alike("isin", np.array([1.0, np.nan, 3.0]), np.array([np.nan, 3.0]), invert=True)
for _exponent in (-2, 0, 1, 2, 3, 0.5):
    alike("pow", draw((3,), 0.5, 2), _exponent)
alike("pow", draw((3,), -2, -0.5), 3)
register("pow", Sample(tt.pow, [np.array([0.0, 0.0, 2.0]), np.array([1.0, 2.0, 1.5])], np.pow, differentiable=(1,)))
alike("remainder", draw((3,), -3.9, -3.1), -0.97)
alike("copysign", draw((3,), -2, -0.3), draw((3,), -2, -0.3))
alike("multiply", draw((2,)) + 1j * draw((2,)), draw((2,)) - 1j)
for _shapes in (((3,), (3,)), ((3, 1), (0,))):
    register("nextafter", Sample(tt.nextafter, [draw(s) for s in _shapes], np.nextafter, differentiable=()))
for _a, _b in PAIRS:
    for _name in ("logical_and", "logical_or", "logical_xor"):
        alike(_name, mask(_a), mask(_b))
    for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        alike(_name, integers(_a), integers(_b))
        alike(_name, mask(_a), mask(_b))
    for _name in ("bitwise_left_shift", "bitwise_right_shift"):
        alike(_name, integers(_a), integers(_b, 0))
    alike("where", mask(_a), draw(_a), draw(_b))
alike("where", mask((3, 4)), draw((4,)), 0.5)
alike("where", mask((3, 1)), 0.5, draw((4,)))

alike("clip", apart((3, 4)), -0.5, 1)
alike("clip", apart((5,)), None, 0.6)
alike("clip", apart((5,)), 0.3, None)
alike("clip", draw(()), None, None)
alike("clip", draw((0, 3)), draw((3,)), None)
alike("clip", apart((8,)), None, np.array(0.25))
alike("clip", apart((8,)), np.array(0.25), None)
alike("clip", apart((3, 4)), draw((4,), -0.5, -0.3), draw((3, 1), 0.3, 0.5))
alike("clip", apart((3, 4)), draw((4,), 0.3, 0.5), draw((3, 1), -0.5, -0.3))


def _filled(x, mask, value):
    return np.where(mask, value, x)


register(
    "masked_fill",
    Sample(tt.masked_fill, [draw((3, 4)), mask((4,)), 0.5], _filled),
    Sample(tt.masked_fill, [draw((3, 4)), mask((3, 4)), draw(())], _filled),
    Sample(tt.masked_fill, [draw((0,)), mask((0,)), 1.0], _filled),
    Sample(tt.masked_fill, [draw(()), np.array(True), 2.0], _filled),
    Sample(tt.masked_fill, [draw((3, 4)), mask((4,)), -np.inf], _filled, differentiable=()),
)
register("astype", *(Sample(lambda x: tt.astype(x, x.dtype), [draw(s)], np.copy) for s in SHAPES))
register("to_device", *(Sample(lambda x: x.to("cpu").to(x.device), [draw(s)], np.copy) for s in SHAPES))

# ---- over axes

OVER = [((3, 4), None, False), ((3, 4), 0, False), ((3, 4), -1, True), ((2, 3, 2), (0, -1), False)]
OVER += [((2, 3, 2), (1, 2), True), ((), None, False), ((17, 3), 0, False), ((0, 3), 1, False), ((2, 0), 0, True)]
OVER_NOTHING = [((0, 3), 0, False), ((2, 0), -1, True), ((0,), None, False)]


def _quiet_logsumexp(x, **params):
    """SciPy's, without its warnings where there is nothing to add up."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return scipy.special.logsumexp(x, **params)


def _over_axes(name, function, reference, make, cases, **differing):
    for shape, axis, keepdims in cases:
        params = {"axis": axis, "keepdims": keepdims}
        register(name, Sample(function, [make(shape)], reference, params, **differing))


for _name, _make, _cases in (
    ("sum", draw, OVER + OVER_NOTHING),
    ("prod", draw, OVER + OVER_NOTHING),
    ("mean", draw, OVER),
    ("all", lambda s: draw(s) > -1.5, OVER + OVER_NOTHING),
    ("any", lambda s: draw(s) > 1.5, OVER + OVER_NOTHING),
    ("count_nonzero", lambda s: integers(s, -1, 2), OVER + OVER_NOTHING),
):
    _over_axes(_name, getattr(tt, _name), getattr(np, _name), _make, _cases)
for _name in ("max", "min"):
    _over_axes(_name, getattr(tt, _name), getattr(np, _name), apart, OVER, repeats=False)
_over_axes("std", tt.std, np.std, apart, [case for case in OVER if case[0]], repeats=False)
_over_axes("logsumexp", tt.logsumexp, _quiet_logsumexp, draw, OVER)
_over_axes(  # the log of nothing is -inf, whose differences are NaN: its gradients are among the hard cases
    "sum",
    tt.logsumexp,
    lambda x, axis, keepdims: np.sum(x, axis, keepdims=keepdims) - np.inf,
    draw,
    OVER_NOTHING,
    differentiable=(),
)
_over_axes("euclidean", tt.linalg.vector_norm, np.linalg.vector_norm, draw, OVER + OVER_NOTHING)

alike("sum", draw((3,)), axis=())
alike("sum", integers((3, 4)))
alike("sum", mask((5,)))
alike("prod", np.array([1.5, 0.0, -2.0]))
alike("prod", np.array([[1.5, 0.0], [0.0, 2.0]]))
register("std", Sample(tt.std, [apart((3, 4))], np.std, {"axis": 1, "correction": 1}, repeats=False))
_infinite = np.array([800.0, 801.0, -np.inf])
register("logsumexp", Sample(tt.logsumexp, [_infinite], scipy.special.logsumexp, differentiable=()))
for _name in ("argmax", "argmin"):
    alike(_name, apart((3, 4)))
    alike(_name, integers((4, 5)), axis=0)
    alike(_name, apart((4, 5)), axis=-1, keepdims=True)
    alike(_name, draw(()))
    alike(_name, draw((0, 3)), axis=1)
alike("argsort", apart((3, 4)))
alike("argsort", integers((9, 2)), axis=0, stable=True)
alike("argsort", draw((0,)))
for _x, _k, _axis in ((apart((3, 4)), 2, -1), (integers((9, 2)), 3, 0), (draw((3, 0)), 0, 1), (apart((2, 3, 4)), 3, 1)):
    register(
        "topk",
        Sample(
            lambda x, k=_k, axis=_axis: tt.topk(x, k, axis=axis)[1],
            [_x],
            lambda x, k=_k, axis=_axis: np.argsort(-x, axis=axis, stable=True).take(range(k), axis),
        ),
    )
register(
    "argsort", Sample(lambda x: tt.argsort(x, descending=True), [integers((9,))], lambda x: np.argsort(-x, stable=True))
)
for _name, _make in (("cumulative_sum", draw), ("cumulative_prod", lambda s: draw(s, 0.4, 1.8))):
    alike(_name, _make((5,)))
    alike(_name, _make((3, 2)), axis=0, include_initial=True)
    for _shape, _axis in (((3, 4), 0), ((3, 4), 1), ((2, 3, 2), -2), ((0, 3), 0), ((2, 0), 0)):
        alike(_name, _make(_shape), axis=_axis)
for _values in ([1.5, 0.0, -2.0, 3.0], [0.0, 2.0, 0.0, 1.5]):
    alike("cumulative_prod", np.array(_values))

# ---- moving elements

for _shape, _to in (
    ((4,), (3, 4)),
    ((3, 1), (2, 3, 4)),
    ((), (2, 2)),
    ((1,), (0,)),
    ((2, 3), (2, 3)),
    ((0, 1), (0, 2)),
):
    alike("broadcast_to", draw(_shape), _to)
for _shape, _to in (((3, 4), (2, 6)), ((3, 4), -1), ((), (1, 1)), ((1,), ()), ((0, 3), (3, 0, 2))):
    alike("reshape", draw(_shape), _to)
for _shape, _axes in (((2, 3, 4), (2, 0, 1)), ((2, 3), (-1, 0)), ((), ()), ((0, 2), (1, 0))):
    alike("permute_dims", draw(_shape), _axes)
for _shape in ((3, 4), (2, 3, 4), (0, 3)):
    alike("matrix_transpose", draw(_shape))
for _shape, _axis in (((3, 4), 0), ((3, 4), -1), ((3, 4), 1), ((), 0), ((0,), 1)):
    alike("expand_dims", draw(_shape), axis=_axis)
for _shape, _axis in (((1, 4), 0), ((3, 1, 1), (1, -1)), ((1,), 0), ((0, 1), 1)):
    alike("squeeze", draw(_shape), axis=_axis)
for _shape, _axis in (((3, 4), None), ((3, 4), 0), ((2, 3, 2), (0, -1)), ((), None), ((0,), 0)):
    alike("flip", draw(_shape), axis=_axis)
for _shape, _shift, _axis in (((3, 4), 1, None), ((3, 4), -2, 1), ((3, 4), (1, 2), (0, 1)), ((0,), 1, 0)):
    alike("roll", draw(_shape), _shift, axis=_axis)
for _shape, _times in (((2, 3), (2, 1)), ((2, 3), (2,)), ((3,), (2, 2)), ((), (3,)), ((0,), (2,)), ((2,), (0,))):
    alike("tile", draw(_shape), _times)
for _name in ("tril", "triu"):
    for _shape, _k in (((3, 4), 0), ((2, 3, 3), 1), ((4, 3), -1), ((0, 3), 0)):
        alike(_name, draw(_shape), k=_k)


def _concat(*arrays, **params):
    return tt.concat(arrays, **params)


def _np_concat(*arrays, **params):
    return np.concat(arrays, **params)


for _shapes, _axis in (
    (((2, 3), (1, 3), (0, 3)), 0),
    (((2, 3), (2, 1)), -1),
    (((2, 3), ()), None),
    (((3,),), 0),
):
    register("concat", Sample(_concat, [draw(s) for s in _shapes], _np_concat, {"axis": _axis}))
register("concat", Sample(_concat, [draw((3,)), draw((2,))], _np_concat, differentiable=(1,)))

# ---- indexing

_mask = np.array([[True, False, True], [False, False, True]])
KEYS: list[tuple[tuple[int, ...], Any]] = [
    ((4, 3), 1),
    ((4, 3), (slice(None, None, -2), -1)),
    ((4, 3), (Ellipsis, None, slice(1, None))),
    ((4, 3), np.array([0, 2, 2, -1])),
    ((4, 3), (np.array([[0], [3]]), np.array([1, 1]))),
    ((4, 3, 2), (slice(None), np.array([0, 0, 2]), 1)),
    ((4, 3, 2), (np.array([1, 1]), slice(None), np.array([0, 1]))),
    ((2, 3), _mask),
    ((2, 3, 2), (_mask, 0)),
    ((2, 3), (slice(None), np.array([True, False, True]))),
    ((4,), np.array([], dtype=np.int64)),
    ((0, 3), slice(None)),
    ((), ()),
    ((), None),
]


def _np_scatter(values, key, shape):
    out = np.zeros(shape)
    np.add.at(out, key, values)
    return out


def _np_index_set(x, key, values):
    out = x.copy()
    out[key] = values
    return out


def _with_key(function, key):
    """The function with its key, so that no check takes the arrays in it for inputs."""
    return lambda x, *rest: function(x, key, *rest)


for _shape, _key in KEYS:
    _part = np.zeros(_shape)[_key].shape
    register(
        "getitem",
        Sample(_with_key(tt.Tensor.__getitem__, _key), [draw(_shape)], _with_key(np.ndarray.__getitem__, _key)),
    )
    register("scatter", Sample(_with_key(tt.scatter, _key), [draw(_part), _shape], _with_key(_np_scatter, _key)))
    for _values in (draw(_part), draw(())):
        _sample = Sample(_with_key(tt.index_set, _key), [draw(_shape), _values], _with_key(_np_index_set, _key))
        register("index_set", _sample)

# ---- linear algebra


def _regular(*shape):
    return draw(shape, -0.5, 0.5) + 2 * np.eye(shape[-1])


def _linalg(op, *inputs, **differing):
    """A sample of a function of `linalg` that has the same name in NumPy; its inputs may not be singular."""
    register(op, Sample(getattr(tt.linalg, op), inputs, getattr(np.linalg, op), repeats=False, **differing))


for _a, _b in (((2, 3), (3, 4)), ((3,), (3,)), ((3,), (2, 3, 4)), ((2, 3), (3,)), ((2, 1, 2, 3), (4, 3, 2)),
               ((5, 2, 3), (3, 4)), ((0, 3), (3, 2)), ((2, 0), (0, 3))):  # fmt: skip
    alike("matmul", draw(_a), draw(_b))
for _subscripts, *_shapes in (
    ("bqd,bkd->bqk", (2, 3, 4), (2, 2, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("...d,d->...", (2, 3, 4), (4,)),
    ("i,i,i->", (3,), (3,), (3,)),
    ("ii->i", (3, 3)),
    ("ij,kj->ik", (0, 2), (3, 2)),
    ("i,j->ij", (2,), (3,)),
    (",i->i", (), (3,)),
    ("ij,k->i", (2, 3), (2,)),
):
    alike("einsum", _subscripts, *(draw(s) for s in _shapes))
for _a in (_regular(2, 2), _regular(3, 3, 3), _regular(4, 4), draw((1, 1)), _regular(0, 3, 3)):
    _linalg("det", _a)
_linalg("det", draw((3, 2)) @ draw((2, 3)))
for _a in (_regular(3, 3), _regular(2, 2, 2), _regular(0, 2, 2)):
    _linalg("inv", _a)
for _a, _b in (
    (_regular(3, 3), (3,)),
    (_regular(3, 3), (3, 2)),
    (_regular(2, 3, 3), (3, 2)),
    (_regular(3, 3), (2, 3, 1)),
    (_regular(0, 3, 3), (3, 2)),
    (_regular(2, 2), (2, 0)),
):
    _linalg("solve", _a, draw(_b))


def _symmetric(x):
    return (x + x.mT) / 2


for _shape in ((3, 3), (2, 2, 2), (0, 2, 2)):
    _a = draw(_shape)
    _a = _a @ _a.mT + 2 * np.eye(_shape[-1])
    register("cholesky", Sample(lambda x: tt.linalg.cholesky(_symmetric(x)), [_a], np.linalg.cholesky, repeats=False))
for _a in (_regular(3, 3), -_regular(3, 3), _regular(2, 2, 2), _regular(0, 3, 3)):
    for _name, _place in (("signdet", 0), ("logabsdet", 1)):
        _sample = Sample(
            lambda x, place=_place: tt.linalg.slogdet(x)[place],
            [_a],
            lambda x, place=_place: np.linalg.slogdet(x)[place],
            differentiable=() if _place == 0 else None,
            repeats=False,
        )
        register(_name, _sample)


def _of_symmetric(op, function, *shapes):
    """Samples of a function of symmetric matrices, whose eigenvalues are apart."""
    for shape in shapes:
        a = draw(shape, -0.2, 0.2) + np.diag(np.arange(1.0, shape[-1] + 1))
        register(
            op, Sample(lambda x: function(tt, _symmetric(x)), [a], lambda x: function(np, _symmetric(x)), repeats=False)
        )


# Of vectors, what does not depend on their signs.
for _function in (lambda xp, x: xp.linalg.eigh(x)[0], lambda xp, x: xp.abs(xp.linalg.eigh(x)[1]) + 0.5):
    _of_symmetric("eigh", _function, (3, 3), (2, 2, 2), (0, 2, 2), (0, 0))


def _of_eig(xp, x):
    """A number that does not depend on the phases."""
    values, vectors = xp.linalg.eig(x)
    lengths = xp.abs(vectors) * (xp.abs(xp.expand_dims(values, axis=-1)) + 1)
    return xp.sum(xp.real(values**2) + xp.imag(values) ** 2) + xp.sum(lengths * lengths[..., :1, :])


for _shape in ((3, 3), (2, 2, 2), (0, 2, 2)):
    _a = draw(_shape)
    register("eig", Sample(lambda x: _of_eig(tt, x), [_a], lambda x: _of_eig(np, x), repeats=False))
for _shape in ((3, 3), (4, 2), (2, 2, 3), (0, 3), (0, 2, 2)):
    _a = draw(_shape) + 2 * np.eye(*_shape[-2:]) * np.arange(1, _shape[-1] + 1)
    for _place in (0, 1, 2):
        _sample = Sample(
            lambda x, place=_place: tt.abs(tt.linalg.svd(x, full_matrices=False)[place]),
            [_a],
            lambda x, place=_place: np.abs(np.linalg.svd(x, full_matrices=False)[place]),
            repeats=False,
        )
        register("svd", _sample)
    for _mode, _place in (("reduced", 0), ("reduced", 1), *[("complete", 0)] * (_shape[-2] <= _shape[-1])):
        _sample = Sample(
            lambda x, mode=_mode, place=_place: tt.linalg.qr(x, mode=mode)[place],
            [_a],
            lambda x, mode=_mode, place=_place: np.linalg.qr(x, mode=mode)[place],
            repeats=False,
        )
        register("qr", _sample)
    _linalg("pinv", _a)


# ---- Fourier transforms


def _parts_of(function):
    """Its real and imaginary parts, so that differences can be taken."""
    return lambda x, **params: tt.stack([tt.real(function(x, **params)), tt.imag(function(x, **params))])


def _np_parts_of(function):
    return lambda x, **params: np.stack([np.real(function(x, **params)), np.imag(function(x, **params))])


def _half_of(name, shape, axis, norm):
    """A sample of `rfft`, or of `irfft`, whose complex input is made of one that is real."""
    if name == "fft":
        return Sample(_parts_of(tt.fft.rfft), [draw(shape)], _np_parts_of(np.fft.rfft), {"axis": axis, "norm": norm})
    options = {"axis": axis, "norm": norm, "n": 2 * shape[axis] - len(shape)}  # odd, and even
    return Sample(
        lambda x, **params: tt.fft.irfft(x * (1 + 0.5j) - 1j, **params),
        [draw(shape)],
        lambda x, **params: np.fft.irfft(x * (1 + 0.5j) - 1j, **params),
        options,
    )


for _name in ("fft", "ifft"):
    for _shape, _axis, _norm in (
        ((5,), -1, "backward"),
        ((2, 4), 0, "ortho"),
        ((2, 3), 1, "forward"),
        ((0, 3), 1, "ortho"),
    ):
        _ours, _theirs = _parts_of(getattr(tt.fft, _name)), _np_parts_of(getattr(np.fft, _name))
        register(_name, Sample(_ours, [draw(_shape)], _theirs, {"axis": _axis, "norm": _norm}))
        register({"fft": "rfft", "ifft": "irfft"}[_name], _half_of(_name, _shape, _axis, _norm))
