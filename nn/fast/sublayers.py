"""`through` as one op: sub-layers are read, and what was read goes through compiled loops.

`Reading` finds for each sub-layer the loop of `tinytensor/fast/sublayers.py` that gives its numbers, with settings and
arrays. Where one is unusual (a class of one's own, a hook, a watcher, another dtype), the textbook's lines compute.
They are the formula of the op as well, for second derivatives.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.backend import for_array, for_device
from tinytensor.fast.texts import Way
from tinytensor.modes import state
from tinytensor.random import Generator, using
from tinytensor.tensor import wrap

from ..attention import MultiheadAttention
from ..containers import ModuleList
from ..feed_forward import GATES, PLAIN, FeedForward
from ..functional.activations import gelu, relu
from ..functional.masks import merge_masks
from ..functional.precision import autocast
from ..functional.relative_positions import PAIRINGS
from ..language_layer import AttendToItself
from ..layers import Dropout, LayerNorm, Linear, RMSNorm
from ..module import Module
from ..self_attention import Rotation, SelfAttention
from ..transformer import (
    Attend,
    Feed,
    Sublayer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
    through,
)
from .attention_blocks import is_long
from .plain import is_plain

IN_PROJ = ("in_proj_weight", "in_proj_bias")
FLOATS = (tt.float32, tt.float64)  # that compiled loops take
WITHIN = {
    "bilinear": "identity", "glu": "sigmoid", "reglu": "relu", "geglu": "gelu", "geglu_tanh": "gelu_tanh",
    "swiglu": "silu",
}  # fmt: skip
"""The function within each gated network, by its name in `tinytensor/fast/activations.py`; others have their own."""

ACTIVATIONS: dict[Callable[..., Tensor], str] = {relu: "relu", gelu: "gelu"}
"""Functions between the maps of a `Feed`, with their names in `tinytensor/fast/activations.py`."""

INNER = {"Attention": "weights_dropping", "FeedForward": "inner"}
"""The argument of a loop that drops numbers within f."""

NOTHING = for_device("cpu").dropping()  # no dropout

# ---- the text that is read

WORDS = (
    "nn.transformer:through", "nn.transformer:Sublayer.__call__", "nn.transformer:Attend.__call__",
    "nn.transformer:Feed.__call__", *[f"{f.__module__.partition('.')[2]}:{f.__qualname__}" for f in ACTIVATIONS],
    "nn.language_layer:AttendToItself.__call__", "nn.attention:MultiheadAttention.forward",
    "nn.self_attention:SelfAttention.forward", "nn.self_attention:SelfAttention.heads",
    "nn.feed_forward:FeedForward.forward", "nn.layers:Linear.forward", "nn.layers:LayerNorm.forward",
    "nn.layers:RMSNorm.forward", "nn.layers:Dropout.forward", "nn.containers:_Indexed.__iter__",
    "nn.module:Module.__call__", "nn.module:Module._call_with_hooks", "nn.module:Module.__getattr__",
)  # fmt: skip
SUBLAYERS = Way("sub-layers", *WORDS)
STACKS = Way(
    "stacks of Transformer layers", *WORDS,
    *[f"nn.transformer:Transformer{kind}.forward" for kind in ("Encoder", "EncoderLayer", "Decoder", "DecoderLayer")],
    calls=tuple([f"nn.transformer:Transformer{kind}Layer.sublayers" for kind in ("Encoder", "Decoder")]),
)  # fmt: skip


class Step(NamedTuple):
    """A sub-layer as a loop takes it.

    Attributes:
        loop: the name of its class in `tinytensor/fast/sublayers.py`.
        arrays: how many it has.
        settings: arguments of that class by their names.
        drops: those of them that drop numbers, in the order of drawing, with their probabilities.
    """

    loop: str
    arrays: int
    settings: dict[str, Any]
    drops: dict[str, float]


Found = tuple[str, dict[str, Any], float] | None


class Reading:
    """Sub-layers of x (batch, length, d) and a memory, both raw arrays, as loops take them.

    Attributes:
        steps: what was read from each.
        arrays: parameters of all of them, as Tensors, in the order of the loops; attention has a mask behind, or None.
        places: of each array the module and the name in it; None for masks.
        sources: for each attention that reads a cache: the cache, True if it reads the memory there rather than the
            past, and the size of keys and values side by side.
    """

    def __init__(self, x: Any, memory: Any) -> None:
        self.x, self.memory, self.d, self.dtype = x, memory, x.shape[2], x.dtype
        self.steps: list[Step] = []
        self.arrays: list[Any] = []
        self.places: list[tuple[Module, str] | None] = []
        self.sources: list[tuple[Any, bool, int]] = []
        self.merged: dict[Any, Any] = {}  # masks, which layers have in common

    def add(self, sublayer: Sublayer) -> bool:
        """True if a loop computes this sub-layer: it is the next step then."""
        f, dropout, norm, norm_first = sublayer
        if type(sublayer) is not Sublayer or type(f) not in READERS or not is_plain(dropout, Dropout):
            return False
        before = len(self.arrays)
        if (found := READERS[type(f)](self, f)) is None or (of_norm := self.norm(norm)) is None:
            return False
        loop, settings, inner = found
        drops = ({INNER[loop]: inner} if loop in INNER else {}) | {"dropping": probability(dropout)}
        settings |= {"norm_first": norm_first, **of_norm, **dict.fromkeys(drops, NOTHING)}
        self.steps.append(Step(loop, len(self.arrays) - before, settings, drops))
        return True

    def add_norm(self, norm: Any) -> bool:
        """True if loops compute this norm, which is the next step then."""
        found = self.norm(norm)
        self.steps += [] if found is None else [Step("Norm", 2, found, {})]
        return found is not None

    # ---- parameters

    def take(self, module: Module, *shape: int, names: tuple[str, str] = ("weight", "bias")) -> bool:
        """True if a module has a weight of this shape and a bias, or none, as loops take them."""
        if type(module) is not RMSNorm and not module._parameters.keys() >= {*names}:
            return False  # one was deleted
        tensors = [module._parameters.get(name) for name in names]
        arrays = [None if tensor is None else tensor._data for tensor in tensors]
        if arrays[0] is None or not all(
            a is None or (type(a) is np.ndarray and a.dtype == self.dtype and a.shape == expected and a.flags.carray)
            for a, expected in zip(arrays, (shape, shape[:1]))
        ):
            return False  # a loop would read beside them
        self.arrays += tensors
        self.places += [(module, name) for name in names]
        return True

    def linear(self, module: Any, *shape: int) -> bool:
        return is_plain(module, Linear) and self.take(module, *shape)

    def norm(self, norm: Any) -> dict[str, Any] | None:
        """The settings of a norm, whose parameters are the next; None for what is none."""
        if not is_plain(norm, LayerNorm, RMSNorm) or norm.normalized_shape != (self.d,) or not self.take(norm, self.d):
            return None
        eps = float(np.finfo(self.dtype).eps) if norm.eps is None else norm.eps
        return {"eps": eps, "by_size": type(norm) is RMSNorm}

    def loops(self, room: Any) -> list[Any]:
        """The loops of all steps, without dropout."""
        left = (None if tensor is None else tensor._data for tensor in self.arrays)
        return [getattr(room, s.loop)(*itertools.islice(left, s.arrays), **s.settings) for s in self.steps]

    # ---- parts of f: their settings, where loops take them; their parameters are the next arrays

    def multi_head(self, attention: Any) -> dict[str, Any] | None:
        d = self.d
        is_known = is_plain(attention, MultiheadAttention) and attention.embed_dim == d and not attention.has_own_keys
        if not is_known or d % attention.num_heads or not self.take(attention, 3 * d, d, names=IN_PROJ):
            return None
        if not self.linear(attention.out_proj, d, d):
            return None
        return {"heads": attention.num_heads, "scale": attention.scale}

    def self_attention(self, attention: Any) -> dict[str, Any] | None:
        if not is_plain(attention, SelfAttention) or attention.q_norm is not None or attention.pairing not in PAIRINGS:
            return None
        width = attention.num_heads * attention.head_dim
        if not self.linear(attention.in_proj, width + attention.kv_size, self.d):
            return None
        if not self.linear(attention.out_proj, self.d, width):
            return None
        return {"heads": attention.num_heads, "kv_heads": attention.num_kv_heads, "scale": attention.scale}

    def mask(self, added: tuple[Any, bool] | None, sizes: tuple[int, ...]) -> dict[str, Any] | None:
        """Of what a mask adds to scores of these sizes."""
        if added is None or is_long(sizes, "cpu"):
            return None
        array, shifts = added
        self.arrays.append(None if array is None else wrap(array, None))
        self.places.append(None)
        return {"shifts": shifts}

    # ---- what f may be: its loop, the settings, and with which probability it drops numbers within; or None

    def attend(self, f: Attend) -> Found:
        if (f.is_causal and f.mask is None) or (how := self.multi_head(f.attention)) is None:
            return None
        across = f.memory is not None
        if f.cache is not None:
            self.sources.append((f.cache, across, 2 * self.d))
            return None if probability(f.attention) else ("KeptAttention", how | {"across": across}, 0.0)
        sizes = len(self.x), how["heads"], self.x.shape[1], (self.x if f.memory is None else self.memory).shape[1]
        key = id(f.mask), id(f.padding), sizes
        if key not in self.merged:
            self.merged[key] = as_added(merge_masks(f.padding, f.mask, sizes, wrap(self.x, None)), sizes, self.dtype)
        if (masked := self.mask(self.merged[key], sizes)) is None:
            return None
        return "Attention", how | masked | {"across": across}, probability(f.attention)

    def feed(self, f: Feed) -> Found:
        name = next((name for function, name in ACTIVATIONS.items() if function is f.activation), None)
        inner = getattr(f.linear1, "out_features", 0)
        if name is None or not is_plain(f.dropout, Dropout) or not self.linear(f.linear1, inner, self.d):
            return None
        if not self.linear(f.linear2, self.d, inner):
            return None
        return "FeedForward", {"activation": name}, probability(f.dropout)

    def attend_to_itself(self, f: AttendToItself) -> Found:
        if (how := self.self_attention(f.attention)) is None:
            return None
        neighbours = f.attention.pairing == "interleaved"
        if f.cache is not None:
            self.sources.append((f.cache, False, f.attention.kv_size))
            how |= {"across": False, "neighbours": neighbours}
            return None if probability(f.attention) else ("KeptAttention", how, 0.0)
        length = self.x.shape[1]
        sizes = len(self.x), how["heads"], length, length
        masked = self.mask(as_added(f.mask, sizes, self.dtype), sizes)
        angles = angles_of(f.rotation, 1, length, f.attention.head_dim, self.dtype)
        if masked is None or angles is None:
            return None
        turning = None if f.rotation is None else (*angles, neighbours)
        return "Attention", how | masked | {"across": False, "turning": turning}, probability(f.attention)

    def network(self, f: FeedForward) -> Found:
        known, inner = PLAIN if f.gate is None else GATES, getattr(f.up, "out_features", 0)
        if not is_plain(f, FeedForward) or f.activation not in known:
            return None
        if not is_plain(f.dropout, Dropout) or probability(f.dropout):
            return None
        maps = ([] if f.gate is None else [(f.gate, inner, self.d)]) + [(f.up, inner, self.d), (f.down, self.d, inner)]
        if not all(self.linear(*each) for each in maps):
            return None
        return "FeedForward", {"activation": WITHIN.get(f.activation, f.activation)}, 0.0


def probability(module: Any) -> float:
    """With which a dropout, or an attention, drops something now."""
    if not module.training:
        return 0.0
    return float(module.p if isinstance(module, Dropout) else module.dropout)


def as_added(mask: Any, sizes: tuple[int, ...], dtype: Any) -> tuple[Any, bool] | None:
    """The numbers that a mask adds to scores (batch, heads, target, source), and True if some are not 0 or -inf.

    None where the loops know no such mask, or somebody wants its gradient.
    """
    if mask is None:
        return None, False
    array = mask._data if isinstance(mask, Tensor) and mask._node is None else None
    if type(array) is not np.ndarray or array.ndim > 4 or array.dtype not in (bool, dtype):
        return None
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    if array.shape[3] != sizes[3] or not all(n in (1, size) for n, size in zip(array.shape, sizes)):
        return None
    return (lowest(array, dtype), False) if array.dtype == bool else (np.ascontiguousarray(array), True)


def lowest(hidden: Any, dtype: Any) -> Any:
    """Return -inf where a raw mask is True and 0 elsewhere, in C order for the loops; None if it hides nothing."""
    return np.ascontiguousarray(np.where(hidden, dtype.type(-np.inf), dtype.type(0))) if hidden.any() else None


def angles_of(rotation: Rotation | None, batch: int, rows: int, size: int, dtype: Any) -> tuple[Any, ...] | None:
    """cos and sin, (batch * rows, size / 2), None each without a rotation; None for angles that loops do not take.

    With a batch of 1, those that all sentences have.
    """
    if rotation is None:
        return None, None
    if not all(isinstance(angle, Tensor) and angle._node is None and angle.ndim <= 4 for angle in rotation):
        return None
    arrays = [angle._data for angle in rotation]
    if any(type(a) is not np.ndarray or a.dtype != dtype for a in arrays) or arrays[0].shape != arrays[1].shape:
        return None
    items, heads, *last = (1,) * (4 - arrays[0].ndim) + arrays[0].shape
    if items not in (1, batch) or heads != 1 or last != [rows, size / 2]:
        return None
    every = (np.broadcast_to(a.reshape(items, *last), (batch, *last)) for a in arrays)
    return tuple([np.array(a, order="C").reshape(batch * rows, -1) for a in every])


READERS: dict[Any, Callable[[Reading, Any], Found]] = {
    Attend: Reading.attend, Feed: Reading.feed, AttendToItself: Reading.attend_to_itself, FeedForward: Reading.network,
}  # fmt: skip
"""For each f that loops compute, what reads it."""

KEYS: dict[Any, int] = {Feed: 6, FeedForward: 3}
"""For dropout: as many are drawn for a layer as ever, so that a seed gives the same bits."""


# ---- the op


class Plan(NamedTuple):
    """The plan of the op: the steps of a `Reading`, the sub-layers that they were read from, and a norm at the end."""

    steps: list[Step]
    places: list[tuple[Module, str] | None]
    sublayers: Sequence[Sublayer]
    end: Any = None

    def each(self, arrays: Sequence[Any]) -> Iterator[tuple[Step, list[Any]]]:
        """The steps, each with its arrays."""
        left = iter(arrays)
        for step in self.steps:
            yield step, [next(left) for _ in range(step.arrays)]


@tt.op
def _through(*arrays, plan):
    """x through sub-layers, by their own lines: `arrays` are x, the memory or None, and those of the plan.

    ∂L/∂arrays = those of each sub-layer's formula, from the last to the first
    """
    x, memory, *own = arrays
    sublayers, places = [], iter(plan.places)
    for (step, arrays), (f, dropout, norm, norm_first) in zip(plan.each(own), plan.sublayers):
        given = {place: array for array, place in zip(arrays, places)}  # apart, for layers may share parameters
        f = _put(f, given, step.drops.get(INNER[step.loop], 0.0))
        if isinstance(f, Attend):
            mask, heads = arrays[4], f.attention.num_heads
            if mask is not None:  # (batch * heads, target, source), as the module wants it
                source = x if f.memory is None else memory
                mask = tt.broadcast_to(mask, (len(x), heads, x.shape[1], source.shape[1]))
                mask = tt.reshape(mask, (-1, *mask.shape[2:]))
            f = f._replace(memory=None if f.memory is None else memory, mask=mask, padding=None)
        elif isinstance(f, AttendToItself):
            f = f._replace(mask=arrays[4])
        sublayers.append(Sublayer(f, _put(dropout, given, step.drops["dropping"]), _put(norm, given), norm_first))
    with using(Drawn(plan.steps)):
        out = through.__wrapped__(x, sublayers)  # type: ignore[attr-defined]
    return out if plan.end is None else _put(plan.end, {place: array for array, place in zip(own[-2:], places)})(out)


def _put(thing: Any, given: dict[Any, Any], p: float = 0.0) -> Any:
    """A copy of a module, or of a word with modules, that has these Tensors, and drops with this probability."""
    if not isinstance(thing, Module):
        own = thing._asdict().items()
        return thing._replace(**{name: _put(x, given, p) for name, x in own if isinstance(x, Module)})
    copy = object.__new__(type(thing))
    own = vars(copy)
    own.update(vars(thing), training=p > 0)
    own["_parameters"] = {name: given.get((thing, name), x) for name, x in thing._parameters.items()}
    own["_modules"] = {name: x and _put(x, given, p) for name, x in thing._modules.items()}
    own.update({name: value for name, value in (("p", p), ("dropout", p), ("batch_first", True)) if name in own})
    return copy


class Drawn(Generator):
    """The random numbers that dropout drew, once more."""

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__()
        self.drawn = iter(
            step.settings[name]
            for step in steps
            for name, p in step.drops.items()
            if p and (p < 1 or name == "weights_dropping")  # dropout of everything draws nothing
        )

    def bernoulli(self, p: float, shape: Any = (), *, device: Any = None) -> Tensor:
        return tt.asarray(next(self.drawn).mask(shape))


@_through.forward
def through_forward(xp, *arrays, plan):
    x, memory, *own = arrays
    x, memory = xp.contiguous(x), None if memory is None else xp.contiguous(memory)
    if not (room := xp.loops_over("sublayers", x, memory, *own)):
        with tt.no_grad():
            out = _through.op.function(*[a if a is None else wrap(a, None) for a in arrays], plan=plan)
        return out._data, (None, arrays)
    loops = [getattr(room, step.loop)(*given, **step.settings) for step, given in plan.each(own)]
    return room.forward(loops, x, memory), (room, arrays, loops, memory)


@_through.backward
def through_backward(xp, g, residuals, needs, *, plan):
    room, arrays, *computed = residuals
    of_masks = [needed for needed, place in zip(needs[2:], plan.places) if place is None]
    if room is None or any(of_masks):  # the loops know no gradient of a mask
        leaves: list[Any] = [a if a is None else wrap(a, None) for a in arrays]
        wanted = [leaf.requires_grad_() for leaf, needed in zip(leaves, needs) if needed]
        with tt.enable_grad():
            out = _through.op.function(*leaves, plan=plan)
        found = iter(tt.grad(out, wanted, wrap(g, None)))
        return [next(found)._data if needed else None for needed in needs]
    loops, memory = computed
    g_x, g_memory, gradients = room.backward(loops, xp.contiguous(g), memory)
    return g_x, g_memory, *gradients


# ---- the ways


def read(x: Any, memory: Any, sublayers: Sequence[Sublayer], end: Any, room: Any) -> tuple[Plan, list[Any]] | None:
    """The plan for x and a memory, and its arrays; None where something is not for the loops."""
    reading = Reading(x._data, None if memory is None else memory._data)
    if not all(map(reading.add, sublayers)) or reading.sources:
        return None
    weights = [array for array, place in zip(reading.arrays, reading.places) if place is not None and array is not None]
    if not room.pay_for(x.shape[0] * x.shape[1], *weights):
        return None
    if end is not None and not reading.add_norm(end):
        end = None
    needed = sum(p > 0 for step in reading.steps for p in step.drops.values())
    if needed:
        count = max(needed, sum(KEYS.get(type(f), 0) for f, *_ in sublayers))
        keys = iter(tt.random.integers(2**62, shape=count).numpy().tolist())
    for step in reading.steps:
        step.settings.update({n: for_device("cpu").dropping(p, next(keys)) for n, p in step.drops.items() if p})
    return Plan(reading.steps, reading.places, sublayers, end), reading.arrays


def run(x: Tensor, sublayers: Sequence[Sublayer], end: Any = None) -> Tensor | None:
    """`through` in compiled loops, and a norm behind it; None where the textbook's own lines are to compute."""
    words = [f for f, *_ in sublayers if isinstance(f, (Attend, AttendToItself))]
    batch_first = {getattr(f.attention, "batch_first", True) for f in words}
    memories = {id(f.memory): f.memory for f in words if isinstance(f, Attend) and f.memory is not None}
    if not sublayers or not is_read(x) or not all(map(is_read, memories.values())):
        return None
    if len(batch_first) > 1 or len(memories) > 1:
        return None
    memory = next(iter(memories.values()), None)
    if not (room := for_array(x._data).loops_over("sublayers", np.empty(1, x.dtype), size=x.size)):
        return None
    is_turned = batch_first == {False}
    if is_turned:
        x = tt.permute_dims(x, (1, 0, 2))
        memory = None if memory is None else tt.permute_dims(memory, (1, 0, 2))
    if memory is not None and (len(memory) != len(x) or memory.shape[2] != x.shape[2]):
        return None
    if (found := read(x, memory, sublayers, end, room)) is None:
        return None
    plan, arrays = found
    out = _through(x, memory, *arrays, plan=plan)
    out = tt.permute_dims(out, (1, 0, 2)) if is_turned else out
    return out if end is None or plan.end is end else end(out)


def is_read(x: Any) -> bool:
    """True if x is what loops read, (batch, length, d), and nobody watches what modules do with it."""
    array = x._data if isinstance(x, Tensor) else None
    return (
        state.recording is None
        and autocast.get() is None
        and type(array) is np.ndarray
        and array.dtype in FLOATS
        and array.ndim == 3
        and array.size > 0
    )


def encode(stack, src, mask=None, src_key_padding_mask=None, is_causal=None):
    """`TransformerEncoder.forward` in compiled loops, or None."""
    layers = layers_of(stack, TransformerEncoder, TransformerEncoderLayer)
    words: list[Sublayer] = []
    for layer in layers:
        words += layer.sublayers(Attend(layer.self_attn, None, mask, src_key_padding_mask, bool(is_causal)))
    return run(src, words, stack.norm) if layers else None


def decode(
    stack, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
    tgt_is_causal=None, memory_is_causal=False,
):  # fmt: skip
    """`TransformerDecoder.forward` in compiled loops, or None."""
    layers = layers_of(stack, TransformerDecoder, TransformerDecoderLayer)
    words: list[Sublayer] = []
    for layer in layers:
        attend = Attend(layer.self_attn, None, tgt_mask, tgt_key_padding_mask, bool(tgt_is_causal))
        ask = Attend(layer.multihead_attn, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        words += layer.sublayers(attend, ask)
    return run(tgt, words, stack.norm) if layers else None


def layers_of(stack: Any, kind: Any, layer_kind: Any) -> list[Any]:
    """The layers of a stack, if all of them are plain; else none."""
    if type(stack) is not kind or not is_plain(stack.layers, ModuleList):
        return []
    layers = list(stack.layers)
    return layers if all(is_plain(layer, layer_kind) for layer in layers) else []


def sooner(own: Any, way: Way, faster: Callable[..., Any]) -> None:
    """Try a faster version of a function of the textbook first; where it fails, the function's own lines go on."""

    def try_faster(*args: Any, **kwargs: Any) -> Any:
        if state.plain is None or not way.holds():
            return None
        try:
            return faster(*args, **kwargs)
        except Exception as error:
            failure = error
        out = own.__wrapped__(*args, **kwargs)  # these say what is wrong, and where
        message = f"{own.__qualname__}: its fast way failed, its own lines did not; please report this: {failure!r}"
        warnings.warn(message, RuntimeWarning, stacklevel=4)
        return out

    own.faster = try_faster


sooner(through, SUBLAYERS, run)
sooner(TransformerEncoder.forward, STACKS, encode)
sooner(TransformerDecoder.forward, STACKS, decode)
