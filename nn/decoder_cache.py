"""The cache of a Transformer's decoder between two positions, so that a step computes only one position.

The keys and values of a position do not depend on later ones (section 3.1 of Vaswani et al. 2017: the mask), so the
cache keeps them; those of the memory are computed before the first step.

A source may have several targets at once, its branches: the hypotheses of a beam search. They share the memory, and
each began as a branch of one before it, so their positions form a tree. The cache keeps this tree and, for each branch,
a mask of the places in its own past. When a branch ends or divides, only this mask changes, and no key ever moves; the
branches of a source attend in one matrix product.

    step 1      a              places: a                   a    sees a
    step 2      ab   ac                a  ab  ac           ac   sees a, ac
    step 3      acd  ace               a  ab  ac  acd ace  ace  sees a, ac, ace
"""

from __future__ import annotations

from collections.abc import Sequence

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.grad_mode import may_be_faster
from tinytensor.modes import Replaceable

from .module import Module

FIRST = 16  # places to add room for, at least, when a buffer grows


class DecoderCache(metaclass=Replaceable):
    """The cache of all layers; `TransformerDecoder.start` makes it.

    Args:
        layers: for each layer, an empty cache of keys and values of the tree.
        memories: for each layer, a cache with keys and values of the memory; none without a memory.
        memory_key_padding_mask: (batch, source), True for padding.

    Attributes:
        layers, memories: as above.
        length: the number of positions of each branch.
        hidden: (batch, branches, places), True where a place of the tree is not in the past of a branch.
        memory_hidden: (batch, 1, 1, source), True for padding; or None.
    """

    def __init__(
        self,
        layers: Sequence[LayerCache],
        memories: Sequence[LayerCache] = (),
        memory_key_padding_mask: Tensor | None = None,
    ) -> None:
        self.layers, self.memories = layers, memories
        self.length = 0
        self.hidden: Tensor | None = None
        self.memory_hidden: Tensor | None = None
        if memory_key_padding_mask is not None:
            self.memory_hidden = memory_key_padding_mask[:, None, None, :]

    def extend(self, shape: tuple[int, ...], key_padding_mask: Tensor | None = None) -> Tensor:
        """Add a position to each branch; `shape` is (batch, branches).

        Returns the mask of the new positions, True for all but the branch's past and itself:
        (batch, 1, branches, places). Raises ValueError if the branches are not those of the step before; `reorder`
        changes them.
        """
        batch, branches = shape
        buffer = self.layers[0].buffer
        expected = (len(buffer), branches) if self.hidden is None else self.hidden.shape[:2]
        if shape != expected:
            raise ValueError(f"DecoderCache: expected (batch, branches) {expected}, got {shape}; see reorder()")
        others = ~tt.eye(branches, dtype=tt.bool, device=buffer.device)
        fresh = tt.broadcast_to(others, (batch, branches, branches))
        if key_padding_mask is not None:
            fresh = fresh | tt.expand_dims(key_padding_mask, axis=1)
        self.hidden = fresh if self.hidden is None else tt.concat([self.hidden, fresh], axis=2)
        self.length += 1
        return tt.expand_dims(self.hidden, axis=1)

    def forget(self, count: int) -> None:
        """Drop the first `count` positions, which no branch uses any more; `length` still counts them."""
        if self.hidden is not None:
            self.hidden = self.hidden[:, :, count:]
        for layer in self.layers:
            layer.forget(count)

    def reorder(self, batch: Tensor, branches: Tensor) -> None:
        """Go on with other branches: item i becomes item batch[i], and its branch j that item's branches[i, j].

        Args:
            batch: (new batch,) integers. Items not in it leave the cache.
            branches: (new batch, new branches) integers.
        """
        if self.hidden is not None:
            self.hidden = self.hidden[tt.expand_dims(batch, axis=1), branches]
        (moved,) = tt.nonzero(batch != tt.arange(len(batch), device=batch.device))
        if len(batch) == len(self.layers[0].buffer) and not len(moved):
            return
        if self.memory_hidden is not None:
            self.memory_hidden = tt.take(self.memory_hidden, batch, axis=0)
        for cache in (*self.layers, *self.memories):
            cache.take(batch, moved)


class LayerCache(metaclass=Replaceable):
    """Keys and values of one attention, side by side, (batch, length, kv_size).

    Their buffer doubles when it is full, so that a position costs its own size on average.

    Args:
        kept: keys and values that are there already. The cache takes them over and writes into them.
        spare: the number of positions by which the buffer grows, at least; 0 for a cache that is filled once.

    Attributes:
        buffer: (batch, capacity, kv_size).
        places: the number of positions in it.
    """

    def __init__(self, kept: Tensor, *, spare: int = FIRST) -> None:
        self.buffer, self.places, self.spare = kept, kept.shape[1], spare

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values, (batch, heads, length, head_dim) each; returns those of all positions."""
        batch, heads, length, head_dim = k.shape
        each = tt.stack([tt.permute_dims(x, (0, 2, 1, 3)) for x in (k, v)], axis=2)  # (batch, length, 2, heads, ...)
        kept = self.append_joined(tt.reshape(each, (batch, length, 2 * heads * head_dim)))
        kept = tt.permute_dims(tt.reshape(kept, (batch, self.places, 2, heads, head_dim)), (2, 0, 3, 1, 4))
        return kept[0], kept[1]

    def append_joined(self, projected: Tensor) -> Tensor:
        """`append` for keys and values of all heads side by side, (batch, length, kv_size)."""
        first, end = self.places, self.places + projected.shape[1]
        if not (first or self.spare):  # it is filled once, so no copy is needed
            self.buffer, self.places = projected, end
        elif end > first:
            if not first:  # autocast may have chosen another dtype
                self.buffer = tt.astype(self.buffer, projected.dtype, copy=False)
            self.grow(end)[:, first:end] = projected
        return self.buffer if end == self.buffer.shape[1] else self.buffer[:, :end]

    def grow(self, end: int) -> Tensor:
        """Return the buffer, grown to `end` places; the caller fills the last ones."""
        if end > self.buffer.shape[1]:
            batch, capacity, size = self.buffer.shape
            more = max(end, end - 1 + self.spare, 2 * capacity) - capacity
            room = tt.empty((batch, more, size), dtype=self.buffer.dtype, device=self.buffer.device)
            self.buffer = tt.concat([self.buffer, room], axis=1)
        self.places = end
        return self.buffer

    def forget(self, count: int) -> None:
        """Drop the first `count` positions; the others move to separate memory."""
        left = self.places - count
        self.buffer = self.buffer[:, count : self.places]
        self.grow(left + 1)
        self.places = left

    def take(self, batch: Tensor, moved: Tensor) -> None:
        """Keep these items of the batch, in this order; `moved` are the places whose item changes."""
        self.buffer = _taken(self.buffer, batch, moved)


def _taken(x: Tensor, batch: Tensor, moved: Tensor) -> Tensor:
    """Items of x, which is not used again: moved within x, unless gradients may need it or x is too short."""
    if tt.is_grad_enabled() or len(batch) > len(x):
        return tt.take(x, batch, axis=0)
    x[moved] = x[batch[moved]]
    return x[: len(batch)]


# ---- what steps pass by

WHOLE_AND_STEP = (
    ("forward", "step"),
    ("forward", "empty_cache"),
    ("decode", "next_logits"),
    ("forward", "next_logits"),
)


def passed_by(model: Module) -> str | None:
    """The path of the first module of which decoding in steps would pass something by, or None.

    A step computes one position by a separate method, next to the `forward` of its class. It does not call hooks of
    the module, or a `forward` that a subclass or an assignment put there. Steps do call an attention's `forward`, but
    one from elsewhere may not accept a cache, and hooks may not accept the empty query that fills it.
    """
    for path, module in model.named_modules():
        pairs = [(w, s) for w, s in WHOLE_AND_STEP if hasattr(type(module), s) and hasattr(type(module), w)]
        has_more = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
        if pairs and (has_more or not all(_written_together(type(module), *pair) for pair in pairs)):
            return path or type(module).__name__
    return None


def _written_together(kind: type, whole: str, step: str) -> bool:
    """True if a class has both from one class, or the step from a later one, and `whole` is what that class says."""
    owner, other = (next(base for base in kind.__mro__ if name in vars(base)) for name in (whole, step))
    home = getattr(vars(owner)[whole], "__globals__", {}).get("__name__")
    return issubclass(other, owner) and home in (owner.__module__, may_be_faster.__module__)
