"""Docstrings as reStructuredText: they are written as plain text, to be read where they stand."""

from __future__ import annotations

import re

CODE = "\x00"  # in front of a line that is code, while we work
SIGNS = re.compile(rf"^{CODE}.*$|(?P<code>`[^`{CODE}]*`)(?P<suffix>\w?)|(?P<sign>[*|]|(?<=\w)_(?!\w))", re.M)


def as_rst(lines: list[str]) -> list[str]:
    """What is indented after a blank line is code, what stands between backticks too; no other sign is markup."""
    text = SIGNS.sub(_escaped, "\n".join(_with_code_marked(lines)))
    return text.replace(CODE, "").split("\n")


def _with_code_marked(lines: list[str]) -> list[str]:
    written: list[str] = []
    last = 0  # how far the last line of prose is indented
    code = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip():
            begins = not code and bool(written) and not written[-1].strip() and indent > last
            if begins:
                written += [" " * last + "::", ""]
            code = begins or (code and indent > last)
            last = last if code else indent
        written.append(CODE + line if code and line.strip() else line)
    return written


def _escaped(match: re.Match[str]) -> str:
    if match["sign"]:
        return "\\" + match["sign"]
    if match["suffix"]:  # `word`s
        return f"{match['code']}\\ {match['suffix']}"
    return match[0]
