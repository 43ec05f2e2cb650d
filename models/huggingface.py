"""Folders of Hugging Face: config.json and safetensors, of the families that `families.py` has a table of.

    LanguageModel.from_pretrained("gpt2")                   # a folder with config.json and model.safetensors
    models.load("all-MiniLM-L6-v2")                         # the same with its tokenizer, of whatever family

Reading runs no code, looks at nothing outside the folder, and makes no model before it has checked that all fits.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from reprlib import repr as shown
from typing import Any, Self

import numpy as np

from tinytensor.machine.files import atomic_write, read_json

from .families import FAMILIES, NOT_READ, PARTS, Config, Family
from .folder_tokenizer import STEPS, FolderTokenizer
from .generation_config import OPTIONS
from .marian_tokenizer import MarianTokenizer
from .pretrained import Folder, Origin, Pretrained, make_model, state_once
from .weights import CONFIG, GENERATION, PretrainedError, Weight, entries, of_array, reading, stacked, weights_in

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PROMPTS = "config_sentence_transformers.json"
TIED = r"(lm_head|cls\.predictions)(\.decoder)?\.(weight|bias)|vocab_projector\.weight"  # files may leave these out


class ReadsHuggingFace(Pretrained):
    """A `Pretrained` whose `from_pretrained` reads Hugging Face's folders as well."""

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], device: str = "cpu") -> Self:
        """The model in a folder of `save_pretrained`, ours or Hugging Face's, on a device, in evaluation mode.

        Reads the families of `families.py`, such as BERT, GPT-2, Llama and Qwen; 16-bit weights become float32.

        Raises PretrainedError, with the file's name, if the folder holds no model of this class or a damaged one.
        """
        if not is_theirs(folder):
            return super().from_pretrained(folder, device)
        return make_model(read_folder(folder)[0], {cls.__name__: cls}, os.fspath(folder), device)

    def save_pretrained(self, folder: str | os.PathLike[str], *, format: str = "tinytensor") -> None:
        """Write the model into a folder, made if it is missing; a model already there is replaced.

        Args:
            format: "tinytensor", or "huggingface" for a model that was read from one of Hugging Face's folders or from
                GGUF: its family's config, weights in the model's dtype, and its tokenizer, which `transformers` reads.

        Raises OSError that names what cannot be written, and ValueError for a model that no family can hold.
        """
        if format == "tinytensor":
            return super().save_pretrained(folder)
        if format != "huggingface":
            raise ValueError(f"save_pretrained: unknown format {format!r}; expected 'tinytensor' or 'huggingface'")
        write_theirs(folder, self)


def is_theirs(folder: str | os.PathLike[str]) -> bool:
    """True if the folder's config has a `model_type`, as Hugging Face's do."""
    try:
        return "model_type" in entries(Path(folder) / CONFIG)
    except PretrainedError:
        return False


def read_folder(folder: str | os.PathLike[str]) -> tuple[Folder, Any]:
    """The contents of one of Hugging Face's folders, under our names, and its tokenizer unless it is of ids alone.

    Raises PretrainedError that names the file.
    """
    path = Path(folder)
    config = Config(path / CONFIG, entries(path / CONFIG))
    family_of(config)
    weights = _weights(path)
    kinds = [kind for kind in (MarianTokenizer, FolderTokenizer) if kind.is_in(path)]
    tokenizer = kinds[0].load(path) if kinds else None
    found = as_folder(path, config, weights, tokenizer)
    if found.model == "Encoder":
        found.arguments.update(_pooling(path))
    return found, tokenizer


def as_folder(path: Path, config: Config, weights: dict[str, Weight], tokenizer: Any) -> Folder:
    """A model under our names, from a config and weights under theirs. Raises PretrainedError."""
    family = family_of(config)
    arguments = family.arguments(config)
    names: dict[str, str] = {}
    placed = _placed(path, family, weights, names)
    special = {} if tokenizer is None else tokenizer.special
    if special.get("pad_token", arguments["vocabulary"]) < arguments["vocabulary"]:
        arguments["pad_id"] = special["pad_token"]
    if family.model == "Encoder":
        arguments |= {"head": "head.dense.weight" in placed, "pooler": "pooler.weight" in placed}
        arguments["mask_id"] = special.get("mask_token")
    elif family.model == "LanguageModel":
        _check_ends(path, arguments, placed)
    origin = Origin(dict(config), names, entries(path / GENERATION, optional=True))
    return Folder(family.model, arguments, placed, None, {}, origin)


def family_of(config: Config) -> Family:
    """The family that a config names. Raises PretrainedError that says why another is not read."""
    kind = config["model_type"]
    if isinstance(kind, str) and kind in FAMILIES:
        return FAMILIES[kind]
    why = next((f": {reason}" for kinds, reason in NOT_READ.items() if kind in kinds.split("|")), "")
    raise PretrainedError(f"{config.path}: a model of type {shown(kind)}{why}; expected {', '.join(FAMILIES)}")


POOLINGS = {"cls": "first", "mean": "mean", "max": "max"}
POOLING_MODE = r"pooling_mode_(\w+?)(_tokens?)?"  # until 5.4 of sentence-transformers


def _pooling(folder: Path) -> dict[str, Any]:
    """The arguments for what a sentence transformer does with its vectors, which its files name step by step."""
    if not (folder / STEPS).exists():
        return {}
    steps = reading(read_json, folder / STEPS)
    try:
        kinds = [(step["type"].rpartition(".")[2], folder / step["path"] / CONFIG) for step in steps]
    except (TypeError, KeyError, AttributeError):
        raise PretrainedError(f"{folder / STEPS}: {shown(steps)}; expected a list of steps") from None
    met = [kind for kind, _ in kinds]
    if not met or met != ["Transformer", "Pooling", "Normalize"][: len(met)]:
        expected = "Transformer, Pooling and Normalize"
        raise PretrainedError(f"{folder / STEPS}: steps {', '.join(met)}; expected {expected}")
    if name := entries(folder / PROMPTS, optional=True).get("default_prompt_name"):
        raise PretrainedError(
            f"{folder / PROMPTS}: default_prompt_name {shown(name)}; expected null: write the prompt before each text"
        )
    if len(kinds) < 2:
        return {}
    said = entries(kinds[1][1])
    modes = {match[1]: said.pop(name) for name in [*said] if (match := re.fullmatch(POOLING_MODE, name))}
    pooled = said.pop("pooling_mode", [name for name, value in modes.items() if value])
    pooled = pooled if isinstance(pooled, list) else [pooled]
    if len(pooled) != 1 or pooled[0] not in [*POOLINGS]:
        by = ", ".join(map(str, pooled)) or "nothing"
        raise PretrainedError(f"{kinds[1][1]}: pools by {by}; expected one of {', '.join(POOLINGS)}")
    if unknown := said.keys() - {"embedding_dimension", "word_embedding_dimension", "include_prompt"}:
        raise PretrainedError(f"{kinds[1][1]}: unknown entry {min(unknown)}: {shown(said[min(unknown)])}")
    return {"pooling": POOLINGS[pooled[0]], "normalize": len(kinds) > 2}


def _check_ends(path: Path, arguments: dict[str, Any], weights: dict[str, Weight]) -> None:
    """Check for a final projection. Drop one that is tied to the embedding, after checking that they are equal."""
    projection = weights.get("projection.weight")
    if not arguments["tie_weights"]:
        if projection is None:
            raise PretrainedError(f"{path}: holds no lm_head.weight, which {CONFIG} says is not the embedding")
    elif projection is not None:
        if not np.array_equal(np.asarray(projection), np.asarray(weights.get("embedding.weight", 0))):
            raise PretrainedError(
                f"{path}: holds a lm_head.weight that is not the embedding, though {CONFIG} says it is; "
                "expected tie_word_embeddings false"
            )
        del weights["projection.weight"]


def _placed(path: Path, family: Family, weights: dict[str, Weight], names: dict[str, str]) -> dict[str, Weight]:
    """The weights by our names, noted in `names` by theirs. Raises PretrainedError for a name of no such model."""
    patterns = {re.compile(re.escape(there).replace(r"\{\}", r"(\d+)")): here for there, here in family.places.items()}
    parts: dict[str, dict[str, Weight]] = {}
    surplus = []
    for full, weight in weights.items():
        name = full.removeprefix(family.prefix).replace("LayerNorm.gamma", "LayerNorm.weight")
        name = name.replace("LayerNorm.beta", "LayerNorm.bias")
        matched = [(match, here) for pattern, here in patterns.items() if (match := pattern.fullmatch(name))]
        if not matched:
            surplus += [] if re.fullmatch(family.left_out, name) else [full]
            continue
        ((match, here),) = matched
        names[full] = here.format(*match.groups())
        here, _, part = names[full].partition("#")
        if re.fullmatch(family.row, name):
            weight = weight.row
        weight = _finite(path, full, weight.T if re.fullmatch(family.transposed, name) else weight)
        former = parts.setdefault(here, {}).setdefault(part, weight)
        if former is not weight and not np.array_equal(np.asarray(former), np.asarray(weight)):
            raise PretrainedError(f"{path}: {full} differs from another weight that stands for the same")
    if surplus:
        raise PretrainedError(f"{path}: {len(surplus)} weights that such a model does not have: {_some(surplus)}")
    found = {}
    for here, some in parts.items():
        if "" not in some and len(some) < PARTS:
            raise PretrainedError(f"{path}: of {here} not all parts are there: queries, keys and values")
        try:
            found[here] = some[""] if "" in some else stacked([some[str(i)] for i in range(PARTS)])
        except ValueError as error:
            raise PretrainedError(
                f"{path}: queries, keys and values of {here} are of different sizes: {error}"
            ) from None
    for name in [f"{name.removesuffix('weight')}bias" for name in found if name.endswith(".weight")]:
        if name not in found and re.fullmatch(family.zeros, name):
            beside = found[f"{name.removesuffix('bias')}weight"]
            found[name] = of_array(np.zeros(len(beside), beside.dtype))
    if family.unused and "positions.weight" in found:
        found["positions.weight"] = found["positions.weight"].rows(family.unused)
    return found


def _finite(path: Path, name: str, weight: Weight) -> Weight:
    """A weight of theirs: 16-bit numbers become float32, and NaN is an error."""

    def fill(out: np.ndarray) -> None:
        weight.fill(out)
        if np.isnan(np.min(out, initial=0)):
            raise PretrainedError(f"{path}: {name} holds NaN, so every result would be NaN; download it again")

    return Weight(weight.shape, np.float32 if weight.dtype == np.float16 else weight.dtype, fill)


def _some(names: list[str]) -> str:
    return ", ".join(sorted(names)[:5]) + (", ..." if len(names) > 5 else "")


# ---- back again


def write_theirs(folder: str | os.PathLike[str], model: Any) -> None:
    """Write a model that came from a family as that family's folder; see `ReadsHuggingFace.save_pretrained`."""
    from safetensors import numpy as safetensors

    origin: Origin | None = getattr(model, "origin", None)
    if origin is None:
        raise ValueError(
            f"save_pretrained: this {type(model).__name__} was not read from a folder of Hugging Face, so there is no "
            "family to write it as; write it as format='tinytensor'"
        )
    path, family = Path(folder), FAMILIES[origin.config["model_type"]]
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    left = state_once(model).keys() - {here.partition("#")[0] for here in origin.names.values()}
    if lost := [name for name in left if not re.fullmatch(family.zeros, name) or state[name].any()]:
        raise ValueError(f"save_pretrained: a {origin.config['model_type']} has no place for {_some(lost)}")
    weights = {there: _theirs(family, there, here, state) for there, here in origin.names.items()}
    path.mkdir(parents=True, exist_ok=True)
    atomic_write(path / WHOLE, safetensors.save(weights, {"format": "pt"}))
    if (tokenizer := getattr(model, "tokenizer", None)) is not None:
        tokenizer.save(path)
    dtype = str(next(iter(weights.values())).dtype)
    config = {name: value for name, value in origin.config.items() if name != "torch_dtype"} | {"dtype": dtype}
    atomic_write(path / CONFIG, json.dumps(config, indent=2, ensure_ascii=False).encode() + b"\n")
    if (settings := getattr(model, "generation_config", None)) is not None:
        former = origin.generation or {name: value for name, value in config.items() if name.endswith("_token_id")}
        settings = {name: value for name, value in former.items() if name not in OPTIONS} | settings
        atomic_write(path / GENERATION, json.dumps(settings, indent=2).encode() + b"\n")


def _theirs(family: Family, there: str, here: str, state: dict[str, np.ndarray]) -> np.ndarray:
    """One of their weights: the inverse of what `_placed` does."""
    here, _, part = here.partition("#")
    weight, name = state[here], there.removeprefix(family.prefix)
    if part:  # of queries, or of keys and values, of which there may be fewer
        queries = state[re.sub(r"in_proj.*", "out_proj.weight", here)].shape[1]
        shared = (len(weight) - queries) // 2
        weight = np.split(weight, [queries, queries + shared])[int(part)]
    if family.unused and here == "positions.weight":
        weight = np.concatenate([np.zeros((family.unused, weight.shape[1]), weight.dtype), weight])
    if re.fullmatch(family.row, name):
        weight = weight[None]
    return np.ascontiguousarray(weight.T if re.fullmatch(family.transposed, name) else weight)


# ---- files


def _weights(folder: Path) -> dict[str, Weight]:
    """All weights of a folder, from one file or from those that an index names."""
    if (folder / WHOLE).exists() or not (folder / INDEX).exists():
        return weights_in(folder / WHOLE)
    places = entries(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise PretrainedError(f"{folder / INDEX}: no index of weights; expected a weight_map with their files")
    for file in places.values():
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise PretrainedError(f"{folder / INDEX}: {shown(file)} is no safetensors file of this folder")
    found: dict[str, Weight] = {}
    for file in dict.fromkeys(places.values()):
        found |= weights_in(folder / file)
    if lacking := [name for name in places if name not in found and not re.fullmatch(TIED, name)]:
        raise PretrainedError(f"{folder}: no file holds the weights that {INDEX} names: {_some(lacking)}")
    return found
