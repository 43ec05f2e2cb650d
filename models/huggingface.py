"""Folders of Hugging Face's BERT, GPT-2, Llama and Mistral: config.json and safetensors.

    LanguageModel.from_pretrained("gpt2")                   # a folder with config.json and model.safetensors
    Encoder.from_pretrained("all-MiniLM-L6-v2").pooled(tokenizer("a sentence"))

A family is a table: our names for the config's entries, and the place of each weight. Reading runs no code, looks at
nothing outside the folder, and makes no model before it has checked that everything fits.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import repr as shown
from typing import Any, Self

import numpy as np

from .folder_tokenizer import GENERATION, FolderTokenizer
from .pretrained import CONFIG, Folder, Pretrained, PretrainedError, arrays, entries, make_model

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
TIED = r"lm_head\.weight|cls\.predictions\.decoder\.(weight|bias)"  # the embedding again, which files may leave out
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
    """

    model: str
    arguments: Callable[[Config], dict[str, Any]]
    prefix: str
    places: dict[str, str]
    transposed: str = r"(?!)"
    left_out: str = r"(?!)"


class Config(dict[str, Any]):
    """The entries of a config.json. Errors name an entry that is missing or that this package cannot compute."""

    def __init__(self, path: Path, found: dict[str, Any]) -> None:
        super().__init__(found)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise PretrainedError(f"{self.path}: {name!r} is missing")

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


def _bert(config: Config) -> dict[str, Any]:
    config.demand("hidden_act", "gelu")
    config.demand("position_embedding_type", "absolute")
    config.demand("is_decoder", False)
    return {
        "vocabulary": config.count("vocab_size"),
        "d_model": config.count("hidden_size"),
        "num_heads": config.count("num_attention_heads"),
        "num_layers": config.count("num_hidden_layers"),
        "d_ff": config.count("intermediate_size"),
        "dropout": config.number("hidden_dropout_prob", 0.1),
        "max_length": config.count("max_position_embeddings"),
        "segments": config.count("type_vocab_size", 2),
        "norm_eps": config.number("layer_norm_eps", 1e-12),
        "pad_id": next(iter(config.ids("pad_token_id")), None if "pad_token_id" in config else 0),
    }


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
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise PretrainedError(f"{config.path}: rotary positions of {shown(rope)}; expected an object with rope_type")
    rope = Config(config.path, {"rope_theta": config.number("rope_theta", 10000.0)} | rope)
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


def _mistral(config: Config) -> dict[str, Any]:
    window = config.count("sliding_window", None) if "sliding_window" in config else 4096
    return _llama(config) | {"window": window}


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
    """The ids around a text; `generation_config.json` says them if it is there, as it does for `generate` there."""
    path = config.path.parent / GENERATION
    if path.exists():
        config = Config(path, entries(path) | {"vocab_size": config["vocab_size"]})
    eos, bos = config.ids("eos_token_id"), next(iter(config.ids("bos_token_id")), None)
    pad = next((i for i in config.ids("pad_token_id") if i not in (bos, *eos)), None)  # or it would hide begin and end
    return {"pad_id": pad, "bos_id": bos, "eos_id": eos if len(eos) > 1 else next(iter(eos), None)}


def _both(there: str, here: str) -> dict[str, str]:
    """The places of the weight and the bias of a linear map or a normalisation."""
    here, mark, part = here.partition("#")
    return {f"{there}.{name}": f"{here}.{name}{mark}{part}" for name in ("weight", "bias")}


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

FAMILIES = {
    "bert": Family(
        "Encoder",
        _bert,
        "bert.",
        {
            "embeddings.word_embeddings.weight": "embedding.weight",
            "embeddings.position_embeddings.weight": "positions.weight",
            "embeddings.token_type_embeddings.weight": "segments.weight",
            "cls.predictions.decoder.weight": "embedding.weight",
            "cls.predictions.bias": "head.projection.bias",
            "cls.predictions.decoder.bias": "head.projection.bias",
        }
        | _both("embeddings.LayerNorm", "norm")
        | {
            f"encoder.layer.{{}}.attention.self.{part}.{name}": f"encoder.layers.{{}}.self_attn.in_proj_{name}#{i}"
            for i, part in enumerate(("query", "key", "value"))
            for name in ("weight", "bias")
        }
        | _both("encoder.layer.{}.attention.output.dense", "encoder.layers.{}.self_attn.out_proj")
        | _both("encoder.layer.{}.attention.output.LayerNorm", "encoder.layers.{}.norm1")
        | _both("encoder.layer.{}.intermediate.dense", "encoder.layers.{}.linear1")
        | _both("encoder.layer.{}.output.dense", "encoder.layers.{}.linear2")
        | _both("encoder.layer.{}.output.LayerNorm", "encoder.layers.{}.norm2")
        | _both("pooler.dense", "pooler")
        | _both("cls.predictions.transform.dense", "head.dense")
        | _both("cls.predictions.transform.LayerNorm", "head.norm"),
        left_out=r"embeddings\.position_ids|cls\.seq_relationship\..*",
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
    "mistral": replace(LLAMA, arguments=_mistral),
}


class ReadsHuggingFace(Pretrained):
    """A `Pretrained` whose `from_pretrained` reads Hugging Face's folders as well."""

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], device: str = "cpu") -> Self:
        """The model in a folder of `save_pretrained`, ours or Hugging Face's, on a device, in evaluation mode.

        Reads Hugging Face's BERT, GPT-2, Llama and Mistral; 16-bit weights become float32.

        Raises PretrainedError, with the file's name, if the folder holds no model of this class or a damaged one.
        """
        if not is_theirs(folder):
            return super().from_pretrained(folder, device)
        return make_model(read_folder(folder), {cls.__name__: cls}, os.fspath(folder), device)


def is_theirs(folder: str | os.PathLike[str]) -> bool:
    """True if the folder's config has a `model_type`, as Hugging Face's do."""
    try:
        return "model_type" in entries(Path(folder) / CONFIG)
    except PretrainedError:
        return False


def read_folder(folder: str | os.PathLike[str]) -> Folder:
    """The contents of one of Hugging Face's folders, under our names. Raises PretrainedError that names the file."""
    path = Path(folder)
    config = Config(path / CONFIG, entries(path / CONFIG))
    family = FAMILIES.get(config["model_type"]) if isinstance(config["model_type"], str) else None
    if family is None:
        raise PretrainedError(
            f"{config.path}: a model of type {shown(config['model_type'])}; expected {', '.join(FAMILIES)}"
        )
    arguments = family.arguments(config)
    weights = _placed(path, family, _weights(path))
    try:
        special = FolderTokenizer.load(path).special
    except PretrainedError:  # a model of ids alone
        special = {}
    if special.get("pad_token", arguments["vocabulary"]) < arguments["vocabulary"]:
        arguments["pad_id"] = special["pad_token"]
    if family.model == "Encoder":
        arguments |= {"head": "head.dense.weight" in weights, "pooler": "pooler.weight" in weights}
        arguments["mask_id"] = special.get("mask_token")
    else:
        _check_ends(path, arguments, weights)
    return Folder(family.model, arguments, weights, None, {})


def _check_ends(path: Path, arguments: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
    """Check for a final projection. Drop one that is tied to the embedding, after checking that they are equal."""
    projection = weights.get("projection.weight")
    if not arguments["tie_weights"]:
        if projection is None:
            raise PretrainedError(f"{path}: holds no lm_head.weight, which {CONFIG} says is not the embedding")
    elif projection is not None:
        if not np.array_equal(projection, weights.get("embedding.weight", 0)):
            raise PretrainedError(
                f"{path}: holds a lm_head.weight that is not the embedding, though {CONFIG} says it is; "
                "expected tie_word_embeddings false"
            )
        del weights["projection.weight"]


def _placed(path: Path, family: Family, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights by our names. Raises PretrainedError for names that the family does not have."""
    patterns = {re.compile(re.escape(there).replace(r"\{\}", r"(\d+)")): here for there, here in family.places.items()}
    found: dict[str, np.ndarray] = {}
    parts: dict[str, dict[int, np.ndarray]] = {}
    surplus = []
    for full, weight in weights.items():
        name = full.removeprefix(family.prefix).replace("LayerNorm.gamma", "LayerNorm.weight")
        name = name.replace("LayerNorm.beta", "LayerNorm.bias")
        matched = [(match, here) for pattern, here in patterns.items() if (match := pattern.fullmatch(name))]
        if not matched:
            surplus += [] if re.fullmatch(family.left_out, name) else [full]
            continue
        ((match, here),) = matched
        here, _, part = here.format(*match.groups()).partition("#")
        if re.fullmatch(family.transposed, name):
            weight = weight.T
        some: dict[Any, np.ndarray] = parts.setdefault(here, {}) if part else found
        place = int(part) if part else here
        if not np.array_equal(some.setdefault(place, weight), weight):
            raise PretrainedError(f"{path}: {full} holds NaN, or differs from another weight that stands for the same")
    if surplus:
        raise PretrainedError(f"{path}: {len(surplus)} weights that such a model does not have: {_some(surplus)}")
    lacking = [here for here, some in parts.items() if len(some) < PARTS]
    if lacking:
        raise PretrainedError(f"{path}: of {_some(lacking)} not all parts are there: queries, keys and values")
    for here, some in parts.items():
        if len({weight.shape[1:] for weight in some.values()}) > 1 or any(weight.ndim == 0 for weight in some.values()):
            raise PretrainedError(f"{path}: queries, keys and values of {here} are of different sizes")
        found[here] = np.concatenate([some[i] for i in range(PARTS)])
    return {here: np.ascontiguousarray(w, np.float32 if w.dtype == np.float16 else None) for here, w in found.items()}


def _some(names: list[str]) -> str:
    return ", ".join(sorted(names)[:5]) + (", ..." if len(names) > 5 else "")


# ---- files


def _weights(folder: Path) -> dict[str, np.ndarray]:
    """All weights of a folder, from one file or from those that an index names."""
    if (folder / WHOLE).exists() or not (folder / INDEX).exists():
        return arrays(folder / WHOLE)
    places = entries(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise PretrainedError(f"{folder / INDEX}: no index of weights; expected a weight_map with their files")
    for file in places.values():
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise PretrainedError(f"{folder / INDEX}: {shown(file)} is no safetensors file of this folder")
    found: dict[str, np.ndarray] = {}
    for file in dict.fromkeys(places.values()):
        found |= arrays(folder / file)
    if lacking := [name for name in places if name not in found and not re.fullmatch(TIED, name)]:
        raise PretrainedError(f"{folder}: no file holds the weights that {INDEX} names: {_some(lacking)}")
    return found
