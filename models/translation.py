"""Translation: the models that can be chosen, texts to translations, and how good they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor import Tensor

from .decoding import Hypothesis, beam_search, greedy
from .languages import Pair, TranslationTask, corpus_alignment_error_rate, written
from .recurrent import Seq2Seq
from .tasks import Batch, padded
from .training import cross_entropy
from .transformer import Transformer

MODELS = ("transformer", "bahdanau", "luong", "none")
"""Vaswani et al. 2017, Bahdanau et al. 2014, Luong et al. 2015, and Sutskever et al. 2014 without attention."""

SCORES = ("dot", "general", "concat", "local-p")
"""How Luong et al. 2015 score what the decoder looks at (section 3.1), and their local attention (section 3.2)."""

PRESETS: dict[str, dict[str, Any]] = {
    "toy": {"d_model": 96, "num_heads": 4, "num_layers": 2, "d_ff": 384, "dropout": 0.0, "norm_first": True},
    "tiny": {"d_model": 128, "num_heads": 4, "num_layers": 4, "d_ff": 256, "dropout": 0.3},
    "small": {"d_model": 256, "num_heads": 4, "num_layers": 3, "d_ff": 1024, "dropout": 0.3},
    "base": {"d_model": 512, "num_heads": 8, "num_layers": 6, "d_ff": 2048, "dropout": 0.1},
}
"""Sizes; `base` is the base model of Vaswani et al. 2017 (table 3), `tiny` a model for corpora like Multi30k.

`toy` has few steps, and learns more in them where each sub-layer is normalised first (Xiong et al. 2020).
"""

TRAINING: dict[str, dict[str, Any]] = {
    "toy": {"steps": 2600, "learning_rate": 2.5e-3, "warm_up": 200, "accumulate": 2, "average": 10},
    "tiny": {"steps": 8000, "learning_rate": 5e-3, "warm_up": 2000, "accumulate": 2, "average": 20},
    "small": {"steps": 20_000, "learning_rate": 1e-3, "warm_up": 4000, "accumulate": 1, "average": 10},
    "base": {"steps": 100_000, "learning_rate": 7e-4, "warm_up": 4000, "accumulate": 1, "average": 10},
}
"""How the sizes are trained; `base` as in sections 5.2 and 5.3 of the paper, `tiny` as for Multi30k with fairseq.

Wu et al. (2021), whose figure is the one to reach on Multi30k, train on two GPUs with a batch each: an update sees two.
"""

SEEN = 200  # pairs of training that tell which layer shows the alignment
CHUNK = 256  # sentences that are decoded together
LIMIT = (1.2, 50)  # of a translation: 1.2 times as many ids as its source, and 50 more


def make_model(
    name: str,
    source_vocabulary: int,
    target_vocabulary: int,
    sizes: Mapping[str, Any],
    *,
    max_length: int,
    joint: bool,
    score: str | None = None,
) -> Any:
    """A new model of this name.

    Args:
        sizes: d_model, num_heads, num_layers, d_ff, dropout and norm_first, as in PRESETS; recurrent models use d_model
            and dropout and have one layer.
        joint: whether both languages share a vocabulary, and then their embeddings.
        score: of "luong": one of SCORES; default: "general".
    """
    common: dict[str, Any] = {"max_length": max_length, "tie_weights": True, "share_embeddings": joint}
    if name == "transformer":
        return Transformer(source_vocabulary, target_vocabulary, inner_dropout=0.0, **sizes, **common)
    used = {key: sizes[key] for key in ("d_model", "dropout")} | {"num_layers": 1}
    attention = {"bahdanau": "bahdanau", "luong": score or "general", "none": None}[name]
    return Seq2Seq(source_vocabulary, target_vocabulary, attention=attention, **used, **common)


# ---- translating


def decode_all(
    model: Any,
    sources: Sequence[Sequence[int]],
    *,
    beam: int = 1,
    length_penalty: float = 1.0,
    decode: Callable[[Any, Any], list[Hypothesis]] | None = None,
) -> list[list[Hypothesis]]:
    """Hypotheses for each source (ids without the end), best first, in the order of the sources.

    Sentences of like length are decoded together, greedily or by beam search, or by `decode(model, ids)`. A translation
    has at most 1.2 times as many ids as its source, and 50 more.
    """
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    found: list[list[Hypothesis]] = [[] for _ in sources]
    for start in range(0, len(order), CHUNK):
        chunk = order[start : start + CHUNK]
        batch = padded([[*sources[i], model.eos_id] for i in chunk])
        if decode is not None:
            results = [[hypothesis] for hypothesis in decode(model, batch)]
        elif beam == 1 and length_penalty == 1:  # the same as beam search gives, sooner
            results = [[hypothesis] for hypothesis in greedy(model, batch, max_length=LIMIT)]
        else:
            results = beam_search(model, batch, beam=beam, length_penalty=length_penalty, max_length=LIMIT)
        for i, hypotheses in zip(chunk, results):
            found[i] = hypotheses
    return found


def bleu(translations: Sequence[str], references: Sequence[str], tokenize: str = "none") -> tuple[float, str]:
    """BLEU of a corpus (Papineni et al. 2002), and the signature of how it was computed.

    Args:
        tokenize: sacrebleu's name of how both sides are cut into words; "none": at spaces, as they are.
    """
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize=tokenize, force=True)
    score = metric.corpus_score(list(translations), [list(references)])
    return score.score, str(metric.get_signature())


# ---- the toy languages


def translate_pairs(model: Any, task: TranslationTask, pairs: Sequence[Pair]) -> list[list[str]]:
    """The words that the model gives for the sources of some pairs (greedily)."""
    sources = [task.source.ids(pair.source) for pair in pairs]
    return [task.target.tokens(hypotheses[0].ids) for hypotheses in decode_all(model, sources)]


def toy_figures(model: Any, task: TranslationTask, pairs: Sequence[Pair]) -> dict[str, float]:
    """Exact match and BLEU of translations; the alignment error rate of cross-attention, where there is any.

    BLEU is that of sentences as they are written, cut at spaces. The alignment is read from one layer, the mean over
    its heads, with the true target as input: from the layer that shows it best in pairs of training.
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

    Row t of the weights is what the model looks at to say word t.
    """
    batch = task.make_batch(pairs)
    rates = []
    for weights in model.cross_attention(tt.asarray(batch.source), tt.asarray(batch.target_in)):
        means = tt.mean(weights, axis=1).numpy()
        rates.append(corpus_alignment_error_rate((means[i], pair.alignment) for i, pair in enumerate(pairs)))
    return rates


def clearest_layer(layers: Sequence[np.ndarray]) -> tuple[int, np.ndarray]:
    """The layer whose cross-attention points most clearly: its number, and the mean over its heads, (target, source).

    Args:
        layers: weights (heads, target, source) of each layer.

    Most clearly: on average over the target, the largest weight of the mean over heads is the largest.
    """
    means = [layer.mean(axis=0) for layer in layers]
    best = max(range(len(means)), key=lambda i: means[i].max(axis=1).mean())
    return best, means[best]


# ---- real text


def validation_loss(model: Any, batches: Sequence[Batch]) -> float:
    """The mean negative log-likelihood of a target token (nats), without label smoothing."""
    total, tokens = 0.0, 0
    with tt.no_grad():
        for batch in batches:
            count = int(np.count_nonzero(batch.target_out))
            loss: Tensor = cross_entropy(model(batch.source, batch.target_in), batch)
            total, tokens = total + loss.item() * count, tokens + count
    return total / max(tokens, 1)
