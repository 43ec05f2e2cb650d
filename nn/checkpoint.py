"""Saving and loading: one file holds everything needed to resume.

    nn.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 100}, "last.safetensors")
    state = nn.load("last.safetensors")

The file is in the safetensors format: other programs can read its arrays, and loading it runs no code. Everything
else is JSON in the file's metadata, together with a checksum of every array.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import numpy as np

import tinytensor as tt
from tinytensor.backend import NAMESPACES, for_device
from tinytensor.machine.files import atomic_write, read_file

FORMAT = "tinytensor checkpoint 1"
TENSOR, TUPLE, DICT = "$tensor", "$tuple", "$dict"


CONVERT = (
    "where PyTorch is installed, write it anew: safetensors.torch.save_file({{name: value.float() for name, value in "
    "{}.items()}}, 'weights.safetensors'); model.load_state_dict(safetensors.numpy.load_file('weights.safetensors')) "
    "reads that"
)


class CheckpointError(RuntimeError):
    """A file is not a checkpoint, or was changed since it was written."""


def save(state: Any, path: str | os.PathLike[str]) -> None:
    """Write Tensors and plain values to a file, replacing it whole or not at all.

    Args:
        state: nested dictionaries, lists and tuples of Tensors, NumPy or CuPy arrays, numbers, strings, booleans and
            None; for example several `state_dict()`s under names.
        path: the file; by convention it ends in `.safetensors`.

    Raises TypeError that names the place of a value that cannot be saved, and OSError that names a file that cannot be
    written; an older file stays unchanged.
    """
    from safetensors import numpy as safetensors

    arrays: dict[str, Any] = {}
    text = json.dumps(_encode(state, (), arrays), separators=(",", ":"))
    checksums = json.dumps({name: _checksum(array) for name, array in arrays.items()}, separators=(",", ":"))
    metadata = {"format": FORMAT, "state": text, "checksums": checksums, "checksum": _text_checksum(text, checksums)}
    # safetensors has no complex128: store pairs of float64 instead; the checksums tell them apart.
    storable = {name: _as_pairs(array) if array.dtype == tt.complex128 else array for name, array in arrays.items()}
    atomic_write(path, safetensors.save(storable, metadata))


def load(path: str | os.PathLike[str], device: str | None = "cpu") -> Any:
    """Read a file of `save`: the same nested values, with every array as a Tensor on `device`.

    Raises CheckpointError that names the file if it is truncated, changed or not a file of `save`; OSError if it cannot
    be read; DeviceError if the device is missing. Runs no code from the file.
    """
    for_device(device)
    name = os.fspath(path)
    content = read_file(path)
    try:
        arrays, text = _read(content, name)
        return _decode(json.loads(text), {key: tt.asarray(array, device=device) for key, array in arrays.items()})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointError(f"{name}: the saved state cannot be understood ({error!r})") from error


def _read(content: bytes, path: str) -> tuple[dict[str, Any], str]:
    """The arrays of a file, and the text of its other values, all checked."""
    from safetensors import SafetensorError
    from safetensors import numpy as safetensors

    try:
        arrays = safetensors.load(content)
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    except KeyError as error:  # a dtype
        raise CheckpointError(
            f"{path}: this is no checkpoint, but a safetensors file with arrays of {error.args[0]} (BF16 is bfloat16), "
            f"which NumPy does not have; {CONVERT.format('safetensors.torch.load_file(file)')}"
        ) from None
    except (SafetensorError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: this is no checkpoint, {_what_else(content, error)}") from error
    if metadata.get("format") != FORMAT or not {"state", "checksums", "checksum"} <= set(metadata):
        raise CheckpointError(
            f"{path}: this file was not written by nn.save (format {metadata.get('format')!r}, expected {FORMAT!r}); "
            "arrays of other programs can be read with safetensors.numpy.load_file"
        )
    text, checksums = metadata["state"], metadata["checksums"]
    if _text_checksum(text, checksums) != metadata["checksum"]:
        raise CheckpointError(f"{path}: damaged: the checksum of the saved state does not agree; use an older one")
    expected = json.loads(checksums)
    if set(expected) != set(arrays):
        raise CheckpointError(f"{path}: damaged: the arrays are not those that were saved; use an older one")
    for name, array in arrays.items():
        if _checksum(array) != expected[name]:
            array = arrays[name] = _from_pairs(array)
            if _checksum(array) != expected[name]:
                raise CheckpointError(f"{path}: damaged: the checksum of {name!r} does not agree; use an older one")
    return arrays, text


def _what_else(content: bytes, error: Exception) -> str:
    """A guess from the first bytes at the kind of a file, and how to get its arrays."""
    start = content[:256]
    is_zip = start.startswith(b"PK")
    if (is_zip and b"data.pkl" in start) or start[:1] == b"\x80":
        kind = "a file of torch.save" if is_zip else "a pickle, as older versions of torch.save wrote"
        convert = CONVERT.format("torch.load(file, weights_only=True)")
        return f"but {kind}, and reading one can run code; {convert}"
    if (is_zip and b".npy" in start) or start.startswith(b"\x93NUMPY"):
        return "but a file of NumPy's, which np.load reads; model.load_state_dict takes its arrays by name"
    return f"or it is damaged or incomplete ({error}); use an older one"


def _encode(value: Any, place: tuple[Any, ...], arrays: dict[str, Any]) -> Any:
    """A value for JSON; arrays go into `arrays` and are replaced by their names."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tt.Tensor) or type(value) in NAMESPACES or isinstance(value, np.ndarray):
        name = _unused(".".join(map(str, place)), arrays)
        arrays[name] = _as_array(value, place)
        return {TENSOR: name}
    if isinstance(value, (list, tuple)):
        items = [_encode(item, (*place, i), arrays) for i, item in enumerate(value)]
        return {TUPLE: items} if isinstance(value, tuple) else items
    if isinstance(value, dict):
        pairs = [(_encode_key(key, place), _encode(item, (*place, key), arrays)) for key, item in value.items()]
        simple = all(isinstance(key, str) and not key.startswith("$") for key, _ in pairs)
        return dict(pairs) if simple else {DICT: [list(pair) for pair in pairs]}
    raise TypeError(
        f"save: cannot save the {type(value).__name__} at {_describe(place)}; "
        "expected Tensors, arrays, numbers, strings, booleans, None, and dictionaries, lists and tuples of them"
    )


def _encode_key(key: Any, place: tuple[Any, ...]) -> Any:
    if isinstance(key, np.generic):
        key = key.item()
    if key is None or isinstance(key, (str, int, float)):
        return key
    raise TypeError(f"save: a key of the dictionary at {_describe(place)} is {key!r}; expected strings or numbers")


def _decode(value: Any, tensors: dict[str, tt.Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if TENSOR in value:
        return tensors[value[TENSOR]]
    if TUPLE in value:
        return tuple(_decode(item, tensors) for item in value[TUPLE])
    if DICT in value:
        return {key: _decode(item, tensors) for key, item in value[DICT]}
    return {key: _decode(item, tensors) for key, item in value.items()}


def _as_array(value: Any, place: tuple[Any, ...]) -> Any:
    """A NumPy array with its elements in order, since safetensors writes wrong bytes for any other."""
    try:
        array = tt.asarray(value)._to_numpy()
    except TypeError as error:
        raise TypeError(f"save: cannot save the array at {_describe(place)}: {error}") from None
    return np.asarray(array, order="C")


def _unused(name: str, taken: dict[str, Any]) -> str:
    """A valid name that neither another array nor the format itself uses."""
    name = name.encode("utf-8", "replace").decode()
    unused, count = name, 1
    while unused in taken or unused == "__metadata__":
        count += 1
        unused = f"{name}#{count}"
    return unused


def _describe(place: tuple[Any, ...]) -> str:
    return "".join(f"[{key!r}]" for key in place) or "the top"


def _checksum(array: Any) -> str:
    """SHA-256 of an array with its dtype and shape."""
    digest = hashlib.sha256(f"{array.dtype.name}\n{array.shape}\n".encode())
    digest.update(array.reshape(-1).view(np.uint8))
    return digest.hexdigest()


def _text_checksum(text: str, checksums: str) -> str:
    return hashlib.sha256(f"{text}\n{checksums}".encode()).hexdigest()


def _as_pairs(array: Any) -> Any:
    return array.reshape((*array.shape, 1)).view(np.float64)


def _from_pairs(array: Any) -> Any:
    fits = array.dtype == np.float64 and array.shape[-1:] == (2,)
    return array.view(np.complex128).reshape(array.shape[:-1]) if fits else array
