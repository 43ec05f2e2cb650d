"""A picture in a notebook: the SVG with its tooltips, or an image of it if the notebook is not trusted.

Jupyter shows a notebook from somebody else without frames and styles until its reader trusts it; without the styles the
image, which a style hides, is visible. (The attribute `hidden` would not do: JupyterLab's own styles show every image.)
"""

from __future__ import annotations

import base64
from html import escape


def framed(svg: str, width: float, height: float, title: str) -> str:
    """An SVG in a frame of its own, so that its ids and styles meet no others; at most as wide as its column.

    Args:
        svg: the document.
        width, height: the size in pixels; the height only sets the proportion.
        title: its content, for those who cannot see it.
    """
    page = f"<!DOCTYPE html><style>body{{margin:0}}svg{{display:block;width:100%;height:auto}}</style>{svg}"
    size = f"width:100%;max-width:{width:.0f}px;aspect-ratio:{width:.0f}/{height:.0f}"
    image = base64.b64encode(svg.encode()).decode()
    return (
        "<style>.tt-instead{display:none!important}</style>"
        f'<iframe srcdoc="{escape(page)}" style="border:0;{size}" title="{escape(title)}"></iframe>'
        f'<img class="tt-instead" alt="{escape(title)}" src="data:image/svg+xml;base64,{image}">'
    )
