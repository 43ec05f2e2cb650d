"""A graph's picture in a notebook."""

from __future__ import annotations

import base64
import re

from ..pages.notebook import framed
from .dot import to_dot
from .picture import Picture
from .svg import render, to_svg
from .text import to_text

MANY = 300
"""A picture with more vertices than this has no PNG, which would be larger than all the rest."""

PIXELS = 4 / 3
"""CSS pixels in a point."""


def bundle(picture: Picture) -> dict[str, str]:
    """The picture by MIME type: HTML with the SVG in a frame, PNG, and the tree as text."""
    svg = to_svg(picture)
    size = re.search(r'viewBox="[\d.]+ [\d.]+ ([\d.]+) ([\d.]+)"', svg)
    width, height = (float(size[1]), float(size[2])) if size is not None else (600.0, 400.0)
    found = {"text/html": framed(svg, width * PIXELS, height * PIXELS, f"{picture.title}: {picture.description}")}
    if len(picture.vertices) <= MANY:
        found["image/png"] = base64.b64encode(render(to_dot(picture), "png")).decode()
    return found | {"text/plain": to_text(picture)}
