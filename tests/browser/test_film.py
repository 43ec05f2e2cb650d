"""The film of a backward pass in a browser: played, stepped through, by mouse and by keyboard."""

import time
from html import escape

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.graph.film import page as film_page

from .conftest import SEEN, on_paper


def network():
    """Five ops, of which `square` and `exp` read the same `h`."""
    rng = np.random.default_rng(0)
    x = tt.Tensor(rng.normal(size=(4, 3)))
    weight = tt.Tensor(rng.normal(size=(3, 2)), requires_grad=True)
    with tt.record() as graph:
        h = x @ weight
        loss = tt.sum(tt.square(h) + tt.exp(h))
    loss.backward()
    graph.title = "A <lesson>"
    graph._names = [("<b>weight</b>", weight)]
    return graph


TITLES = ["loss = sum", "add", "exp", "square", "h = matmul", "The gradients"]


@pytest.fixture
def page(visit):
    return visit(film_page(network(), {}))


def heads(browser):
    """The middles of all heads that are seen on edges of the current step, and the middle of the op itself."""
    return browser.execute_script(
        """
        const middle = (item) => {
          const box = item.getBoundingClientRect();
          return [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
        };
        const seen = (item) => getComputedStyle(item).display !== "none";
        const edges = [...document.querySelectorAll("#graph .edge:is(.in, .out)")];
        return [
          edges.map((edge) => [edge.classList.contains("out"), [...edge.querySelectorAll("polygon")].filter(seen)])
            .map(([out, found]) => [out, found.length, middle(found[0])]),
          middle(document.querySelector("#graph .node.now")),
          [...document.querySelectorAll("#graph .node.reached")].map(middle),
        ];
        """
    )


def distance(a, b):
    return ((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) ** 0.5


def test_arrows_point_where_the_gradient_goes(page):
    """At the op that it arrives at, then at the inputs it leaves for; forward, the other way."""
    for _ in range(1, len(TITLES) - 1):
        page.find_element("css selector", "#next").click()
        edges, now, reached = heads(page)
        assert edges
        for leaves, count, head in edges:
            assert count == 1
            nearest = min(distance(head, place) for place in reached)
            assert (nearest < distance(head, now)) == leaves
    page.find_element("css selector", "input[value=forward]").click()
    page.find_element("css selector", "#next").click()
    edges, now, _ = heads(page)
    assert edges
    assert all(count == 1 for _, count, _ in edges)


def find(browser, css):
    return browser.find_elements("css selector", css)


def press(browser, *keys):
    from selenium.webdriver import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def title(browser):
    return browser.execute_script("return document.querySelector('#panel h2').textContent")


def said(browser):
    return browser.execute_script("return document.getElementById('say').textContent")


def location(browser):
    return browser.execute_script("return location.hash")


def marked(browser, name):
    """What the marked vertices are, by their last word."""
    return sorted(item.text.split("\n")[0].split()[-1] for item in find(browser, f"#graph g.node.{name}"))


def wait_for(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def test_in_the_frame_of_a_notebook(visit):
    frame = f'<iframe srcdoc="{escape(film_page(network(), {}))}"></iframe>'
    page = visit(f"<!DOCTYPE html><link rel=icon href='data:,'><title>notebook</title>{frame}")
    page.switch_to.frame(find(page, "iframe")[0])
    assert title(page) == TITLES[0]
    press(page, "\ue014")  # the right arrow key
    page.switch_to.default_content()


def test_begins_with_the_gradient_of_the_result(page):
    assert page.title == "A <lesson>"
    assert title(page) == "loss = sum"
    assert said(page) == "Step 1 of 6: loss = sum; a gradient scalar arrives; gradients leave for result of add."
    assert marked(page, "now") == ["sum"]
    assert len(find(page, "#graph g.edge.in")) == len(find(page, "#graph g.edge.out")) == 1
    assert find(page, "#panel pre.gradient")[0].text == "1"


def test_steps_with_the_buttons(page):
    seen = [title(page)]
    for _ in TITLES[1:]:
        find(page, "#next")[0].click()
        seen.append(title(page))
    assert seen == TITLES
    find(page, "#next")[0].click()
    assert title(page) == TITLES[-1]
    find(page, "#back")[0].click()
    assert title(page) == "h = matmul"
    find(page, "#first")[0].click()
    assert title(page) == TITLES[0]
    find(page, "#last")[0].click()
    assert title(page) == TITLES[-1]


def test_steps_with_the_keyboard_alone(page):
    from selenium.webdriver.common.keys import Keys

    press(page, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert title(page) == TITLES[2]
    press(page, Keys.ARROW_LEFT)
    assert title(page) == TITLES[1]
    press(page, Keys.END)
    assert title(page) == TITLES[5]
    press(page, Keys.HOME)
    assert title(page) == TITLES[0]
    focused = "return document.activeElement.id || document.activeElement.value"
    order = []
    for _ in range(8):
        press(page, Keys.TAB)
        order.append(page.execute_script(focused))
        ring = page.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
        assert ring in ("solid", "auto")
    assert order == ["backward", "first", "back", "play", "next", "last", "slider", "speed"]
    page.execute_script("document.getElementById('next').focus()")
    press(page, Keys.SPACE)  # the button's own, not a second command
    assert title(page) == TITLES[1]
    page.execute_script("document.getElementById('slider').focus()")
    press(page, Keys.ARROW_RIGHT)
    assert title(page) == TITLES[2]


def test_plays_and_pauses(page):
    page.execute_script("document.getElementById('speed').value = '5'")
    find(page, "#play")[0].click()
    assert find(page, "#play")[0].get_attribute("aria-label") == "Pause"
    wait_for(lambda: title(page) == TITLES[2])
    press(page, " ")
    assert find(page, "#play")[0].get_attribute("aria-label") == "Play"
    here = title(page)
    time.sleep(0.8)
    assert title(page) == here
    press(page, " ")
    wait_for(lambda: title(page) == TITLES[5], 8)
    wait_for(lambda: find(page, "#play")[0].get_attribute("aria-label") == "Play")
    find(page, "#play")[0].click()  # from the end it begins anew
    assert title(page) == TITLES[0]
    find(page, "#next")[0].click()  # a step by hand ends the playing
    assert find(page, "#play")[0].get_attribute("aria-label") == "Play"


def test_the_slider_goes_to_a_step(page):
    page.execute_script(
        "const slider = document.getElementById('slider'); slider.value = 4;"
        "slider.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    assert title(page) == TITLES[3]
    assert page.execute_script("return document.getElementById('slider').max") == "6"


def test_the_address_names_the_step(page):
    assert location(page) == "#backward=1"
    find(page, "#next")[0].click()
    assert location(page) == "#backward=2"
    page.execute_script("location.hash = '#backward=5'")
    wait_for(lambda: title(page) == "h = matmul")
    page.execute_script("location.hash = '#forward=2'")
    wait_for(lambda: title(page) == "square")
    page.execute_script("location.hash = '#backward=99'")
    wait_for(lambda: title(page) == TITLES[-1])
    page.execute_script("location.hash = '#<img src=x onerror=alert(1)>'")
    time.sleep(0.1)
    assert title(page) == TITLES[-1]


def test_shows_where_paths_join(page):
    page.execute_script("location.hash = '#backward=5'")
    wait_for(lambda: title(page) == "h = matmul")
    givers = [link.text for link in find(page, "#panel .terms a")]
    assert givers == ["from step 3, exp", "from step 4, square"]
    assert [sign.text for sign in find(page, "#panel .terms .sign")] == ["", "+", "="]
    first, second, total = [
        np.array([[float(x) for x in line.split()] for line in figure.text.splitlines()])
        for figure in find(page, "#panel .terms pre")
    ]
    np.testing.assert_allclose(first + second, total, atol=2e-3 * np.abs(total).max())
    assert said(page).startswith("Step 5 of 6: h = matmul; a gradient 4\N{MULTIPLICATION SIGN}2 arrives, the sum of 2;")
    assert len(find(page, "#graph g.edge.in")) == 2
    find(page, "#panel .terms a")[0].click()
    wait_for(lambda: title(page) == "exp")
    assert find(page, "#panel .formula")[0].text == "∂L/∂x = g ⊙ out"


def test_names_are_text(page):
    page.execute_script("location.hash = '#backward=6'")
    wait_for(lambda: title(page) == TITLES[-1])
    assert "<b>weight</b>" in find(page, "#panel h3")[0].text
    assert find(page, "#panel b") == []
    assert len(marked(page, "reached")) == 1
    assert marked(page, "now") == []


def test_the_forward_pass_can_be_shown(page):
    find(page, "input[value=forward]")[0].click()
    assert title(page) == "h = matmul"
    assert said(page) == "Op 1 of 5: h = matmul."
    figures = [caption.text for caption in find(page, "#panel figcaption")]
    times = "\N{MULTIPLICATION SIGN}"
    assert figures == [f"x1: x · 4{times}3", f"x2: <b>weight</b> · 3{times}2", f"h = matmul · 4{times}2"]
    find(page, "#last")[0].click()
    page.execute_script("document.getElementById('speed').value = '5'")
    find(page, "#play")[0].click()  # on to the backward pass
    assert title(page) == TITLES[0]
    assert find(page, "input[value=backward]")[0].is_selected()


def test_a_click_on_an_op_goes_to_its_step(page):
    (vertex,) = [item for item in find(page, "#graph g.node.op") if "exp" in item.text]
    vertex.click()
    assert title(page) == "exp"


def test_dark_mode(page, prefers):
    def colours():
        return page.execute_script(
            "const of = (item, name) => getComputedStyle(item)[name];"
            "return [of(document.body, 'backgroundColor'), of(document.querySelector('#graph .now path'), 'stroke'),"
            "of(document.querySelector('#graph polygon'), 'fill')]"
        )

    assert colours() == ["rgb(255, 255, 255)", "rgb(179, 71, 0)", "rgb(255, 255, 255)"]
    prefers("dark")
    assert colours() == ["rgb(13, 17, 23)", "rgb(255, 157, 92)", "rgb(13, 17, 23)"]


def test_motion_is_left_out_for_those_who_ask(page):
    def motion():
        return page.execute_script(
            "return [getComputedStyle(document.querySelector('#graph .out path')).animationName,"
            "getComputedStyle(document.getElementById('graph')).scrollBehavior]"
        )

    assert motion() == ["flow", "smooth"]
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    assert motion() == ["none", "auto"]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_current_op_is_in_sight_in_a_long_graph(visit):
    x = tt.Tensor(np.linspace(-1, 1, 4), requires_grad=True)
    with tt.record() as graph:
        h = x
        for _ in range(40):
            h = tt.tanh(h)
        loss = tt.sum(h)
    loss.backward()
    browser = visit(film_page(graph, {}))

    def in_sight():
        return browser.execute_script(
            "const [a, b] = [document.getElementById('graph'), document.querySelector('#graph .now')]"
            ".map((item) => item.getBoundingClientRect());"
            "return b.top >= a.top && b.bottom <= a.bottom && b.left >= a.left && b.right <= a.right"
        )

    for step in (1, 20, 41):
        browser.execute_script(f"location.hash = '#backward={step}'")
        wait_for(lambda step=step: said(browser).startswith(f"Step {step} of 42"))
        wait_for(in_sight)  # scrolling takes its time


def test_two_thousand_ops_open_and_step(visit):
    x = tt.Tensor(np.linspace(-1, 1, 4), requires_grad=True)
    with tt.record() as graph:
        h = x
        for _ in range(1990):
            h = tt.tanh(h)
        loss = tt.sum(h)
    loss.backward()
    browser = visit(film_page(graph, {"fold": False}))
    assert title(browser) == "loss = sum"
    find(browser, "#last")[0].click()
    assert title(browser) == "The gradients"
    assert len(find(browser, "#graph g.node.passed")) == 1992


def test_nothing_is_wider_than_a_slide(page):
    assert page.execute_script("return document.documentElement.scrollWidth") <= 1280
    assert page.execute_script("return document.documentElement.scrollHeight") <= 900


def test_print_gives_the_whole_graph_and_the_step(visit, prefers):
    prefers("dark")
    browser = visit(film_page(network(), {}))
    on_paper(browser)
    shown = browser.execute_script(
        SEEN
        + """
        const drawn = document.querySelector("#graph > svg");
        return [seen("header, footer, button, input"), seen("#panel h2"),
          drawn.getBoundingClientRect().width <= innerWidth,
          getComputedStyle(document.body).backgroundColor, getComputedStyle(drawn.querySelector(".op text")).fill]"""
    )
    assert shown == [0, 1, True, "rgb(255, 255, 255)", "rgb(26, 26, 26)"]
