"""Pictures of decoding: every step, every branch, and what tells them apart."""

import math
import re

import pytest

from tinytensor.nn import visualize
from tinytensor.nn.visualize import BeamNode
from tinytensor.nn.visualize.svg import BOLD, text_width

from .drawing import Read, plain

HELLO = "שלום"
STEPS = [[("le", 0.7), ("la", 0.2), ("<b>", 0.0001)], [("chat", 0.5), (HELLO, 0.25)]]


def texts(picture):
    return re.findall(r"<text[^>]*>([^<]*)", str(picture))


def elements(picture, name):
    return re.findall(rf'<[a-z]+ [^>]*class="[^"]*\b{name}\b[^"]*"[^>]*>', str(picture))


def number(element, attribute):
    return float(re.search(rf' {attribute}="([^"]*)"', element)[1])


def test_every_candidate_has_a_bar_as_long_as_its_probability():
    picture = visualize.decoding_steps(STEPS, [1, 0])
    bars = [number(bar, "width") for bar in elements(picture, "bar")]
    assert bars[:2] == pytest.approx([0.7 * 138, 0.2 * 138])
    assert bars[3:] == pytest.approx([0.5 * 138, 0.25 * 138])
    shown = texts(picture)
    assert [t for t in shown if t[:2] in ("0.", "&l")] == [
        "0.700",
        "0.200",
        "&lt;b&gt;",
        "&lt;0.001",
        "0.500",
        "0.250",
    ]
    assert "Said, with its probability: la 0.200, chat 0.500." in str(picture)


def test_what_was_said_is_framed_and_bold():
    picture = visualize.decoding_steps(STEPS, [1, 0])
    frames = elements(picture, "chosen")
    assert len(frames) == 2
    assert number(frames[0], "y") > number(frames[1], "y")  # the second candidate of the first step
    bold = re.findall(r'<text[^>]*font-weight="bold"[^>]*>([^<]*)', str(picture))
    assert bold == ["Token by token", "la", "la", "0.200", "chat", "chat", "0.500"]


LONG = [
    "internationalisation",
    "WWWWWWWWWW",
    "m" * 18,
    "mmmmmmmm",
    "▁Donaudampfschifffahrt",
    "extraordinary",
    "W",
    HELLO,
]


@pytest.mark.parametrize("count", [3, 14, 120])
def test_bold_tokens_have_room_before_their_probability_and_the_next_column(count):
    steps = [[(LONG[(i + k) % len(LONG)], p) for k, p in enumerate((0.99996, 0.00003))] for i in range(count)]
    root = Read(visualize.decoding_steps(steps, [i % 2 for i in range(count)]))
    for frame in root.all("rect", "chosen"):
        left, top, wide = (float(frame.get(name)) for name in ("x", "y", "width"))
        token, share = (
            t for t in root.all("text") if float(t.get("x")) > left - 1 and t.get("y") == f"{top + 12:g}"
            and float(t.get("x")) < left + wide
        )  # fmt: skip
        assert {token.get("font-weight"), share.get("font-weight")} == {"bold"}
        end = float(token.get("x")) + BOLD * text_width(plain(token.text), 12)
        assert end + 6 <= float(share.get("x")) - BOLD * text_width(share.text, 11)
    heads = [t for t in root.all("text") if t.get("font-size") == "14"]
    numbers = [t for t in root.all("text") if t.text.isdigit() and t.get("font-size") == "11"]
    assert len(heads) == len(numbers) == count
    for number_, head, following in zip(numbers, heads, [*numbers[1:], None]):
        x = float(head.get("x"))
        assert float(number_.get("x")) + text_width(number_.text, 11) + 6 <= x
        if following is not None and following.get("y") == head.get("y"):
            assert x + BOLD * text_width(plain(head.text), 14) + 6 <= float(following.get("x"))
    assert root.width <= 900


def test_long_tokens_are_whole_where_a_column_can_hold_them():
    picture = visualize.decoding_steps([[("internationalisation", 0.9), ("a", 0.1)]], [0])
    assert texts(picture).count("internationalisation") == 2


def test_many_steps_go_on_below():
    small, large = (visualize.decoding_steps([STEPS[0]] * n, [0] * n) for n in (5, 20))
    assert large.width == small.width <= 900  # as wide as a page of text
    assert large.height > 3 * small.height
    assert len(elements(large, "chosen")) == 20


@pytest.mark.parametrize(
    ("candidates", "chosen", "told"),
    [
        ([], [], "0 steps of candidates, 0 choices; expected equal numbers, not 0"),
        (STEPS, [0], "2 steps of candidates, 1 choices"),
        (STEPS, [0, 2], "step 1 has 2 candidates, and number 2 was chosen"),
        ([[("a", -0.3)]], [0], "a has probability -0.3 at step 0; expected 0 to 1, no logarithm"),
        ([[("a", float("nan"))]], [0], "a has probability nan"),
        ([[("a", 0.9), ("b", 0.8)]], [0], "the probabilities of step 0 add up to 1.7; expected 1 at most"),
    ],
)
def test_steps_that_are_none(candidates, chosen, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        visualize.decoding_steps(candidates, chosen)


@pytest.mark.parametrize(
    ("p", "shown"),
    [(0.0, "0.000"), (0.0004, "&lt;0.001"), (0.9994, "0.999"), (0.99999, "&gt;0.999"), (1.0, "1.000")],
)
def test_what_is_not_certain_is_not_written_as_certain(p, shown):
    assert shown in texts(visualize.decoding_steps([[("a", p)]], [0]))


def test_scripts_from_right_to_left_leave_the_description_in_order():
    assert f"Said, with its probability: \u2068{HELLO}\u2069 0.250." in str(visualize.decoding_steps(STEPS[1:], [1]))
    nodes = [BeamNode(None, "<s>", 0.0), BeamNode(0, HELLO, -0.5), BeamNode(1, "</s>", -0.1, -0.3)]
    assert f"The result is \u2068{HELLO}\u2069 &lt;/s&gt;, with score" in str(visualize.beam_tree(nodes))


NODES = [
    BeamNode(None, "<s>", 0.0),
    BeamNode(0, "a", -0.5),
    BeamNode(0, "b", -1.0),
    BeamNode(1, "c", -2.0),
    BeamNode(2, "d", -0.1),
    BeamNode(4, "</s>", -0.1, -0.4),
    BeamNode(2, "</s>", -3.0, -2.0),
]


def boxes(picture):
    found = re.findall(r"<rect ([^>]*)>\s*<title>([^:]*): sum of log-probabilities ([^,<]*)", str(picture))
    return {(title, total): attributes for attributes, title, total in found}


def test_the_best_score_is_the_result_on_top_and_dead_ends_are_dashed():
    picture = visualize.beam_tree(NODES)
    found = boxes(picture)
    assert len(found) == len(NODES)
    assert len(elements(picture, "edge")) == len(NODES) - 1
    result = [("&lt;s&gt;", "0"), ("b", "-1"), ("d", "-1.1"), ("&lt;/s&gt;", "-1.2")]
    assert {re.search(r' y="([^"]*)"', found[key])[1] for key in result} == {"50"}
    for key, attributes in found.items():
        dashed = key in [("a", "-0.5"), ("c", "-2.5")]
        assert ("stroke-dasharray" in attributes) == dashed
        assert ('stroke-width="2.5"' in attributes) == (key in result)
    assert "The result is b d &lt;/s&gt;, with score -0.400; of 6 beginnings looked at." in str(picture)
    assert {"the result", "ended, with its score", "given up"} <= set(texts(picture))


def test_a_probability_is_on_the_edge_and_the_sum_by_which_hypotheses_are_compared_in_the_node():
    shown = texts(visualize.beam_tree(NODES))
    assert [text for text in shown if text.startswith("0.")] == ["0.607", "0.368", "0.135", "0.905", "0.905", "0.050"]
    sums = ["Σ −0.50", "Σ −1.00", "Σ −2.50", "Σ −1.10", "Σ −1.20, score −0.400", "Σ −4.00, score −2.000"]
    assert [text for text in shown if text.startswith("Σ")] == sums


def test_a_probability_has_room_between_its_nodes():
    nodes = [BeamNode(None, "<s>", 0.0), BeamNode(0, "a", math.log(0.99999)), BeamNode(1, "</s>", -0.1, -0.3)]
    picture = str(visualize.beam_tree(nodes))
    (begin, first, _) = boxes(picture).values()
    label = re.search(r"<text ([^>]*)>&gt;0.999<", picture)[1]
    end_of_begin = number(f" {begin}", "x") + number(f" {begin}", "width")
    assert end_of_begin <= number(f" {label}", "x") - text_width(">0.999", 10)
    assert number(f" {label}", "x") <= number(f" {first}", "x")


@pytest.mark.parametrize("token", LONG)
def test_bold_tokens_and_long_scores_keep_off_the_border(token):
    nodes = [BeamNode(None, "<s>", 0.0), BeamNode(0, token, -0.5), BeamNode(1, token, -12.5, -12345.678)]
    root = Read(visualize.beam_tree(nodes))
    for box in (rect for rect in root.all("rect") if rect.get("height") == "30"):
        left, wide = (float(box.get(name)) for name in ("x", "width"))
        middle = left + wide / 2
        inside = [t for t in root.all("text") if t.get("text-anchor") == "middle" and float(t.get("x")) == middle]
        for text in inside:
            bold = BOLD if text.get("font-weight") == "bold" else 1
            half = text_width(plain(text.text or ""), float(text.get("font-size")) * bold) / 2
            assert left + 8 <= middle - half
    whole = token in [plain(text.text or "") for text in root.all("text")]
    assert whole == (BOLD * text_width(token, 13) <= 160)


def test_no_two_nodes_are_at_one_place():
    nodes = [BeamNode(None, "<s>", 0.0)] + [BeamNode(i // 2, str(i), -0.5) for i in range(1, 40)]
    nodes.append(BeamNode(39, "end", -0.1, -0.3))
    places = [re.findall(r'\b[xy]="([^"]*)"', attributes) for attributes in boxes(visualize.beam_tree(nodes)).values()]
    assert len({tuple(place) for place in places}) == len(places)


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([BeamNode(None, "a", 0.0)], "no node has a score"),
        ([BeamNode(None, "a", 0.0), BeamNode(1, "b", 0.0, -1.0)], "node 1 has parent 1; expected one before it"),
        ([BeamNode(None, "a", 0.0), BeamNode(None, "b", 0.0, -1.0)], "node 1 has parent None"),
        ([], "no node has a score"),
        ([BeamNode(None, "a", 0.0), BeamNode(0, "b", 0.7, -0.3)], "node 1 has log-probability 0.7; expected"),
        ([BeamNode(None, "a", 0.0), BeamNode(0, "b", math.nan, -0.3)], "node 1 has log-probability nan"),
        ([BeamNode(None, "a", 0.0), BeamNode(0, "b", -0.7, math.nan)], "node 1 has score nan; expected a"),
        (
            [BeamNode(None, "a", 0.0), BeamNode(0, "b", -0.7, -0.7), BeamNode(1, "c", -0.1, -0.4)],
            "node 2 follows node 1, which has a score: it ended there",
        ),
    ],
)
def test_trees_that_are_none(nodes, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        visualize.beam_tree(nodes)


def test_the_same_bytes_every_time_and_a_title_of_ones_own():
    assert str(visualize.beam_tree(NODES, title="A <tree>")) == str(visualize.beam_tree(NODES, title="A <tree>"))
    assert "A &lt;tree&gt;" in str(visualize.beam_tree(NODES, title="A <tree>"))
