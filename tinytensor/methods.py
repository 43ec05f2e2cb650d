"""Methods of a Tensor under PyTorch's names: each is one line over a function, and gives what PyTorch's gives.

`docs/names.md` has the rule. Arguments are in PyTorch's order and bear our names (`axis`, `keepdims`).
`import tinytensor as tt` at the top is a circular import on purpose: the names are looked up when called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Never, TypeAlias

import tinytensor as tt

from . import dtypes
from .functions.reductions import normalize_axes, normalize_axis
from .tensor import Tensor, part_of_tensor

if TYPE_CHECKING:
    from .typing import ArrayLike, Axis, DType, Operand, TensorCore
else:
    TensorCore = object

Integer: TypeAlias = int  # in the class below, `int`, `float` and `bool` are methods
Number: TypeAlias = float
Truth: TypeAlias = bool


@part_of_tensor
class Methods(TensorCore):
    """What `Tensor` has of `x.floor()`, `x.add(y)`, `x.view(2, 3)`, `x.float()`, `x.numel()`, ..."""

    __slots__ = ()

    # ---- of one Tensor, element by element

    def acos(self) -> Tensor:
        return tt.acos(self)

    def acosh(self) -> Tensor:
        return tt.acosh(self)

    def asin(self) -> Tensor:
        return tt.asin(self)

    def asinh(self) -> Tensor:
        return tt.asinh(self)

    def atan(self) -> Tensor:
        return tt.atan(self)

    def atanh(self) -> Tensor:
        return tt.atanh(self)

    def ceil(self) -> Tensor:
        return tt.ceil(self)

    def conj(self) -> Tensor:
        return tt.conj(self)

    def cosh(self) -> Tensor:
        return tt.cosh(self)

    def expm1(self) -> Tensor:
        return tt.expm1(self)

    def floor(self) -> Tensor:
        return tt.floor(self)

    def isfinite(self) -> Tensor:
        return tt.isfinite(self)

    def isinf(self) -> Tensor:
        return tt.isinf(self)

    def log10(self) -> Tensor:
        return tt.log10(self)

    def log1p(self) -> Tensor:
        return tt.log1p(self)

    def log2(self) -> Tensor:
        return tt.log2(self)

    def logical_not(self) -> Tensor:
        return tt.logical_not(self)

    def negative(self) -> Tensor:
        return tt.negative(self)

    def positive(self) -> Tensor:
        return tt.positive(self)

    def reciprocal(self) -> Tensor:
        return tt.reciprocal(self)

    def sign(self) -> Tensor:
        return tt.sign(self)

    def signbit(self) -> Tensor:
        return tt.signbit(self)

    def sinh(self) -> Tensor:
        return tt.sinh(self)

    def square(self) -> Tensor:
        return tt.square(self)

    def tan(self) -> Tensor:
        return tt.tan(self)

    def trunc(self) -> Tensor:
        return tt.trunc(self)

    def neg(self) -> Tensor:
        return tt.negative(self)

    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        return tt.clip(self, min, max)

    def tril(self, k: Integer = 0) -> Tensor:
        return tt.tril(self, k=k)

    def triu(self, k: Integer = 0) -> Tensor:
        return tt.triu(self, k=k)

    # ---- of two

    def add(self, other: Operand) -> Tensor:
        return tt.add(self, other)

    def atan2(self, other: Operand) -> Tensor:
        return tt.atan2(self, other)

    def bitwise_and(self, other: Operand) -> Tensor:
        return tt.bitwise_and(self, other)

    def bitwise_left_shift(self, other: Operand) -> Tensor:
        return tt.bitwise_left_shift(self, other)

    def bitwise_or(self, other: Operand) -> Tensor:
        return tt.bitwise_or(self, other)

    def bitwise_right_shift(self, other: Operand) -> Tensor:
        return tt.bitwise_right_shift(self, other)

    def bitwise_xor(self, other: Operand) -> Tensor:
        return tt.bitwise_xor(self, other)

    def copysign(self, other: Operand) -> Tensor:
        return tt.copysign(self, other)

    def div(self, other: Operand) -> Tensor:
        return tt.divide(self, other)

    def divide(self, other: Operand) -> Tensor:
        return tt.divide(self, other)

    def eq(self, other: Operand) -> Tensor:
        return tt.equal(self, other)

    def floor_divide(self, other: Operand) -> Tensor:
        return tt.floor_divide(self, other)

    def ge(self, other: Operand) -> Tensor:
        return tt.greater_equal(self, other)

    def greater(self, other: Operand) -> Tensor:
        return tt.greater(self, other)

    def greater_equal(self, other: Operand) -> Tensor:
        return tt.greater_equal(self, other)

    def gt(self, other: Operand) -> Tensor:
        return tt.greater(self, other)

    def hypot(self, other: Operand) -> Tensor:
        return tt.hypot(self, other)

    def le(self, other: Operand) -> Tensor:
        return tt.less_equal(self, other)

    def less(self, other: Operand) -> Tensor:
        return tt.less(self, other)

    def less_equal(self, other: Operand) -> Tensor:
        return tt.less_equal(self, other)

    def logaddexp(self, other: Operand) -> Tensor:
        return tt.logaddexp(self, other)

    def logical_and(self, other: Operand) -> Tensor:
        return tt.logical_and(self, other)

    def logical_or(self, other: Operand) -> Tensor:
        return tt.logical_or(self, other)

    def logical_xor(self, other: Operand) -> Tensor:
        return tt.logical_xor(self, other)

    def lt(self, other: Operand) -> Tensor:
        return tt.less(self, other)

    def maximum(self, other: Operand) -> Tensor:
        return tt.maximum(self, other)

    def minimum(self, other: Operand) -> Tensor:
        return tt.minimum(self, other)

    def mul(self, other: Operand) -> Tensor:
        return tt.multiply(self, other)

    def multiply(self, other: Operand) -> Tensor:
        return tt.multiply(self, other)

    def ne(self, other: Operand) -> Tensor:
        return tt.not_equal(self, other)

    def nextafter(self, other: Operand) -> Tensor:
        return tt.nextafter(self, other)

    def not_equal(self, other: Operand) -> Tensor:
        return tt.not_equal(self, other)

    def pow(self, other: Operand) -> Tensor:
        return tt.pow(self, other)

    def remainder(self, other: Operand) -> Tensor:
        return tt.remainder(self, other)

    def sub(self, other: Operand) -> Tensor:
        return tt.subtract(self, other)

    def subtract(self, other: Operand) -> Tensor:
        return tt.subtract(self, other)

    def true_divide(self, other: Operand) -> Tensor:
        return tt.divide(self, other)

    def where(self, condition: ArrayLike, other: Operand) -> Tensor:
        """This Tensor's elements where the condition is true, the other's elsewhere."""
        return tt.where(condition, self, other)

    # ---- products and norms

    def bmm(self, other: ArrayLike) -> Tensor:
        return tt.matmul(self, other)

    def dot(self, other: ArrayLike) -> Tensor:
        return tt.matmul(self, other)

    def mm(self, other: ArrayLike) -> Tensor:
        return tt.matmul(self, other)

    def mv(self, other: ArrayLike) -> Tensor:
        return tt.matmul(self, other)

    def det(self) -> Tensor:
        return tt.linalg.det(self)

    def inverse(self) -> Tensor:
        return tt.linalg.inv(self)

    def trace(self) -> Tensor:
        return tt.linalg.trace(self)

    def outer(self, other: ArrayLike) -> Tensor:
        return tt.linalg.outer(self, other)

    def norm(self, p: Number = 2, *, axis: Axis = None, keepdims: Truth = False, **unknown: Never) -> Tensor:
        """The p-norm over `axis`, of all elements as one vector by default."""
        if unknown:
            raise tt.hints.unknown_keyword("norm", unknown)
        axes = normalize_axes("norm", axis, self.shape)
        return tt.linalg.vector_norm(self, ord=p, axis=axes, keepdims=keepdims)

    # ---- over an axis

    def amax(self, axis: Axis = None, keepdims: Truth = False, **unknown: Never) -> Tensor:
        if unknown:
            raise tt.hints.unknown_keyword("amax", unknown)
        return tt.max(self, axis=normalize_axes("amax", axis, self.shape), keepdims=keepdims)

    def amin(self, axis: Axis = None, keepdims: Truth = False, **unknown: Never) -> Tensor:
        if unknown:
            raise tt.hints.unknown_keyword("amin", unknown)
        return tt.min(self, axis=normalize_axes("amin", axis, self.shape), keepdims=keepdims)

    def count_nonzero(self, axis: Axis = None, **unknown: Never) -> Tensor:
        if unknown:
            raise tt.hints.unknown_keyword("count_nonzero", unknown)
        return tt.count_nonzero(self, axis=axis)

    def cumprod(self, axis: Integer = 0, **unknown: Never) -> Tensor:
        if unknown:
            raise tt.hints.unknown_keyword("cumprod", unknown)
        return tt.cumulative_prod(self, axis=normalize_axis("cumprod", axis, self.shape))

    def cumsum(self, axis: Integer = 0, **unknown: Never) -> Tensor:
        if unknown:
            raise tt.hints.unknown_keyword("cumsum", unknown)
        return tt.cumulative_sum(self, axis=normalize_axis("cumsum", axis, self.shape))

    def diff(self, n: Integer = 1, *, axis: Integer = -1, **unknown: Never) -> Tensor:
        if unknown:
            raise tt.hints.unknown_keyword("diff", unknown)
        return tt.diff(self, n=n, axis=axis)

    def topk(self, k: Integer, axis: Integer = -1, **unknown: Never) -> tuple[Tensor, Tensor]:
        """The k largest elements in descending order, and their places."""
        if unknown:
            raise tt.hints.unknown_keyword("topk", unknown)
        return tt.topk(self, k, axis=axis)

    # ---- the same elements, elsewhere

    def broadcast_to(self, shape: Any) -> Tensor:
        return tt.broadcast_to(self, shape)

    def contiguous(self) -> Tensor:
        """This Tensor: how it lies in memory makes no difference here."""
        return tt.asarray(self)

    def expand(self, *shape: Any) -> Tensor:
        """Broadcast to a shape, in which -1 leaves a length as it is."""
        lengths = _joined(shape)
        old = (-1,) * (len(lengths) - len(self.shape)) + self.shape
        return tt.broadcast_to(self, tuple(was if n == -1 else n for n, was in zip(lengths, old)))

    def expand_as(self, other: Tensor) -> Tensor:
        return tt.broadcast_to(self, other.shape)

    def flip(self, *dims: Any) -> Tensor:
        return tt.flip(self, axis=_joined(dims))

    def index_select(self, axis: Integer, indices: ArrayLike) -> Tensor:
        return tt.take(self, indices, axis=normalize_axis("index_select", axis, self.shape))

    def moveaxis(self, source: Integer | Sequence[Integer], destination: Integer | Sequence[Integer]) -> Tensor:
        return tt.moveaxis(self, source, destination)

    movedim = moveaxis

    def ravel(self) -> Tensor:
        return tt.reshape(self, (-1,))

    def reshape_as(self, other: Tensor) -> Tensor:
        return tt.reshape(self, other.shape)

    def roll(self, shift: Any, axis: Axis = None) -> Tensor:
        return tt.roll(self, shift, axis=axis)

    def swapaxes(self, axis1: Integer, axis2: Integer) -> Tensor:
        first = normalize_axis("swapaxes", axis1, self.shape, "axis1")
        return tt.functions.shapes.transpose(self, first, normalize_axis("swapaxes", axis2, self.shape, "axis2"))

    swapdims = swapaxes

    def t(self) -> Tensor:
        """The transpose of a matrix; a vector as it is."""
        return tt.asarray(self) if len(self.shape) < 2 else tt.asarray(self).T

    def tile(self, *repetitions: Any) -> Tensor:
        return tt.tile(self, _joined(repetitions))

    def unbind(self, axis: Integer = 0) -> tuple[Tensor, ...]:
        return tt.unstack(self, axis=normalize_axis("unbind", axis, self.shape))

    def view(self, *shape: Any) -> Tensor:
        return tt.reshape(self, _joined(shape))

    def view_as(self, other: Tensor) -> Tensor:
        return tt.reshape(self, other.shape)

    # ---- what it is

    def dim(self) -> Integer:
        """The number of dimensions."""
        return self.ndim

    def element_size(self) -> Integer:
        """The bytes of one element."""
        return self.dtype.itemsize

    def is_complex(self) -> Truth:
        return self.dtype.kind == "c"

    def is_floating_point(self) -> Truth:
        return self.dtype.kind == "f"

    def nelement(self) -> Integer:
        """The number of elements."""
        return self.size

    numel = nelement
    ndimension = dim

    # ---- in another dtype; as it is where it has that dtype

    def type_as(self, other: Tensor) -> Tensor:
        return self._as(other.dtype)

    def bool(self) -> Tensor:
        return self._as(dtypes.bool_)

    def double(self) -> Tensor:
        return self._as(dtypes.float64)

    def float(self) -> Tensor:
        return self._as(dtypes.float32)

    def half(self) -> Tensor:
        return self._as(dtypes.float16)

    def int(self) -> Tensor:
        return self._as(dtypes.int32)

    def long(self) -> Tensor:
        return self._as(dtypes.int64)

    def short(self) -> Tensor:
        return self._as(dtypes.int16)

    def _as(self, dtype: DType) -> Tensor:
        return tt.astype(self, dtype, copy=False)


def _joined(lengths: tuple[Any, ...]) -> tuple[Any, ...]:
    """The lengths that were passed as arguments, or as one tuple."""
    return tuple(lengths[0]) if len(lengths) == 1 and isinstance(lengths[0], (tuple, list)) else lengths
