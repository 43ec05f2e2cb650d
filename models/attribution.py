"""The share of each token of the input in an output of a model, by gradients at the embeddings.

    logits, embeddings = at_embeddings(model, ids)                         # the model as a function of embeddings
    output = lambda *x: F.log_softmax(logits(*x)[0, -1], dim=-1)[7]        # log p(7 | ids)
    (values,) = integrated_gradients(output, *embeddings)                  # (1, length): a number for each token

A model of your own needs no `at_embeddings`: its output as a function of embeddings is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor
from tinytensor.nn.module import evaluating


def gradient_times_input(output: Callable[..., Tensor], *embeddings: Any) -> list[Tensor]:
    """Σ x · ∂f/∂x for each token (Simonyan et al. 2013; Shrikumar et al. 2016): its share, were f linear.

    Args:
        output: f; takes the embeddings and gives a Tensor of one element.
        embeddings: (..., length, features) each, floating; an encoder-decoder has those of source and target.

    Returns (..., length) for each. Raises RuntimeError if f has several elements or does not depend on an embedding.
    """
    points = [tt.asarray(x).detach() for x in embeddings]
    return [tt.sum(x * slope, axis=-1) for x, slope in zip(points, _slopes(output, points))]


def integrated_gradients(
    output: Callable[..., Tensor], *embeddings: Any, baselines: Sequence[Any] | None = None, steps: int = 50
) -> list[Tensor]:
    """Σ (x − x₀) · ∫₀¹ ∂f(x₀ + α (x − x₀))/∂x dα for each token (Sundararajan et al. 2017, equation 1).

    All numbers together are f(x) − f(x₀) (completeness, proposition 1), as exactly as `steps` points of Gauss-Legendre
    quadrature give the integral. Kinks, as of relu, and a norm near a baseline of zeros ask for more points.

    Args:
        output, embeddings: as for `gradient_times_input`.
        baselines: x₀ for each of the embeddings, of a shape that broadcasts to theirs; default: zeros.

    Returns (..., length) for each. Raises the errors of `gradient_times_input`, and ValueError for fewer than 1 step or
    another number of baselines.
    """
    ends = [tt.asarray(x).detach() for x in embeddings]
    starts = [tt.zeros_like(x) for x in ends] if baselines is None else [tt.asarray(x).detach() for x in baselines]
    if steps < 1 or len(starts) != len(ends):
        raise ValueError(
            f"integrated_gradients: {steps} steps, {len(starts)} baselines for {len(ends)} embeddings; expected 1 step "
            "or more, and as many baselines"
        )
    ways = [end - start for start, end in zip(starts, ends)]
    found = [tt.zeros(way.shape[:-1], dtype=way.dtype, device=way.device) for way in ways]
    for point, weight in zip(*np.polynomial.legendre.leggauss(steps)):  # from -1 to 1, where weights add up to 2
        slopes = _slopes(output, [start + (point + 1) / 2 * way for start, way in zip(starts, ways)])
        found = [each + weight / 2 * tt.sum(way * g, axis=-1) for each, way, g in zip(found, ways, slopes)]
    return found


def at_embeddings(model: Any, *inputs: Any) -> tuple[Callable[..., Tensor], list[Tensor]]:
    """A model's result as a function of the embeddings of its ids, and these embeddings, (batch, length, d_model) each.

    Positions stay as they are, and dropout is off.

    Args:
        model: a `LanguageModel`, `Encoder`, `Transformer` or `Seq2Seq`.
        inputs: what it is called with: ids (batch, length), or those of a source and of a target.
    """
    pair = hasattr(model, "source_embedding")
    tables = {model.source_embedding, model.target_embedding} if pair else {model.embedding}
    found: list[Tensor] = []

    def call(*given: Any) -> Tensor:
        waiting = iter(given)  # the source is embedded first, by a table that the target may share
        hooks = [t.register_forward_hook(lambda *x: next(waiting) if given else found.append(x[-1])) for t in tables]
        try:
            with evaluating(model):
                return model(*inputs)
        finally:
            for hook in hooks:
                hook.remove()

    with tt.no_grad():
        call()
    return call, found


def _slopes(output: Callable[..., Tensor], points: Sequence[Tensor]) -> Sequence[Tensor]:
    """∂f/∂x at these points."""
    with tt.enable_grad():
        leaves = [tt.tensor(point, requires_grad=True) for point in points]
        slopes: Sequence[Tensor] = tt.grad(output(*leaves), leaves)
    return slopes
