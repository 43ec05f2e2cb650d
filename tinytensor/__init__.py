"""tinytensor: arrays that remember how they were made, so that gradients can be taken.

The names are those of the Python array API standard (2025.12), over NumPy on the CPU and CuPy on a GPU; features of
PyTorch (`backward`, `no_grad`, `requires_grad`, ...) keep PyTorch's names. Start with `tensor`, `Tensor.backward`
and `op`, the decorator that declares new ops.
"""

import os
import sys
from importlib import import_module
from math import e, inf, nan, pi
from typing import TYPE_CHECKING, Any

if not os.path.isdir(os.path.join(__path__[0], "nn")):  # a checkout without links (Windows) has nn and models beside it
    __path__.append(os.path.dirname(__path__[0]))

from .backend import DeviceError
from .derivatives.gradients import grad
from .dtypes import bool_ as bool
from .dtypes import (
    can_cast,
    complex64,
    complex128,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    result_type,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .grad_mode import enable_grad, is_anomaly_enabled, is_grad_enabled, no_grad, set_grad_enabled, textbook
from .node import mark_written
from .primitive import OPS as ops
from .primitive import op
from .tensor import Tensor

if os.environ.get("TINYTENSOR_TEXTBOOK") != "1" and os.path.exists(os.path.join(__path__[0], "fast", "__init__.py")):
    from . import fast  # the engine room, which may be left out; before the ops, for which it has short cuts

# isort: split
from . import functions, in_place, random
from .functions.comparisons import (
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
    signbit,
)
from .functions.creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from .functions.einsum import einsum
from .functions.elementwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    clip,
    conj,
    copysign,
    cos,
    cosh,
    divide,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    floor_divide,
    hypot,
    imag,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    masked_fill,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    positive,
    pow,
    real,
    reciprocal,
    remainder,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinc,
    sinh,
    softplus,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
    where,
)
from .functions.indexing import index_set, put_along_axis, scatter, scatter_add, take, take_along_axis
from .functions.info import __array_namespace_info__
from .functions.products import matmul, tensordot, vecdot
from .functions.reductions import (
    all,
    any,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    logcumsumexp,
    logsumexp,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from .functions.searching import (
    argmax,
    argmin,
    argsort,
    isin,
    nonzero,
    one_hot,
    searchsorted,
    sort,
    topk,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from .functions.shapes import (
    astype,
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    split,
    squeeze,
    stack,
    tile,
    tril,
    triu,
    unstack,
)
from .machine.speed import (
    compile_loops,
    get_float32_matmul_precision,
    get_num_threads,
    keep_memory,
    set_float32_matmul_precision,
    set_num_threads,
    speed_up,
)
from .random import manual_seed
from .tensors import conversions, hooks, methods, missing, numpy_calls, operators

if TYPE_CHECKING:
    from . import fft, graph, linalg, models, nn, onnx, special, testing
    from .derivatives import complex_gradients
    from .derivatives.jacobians import hessian, jacobian, jvp, vjp
    from .derivatives.vectorizing import vmap
    from .functions.matrices import diag, hstack, inner, kron, vstack
    from .functions.nans import fmax, fmin, nan_to_num, nanmax, nanmean, nanmin, nansum
    from .functions.quantiles import median, quantile
    from .graph.comparison import compare
    from .graph.drawing import draw
    from .program import backward_program, print_backward
    from .record.compiled import compile
    from .recording.errors import explain_errors
    from .recording.record import detect_anomaly, named_scope, record
    from .tensors import hints
    from .testing.gradcheck import GradientError, gradcheck, gradgradcheck

__all__ = [
    "DeviceError", "GradientError", "Tensor", "__array_api_version__", "__array_namespace_info__", "__version__", "abs",
    "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort", "asarray", "asin", "asinh", "astype",
    "atan", "atan2", "atanh", "backward_program", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "bool", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast",
    "ceil", "clip", "compare", "compile", "compile_loops", "complex64", "complex128", "concat", "conj", "copysign",
    "cos", "cosh", "count_nonzero", "cumulative_prod", "cumulative_sum", "detect_anomaly", "diag", "diff", "divide",
    "draw", "e", "einsum", "empty", "empty_like", "enable_grad", "equal", "erf", "exp", "exp2", "expand_dims",
    "explain_errors", "expm1", "eye", "fft", "finfo", "flip", "float16", "float32", "float64", "floor", "floor_divide",
    "fmax", "fmin", "from_dlpack", "full", "full_like", "get_default_dtype", "get_float32_matmul_precision",
    "get_num_threads", "grad", "gradcheck", "gradgradcheck", "greater", "greater_equal", "hessian", "hstack", "hypot",
    "iinfo", "imag", "index_set", "inf", "inner", "int8", "int16", "int32", "int64", "is_anomaly_enabled",
    "is_grad_enabled", "isdtype", "isfinite", "isin", "isinf", "isnan", "jacobian", "jvp", "keep_memory", "kron",
    "less", "less_equal", "linalg", "linspace", "log", "log1p", "log2", "log10", "logaddexp", "logcumsumexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logsumexp", "manual_seed", "mark_written",
    "masked_fill", "matmul", "matrix_transpose", "max", "maximum", "mean", "median", "meshgrid", "min", "minimum",
    "moveaxis", "multiply", "named_scope", "nan", "nan_to_num", "nanmax", "nanmean", "nanmin", "nansum", "negative",
    "newaxis", "nextafter", "no_grad", "nonzero", "not_equal", "one_hot", "ones", "ones_like", "op", "ops",
    "permute_dims", "pi", "positive", "pow", "print_backward", "prod", "put_along_axis", "quantile", "random", "real",
    "reciprocal", "record", "remainder", "repeat", "reshape", "result_type", "roll", "round", "rsqrt", "scatter",
    "scatter_add", "searchsorted", "set_default_dtype", "set_float32_matmul_precision", "set_grad_enabled",
    "set_num_threads", "sigmoid", "sign", "signbit", "sin", "sinc", "sinh", "softplus", "sort", "speed_up", "split",
    "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "take", "take_along_axis", "tan", "tanh", "tensor",
    "tensordot", "textbook", "tile", "topk", "tril", "triu", "trunc", "uint8", "uint16", "uint32", "uint64",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack", "var", "vecdot", "vjp", "vmap",
    "vstack", "where", "zeros", "zeros_like",
]  # fmt: skip

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

newaxis = None

import_module(f"{__name__}.record.tape")
del globals()["record"]  # the package; the name is that of a function, which is loaded later
missing.hide_what_is_refused(sys.modules[__name__], random, random.Generator, Tensor)
missing.explain_arguments(sys.modules[__name__], missing.EXPLAINED["tinytensor"].split())
missing.explain_arguments(Tensor, missing.EXPLAINED["Tensor"].split())

_ROOMS = {
    "graph": "compare", "graph.drawing": "draw", "program": "backward_program print_backward",
    "record.compiled": "compile", "recording": "named_scope record detect_anomaly explain_errors",
    "testing": "GradientError gradcheck gradgradcheck",
    "functions.matrices": "diag hstack inner kron vstack",
    "functions.nans": "fmax fmin nan_to_num nanmax nanmean nanmin nansum",
    "functions.quantiles": "median quantile",
    "derivatives.jacobians": "hessian jacobian jvp vjp", "derivatives.vectorizing": "vmap",
}  # fmt: skip
_LATER = {name: room for room, names in _ROOMS.items() for name in names.split()}
"""Names that an attention model seldom needs, and their modules, which are loaded when first asked for."""

_MODULES_LATER = {name: name for name in ("fft", "graph", "linalg", "models", "nn", "onnx", "special", "testing")}
_MODULES_LATER |= {"complex_gradients": "derivatives.complex_gradients", "hints": "tensors.hints"}

if "IPython" in sys.modules:
    from . import recording  # in a notebook, a failing op shows what led to it without being asked


if not TYPE_CHECKING:  # type checkers know all names from above, and complain of others

    def __getattr__(name: str) -> Any:
        if name in _MODULES_LATER:
            return import_module(f"{__name__}.{_MODULES_LATER[name]}")
        if name not in _LATER:
            raise missing.no_attribute(__name__, name)
        module = import_module(f"{__name__}.{_LATER[name]}")
        missing.hide_what_is_refused(module)
        if name in missing.EXPLAINED["later"]:
            missing.explain_arguments(module, [name])
        value = globals()[name] = getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
