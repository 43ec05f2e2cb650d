"""Writing files so that at every instant the old one or the new one is whole."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable
from typing import Any, BinaryIO


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
