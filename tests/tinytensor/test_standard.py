"""Every function and operator of the array API standard (2025.12), beside array-api-strict: dtypes, shapes, numbers.

The functions of one and of two arrays are found by their signatures, and called with every dtype of the standard, with
NaN, infinities and zeros of both signs, and with Python numbers beside arrays of every dtype. The others are called as
CALLS says. What the standard leaves open raises in array-api-strict, and is passed over.
"""

import inspect
import itertools
import operator
import re

import numpy as np
import pytest

import tinytensor as tt

strict = pytest.importorskip("array_api_strict")

NAMES_OF_DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
DTYPES = NAMES_OF_DTYPES.split()
NUMBERS = (True, 2, -3, 0.5, 2j, float("nan"), float("inf"))
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-30]
OTHERS = {"empty_like", "nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack"}
OTHERS |= {"isin", "matmul", "matrix_transpose", "searchsorted", "tensordot", "tril", "triu", "vecdot"}
"""Functions that are not element by element; they are in CALLS."""


def inputs(function):
    """The names of the arrays that a function of arrays alone takes; [] for any other."""
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty]
    return [p.name for p in needed] if all(p.kind is p.POSITIONAL_ONLY for p in needed) else []


FUNCTIONS = {name: getattr(strict, name) for name in strict.__all__ if inspect.isfunction(getattr(strict, name))}
ONE = [name for name, function in FUNCTIONS.items() if inputs(function) == ["x"] and name not in OTHERS]
TWO = [name for name, function in FUNCTIONS.items() if inputs(function) == ["x1", "x2"] and name not in OTHERS]


def some(dtype, small=False):
    """Numbers of a dtype; `small` ones are above 0, so that no integer is divided by 0 or overflows."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([True, False, True])
    if kind in "iu":
        if small:
            return np.array([1, 2, 5, 7], dtype=dtype)
        least = [-1, -3, np.iinfo(dtype).min] if kind == "i" else []
        return np.array([0, 1, 2, 7, np.iinfo(dtype).max, *least], dtype=dtype)
    if kind == "c":
        parts = itertools.product([*SPECIAL[:5], 1.0, -2.5], [0.0, -0.0, 1.0, -1.0, np.inf, np.nan])
        return np.array([complex(a, b) for a, b in parts], dtype=dtype)
    return np.array(SPECIAL, dtype=dtype)


UNDEFINED = (TypeError, ValueError, IndexError, OverflowError, np.linalg.LinAlgError, np.exceptions.ComplexWarning)
"""What array-api-strict raises where the standard says nothing."""


def flat(result):
    return [r for part in result for r in flat(part)] if isinstance(result, (tuple, list)) else [result]


def agree(call, *arrays):
    """Whether the standard defines a call; then ours has its dtype, shape and numbers, zeros with their sign."""
    try:
        expected = flat(
            call(strict, *[strict.asarray(np.array(a)) if isinstance(a, np.ndarray) else a for a in arrays])
        )
    except UNDEFINED:
        return False
    found = flat(call(tt, *[tt.asarray(a) if isinstance(a, np.ndarray) else a for a in arrays]))
    for a, b in zip(found, expected, strict=True):
        a, b = a.numpy(), np.asarray(b._array)
        told = [f"{x.dtype} {x.shape}" if isinstance(x, np.ndarray) else repr(x) for x in arrays]
        assert (a.dtype, a.shape) == (b.dtype, b.shape), told
        narrow = a.dtype in (np.float32, np.complex64)
        np.testing.assert_allclose(
            a, b, rtol=1e-4 if narrow else 1e-10, atol=1e-5 if narrow else 1e-12, err_msg=str(told)
        )
        if a.dtype.kind == "f":
            zero = (a == 0) & (b == 0)
            np.testing.assert_array_equal(np.signbit(a[zero]), np.signbit(b[zero]), err_msg=str(told))
    return True


@pytest.fixture(autouse=True)
def _in_silence():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", ONE)
def test_of_one_array(name):
    assert sum(agree(lambda xp, x: getattr(xp, name)(x), some(dtype)) for dtype in DTYPES)


@pytest.mark.parametrize("name", TWO)
def test_of_two_arrays(name):
    """Of two dtypes, and of one and a Python number on either side."""
    defined = 0
    for first, second in itertools.product(DTYPES, DTYPES):
        small = bool({np.dtype(first).kind, np.dtype(second).kind} & set("biu"))
        a, b = (x.reshape(-1) for x in np.meshgrid(some(first, small), some(second, small)))
        defined += agree(lambda xp, x, y: getattr(xp, name)(x, y), a, b)
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        defined += agree(lambda xp, x, y: getattr(xp, name)(x, y), some(dtype, small=True), number)
        defined += agree(lambda xp, x, y: getattr(xp, name)(x, y), number, some(dtype, small=True))
    assert defined


def test_there_are_many():
    assert len(ONE) > 40
    assert len(TWO) > 25


NAMES_OF_OPERATORS = "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift lt le gt ge eq ne"


@pytest.mark.parametrize("name", NAMES_OF_OPERATORS.split())
def test_an_operator_and_a_number(name):
    """On either side, and in place where there is such an operator."""
    plain, in_place = getattr(operator, name), getattr(operator, "i" + name.strip("_"), None)
    defined = 0
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        x = some(dtype, small=True)
        defined += agree(lambda xp, x, y: plain(x, y), x, number) + agree(lambda xp, x, y: plain(y, x), x, number)
        if in_place is not None:
            defined += agree(lambda xp, x, y: in_place(x, y), x, number)
    assert defined


# ---- all other functions: M is (2, 3), S (3, 3) and regular, T (2, 4, 3), V (3,), N a number, Z (0, 3)

CALLS = """
    xp.diff(M); xp.diff(M, axis=0); xp.diff(M, n=2); xp.diff(M, prepend=M, append=M); xp.diff(V, n=0)
    xp.searchsorted(xp.sort(V), M); xp.searchsorted(xp.sort(V), V, side='right')
    xp.searchsorted(V, V, sorter=xp.argsort(V)); xp.isin(M, V); xp.nonzero(M); xp.unique_all(M); xp.unique_counts(M)
    xp.unique_inverse(M); xp.unique_values(M); xp.unique_values(Z)
    xp.concat([M, M]); xp.concat([M, M], axis=1); xp.concat([M, V], axis=None); xp.concat((M, Z), axis=0)
    xp.stack([M, M], axis=-1); xp.stack([V, V]); xp.unstack(M); xp.unstack(M, axis=1)
    xp.expand_dims(M, axis=1); xp.expand_dims(M, axis=(0, 2)); xp.squeeze(xp.reshape(M, (1, 2, 3, 1)), axis=(0, 3))
    xp.squeeze(M, axis=()); xp.flip(M); xp.flip(M, axis=1); xp.flip(M, axis=(0, 1)); xp.roll(M, 1)
    xp.roll(M, (1, -1), axis=(0, 1)); xp.roll(M, 2, axis=1); xp.repeat(M, 2); xp.repeat(M, 2, axis=1)
    xp.repeat(M, xp.asarray([1, 0, 2]), axis=1); xp.tile(M, (2,)); xp.tile(M, (2, 1, 2)); xp.tile(M, ())
    xp.moveaxis(T, 0, -1); xp.moveaxis(T, (0, 1), (2, 0)); xp.permute_dims(T, (2, 0, 1)); xp.permute_dims(T, (-1, 0, 1))
    xp.matrix_transpose(T); xp.reshape(M, (3, -1)); xp.reshape(M, (6,), copy=True); xp.reshape(N, (1, 1))
    xp.reshape(Z, (0, 5)); xp.broadcast_to(V, (2, 3)); xp.broadcast_to(N, (2,)); xp.broadcast_arrays(M, V, N)
    xp.meshgrid(V, V); xp.meshgrid(V, V, indexing='ij'); xp.meshgrid(V); xp.tril(M); xp.triu(T, k=1); xp.tril(M, k=-1)
    xp.take(M, xp.asarray([2, 0, -1]), axis=1); xp.take(V, xp.asarray([1, 1]))
    xp.take_along_axis(M, xp.asarray([[0, 0, 1]]), axis=0); xp.take_along_axis(M, xp.asarray([[0], [2]]))
    xp.where(M > M, M, 2); xp.where(V == V, 1, V); xp.where(xp.asarray([True, False, True]), V, N)
    xp.clip(M, 1, 2); xp.clip(M, None, 2); xp.clip(M, V, None); xp.clip(M); xp.clip(M, 1.5, 2.5); xp.clip(M, max=V)
    xp.astype(M, xp.float32); xp.astype(M, xp.int8); xp.astype(M, xp.bool); xp.astype(M, xp.complex64)
    xp.astype(M, xp.float64, copy=False); xp.zeros_like(M); xp.ones_like(M, dtype=xp.int16); xp.full_like(M, 2)
    xp.full_like(M, True); xp.full_like(M, 1.5); xp.matmul(M, S); xp.matmul(V, V); xp.matmul(T, S); xp.matmul(S, V)
    xp.vecdot(M, V); xp.vecdot(T, T, axis=-2); xp.tensordot(M, S, axes=1); xp.tensordot(M, M, axes=0)
    xp.tensordot(T, T, axes=((0, 1), (0, 1))); xp.tensordot(S, S); M @ S; M.T; T.mT
    M[0, ...]; M[..., None]; M[:, ::-1]; M[1, 2]; M[M == M]; M[xp.asarray([0, 1]), xp.asarray([2, 0])]
    N[()]; N[...]; M[None, :, 1:]; M[-1, ...]; M[1:, :]
    xp.linalg.det(S); xp.linalg.inv(S); xp.linalg.solve(S, V); xp.linalg.solve(S, S); xp.linalg.slogdet(S)
    xp.linalg.trace(M); xp.linalg.trace(T, offset=1); xp.linalg.trace(M, dtype=xp.float64)
    xp.linalg.diagonal(T, offset=-1); xp.linalg.outer(V, V); xp.linalg.cross(S, V); xp.linalg.cross(S, S, axis=-2)
    xp.linalg.matrix_power(S, 3); xp.linalg.matrix_power(S, -1); xp.linalg.matrix_power(S, 0); xp.linalg.matrix_rank(S)
    xp.linalg.matrix_rank(M, rtol=0.5); xp.linalg.pinv(M); xp.linalg.pinv(M, rtol=0.3); xp.linalg.svdvals(M)
    xp.linalg.svd(M, full_matrices=False).S; xp.linalg.eigvalsh(S @ S.T); xp.linalg.eigh(S @ S.T).eigenvalues
    xp.linalg.cholesky(S @ S.T); xp.linalg.cholesky(S @ S.T, upper=True); xp.abs(xp.linalg.qr(M).R)
    xp.abs(xp.linalg.qr(M, mode='complete').R); xp.linalg.eig(S).eigenvalues; xp.linalg.eigvals(S)
    xp.linalg.vector_norm(M); xp.linalg.vector_norm(N); xp.linalg.vector_norm(T, axis=(0, 2), keepdims=True)
    xp.linalg.matrix_norm(M); xp.linalg.matrix_norm(T, keepdims=True)
    xp.fft.fftshift(M); xp.fft.ifftshift(M, axes=(1,))
"""
SEVERAL = """
    xp.{sum|prod|max|min|mean|all|any|std|var|count_nonzero}(M{|, axis=0|, axis=-1|, axis=(0, 1)|, axis=()})
    xp.{sum|prod|max|min|mean|all|any|std|var|count_nonzero}({N|Z, axis=1|M, axis=1, keepdims=True|T, axis=(2, 0)})
    xp.{sum|prod}(M, dtype=xp.{int64|float32|complex128})
    xp.{std|var}(M, correction={0|1|0.5}, axis={0|1})
    xp.{argmax|argmin}(M{|, axis=0|, axis=-1}{|, keepdims=True})
    xp.cumulative_{sum|prod}({V|M, axis=0|M, axis=-1, include_initial=True|M, axis=1, dtype=xp.complex128|Z, axis=0})
    xp.{sort|argsort}(M{|, axis=0}{|, descending=True|, stable=False})
    xp.linalg.vector_norm(M, ord={1|2|0|3|-1|xp.inf|-xp.inf|0.5}, axis=1)
    xp.linalg.matrix_norm(M, ord={1|2|-1|-2|xp.inf|-xp.inf|'nuc'|'fro'})
    xp.fft.{fft|ifft|rfft|irfft|hfft|ihfft}({V|M, n=4, axis=0, norm='ortho'|M, n=2, norm='forward'})
    xp.fft.{fftn|ifftn|rfftn|irfftn}({M|T, s=(3, 3), axes=(0, 2)|T, axes=(1, 0)})
"""
"""Calls with each of the options in braces, of which one is sometimes nothing."""


def spelt_out(pattern):
    parts = [part.split("|") if i % 2 else [part] for i, part in enumerate(re.split(r"[{}]", pattern.strip()))]
    return ["".join(choice) for choice in itertools.product(*parts)]


ALL_CALLS = [call.strip() for line in CALLS.strip().splitlines() for call in line.split(";")]
ALL_CALLS += [call for pattern in SEVERAL.strip().splitlines() for call in spelt_out(pattern)]


def operands(dtype):
    rng = np.random.default_rng(0)
    kind = np.dtype(dtype).kind

    def draw(*shape):
        whole = rng.integers(0, 4, shape) + (rng.integers(0, 3, shape) * 0.5 if kind in "fc" else 0)
        return np.asarray(whole + 1j * rng.integers(0, 2, shape) if kind == "c" else whole).astype(dtype)

    regular = (draw(3, 3) + np.diag([3, 5, 4])).astype(dtype)
    return {"M": draw(2, 3), "S": regular, "T": draw(2, 4, 3), "V": draw(3), "N": draw(), "Z": draw(0, 3)}


OPERANDS = {dtype: operands(dtype) for dtype in DTYPES}


@pytest.mark.parametrize("call", ALL_CALLS)
def test_a_call(call):
    code = compile(call, call, "eval")

    def run(xp, *arrays):
        return eval(code, {"xp": xp, **dict(zip("MSTVNZ", arrays))})

    assert sum(agree(run, *arrays.values()) for arrays in OPERANDS.values())


def test_every_function_is_called_here():
    """But those that make arrays, and those about dtypes, which are in `test_creation.py` and `test_namespace.py`."""
    places = [("", strict.__all__), ("linalg.", strict.linalg.__all__), ("fft.", strict.fft.__all__)]
    names = {p + n for p, some in places for n in some if inspect.isfunction(operator.attrgetter(p + n)(strict))}
    called = {name for name in names if any(f"xp.{name}(" in call for call in ALL_CALLS)} | {*ONE, *TWO}
    made = "arange empty empty_like eye full linspace ones zeros fft.fftfreq fft.rfftfreq __array_namespace_info__"
    told = "broadcast_shapes can_cast finfo iinfo isdtype result_type get_array_api_strict_flags"
    told += " reset_array_api_strict_flags set_array_api_strict_flags"
    again = {f"linalg.{name}" for name in ("matmul", "matrix_transpose", "tensordot", "vecdot")}  # as without `linalg.`
    assert names - called - again == {*made.split(), *told.split()}
