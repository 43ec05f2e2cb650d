"""Methods of a Tensor under PyTorch's names: each is one line over a function, and gives what PyTorch's gives.

`docs/names.md` has the rule. Arguments are in PyTorch's order and bear our names (`axis`, `keepdims`).
`import tinytensor as tt` at the top is a circular import on purpose: the names are looked up when called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Never, TypeAlias

import tinytensor as tt

from .. import dtypes
from ..functions.reductions import normalize_axes, normalize_axis
from ..tensor import Tensor, part_of_tensor

if TYPE_CHECKING:
    from ..typing import ArrayLike, Axis, DType, Operand, TensorCore
else:
    TensorCore = object

Integer: TypeAlias = int  # in the class below, `int`, `float` and `bool` are methods
Number: TypeAlias = float
Truth: TypeAlias = bool


class Count(int):
    """A number of elements, which PyTorch's spelling calls: `x.size()` is the shape, `x.size(0)` one length."""

    def __new__(cls, x: TensorCore) -> Count:
        count = super().__new__(cls, x._data.size)
        count.shape = x._data.shape
        return count

    shape: tuple[int, ...]

    def __call__(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[normalize_axis("size", dim, self.shape, "dim")]

    def __reduce__(self) -> Any:
        return int, (int(self),)


@part_of_tensor
class Methods(TensorCore):
    """The part of `Tensor` behind `x.floor()`, `x.add(y)`, `x.view(2, 3)`, `x.float()`, `x.numel()`, ..."""

    __slots__ = ()

    @property
    def size(self) -> Count:
        """The number of elements; called as PyTorch's method it gives the shape, and `x.size(0)` a length."""
        return Count(self)

    # ---- of one Tensor, element by element

    def acos(self) -> Tensor:
        """The angle whose cosine is x."""
        return tt.acos(self)

    def acosh(self) -> Tensor:
        """The inverse of cosh."""
        return tt.acosh(self)

    def asin(self) -> Tensor:
        """The angle whose sine is x."""
        return tt.asin(self)

    def asinh(self) -> Tensor:
        """The inverse of sinh."""
        return tt.asinh(self)

    def atan(self) -> Tensor:
        """The angle whose tangent is x."""
        return tt.atan(self)

    def atanh(self) -> Tensor:
        """The inverse of tanh."""
        return tt.atanh(self)

    def ceil(self) -> Tensor:
        """The smallest integer not below x, in x's dtype."""
        return tt.ceil(self)

    def conj(self) -> Tensor:
        """The complex conjugate; real numbers are their own."""
        return tt.conj(self)

    def cosh(self) -> Tensor:
        """The hyperbolic cosine."""
        return tt.cosh(self)

    def expm1(self) -> Tensor:
        """exp(x) - 1, accurate for small x."""
        return tt.expm1(self)

    def floor(self) -> Tensor:
        """The largest integer not above x, in x's dtype."""
        return tt.floor(self)

    def isfinite(self) -> Tensor:
        """True where x is neither infinite nor NaN."""
        return tt.isfinite(self)

    def isinf(self) -> Tensor:
        """True where x is infinite."""
        return tt.isinf(self)

    def log10(self) -> Tensor:
        """The logarithm to base 10."""
        return tt.log10(self)

    def log1p(self) -> Tensor:
        """log(1 + x), accurate for small x."""
        return tt.log1p(self)

    def log2(self) -> Tensor:
        """The logarithm to base 2."""
        return tt.log2(self)

    def logical_not(self) -> Tensor:
        """True where x is false (zero)."""
        return tt.logical_not(self)

    def negative(self) -> Tensor:
        """-x, element by element."""
        return tt.negative(self)

    def positive(self) -> Tensor:
        """+x: a copy through which gradients flow."""
        return tt.positive(self)

    def reciprocal(self) -> Tensor:
        """1 / x, element by element."""
        return tt.reciprocal(self)

    def sign(self) -> Tensor:
        """-1, 0 or 1: the sign of each element."""
        return tt.sign(self)

    def signbit(self) -> Tensor:
        """True where the sign bit is set: for negative numbers and for -0."""
        return tt.signbit(self)

    def sinh(self) -> Tensor:
        """The hyperbolic sine."""
        return tt.sinh(self)

    def square(self) -> Tensor:
        """x * x, element by element."""
        return tt.square(self)

    def tan(self) -> Tensor:
        """The tangent of x in radians."""
        return tt.tan(self)

    def trunc(self) -> Tensor:
        """The integer part of x, in x's dtype."""
        return tt.trunc(self)

    def neg(self) -> Tensor:
        """-x, element by element."""
        return tt.negative(self)

    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """x limited to the interval from min to max (either may be missing); at a bound the gradient passes."""
        return tt.clip(self, min, max)

    def tril(self, k: Integer = 0) -> Tensor:
        """x with zeros above the k-th diagonal of its last two dimensions."""
        return tt.tril(self, k=k)

    def triu(self, k: Integer = 0) -> Tensor:
        """x with zeros below the k-th diagonal of its last two dimensions."""
        return tt.triu(self, k=k)

    def digamma(self) -> Tensor:
        """The derivative of `lgamma`."""
        return tt.special.digamma(self)

    def erfc(self) -> Tensor:
        """1 - erf(x), accurate even where that is close to 0."""
        return tt.special.erfc(self)

    def erfinv(self) -> Tensor:
        """The inverse of erf."""
        return tt.special.erfinv(self)

    def exp2(self) -> Tensor:
        """2 to the power x."""
        return tt.exp2(self)

    def lgamma(self) -> Tensor:
        """log(|gamma(x)|), which `tt.special` calls gammaln, as SciPy does."""
        return tt.special.gammaln(self)

    def logit(self, eps: Number | None = None) -> Tensor:
        """log(x / (1 - x)), the inverse of sigmoid; with `eps`, x is first kept that far from 0 and 1."""
        return tt.special.logit(self, eps)

    def nan_to_num(self, nan: Number = 0.0, posinf: Number | None = None, neginf: Number | None = None) -> Tensor:
        """x with numbers in place of NaN, inf and -inf; the last two default to the dtype's largest and smallest."""
        return tt.nan_to_num(self, nan, posinf, neginf)

    def rsqrt(self) -> Tensor:
        """1 / sqrt(x)."""
        return tt.rsqrt(self)

    def sinc(self) -> Tensor:
        """sin(pi x) / (pi x), and 1 at 0."""
        return tt.sinc(self)

    # ---- of two

    def add(self, other: Operand, *, alpha: Number = 1) -> Tensor:
        """x + alpha * other, element by element."""
        return tt.add(self, other if alpha == 1 else tt.multiply(other, alpha))

    def atan2(self, other: Operand) -> Tensor:
        """The angle of the point (other, x), from -pi to pi."""
        return tt.atan2(self, other)

    def bitwise_and(self, other: Operand) -> Tensor:
        """The bits set in both x and other."""
        return tt.bitwise_and(self, other)

    def bitwise_left_shift(self, other: Operand) -> Tensor:
        """x shifted to the left by other bits; by its width or more, nothing is left."""
        return tt.bitwise_left_shift(self, other)

    def bitwise_or(self, other: Operand) -> Tensor:
        """The bits set in either."""
        return tt.bitwise_or(self, other)

    def bitwise_right_shift(self, other: Operand) -> Tensor:
        """x shifted to the right by other bits; by its width or more, only the sign is left, 0 or -1."""
        return tt.bitwise_right_shift(self, other)

    def bitwise_xor(self, other: Operand) -> Tensor:
        """The bits set in exactly one."""
        return tt.bitwise_xor(self, other)

    def copysign(self, other: Operand) -> Tensor:
        """The magnitude of x with the sign of other; at x = 0 its gradient is 0."""
        return tt.copysign(self, other)

    def div(self, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """x / other; integers divide to the default float dtype.

        Args:
            rounding_mode: "floor" for `floor_divide`, "trunc" for the integer part. These have gradient 0.
        """
        if rounding_mode not in (None, "floor", "trunc"):
            raise ValueError(f"div: rounding_mode must be None, 'floor' or 'trunc', got {rounding_mode!r}")
        if rounding_mode == "floor":
            return tt.floor_divide(self, other)
        quotient = tt.divide(self, other)
        if rounding_mode is None:
            return quotient
        return tt.astype(tt.trunc(quotient), tt.result_type(self, other), copy=False)

    divide = div

    def eq(self, other: Operand) -> Tensor:
        """x == other, element by element."""
        return tt.equal(self, other)

    def floor_divide(self, other: Operand) -> Tensor:
        """floor(x / other); its gradient is 0, as it is constant between its steps."""
        return tt.floor_divide(self, other)

    def ge(self, other: Operand) -> Tensor:
        """x >= other, element by element."""
        return tt.greater_equal(self, other)

    def greater(self, other: Operand) -> Tensor:
        """x > other, element by element."""
        return tt.greater(self, other)

    def greater_equal(self, other: Operand) -> Tensor:
        """x >= other, element by element."""
        return tt.greater_equal(self, other)

    def gt(self, other: Operand) -> Tensor:
        """x > other, element by element."""
        return tt.greater(self, other)

    def hypot(self, other: Operand) -> Tensor:
        """sqrt(x**2 + other**2), without overflow; its gradient at (0, 0) is 0."""
        return tt.hypot(self, other)

    def le(self, other: Operand) -> Tensor:
        """x <= other, element by element."""
        return tt.less_equal(self, other)

    def less(self, other: Operand) -> Tensor:
        """x < other, element by element."""
        return tt.less(self, other)

    def less_equal(self, other: Operand) -> Tensor:
        """x <= other, element by element."""
        return tt.less_equal(self, other)

    def logaddexp(self, other: Operand) -> Tensor:
        """log(exp(x) + exp(other)), without overflow."""
        return tt.logaddexp(self, other)

    def logical_and(self, other: Operand) -> Tensor:
        """True where both x and other are true (not zero)."""
        return tt.logical_and(self, other)

    def logical_or(self, other: Operand) -> Tensor:
        """True where x or other is true (not zero)."""
        return tt.logical_or(self, other)

    def logical_xor(self, other: Operand) -> Tensor:
        """True where exactly one of x and other is true (not zero)."""
        return tt.logical_xor(self, other)

    def lt(self, other: Operand) -> Tensor:
        """x < other, element by element."""
        return tt.less(self, other)

    def maximum(self, other: Operand) -> Tensor:
        """The larger of x and other, NaN before all; equal ones share the gradient evenly."""
        return tt.maximum(self, other)

    def minimum(self, other: Operand) -> Tensor:
        """The smaller of x and other, NaN before all; equal ones share the gradient evenly."""
        return tt.minimum(self, other)

    def mul(self, other: Operand) -> Tensor:
        """x * other, element by element."""
        return tt.multiply(self, other)

    def multiply(self, other: Operand) -> Tensor:
        """x * other, element by element."""
        return tt.multiply(self, other)

    def ne(self, other: Operand) -> Tensor:
        """x != other, element by element."""
        return tt.not_equal(self, other)

    def nextafter(self, other: Operand) -> Tensor:
        """The next representable number after x towards other."""
        return tt.nextafter(self, other)

    def not_equal(self, other: Operand) -> Tensor:
        """x != other, element by element."""
        return tt.not_equal(self, other)

    def pow(self, other: Operand) -> Tensor:
        """x to the power other; x**0 is 1 with gradient 0, and integers to a negative power need a float."""
        return tt.pow(self, other)

    def remainder(self, other: Operand) -> Tensor:
        """x - floor(x / other) * other: the remainder with the sign of other."""
        return tt.remainder(self, other)

    def sub(self, other: Operand, *, alpha: Number = 1) -> Tensor:
        """x - alpha * other, element by element."""
        return tt.subtract(self, other if alpha == 1 else tt.multiply(other, alpha))

    subtract = sub

    def true_divide(self, other: Operand) -> Tensor:
        """x / other; integers divide to the default float dtype."""
        return tt.divide(self, other)

    def where(self, condition: ArrayLike, other: Operand) -> Tensor:
        """This Tensor's elements where the condition is true, the other's elsewhere."""
        return tt.where(condition, self, other)

    def fmax(self, other: Operand) -> Tensor:
        """The larger of x and other, or the one that is not NaN."""
        return tt.fmax(self, other)

    def fmin(self, other: Operand) -> Tensor:
        """The smaller of x and other, or the one that is not NaN."""
        return tt.fmin(self, other)

    def xlogy(self, other: Operand) -> Tensor:
        """x log(other), and 0 where x is 0."""
        return tt.special.xlogy(self, other)

    # ---- products and norms

    def bmm(self, other: ArrayLike) -> Tensor:
        """The matrix products of two stacks of matrices."""
        return tt.matmul(self, other)

    def dot(self, other: ArrayLike) -> Tensor:
        """The product of two vectors, a number."""
        return tt.matmul(self, other)

    def mm(self, other: ArrayLike) -> Tensor:
        """The product of two matrices."""
        return tt.matmul(self, other)

    def mv(self, other: ArrayLike) -> Tensor:
        """The product of a matrix and a vector."""
        return tt.matmul(self, other)

    def det(self) -> Tensor:
        """The determinant; at a singular matrix its gradient is the adjugate (transposed)."""
        return tt.linalg.det(self)

    def inverse(self) -> Tensor:
        """The inverse. Raises ValueError for a singular matrix."""
        return tt.linalg.inv(self)

    def trace(self) -> Tensor:
        """The sum of the diagonal."""
        return tt.linalg.trace(self)

    def outer(self, other: ArrayLike) -> Tensor:
        """Every product of an element of this vector with one of the other: (n,), (m,) -> (n, m)."""
        return tt.linalg.outer(self, other)

    def norm(
        self,
        p: Number | str = "fro",
        axis: Axis = None,
        keepdims: Truth = False,
        *,
        dtype: DType = None,
        **unknown: Never,
    ) -> Tensor:
        """The p-norm over `axis` (default: of all elements as one vector); "fro" is 2, "nuc" the nuclear norm."""
        if unknown:
            raise tt.hints.unknown_keyword("norm", unknown)
        x = self if dtype is None else self._as(dtype)
        axes = normalize_axes("norm", axis, self.shape)
        if p not in ("fro", "nuc") and isinstance(p, str):
            raise ValueError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r}")
        if p == "nuc":
            return tt.linalg.matrix_norm(x, "nuc", axes, keepdims=keepdims)
        return tt.linalg.vector_norm(x, 2 if isinstance(p, str) else p, axis=axes, keepdims=keepdims)

    def inner(self, other: ArrayLike) -> Tensor:
        """The products summed over the last dimension of both."""
        return tt.inner(self, other)

    def kron(self, other: ArrayLike) -> Tensor:
        """The Kronecker product: each element of x times the whole of other, as blocks."""
        return tt.kron(self, other)

    def diag(self, k: Integer = 0) -> Tensor:
        """A matrix with this vector on its k-th diagonal; for a matrix, its k-th diagonal."""
        return tt.diag(self, k=k)

    # ---- over an axis

    def amax(self, axis: Axis = None, keepdims: Truth = False, **unknown: Never) -> Tensor:
        """The largest element over `axis`, NaN before all; equal ones share the gradient evenly."""
        if unknown:
            raise tt.hints.unknown_keyword("amax", unknown)
        return tt.max(self, axis=normalize_axes("amax", axis, self.shape), keepdims=keepdims)

    def amin(self, axis: Axis = None, keepdims: Truth = False, **unknown: Never) -> Tensor:
        """The smallest element over `axis`, NaN before all; equal ones share the gradient evenly."""
        if unknown:
            raise tt.hints.unknown_keyword("amin", unknown)
        return tt.min(self, axis=normalize_axes("amin", axis, self.shape), keepdims=keepdims)

    def count_nonzero(self, axis: Axis = None, **unknown: Never) -> Tensor:
        """The number of elements over `axis` that are not zero."""
        if unknown:
            raise tt.hints.unknown_keyword("count_nonzero", unknown)
        return tt.count_nonzero(self, axis=axis)

    def cumprod(self, axis: Integer = 0, *, dtype: DType = None, **unknown: Never) -> Tensor:
        """Running products along `axis`; gradients are exact also at zeros."""
        if unknown:
            raise tt.hints.unknown_keyword("cumprod", unknown)
        return tt.cumulative_prod(self, axis=normalize_axis("cumprod", axis, self.shape), dtype=dtype)

    def cumsum(self, axis: Integer = 0, *, dtype: DType = None, **unknown: Never) -> Tensor:
        """Running sums along `axis`."""
        if unknown:
            raise tt.hints.unknown_keyword("cumsum", unknown)
        return tt.cumulative_sum(self, axis=normalize_axis("cumsum", axis, self.shape), dtype=dtype)

    def diff(
        self,
        n: Integer = 1,
        axis: Integer = -1,
        prepend: ArrayLike | None = None,
        append: ArrayLike | None = None,
        **unknown: Never,
    ) -> Tensor:
        """The differences between neighbours along `axis`, taken n times, of x with `prepend` and `append` joined."""
        if unknown:
            raise tt.hints.unknown_keyword("diff", unknown)
        return tt.diff(self, n=n, axis=axis, prepend=prepend, append=append)

    def logcumsumexp(self, axis: Integer, **unknown: Never) -> Tensor:
        """log(cumsum(exp(x))) along `axis`, without overflow."""
        if unknown:
            raise tt.hints.unknown_keyword("logcumsumexp", unknown)
        return tt.logcumsumexp(self, axis=axis)

    def nanmean(self, axis: Axis = None, keepdims: Truth = False, **unknown: Never) -> Tensor:
        """The mean of the elements over `axis` that are not NaN."""
        if unknown:
            raise tt.hints.unknown_keyword("nanmean", unknown)
        return tt.nanmean(self, axis=axis, keepdims=keepdims)

    def nansum(self, axis: Axis = None, keepdims: Truth = False, **unknown: Never) -> Tensor:
        """The sum of the elements over `axis` that are not NaN."""
        if unknown:
            raise tt.hints.unknown_keyword("nansum", unknown)
        return tt.nansum(self, axis=axis, keepdims=keepdims)

    def quantile(
        self, q: Any, axis: Axis = None, keepdims: Truth = False, *, interpolation: str = "linear", **unknown: Never
    ) -> Tensor:
        """The values below which the shares q of the elements over `axis` fall."""
        if unknown:
            raise tt.hints.unknown_keyword("quantile", unknown)
        return tt.quantile(self, q, axis=axis, keepdims=keepdims, interpolation=interpolation)

    def topk(
        self, k: Integer, axis: Integer = -1, largest: Truth = True, sorted: Truth = True, **unknown: Never
    ) -> tuple[Tensor, Tensor]:
        """The k largest elements in descending order, or the smallest in ascending order, and their places."""
        if unknown:
            raise tt.hints.unknown_keyword("topk", unknown)
        return tt.topk(self, k, axis=axis, largest=largest, sorted=sorted)

    # ---- the same elements, elsewhere

    def broadcast_to(self, shape: Any) -> Tensor:
        """x repeated along new dimensions and along those of length 1, without a copy."""
        return tt.broadcast_to(self, shape)

    def contiguous(self) -> Tensor:
        """This Tensor: its layout in memory makes no difference here."""
        return tt.asarray(self)

    def expand(self, *shape: Any, **unknown: Never) -> Tensor:
        """Broadcast to a shape; -1 leaves a length as it is."""
        if unknown:
            raise tt.hints.unknown_keyword("expand", unknown, ["*shape"])
        lengths = _joined(shape)
        old = (-1,) * (len(lengths) - len(self.shape)) + self.shape
        return tt.broadcast_to(self, tuple(was if n == -1 else n for n, was in zip(lengths, old)))

    def expand_as(self, other: Tensor) -> Tensor:
        """x broadcast to the shape of another Tensor, without a copy."""
        return tt.broadcast_to(self, other.shape)

    def flip(self, *dims: Any) -> Tensor:
        """x with the elements along `dims` in reverse order."""
        return tt.flip(self, axis=_joined(dims))

    def index_select(self, axis: Integer, indices: ArrayLike) -> Tensor:
        """The slices of x at the integer `indices` along `axis`."""
        return tt.take(self, indices, axis=normalize_axis("index_select", axis, self.shape))

    def moveaxis(self, source: Integer | Sequence[Integer], destination: Integer | Sequence[Integer]) -> Tensor:
        """x with the dimensions `source` moved to the places `destination`; the others keep their order."""
        return tt.moveaxis(self, source, destination)

    movedim = moveaxis

    def ravel(self) -> Tensor:
        """The elements as one dimension, in row-major order."""
        return tt.reshape(self, (-1,))

    def reshape_as(self, other: Tensor) -> Tensor:
        """The elements in the shape of another Tensor, in row-major order."""
        return tt.reshape(self, other.shape)

    def roll(self, shift: Any, axis: Axis = None) -> Tensor:
        """x with the elements along `axis` shifted; those that leave at one end come in at the other."""
        return tt.roll(self, shift, axis=axis)

    def swapaxes(self, axis1: Integer, axis2: Integer) -> Tensor:
        """x with two dimensions swapped."""
        first = normalize_axis("swapaxes", axis1, self.shape, "axis1")
        return tt.functions.shapes.transpose(self, first, normalize_axis("swapaxes", axis2, self.shape, "axis2"))

    swapdims = swapaxes

    def t(self) -> Tensor:
        """The transpose of a matrix; a vector as it is."""
        return tt.asarray(self) if len(self.shape) < 2 else tt.asarray(self).T

    def tile(self, *repetitions: Any) -> Tensor:
        """x repeated as a whole, `repetitions[i]` times along dimension i."""
        return tt.tile(self, _joined(repetitions))

    def unbind(self, axis: Integer = 0) -> tuple[Tensor, ...]:
        """The slices of x along `axis`."""
        return tt.unstack(self, axis=normalize_axis("unbind", axis, self.shape))

    def view(self, *shape: Any, **unknown: Never) -> Tensor:
        """The elements in another shape, in row-major order; one length may be -1. Copies where it has to."""
        if unknown:
            raise tt.hints.unknown_keyword("view", unknown, ["*shape"])
        return tt.reshape(self, _joined(shape))

    def view_as(self, other: Tensor) -> Tensor:
        """The elements in the shape of another Tensor, in row-major order."""
        return tt.reshape(self, other.shape)

    # ---- what it is

    def dim(self) -> Integer:
        """The number of dimensions."""
        return self.ndim

    def element_size(self) -> Integer:
        """The bytes of one element."""
        return self.dtype.itemsize

    def is_complex(self) -> Truth:
        """True if the elements are complex numbers."""
        return self.dtype.kind == "c"

    def is_floating_point(self) -> Truth:
        """True if the elements are floats."""
        return self.dtype.kind == "f"

    def nelement(self) -> Integer:
        """The number of elements."""
        return self.size

    numel = nelement
    ndimension = dim

    # ---- in another dtype; as it is where it has that dtype

    def type_as(self, other: Tensor) -> Tensor:
        """x in the dtype of another Tensor."""
        return self._as(other.dtype)

    def bool(self) -> Tensor:
        """x as booleans: True where an element is not zero."""
        return self._as(dtypes.bool_)

    def double(self) -> Tensor:
        """x as float64."""
        return self._as(dtypes.float64)

    def float(self) -> Tensor:
        """x as float32."""
        return self._as(dtypes.float32)

    def half(self) -> Tensor:
        """x as float16."""
        return self._as(dtypes.float16)

    def int(self) -> Tensor:
        """x as int32."""
        return self._as(dtypes.int32)

    def long(self) -> Tensor:
        """x as int64."""
        return self._as(dtypes.int64)

    def short(self) -> Tensor:
        """x as int16."""
        return self._as(dtypes.int16)

    def _as(self, dtype: DType) -> Tensor:
        return tt.astype(self, dtype, copy=False)


def _joined(lengths: tuple[Any, ...]) -> tuple[Any, ...]:
    """The lengths that were passed as arguments, or as one tuple."""
    return tuple(lengths[0]) if len(lengths) == 1 and isinstance(lengths[0], (tuple, list)) else lengths
