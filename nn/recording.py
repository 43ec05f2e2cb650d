"""Recording what attention computes, for pictures of it."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.modes import state

from .functional.attention import attention, watch

Kind = Literal["encoder", "decoder", "cross"]


class record_attention:
    """Within it, every call of attention in this thread is recorded; results, gradients and random numbers stay as is.

        with nn.record_attention() as attention:
            model(source, target)
        attention.cross[0].weights                        # layer 0: (batch, heads, target, source)
        attention["decoder.layers.0.multihead_attn"]      # the same call, by the path of its module

    It sees `MultiheadAttention`, `F.multi_head_attention_forward` and `F.scaled_dot_product_attention`, so any model
    built on them, and the attention of `models.Seq2Seq`. The arrays are NumPy's and belong to the recording. It may be
    entered again, and adds then.

    A module that is called more than once, as by `generate`, is shown by its last call: the one that has the whole
    sequence. `calls` has them all, in their order.

    Warns (UserWarning, once) if dropout is on: the weights recorded are those before it.

    Attributes:
        calls: every AttentionCall.
    """

    def __init__(self) -> None:
        self.calls: list[AttentionCall] = []
        self._outer: list[Any] = []
        self._warned = False

    def __enter__(self) -> record_attention:
        self._outer.append(watch.see)
        watch.see = self._see
        return self

    def __exit__(self, *exception: object) -> None:
        watch.see = self._outer.pop()

    def __repr__(self) -> str:
        counts = [f"{len(self._of(kind))} {kind}" for kind in ("encoder", "decoder", "cross") if self._of(kind)]
        return f"<attention: {len(self.calls)} calls, layers: {', '.join(counts) or len(self.layers)}>"

    @property
    def layers(self) -> list[AttentionCall]:
        """The last call of each module, in the order of their first calls."""
        return list({call.path: call for call in self.calls}.values())

    @property
    def encoder(self) -> list[AttentionCall]:
        """Layer by layer, the last call of self-attention that belongs to an encoder."""
        return self._of("encoder")

    @property
    def decoder(self) -> list[AttentionCall]:
        """Layer by layer, the last call of self-attention that belongs to a decoder."""
        return self._of("decoder")

    @property
    def cross(self) -> list[AttentionCall]:
        """Layer by layer, the last call of attention from one sequence to another."""
        return self._of("cross")

    def _of(self, kind: Kind) -> list[AttentionCall]:
        return [call for call in self.layers if call.kind == kind]

    def __getitem__(self, path: str) -> AttentionCall:
        """The last call of a module, by its path or the end of it that names one module only.

        Raises KeyError that lists the paths recorded.
        """
        found = [call for call in self.layers if call.path == path]
        found = found or [call for call in self.layers if call.path.endswith(f".{path}")]
        if len(found) != 1:
            fault = "is the end of several paths" if found else "was not recorded"
            raise KeyError(f"record_attention: {path!r} {fault}; recorded: {', '.join(c.path for c in self.layers)}")
        return found[0]

    @tt.no_grad()
    def _see(
        self,
        query: Any,
        key: Any,
        value: Any,
        mask: Any,
        scale: Any,
        *,
        attn_mask: Any,
        dropout: bool,
        same: bool | None,
        weights: Any = None,
    ) -> None:
        """Record one call.

        Args:
            query, key, value: (..., length, size), of separate heads; no query and key where scores are no products.
            mask: boolean (True: hidden) or added to the scores.
            scale: what the products of queries and keys are multiplied by; None likewise.
            attn_mask: the part of it that was given for pairs of positions.
            dropout: whether weights are dropped.
            same: whether queries and keys come from one sequence; None if that cannot be seen.
            weights: (..., target, source); default softmax(query key^T * scale + mask).
        """
        if state.recomputing:
            return
        if self._outer[-1] is not None:
            options = {"attn_mask": attn_mask, "dropout": dropout, "same": same, "weights": weights}
            self._outer[-1](query, key, value, mask, scale, **options)
        if dropout and not self._warned:
            self._warned = True
            warnings.warn(
                "record_attention: dropout is on; the weights recorded are those before it. Call model.eval() first "
                "to record what the model does when it is used",
                UserWarning,
                stacklevel=3,
            )
        given = query, key, value, mask, weights
        query, key, value, mask, weights = (None if x is None else x.detach() for x in given)
        if weights is None:
            weights = attention(query, key, value, mask, scale=scale)[1]
        arrays: list[Any] = [None if x is None else _four(_numpy(x)) for x in (query, key, value, weights)]
        if mask is not None:
            full = np.broadcast_to(_numpy(mask), weights.shape)
            mask = full if full.ndim == 4 else _four(full)
        scopes = tuple(state.scopes)
        target, source = weights.shape[-2:]
        kind = _kind(scopes, same, attn_mask is not None and _is_causal(attn_mask), target == source)
        # The outermost module has no name of its own, only its class's; parts of a model are called without it too.
        path = ".".join(scopes[1:] if len(scopes) > 1 and scopes[0][:1].isupper() else scopes)
        q, k, v, w = arrays
        self.calls.append(AttentionCall(path, kind, q, k, v, w, mask, scale))


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """One call of attention, as NumPy arrays.

    Attributes:
        path: of the module it was called in, such as "encoder.layers.0.self_attn".
        kind: "cross" where queries and keys come from different sequences; otherwise of the "encoder" or the
            "decoder", which the names of the modules around it say, and where they do not, a causal mask. None where
            it cannot be known.
        query, key, value: (batch, heads, target, d_k), (batch, heads, source, d_k) and (batch, heads, source, d_v). No
            query and key where the weights are no softmax of their products alone, as with Bahdanau's attention.
        weights: (batch, heads, target, source), before dropout; their rows add up to one, or to zero where all is
            masked, or to less than one for the window of local attention (Luong et al. 2015).
        mask: None, or (batch, heads, target, source): boolean, True where attention was not allowed, or what was
            added to the scores.
        scale: what the products of queries and keys were multiplied by; None where there are none.
    """

    path: str
    kind: Kind | None
    query: np.ndarray | None = field(repr=False)
    key: np.ndarray | None = field(repr=False)
    value: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    mask: np.ndarray | None = field(repr=False)
    scale: float | None

    @property
    def hidden(self) -> np.ndarray | None:
        """(batch, heads, target, source): where attention was not allowed; None without a mask."""
        if self.mask is None or self.mask.dtype.kind == "b":
            return self.mask
        return self.mask == -math.inf


def _kind(scopes: tuple[str, ...], same: bool | None, causal: bool, square: bool) -> Kind | None:
    name = scopes[-1].lower() if scopes else ""
    if not same and "self" in name:  # keys that were kept from earlier steps are another array
        same = True
    elif same is None and ("cross" in name or not square):
        same = False
    elif same is None and causal:
        same = True
    if same is None:
        return None
    if not same:
        return "cross"
    for scope in reversed(scopes):
        encoder, decoder = "encoder" in scope.lower(), "decoder" in scope.lower()
        if encoder != decoder:
            return "encoder" if encoder else "decoder"
    return "decoder" if causal else "encoder"


def _is_causal(mask: Any) -> bool:
    """Whether every later position is hidden from an earlier one."""
    array = _numpy(mask) if isinstance(mask, Tensor) else np.asarray(mask)
    if array.ndim < 2 or array.shape[-2] != array.shape[-1]:
        return False
    hidden = array if array.dtype.kind == "b" else array == -math.inf
    return bool(hidden[..., ~np.tri(array.shape[-1], dtype=bool)].all())


def _numpy(x: Tensor) -> np.ndarray:
    """A copy, which later writes to the Tensor do not reach."""
    return np.array(x.detach().numpy())


def _four(x: np.ndarray) -> np.ndarray:
    """As (batch, heads, length, size): without heads there is one, and what stands before heads is the batch."""
    heads = x.shape[-3] if x.ndim > 3 else 1
    return x.reshape(math.prod(x.shape[:-2]) // max(heads, 1), heads, *x.shape[-2:])
