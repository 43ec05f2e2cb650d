"""Attention weights from a recording or from elsewhere, read into one form and checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinytensor import Tensor

from ..recording import AttentionCall, record_attention
from .tokens import check_pair, isolated, visible

TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Layer:
    """The attention of one layer for one sample.

    Attributes:
        weights: (heads, target, source), float64.
        hidden: True where attention was not allowed, with the same shape; None if that is unknown.
        name: the path of its module, or "".
        call: where it is recorded; then rows may add up to less than one, as in local attention.
    """

    weights: np.ndarray
    hidden: np.ndarray | None = None
    name: str = ""
    call: AttentionCall | None = None

    @property
    def masks(self) -> list[np.ndarray | None]:
        """For each head, True where attention was not allowed; None if that is unknown."""
        return [None] * len(self.weights) if self.hidden is None else list(self.hidden)


def read_attention(
    weights: Any, source: Any, target: Any, sample: int, without: Any
) -> tuple[list[Layer], list[str], list[str], str]:
    """Weights layer by layer, the tokens of keys and of queries, and words for a title on the keys left out.

    Raises the errors of `read_layers` and `check_pair`; ValueError for keys that do not exist, and if none is left.
    """
    layers = read_layers(weights, sample)
    source, target = check_pair(source, target, *layers[0].weights.shape[:0:-1])
    if without is None:
        return layers, source, target, ""
    gone = choose(without, len(source), "without: key")
    left = [j for j in range(len(source)) if j not in gone]
    if not left:
        raise ValueError(f"without: all {len(source)} keys are left out; leave one at least")
    hidden = [None if x.hidden is None else x.hidden[..., left] for x in layers]
    layers = [replace(x, weights=shares(x.weights[..., left]), hidden=h) for x, h in zip(layers, hidden)]
    names = ", ".join(isolated(visible(source[j])) for j in gone)
    return layers, [source[j] for j in left], target, f", without {names}"


def shares(weights: np.ndarray) -> np.ndarray:
    """Each row (..., source) divided by its sum; a row of zeros stays."""
    sums = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(sums > 0, sums, 1)


def read_layers(weights: Any, sample: int = 0) -> list[Layer]:
    """Weights layer by layer.

    Args:
        weights: a `record_attention` of one kind of attention, a call of it or a list of calls; or numbers, as
            nested lists or arrays of NumPy, tinytensor, PyTorch and the like: (target, source), (head, target,
            source), (layer, head, target, source), (layer, batch, head, target, source), or a list with one
            (head, target, source) or (batch, head, target, source) for each layer.
        sample: the index in a batch.

    Raises ValueError, with the layer, the head and the row, if a row is neither zero nor adds up to one (in a
    recording: if it adds up to more, since the window of local attention drops a part), for negative weights, other
    shapes, layers that differ in length, and samples that do not exist.
    """
    layers = [_layer(item, sample, i) for i, item in enumerate(_items(weights))]
    if not layers:
        raise ValueError("attention weights: no layers; was the model called while it was recorded?")
    for i, layer in enumerate(layers):
        if layer.weights.shape[1:] != layers[0].weights.shape[1:]:
            raise ValueError(
                f"attention weights: layer {i} is {layer.weights.shape[1:]} (target, source), layer 0 is "
                f"{layers[0].weights.shape[1:]}; draw layers of different lengths one by one"
            )
        _check_rows(layer.weights, i, windowed=layer.call is not None)
    return layers


def to_numpy(x: Any) -> np.ndarray:
    """Numbers of any library as a NumPy array, without their gradient."""
    if isinstance(x, Tensor):
        return np.asarray(x.detach().numpy())
    if hasattr(x, "detach"):
        x = x.detach().cpu()
    elif type(x).__module__.partition(".")[0] == "cupy":
        x = x.get()
    try:
        return np.asarray(x)
    except ValueError as error:
        raise ValueError(f"expected an array of numbers, got nested lists of different lengths ({error})") from None


def real(values: Any, what: str, expected: str = "real numbers") -> np.ndarray:
    """Numbers of any library as float64. Raises TypeError, which says what was expected, for anything else."""
    array = to_numpy(values)
    if array.dtype.kind not in "fiub":
        found = f"has type {type(values).__name__}" if array.dtype == object else f"has dtype {array.dtype}"
        raise TypeError(f"{what} {found}; expected {expected}")
    return array.astype(np.float64)


def _items(weights: Any) -> list[Any]:
    """One item for each layer."""
    if isinstance(weights, AttentionCall):
        return [weights]
    if isinstance(weights, record_attention):
        kinds = sorted({str(call.kind) for call in weights.layers})
        if len(kinds) > 1:
            raise ValueError(
                f"attention weights: the recording has attention of kinds {', '.join(kinds)}; choose one, such as "
                "attention.encoder, attention.decoder or attention.cross"
            )
        return list(weights.layers)
    if isinstance(weights, (list, tuple)) and all(isinstance(w, AttentionCall) or _depth(w) > 2 for w in weights):
        return list(weights)  # layers may have different numbers of heads
    array = to_numpy(weights)
    if array.ndim in (2, 3):
        return [array]
    if array.ndim in (4, 5):
        return list(array)
    raise ValueError(
        f"attention weights: expected (target, source), (head, target, source), (layer, head, target, source) or "
        f"(layer, batch, head, target, source), got shape {array.shape}"
    )


def _depth(x: Any) -> int:
    if hasattr(x, "ndim"):
        return x.ndim
    return 1 + (_depth(x[0]) if x else 0) if isinstance(x, (list, tuple)) else 0


def _layer(item: Any, sample: int, i: int) -> Layer:
    what = f"attention weights: layer {i}"
    if isinstance(item, AttentionCall):
        at = choose(sample, len(item.weights), "sample")[0]
        weights, hidden = real(item.weights[at], what, "numbers"), item.hidden
        return Layer(weights, None if hidden is None else hidden[at], item.path, item)
    array = real(item, what, "numbers")
    if array.ndim == 2:
        array = array[None]
    if array.ndim == 4:
        array = array[choose(sample, len(array), "sample")[0]]
    if array.ndim != 3 or 0 in array.shape:
        raise ValueError(
            f"{what} has shape {array.shape}; expected (head, target, source) or "
            "(batch, head, target, source), with no axis empty"
        )
    return Layer(array)


def _check_rows(weights: np.ndarray, layer: int, *, windowed: bool) -> None:
    sums = weights.sum(axis=-1)
    empty = (weights == 0).all(axis=-1)  # all is masked
    right = (sums <= 1 + TOLERANCE) if windowed else np.abs(sums - 1) <= TOLERANCE
    wrong = ~right & ~empty | (weights < 0).any(axis=-1)
    if wrong.any():
        head, row = (int(i) for i in np.argwhere(wrong)[0])
        found = f"adds up to {sums[head, row]:.6g}"
        if np.isnan(sums[head, row]):
            found = "holds NaN"
        elif (weights[head, row] < 0).any():
            found = f"holds the negative weight {weights[head, row].min():.6g}"
        raise ValueError(
            f"attention weights: layer {layer}, head {head}, row {row} {found}; expected the weights of one query, "
            "which add up to 1: take them after softmax, before dropout, as (target, source)"
        )


def choose(indices: Any, count: int, name: str) -> list[int]:
    """Indices of layers or heads: all for None, one for an int; negative ones count from the end.

    Raises ValueError for one that does not exist.
    """
    if indices is None:
        return list(range(count))
    chosen = [int(i) for i in (indices if hasattr(indices, "__iter__") else [indices])]
    for i in chosen:
        if not -count <= i < count:
            raise ValueError(f"{name} {i} does not exist: there are {count}, 0 to {count - 1}")
    if not chosen:
        raise ValueError(f"{name}: none was chosen; give at least one of 0 to {count - 1}")
    return [i % count for i in chosen]
