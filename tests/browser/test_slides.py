"""Slides of a lesson in a real browser: arrow keys and buttons turn them, one is shown, and all without a script."""

from pathlib import Path

import pytest

from tinytensor.course import slides

pytest.importorskip("jupytext")
pytest.importorskip("latex2mathml")
LESSON = Path(__file__).parents[2] / "examples" / "lessons" / "05_scaling.py"


@pytest.fixture
def lesson(visit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    slides.write_slides(str(LESSON))
    return visit((tmp_path / "slides" / "05_scaling.html").read_text(encoding="utf-8"))


def shown(browser):
    return browser.execute_script(
        "return pages.flatMap((page, i) => getComputedStyle(page).display === 'none' ? [] : [i + 1]);"
    )


def test_keys_and_buttons_turn_the_slides(lesson):
    from selenium.webdriver.common.keys import Keys

    last = lesson.execute_script("return pages.length")
    body = lesson.find_element("tag name", "body")
    assert shown(lesson) == [1]
    for key, now in (
        (Keys.ARROW_LEFT, 1), (Keys.ARROW_RIGHT, 2), (Keys.PAGE_DOWN, 3), (Keys.ARROW_LEFT, 2), (Keys.END, last),
        (Keys.ARROW_RIGHT, last), (Keys.HOME, 1),
    ):  # fmt: skip
        body.send_keys(key)
        assert shown(lesson) == [now]
        assert lesson.find_element("id", "place").text == f"{now} / {last}"
    lesson.find_element("id", "on").click()
    assert shown(lesson) == [2]
    assert lesson.execute_script("return location.hash") == "#2"
    lesson.find_element("id", "back").click()
    assert shown(lesson) == [1]
    lesson.execute_script("location.hash = '#3'; return new Promise((done) => setTimeout(done, 50));")
    assert shown(lesson) == [3]


@pytest.mark.parametrize("width", [1280, 390])
def test_no_slide_is_wider_than_the_window(lesson, width, browser):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        for _ in range(lesson.execute_script("return pages.length")):
            assert lesson.execute_script("return document.documentElement.scrollWidth") <= width
            lesson.find_element("id", "on").click()
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
