"""Pages in one HTML file that need no network, such as the film of a backward pass."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
style-src '{styles}'; script-src '{scripts}'; base-uri 'none'; form-action 'none'">
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
        data: plain values, without NaN; the script finds them as JSON in the element with the id "data".
        style, script: CSS and JavaScript.
        inline_styles: True if elements of the body may have styles of their own, as those of Graphviz's pictures do.
    """
    style, script = "\n" + style, "\n" + script
    # A script ends at any "</script>", so no "<" may be in the data; the others are escaped for safety.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for c in "<>&":
        text = text.replace(c, f"\\u{ord(c):04x}")
    styles = "unsafe-inline" if inline_styles else _hash(style)
    return PAGE.format(
        title=title, body=body, data=text, style=style, script=script, styles=styles, scripts=_hash(script)
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
