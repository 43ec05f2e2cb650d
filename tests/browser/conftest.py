"""A real browser for pages of ours: headless Chromium, driven by selenium.

Without them these tests are skipped, and where the environment variable REQUIRE_BROWSER is set they fail instead.
"""

import base64
import json
import os
import re
import shutil

import pytest


def missing(reason):
    if os.environ.get("REQUIRE_BROWSER"):
        pytest.fail(f"REQUIRE_BROWSER is set, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A selenium driver of Chromium that logs its console and every request."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        missing("selenium is not installed: pip install selenium")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        missing("chromium or chromedriver is not installed (Debian: apt install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for switch in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        f"user-data-dir={tmp_path_factory.mktemp('chromium')}",
        "window-size=1280,900",
    ):
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chromium = webdriver.Chrome(options=options, service=Service(driver))
    yield chromium
    chromium.quit()


@pytest.fixture
def visit(browser, tmp_path):
    """`visit(html)` opens a page from a file. Afterwards nothing may stand in its console, nor any other request."""
    opened = []

    def visit(html):
        path = tmp_path / f"page{len(opened)}.html"
        path.write_text(html, encoding="utf-8")
        opened.append(path.as_uri())
        browser.get(path.as_uri())
        return browser

    browser.get("about:blank")
    browser.get_log("performance")
    browser.get_log("browser")
    yield visit
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert browser.get_log("browser") == []
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == opened


@pytest.fixture
def prefers(browser):
    """`prefers("dark")` sets what pages learn of the reader's colour scheme; light again afterwards."""

    def prefers(scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})

    yield prefers
    prefers("light")


SEEN = "const seen = (css) => [...document.querySelectorAll(css)].filter((e) => e.getClientRects().length).length;"
"""For scripts: how many elements are shown."""


def pdf_pages(browser):
    """The number of pages that the browser prints."""
    text = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    return len(re.findall(rb"/Type\s*/Page\b", text))


def on_paper(browser):
    """Let styles for paper hold, of a reader who prefers dark, until `prefers` or `phone` says otherwise."""
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})


@pytest.fixture
def phone(browser):
    """A window of 390 pixels."""
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
