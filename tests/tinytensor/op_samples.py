"""Sample inputs for every op: what `test_ops.py` is generated from.

`SAMPLES` maps an op's name in `tt.ops` to its samples. A package above adds its own with `register`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

import tinytensor as tt

SHAPES = [(3, 4), (), (0,), (2, 0, 3)]
PAIRS = [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((2, 3), ()), ((0,), (1,)), ((2, 1), (0,))]


@dataclass
class Sample:
    """One call of a function: `function(*inputs)`, the same in NumPy, and what may be tested of it.

    Attributes:
        differentiable: places of the inputs that have gradients; None: all floating arrays.
        second_order: whether second derivatives exist.
        constant: whether the inputs may also be rows repeated by broadcasting (a singular matrix may not).
    """

    function: Callable[..., Any]
    inputs: Sequence[Any]
    reference: Callable[..., Any]
    differentiable: Sequence[int] | None = None
    second_order: bool = True
    constant: bool = True


SAMPLES: dict[str, list[Sample]] = {}


def register(name: str, *samples: Sample) -> None:
    """Add samples for an op."""
    SAMPLES.setdefault(name, []).extend(samples)


_rng = np.random.default_rng(0)


def draw(shape: Any, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Float64 numbers, evenly spread between two bounds."""
    return np.array(_rng.uniform(low, high, shape))


def apart(shape: Any, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Numbers no two of which are close, so that no finite difference crosses a tie; none of them is close to 0."""
    count = int(np.prod(shape))
    return np.array(_rng.permutation(np.linspace(low, high, 2 * count + 2)[1::2][:count] + 0.01).reshape(shape))


def integers(shape: Any, low: int = -4, high: int = 5) -> np.ndarray:
    return np.array(_rng.integers(low, high, shape))


# ---- element by element

UNARY: dict[str, tuple[Any, float, float]] = {
    "abs": (np.abs, 0.1, 2),
    "acos": (np.arccos, -0.9, 0.9),
    "acosh": (np.arccosh, 1.1, 3),
    "asin": (np.arcsin, -0.9, 0.9),
    "asinh": (np.arcsinh, -3, 3),
    "atan": (np.arctan, -3, 3),
    "atanh": (np.arctanh, -0.9, 0.9),
    "ceil": (np.ceil, 0.1, 0.9),
    "conj": (np.conj, -2, 2),
    "cos": (np.cos, -3, 3),
    "cosh": (np.cosh, -2, 2),
    "erf": (scipy.special.erf, -2, 2),
    "exp": (np.exp, -2, 2),
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
    "sigmoid": (scipy.special.expit, -3, 3),
    "sign": (np.sign, 0.1, 2),
    "signbit": (np.signbit, -2, 2),
    "sin": (np.sin, -3, 3),
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
for _name, _reference in (("abs", np.abs), ("sign", np.sign)):
    register(_name, Sample(getattr(tt, _name), [-draw((2, 3), 0.5, 2)], _reference))
for _name, _reference in (("isfinite", np.isfinite), ("isinf", np.isinf), ("isnan", np.isnan), ("signbit", np.signbit)):
    _special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0])
    register(_name, Sample(getattr(tt, _name), [_special], _reference, differentiable=()))
register("round", Sample(tt.round, [np.array([0.5, 1.5, -2.5, 2.4])], np.round, differentiable=()))
for _name in ("ceil", "floor", "trunc", "round"):
    register(_name, Sample(getattr(tt, _name), [integers((3,))], np.copy))

BINARY: dict[str, tuple[Any, Any, Any]] = {
    "add": (np.add, draw, draw),
    "atan2": (np.arctan2, draw, lambda s: draw(s, 0.5, 2)),
    "copysign": (np.copysign, lambda s: draw(s, 0.3, 2), lambda s: draw(s, -2, -0.3)),
    "divide": (np.divide, draw, lambda s: draw(s, 0.5, 2)),
    "equal": (np.equal, draw, draw),
    "floor_divide": (np.floor_divide, lambda s: draw(s, 3.1, 3.9), lambda s: draw(s, 0.95, 0.99)),
    "greater": (np.greater, draw, draw),
    "greater_equal": (np.greater_equal, draw, draw),
    "hypot": (np.hypot, lambda s: draw(s, 0.5, 2), lambda s: draw(s, -2, -0.5)),
    "less": (np.less, draw, draw),
    "less_equal": (np.less_equal, draw, draw),
    "logaddexp": (np.logaddexp, draw, draw),
    "maximum": (np.maximum, lambda s: draw(s, -1, 1), lambda s: draw(s, 1.1, 2)),
    "minimum": (np.minimum, lambda s: draw(s, -1, 1), lambda s: draw(s, -2, -1.1)),
    "multiply": (np.multiply, draw, draw),
    "not_equal": (np.not_equal, draw, draw),
    "pow": (np.power, lambda s: draw(s, 0.3, 2), draw),
    "remainder": (np.remainder, lambda s: draw(s, 3.1, 3.9), lambda s: draw(s, 0.95, 0.99)),
    "subtract": (np.subtract, draw, draw),
}

for _name, (_reference, _first, _second) in BINARY.items():
    _function = getattr(tt, _name)
    register(_name, *(Sample(_function, [_first(a), _second(b)], _reference) for a, b in PAIRS))
    register(
        _name,
        Sample(_function, [_first((2, 3)), 0.95], _reference),
        Sample(_function, [1.7, _second((2, 3))], _reference),
    )
for _name, _reference in (("maximum", np.maximum), ("minimum", np.minimum)):
    _values = apart((4, 6))
    register(_name, Sample(getattr(tt, _name), [_values[:, :3].copy(), _values[:, 3:].copy()], _reference))
for _name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    register(_name, Sample(getattr(tt, _name), [integers((5, 5)), integers((5,))], getattr(np, _name)))
for _exponent in (-2, 0, 1, 2, 3, 0.5):
    register("pow", Sample(tt.pow, [draw((3,), 0.5, 2), _exponent], np.power))
register("pow", Sample(tt.pow, [draw((3,), -2, -0.5), 3], np.power))
register("pow", Sample(tt.pow, [np.array([0.0, 0.0, 2.0]), np.array([1.0, 2.0, 1.5])], np.power, differentiable=(1,)))
register("remainder", Sample(tt.remainder, [draw((3,), -3.9, -3.1), -0.97], np.remainder))
register(
    "nextafter",
    Sample(tt.nextafter, [draw((3,)), draw((3,))], np.nextafter, differentiable=()),
    Sample(tt.nextafter, [draw((3, 1)), draw((0,))], np.nextafter, differentiable=()),
)
for _name in ("logical_and", "logical_or", "logical_xor"):
    register(_name, *(Sample(getattr(tt, _name), [draw(a) > 0, draw(b) > 0], getattr(np, _name)) for a, b in PAIRS))
register("logical_not", *(Sample(tt.logical_not, [draw(s) > 0], np.logical_not) for s in SHAPES))
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    register(_name, *(Sample(getattr(tt, _name), [integers(a), integers(b)], getattr(np, _name)) for a, b in PAIRS))
    register(_name, Sample(getattr(tt, _name), [draw((4,)) > 0, draw((4,)) > 0], getattr(np, _name)))
for _name in ("bitwise_left_shift", "bitwise_right_shift"):
    register(_name, *(Sample(getattr(tt, _name), [integers(a), integers(b, 0)], getattr(np, _name)) for a, b in PAIRS))
register("bitwise_invert", *(Sample(tt.bitwise_invert, [integers(s)], np.invert) for s in SHAPES))
_complex = draw((3, 2)) + 1j * draw((3, 2))
register("imag", Sample(tt.imag, [_complex], np.imag))
register("real", Sample(tt.real, [_complex], np.real))
register("conj", Sample(tt.conj, [_complex], np.conj))
register("multiply", Sample(tt.multiply, [_complex, _complex[0]], np.multiply))

register(
    "where",
    *(Sample(tt.where, [draw(a) > 0, draw(a), draw(b)], np.where) for a, b in PAIRS),
    Sample(lambda c, x: tt.where(c, x, 0.5), [draw((3, 4)) > 0, draw((4,))], lambda c, x: np.where(c, x, 0.5)),
    Sample(lambda c, x: tt.where(c, 0.5, x), [draw((3, 1)) > 0, draw((4,))], lambda c, x: np.where(c, 0.5, x)),
)
register(
    "clip",
    Sample(lambda x: tt.clip(x, -0.5, 1), [apart((3, 4))], lambda x: np.clip(x, -0.5, 1)),
    Sample(lambda x: tt.clip(x, max=0.6), [apart((5,))], lambda x: np.clip(x, None, 0.6)),
    Sample(lambda x: tt.clip(x, 0.3), [apart((5,))], lambda x: np.clip(x, 0.3, None)),
    Sample(lambda x: tt.clip(x), [draw(())], np.copy),
    Sample(tt.clip, [apart((3, 4)), draw((4,), -0.5, -0.3), draw((3, 1), 0.3, 0.5)], np.clip),
    Sample(tt.clip, [apart((3, 4)), draw((4,), 0.3, 0.5), draw((3, 1), -0.5, -0.3)], np.clip),
    Sample(lambda x, low: tt.clip(x, min=low), [draw((0, 3)), draw((3,))], lambda x, low: np.maximum(x, low)),
    Sample(lambda x, high: tt.clip(x, max=high), [apart((8,)), np.array(0.25)], lambda x, high: np.minimum(x, high)),
    Sample(lambda x, low: tt.clip(x, min=low), [apart((8,)), np.array(0.25)], lambda x, low: np.maximum(x, low)),
)
register(
    "masked_fill",
    Sample(tt.masked_fill, [draw((3, 4)), draw((4,)) > 0, 0.5], lambda x, m, v: np.where(m, v, x)),
    Sample(
        lambda x, m: tt.masked_fill(x, m, -np.inf),
        [draw((3, 4)), draw((4,)) > 0],
        lambda x, m: np.where(m, -np.inf, x),
        differentiable=(),
    ),
    Sample(tt.masked_fill, [draw((3, 4)), draw((3, 4)) > 0, draw(())], lambda x, m, v: np.where(m, v, x)),
    Sample(tt.masked_fill, [draw((0,)), draw((0,)) > 0, 1.0], lambda x, m, v: np.where(m, v, x)),
    Sample(tt.masked_fill, [draw(()), np.array(True), 2.0], lambda x, m, v: np.where(m, v, x)),
)
register(
    "astype",
    Sample(lambda x: tt.astype(x, x.dtype), [draw((3, 4))], np.copy),
    Sample(lambda x: tt.astype(x, x.dtype), [draw(())], np.copy),
)

# ---- over axes


def _over_axes(function, reference, make=draw, empty=True, **differing):
    """Samples over all axes, one, several, none kept and kept, of 0-d and of empty arrays."""
    cases = [
        ((3, 4), None, False),
        ((3, 4), 0, False),
        ((3, 4), -1, True),
        ((2, 3, 2), (0, -1), False),
        ((2, 3, 2), (1, 2), True),
        ((), None, False),
        ((17, 3), 0, False),
    ]
    cases += (
        [((0, 3), 1, False), ((2, 0), 0, False)]
        if not empty
        else [((0, 3), 0, False), ((2, 0), -1, True), ((0,), None, False)]
    )
    return [
        Sample(
            lambda x, a=axis, k=keep: function(x, axis=a, keepdims=k),
            [make(shape)],
            lambda x, a=axis, k=keep: reference(x, axis=a, keepdims=k),
            **differing,
        )
        for shape, axis, keep in cases
    ]


def _quiet(reference):
    """NumPy's function without its warnings about what is empty."""

    def function(*args, **kwargs):
        import warnings

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return reference(*args, **kwargs)

    return function


register("sum", *_over_axes(tt.sum, np.sum), Sample(lambda x: tt.sum(x, axis=()), [draw((3,))], np.copy))
register("sum", Sample(tt.sum, [integers((3, 4))], np.sum), Sample(tt.sum, [draw((5,)) > 0], np.sum))
register("mean", *_over_axes(tt.mean, np.mean, empty=False))
register("std", *_over_axes(tt.std, np.std, apart, empty=False, constant=False)[:5])
register(
    "std",
    Sample(
        lambda x: tt.std(x, axis=1, correction=1), [apart((3, 4))], lambda x: np.std(x, axis=1, ddof=1), constant=False
    ),
    Sample(lambda x: tt.std(x, axis=1), [draw((0, 3))], lambda x: np.std(x, axis=1)),
)
register("prod", *_over_axes(tt.prod, np.prod))
register(
    "prod",
    Sample(tt.prod, [np.array([1.5, 0.0, -2.0])], np.prod),
    Sample(tt.prod, [np.array([[1.5, 0.0], [0.0, 2.0]])], np.prod),
)
for _name in ("max", "min"):
    register(_name, *_over_axes(getattr(tt, _name), getattr(np, _name), apart, empty=False, constant=False))
register("logsumexp", *_over_axes(tt.logsumexp, _quiet(scipy.special.logsumexp), empty=False))
register(
    "logsumexp", Sample(tt.logsumexp, [np.array([800.0, 801.0, -np.inf])], scipy.special.logsumexp, differentiable=())
)
register(
    "euclidean",
    *_over_axes(tt.linalg.vector_norm, lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))),
)
register("all", *_over_axes(tt.all, np.all, lambda s: draw(s) > -1.5))
register("any", *_over_axes(tt.any, np.any, lambda s: draw(s) > 1.5))
register("count_nonzero", *_over_axes(tt.count_nonzero, np.count_nonzero, lambda s: integers(s, -1, 2)))
for _name in ("argmax", "argmin"):
    register(
        _name,
        Sample(getattr(tt, _name), [apart((3, 4))], getattr(np, _name)),
        Sample(
            lambda x, f=getattr(tt, _name): f(x, axis=0),
            [integers((4, 5))],
            lambda x, f=getattr(np, _name): f(x, axis=0),
        ),
        Sample(
            lambda x, f=getattr(tt, _name): f(x, axis=-1, keepdims=True),
            [apart((4, 5))],
            lambda x, f=getattr(np, _name): f(x, axis=-1, keepdims=True),
        ),
        Sample(getattr(tt, _name), [draw(())], getattr(np, _name)),
        Sample(
            lambda x, f=getattr(tt, _name): f(x, axis=1), [draw((0, 3))], lambda x, f=getattr(np, _name): f(x, axis=1)
        ),
    )
register(
    "argsort",
    Sample(tt.argsort, [apart((3, 4))], np.argsort),
    Sample(lambda x: tt.argsort(x, axis=0), [integers((9, 2))], lambda x: np.argsort(x, axis=0, kind="stable")),
    Sample(lambda x: tt.argsort(x, descending=True), [integers((9,))], lambda x: np.argsort(-x, kind="stable")),
    Sample(tt.argsort, [draw((0,))], np.argsort),
)


def _cumulative(name, reference, make):
    function = getattr(tt, name)
    return [
        Sample(function, [make((5,))], reference),
        *(
            Sample(lambda x, a=a: function(x, axis=a), [make(s)], lambda x, a=a: reference(x, axis=a))
            for s, a in (((3, 4), 0), ((3, 4), 1), ((2, 3, 2), -2), ((0, 3), 0), ((2, 0), 0))
        ),
        Sample(
            lambda x: function(x, axis=0, include_initial=True),
            [make((3, 2))],
            lambda x: reference(np.concatenate([np.full((1, 2), name.endswith("prod")), x]), axis=0),
        ),
    ]


register("cumulative_sum", *_cumulative("cumulative_sum", np.cumsum, draw))
register("cumulative_prod", *_cumulative("cumulative_prod", np.cumprod, lambda s: draw(s, 0.4, 1.8)))
for _values in ([1.5, 0.0, -2.0, 3.0], [0.0, 2.0, 0.0, 1.5]):
    register("cumulative_prod", Sample(tt.cumulative_prod, [np.array(_values)], np.cumprod))

# ---- moving elements


def _moved(function, reference, shape, **differing):
    return Sample(function, [draw(shape)], reference, **differing)


register(
    "broadcast_to",
    *(
        _moved(lambda x, t=t: tt.broadcast_to(x, t), lambda x, t=t: np.broadcast_to(x, t), s)
        for s, t in (((4,), (3, 4)), ((3, 1), (2, 3, 4)), ((), (2, 2)), ((1,), (0,)), ((2, 3), (2, 3)))
    ),
)
register(
    "reshape",
    *(
        _moved(lambda x, t=t: tt.reshape(x, t), lambda x, t=t: np.reshape(x, t), s)
        for s, t in (((3, 4), (2, 6)), ((3, 4), -1), ((), (1, 1)), ((1,), ()), ((0, 3), (3, 0, 2)))
    ),
)
register(
    "permute_dims",
    *(
        _moved(lambda x, a=a: tt.permute_dims(x, a), lambda x, a=a: np.transpose(x, a), s)
        for s, a in (((2, 3, 4), (2, 0, 1)), ((2, 3), (-1, 0)), ((), ()), ((0, 2), (1, 0)))
    ),
)
register(
    "matrix_transpose",
    *(_moved(tt.matrix_transpose, lambda x: np.swapaxes(x, -1, -2), s) for s in ((3, 4), (2, 3, 4), (0, 3))),
)
register(
    "expand_dims",
    *(
        _moved(lambda x, a=a: tt.expand_dims(x, axis=a), lambda x, a=a: np.expand_dims(x, a), s)
        for s, a in (((3, 4), 0), ((3, 4), -1), ((3, 4), 1), ((), 0), ((0,), 1))
    ),
)
register(
    "squeeze",
    *(
        _moved(lambda x, a=a: tt.squeeze(x, a), lambda x, a=a: np.squeeze(x, a), s)
        for s, a in (((1, 4), 0), ((3, 1, 1), (1, -1)), ((1,), 0), ((0, 1), 1))
    ),
)
register(
    "flip",
    *(
        _moved(lambda x, a=a: tt.flip(x, axis=a), lambda x, a=a: np.flip(x, a), s)
        for s, a in (((3, 4), None), ((3, 4), 0), ((2, 3, 2), (0, -1)), ((), None), ((0,), 0))
    ),
)
register(
    "roll",
    *(
        _moved(lambda x, n=n, a=a: tt.roll(x, n, axis=a), lambda x, n=n, a=a: np.roll(x, n, a), s)
        for s, n, a in (((3, 4), 1, None), ((3, 4), -2, 1), ((3, 4), (1, 2), (0, 1)), ((0,), 1, 0))
    ),
)
register(
    "tile",
    *(
        _moved(lambda x, n=n: tt.tile(x, n), lambda x, n=n: np.tile(x, n), s)
        for s, n in (((2, 3), (2, 1)), ((2, 3), (2,)), ((3,), (2, 2)), ((), (3,)), ((0,), (2,)), ((2,), (0,)))
    ),
)
for _name in ("tril", "triu"):
    register(
        _name,
        *(
            _moved(lambda x, f=getattr(tt, _name), k=k: f(x, k=k), lambda x, f=getattr(np, _name), k=k: f(x, k=k), s)
            for s, k in (((3, 4), 0), ((2, 3, 3), 1), ((4, 3), -1), ((0, 3), 0))
        ),
    )
register(
    "concat",
    Sample(lambda *a: tt.concat(a), [draw((2, 3)), draw((1, 3)), draw((0, 3))], lambda *a: np.concatenate(a)),
    Sample(lambda *a: tt.concat(a, axis=-1), [draw((2, 3)), draw((2, 1))], lambda *a: np.concatenate(a, axis=-1)),
    Sample(lambda *a: tt.concat(a, axis=None), [draw((2, 3)), draw(())], lambda *a: np.concatenate(a, axis=None)),
    Sample(
        lambda a, b: tt.concat([a, b]),
        [draw((3,)), draw((2,))],
        lambda a, b: np.concatenate([a, b]),
        differentiable=(1,),
    ),
)
_origin = "cpu"
register(
    "to_device",
    *(Sample(lambda x: tt.square(x.to("cpu")).to(x.device) * 1, [draw(s)], np.square) for s in SHAPES),
)

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
for _shape, _key in KEYS:
    register("getitem", Sample(lambda x, k=_key: x[k], [draw(_shape)], lambda x, k=_key: x[k]))
    _target = np.zeros(_shape)[_key]

    def _added(values, key=_key, shape=_shape):
        out = np.zeros(shape)
        np.add.at(out, key, values)
        return out

    def _set(x, values, key=_key):
        out = x.copy()
        out[key] = values
        return out

    register("scatter", Sample(lambda v, k=_key, s=_shape: tt.scatter(v, k, s), [draw(_target.shape)], _added))
    register("index_set", Sample(lambda x, v, k=_key: tt.index_set(x, k, v), [draw(_shape), draw(_target.shape)], _set))
    register("index_set", Sample(lambda x, v, k=_key: tt.index_set(x, k, v), [draw(_shape), draw(())], _set))

# ---- linear algebra


def _definite(*shape):
    a = draw(shape)
    return a @ np.swapaxes(a, -1, -2) + 2 * np.eye(shape[-1])


def _regular(*shape):
    return draw(shape, -0.5, 0.5) + 2 * np.eye(shape[-1])


register(
    "matmul",
    *(
        Sample(tt.matmul, [draw(a), draw(b)], np.matmul)
        for a, b in (
            ((2, 3), (3, 4)),
            ((3,), (3,)),
            ((3,), (2, 3, 4)),
            ((2, 3), (3,)),
            ((2, 1, 2, 3), (4, 3, 2)),
            ((5, 2, 3), (3, 4)),
            ((0, 3), (3, 2)),
            ((2, 0), (0, 3)),
        )
    ),
)
register("einsum", *(Sample(lambda *a, s=s: tt.einsum(s, *a), [draw(n) for n in shapes], lambda *a, s=s: np.einsum(s, *a)) for s, shapes in (
    ("bqd,bkd->bqk", ((2, 3, 4), (2, 2, 4))), ("ij,jk", ((2, 3), (3, 4))), ("ij->", ((2, 3),)), ("ij->j", ((2, 3),)), ("...d,d->...", ((2, 3, 4), (4,))),
    ("i,i,i->", ((3,), (3,), (3,))), ("ii->i", ((3, 3),)), ("ij,kj->ik", ((0, 2), (3, 2))), ("i,j->ij", ((2,), (3,))), (",i->i", ((), (3,))), ("ij,k->i", ((2, 3), (2,))),
)))  # fmt: skip
register(
    "det",
    *(
        Sample(tt.linalg.det, [a], np.linalg.det)
        for a in (_regular(2, 2), _regular(3, 3, 3), _regular(4, 4), draw((1, 1)), _regular(0, 3, 3))
    ),
)
_singular = draw((3, 2)) @ draw((2, 3))
register("det", Sample(tt.linalg.det, [_singular], np.linalg.det, constant=False))
register(
    "inv",
    *(
        Sample(tt.linalg.inv, [a], np.linalg.inv, constant=False)
        for a in (_regular(3, 3), _regular(2, 2, 2), _regular(0, 2, 2))
    ),
)
register(
    "solve",
    *(
        Sample(tt.linalg.solve, [a, b], lambda a, b: np.linalg.solve(a, b), constant=False)
        for a, b in (
            (_regular(3, 3), draw((3,))),
            (_regular(3, 3), draw((3, 2))),
            (_regular(2, 3, 3), draw((3, 2))),
            (_regular(3, 3), draw((2, 3, 1))),
        )
    ),
)
register(
    "logabsdet",
    *(
        Sample(lambda x: tt.linalg.slogdet(x)[1], [a], lambda x: np.linalg.slogdet(x)[1], constant=False)
        for a in (_regular(3, 3), _regular(2, 2, 2))
    ),
)
register(
    "signdet",
    Sample(
        lambda x: tt.linalg.slogdet(x)[0],
        [_regular(3, 3)],
        lambda x: np.linalg.slogdet(x)[0],
        differentiable=(),
        constant=False,
    ),
)
register(
    "cholesky",
    *(
        Sample(lambda x: tt.linalg.cholesky((x + x.mT) / 2), [a], np.linalg.cholesky, constant=False)
        for a in (_definite(3, 3), _definite(2, 2, 2))
    ),
)
