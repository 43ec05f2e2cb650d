"""The attention explorer in a browser: by mouse, by keyboard, and with tokens that would break a careless page."""

import re
from html import unescape

import numpy as np
import pytest

from tinytensor.nn import visualize

from .conftest import SEEN, on_paper

SOURCE = ["The", "cat", "sat", "שלום"]
TARGET = ["</script><script>document.title='x'</script>", "<b>bold</b>", ""]


def softmax(*shape, seed=0):
    e = np.exp(np.random.default_rng(seed).normal(size=shape) * 2)
    return e / e.sum(axis=-1, keepdims=True)


CROSS, ENCODER = softmax(2, 3, 3, 4), softmax(1, 2, 4, 4, seed=1)


@pytest.fixture
def page(visit):
    kinds = {"encoder": ENCODER, "cross": CROSS}
    browser = visit(str(visualize.attention_explorer(kinds, SOURCE, TARGET, title="A <lesson>")))
    choose(browser, "view", "cross (target to source)")
    return browser


def find(browser, css):
    return browser.find_elements("css selector", css)


def choose(browser, select, text):
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element("id", select)).select_by_visible_text(text)


def readout(browser):
    return re.sub("[\u2068\u2069]", "", browser.find_element("id", "readout").text)


def opacities(browser):
    return [float(line.get_attribute("stroke-opacity")) for line in find(browser, "#strands line")]


def test_no_head_covers_another(page):
    ends = [tuple(line.get_attribute(n) for n in ("y1", "y2")) for line in find(page, "#strands line")]
    assert len(set(ends)) == len(ends) > 3


def hover(browser, element):
    from selenium.webdriver import ActionChains

    ActionChains(browser).move_to_element(element).perform()


def press(browser, *keys):
    from selenium.webdriver import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def drawn(weights):
    """What the lines' opacities must be: weights to four digits, without the faint ones."""
    rounded = np.rint(weights * 10_000) / 10_000
    return sorted(rounded[rounded >= 0.02].ravel().tolist())


def test_shows_all_lines_of_the_layer_and_the_tokens_as_they_are(page):
    assert page.title == "A <lesson>"
    assert [item.text for item in find(page, "#key li")] == SOURCE
    assert [item.text for item in find(page, "#query li")] == [*TARGET[:2], "∅"]
    assert sorted(opacities(page)) == drawn(CROSS[0])
    assert find(page, "main b") == []


def test_kind_layer_and_head_can_be_chosen(page):
    choose(page, "layer", "1")
    assert sorted(opacities(page)) == drawn(CROSS[1])
    choose(page, "head", "2")
    assert sorted(opacities(page)) == drawn(CROSS[1, 2])
    choose(page, "view", "encoder (source to source)")
    assert [item.text for item in find(page, "#query li")] == SOURCE
    assert [o.text for o in find(page, "#layer option")] == ["0"]
    assert sorted(opacities(page)) == drawn(ENCODER[0, 1])  # the last head that it has
    choose(page, "head", "all")
    assert sorted(opacities(page)) == drawn(ENCODER[0])


def test_hovering_shows_one_token(page):
    choose(page, "head", "1")
    hover(page, find(page, "#query li")[2])
    assert sorted(opacities(page)) == drawn(CROSS[0, 1, 2])
    best = int(CROSS[0, 1, 2].argmax())
    assert readout(page).startswith(f"∅ looks at: {SOURCE[best]} {CROSS[0, 1, 2, best]:.4f}")
    hover(page, find(page, "#key li")[1])
    assert sorted(opacities(page)) == drawn(CROSS[0, 1, :, 1])
    assert readout(page).startswith("cat is looked at by: ")
    hover(page, find(page, "h1")[0])
    assert sorted(opacities(page)) == drawn(CROSS[0, 1])


def test_a_click_pins_and_a_second_lets_go(page):
    first = find(page, "#query li")[0]
    first.click()
    hover(page, find(page, "h1")[0])
    assert sorted(opacities(page)) == drawn(CROSS[0][:, 0])
    assert first.get_attribute("aria-selected") == "true"
    assert readout(page).endswith("pinned)")
    first.click()
    hover(page, find(page, "h1")[0])
    assert first.get_attribute("aria-selected") == "false"
    assert sorted(opacities(page)) == drawn(CROSS[0])


def test_works_without_a_mouse(page):
    from selenium.webdriver.common.keys import Keys

    page.execute_script("document.querySelector('.tile:last-of-type').focus()")
    press(page, Keys.TAB)
    assert sorted(opacities(page)) == drawn(CROSS[0][:, 0])
    press(page, Keys.ARROW_DOWN)
    assert sorted(opacities(page)) == drawn(CROSS[0][:, 1])
    press(page, Keys.ARROW_RIGHT)
    assert sorted(opacities(page)) == drawn(CROSS[0, 0, 1])
    press(page, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert sorted(opacities(page)) == drawn(CROSS[0, 2, 1])
    press(page, Keys.END)
    assert sorted(opacities(page)) == drawn(CROSS[0, 2, 2])
    press(page, Keys.ENTER, Keys.TAB)  # on to the keys
    assert find(page, "#query li")[2].get_attribute("aria-selected") == "true"
    assert sorted(opacities(page)) == drawn(CROSS[0, 2, :, 0])
    press(page, Keys.ESCAPE)
    assert sorted(opacities(page)) == drawn(CROSS[0, 2])


def test_heat_map_by_mouse_and_keyboard(page):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    choose(page, "head", "0")
    find(page, "input[value=map]")[0].click()
    assert not page.find_element("id", "lines").is_displayed()
    press(page, Keys.TAB, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert readout(page) == f"<b>bold</b> → sat: {CROSS[0, 0, 1, 2]:.4f} (head 0)"
    press(page, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert readout(page) == f"∅ → שלום: {CROSS[0, 0, 2, 3]:.4f} (head 0)"
    canvas = page.find_element("id", "cells")
    size = canvas.size
    cell, left, top = page.execute_script("const { cell, left, top } = frame(); return [cell, left, top]")
    first = (left + cell * 0.5 - size["width"] / 2, top + cell * 0.5 - size["height"] / 2)
    ActionChains(page).move_to_element_with_offset(canvas, *map(round, first)).perform()
    assert readout(page).endswith(f"The: {CROSS[0, 0, 0, 0]:.4f} (head 0)")
    ActionChains(page).click().move_by_offset(cell, cell).perform()
    assert readout(page).endswith(f"The: {CROSS[0, 0, 0, 0]:.4f} (head 0, pinned)")
    press(page, Keys.ESCAPE)
    choose(page, "head", "all")
    assert readout(page).endswith(f"The: {np.rint(CROSS[0, :, 0, 0] * 1e4).mean() / 1e4:.4f} (mean of all heads)")


def test_masked_cells_are_told_from_zeros(visit):
    import tinytensor as tt
    from tinytensor import nn

    tt.random.manual_seed(0)
    layer = nn.MultiheadAttention(4, 1, batch_first=True)
    x = tt.random.normal((1, 3, 4))
    with nn.record_attention() as attention:
        layer(x, x, x, attn_mask=nn.functional.causal_mask(3))
    page = visit(str(visualize.attention_explorer(attention)))
    find(page, "input[value=map]")[0].click()
    from selenium.webdriver.common.keys import Keys

    press(page, Keys.TAB, Keys.ARROW_RIGHT)
    assert readout(page) == "0 → 1: masked (mean of all heads)"
    colour = page.execute_script(
        """const { cell, left, top } = frame();
        const context = document.getElementById("cells").getContext("2d");
        return [...context.getImageData(left + 2 * cell + 8, top + 8, 1, 1).data]"""
    )
    assert colour[:3] == [0xE6, 0xD8, 0xBD]


def test_dark_mode(page, prefers):
    def background():
        return page.execute_script("return getComputedStyle(document.body).backgroundColor")

    assert background() == "rgb(255, 255, 255)"
    prefers("dark")
    assert background() == "rgb(13, 17, 23)"


def test_nothing_is_wider_than_a_slide(visit):
    tokens = ["extraordinarily-long-token-" * 3] * 20
    page = visit(str(visualize.attention_explorer(softmax(6, 8, 20, 20), tokens)))
    assert page.execute_script("return document.documentElement.scrollWidth") <= 1280


def test_two_hundred_tokens(visit):
    page = visit(str(visualize.attention_explorer(softmax(1, 4, 200, 200))))
    assert len(find(page, "#query li")) == 200
    assert len(find(page, "#strands line")) == 4000
    hover(page, find(page, "#query li")[3])
    assert readout(page).startswith("3 looks at: ")
    assert int(find(page, "#query li")[0].size["height"]) >= 15


def test_in_the_frame_of_a_notebook(visit):
    explorer = visualize.attention_explorer(CROSS, SOURCE, TARGET)
    page = visit(f"<!DOCTYPE html><link rel=icon href='data:,'><title>notebook</title>{explorer._repr_html_()}")
    frame = find(page, "iframe")[0]
    assert unescape(frame.get_attribute("srcdoc")) == str(explorer)
    page.switch_to.frame(frame)
    assert sorted(opacities(page)) == drawn(CROSS[0])
    page.switch_to.default_content()
    assert page.title == "notebook"


def test_a_pinned_token_stays_where_another_is_pointed_at(page):
    choose(page, "head", "1")
    find(page, "#query li")[0].click()
    page.execute_script("document.activeElement.blur()")
    hover(page, find(page, "#query li")[2])
    assert sorted(opacities(page)) == drawn(CROSS[0, 1, 0])


def test_tiles_put_heads_in_and_out(page):
    from selenium.webdriver import ActionChains

    find(page, ".tile")[1].click()
    assert [tile.get_attribute("aria-pressed") for tile in find(page, ".tile")] == ["true", "false", "true"]
    assert sorted(opacities(page)) == drawn(CROSS[0, [0, 2]])
    ActionChains(page).double_click(find(page, ".tile")[2]).perform()
    assert sorted(opacities(page)) == drawn(CROSS[0, 2])
    find(page, ".tile")[2].click()  # the last one stays
    assert sorted(opacities(page)) == drawn(CROSS[0, 2])


def test_a_token_has_a_square_for_each_head(page):
    hover(page, find(page, "#query li")[1])
    squares = find(page, "#key li")[2].find_elements("css selector", ".squares i")
    found = [float(square.value_of_css_property("opacity")) for square in squares]
    assert found == pytest.approx(CROSS[0, :, 1, 2], abs=1e-4)


def test_the_overview_leads_to_a_head(page):
    find(page, "input[value=overview]")[0].click()
    thumbnails = find(page, ".thumbnail")
    assert len(thumbnails) == 6
    thumbnails[5].click()
    assert readout(page).endswith("(head 2)")
    assert page.find_element("id", "map").is_displayed()
    from selenium.webdriver.support.ui import Select

    assert Select(page.find_element("id", "layer")).first_selected_option.text == "1"


def test_one_query_in_numbers(visit):
    from selenium.webdriver.support.ui import Select

    import tinytensor as tt
    from tinytensor import nn

    tt.random.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = tt.random.normal((1, 3, 8))
    with nn.record_attention() as attention:
        layer(x, x, x, attn_mask=nn.functional.causal_mask(3))
    page = visit(str(visualize.attention_explorer(attention, ["a", "b", "c"])))
    assert page.find_element("id", "sentence").text.strip("\u2068\u2069") == "abc"
    find(page, "input[value=numbers]")[0].click()
    Select(find(page, "#numbers select")[0]).select_by_index(1)
    cells = [row.find_elements("css selector", "td") for row in find(page, "#numbers tr")[1:]]
    rows = [[cell.text.replace("\N{MINUS SIGN}", "-") for cell in row] for row in cells]
    assert "/ √dₖ, √4 = 2" in find(page, "#numbers tr")[0].text
    (call,) = attention.layers
    q, k = call.query[0, 0, 1], call.key[0, 0]
    assert float(rows[0][2]) == pytest.approx(q @ k[0], abs=0.02)
    assert float(rows[1][3]) == pytest.approx(q @ k[1] * call.scale, abs=0.02)
    assert float(rows[0][4]) == pytest.approx(call.weights[0, 0, 1, 0], abs=1e-4)
    assert rows[2][3:] == ["hidden → -∞", "masked"]
    assert len(find(page, "#numbers tr:nth-child(2) .strip i")) == 4


def test_it_fits_a_phone(visit, browser):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    visit(str(visualize.attention_explorer(softmax(2, 4, 12, 12), [f"token{i}" for i in range(12)])))
    for kind in ("lines", "map", "overview", "numbers"):
        find(browser, f"input[value={kind}]")[0].click()
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390, kind
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("heads", [12, 16])
def test_the_overview_fits_a_window_and_a_phone_fades_where_it_goes_on(visit, browser, heads, phone):
    page = str(visualize.attention_explorer(softmax(2, heads, 12, 12), [f"token{i}" for i in range(12)]))
    edges = """const place = byId("overview");
    const last = place.querySelector(".thumbnail:last-of-type").getBoundingClientRect();
    return [last.right <= place.getBoundingClientRect().right + 1, place.classList.contains("goes-on")]"""
    visit(page)
    find(browser, "input[value=overview]")[0].click()
    fits, fades = browser.execute_async_script(
        f"requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]((() => {{ {edges} }})())))"
    )
    assert fits != fades
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert browser.execute_script(edges)[0]


def test_the_tokens_above_take_one_line(visit, browser):
    tokens = [f"token{i}" for i in range(128)]
    page = visit(str(visualize.attention_explorer(softmax(1, 2, 128, 128), tokens)))
    sentence = page.find_element("id", "sentence")
    assert sentence.size["height"] <= 24
    assert sentence.get_attribute("title").strip("\u2068\u2069") == " ".join(tokens)


@pytest.mark.parametrize("picture", ["lines", "map", "overview", "numbers"])
def test_print_gives_the_figure_without_controls(visit, prefers, picture):
    prefers("dark")
    page = visit(str(visualize.attention_explorer(softmax(2, 4, 12, 12), [f"token{i}" for i in range(12)])))
    find(page, f"input[value={picture}]")[0].click()
    on_paper(page)
    shown = page.execute_script(
        SEEN
        + """
        return [seen(".controls, select, input, .help"), seen(`#${arguments[0]} :is(line, canvas, td)`) > 0,
          document.documentElement.scrollWidth <= innerWidth, getComputedStyle(document.body).backgroundColor,
          getComputedStyle(document.body).color]""",
        picture,
    )
    assert shown == [0, True, True, "rgb(255, 255, 255)", "rgb(0, 0, 0)"]
