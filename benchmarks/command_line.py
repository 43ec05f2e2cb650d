"""Code that the command lines here share: a mistake ends in one line and exit code 2, before any measurement."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """An argument parser whose help is the script's docstring and whose errors are one line."""

    def __init__(self, docstring: str | None) -> None:
        super().__init__(
            description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
        )

    def error(self, message: str) -> NoReturn:
        refuse(f"{message} (--help lists the arguments)")

    def add_json(self) -> None:
        """The option `--json FILE`."""
        self.add_argument("--json", type=writable, metavar="FILE", help="write the figures to this file")

    def add_anyway(self) -> None:
        """The option `--anyway`."""
        self.add_argument("--anyway", action="store_true", help="print figures though other programs compute beside")

    def add_against(self) -> None:
        """The option `--against FOLDER`."""
        self.add_argument(
            "--against", type=checkout, metavar="FOLDER", help="another checkout of tinytensor, in PyTorch's place"
        )


def script() -> str:
    return Path(sys.argv[0]).name


def refuse(message: str) -> NoReturn:
    """End with one line and exit code 2, for a mistake on the command line."""
    print(f"{script()}: {message}", file=sys.stderr)
    raise SystemExit(2)


def require_torch() -> None:
    """End the script if PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        refuse("PyTorch is not installed; pip install torch, or compare with something else (--help lists what)")


def count(text: str) -> int:
    """An argument type: an integer of at least 1."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def counts(text: str) -> list[int]:
    """An argument type: a comma-separated list of integers of at least 1."""
    return [count(number) for number in text.split(",")]


def probability(text: str) -> float:
    """An argument type: a number from 0 to below 1, as dropout takes."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to below 1, got {text!r}")
    return value


def some_of(*known: str) -> Callable[[str], list[str]]:
    """An argument type: a comma-separated list of known names."""

    def names(text: str) -> list[str]:
        chosen = [name for name in text.split(",") if name]
        unknown = sorted(set(chosen) - set(known))
        if unknown or not chosen:
            expected = ",".join(known)
            raise argparse.ArgumentTypeError(f"expected some of {expected}, got {', '.join(unknown) or 'none'}")
        return list(dict.fromkeys(chosen))

    return names


def checkout(text: str) -> Path:
    """An argument type: the folder of a checkout of tinytensor."""
    folder = Path(text)
    if not (folder / "tinytensor" / "__init__.py").is_file():
        raise argparse.ArgumentTypeError(f"expected a checkout of tinytensor, but {text} holds no tinytensor/")
    return folder.resolve()


def writable(text: str) -> Path:
    """An argument type: a file to write, in an existing folder."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file in an existing folder, got {text!r}")
    return path


def write_json(path: Path | None, results: Any) -> None:
    """Write the figures to a file, if one was given."""
    if path is not None:
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
