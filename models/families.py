"""Families of models as Hugging Face stores them: each is a table of names.

A family says which of our classes it is, which of our arguments its config gives, and where each of its weights goes.
`huggingface.py` reads and writes folders by these tables, `gguf_file.py` reads files by them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from .generation_config import read_settings
from .weights import CONFIG, GENERATION, PretrainedError, entries

PARTS = 3  # queries, keys and values, which share one matrix here


@dataclass(frozen=True)
class Family:
    """How Hugging Face stores a family of models.

    Attributes:
        model: the name of our class.
        arguments: makes our arguments from its config.
        prefix: begins the names of the weights of a whole model, but not those of a model without a head.
        places: our name for each pattern of their names. `{}` is the number of the layer; "#0", "#1" and "#2" at the
            end of our name mark the first, second or third part of a weight.
        transposed: a pattern of the names in `places` whose weights are (in, out) instead of (out, in).
        left_out: a pattern of the names that our model has no use for: masks, tables, heads for other tasks.
        zeros: a pattern of our names that it does not have, which are zeros.
        row: a pattern of the names in `places` whose weights are (1, n) instead of (n,).
        unused: how many rows of the table of positions stand before that of the first position.
    """

    model: str
    arguments: Callable[[Config], dict[str, Any]]
    prefix: str
    places: dict[str, str]
    transposed: str = r"(?!)"
    left_out: str = r"(?!)"
    zeros: str = r"(?!)"
    row: str = r"(?!)"
    unused: int = 0


class Config(dict[str, Any]):
    """The entries of a config.json. Errors name an entry that is missing or that this package cannot compute."""

    def __init__(self, path: Path, found: dict[str, Any]) -> None:
        super().__init__(found)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise PretrainedError(f"{self.path}: {name!r} is missing")

    def defaulting(self, **defaults: Any) -> Config:
        """The same with the values that `transformers` has for entries that are missing."""
        return Config(self.path, defaults | self)

    def demand(self, name: str, *known: Any) -> Any:
        """An entry, or the first known value if it is missing. Raises PretrainedError for a value not known."""
        value = known[0] if self.get(name) is None else self[name]
        if value not in known:
            raise PretrainedError(f"{self.path}: {name} is {shown(value)}; expected {' or '.join(map(repr, known))}")
        return value

    def count(self, name: str, *default: int | None) -> Any:
        """An entry that is a whole number above 0; if it is missing, the default, if there is one."""
        value = default[0] if default and self.get(name) is None else self[name]
        if default and value is default[0]:
            return value
        if type(value) is not int or value < 1:
            raise PretrainedError(f"{self.path}: {name} is {shown(value)}; expected a whole number above 0")
        return value

    def number(self, name: str, default: float) -> float:
        """An entry that is a number of at least 0, or the default if it is missing."""
        value = default if self.get(name) is None else self[name]
        if type(value) not in (int, float) or not 0 <= value <= sys.float_info.max:
            raise PretrainedError(f"{self.path}: {name} is {shown(value)}; expected a number of at least 0")
        return float(value)

    def ids(self, name: str) -> list[int]:
        """The ids of an entry: one, several, or none if it is missing. No text has ids outside of the vocabulary."""
        value = self.get(name)
        value = value if isinstance(value, list) else [] if value is None else [value]
        if any(type(i) is not int for i in value):
            raise PretrainedError(f"{self.path}: {name} is {shown(self[name])}; expected an id")
        return [i for i in value if 0 <= i < self["vocab_size"]]


def _encoder(config: Config, d_model: str, heads: str, layers: str, d_ff: str, dropout: str) -> dict[str, Any]:
    """The arguments of every BERT, from the names of its entries."""
    return {
        "vocabulary": config.count("vocab_size"),
        "d_model": config.count(d_model),
        "num_heads": config.count(heads),
        "num_layers": config.count(layers),
        "d_ff": config.count(d_ff),
        "dropout": config.number(dropout, 0.1),
        "max_length": config.count("max_position_embeddings"),
        "pad_id": next(iter(config.ids("pad_token_id")), None if "pad_token_id" in config else 0),
    }


def _bert(config: Config) -> dict[str, Any]:
    config.demand("hidden_act", "gelu")
    config.demand("position_embedding_type", "absolute")
    config.demand("is_decoder", False)
    names = "hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "hidden_dropout_prob"
    segments, norm_eps = config.count("type_vocab_size", 2), config.number("layer_norm_eps", 1e-12)
    return _encoder(config, *names) | {"segments": segments, "norm_eps": norm_eps}


def _roberta(config: Config) -> dict[str, Any]:
    config.demand("pad_token_id", ROBERTA_PAD)
    length = config.count("max_position_embeddings") - ROBERTA_PAD - 1
    return _bert(config) | {"pad_id": ROBERTA_PAD, "max_length": length}


def _distilbert(config: Config) -> dict[str, Any]:
    config.demand("activation", "gelu")
    names = "dim", "n_heads", "n_layers", "hidden_dim", "dropout"
    return _encoder(config, *names) | {"segments": 0, "norm_eps": 1e-12}


def _gpt2(config: Config) -> dict[str, Any]:
    activation = config.demand("activation_function", "gelu_new", "gelu_pytorch_tanh", "gelu", "relu")
    config.demand("scale_attn_weights", True)
    config.demand("scale_attn_by_inverse_layer_idx", False)
    return {
        "vocabulary": config.count("vocab_size"),
        "d_model": config.count("n_embd"),
        "num_heads": config.count("n_head"),
        "num_layers": config.count("n_layer"),
        "d_ff": config.count("n_inner", None),
        "dropout": config.number("resid_pdrop", 0.1),
        "max_length": config.count("n_positions"),
        "positions": "learned",
        "norm_eps": config.number("layer_norm_epsilon", 1e-5),
        "activation": activation if activation in ("gelu", "relu") else "gelu_tanh",
        "tie_weights": config.demand("tie_word_embeddings", True, False),
        **_ends(config),
    }


def _llama(config: Config) -> dict[str, Any]:
    config.demand("hidden_act", "silu")
    if set(config.get("layer_types") or ()) - {"full_attention"} and "sliding_window" not in config:
        raise PretrainedError(f"{config.path}: layer_types {shown(config['layer_types'])}; expected full_attention")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise PretrainedError(f"{config.path}: rotary positions of {shown(rope)}; expected an object with rope_type")
    rope = Config(config.path, rope).defaulting(rope_theta=config.number("rope_theta", 10000.0))
    return {
        "vocabulary": config.count("vocab_size"),
        "d_model": config.count("hidden_size"),
        "num_heads": config.count("num_attention_heads"),
        "num_layers": config.count("num_hidden_layers"),
        "d_ff": config.count("intermediate_size"),
        "num_kv_heads": config.count("num_key_value_heads", None),
        "head_dim": config.count("head_dim", None),
        "max_length": config.count("max_position_embeddings"),
        "positions": "rotary",
        "rotary_base": float(rope.number("rope_theta", 10000.0)),
        "rotary_stretch": _stretch(config, rope),
        "norm": "rms",
        "norm_eps": config.number("rms_norm_eps", 1e-6),
        "activation": "swiglu",
        "bias": config.demand("mlp_bias", False, True),
        "attention_bias": config.demand("attention_bias", False, True),
        "tie_weights": config.demand("tie_word_embeddings", False, True),
        **_ends(config),
    }


def _marian(config: Config) -> dict[str, Any]:
    config = config.defaulting(scale_embedding=False, activation_function="gelu")
    config = config.defaulting(decoder_attention_heads=16, decoder_ffn_dim=4096)
    for name in ("scale_embedding", "share_encoder_decoder_embeddings", "tie_word_embeddings"):
        config.demand(name, True)
    config.demand("normalize_embedding", False)
    config.demand("add_final_layer_norm", False)
    config.demand("decoder_vocab_size", config["vocab_size"])
    config.demand("decoder_start_token_id", config["pad_token_id"])
    config.demand("decoder_attention_heads", config["encoder_attention_heads"])
    config.demand("decoder_ffn_dim", config["encoder_ffn_dim"])
    return {
        "vocabulary": config.count("vocab_size"),
        "d_model": config.count("d_model"),
        "num_heads": config.count("encoder_attention_heads"),
        "num_layers": config.count("encoder_layers"),
        "num_decoder_layers": config.count("decoder_layers"),
        "d_ff": config.count("encoder_ffn_dim"),
        "activation": config.demand("activation_function", "swish", "silu", "gelu", "relu"),
        "dropout": config.number("dropout", 0.1),
        "max_length": config.count("max_position_embeddings"),
        "pad_id": next(iter(config.ids("pad_token_id")), None),
        "eos_id": next(iter(config.ids("eos_token_id")), None),
        "generation_config": read_settings(config.path.parent),
    }


def _qwen2(config: Config) -> dict[str, Any]:
    config.demand("use_sliding_window", False)  # True: in some layers only
    return _llama(config.defaulting(num_key_value_heads=32)) | {"attention_bias": True}


def _qwen3(config: Config) -> dict[str, Any]:
    config.demand("use_sliding_window", False)
    return _llama(config.defaulting(num_key_value_heads=32, head_dim=128)) | {"qk_norm": True}


def _mistral(config: Config) -> dict[str, Any]:
    config = config.defaulting(num_key_value_heads=8, sliding_window=4096)
    return _llama(config) | {"window": config.count("sliding_window", None)}


def _stretch(config: Config, rope: Config) -> tuple[Any, ...] | None:
    """The numbers of `F.RotaryStretch`."""
    rope.demand("partial_rotary_factor", 1.0)
    names: dict[str, tuple[str, ...]] = {
        "default": (),
        "linear": ("factor",),
        "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
    }
    kind = rope.get("rope_type", rope.get("type", "default"))
    if not isinstance(kind, str) or kind not in names:
        expected = ", ".join(map(repr, names))
        raise PretrainedError(f"{config.path}: rotary positions of type {shown(kind)}; expected {expected}")
    if missing := [name for name in names[kind] if rope.get(name) is None]:
        raise PretrainedError(f"{config.path}: rotary positions of type {kind!r} lack {', '.join(missing)}")
    return tuple([rope.number(name, 0.0) for name in names[kind]]) or None


def _ends(config: Config) -> dict[str, Any]:
    """The ids around a text, and options of `generate`; generation_config.json has them if it is there."""
    generation, path = {}, config.path.parent / GENERATION
    if config.path.name == CONFIG:  # not a file of GGUF
        generation = read_settings(config.path.parent)
        config = Config(path, entries(path) | {"vocab_size": config["vocab_size"]}) if path.exists() else config
    eos, bos = config.ids("eos_token_id"), next(iter(config.ids("bos_token_id")), None)
    pad = next((i for i in config.ids("pad_token_id") if i not in (bos, *eos)), None)  # or it would hide begin and end
    ends = {"pad_id": pad, "bos_id": bos, "eos_id": eos if len(eos) > 1 else next(iter(eos), None)}
    return ends | {"generation_config": generation}


def _both(there: str, here: str) -> dict[str, str]:
    """The places of the weight and the bias of a linear map or a normalisation."""
    here, mark, part = here.partition("#")
    return {f"{there}.{name}": f"{here}.{name}{mark}{part}" for name in ("weight", "bias")}


def _projections(there: str, parts: tuple[str, ...], here: str) -> dict[str, str]:
    """The places of the linear maps to queries, keys and values, which share a matrix in `MultiheadAttention`."""
    return {
        f"{there}.{part}.{name}": f"{here}.in_proj_{name}#{i}"
        for i, part in enumerate(parts)
        for name in ("weight", "bias")
    }


def _marian_layers(stack: str, attentions: dict[str, str], norms: dict[str, str]) -> dict[str, str]:
    there, here = f"{stack}.layers.{{}}", f"transformer.{stack}.layers.{{}}"
    found = _both(f"{there}.fc1", f"{here}.linear1") | _both(f"{there}.fc2", f"{here}.linear2")
    for name, ours in attentions.items():
        found |= _projections(f"{there}.{name}", ("q_proj", "k_proj", "v_proj"), f"{here}.{ours}")
        found |= _both(f"{there}.{name}.out_proj", f"{here}.{ours}.out_proj")
    for name, ours in norms.items():
        found |= _both(f"{there}.{name}_layer_norm", f"{here}.{ours}")
    return found


ROBERTA_PAD = 1  # positions count from the id behind it

LLAMA = Family(
    "LanguageModel",
    _llama,
    "model.",
    {"embed_tokens.weight": "embedding.weight", "norm.weight": "norm.weight", "lm_head.weight": "projection.weight"}
    | {
        "layers.{}.input_layernorm.weight": "layers.{}.norm1.weight",
        "layers.{}.post_attention_layernorm.weight": "layers.{}.norm2.weight",
    }
    | _both("layers.{}.self_attn.q_proj", "layers.{}.self_attn.in_proj#0")
    | _both("layers.{}.self_attn.k_proj", "layers.{}.self_attn.in_proj#1")
    | _both("layers.{}.self_attn.v_proj", "layers.{}.self_attn.in_proj#2")
    | _both("layers.{}.self_attn.o_proj", "layers.{}.self_attn.out_proj")
    | _both("layers.{}.mlp.gate_proj", "layers.{}.feed_forward.gate")
    | _both("layers.{}.mlp.up_proj", "layers.{}.feed_forward.up")
    | _both("layers.{}.mlp.down_proj", "layers.{}.feed_forward.down"),
    left_out=r".*rotary_emb\.inv_freq",
)

QWEN2 = replace(LLAMA, arguments=_qwen2, zeros=r"layers\.\d+\.self_attn\.out_proj\.bias")

QWEN3 = replace(
    LLAMA,
    arguments=_qwen3,
    places=LLAMA.places
    | {
        "layers.{}.self_attn.q_norm.weight": "layers.{}.self_attn.q_norm.weight",
        "layers.{}.self_attn.k_norm.weight": "layers.{}.self_attn.k_norm.weight",
    },
)

BERT_BODY = (
    {
        "embeddings.word_embeddings.weight": "embedding.weight",
        "embeddings.position_embeddings.weight": "positions.weight",
        "embeddings.token_type_embeddings.weight": "segments.weight",
    }
    | _both("embeddings.LayerNorm", "norm")
    | _projections("encoder.layer.{}.attention.self", ("query", "key", "value"), "encoder.layers.{}.self_attn")
    | _both("encoder.layer.{}.attention.output.dense", "encoder.layers.{}.self_attn.out_proj")
    | _both("encoder.layer.{}.attention.output.LayerNorm", "encoder.layers.{}.norm1")
    | _both("encoder.layer.{}.intermediate.dense", "encoder.layers.{}.linear1")
    | _both("encoder.layer.{}.output.dense", "encoder.layers.{}.linear2")
    | _both("encoder.layer.{}.output.LayerNorm", "encoder.layers.{}.norm2")
    | _both("pooler.dense", "pooler")
)

ROBERTA = Family(
    "Encoder",
    _roberta,
    "roberta.",
    BERT_BODY
    | _both("lm_head.dense", "head.dense")
    | _both("lm_head.layer_norm", "head.norm")
    | {
        "lm_head.bias": "head.projection.bias",
        "lm_head.decoder.bias": "head.projection.bias",
        "lm_head.decoder.weight": "embedding.weight",
    },
    left_out=r"embeddings\.position_ids",
    unused=ROBERTA_PAD + 1,
)

FAMILIES = {
    "bert": Family(
        "Encoder",
        _bert,
        "bert.",
        BERT_BODY
        | _both("cls.predictions.transform.dense", "head.dense")
        | _both("cls.predictions.transform.LayerNorm", "head.norm")
        | {
            "cls.predictions.bias": "head.projection.bias",
            "cls.predictions.decoder.bias": "head.projection.bias",
            "cls.predictions.decoder.weight": "embedding.weight",
        },
        left_out=r"embeddings\.position_ids|cls\.seq_relationship\..*",
    ),
    "camembert": ROBERTA,
    "distilbert": Family(
        "Encoder",
        _distilbert,
        "distilbert.",
        {
            "embeddings.word_embeddings.weight": "embedding.weight",
            "embeddings.position_embeddings.weight": "positions.weight",
        }
        | _both("embeddings.LayerNorm", "norm")
        | _projections("transformer.layer.{}.attention", ("q_lin", "k_lin", "v_lin"), "encoder.layers.{}.self_attn")
        | _both("transformer.layer.{}.attention.out_lin", "encoder.layers.{}.self_attn.out_proj")
        | _both("transformer.layer.{}.sa_layer_norm", "encoder.layers.{}.norm1")
        | _both("transformer.layer.{}.ffn.lin1", "encoder.layers.{}.linear1")
        | _both("transformer.layer.{}.ffn.lin2", "encoder.layers.{}.linear2")
        | _both("transformer.layer.{}.output_layer_norm", "encoder.layers.{}.norm2")
        | _both("vocab_transform", "head.dense")
        | _both("vocab_layer_norm", "head.norm")
        | {"vocab_projector.weight": "embedding.weight", "vocab_projector.bias": "head.projection.bias"},
    ),
    "gpt2": Family(
        "LanguageModel",
        _gpt2,
        "transformer.",
        {"wte.weight": "embedding.weight", "wpe.weight": "positions.weight", "lm_head.weight": "projection.weight"}
        | _both("ln_f", "norm")
        | _both("h.{}.ln_1", "layers.{}.norm1")
        | _both("h.{}.ln_2", "layers.{}.norm2")
        | _both("h.{}.attn.c_attn", "layers.{}.self_attn.in_proj")
        | _both("h.{}.attn.c_proj", "layers.{}.self_attn.out_proj")
        | _both("h.{}.mlp.c_fc", "layers.{}.feed_forward.up")
        | _both("h.{}.mlp.c_proj", "layers.{}.feed_forward.down"),
        transposed=r".*\.c_(attn|proj|fc)\.weight",
        left_out=r"h\.\d+\.attn\.(masked_)?bias",
    ),
    "llama": LLAMA,
    "marian": Family(
        "Marian",
        _marian,
        "model.",
        {
            "shared.weight": "source_embedding.weight",
            "encoder.embed_tokens.weight": "source_embedding.weight",
            "decoder.embed_tokens.weight": "source_embedding.weight",
            "lm_head.weight": "source_embedding.weight",
            "final_logits_bias": "projection.bias",
        }
        | _marian_layers("encoder", {"self_attn": "self_attn"}, {"self_attn": "norm1", "final": "norm2"})
        | _marian_layers(
            "decoder",
            {"self_attn": "self_attn", "encoder_attn": "multihead_attn"},
            {"self_attn": "norm1", "encoder_attn": "norm2", "final": "norm3"},
        ),
        left_out=r"(en|de)coder\.embed_positions\.weight",
        row="final_logits_bias",
    ),
    "mistral": replace(LLAMA, arguments=_mistral),
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
}

NOT_READ = {
    "albert|deberta|deberta-v2|modernbert|electra|mpnet|nomic_bert": "its layers differ from BERT's",
    "bloom|mpt": "its slopes (ALiBi) come with norms or biases in other places",
    "cohere|falcon|gpt_neox|gptj|phi": "attention and feed-forward network stand side by side in its layers",
    "gemma|gemma2|gemma3|gemma3_text": "its norms add 1 to their weights, and later ones have four in a layer",
    "glm4|olmo2|olmo3": "its layers have norms behind their sub-layers",
    "gpt_neo|opt": "its positions or windows are counted in another way than GPT-2's",
    "granite": "four factors multiply what goes through it",
    "mamba|mamba2|rwkv": "it has no attention",
    "mixtral|qwen2_moe|qwen3_moe|gpt_oss|deepseek_v2|deepseek_v3|olmoe": "experts are left out of this library",
    "olmo|stablelm|starcoder2": "it has LayerNorm beside rotary positions",
    "phi3": "queries, keys and values, and gate and up, are one weight each",
    "smollm3": "some of its layers have no positions",
    "t5|mt5|umt5|bart|mbart|m2m_100|pegasus": "of encoder-decoders, those of Marian are read",
}
"""Why the types of models that many have are not read."""
