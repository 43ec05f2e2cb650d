"""The models to choose from, their sizes, and how to train each size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..language_model import GPT2, LLAMA
from ..recurrent import Seq2Seq
from ..transformer import Transformer

MODELS = ("transformer", "bahdanau", "luong", "none")
"""Vaswani et al. 2017, Bahdanau et al. 2014, Luong et al. 2015, and Sutskever et al. 2014 without attention."""

SCORES = ("dot", "general", "concat", "local-p")
"""The attention scores of Luong et al. 2015 (section 3.1), and their local attention (section 3.2)."""

PRESETS: dict[str, dict[str, Any]] = {
    "toy": {"d_model": 96, "num_heads": 4, "num_layers": 2, "d_ff": 384, "dropout": 0.0, "norm_first": True},
    "tiny": {"d_model": 128, "num_heads": 4, "num_layers": 4, "d_ff": 256, "dropout": 0.3},
    "small": {"d_model": 256, "num_heads": 4, "num_layers": 3, "d_ff": 1024, "dropout": 0.3},
    "base": {"d_model": 512, "num_heads": 8, "num_layers": 6, "d_ff": 2048, "dropout": 0.1},
}
"""Sizes; `base` is the base model of Vaswani et al. 2017 (table 3), `tiny` a model for corpora like Multi30k.

`toy` has few steps, and learns more in them with normalisation before each sub-layer (Xiong et al. 2020).
"""

TRAINING: dict[str, dict[str, Any]] = {
    "toy": {"steps": 2600, "learning_rate": 2.5e-3, "warm_up": 200, "accumulate": 2, "average": 10},
    "tiny": {"steps": 8000, "learning_rate": 5e-3, "warm_up": 2000, "accumulate": 2, "average": 20},
    "small": {"steps": 20_000, "learning_rate": 1e-3, "warm_up": 4000, "accumulate": 1, "average": 10},
    "base": {"steps": 100_000, "learning_rate": 7e-4, "warm_up": 4000, "accumulate": 1, "average": 10},
}
"""How to train each size; `base` as in sections 5.2 and 5.3 of the paper, `tiny` as for Multi30k with fairseq.

Wu et al. (2021), who set the figure to reach on Multi30k, train on two GPUs with a batch each: an update sees two.
"""


TINY: dict[str, Any] = {"d_model": 128, "num_heads": 4, "num_layers": 4}
LANGUAGE_MODELS: dict[str, dict[str, Any]] = {
    "gpt2-tiny": GPT2 | TINY,
    "llama-tiny": LLAMA | TINY | {"num_kv_heads": 2},
    "gpt2-small": GPT2 | {"d_model": 384, "num_heads": 6, "num_layers": 6},
    "llama-small": LLAMA | {"d_model": 384, "num_heads": 6, "num_layers": 6, "num_kv_heads": 2},
}
"""Sizes of language models, in the shape of GPT-2 and of Llama; `small` is usual for a text of characters."""


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
        sizes: d_model, num_heads, num_layers, d_ff, dropout and norm_first, as in PRESETS; recurrent models use only
            d_model and dropout and have one layer.
        joint: whether both languages share a vocabulary and embeddings.
        score: for "luong", one of SCORES; default: "general".
    """
    common: dict[str, Any] = {"max_length": max_length, "tie_weights": True, "share_embeddings": joint}
    if name == "transformer":
        return Transformer(source_vocabulary, target_vocabulary, inner_dropout=0.0, **sizes, **common)
    used = {key: sizes[key] for key in ("d_model", "dropout")} | {"num_layers": 1}
    attention = {"bahdanau": "bahdanau", "luong": score or "general", "none": None}[name]
    return Seq2Seq(source_vocabulary, target_vocabulary, attention=attention, **used, **common)
