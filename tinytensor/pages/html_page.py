"""Pages in one HTML file that need no network, such as the film of a backward pass."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from ..machine.files import atomic_write

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
style-src '{styles}'; script-src '{scripts}'; worker-src blob:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def html_page(title: str, body: str, data: Any, *, style: str, script: str, inline_styles: bool = False) -> str:
    """A page that runs only this script, and shows data only as the script puts it there.

    Args:
        title: the title of the page, escaped.
        body: its content, as HTML.
        data: plain values, without NaN; the script finds them as `data`.
        style, script: CSS and JavaScript; `page.css` and `page.js`, which all pages share, stand before them.
        inline_styles: True if elements of the body may have styles of their own, as those of Graphviz's pictures do.
    """
    style, script = "\n" + text_of(__package__, "page.css") + style, "\n" + text_of(__package__, "page.js") + script
    dark = "(prefers-color-scheme: dark)"  # pictures in the body are light on paper, as the page is
    body = body.replace(f"@media {dark}", f"@media screen and {dark}")
    # A script ends at any "</script>", so no "<" may be in the data; the others are escaped for safety.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for c in "<>&":
        text = text.replace(c, f"\\u{ord(c):04x}")
    styles = "unsafe-inline" if inline_styles else _hash(style)
    return PAGE.format(
        title=title, body=body, data=text, style=style, script=script, styles=styles, scripts=_hash(script)
    )


def text_of(package: str, name: str) -> str:
    """The text of a file that lies beside the code of a package."""
    return (resources.files(package) / name).read_text(encoding="utf-8")


def save_page(
    function: str, path: str | os.PathLike[str], page: Callable[[], str], endings: tuple[str, ...] = (".html", ".htm")
) -> None:
    """Write a page, whole or not at all. Raises ValueError in the name of a function for another ending."""
    if Path(path).suffix.lower() not in endings:
        raise ValueError(f"{function}: {os.fspath(path)} has the ending {Path(path).suffix!r}; expected {endings[0]}")
    atomic_write(path, page().encode())


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
