"""A Tensor's operators, and the functions that people write as methods: each is the function of the same name.

`import tinytensor as tt` at the top is a circular import on purpose: the names are looked up when called.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Never

import tinytensor as tt

from ..functions.reductions import normalize_axes
from ..tensor import Tensor, part_of_tensor

if TYPE_CHECKING:
    from ..typing import ArrayLike, Axis, DType, Operand, TensorCore
else:
    TensorCore = object


@part_of_tensor
class Operators(TensorCore):
    """The part of `Tensor` behind `x + y`, `x @ y`, `x[i]`, `x.sum()`, ...

    Each method refuses unknown arguments itself: passing `**unknown` on costs a sixth of a small sum.
    """

    __slots__ = ()

    def __add__(self, other: Operand) -> Tensor:
        return tt.add(self, other)

    def __radd__(self, other: Operand) -> Tensor:
        return tt.add(other, self)

    def __sub__(self, other: Operand) -> Tensor:
        return tt.subtract(self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return tt.subtract(other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return tt.multiply(self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return tt.multiply(other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        return tt.divide(self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return tt.divide(other, self)

    def __floordiv__(self, other: Operand) -> Tensor:
        return tt.floor_divide(self, other)

    def __rfloordiv__(self, other: Operand) -> Tensor:
        return tt.floor_divide(other, self)

    def __mod__(self, other: Operand) -> Tensor:
        return tt.remainder(self, other)

    def __rmod__(self, other: Operand) -> Tensor:
        return tt.remainder(other, self)

    def __divmod__(self, other: Operand) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __pow__(self, other: Operand) -> Tensor:
        return tt.pow(self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return tt.pow(other, self)

    def __matmul__(self, other: ArrayLike) -> Tensor:
        return tt.matmul(self, other)

    def __rmatmul__(self, other: ArrayLike) -> Tensor:
        return tt.matmul(other, self)

    def __and__(self, other: Operand) -> Tensor:
        return tt.bitwise_and(self, other)

    def __rand__(self, other: Operand) -> Tensor:
        return tt.bitwise_and(other, self)

    def __or__(self, other: Operand) -> Tensor:
        return tt.bitwise_or(self, other)

    def __ror__(self, other: Operand) -> Tensor:
        return tt.bitwise_or(other, self)

    def __xor__(self, other: Operand) -> Tensor:
        return tt.bitwise_xor(self, other)

    def __rxor__(self, other: Operand) -> Tensor:
        return tt.bitwise_xor(other, self)

    def __lshift__(self, other: Operand) -> Tensor:
        return tt.bitwise_left_shift(self, other)

    def __rlshift__(self, other: Operand) -> Tensor:
        return tt.bitwise_left_shift(other, self)

    def __rshift__(self, other: Operand) -> Tensor:
        return tt.bitwise_right_shift(self, other)

    def __rrshift__(self, other: Operand) -> Tensor:
        return tt.bitwise_right_shift(other, self)

    def __neg__(self) -> Tensor:
        return tt.negative(self)

    def __pos__(self) -> Tensor:
        return tt.positive(self)

    def __abs__(self) -> Tensor:
        return tt.abs(self)

    def __round__(self, ndigits: int = 0) -> Tensor:
        return tt.round(self, decimals=ndigits)

    def __invert__(self) -> Tensor:
        return tt.bitwise_invert(self)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return tt.equal(self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return tt.not_equal(self, other)

    def __lt__(self, other: Operand) -> Tensor:
        return tt.less(self, other)

    def __le__(self, other: Operand) -> Tensor:
        return tt.less_equal(self, other)

    def __gt__(self, other: Operand) -> Tensor:
        return tt.greater(self, other)

    def __ge__(self, other: Operand) -> Tensor:
        return tt.greater_equal(self, other)

    # ---- indexing

    def __getitem__(self, key: Any) -> Tensor:
        return tt.functions.indexing.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        tt.functions.indexing.setitem(self, key, value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d Tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a 0-d Tensor")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool(tt.any(self == value))

    # ---- functions that people write as methods; each is the function of the same name

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix."""
        if len(self.shape) != 2:
            # An AttributeError, so that `hasattr` and tools that list attributes take it for an answer.
            raise AttributeError(f"T: expected 2 dimensions, got shape {self.shape}; use .mT or tt.permute_dims")
        return tt.matrix_transpose(self)

    @property
    def mT(self) -> Tensor:
        """The transpose of the last two dimensions."""
        if len(self.shape) < 2:
            raise AttributeError(f"mT: expected at least 2 dimensions, got shape {self.shape}")
        return tt.matrix_transpose(self)

    def abs(self) -> Tensor:
        """The absolute value; its gradient at 0 is 0."""
        return tt.abs(self)

    def all(self, axis: Axis = None, keepdims: bool = False, **unknown: Never) -> Tensor:
        """True if every element over `axis` is true (not zero)."""
        if unknown:
            raise tt.hints.unknown_keyword("all", unknown)
        return tt.all(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Axis = None, keepdims: bool = False, **unknown: Never) -> Tensor:
        """True if some element over `axis` is true (not zero)."""
        if unknown:
            raise tt.hints.unknown_keyword("any", unknown)
        return tt.any(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False, **unknown: Never) -> Tensor:
        """The index of the largest element along `axis` (None: of the flattened array); the first of equal ones."""
        if unknown:
            raise tt.hints.unknown_keyword("argmax", unknown)
        return tt.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False, **unknown: Never) -> Tensor:
        """The index of the smallest element along `axis` (None: of the flattened array); the first of equal ones."""
        if unknown:
            raise tt.hints.unknown_keyword("argmin", unknown)
        return tt.argmin(self, axis=axis, keepdims=keepdims)

    def argsort(self, axis: int = -1, descending: bool = False, stable: bool = True, **unknown: Never) -> Tensor:
        """The indices that sort x along `axis`; equal elements keep their order."""
        if unknown:
            raise tt.hints.unknown_keyword("argsort", unknown)
        return tt.argsort(self, axis=axis, descending=descending, stable=stable)

    def astype(self, dtype: DType, copy: bool = True) -> Tensor:
        """x in another dtype. Between floats gradients flow; `copy=False` gives x itself if nothing changes."""
        return tt.astype(self, dtype, copy=copy)

    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """x limited to the interval from min to max (either may be missing); at a bound the gradient passes."""
        return tt.clip(self, min, max)

    def clone(self) -> Tensor:
        """A copy in memory of its own; gradients flow through it."""
        return tt.positive(self)

    copy = clone

    def cos(self) -> Tensor:
        """The cosine of x in radians."""
        return tt.cos(self)

    def cumulative_sum(self, axis: int | None = None, **unknown: Never) -> Tensor:
        """Running sums along `axis`, which may be left out for one dimension."""
        if unknown:
            raise tt.hints.unknown_keyword("cumulative_sum", unknown)
        return tt.cumulative_sum(self, axis=axis)

    def erf(self) -> Tensor:
        """The error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
        return tt.erf(self)

    def exp(self) -> Tensor:
        """e to the power x."""
        return tt.exp(self)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """The elements of the dimensions from start_dim to end_dim as one, in row-major order."""
        return tt.functions.shapes.flatten(self, start_dim, end_dim)

    def isnan(self) -> Tensor:
        """True where x is NaN."""
        return tt.isnan(self)

    def log(self) -> Tensor:
        """The natural logarithm."""
        return tt.log(self)

    def logsumexp(self, axis: Axis = None, keepdims: bool = False, **unknown: Never) -> Tensor:
        """log(sum(exp(x))) over `axis`, without overflow; entries of -inf weigh nothing, and no entries give -inf."""
        if unknown:
            raise tt.hints.unknown_keyword("logsumexp", unknown)
        return tt.logsumexp(self, axis=axis, keepdims=keepdims)

    def masked_fill(self, mask: Operand, value: Operand) -> Tensor:
        """x with `value` (a number or a 0-d Tensor) wherever the boolean mask is true; the mask broadcasts to x."""
        return tt.masked_fill(self, mask, value)

    def matmul(self, other: ArrayLike) -> Tensor:
        """The matrix product over the last two dimensions; further ones broadcast."""
        return tt.matmul(self, other)

    def max(self, axis: Axis = None, keepdims: bool = False, **unknown: Never) -> Tensor:
        """The largest element over `axis`, NaN before all; equal ones share the gradient evenly."""
        if unknown:
            raise tt.hints.unknown_keyword("max", unknown)
        return tt.max(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False, *, dtype: DType = None, **unknown: Never) -> Tensor:
        """The arithmetic mean over `axis`, in `dtype` (default: that of x); NaN for no elements."""
        if unknown:
            raise tt.hints.unknown_keyword("mean", unknown)
        return tt.mean(self if dtype is None else tt.astype(self, dtype), axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False, **unknown: Never) -> Tensor:
        """The smallest element over `axis`, NaN before all; equal ones share the gradient evenly."""
        if unknown:
            raise tt.hints.unknown_keyword("min", unknown)
        return tt.min(self, axis=axis, keepdims=keepdims)

    def permute(self, *axes: Any, **unknown: Never) -> Tensor:
        """x with its dimensions in the order `axes`."""
        if unknown:
            raise tt.hints.unknown_keyword("permute", unknown, ["*axis"])
        return tt.permute_dims(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    def prod(self, axis: Axis = None, keepdims: bool = False, *, dtype: DType = None, **unknown: Never) -> Tensor:
        """The product over `axis`; its gradients are exact also where elements are zero."""
        if unknown:
            raise tt.hints.unknown_keyword("prod", unknown)
        return tt.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def reshape(self, *shape: Any, **unknown: Never) -> Tensor:
        """The elements in another shape, in row-major order; one length may be -1."""
        if unknown:
            raise tt.hints.unknown_keyword("reshape", unknown, ["*shape"])
        return tt.reshape(self, shape[0] if len(shape) == 1 else shape)

    def round(self, decimals: int = 0) -> Tensor:
        """The nearest integer, halves to the even one, in x's dtype; with `decimals` the nearest such decimal."""
        return tt.round(self, decimals=decimals)

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x)), without overflow, for real numbers."""
        return tt.sigmoid(self)

    def sin(self) -> Tensor:
        """The sine of x in radians."""
        return tt.sin(self)

    def sort(self, axis: int = -1, descending: bool = False, stable: bool = True, **unknown: Never) -> Tensor:
        """x sorted along `axis`; gradients go back to where the elements came from."""
        if unknown:
            raise tt.hints.unknown_keyword("sort", unknown)
        return tt.sort(self, axis=axis, descending=descending, stable=stable)

    def sqrt(self) -> Tensor:
        """The square root."""
        return tt.sqrt(self)

    def squeeze(self, axis: Axis = None, **unknown: Never) -> Tensor:
        """x without the dimensions `axis`, or without all of length 1."""
        if unknown:
            raise tt.hints.unknown_keyword("squeeze", unknown)
        if axis is None:
            axis = tuple(i for i, n in enumerate(self.shape) if n == 1)
        return tt.squeeze(self, axis)

    def std(
        self, axis: Axis = None, correction: float | None = None, keepdims: bool = False, **unknown: Never
    ) -> Tensor:
        """The standard deviation over `axis`, sqrt(var(x)); where all elements are equal its gradient is 0.

        Raises TypeError without a correction, or unbiased=, since PyTorch and NumPy mean different ones.
        """
        return tt.std(
            self, axis=axis, correction=_correction("std", self, axis, correction, unknown), keepdims=keepdims
        )

    def sum(self, axis: Axis = None, keepdims: bool = False, *, dtype: DType = None, **unknown: Never) -> Tensor:
        """The sum over `axis`. Integers add up in 64 bits; floats stay in their dtype unless `dtype` is given."""
        if unknown:
            raise tt.hints.unknown_keyword("sum", unknown)
        return tt.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def take(self, indices: ArrayLike, axis: int | None = None) -> Tensor:
        """The slices of x at the integer `indices` along `axis` (which may be left out for one dimension)."""
        return tt.take(self, indices, axis=axis)

    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
        return tt.tanh(self)

    def transpose(self, axis1: int, axis2: int) -> Tensor:
        """Swap two dimensions."""
        return tt.functions.shapes.transpose(self, axis1, axis2)

    def unsqueeze(self, axis: int) -> Tensor:
        """x with a new dimension of length 1 at `axis`."""
        return tt.functions.shapes.unsqueeze(self, axis)

    def var(
        self, axis: Axis = None, correction: float | None = None, keepdims: bool = False, **unknown: Never
    ) -> Tensor:
        """The variance over `axis`: the sum of squared deviations from the mean, over (count - correction).

        Raises TypeError without a correction, or unbiased=, since PyTorch and NumPy mean different ones.
        """
        return tt.var(
            self, axis=axis, correction=_correction("var", self, axis, correction, unknown), keepdims=keepdims
        )


def _correction(method: str, x: Any, axis: Axis, given: float | None, more: dict[str, Any]) -> float:
    """The number subtracted from the count; PyTorch calls 1 unbiased. Raises TypeError if neither says it."""
    unbiased = more.pop("unbiased", None) if given is None else None
    if more:
        raise tt.hints.unknown_keyword(method, more)
    if given is None and unbiased is None:
        normalize_axes(method, axis, x.shape)  # a mistake there is told first
        raise TypeError(
            f"{method}: PyTorch's method divides by n - 1, NumPy's by n; write x.{method}(correction=1) for PyTorch's, "
            f"or correction=0, as tt.{method}(x) means it"
        )
    return float(bool(unbiased)) if given is None else given
