"""A picture in a notebook: with its tooltips and its text, and with a PNG for readers who trust no foreign page."""

from __future__ import annotations

import base64
import hashlib
import html
import re

from .dot import to_dot
from .picture import Picture
from .svg import render, to_svg
from .text import to_text

MANY = 300
"""A picture of more vertices than this has no PNG: it would be larger than all the rest."""


def bundle(picture: Picture) -> dict[str, str]:
    """The picture by MIME type: HTML with the SVG in it, PNG, and the tree as text.

    In a page it is as wide as its column at most. Its ids are its own, so that many pictures may stand on one page.
    """
    svg = to_svg(picture).replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)
    mark = hashlib.sha256(svg.encode()).hexdigest()[:8]
    inline = re.sub(r'\bid="(\w+)"', rf'id="tt-{mark}-\1"', svg)
    found = {"text/html": f'<div role="figure" aria-label="{html.escape(picture.title)}">{inline}</div>'}
    if len(picture.vertices) <= MANY:
        found["image/png"] = base64.b64encode(render(to_dot(picture), "png")).decode()
    return found | {"text/plain": to_text(picture)}
