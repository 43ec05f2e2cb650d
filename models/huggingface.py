"""Folders of Hugging Face's BERT, GPT-2, Llama and Mistral: config.json and safetensors.

    LanguageModel.from_pretrained("gpt2")                   # a folder with config.json and model.safetensors
    Encoder.from_pretrained("all-MiniLM-L6-v2").pooled(tokenizer("a sentence"))

A family is a table: our names for the config's entries, and the place of each weight. Reading runs no code, looks at
nothing outside the folder, and makes no model before it has checked that everything fits.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from .pretrained import CONFIG, Folder, Pretrained, PretrainedError, make_model

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
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

    def __init__(self, path: Path, entries: dict[str, Any]) -> None:
        super().__init__(entries)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise PretrainedError(f"{self.path}: {name!r} is missing")

    def demand(self, name: str, *known: Any) -> Any:
        """An entry, or the first known value if it is missing. Raises PretrainedError for a value not known."""
        value = known[0] if self.get(name) is None else self[name]
        if value not in known:
            raise PretrainedError(f"{self.path}: {name} is {value!r}; expected {' or '.join(map(repr, known))}")
        return value

    def count(self, name: str, *default: int | None) -> Any:
        """An entry that is a whole number above 0; if it is missing, the default, if there is one."""
        value = default[0] if default and self.get(name) is None else self[name]
        if default and value is default[0]:
            return value
        if type(value) is not int or value < 1:
            raise PretrainedError(f"{self.path}: {name} is {value!r}; expected a whole number above 0")
        return value

    def number(self, name: str, default: float) -> float:
        """An entry that is a number of at least 0, or the default if it is missing."""
        value = default if self.get(name) is None else self[name]
        if type(value) not in (int, float) or not 0 <= value < math.inf:
            raise PretrainedError(f"{self.path}: {name} is {value!r}; expected a number of at least 0")
        return value

    def id(self, name: str) -> int | None:
        """An entry that is an id (of several, the first), or None if it is missing."""
        value = self.get(name)
        value = value[0] if isinstance(value, list) and value else value
        if value is not None and type(value) is not int:
            raise PretrainedError(f"{self.path}: {name} is {value!r}; expected an id")
        return value


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
        "pad_id": config.id("pad_token_id") or 0,
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
        raise PretrainedError(f"{config.path}: rotary positions of {rope!r}; expected an object with rope_type")
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
    if kind not in names:
        expected = ", ".join(map(repr, names))
        raise PretrainedError(f"{config.path}: rotary positions of type {kind!r}; expected {expected}")
    if missing := [name for name in names[kind] if not isinstance(rope.get(name), (int, float))]:
        raise PretrainedError(f"{config.path}: rotary positions of type {kind!r} lack {', '.join(missing)}")
    return tuple([rope[name] for name in names[kind]]) or None


def _ends(config: Config) -> dict[str, Any]:
    pad = config.id("pad_token_id")
    eos = config.id("eos_token_id")
    bos = config.id("bos_token_id")
    # No padding if the id is missing, negative or the end of a text, which must remain possible.
    return {"pad_id": None if pad is None or pad < 0 or pad == eos else pad, "bos_id": bos or 0, "eos_id": eos or 0}


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
        config = json.loads((Path(folder) / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and "model_type" in config


def read_folder(folder: str | os.PathLike[str]) -> Folder:
    """The contents of one of Hugging Face's folders, under our names. Raises PretrainedError that names the file."""
    path = Path(folder)
    config = Config(path / CONFIG, json.loads((path / CONFIG).read_text(encoding="utf-8")))
    family = FAMILIES.get(config["model_type"]) if isinstance(config["model_type"], str) else None
    if family is None:
        raise PretrainedError(
            f"{config.path}: a model of type {config['model_type']!r}; expected {', '.join(FAMILIES)}"
        )
    arguments = family.arguments(config)
    weights = _placed(path, family, dict(_weights(path)))
    if family.model == "Encoder":
        arguments |= {"head": "head.dense.weight" in weights, "pooler": "pooler.weight" in weights}
        arguments["mask_id"] = _special(path, "[MASK]")
    else:
        _check_heads(path, arguments, weights)
        _check_ends(path, arguments, weights)
    return Folder(family.model, arguments, weights, None, {})


def _check_heads(path: Path, arguments: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
    """Raise PretrainedError, before a model is made, if the config's heads do not fit the weights."""
    heads, weight = arguments["num_heads"], weights.get("layers.0.self_attn.out_proj.weight")
    size = arguments.get("head_dim") or arguments["d_model"] // heads
    if weight is not None and heads * size != weight.shape[-1]:
        raise PretrainedError(
            f"{path}: {CONFIG} says {heads} heads of {size}, but the weights are those of {weight.shape[-1]} together"
        )


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
            raise PretrainedError(f"{path}: {full} differs from another weight that stands for the same")
    if surplus:
        raise PretrainedError(f"{path}: {len(surplus)} weights that such a model does not have: {_some(surplus)}")
    lacking = [here for here, some in parts.items() if len(some) < PARTS]
    if lacking:
        raise PretrainedError(f"{path}: of {_some(lacking)} not all parts are there: queries, keys and values")
    for here, some in parts.items():
        if len({weight.shape[1:] for weight in some.values()}) > 1:
            raise PretrainedError(f"{path}: queries, keys and values of {here} are of different sizes")
        found[here] = np.concatenate([some[i] for i in range(PARTS)])
    return {here: np.ascontiguousarray(weight) for here, weight in found.items()}


def _some(names: list[str]) -> str:
    return ", ".join(sorted(names)[:5]) + (", ..." if len(names) > 5 else "")


# ---- files


def _weights(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """All weights of a folder, from one file or from those that an index names."""
    if not (folder / INDEX).is_file():
        yield from _arrays(folder / WHOLE).items()
        return
    try:
        places = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
        files: dict[str, set[str]] = {}
        for name, file in places.items():
            files.setdefault(file, set()).add(name)
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise PretrainedError(f"{folder / INDEX}: no index of weights ({error})") from None
    for file in files:
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise PretrainedError(f"{folder / INDEX}: {file!r} is no safetensors file of this folder")
    for file, names in files.items():
        found = _arrays(folder / file)
        if found.keys() != names:
            odd = _some(list(found.keys() ^ names))
            raise PretrainedError(f"{folder / file}: does not hold the weights that {INDEX} says it does: {odd}")
        yield from found.items()


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file; 16-bit floats as float32."""
    from safetensors import SafetensorError, deserialize

    try:
        content = path.read_bytes()
    except OSError as error:
        raise PretrainedError(f"{path}: {error.strerror or error}") from None
    try:
        return {name: _array(path, name, entry) for name, entry in deserialize(content)}
    except SafetensorError as error:
        raise PretrainedError(f"{path}: no whole safetensors file ({error})") from None


def _array(path: Path, name: str, entry: dict[str, Any]) -> np.ndarray:
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "BOOL": "?", "U8": "u1"}
    if entry["dtype"] not in kinds:
        raise PretrainedError(f"{path}: {name} is of dtype {entry['dtype']}; expected {', '.join(kinds)}")
    array = np.frombuffer(entry["data"], kinds[entry["dtype"]]).reshape(entry["shape"])
    if entry["dtype"] == "BF16":  # the upper half of a float32
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32) if entry["dtype"] == "F16" else array


# ---- text


class FolderTokenizer:
    """The subwords of a folder: WordPiece (Wu et al. 2016) or byte-pair encoding, by `tokenizers`.

    Args:
        tokenizer: of the package `tokenizers`.
    """

    def __init__(self, tokenizer: Any, pad_id: int = 0) -> None:
        self.tokenizer, self.pad_id = tokenizer, pad_id

    @staticmethod
    def load(folder: str | os.PathLike[str]) -> FolderTokenizer:
        """Load a folder's tokenizer.json, or vocab.txt of WordPiece, or vocab.json and merges.txt of BPE.

        Raises PretrainedError if there is none, or a damaged one.
        """
        try:
            import tokenizers
        except ImportError:
            raise PretrainedError("tokenizers is not installed; run: pip install -e '.[pretrained]'") from None
        path = Path(folder)
        pad = _special(path, "[PAD]")
        try:
            if (path / "tokenizer.json").is_file():
                made: Any = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
            elif (path / "vocab.txt").is_file():
                made = tokenizers.BertWordPieceTokenizer(str(path / "vocab.txt"), lowercase=_lowercase(path))
            elif (path / "merges.txt").is_file():
                made = tokenizers.ByteLevelBPETokenizer(str(path / "vocab.json"), str(path / "merges.txt"))
            else:
                raise PretrainedError(f"{path}: expected tokenizer.json, vocab.txt, or vocab.json and merges.txt")
        except PretrainedError:
            raise
        except Exception as error:  # the package raises plain ones
            raise PretrainedError(f"{path}: no tokenizer that can be read ({error})") from None
        made.no_padding()  # or the folder's settings for training may cut and pad our texts
        made.no_truncation()
        return FolderTokenizer(made, pad or 0)

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def __call__(self, *texts: str) -> np.ndarray:
        """The ids of some texts with special tokens around them, such as [CLS] and [SEP]: (texts, longest), padded."""
        rows = [self.tokenizer.encode(text).ids for text in texts]
        longest = max(map(len, rows), default=0)
        return np.array([row + [self.pad_id] * (longest - len(row)) for row in rows], dtype=np.int64)

    def encode(self, text: str) -> list[int]:
        """The ids of a text alone."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, without special tokens."""
        return self.tokenizer.decode(list(ids))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The token of each id, for pictures."""
        return [(self.tokenizer.id_to_token(i) or "").replace("Ġ", "▁").replace("Ċ", "↵") for i in ids]


def _lowercase(folder: Path) -> bool:
    """False if tokenizer_config.json says that vocab.txt keeps upper case."""
    try:
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return True
    return config.get("do_lower_case") is not False


def _special(folder: Path, token: str) -> int | None:
    """The id of a special token, from tokenizer.json or vocab.txt; None if there is none."""
    try:
        added = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8")).get("added_tokens", [])
        return next((entry["id"] for entry in added if entry["content"] == token), None)
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        pass
    try:
        words = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    return words.index(token) if token in words else None
