"""The SVG writer: well-formed whatever it is given, short numbers, colours for light and dark."""

import math
import xml.etree.ElementTree as ET

import pytest

from tinytensor.nn.visualize.svg import (
    BOLD,
    INK,
    MUTED,
    SERIES,
    Colour,
    Element,
    Picture,
    clean,
    number,
    shorten,
    text_width,
)

SVG = "{http://www.w3.org/2000/svg}"
AWKWARD = "<script>&\"'\x00\x1b\ud800\ufffe שלום 👩‍👩‍👧"


def parse(*children):
    return ET.fromstring(str(Picture(10, 20, "title", "description", children)))


def test_a_document_says_what_it_is():
    root = ET.fromstring(str(Picture(10.2, 20, AWKWARD, "a & b")))
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("11", "20", "0 0 11 20")
    assert root[0].tag == f"{SVG}title"  # a title counts as the name only as the first child
    assert root.findtext(f"{SVG}desc") == "a & b"


def test_text_and_attributes_survive_as_far_as_xml_allows():
    expected = "<script>&\"'\ufffd\ufffd\ufffd\ufffd שלום 👩‍👩‍👧"
    text = parse(Element("text", AWKWARD, data_token=AWKWARD)).find(f"{SVG}text")
    assert text.text == expected
    assert text.get("data-token") == expected
    assert ET.fromstring(f"<a>{clean(AWKWARD)}</a>").text == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (1.0, "1"), (0.1 + 0.2, "0.3"), (-0.0, "0"), (-1e-9, "0"), (1234.5678, "1234.568"), (100, "100")],
)
def test_numbers_are_short(value, text):
    assert number(value) == text
    assert parse(Element("rect", x=value))[-1].get("x") == text


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nothing_is_drawn_at_no_number(value):
    with pytest.raises(ValueError, match="cannot draw at"):
        str(Picture(1, 1, "", "", [Element("rect", x=value)]))


def test_attributes_are_named_as_in_svg():
    rect = parse(Element("rect", class_="a b", stroke_width=2, viewBox="0 0 1 1", rx=None))[-1]
    assert rect.attrib == {"stroke-width": "2", "viewBox": "0 0 1 1", "class": "a b"}


def test_colours_have_a_class_and_a_counterpart_on_dark_paper():
    text = str(Picture(1, 1, "", "", [Element("path", fill=INK, stroke=MUTED, class_="curve")]))
    path = ET.fromstring(text)[-1]
    assert (path.get("fill"), path.get("stroke")) == (INK.light, MUTED.light)
    assert path.get("class") == "curve fill-ink stroke-muted"
    style = ET.fromstring(text).findtext(f"{SVG}style")
    assert "@media (prefers-color-scheme: dark)" in style
    assert f".tt-picture .fill-ink {{ fill: {INK.dark} }}" in style
    assert f".tt-picture .stroke-muted {{ stroke: {MUTED.dark} }}" in style
    assert "stroke-ink" not in style  # what is not used is not written


def test_light_and_dark_alternatives():
    children = [Element("image", class_="light-only"), Element("image", class_="dark-only", display="none")]
    style = parse(*children).findtext(f"{SVG}style")
    assert ".light-only { display: none }" in style
    assert ".dark-only { display: inline }" in style


def test_colours_are_named_once():
    assert len({c.name for c in SERIES}) == len(SERIES) == len({c.light for c in SERIES})
    assert all(isinstance(c, Colour) for c in SERIES)


def test_the_same_picture_is_the_same_text_and_a_notebook_shows_it():
    def draw():
        return Picture(5, 5, "t", "d", [Element("g", Element("rect", fill=c)) for c in SERIES])

    assert str(draw()) == str(draw())
    assert draw()._repr_mimebundle_() == draw()._repr_mimebundle_()
    assert repr(draw()) == "<picture 5x5: t>"


def test_save(tmp_path):
    picture = Picture(5, 5, "שלום", "d")
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == str(picture)
    with pytest.raises(ValueError, match=r"a\.png has the ending '\.png'; expected \.svg"):
        picture.save(tmp_path / "a.png")


def test_widths_grow_with_what_is_seen():
    assert text_width("iii") < text_width("mmm") < text_width("日本語")
    assert text_width("e\N{COMBINING ACUTE ACCENT}") == text_width("e")
    assert text_width("a", 26) == 2 * text_width("a", 13)


# The widths of text in DejaVu Sans and in DejaVu Sans Bold, in thousandths of the size of type.
DEJAVU = {
    "branch.0.weight": (8121, 9208), "transformer": (5946, 6781), "WMmw": (3644, 4064), "+<=>~^#": (5866, 5866),
    "0123456789": (6360, 6960), "Economic": (4842, 5340), "NHUDQ": (3789, 4166),
}  # fmt: skip


@pytest.mark.parametrize("text", DEJAVU)
def test_text_has_room_in_the_widest_font(text):
    regular, bold = DEJAVU[text]
    assert regular <= text_width(text, 1000) <= 1.2 * regular
    assert bold <= BOLD * text_width(text, 1000) <= 1.25 * bold


@pytest.mark.parametrize("text", ["a" * 60, "é" * 40, "e\N{COMBINING ACUTE ACCENT}" * 40, "日本語" * 20, "👩‍👩‍👧" * 20])
def test_shortened_text_fits_and_breaks_no_sign(text):
    for width in (30, 60, 61, 62, 63, 64, 100):
        short = shorten(text, width)
        assert text_width(short) <= width
        assert short.endswith("…")
        rest = text[len(short) - 1 :]
        assert text.startswith(short[:-1])
        assert rest[0] not in ("\N{COMBINING ACUTE ACCENT}", "\N{ZERO WIDTH JOINER}")
        assert short[:-1][-1:] != "\N{ZERO WIDTH JOINER}"


def test_what_fits_is_not_shortened():
    assert shorten("cat", 100) == "cat"
    assert shorten("cat", text_width("cat")) == "cat"


def test_it_is_not_loaded_with_the_package():
    import subprocess
    import sys

    code = "import sys, tinytensor.nn; print('tinytensor.nn.visualize.svg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
