"""What tests of pictures share: weights to draw, and pictures read back as XML."""

import re
import xml.etree.ElementTree as ET

import numpy as np

SVG = "{http://www.w3.org/2000/svg}"
AWKWARD = [
    "<script>alert(1)</script>",
    "&amp;",
    '"quo\'te"',
    "שלום",
    "👩‍👩‍👧",
    "",
    " \t",
    "\u202eevil",
    "\x00\ud800",
    "extraordinarily" * 8,
]
SHOWN = [
    "<script>alert(1)</script>",
    "&amp;",
    '"quo\'te"',
    "שלום",
    "👩‍👩‍👧",
    "∅",
    "␣⇥",
    "[U+202E]evil",
    "[U+0000]\N{REPLACEMENT CHARACTER}",
    "extraordinarily" * 8,
]


def softmax(*shape, seed=0, sharp=2.0):
    e = np.exp(np.random.default_rng(seed).normal(size=shape) * sharp)
    return e / e.sum(axis=-1, keepdims=True)


class Read:
    """A picture as XML."""

    def __init__(self, picture):
        self.root = ET.fromstring(str(picture))
        self.width = float(self.root.get("width"))
        self.height = float(self.root.get("height"))

    def all(self, tag, class_=None):
        found = self.root.iter(f"{SVG}{tag}")
        return [e for e in found if class_ is None or class_ in e.get("class", "").split()]

    def texts(self, class_):
        """What is written: whole, where it was shortened."""
        found = []
        for e in self.all("text", class_):
            title = e.findtext(f"{SVG}title")
            found.append(plain(e.text if title is None else title))
        return found

    def titles(self):
        return [plain(e.text) for e in self.all("title")]

    @property
    def description(self):
        return plain(self.root.findtext(f"{SVG}desc"))


def plain(text):
    return re.sub("[\u2068\u2069]", "", text)
