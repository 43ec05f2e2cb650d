"""The live page in a browser: typing, levers and ways to decode, by mouse and by keyboard, beside Python."""

import re
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from tests import processes
from tests.nn.visualize.test_live import LETTERS, drawn, language_model, transformer, without_layer
from tinytensor import nn
from tinytensor.models import LanguageModel, decoding
from tinytensor.models.data.units import Characters
from tinytensor.models.scripts.lesson import Lesson, Shown
from tinytensor.nn import visualize

from .conftest import on_paper

LAST = "transformer.decoder.layers.1.multihead_attn"
WORD = "fabled"


@pytest.fixture(scope="module")
def model():
    return drawn(transformer(max_length=13), seed=3)


@pytest.fixture
def page(visit, model):
    return visit(str(visualize.live(model, LETTERS, text=WORD, title="A <lesson>")))


def find(browser, css):
    return browser.find_elements("css selector", css)


def shown(browser, css):
    return re.sub("[\u2068\u2069]", "", find(browser, css)[0].text)


def choose(browser, select, value):
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element("id", select)).select_by_value(value)


def press(browser, *keys):
    from selenium.webdriver import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def slide(browser, css, value):
    browser.execute_script(
        """const slider = document.querySelector(arguments[0]);
        slider.value = arguments[1];
        slider.dispatchEvent(new Event("input", { bubbles: true }));""",
        css,
        value,
    )


def said(model, word=WORD, beam=1):
    ids = decoding.beam_search(model, [[*LETTERS.encode(word), 2]], beam=beam)[0][0].ids
    return LETTERS.decode(ids)


def weights_of_rows(browser):
    return [float(amount.text) for amount in find(browser, "#rows td span") if re.fullmatch(r"\d\.\d{4}", amount.text)]


def test_it_answers_while_one_types(page, model):
    assert page.title == "A <lesson>"
    assert shown(page, "#answer") == said(model)
    field = page.find_element("id", "text")
    for i, letter in enumerate("gag"):
        field.send_keys(letter)
        assert shown(page, "#answer") == said(model, WORD + "gag"[: i + 1])
    assert [token.text for token in find(page, "#source li bdi")] == [*WORD, *"gag", "<end>"]
    assert [token.text for token in find(page, "#target li bdi")] == ["<begin>", *said(model, f"{WORD}gag")[:12]]


def test_what_a_position_says_is_the_likeliest(page, model):
    find(page, "#target li")[2].click()
    begun = [1, *LETTERS.encode(said(model))[:2]]
    logits = model([[*LETTERS.encode(WORD), 2]], [begun]).numpy()[0, -1].astype(np.float64)
    shares = np.exp(logits - logits.max())
    shares[0] = 0  # padding is never said
    shares /= np.exp(logits - logits.max()).sum()
    best = np.argsort(-shares)[:10]
    names = ["", "<begin>", "<end>", *LETTERS.characters]
    assert [row.text for row in find(page, "#next li bdi")] == [names[i] for i in best]
    percents = [float(bar.text.removesuffix(" %")) for bar in find(page, "#next .bar")]
    np.testing.assert_allclose(percents, 100 * shares[best], atol=0.5)


def test_heads_and_layers_are_left_out_by_their_boxes(page, model):
    boxes = find(page, "#heads input")  # for each layer its own, then those of its two heads
    boxes[4].click()
    with nn.intervene(model, {f"{LAST}.z": {0: 0.0}}):
        assert shown(page, "#answer") == said(model)
    boxes[4].click()
    assert shown(page, "#answer") == said(model)
    boxes[0].click()
    with nn.intervene(model, without_layer(model, "transformer.decoder.layers.0")):
        assert shown(page, "#answer") == said(model)
    assert page.find_element("id", "reset").is_enabled()
    page.find_element("id", "reset").click()
    assert shown(page, "#answer") == said(model)
    assert all(box.is_selected() for box in find(page, "#heads input"))
    assert not page.find_element("id", "reset").is_enabled()


def test_levers_of_the_whole_model(page, model):
    import tinytensor as tt

    page.find_element("id", "mask").click()
    with nn.intervene(model, {"transformer.decoder.tgt_mask": tt.zeros_like}):
        assert shown(page, "#answer") == said(model)
    page.find_element("id", "mask").click()
    page.find_element("id", "unscaled").click()
    assert shown(page, "#factor-is") == "2.83"
    assert shown(page, "#score-name") == "× 1.000, masked"
    with nn.intervene(model, {"*.q": lambda q: q * 8**0.5}):
        assert shown(page, "#answer") == said(model)


def test_a_weight_follows_its_slider_and_the_others_share_the_rest(page, model):
    find(page, "#target li")[1].click()
    before = weights_of_rows(page)
    slide(page, "#rows tr:nth-child(3) input", 0.9)
    after = weights_of_rows(page)
    assert after[2] == 0.9
    assert sum(after) == pytest.approx(1, abs=1e-3)
    others = [i for i in range(len(before)) if i != 2]
    share = (1 - after[2]) / (1 - before[2])
    np.testing.assert_allclose([after[i] for i in others], [share * before[i] for i in others], atol=2e-4)

    def dragged(weights):
        found = weights.numpy().copy()
        if found.shape[2] > 1:
            row = found[0, 0, 1]
            rest = 1 - row[2]
            row *= 0.1 / rest
            row[2] = 0.9
        return found

    with nn.intervene(model, {f"{LAST}.weights": dragged}):
        assert shown(page, "#answer") == said(model)


def test_ways_to_decode(page, model):
    controls = {name: page.find_element("id", name) for name in ("beam", "temperature", "topP", "again")}
    assert not any(control.is_displayed() for control in controls.values())
    choose(page, "method", "beam")
    assert shown(page, "#answer") == said(model, beam=4)
    assert controls["beam"].is_displayed()
    slide(page, "#beam", 7)
    assert shown(page, "#answer") == said(model, beam=7)
    choose(page, "method", "drawn")
    assert controls["topP"].is_displayed()
    assert not controls["beam"].is_displayed()
    slide(page, "#topP", 0.05)
    assert shown(page, "#answer") == said(model)  # the likeliest alone
    slide(page, "#topP", 1)
    slide(page, "#temperature", 3)
    texts = set()
    for _ in range(4):
        controls["again"].click()
        texts.add(shown(page, "#answer"))
    assert len(texts) == 4
    slide(page, "#limit", 2)
    assert len(find(page, "#target li")) == 3


def test_what_cannot_be_read_is_said_and_the_picture_stays(page, model):
    field = page.find_element("id", "text")
    field.send_keys("?")
    assert shown(page, "#fault") == "The model has no id for “?”."
    find(page, "#source li")[1].click()
    assert [token.text for token in find(page, "#source li bdi")] == [*WORD, "<end>"]
    field.send_keys("\b" + 8 * "a")
    assert shown(page, "#fault") == "The model reads at most 12 tokens, not 14."
    field.clear()
    field.send_keys("b")
    assert shown(page, "#fault") == ""
    assert shown(page, "#answer") == said(model, "b")


def test_works_without_a_mouse(page, model):
    from selenium.webdriver.common.keys import Keys

    page.execute_script("document.querySelector('#target [tabindex=\"0\"]').focus()")
    press(page, Keys.HOME, Keys.ARROW_RIGHT)
    assert shown(page, "#query-name") == f"The query of {said(model)[0]} in head 0 of {LAST}"
    assert page.execute_script("return document.activeElement.dataset.index") == "1"
    page.execute_script("document.querySelector('#heads input').focus()")
    press(page, Keys.SPACE)
    assert page.execute_script("return document.activeElement.checked") is False
    press(page, Keys.TAB, Keys.TAB, Keys.TAB, Keys.ENTER)
    assert "head 1 of transformer.decoder.layers.0" in shown(page, "#query-name")
    page.execute_script("document.querySelector('#rows input').focus()")
    was = weights_of_rows(page)[0]
    press(page, Keys.END)
    assert was < 1
    assert weights_of_rows(page)[0] == 1
    assert page.execute_script("return document.activeElement.closest('#rows') !== null")


def test_every_kind_of_attention_is_shown(page):
    for kind, queries, keys in (("encoder (source to source)", 7, 7), ("cross (target to source)", 13, 7)):
        choose(page, "kind", kind)
        assert len(find(page, "#map tr")) == queries + 1
        assert len(find(page, "#rows tr")) == keys
    choose(page, "kind", "decoder (target to target)")
    find(page, "#target li")[0].click()
    texts = [row.text.split()[2:] for row in find(page, "#rows tr")]
    assert all("hidden" in text for text in texts[1:])
    assert "hidden" not in texts[0]
    assert find(page, "#map tr:nth-child(2) td")[5].get_attribute("title").endswith(": masked")


def test_a_language_model_goes_on_with_a_text(visit):
    letters = Characters("abcdefghijklmnopq")
    model = language_model(max_length=24, eos_id=None)
    page = visit(str(visualize.live(model, letters, text="cab")))
    (expected,) = model.generate([letters.encode("cab")], 20).tolist()
    assert shown(page, "#answer") == letters.decode(expected)
    assert [token.text for token in find(page, "#ids li:not(.said) bdi")] == ["c", "a", "b"]
    page.find_element("id", "text").clear()
    page.find_element("id", "text").send_keys("a" * 24)
    (expected,) = model.generate([letters.encode(24 * "a")]).tolist()
    assert len(find(page, "#ids li")) == 24
    assert shown(page, "#answer") == letters.decode(expected)
    page.find_element("id", "text").send_keys("a")
    assert shown(page, "#fault") == "The model reads at most 24 tokens, not 25."


def test_a_long_answer_comes_bit_by_bit_and_another_key_ends_it(visit):
    model = drawn(LanguageModel(20, d_model=64, num_heads=4, num_layers=2, max_length=200, eos_id=None))
    page = visit(str(visualize.live(model, LETTERS, text="abc")))
    slide(page, "#limit", 190)
    assert 0 < len(shown(page, "#answer")) < 190
    page.find_element("id", "text").send_keys("d")
    slide(page, "#limit", 3)
    wait = """const done = arguments[0];
    const length = () => byId("answer").textContent.length;
    const look = () => setTimeout(length() === 3 ? () => done(length()) : look, 100);
    look();"""
    assert page.execute_async_script(wait) == 3


def test_dark_mode_and_a_phone(page, prefers, phone):
    assert page.execute_script("return document.documentElement.scrollWidth") <= 390
    colours = """const done = arguments[0];
    requestAnimationFrame(() => requestAnimationFrame(() => {
      const parts = [document.body, document.querySelector("#map tr:nth-child(2) td")];
      done(parts.map((part) => getComputedStyle(part).backgroundColor));
    }));"""
    light = page.execute_async_script(colours)
    prefers("dark")
    dark = page.execute_async_script(colours)
    assert light[0] == "rgb(255, 255, 255)"
    assert dark[0] == "rgb(13, 17, 23)"
    assert light[1] != dark[1]
    for kind in ("encoder (source to source)", "decoder (target to target)"):
        choose(page, "kind", kind)
        assert page.execute_script("return document.documentElement.scrollWidth") <= 390


def test_print_gives_the_pictures_on_white(page, prefers):
    prefers("dark")
    on_paper(page)
    style = """const { backgroundColor } = getComputedStyle(document.body);
    return [backgroundColor, document.documentElement.scrollWidth <= innerWidth]"""
    assert page.execute_script(style) == ["rgb(255, 255, 255)", True]
    assert page.find_element("id", "map").is_displayed()
    assert not page.find_element("id", "method").is_displayed()


def test_in_the_frame_of_a_notebook(visit, model):
    live = visualize.live(model, LETTERS, text=WORD)
    page = visit(f"<!DOCTYPE html><link rel=icon href='data:,'><title>notebook</title>{live._repr_html_()}")
    frame = find(page, "iframe")[0]
    assert unescape(frame.get_attribute("srcdoc")) == str(live)
    page.switch_to.frame(frame)
    assert shown(page, "#answer") == said(model)
    page.switch_to.default_content()


@pytest.mark.slow
def test_a_lesson_shows_one_in_a_frame(visit, tmp_path, monkeypatch):
    """Lesson 3, as its notebook shows it: the model that it trained answers, and a weight can be dragged."""
    monkeypatch.chdir(tmp_path)
    script = Path(__file__).parents[2] / "examples" / "lessons" / "03_one_query_by_hand.py"
    result = processes.run([sys.executable, str(script)], cwd=tmp_path, text=True)
    assert result.returncode == 0, result.stderr
    picture = Shown(tmp_path / "runs" / "lessons" / script.stem / "live.html")
    browser = visit(picture._repr_mimebundle_()["text/html"])
    browser.switch_to.frame(0)
    trained, letters = Lesson("99_any").letters_backwards()
    for word, key in (("transformer", ""), ("transformers", "s")):
        browser.find_element("id", "text").send_keys(key)
        ids = decoding.beam_search(trained, [[*letters.encode(word), 2]], beam=1)[0][0].ids
        assert shown(browser, "#answer") == letters.decode(ids)
    slide(browser, "#rows tr:nth-child(3) input", 1)
    assert weights_of_rows(browser)[2] == 1
    assert sum(weights_of_rows(browser)) == 1  # nothing is left for the others
    browser.switch_to.default_content()
