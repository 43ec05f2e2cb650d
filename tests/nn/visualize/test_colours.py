"""Colours of all pictures and pages: seen by every eye, on either background, and in print."""

import itertools
import re
from importlib import resources

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.graph import dot, heat, marks
from tinytensor.graph.svg import _dark_mode
from tinytensor.nn.visualize.masks import PADDING, PADDING_STROKE
from tinytensor.nn.visualize.ramp import HIDDEN, SIGNED, STROKE, TO_LAB, TO_LMS, WEIGHTS, ink_on
from tinytensor.nn.visualize.svg import INK, MUTED, PANEL, PAPER, SERIES

TEXT, LINE = 4.5, 3.0
"""The least contrast of text and of graphics: WCAG 2.2, level AA, 1.4.3 and 1.4.11."""

DARK_TEXT, DARK_PAPER, DARK_PANEL = "#e6edf3", "#0d1117", "#161b22"

# What the colour-blind see, in linear RGB: Machado, Oliveira, Fernandes 2009, table 1, severity 1; and print in grey.
EYES = {
    "all colours": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
GREY = [[0.2126, 0.7152, 0.0722]] * 3


def linear(colour):
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    darker, lighter = sorted(linear(colour) @ GREY[0] + 0.05 for colour in (one, other))
    return lighter / darker


def seen(colour, eyes):
    """A colour in Oklab, as these eyes see it."""
    return TO_LAB @ np.cbrt(TO_LMS @ np.clip(np.array(eyes) @ linear(colour), 0, 1))


def check(pairs, least):
    poor = {pair: round(contrast(*pair), 2) for pair in pairs if contrast(*pair) < least}
    assert not poor


def test_the_contrast_of_black_and_white():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_text_in_graphs_can_be_read():
    check([(dot.INK, fill) for *_, fill, _, _, _ in dot.STYLES.values()], TEXT)
    check([(DARK_TEXT, fill) for *_, fill, _ in dot.STYLES.values()], TEXT)
    check([(dot.INK, mark.fill) for mark in marks.MARKS.values()], TEXT)
    check([(DARK_TEXT, mark.dark_fill) for mark in marks.MARKS.values()], TEXT)
    check([(dot.GREY, paper) for paper in ("#ffffff", dot.PALE)], TEXT)
    check([(MUTED.dark, paper) for paper in (DARK_PAPER, DARK_PANEL)], TEXT)
    rules = _dark_mode(True)
    assert f"text {{ fill: {DARK_TEXT} }}" in rules
    assert f".edge text {{ fill: {MUTED.dark} }}" in rules
    failed = re.search(r"failed > path \{ fill: (#\w+)", rules)
    check([(DARK_TEXT, failed[1])], TEXT)


def test_text_on_heat_can_be_read():
    rules = _dark_mode(False)
    for place, colour in enumerate(heat.RAMP):
        check([(dot.INK if place < dot.DARK else "#ffffff", colour)], TEXT)
        fill = re.search(rf'heat{place}"\] > ellipse {{ fill: (#\w+)', rules)
        ink = re.search(rf'heat{place}"\] text {{ fill: (#\w+)', rules)
        check([(ink[1], fill[1])], TEXT)


def test_lines_in_graphs_are_seen():
    styles = list(dot.STYLES.values())
    check([(line, paper) for *_, line, _, _ in styles for paper in ("#ffffff", dot.PALE)], LINE)
    check([(line, paper) for *_, line in styles for paper in (DARK_PAPER, DARK_PANEL)], LINE)
    check([(mark.line, paper) for mark in marks.MARKS.values() for paper in ("#ffffff", dot.PALE)], LINE)
    check([(mark.dark_line, paper) for mark in marks.MARKS.values() for paper in (DARK_PAPER, DARK_PANEL)], LINE)
    check([(line, "#ffffff") for line in (dot.GREY, dot.RED, dot.EDGES["gradient"]["color"])], LINE)
    check([(line, DARK_PAPER) for line in re.findall(r"\.edge[^{]*\{ (?:stroke|fill): (#\w+)", _dark_mode(True))], LINE)


def test_text_and_lines_of_pictures_of_attention_are_seen():
    for side in ("light", "dark"):
        papers = [getattr(paper, side) for paper in (PAPER, PANEL)]
        check([(getattr(ink, side), paper) for ink in (INK, MUTED) for paper in papers], TEXT)
        check([(getattr(line, side), papers[0]) for line in SERIES], LINE)
        hatches = ((STROKE, HIDDEN), (STROKE, PAPER), (PADDING_STROKE, PADDING), (PADDING_STROKE, PAPER))
        check([(getattr(line, side), getattr(fill, side)) for line, fill in hatches], LINE)
        steps = [*WEIGHTS.colours, *SIGNED.colours]
        check([(getattr(ink_on(colour), side), getattr(colour, side)) for colour in steps], TEXT)


def fills(picture, tag):
    """The colours of a picture's elements with this tag: for light backgrounds, and for dark ones."""
    found = [child.attributes["fill"] for child in picture.children if child.tag == tag]
    return [(fill.light, fill.dark) for fill in found]


@pytest.fixture
def memory():
    x = tt.ones((4, 4)).requires_grad_()
    with tt.record() as graph:
        tt.square(tt.exp(x)).sum()
    return graph.memory().picture()


def test_areas_and_lines_of_charts_are_seen(memory):
    areas = fills(memory, "path")
    assert areas
    check([(light, PAPER.light) for light, _ in areas], LINE)
    check([(dark, PAPER.dark) for _, dark in areas], LINE)


SHARED = ("tinytensor.pages", "page.css")
PAGES = [
    ("tinytensor.graph", "explore.css"),
    ("tinytensor.graph", "film.css"),
    ("tinytensor.nn.visualize", "explorer.css"),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page[1])
def test_text_and_lines_of_pages_are_seen(page):
    texts = [(resources.files(package) / name).read_text(encoding="utf-8") for package, name in (SHARED, page)]
    blocks = [re.findall(r":root \{(.*?)\}", text.partition("@media print")[0], re.DOTALL) for text in texts]
    assert [len(found) for found in blocks] in ([2, 2], [2, 0])  # for light backgrounds, and for dark ones
    for found in zip(*filter(None, blocks), strict=True):
        colours = dict(re.findall(r"--([\w-]+): (#\w{6})", " ".join(found)))
        papers = [colours[name] for name in ("paper", "panel", "box", "inner") if name in colours]
        words = [colours[name] for name in ("ink", "muted", "mark", "gradient") if name in colours]
        check([(word, paper) for word in words for paper in papers[:2]], TEXT)
        check(
            [(colours["ink"], fill) for name, fill in colours.items() if name.endswith(("-fill", "now", "hit"))], TEXT
        )
        kinds = [name for name in colours if f"{name}-fill" in colours or name == "passed"]
        check([(colours[name], paper) for name in kinds for paper in papers], LINE)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("colours", [[c.light for c in SERIES], [c.dark for c in SERIES]], ids=["light", "dark"])
def test_the_colour_blind_tell_series_apart(colours, eyes):
    places = [seen(colour, EYES[eyes]) for colour in colours]
    assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(places, 2)) > 0.04


def test_charts_of_graphs_have_the_colours_of_other_charts(memory):
    assert fills(memory, "path") == [(c.light, c.dark) for c in (SERIES[0], SERIES[7])]  # gradients have the eighth


@pytest.mark.parametrize("eyes", [*EYES, "grey"])
def test_more_is_darker_to_every_eye_and_in_print(eyes):
    """On light backgrounds; on dark ones it is brighter."""
    matrix = GREY if eyes == "grey" else EYES[eyes]

    def lightness(colours):
        return np.array([seen(colour, matrix)[0] for colour in colours])

    assert (np.diff(lightness(heat.RAMP)) < 0).all()
    assert (np.diff(lightness([c.light for c in WEIGHTS.colours])) < 0).all()
    assert (np.diff(lightness([c.dark for c in WEIGHTS.colours])) > 0).all()
    middle = len(SIGNED.colours) // 2
    for colours, sign in (([c.light for c in SIGNED.colours], 1), ([c.dark for c in SIGNED.colours], -1)):
        steps = sign * np.diff(lightness(colours))
        assert (steps[:middle] > 0).all()
        assert (steps[middle:] < 0).all()
