"""Steps of decoding: sub-layers with caches, where no gradient is wanted, in compiled loops.

All layers of a decoder, or of a language model, go through the loops of `tinytensor/fast/decoding.py` in one call. What
was read from modules is kept with their cache; each step asks if it still holds.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from tinytensor import Tensor
from tinytensor.backend import for_array
from tinytensor.fast.texts import Way
from tinytensor.modes import state
from tinytensor.tensor import wrap

from ..containers import ModuleList
from ..decoder_cache import DecoderCache, LayerCache
from ..language_layer import AttendToItself, Layer, through_layers
from ..module import Module
from ..self_attention import Rotation
from ..transformer import (
    Attend,
    Sublayer,
    TransformerDecoder,
    TransformerDecoderLayer,
)
from .plain import is_plain, is_usual
from .sublayers import WORDS, Reading, angles_of, as_added, is_read, lowest, sooner

MOST_ROWS = 256
"""Of a language model. Of more, products are divided among the cores, and the interpreter's share is small."""

STEPS = Way(
    "steps of decoding", "nn.transformer:TransformerDecoder.step", "nn.transformer:TransformerDecoderLayer.step",
    "nn.transformer:TransformerDecoderLayer.sublayers", "nn.language_layer:through_layers",
    "nn.language_layer:Layer.forward", "nn.language_layer:Layer.sublayers", "nn.decoder_cache:DecoderCache.extend",
    "nn.decoder_cache:LayerCache.append", "nn.decoder_cache:LayerCache.grow", *WORDS,
)  # fmt: skip

Caches = tuple[Sequence[LayerCache], Sequence[LayerCache]]
"""Those of the past, and those of a memory."""


class Plan:
    """The sub-layers as the first step from a cache read them; each step asks if they are still the same.

    Attributes:
        root: the module that it was read from, which it does not keep alive.
        of: the size and dtype of the vectors.
        reading: the sub-layers as loops take them; None where they compute something else.
        end: a norm behind them, unless the loops compute it.
        steps: the loops, with arrays for some rows.
        owner: the cache that goes on with it.
        kept: the arrays that the attentions read; there is room for so many `places`, and so many are of the `memory`.
    """

    def __init__(self, root: Module, sublayers: Sequence[Sublayer], end: Any, x: Any, room: Any) -> None:
        self.root, self.room, self.end, self.of = ref(root), room, end, (x.shape[2], x.dtype)
        modules = list(root.modules())
        self.hooks = [hooks for m in modules for hooks in (m._forward_hooks, m._forward_pre_hooks)]
        self.owned: list[dict[str, Any]] = [own for m in modules for own in (vars(m), m._modules) if own]
        self.held = [m._parameters for m in modules if m._parameters]
        self.modules = modules[1:]
        self.found = self._look()
        self.kept: list[Any] = []
        self.places = self.memory = 0
        self.owner: Callable[[], Any] = lambda: None
        self.steps: Any = None
        reading = Reading(x, None)
        is_read = bool(sublayers) and not any(self.hooks) and all(map(reading.add, sublayers))
        drops = any(p for step in reading.steps for p in step.drops.values())
        self.reading = reading if is_read and not drops else None
        if end is not None and self.reading and reading.add_norm(end):
            self.end = None

    def holds(self, root: Module) -> bool:
        """True if it was read from this module, nobody hooks into it, and all is as it was found."""
        (now, arrays), (then, former) = self._look(), self.found
        try:
            is_same = now == then and len(arrays) == len(former) and all(map(is_, arrays, former))
        except ValueError:  # a setting is an array
            is_same = False
        return is_same and self.root() is root and not any(self.hooks)

    def _look(self) -> tuple[list[Any], list[Any]]:
        """All that the modules have: their attributes, children and classes; and the arrays of their parameters."""
        owned = itertools.chain.from_iterable(map(dict.values, self.owned))
        arrays = [p if p is None else p._data for held in self.held for p in held.values()]
        return [*owned, *map(type, self.modules)], arrays

    def reads(self, caches: Caches, batch: int) -> bool:
        """True if each attention can read what its cache has now, of so many items."""
        assert self.reading is not None
        sources = self.reading.sources
        tensors = [caches[across][n].buffer for n, across, _ in sources]
        arrays: list[Any] = [None if tensor._node is not None else tensor._data for tensor in tensors]
        if self.kept and all(array is not None and known() is array for known, array in zip(self.kept, arrays)):
            return True
        lengths = {array.shape[1] for array, (_, across, _) in zip(arrays, sources) if across and array is not None}
        if len(lengths) > 1 or not all(
            type(array) is np.ndarray and array.dtype == self.reading.dtype and array.shape[::2] == (batch, size)
            and array.flags.carray
            for array, (*_, size) in zip(arrays, sources)
        ):  # fmt: skip
            return False
        self.kept, self.memory = list(map(ref, arrays)), max(lengths, default=0)
        self.places = min(array.shape[1] for array, (_, across, _) in zip(arrays, sources) if not across)
        if self.steps is not None:
            self.steps.read(arrays)
        return True

    def prepare(self, rows: int) -> None:
        """Make the loops' arrays for so many rows, unless there are as many."""
        if self.steps is None or self.steps.rows < rows:
            assert self.reading is not None
            self.steps = self.room.Steps(self.reading.loops(self.room), rows)
            self.steps.read([known() for known in self.kept])

    def step(self, x: Any, caches: Caches, past: tuple[Any, ...], memory: tuple[Any, ...] = ()) -> Tensor:
        """x (batch, branches, d) through the sub-layers, to which each cache gives places more; masks as in `seen`."""
        assert self.reading is not None
        batch, branches, _ = x.shape
        end, room = caches[0][0].places + branches, self.room
        is_larger = end > self.places
        for cache in caches[0]:
            cache.grow(end)
        if is_larger:
            self.reads(caches, batch)
        of_memory = room.seen(self.memory, branches, *memory) if memory else None
        out = wrap(self.steps.step(x, room.seen(end, branches, *past), of_memory), None)
        return out if self.end is None else self.end(out)


_plans: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()
_last: WeakKeyDictionary[Module, Plan] = WeakKeyDictionary()
"""By a module that is read the plan of the last cache, for the next one: to read anew takes as long as two steps."""


def plan_of(
    cache: Any, caches: Caches, root: Any, sublayers: Callable[[Any], list[Sublayer]], end: Any, x: Any
) -> Plan | None:  # fmt: skip
    """The plan that a cache keeps if it holds for this root, else a new one; None if loops do not take these."""
    room, plan = for_array(x).loops_over("decoding", x), _plans.get(cache)
    usual = all(is_usual(each) and each.places == part[0].places for part in caches for each in part)
    layers = [*caches[0], *caches[1]]
    if room is None or not usual or len(set(map(id, layers))) < len(layers):
        return None
    if plan is None and (plan := _last.pop(root, None)) is not None and plan.owner() is not None:
        plan = None  # another cache goes on with it
    if plan is None or plan.of != (x.shape[2], x.dtype) or not plan.holds(root):
        plan = Plan(root, sublayers(root), end, x, room)
    if plan.owner() is not cache:
        _plans[cache], plan.owner, plan.kept = plan, ref(cache), []
        if len(x) * x.shape[1] <= MOST_ROWS:
            _last[root] = plan
    if plan.reading is None or not plan.reads(caches, len(x)):
        return None
    plan.prepare(len(x) * x.shape[1])  # now, for what fails later would find a cache that has grown
    return plan


# ---- a decoder


def step(
    decoder: TransformerDecoder, tgt: Tensor, cache: DecoderCache, tgt_key_padding_mask: Tensor | None = None
) -> Tensor | None:
    """`TransformerDecoder.step` in compiled loops; None where its own lines are to compute."""
    if type(decoder) is not TransformerDecoder or type(cache) is not DecoderCache or "extend" in vars(cache):
        return None
    if state.plain or not is_read(tgt) or not len(decoder.layers) == len(cache.layers) == len(cache.memories):
        return None
    x, caches = tgt._data, (cache.layers, cache.memories)
    plan = plan_of(cache, caches, decoder, _sublayers, decoder.norm, x)
    if plan is None or not _fits(cache, x, tgt_key_padding_mask):
        return None
    hidden = _extend(cache, x.shape[1], tgt_key_padding_mask)
    memory_hidden = None if cache.memory_hidden is None else lowest(cache.memory_hidden._data, x.dtype)
    return plan.step(x, caches, (lowest(hidden, x.dtype),), (memory_hidden,))


def _sublayers(decoder: TransformerDecoder) -> list[Sublayer]:
    """Those of all layers, if they are plain, with a number for each cache; else none."""
    if not all(is_plain(layer, TransformerDecoderLayer) for layer in decoder.layers):
        return []
    words: list[Sublayer] = []
    for n, layer in enumerate(decoder.layers):
        attend = Attend(layer.self_attn, None, None, None, False, n)
        words += layer.sublayers(attend, Attend(layer.multihead_attn, "a memory", None, None, False, n))
    return words


def _fits(cache: DecoderCache, x: Any, padding: Tensor | None) -> bool:
    """True if all masks are for (batch, branches), and for the places that there are."""
    first, hidden, branches, memory = cache.layers[0], cache.hidden, x.shape[:2], cache.memories[0]
    return (
        (first.places == 0 if hidden is None else hidden._data.shape == (*branches, first.places))
        and _is_mask(padding, branches)
        and _is_mask(cache.memory_hidden, (len(x), 1, 1, memory.places))
        and memory.places == memory.buffer.shape[1]
    )


def _is_mask(mask: Tensor | None, shape: tuple[int, ...]) -> bool:
    array = None if mask is None else mask._data
    return array is None or (type(array) is np.ndarray and array.dtype == bool and array.shape == shape)


def _extend(cache: DecoderCache, branches: int, padding: Tensor | None) -> Any:
    """`DecoderCache.extend` on raw arrays."""
    hidden = np.broadcast_to(_others(branches), (len(cache.layers[0].buffer._data), branches, branches))
    if padding is not None:
        hidden = hidden | padding._data[:, None]
    if cache.hidden is not None:
        hidden = np.concatenate((cache.hidden._data, hidden), axis=2)
    cache.hidden, cache.length = wrap(hidden, None), cache.length + 1
    return hidden[:, None]


_others = functools.cache(lambda branches: ~np.eye(branches, dtype=bool))  # true for two that are not the same


# ---- a language model


def step_of_layers(
    layers: Any, x: Tensor, mask: Any, rotation: Rotation | None, caches: Sequence[LayerCache] = ()
) -> Tensor | None:
    """`through_layers` with caches, in compiled loops; None where its own lines are to compute."""
    if not caches or not is_plain(layers, ModuleList) or len(layers) != len(caches):
        return None
    if state.plain or not is_read(x) or x._data.size > MOST_ROWS * x._data.shape[2]:
        return None
    array, places = x._data, caches[0].places
    plan = plan_of(caches[0], (caches, ()), layers, _sublayers_of_layers, None, array)
    if plan is None:
        return None
    batch, branches, _ = array.shape
    attention = layers[0].self_attn
    added = as_added(mask, (batch, attention.num_heads, branches, places + branches), array.dtype)
    angles = angles_of(rotation, batch, branches, attention.head_dim, array.dtype)
    return None if added is None or angles is None else plan.step(array, (caches, ()), (*added, angles))


def _sublayers_of_layers(layers: Any) -> list[Sublayer]:
    if not all(is_plain(layer, Layer) for layer in layers):
        return []
    if len({(layer.self_attn.num_heads, layer.self_attn.head_dim) for layer in layers}) > 1:  # one mask, one rotation
        return []
    words = [layer.sublayers(AttendToItself(layer.self_attn, None, None, n)) for n, layer in enumerate(layers)]
    return list(itertools.chain.from_iterable(words))


sooner(TransformerDecoder.step, STEPS, step)
sooner(through_layers, STEPS, step_of_layers)
