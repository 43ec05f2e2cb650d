"""Folders that hold a trained model: a config in JSON, the weights as safetensors, and files of the text codec.

    model.save_pretrained("my-model")
    model = Transformer.from_pretrained("my-model")

The config names the other files, whose names follow from their contents, and is written last, in one piece. So the
folder always holds either the old model or the new one, never a mixture, as long as only one process at a time writes
to it. Reading runs no code: the config names the class of the model and its arguments.

The config holds the checksums of the other files and, as `checksum`, its own, over all its other values. To edit a
config, remove that line, which the oldest configs lack as well: reading then trusts the config as far as it agrees
with the weights. No model is made before its sizes have been checked against the weights.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shown  # cuts what is long or deep, as a value of a file may be
from typing import Any, Self, get_args, get_origin, get_type_hints

import numpy as np

import tinytensor as tt
from tinytensor import nn
from tinytensor.machine.files import atomic_write

from .weights import CONFIG, Open, PretrainedError, Weight, entries, weights_in

FORMAT = "tinytensor model 1"
KINDS: dict[str, Any] = {"model": str, "arguments": dict, "weights": dict, "text": (dict, type(None)), "files": dict}
HASH = 16  # hexadecimal digits of a file's SHA-256 in its name


@dataclass(frozen=True)
class Folder:
    """The contents of a folder.

    Attributes:
        model: the name of the model's class.
        arguments: the model's arguments.
        weights: by path, still in their file; a shared parameter occurs once, under its first path.
        text: the codec's own values, to turn text into ids; None for a model alone.
        files: the contents of the codec's files, by their role.
        origin: how to write the model as the folder that it comes from, if that is one of others.
    """

    model: str
    arguments: dict[str, Any]
    weights: dict[str, Weight]
    text: dict[str, Any] | None
    files: dict[str, bytes]
    origin: Origin | None = None


@dataclass(frozen=True)
class Origin:
    """The names that a model had elsewhere.

    Attributes:
        config: the entries of its config.json there.
        names: our name of each weight there, with its part as in `Family.places`.
        generation: the entries of its generation_config.json.
    """

    config: dict[str, Any]
    names: dict[str, str]
    generation: dict[str, Any]


class Pretrained:
    """Lets a module be saved with its arguments, and rebuilt from them.

    A subclass's `__init__` begins with `super().__init__(...)` and `self.config = arguments_of(locals())`.
    """

    config: dict[str, Any]

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the model into a folder, made if it is missing; a model already there is replaced as a whole.

        Raises OSError that names what cannot be written; an earlier model is still readable then.
        """
        write_folder(folder, self)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], device: str = "cpu") -> Self:
        """Load the model in a folder onto a device, in evaluation mode.

        Raises PretrainedError, with the file's name, if the folder holds no model of this class or a damaged one.
        """
        return make_model(read_folder(folder), {cls.__name__: cls}, os.fspath(folder), device)

    @classmethod
    def sizes_in(cls, weights: Mapping[str, Any]) -> dict[str, int]:
        """The arguments that the shapes of a model's weights show, to compare with those in a config.

        The key "a * b" is for a product. They should include all that decides the time and memory that making a model
        takes. `weights` are arrays by path; may raise LookupError if they are another model's.
        """
        return {}


def arguments_of(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor's call, from its `locals()` before it has made any others."""
    return {name: value for name, value in variables.items() if name not in ("self", "__class__")}


# ---- writing


def write_folder(
    folder: str | os.PathLike[str],
    model: Any,
    text: Mapping[str, Any] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Write a model, and the data of its text codec, into a folder.

    Args:
        model: a `Pretrained` module.
        text: plain values for the config, to rebuild the codec from.
        files: contents of files, by the role that the codec finds them under.
    """
    from safetensors import numpy as safetensors

    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    # The order in memory is the order of the elements: safetensors would write any other wrongly.
    weights = {name: tensor.numpy().copy(order="C") for name, tensor in state_once(model).items()}
    named = {name: _put(path, name, content) for name, content in (files or {}).items()}
    config = {
        "format": FORMAT,
        "model": type(model).__name__,
        "arguments": model.config,
        "weights": _put(path, "model.safetensors", safetensors.save(weights)),
        "text": None if text is None else dict(text),
        "files": named,
    }
    config["checksum"] = _checksum(config)
    former = _named_files(path)
    for name in ("model.safetensors", *named):  # left by a process killed here
        file = _file(name, "[0-9a-f]" * HASH)
        former |= {found.name for found in (*path.glob(file), *path.glob(f".{file}.*.tmp"))}
    former |= {found.name for found in path.glob(f".{CONFIG}.*.tmp")}
    atomic_write(path / CONFIG, json.dumps(config, indent=2, ensure_ascii=False).encode() + b"\n")
    for name in former - _named_files(path):
        (path / name).unlink(missing_ok=True)


def state_once(model: Any) -> dict[str, tt.Tensor]:
    """The model's state, a shared parameter under its first path only."""
    shared = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    once = {name for name, _ in model.named_parameters()}
    return {name: tensor for name, tensor in model.state_dict().items() if name in once or name not in shared}


def _put(folder: Path, name: str, content: bytes) -> dict[str, str]:
    """Write a file under a name made from its content; returns its entry for the config."""
    digest = hashlib.sha256(content).hexdigest()
    file = _file(name, digest[:HASH])
    if not (folder / file).is_file() or (folder / file).read_bytes() != content:
        atomic_write(folder / file, content)
    return {"file": file, "sha256": digest}


def _checksum(config: Mapping[str, Any]) -> str:
    """SHA-256 of a config's values except the checksum itself; line breaks and indentation do not matter."""
    values = {name: value for name, value in config.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def _file(name: str, digest: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}-{digest}{dot}{suffix}"


def _named_files(folder: Path) -> set[str]:
    """The files that the folder's config names; none without a readable config."""
    try:
        config = _read_config(folder)
        return {entry["file"] for entry in (config["weights"], *config["files"].values())}
    except (PretrainedError, OSError):
        return set()


# ---- reading


def read_folder(folder: str | os.PathLike[str]) -> Folder:
    """The contents of a folder, checked against the checksums in its config.

    Raises PretrainedError that names the file in question.
    """
    path = Path(folder)
    config = _read_config(path)
    try:
        weights = _get(path, config["weights"])
        files = {role: _get(path, entry).read(0) for role, entry in config["files"].items()}
    except PretrainedError:
        if _checksum(_read_config(path)) == _checksum(config):
            raise
        return read_folder(folder)  # a new config replaced it meanwhile, and its files were removed
    arrays = weights_in(path / config["weights"]["file"], weights)
    return Folder(config["model"], config["arguments"], arrays, config["text"], files)


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    config = entries(path)
    if config.get("format") != FORMAT:
        raise PretrainedError(f"{path}: format {shown(config.get('format'))}, expected {FORMAT!r}")
    unknown = config.keys() - KINDS.keys() - {"format", "checksum"}
    if unknown:  # one of them may have been the checksum
        raise PretrainedError(f"{path}: damaged: {shown(min(unknown))} stands in no config")
    try:
        checksum = _checksum(config)
    except RecursionError:
        raise PretrainedError(f"{path}: damaged: its values are nested too deep") from None
    if config.get("checksum", checksum) != checksum:
        raise PretrainedError(
            f"{path}: damaged: its checksum does not agree. Take it from where the folder came from; if you have "
            "edited it yourself, remove the line 'checksum' from it"
        )
    for key, kind in KINDS.items():
        if key not in config or not isinstance(config[key], kind):
            raise PretrainedError(f"{path}: {key!r} is missing or of the wrong kind")
    for entry in (config["weights"], *config["files"].values()):
        name = entry.get("file") if isinstance(entry, dict) else None
        if not isinstance(name, str) or Path(name).name != name or not isinstance(entry.get("sha256"), str):
            raise PretrainedError(f"{path}: {shown(entry)} does not name a file of this folder with its checksum")
    return config


def _get(folder: Path, entry: Mapping[str, str]) -> Open:
    """A file that a config names, after checking that it is the one."""
    path = folder / entry["file"]
    opened = Open(path)
    digest = hashlib.file_digest(opened.file, "sha256")
    if digest.hexdigest() != entry["sha256"]:
        raise PretrainedError(f"{path}: damaged: it is not the file that {CONFIG} describes")
    return opened


def make_model(found: Folder, classes: Mapping[str, Any], name: str, device: str = "cpu") -> Any:
    """The model that a folder describes, one of these classes, on a device, in evaluation mode."""
    if found.model not in classes:
        raise PretrainedError(f"{name}: holds a {found.model}, expected {' or '.join(classes)}")
    made = classes[found.model]
    unknown = set(found.arguments) - set(inspect.signature(made.__init__).parameters)
    if unknown:
        raise PretrainedError(f"{name}: {found.model} has no argument {', '.join(sorted(unknown))}")
    _check_sizes(found, made, name)
    with nn.parameter.skipped():
        try:
            model: nn.Module = made(**found.arguments)
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, MemoryError) as error:
            raise PretrainedError(f"{name}: {found.model} cannot be made with these arguments: {error}") from None
    dtypes = {value.dtype for value in found.weights.values() if value.dtype.kind == "f"}
    if len(dtypes) == 1:
        with np.errstate(invalid="ignore"):  # its memory has no values yet
            model.to(dtype=dtypes.pop())
    _fill(model, found.weights, name)
    model.origin = found.origin
    return model.to(device).eval()


def _fill(model: nn.Module, weights: Mapping[str, Weight], name: str) -> None:
    """Read weights into the memory of a new model, after checking all of them."""
    own = state_once(model)
    shared = model.state_dict().keys() - own.keys()
    problems = [f"missing: {', '.join(lacking)}"] if (lacking := [path for path in own if path not in weights]) else []
    if surplus := [path for path in weights if path not in own and path not in shared]:
        problems.append(f"unexpected: {', '.join(surplus)}")
    for path in [path for path in own if path in weights]:
        there, here = weights[path], own[path]
        if there.shape != here.shape or not np.can_cast(there.dtype, here.dtype, "same_kind"):
            met, expected = (f"{each.dtype} of shape {each.shape}" for each in (there, here))
            problems.append(f"{path}: expected {expected}, got {met}")
    if problems:
        raise PretrainedError(f"{name}: the weights do not fit the config: {'; '.join(problems)}")
    for path, tensor in own.items():
        weights[path].fill(tensor._data)


def make_codec(found: Folder, kinds: Mapping[str, Any], name: str) -> Any:
    """The text codec that a folder describes, one of these kinds, made from its values and its files."""
    values = found.text or {}
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise PretrainedError(f"{name}: the codec of its text is {kind!r}, expected {' or '.join(kinds)}")
    try:
        return kinds[kind](values, found.files)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise PretrainedError(f"{name}: the codec of its text cannot be made: {error}") from None


def is_one(value: Any, kind: Any) -> bool:
    """True if a value from JSON is of a kind: a type, a union, or a sequence of such."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is types.UnionType:
        return any(is_one(value, part) for part in parts)
    if origin is Sequence:
        return isinstance(value, (list, tuple)) and all(is_one(item, parts[0]) for item in value)
    if kind in (int, float):  # a boolean is neither, and nothing is infinite
        return type(value) in (int, kind) and abs(value) < 2**63
    return kind is Any or isinstance(value, origin or kind)


def kind_name(kind: Any) -> str:
    """A kind as it is written."""
    return inspect.formatannotation(kind).replace("collections.abc.", "")


def _check_sizes(found: Folder, made: type[Pretrained], name: str) -> None:
    """Raise PretrainedError if the arguments are of other kinds than expected, or other sizes than the weights have."""
    kinds = get_type_hints(made.__init__)
    for argument, value in found.arguments.items():
        if not is_one(value, kinds.get(argument, Any)):
            raise PretrainedError(
                f"{name}: {CONFIG} says {argument} {shown(value)}; expected {kind_name(kinds[argument])}"
            )
    try:
        sizes = made.sizes_in(found.weights)
    except (LookupError, ValueError, TypeError) as error:
        raise PretrainedError(f"{name}: the weights are not those of a {found.model} ({error})") from None
    for argument, size in sizes.items():
        factors: list[Any] = [found.arguments.get(factor) for factor in argument.split(" * ")]
        if None not in factors and (told := math.prod(factors)) != size:
            raise PretrainedError(
                f"{name}: {CONFIG} says {argument} {told}, but the weights are those of a {found.model} with {size}"
            )
