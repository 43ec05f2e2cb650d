"""Names that PyTorch or NumPy has and tinytensor lacks: asking for one says what to write instead.

Methods that a Tensor lacks are attributes that raise, since a `__getattr__` would make every look-up of every
attribute five times as slow. `hasattr` says False, and `dir(x)` leaves them out. The words are in `hints.py`, which is
loaded when they are needed.
`import tinytensor as tt` at the top is a circular import on purpose: the names are looked up when called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import CO_VARARGS, CO_VARKEYWORDS, unwrap
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import tinytensor as tt

from ..modes import failure_listeners
from ..tensor import Tensor, part_of_tensor

if TYPE_CHECKING:
    from ..typing import TensorCore
else:
    TensorCore = object

F = TypeVar("F", bound=Callable[..., Any])

EXPLAINED = {
    "Tensor": """
        bmm bool broadcast_to contiguous cpu diag double flip float half index_select int long mm mv outer pow
        roll short swapaxes swapdims take to transpose tril triu unbind unsqueeze
    """,
    "Module": "load_state_dict modules register_forward_hook register_forward_pre_hook state_dict to",
    "functional": """
        dropout1d dropout2d hardsigmoid hardswish hardtanh leaky_relu multi_head_attention_forward relu6 selu softmin
        threshold
    """,
    "tinytensor": "broadcast_to clip empty_like full_like isin ones_like scatter sign tile zeros_like",
    "later": "compile hstack inner nan_to_num vmap vstack",
}
"""Methods and functions that lack an argument of PyTorch's, or take it by name alone."""

NAMES = """
    hardshrink prelu
    H abs_ absolute acos_ acosh_ add_ addbmm addcdiv addcmul addmm addmv addr adjoint allclose aminmax angle apply_
    arccos arccosh arcsin arcsinh arctan arctan2 arctanh argpartition argwhere asin_ asinh_ atan2_ atan_ atanh_
    baddbmm base bernoulli bernoulli_ bfloat16 bincount bitwise_and_ bitwise_left_shift_ bitwise_not bitwise_or_
    bitwise_right_shift_ bitwise_xor_ byte cdouble ceil_ cfloat char cholesky chunk clamp_ clamp_max clamp_max_
    clamp_min clamp_min_ clip_ compress conj_physical conjugate const_data_ptr copysign_ cos_ cosh_ cov cross cuda
    cumprod_ cumsum_ data_ptr deg2rad detach_ diag_embed diagflat diagonal dist div_ divide_ dsplit dump dumps eig
    eq_ equal erf_ exp_ expm1_ fill fill_diagonal_ fix flags flat fliplr flipud float_power floor_ floor_divide_
    fmod frac gather ge_ ger get_device grad_fn greater_ greater_equal_ gt_ heaviside hsplit hypot_ imag index_add
    index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_ ipu is_contiguous is_cpu is_cuda
    is_nonzero is_same_size is_signed isclose isneginf isposinf isreal itemsize kthvalue ldexp le_ lerp less_
    less_equal_ log10_ log1p_ log2_ log_ log_softmax logdet logical_and_ logical_not_ logical_or_ logical_xor_ lstsq
    lt_ mH map2_ map_ masked_fill_ masked_scatter_ masked_select matrix_power median mode msort mtia mul_
    multinomial multiply_ nanmedian nanquantile narrow narrow_copy ne_ neg_ negative_ new new_empty new_full
    new_ones new_tensor new_zeros nextafter_ nonzero not_equal_ partition pinverse polygamma pow_ put put_
    qr rad2deg random_ real reciprocal_ register_post_accumulate_grad_hook relu relu_ remainder_ repeat
    repeat_interleave resize resize_ resize_as resize_as_ resolve_conj retains_grad rot90 round_ scatter scatter_
    scatter_add scatter_add_ scatter_reduce scatter_reduce_ select sgn sigmoid_ sign_ sin_ sinh_ slogdet softmax
    split split_with_sizes sqrt_ square_ squeeze_ storage storage_offset stride strides sub_ subtract_ svd swapaxes_
    swapdims_ t_ take_along_dim tan_ tanh_ tensor_split tobytes transpose_ tril_ triu_ true_divide_ trunc_ type
    unflatten unique unsqueeze_ untyped_storage vdot vsplit xpu
"""


def no_attribute(place: str, name: str) -> AttributeError:
    """The error for a name that `place`, a module by its name or "Tensor", does not have."""
    owner = "'Tensor' object" if place == "Tensor" else f"module {place!r}"
    text = f"{owner} has no attribute {name!r}"
    if name.startswith("__") or not (advice := tt.hints.hint(place, name)):
        return AttributeError(text)
    # From `obj`, Python would guess what was meant (numel: numpy).
    return AttributeError(f"{text}: {advice}", name=name, obj=None)


class Missing(str):
    """The name of a missing method, as an attribute of the class."""

    __slots__ = ()

    def __get__(self, owner: Any, kind: Any = None) -> NoReturn:
        raise no_attribute("Tensor", self)


for _name in NAMES.split():
    type.__setattr__(Tensor, _name, Missing(_name))


def _say_what_an_op_takes(primitive: Any, arrays: Any, nodes: Any, error: Exception, node: Any = None) -> None:
    if "unexpected keyword argument" in str(error) and (words := tt.hints.passed_to_op(primitive, str(error))):
        error.args = (words,)


failure_listeners.append(_say_what_an_op_takes)


def explains(function: F) -> F:
    """The function, which says what to write where it is given an argument that it does not take."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            explain_call(function, args, error)
            raise

    return call  # type: ignore[return-value]


def explain_call(function: Any, args: Any, error: TypeError) -> None:
    """Give an error our words if it is Python's about the arguments of this function."""
    if str(error).startswith(f"{unwrap(function).__qualname__}() "):
        tt.hints.explain_call(function, args, error)


def explain_arguments(place: Any, names: Iterable[str]) -> None:
    """Let functions of a module, or methods of a class, say what to write in place of arguments that they lack."""
    for name in names:
        if type(function := vars(place).get(name)) is FunctionType and not hasattr(function, "op"):
            (type if isinstance(place, type) else object).__setattr__(place, name, explains(function))


def hide_what_is_refused(*places: Any) -> None:
    """Hide from `inspect` and `help` the `**unknown` and `*lengths` that functions take only to refuse them.

    Args:
        places: the modules and classes that have the functions.
    """
    for place in places:
        for function in vars(place).values():
            if type(function) is FunctionType and "unknown" in (code := function.__code__).co_varnames:
                hidden = CO_VARKEYWORDS | (CO_VARARGS if {"lengths", "more"} & {*code.co_varnames} else 0)
                shown = code.replace(co_flags=code.co_flags & ~hidden)
                twin = FunctionType(shown, function.__globals__, function.__name__, function.__defaults__)
                twin.__kwdefaults__, twin.__annotations__ = function.__kwdefaults__, function.__annotations__
                function.__wrapped__ = twin  # type: ignore[attr-defined]


@part_of_tensor
class Names(TensorCore):
    """The names that `dir(x)` lists for a Tensor."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if not isinstance(vars(Tensor).get(name), Missing)]
