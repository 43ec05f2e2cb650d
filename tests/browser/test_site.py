"""The documentation site, built and opened page by page in a browser: wide and narrow, light and dark.

Built with those lessons executed that take a second, the others as they stand. SITE=docs/build/html in the
environment opens a site that is built already.
"""

import importlib
import json
import os
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlparse

import pytest

from tinytensor.models.scripts.lesson import Shown

from .conftest import missing

ROOT = Path(__file__).parents[2]
SHORT = (
    "gallery,04_tokens_to_matrices,11_before_the_transformer,15_the_transformer,17_gradient_of_attention,19_a_framework"
)
WIDTHS = (1280, 768, 390)
PARTS = 2  # for two processes
LONG = "source/tinytensor/engine.py.html"

LOOK = """
const wide = document.documentElement.clientWidth, out = [];
if (document.documentElement.scrollWidth > wide) out.push(`the page is ${document.documentElement.scrollWidth} wide`);
const scrolls = element => {
    for (; element && element !== document.body; element = element.parentElement)
        if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(element).overflowX)) return true;
    return false;
};
const article = document.querySelector('article');
for (const element of article.querySelectorAll('p, li, h1, h2, h3, td, dt, dd, img, iframe, pre'))
    if (element.getBoundingClientRect().right > wide + 1 && !scrolls(element))
        out.push(`${element.tagName} sticks out: ${element.textContent.slice(0, 40)}`);
for (const image of document.querySelectorAll('img'))
    if (!image.alt.trim() || image.alt.endsWith('.svg')) out.push(`${image.src} has no alt text`);
for (const image of document.querySelectorAll('img'))
    if (image.complete && image.naturalWidth === 0) out.push(`${image.src} shows nothing`);
const parts = getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).map(Number);
return [out, (parts[0] + parts[1] + parts[2]) / 3];
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    if "SITE" in os.environ:
        return (ROOT / os.environ["SITE"]).resolve()
    try:
        import furo  # noqa: F401
        import latex2mathml  # noqa: F401
        import myst_nb  # noqa: F401
        import sphinx_copybutton  # noqa: F401
    except ImportError:
        missing("the tools of the site are not installed: pip install -e '.[docs]'")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "docs" / "site" / "build.py"), "--out", str(out), "--run", SHORT]
    result = subprocess.run(command, capture_output=True, text=True, cwd=out)
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr
    return out / "html"


def pages_of(site):
    found = sorted(site.rglob("*.html"))
    assert len(found) > 100
    return found


class Pictures(HTMLParser):
    """The pictures of a page, in its order: the texts of its images, the titles of its frames."""

    def __init__(self, text):
        super().__init__()
        self.told = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag in ("img", "iframe"):
            self.told.append(dict(attributes)["alt" if tag == "img" else "title"])


def test_a_lessons_page_shows_what_its_script_draws(site):
    """Script and page: the same pictures in the same order, wherever in a cell they are drawn."""
    ran = {path.stem.rpartition("-")[0] for path in (site.parent / "results").glob("[0-9]*.json")}
    assert len(ran) >= len(SHORT.split(",")) - 1
    for name in ran:
        page = (site / "lessons" / f"{name}.html").read_text(encoding="utf-8")
        drawn = pictures_of(name, site.parent / "results" / "work")
        assert Pictures(page).told == [title_of(picture) for picture in drawn], name


@pytest.mark.parametrize("name", SHORT.split(",")[1:])
def test_a_lessons_notebook_shows_what_its_script_draws(site, name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))
    lesson = ROOT / "examples" / "lessons" / f"{name}.py"
    notebook = importlib.import_module("notebooks").executed(lesson, tmp_path / "work")
    shown = [o["data"] for c in notebook.cells for o in c.get("outputs", []) if o["output_type"] == "display_data"]
    for data in shown:
        data.pop("text/plain")
    in_notebook = [{kind: "".join(text) for kind, text in data.items()} for data in shown]
    assert in_notebook == [Shown(picture)._repr_mimebundle_() for picture in pictures_of(name, tmp_path / "work")]


def pictures_of(name, work):
    script = (ROOT / "examples" / "lessons" / f"{name}.py").read_text(encoding="utf-8")
    names = re.findall(r'lesson\.show\(\s*"([^"]+)"', script)
    return [work / "runs" / "lessons" / name / (n if "." in n else f"{n}.svg") for n in names]


def title_of(picture):
    if picture.suffix == ".html":
        return picture.stem
    return unescape(re.search(r"<title>(.*?)</title>", picture.read_text(encoding="utf-8"), re.S)[1]).strip()


def test_a_lessons_page_leads_to_the_next_and_to_its_notebook(site):
    pages = sorted((site / "lessons").glob("[0-9]*.html"))
    texts = [page.read_text(encoding="utf-8") for page in pages]
    for before, after, text in zip(pages, pages[1:], texts):
        assert f'class="next-page" href="{after.name}"' in text
        assert f'class="prev-page" href="{before.name}"' in texts[pages.index(after)]
    for page, text in zip(pages, texts):
        notebook = re.search(r'<a class="reference download[^"]*"[^>]* href="([^"]+)"', text)[1]
        assert Path(notebook).name == f"{page.stem}.ipynb"
        assert json.loads((page.parent / notebook).read_text(encoding="utf-8"))["cells"]


def test_code_is_copied_by_a_button_and_formulas_are_set(site, browser):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser.get((site / "lessons" / "17_gradient_of_attention.html").as_uri())
    cells = browser.find_elements("css selector", ".cell_input pre")
    buttons = browser.find_elements("css selector", ".cell_input .copybtn")
    assert len(buttons) == len(cells) > 5
    assert float(buttons[-1].value_of_css_property("opacity")) >= 0.5  # on a phone no mouse is moved over the code
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", cells[-1])
    ActionChains(browser).move_to_element(buttons[-1]).click().perform()
    browser.execute_script(
        "const area = document.body.appendChild(document.createElement('textarea')); area.id = 'into'; area.focus()"
    )
    browser.find_element("id", "into").send_keys(Keys.CONTROL, "v")
    copied = browser.find_element("id", "into").get_property("value")
    assert copied.strip() == cells[-1].text.strip()
    assert "lesson.check(" in copied
    formulas = browser.find_elements("css selector", "math[display=block]")
    assert formulas
    for formula in formulas:
        assert formula.find_elements("css selector", "mfrac")
        assert formula.size["height"] > 30  # a fraction has two lines
        assert "\\" not in formula.text


class Anchors(HTMLParser):
    """What a page links to, and what in it can be linked to."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" and value:
                self.ids.add(value)
            if (tag, name) in {("a", "href"), ("img", "src"), ("link", "href"), ("script", "src"), ("iframe", "src")}:
                self.links.add(value)


def test_every_link_leads_somewhere(site):
    pages = {page.as_uri(): Anchors(page.read_text(encoding="utf-8")) for page in pages_of(site)}
    broken = []
    for address, page in pages.items():
        for link in page.links:
            target, anchor = urldefrag(urljoin(address, link))
            if urlparse(target).scheme != "file":
                continue
            there = Path(unquote(urlparse(target).path)).exists()
            if not there or (anchor and target in pages and unquote(anchor) not in pages[target].ids):
                broken.append(f"{address}: {link}")
    assert broken == []


@pytest.mark.parametrize("part", range(PARTS))
def test_every_page_reads_well(site, browser, part, request):
    """No error in a console, no request to another place, nothing wider than the page, a text for every picture.

    Of the pages of source code every tenth, without `--all`.
    """
    browser.get("about:blank")
    browser.get_log("performance")
    browser.get_log("browser")
    wrong = []
    for i, page in enumerate(pages_of(site)[part::PARTS]):
        name = page.relative_to(site).as_posix()
        alike = name.startswith("source/") and name != LONG  # a page of source lines is as narrow or wide as another
        if alike and i % 10 and not request.config.getoption("--all"):
            continue
        browser.get(page.as_uri())
        for width in WIDTHS[-1:] if alike else WIDTHS:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            for scheme in ("light", "dark"):
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
                found, brightness = browser.execute_script(LOOK)
                wrong += [f"{name} at {width}, {scheme}: {what}" for what in found]
                if (brightness > 128) != (scheme == "light"):
                    wrong.append(f"{name}: the background is {brightness} of 255 in {scheme}")
        wrong += [f"{name}: {entry['message']}" for entry in browser.get_log("browser")]
        for entry in browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if urlparse(url).scheme not in ("file", "data", "blob", "about"):
                    wrong.append(f"{name} asks for {url}")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wrong == []
