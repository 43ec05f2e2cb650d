"""The page of a training run, in a real browser."""

import numpy as np
import pytest

from tinytensor.models.training.page import write_page
from tinytensor.models.training.run_folder import RunFolder

from .conftest import SEEN, on_paper


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run", resume=False)
    rng = np.random.default_rng(0)
    folder.log(event="start", arguments={"task": "<b>", "seed": 0})
    for step in range(0, 301, 100):
        weights = rng.dirichlet(np.ones(4) * 10 ** (-step / 100), size=(2, 3, 2)).round(3).tolist()
        folder.log(event="attention", step=step, source=["a", "<i>", "שלום", "d"], said=["x", "y"], layers=weights)
        folder.log(event="step", step=step + 10, loss=3 - step / 150, token_accuracy=step / 400, sequence_accuracy=0.1)
    for step in (0, 200):
        folder.log(event="samples", step=step, lines=[f"abc -> {step} <b>"])
    return folder.path


def texts(browser, css):
    return [element.text for element in browser.find_elements("css selector", css)]


def test_the_slider_leads_samples_and_attention(visit, folder):
    browser = visit(write_page(folder, "ended").read_text())
    assert texts(browser, "#at") == ["300"]
    assert texts(browser, "#samples li") == ["abc -> 200 <b>"]
    assert texts(browser, "#strip button") == ["step 0", "step 100", "step 200", "step 300"]
    assert texts(browser, "#map tbody th") == ["x", "y"]
    last = texts(browser, "#map td")
    browser.execute_script("const s = byId('step'); s.value = 1; s.dispatchEvent(new Event('input'))")
    assert texts(browser, "#at") == ["100"]
    assert texts(browser, "#samples li") == ["abc -> 0 <b>"]
    assert texts(browser, "#map td") != last
    browser.find_elements("css selector", "#strip button")[3].click()
    assert texts(browser, "#map td") == last
    assert texts(browser, "#strip [aria-pressed=true]") == ["step 300"]


def test_heads_are_chosen_and_their_mean_is_the_mean(visit, folder):
    from selenium.webdriver.support.ui import Select

    browser = visit(write_page(folder, "ended").read_text())
    head = Select(browser.find_element("id", "head"))
    maps = {}
    for name in ("0", "1", "2", "mean of all"):
        head.select_by_visible_text(name)
        cells = browser.find_elements("css selector", "#map tbody td")
        maps[name] = np.array([float(c.get_attribute("title").rsplit(": ", 1)[1]) for c in cells])
    np.testing.assert_allclose(maps["mean of all"], (maps["0"] + maps["1"] + maps["2"]) / 3, atol=0.0011)
    assert np.abs(maps["0"] - maps["1"]).max() > 0.01


def test_play_goes_through_the_steps_and_stops(visit, folder):
    from selenium.webdriver.support.ui import WebDriverWait

    browser = visit(write_page(folder, "ended").read_text())
    browser.find_element("id", "play").click()
    assert texts(browser, "#play") == ["stop"]
    assert texts(browser, "#at") == ["0"]
    WebDriverWait(browser, 20).until(lambda b: texts(b, "#play") == ["play"])
    assert texts(browser, "#at") == ["300"]


def test_a_live_page_loads_again_and_remembers_what_was_chosen(browser, folder):
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.support.ui import WebDriverWait

    stale = [StaleElementReferenceException]  # the page is another by the time that the text is asked for
    wait = WebDriverWait(browser, 20, ignored_exceptions=stale)
    path = write_page(folder, "training: step 300 of 900", live=True)
    browser.get(path.as_uri())
    assert browser.find_element("id", "again").is_displayed()
    browser.execute_script("const s = byId('step'); s.value = 1; s.dispatchEvent(new Event('input'))")
    write_page(folder, "training: step 400 of 900", live=True)
    wait.until(lambda b: "400" in b.find_element("id", "status").text)
    assert texts(browser, "#at") == ["100"]
    write_page(folder, "step 900 of 900: ended")
    wait.until(lambda b: "ended" in b.find_element("id", "status").text)
    assert not browser.find_element("id", "again").is_displayed()
    browser.get_log("browser")


def test_it_fits_a_phone(visit, folder, browser):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        visit(write_page(folder, "ended").read_text())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_figure_fades_where_it_goes_on(visit, folder, browser, phone):
    from selenium.webdriver.support.ui import WebDriverWait

    visit(write_page(folder, "ended").read_text())
    fades = "return [...document.querySelectorAll('figure')].map((e) => e.classList.contains('goes-on'))"
    WebDriverWait(browser, 10).until(lambda b: all(b.execute_script(fades)))
    browser.execute_script("document.querySelector('figure').scrollLeft = 1000")
    WebDriverWait(browser, 10).until(lambda b: b.execute_script(fades)[:2] == [False, True])


def test_print_gives_figures_as_wide_as_the_page(visit, folder, prefers):
    prefers("dark")
    browser = visit(write_page(folder, "ended").read_text())
    on_paper(browser)
    shown = browser.execute_script(
        SEEN
        + """
        const paper = document.querySelector("figure svg rect");
        return [seen(".controls, select, input"), seen("figure svg") > 1,
          document.documentElement.scrollWidth <= innerWidth,
          getComputedStyle(document.body).backgroundColor, getComputedStyle(paper).fill]"""
    )
    assert shown == [0, True, True, "rgb(255, 255, 255)", "rgb(255, 255, 255)"]
