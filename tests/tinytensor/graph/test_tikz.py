"""Pictures for papers: TikZ that LaTeX can read, with mathematics set as mathematics.

There may be no LaTeX here, so `check` reads the text as strictly as TeX does: braces, dollars, commands, colours.
"""

import re

import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.graph import svg
from tinytensor.graph.tex import tex
from tinytensor.nn import functional as F

from .test_faces import HOSTILE, encoder_layer, head, leaf, loop

pytest.importorskip("graphviz")
COMMANDS = """
ae alpha begin beta boldmath c cdot char definecolor Delta div draw else end fi footnotesize gamma ifdefined
in infty lambda ldots mathrm mbox mu nabla ne node o odot Omega partial pi providecommand r relax rule Sigma
sigma small sqrt ss surd textasciicircum textasciitilde textbackslash textbf times to top Umathchar unicode
updownarrow v varepsilon
"""
KNOWN = set(COMMANDS.split())
AWKWARD = [
    *HOSTILE,
    "50% of_#$&{}~^\\",
    "naïve Ångström ñ ç ß",
    "日本 🙂 ½",
    "x²₁²ᵀᵀ √√ √(√(x)) e−5 1e−5",
    "-- `` '' <<",
    "|a> b_",
    "αβγΩ \N{GREEK CAPITAL LETTER ALPHA}\N{PRIME}",
]


def check(text):
    """Read it as TeX does: every brace, dollar, environment and command; gives the names of its nodes."""
    assert text.isascii()
    assert text.endswith("\n")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    bare = re.sub(r"\\([^A-Za-z])", "", code)  # escaped signs, accents, line ends
    assert "%" not in bare
    assert "~" not in bare
    assert set(re.findall(r"\\([A-Za-z]+)", bare)) <= KNOWN
    assert re.findall(r"\\begin\{(\w+)\}", bare) == re.findall(r"\\end\{(\w+)\}", bare) == ["tikzpicture"]
    for line in bare.splitlines():
        depth, inside = 0, False
        scripts = ""
        for c in line:
            depth += {"{": 1, "}": -1}.get(c, 0)
            assert depth >= 0
            inside ^= c == "$"
            if c in "^_":
                assert inside, line
                assert c not in scripts[-2:], "a double script"
            if c in "&#":
                assert "providecommand" in line
        assert not inside
        if "tikzpicture" not in line and line != "]":
            assert depth == 0, line
    defined = re.findall(r"\\definecolor\{(\w+)\}\{HTML\}\{[0-9A-F]{6}\}", bare)
    used = set(re.findall(r"(?:draw|fill|text)=(\w+)", bare)) - {"white"}
    assert used == set(defined)
    styles = set(re.findall(r"(tt \w+)/\.style", bare))
    assert set(re.findall(r"\[(tt \w+)", bare)) == styles
    return re.findall(r"\\node\[tt \w+, minimum[^]]*\] \((\w+)\) at ", code)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (head, {}),
        (head, {"direction": "LR", "apart": True}),
        (encoder_layer, {"depth": 4}),
        (encoder_layer, {"backward": True, "saved": True}),
        (encoder_layer, {"heat": "grad"}),
        (loop, {}),
        (loop, {"unroll": True}),
    ],
)
def test_every_vertex_and_every_edge_is_drawn_once(make, options, graphviz_here):
    graph = make()
    text = graph.to_tikz(**options)
    picture = graph.picture(**options)
    assert sorted(check(text)) == sorted(v.id for v in picture.vertices)
    count = sum(len(e.operand.split(", ")) if picture.apart else 1 for e in picture.edges)
    drawn = re.findall(r"\\draw\[tt (\w+)[^]]*\] \([\d.,-]+\) \.\. controls", text)
    assert len(drawn) == count
    kinds = {"gradients" if e.kind == "gradient" else e.kind for e in picture.edges}
    assert set(drawn) == kinds
    assert text.count(r"\draw[tt box") >= len(picture.boxes)
    assert text.count(r"\node[tt name]") == len(picture.boxes)


def test_what_a_picture_says_is_in_the_text(graphviz_here):
    text = head().to_tikz()
    assert r"{\textbf{\boldmath $x$ ${w_{q}}$}" in text or r"$x\,{w_{q}}$" in text
    assert r"query $\mbox{key}^{\top }$" in text
    assert r"$\div \sqrt{d_{k}}=2$" in text
    assert r"\definecolor{opfill}{HTML}{E3F0F9}" in text
    assert text.startswith("% A head\n")
    assert r"\usetikzlibrary{arrows.meta, shapes.geometric, shapes.misc}" in text


def test_several_layers_are_cards_and_a_loop_is_dashed(graphviz_here):
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    with tt.record() as graph:
        nn.TransformerEncoder(layer, 3)(tt.ones((2, 3, 4)), mask=F.causal_mask(3))
    text = graph.to_tikz(depth=3)
    check(text)
    assert r"TransformerEncoderLayer $\times 3$}" in text.replace("  ", " ")
    assert text.count(r"\draw[tt box]") == len(graph.picture(depth=3).boxes) + 2 - text.count("tt box, dashed")
    assert text.count("fill=grey]") == 3  # the hidden cells of the mask
    looped = loop().to_tikz()
    assert "tt loop/.style={draw=grey, dashed" in looped
    assert len(re.findall(r"\\draw\[tt loop, ->\]", looped)) == 1


def test_numbers_stand_in_a_small_graph(graphviz_here):
    x = tt.tensor(2.0, requires_grad=True)
    with tt.record() as graph:
        y = x * 3.0 - 1e-7
    y.backward()
    text = graph.to_tikz()
    check(text)
    assert r"$\partial L/\partial x=3$" in text


@pytest.mark.parametrize("name", AWKWARD)
def test_whatever_names_hold_is_escaped(name, graphviz_here):
    x = leaf(2)
    with tt.record(), tt.named_scope(name):
        y = tt.exp(x)
    graph = tt.draw(y, names={name: x, f"{name} and y": y}, title=name)
    assert len(check(graph.to_tikz())) == len(graph.picture().vertices)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("× √d_model = 5.657", r"$\times \sqrt{{d_{\mathrm{model}}}}=5.657$"),
        ("Q Kᵀ", r"$Q\,K^{\top }$"),
        ("∂L/∂in_proj_bias", r"$\partial L/\partial \mbox{in\_proj\_bias}$"),
        ("2×5 · x Wᵀ + b", r"$2\times 5$ $\cdot$ $x\,W^{\top }+b$"),
        ("hidden → −∞", r"hidden $\to -\infty $"),
        ("÷ √(variance + ε)", r"$\div \sqrt{\mbox{variance}+\varepsilon }$"),
        ("exp(xᵢ) / Σⱼ exp(xⱼ)", r"$\mbox{exp}(x_{i})/\Sigma _{j}\,\mbox{exp}(x_{j})$"),
        ("10⁻⁵", "$10^{-5}$"),
        ("= [1.22e−05, 3]", r"$=[1.22\cdot 10^{-5},$ 3]"),
        ("split into 2 heads: Q", "split into 2 heads: $Q$"),
        ("a sum of 3 terms, as I say", "a sum of 3 terms, as I say"),
        ("a", "$a$"),
        ("branch.0.in_proj_weight", r"branch.0.in\_proj\_weight"),
        ("50 % & #1 {~^\\}", r"50 \% \& \#1 \{\textasciitilde{}\textasciicircum{}\textbackslash{}\}"),
        ("économique", r"\'{e}conomique"),
        ("日", r"\unicode{65E5}"),
    ],
)
def test_text_for_latex(text, expected):
    assert tex(text) == expected


def test_a_file_for_a_paper(tmp_path, graphviz_here):
    graph = head()
    graph.save(tmp_path / "head.tex", depth=1)
    assert (tmp_path / "head.tex").read_text(encoding="ascii") == graph.to_tikz(depth=1)


def test_a_layout_of_ones_own_is_asked_for_json(graphviz_here, monkeypatch):
    """As @viz-js/viz gives it on a page."""
    expected, asked = head().to_tikz(), []
    laid_out = svg.render(head().to_dot(), "json").decode()

    def layout(dot, kind):
        asked.append(kind)
        return laid_out

    monkeypatch.setattr("tinytensor.graph.svg._own_layout", layout)
    assert head().to_tikz() == expected
    assert asked == ["json"]
