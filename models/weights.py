"""Weights in files: each is read when a model takes it, so that loading needs the memory of the model alone.

for name, weight in weights_in(Path("model.safetensors")).items():
    weight.shape, np.asarray(weight)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from reprlib import repr as shown  # cuts what is long or deep, as a value of a file may be
from typing import Any, TypeVar

import numpy as np

from tinytensor.machine.files import open_file, read_json

T = TypeVar("T")
CONFIG, GENERATION = "config.json", "generation_config.json"

KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "BOOL": "?", "U8": "u1"}
AT_ONCE = 1 << 18  # numbers that are read and converted at a time


class PretrainedError(RuntimeError):
    """A folder or a file holds no model that can be read, or a damaged one."""


class Weight:
    """An array that is still in its file.

    Args:
        shape, dtype: of the array that `np.asarray` gives.
        fill: writes its numbers into an array of this shape.
    """

    def __init__(self, shape: Sequence[int], dtype: Any, fill: Callable[[np.ndarray], None]) -> None:
        self.shape, self.dtype, self.fill = tuple(shape), np.dtype(dtype), fill

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = np.empty(self.shape, self.dtype if dtype is None else dtype)
        self.fill(found)
        return found

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def T(self) -> Weight:
        """The transpose."""
        return Weight(self.shape[::-1], self.dtype, lambda out: self.fill(out.T))

    @property
    def row(self) -> Weight:
        """The only row."""
        return Weight(self.shape[1:], self.dtype, lambda out: self.fill(out[None]))

    def rows(self, start: int) -> Weight:
        """The rows from `start` on."""

        def fill(out: np.ndarray) -> None:
            out[...] = np.asarray(self)[start:]

        return Weight((max(0, len(self) - start), *self.shape[1:]), self.dtype, fill)


def of_array(array: np.ndarray) -> Weight:
    """An array that is in memory already."""

    def fill(out: np.ndarray) -> None:
        out[...] = array

    return Weight(array.shape, array.dtype, fill)


def stacked(parts: Sequence[Weight]) -> Weight:
    """One below the other. Raises ValueError if they differ in other axes than the first."""
    if len({part.shape[1:] for part in parts}) > 1 or any(part.ndim == 0 for part in parts):
        raise ValueError(f"shapes {', '.join(str(part.shape) for part in parts)}; expected one but for the first axis")

    def fill(out: np.ndarray) -> None:
        start = 0
        for part in parts:
            part.fill(out[start : start + len(part)])
            start += len(part)

    shape = (sum(map(len, parts)), *parts[0].shape[1:])
    return Weight(shape, np.result_type(*[part.dtype for part in parts]), fill)


class Open:
    """A file that is open until nobody reads from it any more, even if another takes its name meanwhile.

    Raises PretrainedError that names what cannot be read.
    """

    file: BufferedReader

    def __init__(self, path: Path) -> None:
        self.file = reading(open_file, path)

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()

    def read(self, start: int, size: int = -1) -> bytes:
        """Bytes from `start` on: `size` of them, or all."""
        self.file.seek(start)
        return self.file.read(size)


def pieces(out: np.ndarray) -> list[np.ndarray]:
    """Views of some rows each: the model's memory is all that a large weight needs, even if it is converted."""
    rows = max(1, AT_ONCE // max(1, out[0].size)) if out.ndim and len(out) else 1
    return [out[i : i + rows] for i in range(0, len(out), rows)] if out.ndim else [out]


def weights_in(path: Path, file: Open | None = None) -> dict[str, Weight]:
    """The weights in a safetensors file, by name; bfloat16 becomes float32, which holds the same values.

    Args:
        file: the file at `path` if it is open.

    Raises PretrainedError, with the file's name, for another kind of file or a damaged one, also while one is read.
    """
    try:
        return dict(_weights(path, file or Open(path)))
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError, AttributeError, MemoryError) as error:
        raise PretrainedError(f"{path}: no whole safetensors file ({error})") from None


def _weights(path: Path, file: Open) -> Iterator[tuple[str, Weight]]:
    """Eight bytes hold the length of a header in JSON; behind it are the arrays, one after the other, without gaps."""
    size = os.fstat(file.file.fileno()).st_size
    start = 8 + int.from_bytes(file.read(0, 8), "little")
    if not 8 < start <= size:
        raise ValueError(f"its header would end at byte {start} of {size}")
    header = json.loads(file.read(8, start - 8))
    header.pop("__metadata__", None)
    end = start
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        if entry["dtype"] not in KINDS:
            raise PretrainedError(f"{path}: {name} is of dtype {entry['dtype']}; expected {', '.join(KINDS)}")
        kind, shape = np.dtype(KINDS[entry["dtype"]]), tuple(entry["shape"])
        if any(type(length) is not int or length < 0 for length in shape):
            raise ValueError(f"{name} has shape {shape}")
        begin, end = end, end + kind.itemsize * int(np.prod(shape, dtype=object))
        if entry["data_offsets"] != [begin - start, end - start] or end > size:
            raise ValueError(f"{name} of shape {shape} would be at bytes {entry['data_offsets']} of {size - start}")
        yield name, _weight(path, file, begin, kind, shape, entry["dtype"] == "BF16")
    if end != size:
        raise ValueError(f"its arrays end at byte {end} of {size}")


def _weight(path: Path, file: Open, begin: int, kind: Any, shape: tuple[int, ...], is_upper: bool) -> Weight:
    """An array in a file. `is_upper`: the numbers are the upper halves of float32."""

    def fill(out: np.ndarray) -> None:
        start = begin
        for part in pieces(out):
            content = file.read(start, part.size * kind.itemsize)
            start += len(content)
            if len(content) < part.size * kind.itemsize:
                raise PretrainedError(f"{path}: became shorter while it was read; load it again")
            found = np.frombuffer(content, kind).reshape(part.shape)
            part[...] = (found.astype(np.uint32) << 16).view(np.float32) if is_upper else found

    return Weight(shape, np.float32 if is_upper else kind, fill)


# ---- files that are not there


def reading(read: Callable[[Path], T], path: Path) -> T:
    """Read by a function of `files`. Raises PretrainedError that names the file."""
    try:
        return read(path)
    except OSError as error:
        raise PretrainedError(f"{error.filename or path}: {error.strerror or error}{_instead(path)}") from None
    except ValueError as error:
        raise PretrainedError(str(error)) from None


def entries(path: Path, optional: bool = False) -> dict[str, Any]:
    """The entries of an object in JSON; none if it is optional and missing. Raises PretrainedError with its name."""
    if optional and not path.exists():
        return {}
    found = reading(read_json, path)
    if not isinstance(found, dict):
        raise PretrainedError(f"{path}: holds {shown(found)}; expected an object with entries")
    return found


def _instead(path: Path) -> str:
    """The end of a sentence about a file that cannot be read: what is in its place, and what to do."""
    folder = path.parent
    if folder.is_file():
        is_gguf = folder.suffix == ".gguf"
        return "; models.load reads a file of GGUF" if is_gguf else f"; expected a folder with {CONFIG}, not a file"
    if not folder.is_dir():
        return f"; there is no folder {str(folder)!r}, and nothing is fetched: download it first"
    if path.name == CONFIG:
        return "" if path.exists() else "; expected a folder of save_pretrained"
    others = sorted(each.name for each in folder.glob("*") if each.suffix in (".safetensors", ".gguf", ".bin", ".pt"))
    if path.exists() or path.name != "model.safetensors" or not others:
        return "" if path.exists() else "; copy or download it again"
    convert = "load it where transformers is installed, and write it anew with save_pretrained"
    return f"; the folder has {others[-1]} (reading a pickle can run code, which is not done here): {convert}"
