"""The page to explore a graph, in a real browser."""

import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.graph.explore import page
from tinytensor.models import Transformer


@pytest.fixture(scope="module")
def layers():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 3)
    with tt.record() as graph:
        tt.sum(model(tt.ones((2, 3, 8)))).backward()
    return page(graph, {})


def titles(browser, selector=".vertex"):
    return [
        e.find_element("tag name", "text").get_attribute("textContent")
        for e in browser.find_elements("css selector", f"#scene {selector}")
    ]


def panel(browser):
    return browser.find_element("id", "panel").text


def card(browser, title):
    return next(e for e in browser.find_elements("css selector", "#scene .card") if title in e.text)


def test_modules_open_and_close(visit, layers):
    browser = visit(layers)
    browser.find_element("id", "close").click()
    assert titles(browser, ".card") == ["TransformerEncoder"]
    card(browser, "TransformerEncoder").click()
    assert titles(browser, ".card") == ["TransformerEncoderLayer"] * 3
    card(browser, "layers.1").click()
    assert "MultiheadAttention" in titles(browser, ".card")
    assert "layers.1 · TransformerEncoderLayer" in panel(browser)
    browser.find_element("id", "toggle").click()
    assert titles(browser, ".card") == ["TransformerEncoderLayer"] * 3


def test_open_all_shows_every_op(visit, layers):
    browser = visit(layers)
    browser.find_element("id", "open").click()
    assert titles(browser, ".card") == []
    assert titles(browser).count("multi_head") == 3
    overlaps = browser.execute_script(
        """const at = [...document.querySelectorAll(".vertex > rect")].map((r) => r.getBoundingClientRect());
        return at.flatMap((a, i) => at.slice(i + 1).filter((b) =>
          a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)).length"""
    )
    assert overlaps == 0


def test_search_goes_to_what_is_hidden(visit, layers):
    from selenium.webdriver.common.keys import Keys

    browser = visit(layers)
    browser.find_element("id", "close").click()
    search = browser.find_element("id", "search")
    search.send_keys("multi_head")
    assert browser.find_element("id", "hits").text == "3 found"
    search.send_keys(Keys.ENTER)
    assert browser.find_element("id", "hits").text == "1 of 3"
    assert "multi_head" in titles(browser)
    assert "TransformerEncoder.layers.0.self_attn" in panel(browser)
    assert len(browser.find_elements("css selector", ".vertex.chosen")) == 1


def test_the_keyboard_walks_opens_and_zooms(visit, layers):
    from selenium.webdriver.common.keys import Keys

    browser = visit(layers)
    browser.find_element("id", "close").click()
    graph = browser.find_element("id", "graph")
    graph.send_keys(Keys.ARROW_DOWN)
    first = browser.find_element("id", "say").get_attribute("textContent")
    graph.send_keys(Keys.ARROW_RIGHT)
    assert browser.find_element("id", "say").get_attribute("textContent") != first
    for _ in range(5):
        if "TransformerEncoder" not in panel(browser).splitlines()[0]:
            graph.send_keys(Keys.ARROW_DOWN)
    graph.send_keys(Keys.ENTER)
    assert len(titles(browser, ".card")) == 3
    before = browser.execute_script("return state.scale")
    graph.send_keys("+")
    assert browser.execute_script("return state.scale") > before
    graph.send_keys("/")
    assert browser.switch_to.active_element.get_attribute("id") == "search"


def test_backward_turns_the_arrows_and_shows_gradients_first(visit, layers):
    browser = visit(layers)
    browser.find_element("id", "open").click()
    heads = "return [...document.querySelectorAll('polygon.head.flows')].map((p) => p.getAttribute('points')).join()"
    forward = browser.execute_script(heads)
    browser.execute_script("document.querySelector('input[value=backward]').click()")
    assert browser.execute_script(heads) != forward
    browser.find_element("css selector", ".vertex.op").click()
    assert panel(browser).splitlines()[1] == "gradient"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 900, 390])
def test_pages_fit_their_window(visit, prefers, browser, layers, scheme, width):
    prefers(scheme)
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    visit(layers)
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.find_element("id", "graph").size["height"] >= 240
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_transformer_at_full_depth_opens_in_two_seconds_and_stays_fluid(visit):
    model = Transformer(100, d_model=16, num_heads=2, num_layers=6, dropout=0.0)
    with tt.record() as graph:
        model(tt.asarray([[5, 6, 2]]), tt.asarray([[1, 6]]))
    browser = visit(page(graph, {"fused": "formula"}))
    assert float(browser.execute_script("return document.documentElement.dataset.ready")) < 2000
    took = browser.execute_script(
        "const began = performance.now(); document.getElementById('open').click(); return performance.now() - began"
    )
    assert len(browser.find_elements("css selector", ".vertex")) > 700
    assert took < 4000  # on a busy machine; alone it is a quarter of it
    frames = browser.execute_async_script(
        """const done = arguments[0], times = []; let last = performance.now();
        const step = (now) => { times.push(now - last); last = now; state.x += 4; transform();
          if (times.length < 30) requestAnimationFrame(step); else done(times.slice(2).sort((a, b) => a - b)); };
        requestAnimationFrame(step);"""
    )
    assert frames[len(frames) // 2] < 50


def test_what_is_computed_first_stands_left(visit):
    import numpy as np

    model = Transformer(11, d_model=8, num_heads=2, num_layers=1)
    with tt.record() as graph:
        model(np.ones((1, 3), int), np.ones((1, 2), int))
    browser = visit(page(graph, {}))
    browser.find_element("id", "open").click()
    left = browser.execute_script(
        """const places = {};
        for (const text of document.querySelectorAll("#scene .vertex text:first-of-type, #scene .title"))
          places[text.textContent] ??= Number(text.getAttribute("x"));
        return places"""
    )
    assert left["source"] < left["target"]
    assert left["encoder · TransformerEncoder"] < left["decoder · TransformerDecoder"]


def test_from_afar_there_is_no_text_and_near_there_is(visit, layers):
    browser = visit(layers)
    display = "return getComputedStyle(document.querySelector('#scene text')).display"
    for keys, expected in (("-" * 12, "none"), ("+" * 12, "block")):
        browser.find_element("id", "graph").send_keys(keys)
        assert browser.execute_script(display) == expected
