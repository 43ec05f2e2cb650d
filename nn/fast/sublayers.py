"""Sub-layers as one op: norm(x + drop(f(x))) again and again, or the norm in front.

The layers of a Transformer (`transformer.py`) and of language models (`language_sublayers.py`) are such ones; which,
and what their sizes are, is a *plan*. The arrays go through the loops of `tinytensor/fast/sublayers.py`, or where those
do not take them through the formula of each sub-layer in the plan.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_array, for_device
from tinytensor.fast.texts import Way
from tinytensor.modes import state
from tinytensor.tensor import wrap

from ..feed_forward import GATES, PLAIN
from ..functional import attention as textbook
from ..functional.attention import watch
from ..functional.dropout import Dropped
from ..functional.linear import linear
from ..functional.masks import hide
from ..functional.normalization import layer_norm, rms_norm
from ..functional.precision import autocast
from ..functional.relative_positions import rotate
from .attention import by_formula, project

FLOATS = (tt.float32, tt.float64)  # that compiled loops take
NOTHING = for_device("cpu").dropping()  # no dropout

# What the ways over whole layers stand for, beside the layers' own text.
MODULES = (
    "nn.module:Module.__call__", "nn.module:Module._call_with_hooks", "nn.module:Module.__getattr__",
    "nn.layers:Linear.forward", "nn.layers:LayerNorm.forward", "nn.layers:RMSNorm.forward", "nn.layers:Dropout.forward",
    "nn.containers:_Indexed.__iter__",
)  # fmt: skip
ATTENTION = ("nn.attention:MultiheadAttention.forward",)
ACTIVATIONS = ("nn.functional.activations:relu", "nn.functional.activations:gelu")


class Attend(NamedTuple):
    """How a sub-layer attends, to x or across to the memory; its arrays: weight, bias, those of the output, the norm's.

    Dropout is that of the attention weights, and of what is added to x.
    """

    num_heads: int
    scale: float
    across: bool
    eps: float
    norm_first: bool
    dropping: tuple[Any, Any] = (NOTHING, NOTHING)
    by_size: bool = False

    def formula(self, x, memory, mask, weight, bias, out_weight, out_bias, *norm):
        def attend(x):
            source = memory if self.across else x
            dropped = _dropped(self.dropping[0], (len(x), self.num_heads, x.shape[1], source.shape[1]))
            heads, _ = by_formula(project(x, source, source, weight, bias), mask, self.num_heads, self.scale, dropped)
            return linear(heads, out_weight, out_bias)

        return _residual(self, x, attend, *norm)

    def loops(self, room: Any, arrays: Any) -> Any:
        return room.Attention(
            *arrays, self.eps, self.norm_first, self.dropping[1], heads=self.num_heads, scale=self.scale,
            across=self.across, weights_dropping=self.dropping[0],
        )  # fmt: skip


class AttendToItself(NamedTuple):
    """The same of `SelfAttention`, with the norm in front, an RMS norm where it is one `by_size`.

    `turning` are cos and sin, as raw arrays, of what queries and keys are turned by, and the pairing; or None.
    """

    num_heads: int
    num_kv_heads: int
    scale: float
    eps: float
    by_size: bool
    turning: tuple[Any, Any, str] | None = None
    dropping: tuple[Any, Any] = (NOTHING, NOTHING)
    norm_first: bool = True

    def formula(self, x, memory, mask, weight, bias, out_weight, out_bias, *norm):
        def attend(x):
            size, shared = out_weight.shape[1] // self.num_heads, self.num_heads // self.num_kv_heads
            counts = self.num_heads, self.num_kv_heads, self.num_kv_heads
            parts = tt.split(linear(x, weight, bias), [count * size for count in counts], axis=-1)
            q, k, v = (textbook.split_heads(part, count) for part, count in zip(parts, counts))
            if self.turning is not None:
                cos, sin, pairing = self.turning
                q, k = (rotate(part, tt.asarray(cos), tt.asarray(sin), pairing) for part in (q, k))
            k, v = (tt.repeat(part, shared, axis=1) for part in (k, v))
            dropped = _dropped(self.dropping[0], (len(x), self.num_heads, x.shape[1], x.shape[1]))
            heads, _ = textbook.attention(q, k, v, mask, dropped, scale=self.scale)
            return linear(textbook.join_heads(heads), out_weight, out_bias)

        return _residual(self, x, attend, *norm)

    def loops(self, room: Any, arrays: Any) -> Any:
        turning = self.turning and (*self.turning[:2], self.turning[2] == "interleaved")
        return room.Attention(
            *arrays, self.eps, True, self.dropping[1], self.by_size, heads=self.num_heads, kv_heads=self.num_kv_heads,
            scale=self.scale, across=False, weights_dropping=self.dropping[0], turning=turning,
        )  # fmt: skip


class Feed(NamedTuple):
    """How a sub-layer goes through the network; its arrays: weights and biases in their order, then the norm's.

    Dropout is that of the inner layer, and of what is added to x; the activation is one of `feed_forward.PLAIN`.
    """

    eps: float
    norm_first: bool
    dropping: tuple[Any, Any] = (NOTHING, NOTHING)
    activation: str = "relu"
    by_size: bool = False

    def formula(self, x, memory, mask, weight1, bias1, weight2, bias2, *norm):
        def feed(x):
            inner = PLAIN[self.activation](linear(x, weight1, bias1))
            return linear(_drop(inner, self.dropping[0]), weight2, bias2)

        return _residual(self, x, feed, *norm)

    def loops(self, room: Any, arrays: Any) -> Any:
        return room.FeedForward(
            *arrays, self.eps, self.norm_first, self.dropping[1], self.by_size, inner=self.dropping[0],
            activation=self.activation,
        )  # fmt: skip


class FeedGated(NamedTuple):
    """The same of a gated network, one of `feed_forward.GATES`, with the norm in front.

    Its arrays: weight and bias of the gate, of the map up and of that down, then the norm's.
    """

    eps: float
    dropping: tuple[Any, Any]
    activation: str
    by_size: bool
    norm_first: bool = True

    def formula(self, x, memory, mask, gate, gate_bias, up, up_bias, down, down_bias, *norm):
        def feed(x):
            return linear(GATES[self.activation](linear(x, gate, gate_bias)) * linear(x, up, up_bias), down, down_bias)

        return _residual(self, x, feed, *norm)

    def loops(self, room: Any, arrays: Any) -> Any:
        return room.GatedFeedForward(
            *arrays, self.eps, True, self.dropping[1], self.by_size, activation=WITHIN[self.activation]
        )


WITHIN = {
    "bilinear": "identity", "glu": "sigmoid", "reglu": "relu", "geglu": "gelu", "geglu_tanh": "gelu_tanh",
    "swiglu": "silu",
}  # fmt: skip
"""What the loops call the function within each gated network; that of a plain one has its name."""


class Normalize(NamedTuple):
    """The norm at the end of a stack."""

    eps: float
    by_size: bool = False

    def formula(self, x, memory, mask, *norm):
        return _norm(self, x, *norm)

    def loops(self, room: Any, arrays: Any) -> Any:
        return room.Norm(*arrays, self.eps, self.by_size)


ARRAYS = {Normalize: 2, FeedGated: 8}
"""How many a sub-layer has; others have 6."""


def _residual(plan: Any, x: Any, f: Callable[[Any], Any], *norm: Any) -> Any:
    if plan.norm_first:
        return x + _drop(f(_norm(plan, x, *norm)), plan.dropping[1])
    return _norm(plan, x + _drop(f(x), plan.dropping[1]), *norm)


def _norm(plan: Any, x: Any, weight: Any, bias: Any) -> Any:
    if plan.by_size:
        return rms_norm(x, x.shape[-1], weight, plan.eps)
    return layer_norm(x, x.shape[-1], weight, bias, plan.eps)


def _drop(x: Any, dropping: Any) -> Any:
    return x * _mask(dropping, x.shape) * dropping.scale if dropping else x


def _dropped(dropping: Any, shape: tuple[int, ...]) -> Dropped | None:
    return Dropped(_mask(dropping, shape), dropping.scale) if dropping else None


def _mask(dropping: Any, shape: tuple[int, ...]) -> Tensor:
    return tt.asarray(dropping.mask(shape))


# ---- the op


@tt.op
def _sublayers(*arrays, plan, hides):
    """x through sub-layers, one after the other: norm(x + drop(f(x))), or with the norm in front.

    `arrays` are x, the memory or None, what is added to the scores of attention to x and to the memory or None, then
    those of each sub-layer of the plan. `hides` says of the two masks whether they hold 0 and -inf alone.

    ∂L/∂arrays = those of each sub-layer's formula, from the last to the first
    """
    x, memory, *masks = arrays[:4]
    for sublayer, own in _each(plan, arrays[4:]):
        x = sublayer.formula(x, memory, masks[getattr(sublayer, "across", False)], *own)
    return x


def _each(plan: Sequence[Any], arrays: Sequence[Any]) -> Iterable[tuple[Any, Sequence[Any]]]:
    """The sub-layers, each with its arrays."""
    left = iter(arrays)
    for sublayer in plan:
        yield sublayer, [next(left) for _ in range(ARRAYS.get(type(sublayer), 6))]


@_sublayers.forward
def sublayers_forward(xp, *arrays, plan, hides):
    x, memory, *masks = arrays[:4]
    x, memory = xp.contiguous(x), None if memory is None else xp.contiguous(memory)
    if not (room := xp.sublayers(x, memory, *arrays[2:])):
        with tt.no_grad():
            out = _sublayers.op.function(*_as_tensors(arrays), plan=plan, hides=hides)
        return out._data, (None, arrays)
    sublayers = [sublayer.loops(room, own) for sublayer, own in _each(plan, arrays[4:])]
    return room.forward(sublayers, x, memory, masks, hides), (room, arrays, sublayers, memory)


@_sublayers.backward
def sublayers_backward(xp, g, residuals, needs, *, plan, hides):
    room, arrays, *computed = residuals
    if room is None or any(needs[2:4]):  # the loops know no gradient of a mask
        leaves = _as_tensors(arrays)
        wanted = [leaf.requires_grad_() for leaf, needed in zip(leaves, needs) if needed]
        with tt.enable_grad():
            out = _sublayers.op.function(*leaves, plan=plan, hides=hides)
        found = iter(tt.grad(out, wanted, wrap(g, None)))
        return [next(found)._data if needed else None for needed in needs]
    sublayers, memory = computed
    g_x, g_memory, gradients = room.backward(sublayers, xp.contiguous(g), memory)
    return g_x, g_memory, None, None, *gradients


def _as_tensors(arrays: Sequence[Any]) -> list[Any]:
    return [None if a is None else wrap(a, None) for a in arrays]


# ---- for the modules whose `forward` goes this way


def loops_for(*tensors: Tensor) -> Any:
    """The loops, if there are any, they take these Tensors, and nobody watches what the modules would do."""
    if state.recording is not None or watch.see is not None or autocast.get() is not None:
        return None
    for tensor in tensors:
        array = tensor._data if isinstance(tensor, Tensor) else None
        if type(array) is not np.ndarray or array.dtype not in FLOATS or array.ndim != 3 or not array.size:
            return None
    x = tensors[0]
    return for_array(x._data).sublayers(np.empty(1, x.dtype), size=x.size)


def as_added(mask: Any, x: Tensor) -> tuple[Any, bool]:
    """What a mask adds to scores, contiguous as the loops want it, and whether that is 0 and -inf alone."""
    if mask.dtype.kind == "b":
        return hide(tt.zeros(mask.shape, dtype=x.dtype), mask), True
    return wrap(for_array(mask._data).contiguous(mask._data), mask._node), False


def dropping_of(count: int) -> Callable[[float, bool], Any]:
    """What gives dropout with a probability, in training; so often at most, each time with a key of its own."""
    keys: Any = None

    def dropping(p: float, training: bool) -> Any:
        nonlocal keys
        if not p or not training:
            return NOTHING
        if keys is None:
            keys = iter(tt.random.integers(2**62, shape=count).numpy().tolist())
        return for_device("cpu").dropping(p, next(keys))

    return dropping


def sooner(kind: type, text: Way, own: Any, way: Callable[..., Any]) -> Callable[..., Any]:
    """A way that modules of this very class go in place of a method of theirs, while the text says what it computes."""

    def faster(module: Any, *args: Any, **kwargs: Any) -> Any:
        if type(module) is not kind or state.plain is None or not text.holds():
            return None
        try:
            return way(module, *args, **kwargs)
        except Exception as error:
            failure = error
        out = own.__wrapped__(module, *args, **kwargs)  # the module's own lines say what is wrong, and where
        message = f"{kind.__name__}: its fast way failed, its own lines did not; please report this: {failure!r}"
        warnings.warn(message, RuntimeWarning, stacklevel=4)
        return out

    return faster
