"""How loops are compiled, which arrays they take, and functions of numbers that they can do on many at once."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import hashlib
import math
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, serialize
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload, register_jitable

from ..machine.files import atomic_write, read_file

instructions: Any = intrinsic  # for mypy, to which the first parameter of what it makes is one of its callers'

REALS = (np.dtype("float32"), np.dtype("float64"))

FAST = {"reassoc", "contract", "nsz"}
OPTIONS: dict[str, Any] = {"error_model": "numpy", "forceinline": True}
"""A function that a loop calls becomes a part of it.

Otherwise a process that finds loops on disk may call another copy than the one that compiled them: whichever loop it
reads first brings its own, which may add numbers up in another order.
"""


def loop(function: Any, fastmath: Any = FAST) -> Any:
    """A function over raw arrays, compiled; other threads run meanwhile."""
    options: dict[str, Any] = {"nogil": True, "fastmath": fastmath, "no_cfunc_wrapper": True, **OPTIONS}
    return _kept(numba.njit(function, **options), function)


def part(function: Any) -> Any:
    """A function that loops call, compiled with them; called from Python, it is not compiled.

    It takes half the time of a `loop` to compile: no way into it from Python is made, and one for all numbers that
    stand in its calls, where a `loop` is compiled anew for `f(x, 0)` and for `f(x, 1)`.
    """
    return register_jitable(fastmath=FAST, no_cfunc_wrapper=True, **OPTIONS)(function)


def called(function: Any) -> Callable[[Any], Any]:
    """A function that is compiled once for a dtype and called by its address: `call` in loops, `ctypes` in Python.

    It takes numbers alone: first one of that dtype, which tells it, then whole ones, such as addresses and lengths. A
    loop that calls it takes less time to compile than one that it is a part of, and has the same bits in any process.

    Returned is a function that gives it for a dtype, with its `address`, which no loop may keep on disk.
    """

    found: dict[Any, Any] = {}

    @functools.wraps(function)
    def compiled(dtype: Any) -> Any:
        if dtype not in found:
            with _one_at_a_time:
                found[dtype] = found.get(dtype) or compile_for(dtype)
        return found[dtype]

    def compile_for(dtype: Any) -> Any:
        arguments = numba.from_dtype(dtype), *[types.int64] * (function.__code__.co_argcount - 1)
        result = _kept(CFunc(function, (arguments, types.void), {}, {"fastmath": FAST, **OPTIONS}), function)
        result.compile()
        return result

    return compiled


_one_at_a_time = threading.RLock()


def _kept(compiled: Any, function: Any) -> Any:
    """The same, kept on disk for the next process, where there are files of ours, and a folder to write to."""
    with contextlib.suppress(RuntimeError, NumbaError, OSError):
        compiled._cache = Kept(function)
    return compiled


def load_types() -> None:
    """Let Numba load all that it knows of types, as it would at its first compilation, and can only once."""
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


class Kept(FunctionCache):
    """Numba's cache of a function, for as long as no file of this folder changes.

    Numba looks at the function's own file alone. Our loops call code of other files by address; a stale one would pass
    wrong arguments and write anywhere. So the name of a cache file has a hash of the whole folder, and files with
    another hash are removed.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._base = self._impl.filename_base
        self._cache_file: Any = Files(Path(self.cache_path), f"{self._base}.{_sources()}")

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):  # a full disk, say: this process has it, and the next compiles anew
            super().save_overload(sig, data)
        for file in Path(self.cache_path).glob(f"{glob.escape(self._base)}.*"):
            if f".{_sources()}." not in file.name and file.suffix in (".nbi", ".nbc"):
                with contextlib.suppress(OSError):  # another process has removed it, or reads it
                    file.unlink()


class Files:
    """Compiled code on disk: a file for each signature, processor and Numba, not numbered files with an index.

    Two processes that compile for two dtypes at a time may take the same number there, and who reads the index is then
    handed code for the other dtype. A file begins with a hash of the rest; a damaged one is as good as none.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name

    def save(self, key: Any, data: Any) -> None:
        of = self._told(key)
        content = serialize.dumps((of, data))
        atomic_write(self._path(of), hashlib.sha256(content).digest() + content)

    def load(self, key: Any) -> Any:
        of = self._told(key)
        try:
            found = read_file(self._path(of))
        except OSError:
            return None
        start = hashlib.sha256().digest_size
        if hashlib.sha256(found[start:]).digest() != found[:start]:
            return None
        what, data = pickle.loads(found[start:])
        return data if what == of else None

    def _told(self, key: Any) -> str:
        return repr((numba.__version__, key))

    def _path(self, of: str) -> Path:
        return self.folder / f"{self.name}.{hashlib.sha256(of.encode()).hexdigest()[:16]}.nbc"

    def flush(self) -> None:
        """Nothing is held back."""


@functools.cache
def _sources() -> str:
    """A hash of the files of this folder. Raises FileNotFoundError where they are none, as in an archive."""
    files = sorted(file for file in Path(__file__).parent.glob("[!.]*.py") if file.is_file())
    if not files:
        raise FileNotFoundError(f"no files in {Path(__file__).parent}")
    return hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()[:16]


_addresses: dict[Any, Any] = {}


def addresses(dtype: Any, *functions: Any) -> Any:
    """The addresses of functions that are `called`, for a dtype; 0 for None.

    Loops know the array by its own address, so it lives for good. `functools.cache` would drop one of two that threads
    make at the same time.
    """
    if (key := (dtype, functions)) not in _addresses:
        found = [0 if function is None else function(dtype).address for function in functions]
        _addresses.setdefault(key, np.array(found, np.int64))
    return _addresses[key]


@instructions
def call(typing: Any, address: Any, arguments: Any) -> Any:
    """Call what is `called` by its address, with these numbers."""

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        numbers = [
            number if isinstance(kind, types.Float) else context.cast(builder, number, kind, types.int64)
            for number, kind in zip(cgutils.unpack_tuple(builder, values[1]), arguments)
        ]
        kind = ir.FunctionType(ir.VoidType(), [number.type for number in numbers])
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), numbers)
        return context.get_dummy_value()

    return types.void(types.int64, arguments), write


def fits(*arrays: Any) -> bool:
    """True if the loops take these arrays: of one dtype they know, contiguous, not empty. None is passed over."""
    dtype = arrays[0].dtype
    present = [a for a in arrays if a is not None]
    return dtype in REALS and not [a for a in present if not (a.dtype == dtype and a.size and a.flags.carray)]


# ---- the addresses of arrays


HEAD = object.__basicsize__  # bytes of an object before what it holds: of an array, first where its elements lie


def address(array: Any) -> int:
    """Where the elements of an array lie; ten times faster than to ask NumPy."""
    return ctypes.c_void_p.from_address(id(array) + HEAD).value or 0


def places(*arrays: Any) -> Any:
    """Where some arrays lie; 0 for None."""
    return np.array([0 if array is None else address(array) for array in arrays], np.int64)


def distances(mask: Any) -> tuple[int, ...]:
    """Return the strides of the first three axes in bytes, 0 for axes of one element, and three zeros for None.

    Raises ValueError if the elements of a row are not contiguous, as the loops need them.
    """
    if mask is None:
        return 0, 0, 0
    if mask.ndim == 4 and mask.shape[3] > 1 and mask.strides[3] != mask.itemsize:
        raise ValueError(f"distances: strides {mask.strides}; expected contiguous rows of {mask.itemsize} bytes each")
    return tuple(n * (m > 1) for n, m in zip(mask.strides, mask.shape[:3]))


def or_zeros(bias: Any, size: int, dtype: Any) -> Any:
    """A vector for loops that add one, there or not."""
    return np.zeros(size, dtype) if bias is None else bias


@instructions
def numbers(typing: Any, address: Any, like: Any) -> Any:
    """The numbers that lie at an address, of the type of `like`, to be read and written by their index."""
    kind = types.CPointer(like)

    def turn(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(kind))

    return kind(types.int64, like), turn


@instructions
def named(typing: Any, address: Any, like: Any, names: Any) -> Any:
    """The numbers at an address, of the type of `like`, by their names: those of a namedtuple's class."""
    fields = names.instance_class
    kind = types.NamedUniTuple(types.unliteral(like), len(fields._fields), fields)

    def load(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        first = builder.inttoptr(values[0], context.get_value_type(kind.dtype).as_pointer())
        found = [builder.load(builder.gep(first, [ir.IntType(64)(i)])) for i in range(kind.count)]
        return context.make_tuple(builder, kind, found)

    return kind(types.int64, like, names), load


# ---- the exponential function, in arithmetic that the compiler can do on many elements at once


LOG2_E = np.float32(math.log2(math.e))
LN2_HIGH = np.float32(0.693359375)  # few bits, so that its product with a small integer is exact
LN2_LOW = np.float32(math.log(2) - 0.693359375)
TERMS = tuple(np.float32(1 / math.factorial(k)) for k in range(8))
LEAST = np.float32(-87.3)  # e to this is the smallest number with all its digits; below, the result is 0


def _exp(x: Any) -> Any:
    """e^x, for x up to 88 in float32."""
    return math.exp(x)


def _exp32(x):
    n = np.floor(x * LOG2_E + np.float32(0.5))  # e^x = 2^n e^r with |r| <= ln(2)/2
    r = x - n * LN2_HIGH - n * LN2_LOW
    y = TERMS[7]
    for k in (6, 5, 4, 3, 2, 1, 0):
        y = TERMS[k] + r * y
    two_to_n = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)  # n put where the exponent is
    return np.float32(0) if x < LEAST else y * two_to_n


@overload(_exp, jit_options={"fastmath": {"contract"}})  # in another order, r would lose digits
def _choose_exp(x):
    return _exp32 if x == numba.float32 else (lambda x: math.exp(x))
