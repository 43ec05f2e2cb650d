"""Recording what attention computes, for pictures of it."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tinytensor import Tensor
from tinytensor.modes import state

from .functional import attention
from .listening import listeners, listening

Kind = Literal["encoder", "decoder", "cross"]


class record_attention:
    """Within it, every call of attention in this thread is recorded; results, gradients and random numbers stay as is.

        with nn.record_attention() as attention:
            model(source, target)
        attention.cross[0].weights                        # layer 0: (batch, heads, target, source)
        attention["decoder.layers.0.multihead_attn"]      # the same call, by the path of its module

    It sees `MultiheadAttention`, `F.multi_head_attention_forward` and `F.scaled_dot_product_attention`, so any model
    built on them, and the attention of `models.Seq2Seq`. The arrays are NumPy's and belong to the recording. It may be
    entered again, and adds then. Stacks in compiled loops step aside, so that their numbers change by rounding.

    A module that is called more than once, as by `generate`, is shown by its last call: the one that has the whole
    sequence. `calls` has them all, in their order.

    Warns (UserWarning, once) if dropout is on: the weights recorded are those before it.

    Attributes:
        calls: every AttentionCall.
    """

    def __init__(self) -> None:
        self.calls: list[AttentionCall] = []
        self._on: list[Any] = []
        self._given: dict[str, Any] = {}
        self._seen: dict[str, Any] = {}
        self._warned = False

    def __enter__(self) -> record_attention:
        functions = attention.multi_head.__wrapped__, attention.attention  # type: ignore[attr-defined]
        self._on.append(listening(self, *functions))
        self._on[-1].__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._on.pop().__exit__(*exception)

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

    def __call__(self, function: str, name: str, value: Any) -> None:
        """Listen to `attention`, whose weights are the last of what is recorded, and to who calls it with what."""
        if state.recomputing:
            return
        if function == "multi_head" and name in ("query", "key"):
            self._given[name] = value
        elif function == "attention" and name in ("q", "k", "v", "mask", "dropped", "scale", "weights"):
            self._seen[name] = value
        if "weights" in self._seen:
            given, seen, self._given, self._seen = self._given, self._seen, {}, {}
            if not seen["q"].shape[-2]:  # no queries: the call fills a cache
                return
            if seen.pop("dropped") is not None and not self._warned:
                self._warned = True
                warnings.warn(
                    "record_attention: dropout is on; the weights recorded are those before it. Call model.eval() "
                    "first to record what the model does when it is used",
                    UserWarning,
                    stacklevel=4,
                )
            self.add(**seen, same=given["query"] is given["key"] if "key" in given else None)

    def add(self, q: Any, k: Any, v: Any, mask: Any, scale: Any, weights: Tensor, same: bool | None) -> None:
        """Record one call, in the module that is being called.

        Args:
            q, k, v: (..., length, size), of separate heads; no q and k if scores are not products.
            mask: boolean (True: hidden) or added to the scores.
            scale: what the products of queries and keys are multiplied by; None likewise.
            weights: (..., target, source).
            same: True if queries and keys come from one sequence; None if unknown.
        """
        arrays: Any = [None if x is None else _four(_numpy(x)) for x in (q, k, v, weights)]
        query, key, value, w = arrays
        added = None if mask is None else _numpy(mask)
        shown = None if added is None else _four(np.broadcast_to(added, weights.shape))
        scopes = tuple(state.scopes)
        causal = added is not None and _is_causal(added)
        kind = _kind(scopes, same, causal, weights.shape[-2] == weights.shape[-1])
        # The outermost module only has its class's name; parts of a model are called without it too.
        path = ".".join(scopes[1:] if len(scopes) > 1 and scopes[0][:1].isupper() else scopes)
        self.calls.append(AttentionCall(path, kind, query, key, value, w, shown, scale))


def recorders() -> list[record_attention]:
    """Those that are on in this thread."""
    return [listener for listener in listeners() if isinstance(listener, record_attention)]


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """One call of attention, as NumPy arrays.

    Attributes:
        path: of the module it was called in, such as "encoder.layers.0.self_attn".
        kind: "cross" where queries and keys come from different sequences; otherwise of the "encoder" or the
            "decoder", which the names of the modules around it say, and where they do not, a causal mask. None where
            it cannot be known.
        query, key, value: (batch, heads, target, d_k), (batch, heads, source, d_k) and (batch, heads, source, d_v). No
            query and key if the weights are not a softmax of their products alone, as in Bahdanau's attention.
        weights: (batch, heads, target, source), before dropout; their rows add up to one, or to zero where all is
            masked, or to less than one for the window of local attention (Luong et al. 2015).
        mask: None, or (batch, heads, target, source): boolean, True where attention was not allowed, or what was
            added to the scores.
        scale: the factor of the products of queries and keys; None without products.
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


def _is_causal(array: np.ndarray) -> bool:
    """True if every later position is hidden from an earlier one."""
    if array.ndim < 2 or array.shape[-2] != array.shape[-1] or array.shape[-1] < 2:
        return False
    hidden = array if array.dtype.kind == "b" else array == -math.inf
    return bool(hidden[..., ~np.tri(array.shape[-1], dtype=bool)].all())


def _numpy(x: Tensor) -> np.ndarray:
    """A copy, which later writes to the Tensor do not reach."""
    return np.array(x.detach().numpy())


def _four(x: np.ndarray) -> np.ndarray:
    """Reshape to (batch, heads, length, size): without heads, one head; all axes before heads are the batch."""
    heads = x.shape[-3] if x.ndim > 3 else 1
    return x.reshape(math.prod(x.shape[:-2]) // max(heads, 1), heads, *x.shape[-2:])
