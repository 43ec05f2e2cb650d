"""Reading files whole, and writing them so that at every instant the old one or the new one is whole."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Callable
from io import BufferedReader
from typing import Any, BinaryIO


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """A file, open for reading.

    Raises OSError that names it: the file is missing, or a folder is in its place, or what may have no end, as a pipe.
    """
    try:
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            raise OSError(errno.EINVAL, "a pipe or a device is in the place of the file", os.fspath(path))
        return open(path, "rb")
    except ValueError as error:  # a name that no file can have
        raise OSError(errno.EINVAL, f"no name of a file ({error})", repr(os.fspath(path))) from None


def read_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file. Raises OSError as `open_file` does."""
    with open_file(path) as file:
        return file.read()


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file in UTF-8. Raises OSError, or ValueError for other bytes; both name the file."""
    try:
        return read_file(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)}: not in UTF-8 ({error})") from None


def read_json(path: str | os.PathLike[str]) -> Any:
    """The value in a file of JSON. Raises OSError, or ValueError for other text or values nested too deep, as above."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{os.fspath(path)}: not JSON ({error})") from None


def atomic_write(path: str | os.PathLike[str], content: bytes | Callable[[BinaryIO], Any]) -> None:
    """Put a file in place of the one at `path`, if any, whole or not at all.

    The content goes to a temporary file in the same folder, which is flushed to the disk and then renamed. A file that
    was there keeps its permissions; a symbolic link stays one.

    Args:
        path: the file.
        content: its bytes, or a function that writes them to the binary file it is given.

    Raises OSError that names the file: its folder is missing or may not be written to, the disk is full, `path` is a
    folder or a device. What was there is untouched then, and no temporary file remains.
    """
    path = os.fspath(path)
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, "a folder is in the place of the file to be written", path)
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError(errno.EINVAL, "a device or another special file is in the place of the file", path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "the folder of the file does not exist; create it first", path)
    temporary = os.path.join(folder, f".{name[:40]}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            if os.path.exists(target):
                os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, path) from error
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Flush the new name itself to the disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (
            errno.EINVAL,
            errno.ENOTSUP,
            errno.ENOSYS,
        ):  # some network file systems have no such call
            raise
    finally:
        os.close(descriptor)
