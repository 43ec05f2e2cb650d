"""Parallel text: files of aligned sentences, read with every fault named by file and line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .command_line import UsageError


@dataclass(frozen=True)
class Corpus:
    """Aligned sentences, and how many lines were left out.

    Attributes:
        sources, targets: sentence i of one is the translation of sentence i of the other.
        empty: pairs that were skipped because a side is empty.
    """

    sources: list[str]
    targets: list[str]
    empty: int

    def __len__(self) -> int:
        return len(self.sources)


def read_pairs(source: str | Path, target: str | Path) -> Corpus:
    """Read two files (plain or .gz, UTF-8, one sentence a line) side by side.

    Pairs with an empty side are skipped and counted. Raises UsageError for files that cannot be read, are not UTF-8
    (the line is named), have different numbers of lines, or hold no pair at all.
    """
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise UsageError(
            f"{source} has {len(sources):,} lines, {target} has {len(targets):,}; aligned files have the same number"
        )
    pairs = [(s, t) for s, t in zip(sources, targets) if s and t]
    if not pairs:
        raise UsageError(f"{source} and {target} hold no pair of sentences")
    return Corpus([s for s, _ in pairs], [t for _, t in pairs], len(sources) - len(pairs))


def read_lines(path: str | Path) -> list[str]:
    """The lines of a text file, without white space around them."""
    path = Path(path)
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UsageError(f"{path} is no whole gzip file: {error}") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()  # what stands behind the last end of line
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            texts.append(line.decode("utf-8").strip().removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}"))
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}, line {number}: not UTF-8 (byte {error.start + 1} of the line)") from None
    return texts


def lengths_text(lengths: Sequence[int]) -> str:
    """Mean and maximum, for a line of progress."""
    return f"mean {sum(lengths) / max(len(lengths), 1):.1f}, longest {max(lengths, default=0)}"
