"""A stand-in for CuPy on machines without a GPU: NumPy behind CuPy's names, with CuPy's manners where they hurt.

NumPy arrays as operands, conversion to NumPy other than by `asnumpy`, and names that CuPy 13 lacks are errors;
reductions give 0-d arrays; indices out of range wrap round in silence; of several values written to one place the
first remains; every array can be written to, one that was broadcast at all its places at once, from memory that
overlaps in any order; `add.at` and `maximum.at` know the dtypes of CUDA's atomic operations only.
"""

import builtins
import operator
from types import SimpleNamespace

import arithmetic_of_cupy
import cuda_on_cpu
import graphs_of_cupy
import linalg_of_cupy
import numpy as np

float16, float32, float64, int32, int64, uint64 = np.float16, np.float32, np.float64, np.int32, np.int64, np.uint64
__version__ = "of the tests"
bool_, dtype, newaxis, inf, nan, pi = np.bool_, np.dtype, None, np.inf, np.nan, np.pi


class ndarray:
    """An array "on the GPU". Nothing is forwarded to the NumPy array inside but what is named here."""

    __slots__ = ("__weakref__", "_array")
    __array_ufunc__ = None
    __array_priority__ = 100
    __hash__ = None

    def __init__(self, array):
        self._array = array
        graphs_of_cupy.keep(array)

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to convert.")

    def __dlpack_device__(self):
        return (2, 0)

    def __repr__(self):
        return f"cupy:{self._array!r}"

    @property
    def base(self):
        return None if self._array.base is None else ndarray(self._array.base)

    @property
    def data(self):
        root = self._array
        while isinstance(root.base, np.ndarray):
            root = root.base
        if not root.size:  # nothing is allocated for nothing
            return SimpleNamespace(mem=SimpleNamespace(ptr=0), ptr=0)
        return SimpleNamespace(mem=SimpleNamespace(ptr=root.ctypes.data), ptr=self._array.ctypes.data)

    @property
    def flags(self):
        flags = self._array.flags
        return SimpleNamespace(c_contiguous=flags.c_contiguous, f_contiguous=flags.f_contiguous, owndata=flags.owndata)

    def get(self):
        graphs_of_cupy.refuse_to_read()
        return self._array.copy()

    def item(self):
        graphs_of_cupy.refuse_to_read()
        return self._array.item()

    def tolist(self):
        graphs_of_cupy.refuse_to_read()
        return self._array.tolist()

    def fill(self, value):
        graphs_of_cupy.later(lambda: self._array.fill(_raw(value)))

    def set(self, value):
        assert not graphs_of_cupy.capturing(), "a copy from the CPU"
        self._array[...] = value

    def __len__(self):
        return len(self._array)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __bool__(self):
        graphs_of_cupy.refuse_to_read()
        return bool(self._array)

    def __int__(self):
        graphs_of_cupy.refuse_to_read()
        return int(self._array)

    def __float__(self):
        graphs_of_cupy.refuse_to_read()
        return float(self._array)

    def __index__(self):
        graphs_of_cupy.refuse_to_read()
        return operator.index(self._array)

    def __getitem__(self, key):
        if any_of_dtype("b", key):
            graphs_of_cupy.refuse_to_read()  # how many are true says how large the result is
        return _wrapped(graphs_of_cupy.computed(_get, (self._array, key), {}))

    def __setitem__(self, key, value):
        graphs_of_cupy.later(lambda: _set(self._array, key, _raw(value)))


def any_of_dtype(kind, key):
    parts = key if isinstance(key, tuple) else (key,)
    return builtins.any(isinstance(part, ndarray) and part._array.dtype.kind == kind for part in parts)


def _get(array, key):
    return array[_key(array, key)]


def _set(array, key, value):
    key = _key(array, key)
    if not _names_places(key):
        _write(array, key, value)
        return
    places = np.arange(array.size).reshape(array.shape)[key]
    values = np.broadcast_to(value, places.shape)
    array.flat[places.ravel()[::-1]] = values.ravel()[::-1].astype(array.dtype)


def _write(array, key, value):
    """`array[key] = value`. CuPy leaves equal layouts to `cudaMemcpyAsync`, which may read what it has just written."""
    part = array[key]
    alike = isinstance(value, np.ndarray) and (part.shape, part.strides) == (value.shape, value.strides)
    if alike and part.dtype == value.dtype and part.flags.c_contiguous and np.may_share_memory(part, value):
        for place in np.ndindex(part.shape):
            part[place] = value[place]
    else:
        array[key] = value


def _raw(value):
    if isinstance(value, ndarray):
        return value._array
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(value, (list, tuple)):
        return type(value)([_raw(v) for v in value])
    return value


def _wrapped(result):
    if isinstance(result, (tuple, list)):
        return tuple(map(_wrapped, result))
    if not isinstance(result, (np.ndarray, np.generic)):
        return result
    array = np.asarray(result)
    if not array.flags.writeable:
        array.flags.writeable = True  # CuPy knows nothing else, what was broadcast included
    return ndarray(array)


def _lifted(function):
    def lifted(*args, **kwargs):
        if kwargs:
            if not kwargs.get("where", True) or "initial" in kwargs:
                raise TypeError("Wrong arguments: CuPy knows no `where` or `initial` here")
            kwargs = {name: _raw(value) for name, value in kwargs.items()}
        with np.errstate(all="ignore"):  # a GPU tells nobody of overflows, whatever NumPy was asked to do about them
            return _wrapped(graphs_of_cupy.computed(function, tuple(map(_raw, args)), kwargs))

    return lifted


def _key(array, key):
    """The key with raw arrays in it, integers out of range wrapped round."""
    parts = [_raw(part) for part in (key if isinstance(key, tuple) else (key,))]
    used = builtins.sum(_dimensions(part) for part in parts if part is not Ellipsis)
    axis = 0
    for i, part in enumerate(parts):
        if isinstance(part, np.ndarray) and part.dtype.kind in "iu" and array.shape[axis]:
            parts[i] = part % array.shape[axis]
        axis += array.ndim - used if part is Ellipsis else _dimensions(part)
    return tuple(parts)


def _dimensions(part):
    return 0 if part is None else part.ndim if isinstance(part, np.ndarray) and part.dtype.kind == "b" else 1


def _names_places(key):
    return builtins.any(isinstance(part, np.ndarray) and part.dtype.kind in "iu" for part in key)


FACTS = "dtype shape ndim size nbytes strides itemsize"
VIEWS = "T real imag"
METHODS = """
    all any argmax argmin argsort astype clip conj copy cumprod cumsum diagonal dot flatten max mean min nonzero prod
    ravel repeat reshape round squeeze std sum swapaxes take trace transpose var view
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __matmul__ __rmatmul__ __and__ __rand__
    __or__ __ror__ __xor__ __rxor__ __lt__ __le__ __gt__ __ge__ __eq__ __ne__ __neg__ __pos__ __abs__ __invert__
"""
OPERATORS = {
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor"
FUNCTIONS = """
    abs absolute add all allclose any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin
    array_equal bincount bitwise_and bitwise_or bitwise_xor broadcast_to ceil clip concatenate conj copysign cos
    cosh count_nonzero cumprod cumsum diagonal diff divide dot einsum empty empty_like equal exp exp2 expand_dims
    expm1 eye flip floor floor_divide fmax fmin fmod full full_like greater greater_equal hypot imag invert isfinite
    isinf isnan left_shift less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not
    logical_or logical_xor matmul max maximum mean min minimum mod moveaxis multiply negative nextafter nonzero
    not_equal ones ones_like outer power prod ravel real reciprocal remainder repeat reshape right_shift rint roll
    searchsorted sign signbit sin sinc sinh sqrt square squeeze stack std subtract sum swapaxes take take_along_axis
    tan tanh tensordot tile transpose tril triu true_divide trunc var where zeros zeros_like
"""


def _in_place(change):
    def changed(self, other):
        graphs_of_cupy.later(lambda: change(self._array, _raw(other)))
        return self

    return changed


for _name in FACTS.split():
    setattr(ndarray, _name, property(operator.attrgetter(f"_array.{_name}")))
for _name in VIEWS.split():
    setattr(ndarray, _name, property(lambda self, name=_name: _wrapped(getattr(self._array, name))))
for _name in METHODS.split():
    setattr(ndarray, _name, _lifted(getattr(np.ndarray, _name)))
for _name in IN_PLACE.split():
    setattr(ndarray, f"__{_name}__", _in_place(getattr(operator, _name)))
for _name in FUNCTIONS.split():
    globals()[_name] = _lifted(getattr(arithmetic_of_cupy, _name, getattr(np, _name)))
for _name in OPERATORS:
    setattr(ndarray, f"__{_name}__", lambda self, other, name=OPERATORS[_name]: globals()[name](self, other))
    setattr(ndarray, f"__r{_name}__", lambda self, other, name=OPERATORS[_name]: globals()[name](other, self))
mod = remainder  # noqa: F821


def _at(function, known):
    """`function.at`. Of several values for one place the last comes first: atomic operations keep no order."""

    def at(a, slices, value):
        graphs_of_cupy.later(lambda: add_up(a, slices, value))

    def add_up(a, slices, value):
        key, value = _key(a._array, slices), _raw(value)
        if not _names_places(key):
            function.at(a._array, key, value)
            return
        if a.dtype.type not in known:
            raise TypeError(f"{function.__name__}.at does not support {a.dtype}")
        places = np.arange(a.size).reshape(a.shape)[key]
        values = np.broadcast_to(value, places.shape).astype(a.dtype)
        whole = a._array.ravel()
        function.at(whole, places.ravel()[::-1], values.ravel()[::-1])
        a._array[...] = whole.reshape(a.shape)

    return at


_COMPARED = (np.int32, np.float32, np.float64, np.uint32, np.uint64)
add.at = _at(np.add, (*_COMPARED, np.float16))  # noqa: F821
maximum.at = _at(np.maximum, _COMPARED)  # noqa: F821

LINALG = "cholesky det eig eigh inv norm qr slogdet solve svd"
linalg = SimpleNamespace(**{name: _lifted(getattr(linalg_of_cupy, name)) for name in LINALG.split()})
fft = SimpleNamespace(**{n: _lifted(getattr(arithmetic_of_cupy, n)) for n in ("fft", "ifft", "rfft", "irfft")})
_core = SimpleNamespace(
    get_compute_type=arithmetic_of_cupy.get_compute_type,
    set_compute_type=arithmetic_of_cupy.set_compute_type,
    _routines_linalg=arithmetic_of_cupy,
)
cuda = SimpleNamespace(
    is_available=lambda: True,
    Device=lambda device=None: SimpleNamespace(synchronize=lambda: None),
    **graphs_of_cupy.namespace(),
)


if cuda_on_cpu.COMPILER:
    RawModule = cuda_on_cpu.RawModule


def array(value, dtype=None, copy=True, order="K"):
    """From NumPy, CuPy, numbers and lists: here alone a NumPy array may come in."""
    raw = value._array if isinstance(value, ndarray) else value
    if isinstance(value, ndarray) and not copy and (dtype is None or raw.dtype == dtype):
        return value
    if graphs_of_cupy.capturing():
        if not isinstance(value, ndarray):
            raise RuntimeError("the current stream is capturing, so H2D transfers are disallowed")
        return ndarray(graphs_of_cupy.computed(np.array, (raw,), {"dtype": dtype, "order": order}))
    return ndarray(np.array(_raw(raw) if isinstance(raw, (list, tuple)) else raw, dtype=dtype, order=order))


def argsort(a, axis=-1, kind=None):
    """Always stable, as CuPy's, which sorts vectors of floats by their bits: NaN with a sign comes first."""
    return ndarray(graphs_of_cupy.computed(_argsort, (_raw(a), axis), {}))


def _argsort(raw, axis):
    order = np.argsort(raw, axis=axis, kind="stable")
    if raw.ndim == 1:
        signed = _signed_nan(raw)[order]
        order = np.concatenate([order[signed], order[~signed]])
    return order


def unique(ar, **options):
    graphs_of_cupy.refuse_to_read()
    assert not _signed_nan(_raw(ar)).any(), "CuPy would sort it to the front"
    return _wrapped(np.unique(_raw(ar), **options))


def isin(element, test_elements, **options):
    graphs_of_cupy.refuse_to_read()
    assert not _signed_nan(_raw(test_elements)).any(), "CuPy would sort it to the front, and not find others"
    return ndarray(np.isin(_raw(element), _raw(test_elements), **options))


def _signed_nan(array):
    return np.isnan(array) & np.signbit(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)


def asarray(value, dtype=None, order="K"):
    return array(value, dtype, copy=False, order=order)


def ascontiguousarray(value, dtype=None):
    return array(value, dtype, copy=not value.flags.c_contiguous, order="C")


def asnumpy(value):
    return value.get() if isinstance(value, ndarray) else np.asarray(value)
