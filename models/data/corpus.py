"""Parallel text: files of aligned sentences, read with every fault named by file and line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class CorpusError(ValueError):
    """Files that cannot be used as parallel text; the message is one line that says which, where and why."""


@dataclass(frozen=True)
class Corpus:
    """Aligned sentences, and the number of skipped lines.

    Attributes:
        sources, targets: sentence i of one is the translation of sentence i of the other.
        empty: the number of pairs skipped because a side is empty.
        lines: the line number of each pair in the files, counted from 1; empty if they do not come from files.
        first_empty: the number of the first skipped line.
    """

    sources: list[str]
    targets: list[str]
    empty: int
    lines: Sequence[int] = ()
    first_empty: int | None = None

    def __len__(self) -> int:
        return len(self.sources)


def read_pairs(source: str | Path, target: str | Path) -> Corpus:
    """Read two files (plain or .gz, UTF-8, one sentence per line) side by side.

    Skips and counts pairs with an empty side. Raises CorpusError for files that cannot be read, are not UTF-8 (it names
    the line), have different numbers of lines, or hold no pair at all.
    """
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise CorpusError(
            f"{source} has {len(sources):,} lines, {target} has {len(targets):,}; aligned files have the same number"
        )
    full = [all(pair) for pair in zip(sources, targets)]
    kept = [i for i, is_full in enumerate(full) if is_full]
    if not kept:
        raise CorpusError(f"{source} and {target} hold no pair of sentences")
    sides = [sources[i] for i in kept], [targets[i] for i in kept]
    first_empty = None if all(full) else full.index(False) + 1
    return Corpus(*sides, empty=full.count(False), lines=[i + 1 for i in kept], first_empty=first_empty)


def read_lines(path: str | Path) -> list[str]:
    """The lines of a text file, without white space around them."""
    path = Path(path)
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CorpusError(f"{path} is no whole gzip file: {error}") from None
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror or error}") from None
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()  # the empty rest after the last end of line
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            texts.append(line.decode("utf-8").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").strip())
        except UnicodeDecodeError as error:
            raise CorpusError(f"{path}, line {number}: not UTF-8 (byte {error.start + 1} of the line)") from None
    return texts
