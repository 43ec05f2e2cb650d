"""Files that are whole at every instant."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file whole or not at all: to a temporary file in the same folder, synced, then renamed.

    Raises OSError where the folder is missing or cannot be written; what stood at `path` then still stands there.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {target.parent}; make it first")
    temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
