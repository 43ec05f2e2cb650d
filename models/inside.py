"""The computation of a language model, layer by layer and head by head: by reading it, and by changing it.

    logit_lens(model, ids)                        the logits of each layer, were it the last
    logit_shares(model, ids, token)               what each head and each network adds to a logit
    heads_left_out(model, lambda: loss(...))      how a number changes without each head
    patched(model, clean, corrupted, score)       how much of one run comes back with a value of another

They are built on `nn.cache` and `nn.intervene`, and are short: copy one, and change it. Dropout is off meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import tinytensor as tt
from tinytensor import Tensor, nn
from tinytensor.nn.module import evaluating

from .language_model import LanguageModel


def logit_lens(model: LanguageModel, ids: Any) -> Tensor:
    """The logits that the vectors below and above each layer give after the last norm (nostalgebraist 2020).

    Args:
        ids: (batch, length).

    Returns (layers + 1, batch, length, vocabulary): first of the embeddings, last the model's own. Raises TypeError for
    another model: `nn.cache` reads the layers of any.
    """
    names = ["layers.0.x", *_layers("logit_lens", model)]
    with tt.no_grad(), evaluating(model), nn.cache(model, names) as values:
        model(ids)
    with tt.no_grad():
        return tt.stack([model.projection(model.norm(values[name])) for name in names])


class LogitShares(NamedTuple):
    """The terms of a logit, whose sum it is; Tensors, batch first.

    Attributes:
        embedding: (batch,), of the word and its position.
        heads: (batch, layers, heads), without the biases of `out_proj`.
        networks: (batch, layers), of feed-forward networks.
        biases: (batch,), of all `out_proj` and of the last norm.
    """

    embedding: Tensor
    heads: Tensor
    networks: Tensor
    biases: Tensor

    @property
    def total(self) -> Tensor:
        """The logit, (batch,)."""
        return self.embedding + tt.sum(self.heads, axis=(1, 2)) + tt.sum(self.networks, axis=1) + self.biases


def logit_shares(model: LanguageModel, ids: Any, token: int, other: int | None = None, *, at: int = -1) -> LogitShares:
    """The share of each part in the logit of a token, or in that minus the logit of another (Elhage et al. 2021).

    All parts add to one vector, which the last norm scales. With the scale that this text has, the logit is their sum.

    Args:
        ids: (batch, length), without padding.
        at: the position that predicts the token.

    Raises TypeError for another model, and ValueError for one whose layers do something else than add: no shares then.
    """
    layers, norm = _layers("logit_shares", model), model.norm
    names = ["layers.0.x", "norm.input", "*.z", "*.feed_forward"]
    with tt.no_grad(), evaluating(model), nn.cache(model, names) as seen:
        logits, words = model(ids)[:, at], model.projection.weight
        u = words[token] - (0.0 if other is None else words[other])
        x, is_centred = seen["norm.input"][:, at], isinstance(norm, nn.LayerNorm)
        x = x - tt.mean(x, axis=-1, keepdims=True) if is_centred else x
        way = u * norm.weight / tt.sqrt(tt.mean(x * x, axis=-1, keepdims=True) + norm.eps)  # (batch, d_model)
        way = way - tt.mean(way, axis=-1, keepdims=True) if is_centred else way

        def through(vectors: Any) -> Tensor:
            return tt.sum(way * vectors, axis=-1)

        biases = through(0.0) + (0.0 if getattr(norm, "bias", None) is None else tt.sum(u * norm.bias))
        heads = []
        for name, layer in zip(layers, model.layers):
            out, z = layer.self_attn.out_proj, seen[f"{name}.self_attn.z"][:, :, at]  # (batch, heads, head_dim)
            heads.append(tt.sum(z * tt.reshape(way @ out.weight, z.shape), axis=-1))
            biases = biases if out.bias is None else biases + through(out.bias)
        networks = tt.stack([through(seen[f"{name}.feed_forward"][:, at]) for name in layers], axis=1)
        shares = LogitShares(through(seen["layers.0.x"][:, at]), tt.stack(heads, axis=1), networks, biases)
        logit = logits[:, token] - (0.0 if other is None else logits[:, other])
        if tt.any(abs(shares.total - logit) > 0.01 * tt.max(abs(logits))):
            raise ValueError(
                f"logit_shares: the parts add up to {shares.total.tolist()}, the logit is {logit.tolist()}; expected a "
                "model whose layers only add to one vector"
            )
        return shares


def heads_left_out(model: nn.Module, score: Callable[[], Any]) -> np.ndarray:
    """How much a number changes without each head, whose z is 0: (layers, heads), positive where it grows.

        heads_left_out(model, lambda: F.cross_entropy(model(ids)[0, :-1], ids[0, 1:]))

    Args:
        model: any with attention in it, such as a `LanguageModel`, `Encoder` or `Transformer`. A row is a module in the
            order in which they compute; where it has fewer heads than another, the rest is NaN.
        score: calls the model and returns a number, or a Tensor of one element.
    """
    with tt.no_grad(), evaluating(model):
        with nn.cache(model, "*.z") as values:
            whole = float(score())
        counts = {name: z.shape[1] for name, z in values.items()}
        found = np.full((len(counts), max(counts.values())), np.nan)
        for row, (name, count) in enumerate(counts.items()):
            for head in range(count):
                with nn.intervene(model, {name: {head: 0.0}}):
                    found[row, head] = float(score()) - whole
    return found


def patched(
    model: nn.Module,
    clean: Any,
    corrupted: Any,
    score: Callable[[Any], Any],
    names: str | Sequence[str] | None = None,
) -> np.ndarray:
    """The share of a score that comes back when one value of a clean run is put into a corrupted one (Vig et al. 2020).

    1 is the score of the clean run, 0 that of the corrupted one. A number for each name and each index along axis 1:
    a position, or within attention a head.

        patched(model, france, japan, lambda logits: logits[0, -1, paris] - logits[0, -1, tokyo])
        patched(model, france, japan, score, "layers.*.self_attn.z")          # heads

    Args:
        model: any module; without names a `LanguageModel`.
        clean, corrupted: what it is called with, of the same shapes: ids (batch, length), or a tuple of arguments.
        score: of the model's result, a number or a Tensor of one element.
        names: as `nn.cache` takes them; a row is one of them, in the order in which they are computed. Default: the
            result of each layer, so (layers, length).

    Raises ValueError where both runs have the same score, or values of other shapes.
    """
    clean, corrupted = (given if isinstance(given, tuple) else (given,) for given in (clean, corrupted))
    names = _layers("patched", model) if names is None else names
    with tt.no_grad(), evaluating(model):
        with nn.cache(model, names) as values:
            best = float(score(model(*clean)))
        with nn.cache(model, names) as others:
            worst = float(score(model(*corrupted)))
        for name, value in values.items():
            if value.shape != others[name].shape:
                raise ValueError(
                    f"patched: {name!r} is {value.shape} in the clean run, {others[name].shape} in the corrupted one; "
                    "expected inputs of the same shapes"
                )
        if best == worst:
            raise ValueError(f"patched: both runs have the score {best:g}; expected runs that differ in it")
        found = np.full((len(values), max(value.shape[1] for value in values.values())), np.nan)
        for row, (name, value) in enumerate(values.items()):
            for i in range(value.shape[1]):
                with nn.intervene(model, {name: {i: value[:, i]}}):
                    found[row, i] = float(score(model(*corrupted)))
    return (found - worst) / (best - worst) + 0.0  # no -0


def _layers(who: str, model: Any) -> list[str]:
    """The names of what a language model's layers return. Raises TypeError for another model."""
    if not isinstance(model, LanguageModel):
        raise TypeError(f"{who}: expected a LanguageModel, got a {type(model).__name__}; nn.cache reads any model")
    return [f"layers.{i}" for i in range(len(model.layers))]
