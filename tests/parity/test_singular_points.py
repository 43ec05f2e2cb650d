"""Values and gradients at 0, -0, ties, infinity, NaN, 1e±20, 1e±30, 1e±38 and nothing, compared with PyTorch.

`OTHERWISE` decides each difference: the only points at which an op may differ, and why it does.
"""

import math

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.nn import functional as F

torch = pytest.importorskip("torch")
TF = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")
INF, NAN = math.inf, math.nan
POINTS = [
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, 20.0, -20.0, 100.0, -100.0, 1e-20, 1e20, 1e-30, -1e-30, 1e30, -1e30,
    1e38, -1e38, 1e-38, 1e-45, INF, -INF, NAN,
]  # fmt: skip
ONE = """
    abs acos acosh asin asinh atan atanh celu ceil cos cosh digamma elu erf erfc erfinv exp exp2 expm1 floor gammaln
    gelu hardshrink hardsigmoid hardswish hardtanh isfinite isinf isnan leaky_relu log log10 log1p log2 logit logsigmoid
    mish nan_to_num negative positive reciprocal relu relu6 round rsqrt selu sigmoid sign signbit silu sin sinc sinh
    softplus softshrink softsign sqrt square tan tanh tanhshrink trunc
""".split()  # noqa: SIM905
TWO = """
    add atan2 copysign divide floor_divide fmax fmin hypot logaddexp maximum minimum multiply nextafter pow remainder
    subtract xlogy
""".split()  # noqa: SIM905
VECTORS = [
    [0, 0, 0], [1, 1, 1], [2, 1, 2], [-1, -1, 2], [0, 0, 1], [-0.0, 0, 1], [-1, -2, -3], [1.5], [0], [1e30, 2e30, 3e30],
    [1e20, -1e20, 3e20], [1e20, 1, 1e-20], [1e38, 1e38, -1e38], [1e-30, 2e-30, -3e-30], [1e-38, 1e-38, 3e-38],
    [1e-42, 2e-42, 0], [INF, 1, 2], [-INF, 1, 2], [-INF, -INF, -INF], [INF, INF, 1], [NAN, 1, 2],
]  # fmt: skip
OF_VECTORS = {
    "sum": (torch.sum, tt.sum),
    "mean": (torch.mean, tt.mean),
    "prod": (torch.prod, tt.prod),
    "max": (torch.amax, tt.max),
    "min": (torch.amin, tt.min),
    "std": (lambda x: torch.std(x, correction=0), tt.std),
    "std, n - 1": (torch.std, lambda x: tt.std(x, correction=1)),
    "var": (lambda x: torch.var(x, correction=0), tt.var),
    "logsumexp": (lambda x: torch.logsumexp(x, 0), tt.logsumexp),
    "cumulative_sum": (lambda x: torch.cumsum(x, 0), tt.cumulative_sum),
    "cumulative_prod": (lambda x: torch.cumprod(x, 0), tt.cumulative_prod),
    "logcumsumexp": (lambda x: torch.logcumsumexp(x, 0), lambda x: x.logcumsumexp(0)),
    **{
        f"norm {order}": (
            lambda x, order=order: torch.linalg.vector_norm(x, order),
            lambda x, order=order: tt.linalg.vector_norm(x, ord=order),
        )
        for order in (0, 0.5, 1, 2, 3, INF, -INF)
    },
    "sort": (lambda x: torch.sort(x)[0], tt.sort),
    "quantile": (lambda x: torch.quantile(x, 0.5), lambda x: x.quantile(0.5)),
    "softmax": (lambda x: torch.softmax(x, 0), lambda x: F.softmax(x, 0)),
    "log_softmax": (lambda x: torch.log_softmax(x, 0), lambda x: F.log_softmax(x, 0)),
    "normalize": (lambda x: TF.normalize(x, dim=0), lambda x: F.normalize(x, dim=0)),
    "layer_norm": (lambda x: TF.layer_norm(x, (len(x),)), lambda x: F.layer_norm(x, (len(x),))),
    "rms_norm": (lambda x: TF.rms_norm(x, (len(x),)), lambda x: F.rms_norm(x, (len(x),))),
    "cross_entropy": (
        lambda x: TF.cross_entropy(x[None], torch.tensor([0])),
        lambda x: F.cross_entropy(x[None], tt.asarray([0])),
    ),
    "binary_cross_entropy_with_logits": (
        lambda x: TF.binary_cross_entropy_with_logits(x, torch.ones_like(x)),
        lambda x: F.binary_cross_entropy_with_logits(x, tt.ones_like(x)),
    ),
    **{
        name: (
            lambda x, name=name: getattr(TF, name)(x, torch.zeros_like(x)),
            lambda x, name=name: getattr(F, name)(x, tt.zeros_like(x)),
        )
        for name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "pairwise_distance")
    },
    "cosine_similarity": (
        lambda x: TF.cosine_similarity(x, torch.ones_like(x), dim=0),
        lambda x: F.cosine_similarity(x, tt.ones_like(x), dim=0),
    ),
    "kl_div": (
        lambda x: TF.kl_div(x, torch.full_like(x, 0.3), reduction="sum"),
        lambda x: F.kl_div(x, tt.full_like(x, 0.3), reduction="sum"),
    ),
    "outer": (lambda x: torch.outer(x, x), lambda x: tt.linalg.outer(x, x)),
    "x @ x": (lambda x: x @ x, lambda x: x @ x),
    "x / x": (lambda x: x / x, lambda x: x / x),
    "x ** x": (lambda x: x**x, lambda x: x**x),
    "max_pool1d": (lambda x: TF.max_pool1d(x[None], len(x)), lambda x: F.max_pool1d(x[None], len(x))),
    "clip": (lambda x: torch.clip(x, 0, 1), lambda x: tt.clip(x, 0, 1)),
}


def is_nan(*x):
    return any(map(math.isnan, x))


def is_infinite(*x):
    return any(map(math.isinf, x))


def is_extreme(*x):
    """A square overflows, or vanishes."""
    return any(abs(n) > 1e18 or 0 < abs(n) < 1e-18 for n in x)


def is_zero(*x):
    return any(n == 0 for n in x)


def is_tied(*x):
    return len({*x}) < len(x)


def both_zero(*x):
    return x[0] == x[1] == 0


NAN_ALONE = (
    "abs",
    "elu",
    "selu",
    "celu",
    "l1_loss",
    "maximum",
    "minimum",
    "max",
    "min",
    "quantile",
    "norm 1",
    "norm inf",
    "norm -inf",
)
OTHERWISE = {
    # NaN has the gradient NaN here; there 0, or that of one side
    **{name: [is_nan] for name in NAN_ALONE},
    "hardswish": [is_nan, is_extreme],  # x * 6 / 6 overflows there
    "hardsigmoid": [is_nan, lambda x: -3 <= x <= 3],  # the slope is 1/6 of 32 bits there
    "sign": [is_nan],  # the sign of NaN is NaN, as in NumPy
    # squares overflow or vanish there
    "acosh": [is_extreme, lambda x: x < 1],  # below 1 the value is NaN, and there the gradient is not
    "atan2": [is_extreme, both_zero],
    "sinc": [is_extreme],
    "hypot": [both_zero],  # the gradient is 0 here, NaN there, as for a norm
    "std": [is_extreme, lambda *x: len(x) == 1],
    "std, n - 1": [is_extreme],
    "var": [is_extreme, is_infinite],
    "norm 0.5": [is_extreme],
    # poles, and outside of the domain
    "digamma": [lambda x: x <= 0 and (abs(x) > 1e6 or x == round(x))],  # the slope at a pole is infinite
    "logit": [lambda x: not 0 < x < 1],  # the value is NaN, and the gradient that of the formula
    # ties: equal arguments share a gradient here; one of them has it there
    "fmax": [is_tied, is_nan],
    "fmin": [is_tied, is_nan],
    "nextafter": [is_tied, is_nan],
    "max_pool1d": [is_tied],
    # infinity
    "copysign": [is_infinite],  # NaN there
    "logaddexp": [is_infinite],  # equal infinities share the gradient; there it is NaN
    "logsumexp": [lambda *x: max(x) == -INF],  # of nothing: 0
    "logcumsumexp": [is_extreme, lambda *x: -INF in x or INF in x],  # as for logaddexp
    "softmax": [lambda *x: max(x) == -INF],  # a row of -inf has weights of 0
    "pow": [lambda x, y: (x, y) == (-INF, 0.5)],  # NumPy's square root
    "prod": [is_infinite, is_nan],  # the product of the others, without this element
    "xlogy": [lambda x, y: x == 0],  # the gradient of y is 0, not NaN
}


def finite(x):
    """The largest finite number in an array."""
    x = np.abs(np.asarray(x, np.float64))
    return np.max(x[np.isfinite(x)], initial=0.0)


def same(ours, theirs, dtype, size):
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    bound = 1e-4 if dtype == "float32" else 1e-8
    tiny = 1e-37 if dtype == "float32" else 1e-300
    return ours.shape == theirs.shape and np.allclose(
        ours, theirs, rtol=bound, atol=bound * size + tiny, equal_nan=True
    )


def compare(theirs, ours, points, dtype, otherwise):
    """The points at which values or gradients differ, except those that `otherwise` lists."""
    different, excused = [], 0
    for values in points:
        given = [torch.tensor(v, dtype=getattr(torch, dtype), requires_grad=True) for v in values]
        leaves = [tt.tensor(v, dtype=dtype, requires_grad=True) for v in values]
        expected, found = theirs(*given), ours(*leaves)
        pairs = [(found.detach().numpy(), expected.detach().numpy())]
        if expected.requires_grad and expected.is_floating_point():
            weights = torch.arange(1.0, 1 + expected.numel(), dtype=expected.dtype).reshape(expected.shape)
            try:
                gradients = torch.autograd.grad((expected * weights).sum(), given, allow_unused=True)
            except RuntimeError:  # none there
                gradients = ()
            own = tt.grad(tt.sum(found * tt.asarray(weights.numpy())), leaves) if found.requires_grad else given
            pairs += [(o.numpy(), g.numpy()) for o, g in zip(own, gradients) if g is not None]
        flat = np.concatenate([np.ravel(np.asarray(v, dtype)) for v in values]).tolist()
        rise = finite(pairs[0][1]) / (finite(flat) or 1)  # of which a gradient of 0 is a rounding error
        if not all(same(*pair, dtype, max(rise * (i > 0), finite(pair[1]))) for i, pair in enumerate(pairs)):
            excused += any(is_there(*flat) for is_there in otherwise)
            different += [] if any(is_there(*flat) for is_there in otherwise) else [(values, pairs)]
    return different, excused


def of(module, name):
    places = (torch, torch.special, TF) if module is torch else (tt, tt.special, F)
    return next(getattr(place, name) for place in places if hasattr(place, name))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ONE + TWO)
def test_numbers(name, dtype):
    points = [(x,) for x in POINTS] if name in ONE else [(x, y) for x in POINTS for y in POINTS]
    with np.errstate(all="ignore"):
        different, _ = compare(of(torch, name), of(tt, name), points, dtype, OTHERWISE.get(name, []))
    assert different == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OF_VECTORS)
def test_vectors(name, dtype):
    theirs, ours = OF_VECTORS[name]
    with np.errstate(all="ignore"):
        different, _ = compare(theirs, ours, [(v,) for v in VECTORS], dtype, OTHERWISE.get(name, []))
    assert different == []


@pytest.mark.parametrize("name", OTHERWISE)
def test_each_of_these_differs(name):
    theirs, ours = OF_VECTORS.get(name) or (of(torch, name), of(tt, name))
    points = [(v,) for v in VECTORS] if name in OF_VECTORS else [(x,) for x in POINTS]
    points = [(x, y) for x in POINTS for y in POINTS] if name in TWO else points
    with np.errstate(all="ignore"):
        assert sum(compare(theirs, ours, points, dtype, OTHERWISE[name])[1] for dtype in ("float32", "float64"))


def test_ops_of_nothing():
    for name in ONE:
        assert of(tt, name)(tt.zeros((0, 3))).shape == (0, 3)
    for name in TWO:
        assert of(tt, name)(tt.zeros((0, 3)), tt.ones((1, 3))).shape == (0, 3)


# ---- decompositions

UNIT, ONES, POSITIVE = np.eye(3), np.ones((3, 3)), np.array([[2.0, 1, 0], [1, 3, 1], [0, 1, 4]])
GENERAL = np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, 10]])
MATRICES = {
    "unit": UNIT, "zeros": 0 * UNIT, "ones": ONES, "two equal": np.diag([2.0, 2, 1]), "positive": POSITIVE,
    "negative": -POSITIVE, "general": GENERAL, "triangular": np.triu(GENERAL), "turned": UNIT[[1, 2, 0]],
    "rank 2": np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]]), "rank 1": np.outer([1.0, 2, 3], [1, 2, 3]),
    "large": 1e30 * POSITIVE, "small": 1e-30 * POSITIVE, "all sizes": np.diag([1e20, 1, 1e-20]),
    "1 x 1": np.array([[2.0]]), "0 x 0": np.zeros((0, 0)),
}  # fmt: skip
SINGULAR = {"zeros", "ones", "rank 2", "rank 1"}
EXTREME = {"large", "small", "all sizes"}
EQUAL = {"zeros", "ones", "rank 1", "turned", "all sizes"}  # in 32 or 64 bits


def half_of_both(x):
    return (x + x.mT) / 2


OF_MATRICES = {  # PyTorch's and ours, and the matrices for which they may differ
    "svdvals": (torch.linalg.svdvals, tt.linalg.svdvals, SINGULAR),
    "U diag(S) V": (
        lambda x: (lambda u, s, v: u @ (s[:, None] * v))(*torch.linalg.svd(x)),
        lambda x: (lambda u, s, v: u @ (s[:, None] * v))(*tt.linalg.svd(x)),
        EQUAL | {"large"},  # equal values: NaN here; zeros: 1 here, NaN there
    ),
    "eigvalsh": (
        lambda x: torch.linalg.eigvalsh(half_of_both(x)),
        lambda x: tt.linalg.eigvalsh(half_of_both(x)),
        EQUAL,
    ),
    "V diag(L²) V": (
        lambda x: (lambda values, v: v @ (values[:, None] ** 2 * v.mT))(*torch.linalg.eigh(half_of_both(x))),
        lambda x: (lambda values, v: v @ (values[:, None] ** 2 * v.mT))(*tt.linalg.eigh(half_of_both(x))),
        EQUAL,  # the same
    ),
    "det": (torch.linalg.det, tt.linalg.det, SINGULAR | EXTREME),  # the adjugate here
    "slogdet": (lambda x: torch.linalg.slogdet(x)[1], lambda x: tt.linalg.slogdet(x)[1], SINGULAR | {"all sizes"}),
    "inv": (torch.linalg.inv, tt.linalg.inv, {"small"}),  # signs of infinities
    "solve": (
        lambda x: torch.linalg.solve(x, torch.ones(len(x), 1, dtype=x.dtype)),
        lambda x: tt.linalg.solve(x, tt.ones((len(x), 1), dtype=x.dtype)),
        set(),
    ),
    "cholesky": (torch.linalg.cholesky, tt.linalg.cholesky, set()),
    "|R|": (lambda x: abs(torch.linalg.qr(x)[1]), lambda x: abs(tt.linalg.qr(x)[1]), SINGULAR),
    "Q R": (
        lambda x: (lambda q, r: q @ r)(*torch.linalg.qr(x)),
        lambda x: (lambda q, r: q @ r)(*tt.linalg.qr(x)),
        SINGULAR,  # right here, or an error; NaN there
    ),
    "pinv": (torch.linalg.pinv, tt.linalg.pinv, EXTREME),
    "matrix_power": (lambda x: torch.linalg.matrix_power(x, 3), lambda x: tt.linalg.matrix_power(x, 3), EXTREME),
    "eigvals": (
        lambda x: torch.sort(abs(torch.linalg.eigvals(x)))[0],
        lambda x: tt.sort(abs(tt.linalg.eigvals(x))),
        SINGULAR | EQUAL | {"two equal"},
    ),
    **{
        f"norm {order}": (
            lambda x, order=order: torch.linalg.matrix_norm(x, order),
            lambda x, order=order: tt.linalg.matrix_norm(x, ord=order),
            {"0 x 0"} if order in (1, 2, INF) else SINGULAR if order in ("nuc", -2) else set(),  # of nothing: an error
        )
        for order in ("fro", "nuc", 1, 2, -2, INF)
    },
}


def outcome(function):
    try:
        return function()
    except Exception as error:
        return error


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OF_MATRICES)
def test_matrices(name, dtype):
    theirs, ours, otherwise = OF_MATRICES[name]
    for kind in MATRICES.keys() - otherwise:
        given = torch.tensor(MATRICES[kind], dtype=getattr(torch, dtype), requires_grad=True)
        leaf = tt.tensor(MATRICES[kind], dtype=dtype, requires_grad=True)
        with np.errstate(all="ignore"):
            expected, found = outcome(lambda: theirs(given)), outcome(lambda: ours(leaf))
            failed = [isinstance(each, Exception) for each in (expected, found)]
            if any(failed):
                assert all(failed), (kind, expected, found)
                continue
            weights = torch.arange(1.0, 1 + expected.numel(), dtype=given.dtype).reshape(expected.shape)
            (gradient,) = torch.autograd.grad((expected * weights).sum(), given)
            (own,) = tt.grad(tt.sum(found * tt.asarray(weights.numpy())), [leaf])
        for mine, other in ((found.detach(), expected.detach()), (own, gradient)):
            assert same(mine.numpy(), other.numpy(), dtype, 5 * finite(other.numpy())), (kind, mine, other)
