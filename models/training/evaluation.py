"""Translating sources, and measuring how good the translations are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor

from ..data.batch import AnyBatch, padded
from ..data.languages import Pair, TranslationTask, corpus_alignment_error_rate, written
from ..decoding import Hypothesis, beam_search
from .loss import cross_entropy

SEEN = 200  # training pairs to find the layer that shows the alignment
CHUNK = 256  # sentences to decode together
LIMIT = (1.2, 50)  # the most ids of a translation: 1.2 times those of its source, and 50 more


# ---- translating


def decode_all(
    model: Any,
    sources: Sequence[Sequence[int]],
    *,
    beam: int = 1,
    decode: Callable[[Any, Any], list[Hypothesis]] | None = None,
    **how: Any,
) -> list[list[Hypothesis]]:
    """Hypotheses for each source (ids without the end), best first, in the order of the sources.

    Sentences of similar length are decoded together, by beam search, which further arguments are for, or by
    `decode(model, ids)`. A translation has at most 1.2 times as many ids as its source, and 50 more.
    """
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    found: list[list[Hypothesis]] = [[] for _ in sources]
    for start in range(0, len(order), CHUNK):
        chunk = order[start : start + CHUNK]
        batch = padded([[*sources[i], model.eos_id] for i in chunk], model.pad_id)
        if decode is not None:
            results = [[hypothesis] for hypothesis in decode(model, batch)]
        else:
            results = beam_search(model, batch, beam=beam, max_length=LIMIT, **how)
        for i, hypotheses in zip(chunk, results):
            found[i] = hypotheses
    return found


def bleu(translations: Sequence[str], references: Sequence[str], tokenize: str = "none") -> tuple[float, str]:
    """BLEU of a corpus (Papineni et al. 2002), and the signature of its computation.

    Args:
        tokenize: sacrebleu's name of the tokenizer for both sides; "none" only splits at spaces.
    """
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize=tokenize, force=True)
    score = metric.corpus_score(list(translations), [list(references)])
    return score.score, str(metric.get_signature())


# ---- the toy languages


def translate_pairs(model: Any, task: TranslationTask, pairs: Sequence[Pair]) -> list[list[str]]:
    """The model's words for the sources of some pairs, decoded greedily."""
    sources = [task.source.ids(pair.source) for pair in pairs]
    return [task.target.tokens(hypotheses[0].ids) for hypotheses in decode_all(model, sources)]


def toy_figures(model: Any, task: TranslationTask, pairs: Sequence[Pair]) -> dict[str, float]:
    """Exact match and BLEU of translations; the alignment error rate of cross-attention, if there is any.

    BLEU is that of written sentences, split at spaces. The alignment comes from one layer, the mean over its heads,
    with the true target as input: from the layer that shows it best in training pairs.
    """
    answers = translate_pairs(model, task, pairs)
    exact = sum(tuple(answer) == pair.target for answer, pair in zip(answers, pairs)) / len(pairs)
    language = task.target.language
    score, _ = bleu([written(a, language) for a in answers], [written(pair.target, language) for pair in pairs])
    figures = {"exact_match": exact, "bleu": score}
    if seen := alignment_error_rates(model, task, task.training_pairs(0, SEEN)):
        best = min(range(len(seen)), key=seen.__getitem__)
        figures["alignment_error_rate"] = alignment_error_rates(model, task, pairs)[best]
    return figures


def alignment_error_rates(model: Any, task: TranslationTask, pairs: Sequence[Pair]) -> list[float]:
    """The alignment error rate of each layer's cross-attention: the mean over heads, with the true target as input.

    Row t of the weights is the attention that predicts word t.
    """
    batch = task.make_batch(pairs)
    rates = []
    for weights in model.cross_attention(tt.asarray(batch.source), tt.asarray(batch.target_in)):
        means = tt.mean(weights, axis=1).numpy()
        rates.append(corpus_alignment_error_rate((means[i], pair.alignment) for i, pair in enumerate(pairs)))
    return rates


def clearest_layer(layers: Sequence[np.ndarray]) -> tuple[int, np.ndarray]:
    """The layer with the clearest cross-attention: its number, and the mean over its heads, (target, source).

    Args:
        layers: weights (heads, target, source) of each layer.

    The clearest layer has the largest average over the target of the largest weight of its mean over heads.
    """
    means = [layer.mean(axis=0) for layer in layers]
    best = max(range(len(means)), key=lambda i: means[i].max(axis=1).mean())
    return best, means[best]


# ---- real text


def validation_loss(model: Any, batches: Iterable[AnyBatch]) -> float:
    """The mean negative log-likelihood of a target token (nats), without label smoothing."""
    total, tokens = 0.0, 0
    with tt.no_grad():
        for batch in batches:
            count = int(np.count_nonzero(batch.target_out))
            loss: Tensor = cross_entropy(model(*batch.inputs), batch)
            total, tokens = total + loss.item() * count, tokens + count
    return total / max(tokens, 1)
