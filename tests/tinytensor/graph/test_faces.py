"""The faces of a graph: DOT, SVG, PNG, PDF, Mermaid, text, JSON; and files of them."""

import base64
import contextlib
import html
import json
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.graph import DrawingError, svg
from tinytensor.graph.dot import PALE, STYLES
from tinytensor.graph.label import text_width

from .heads import attention_head

SVG = "{http://www.w3.org/2000/svg}"
HERE = Path(__file__).parent
pytest.importorskip("graphviz")
HOSTILE = [
    "<script>alert(1)</script>",
    "a \"b\" 'c' & <d>",
    "\\N \\G \\",
    "]]>",
    "a\x00\ud800\nb",
    "a: b # c",
    "👩‍🏫 עברית",
    "",
]


@pytest.fixture
def no_dot(monkeypatch, tmp_path):
    """Hide the program `dot`: graphviz-pure or pygraphviz lays out."""
    monkeypatch.setenv("PATH", str(tmp_path))
    if svg.find_program("graphviz-pure") is None:
        pytest.importorskip("pygraphviz")


def leaf(*shape, seed=0):
    return tt.Tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def head():
    return attention_head()[0]


def encoder_layer():
    """The graph of a layer with modules, a residual connection, a mask and gradients."""
    tt.random.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    with tt.record() as graph:
        loss = layer(tt.ones((2, 3, 4)), src_mask=F.causal_mask(3)).sum()
    loss.backward()
    return graph


def loop():
    """The graph of a cell that reads a sequence step by step."""
    tt.random.manual_seed(0)
    cell, x = nn.GRUCell(3, 4), tt.random.randn(2, 4, 3)
    with tt.record() as graph:
        h = tt.zeros((2, 4))
        for t in range(4):
            h = cell(x[:, t], h)
        loss = (h * h).mean()
    loss.backward()
    return graph


# ---- the same in every run


def test_the_dot_text_of_an_attention_head():
    assert head().to_dot() == (HERE / "attention_head.dot").read_text(encoding="utf-8")


def test_the_data_of_an_attention_head():
    assert head().to_json() == (HERE / "attention_head.json").read_text(encoding="utf-8")


def test_another_process_gives_the_same_text():
    """Whatever order its sets have."""
    code = (
        "from tests.tinytensor.graph.test_faces import encoder_layer, head, loop\n"
        "for graph in (head(), encoder_layer(), loop()):\n"
        "    print(graph.to_dot(depth=5, backward=True, saved=True), graph.to_dot(unroll=True))\n"
        "    print(graph.to_mermaid(), graph.to_text(), graph.to_json(), graph.memory())\n"
    )
    root = HERE.parents[2]
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root), "PYTHONIOENCODING": "utf-8"},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
    assert "Add & Norm" in texts.pop()


def test_importing_tinytensor_loads_nothing_of_pictures():
    code = (
        "import sys, tinytensor\n"
        "print([m for m in ('graphviz', 'pygraphviz', 'tinytensor.graph') if sys.modules.get(m)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_recording_loads_no_graphviz():
    code = (
        "import sys, tinytensor as tt\n"
        "with tt.record() as graph: tt.ones(3) * 2\n"
        "graph.to_text()\n"
        "print('graphviz' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# ---- DOT


def test_dot_text_says_what_the_options_ask_for():
    graph = encoder_layer()
    assert "rankdir=RL" in graph.to_dot(direction="RL")
    assert "kept until the backward pass: " in graph.to_dot(saved=True)
    assert "class=gradient" in graph.to_dot(backward=True)
    hot = graph.to_dot(heat="flops")
    assert "floating-point operations" in hot
    assert "heat7" in hot


def test_dot_text_of_repeated_layers():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    with tt.record() as graph:
        nn.TransformerEncoder(layer, 3)(tt.ones((2, 3, 4)))
    text = graph.to_dot()
    assert "layers.0 … layers.2 · TransformerEncoderLayer<B>  × 3</B>" in text
    assert text.count("subgraph cluster") == 2


def test_shapes_stand_in_the_vertices_of_upright_pictures():
    x = leaf(2, 3)
    with tt.record() as graph:
        tt.exp(x)
    assert "2×3 · " not in graph.to_dot(direction="LR")
    labels = {way: re.findall(r"-> \w+ \[label=(.*?) class", graph.to_dot(direction=way)) for way in ("LR", "TB")}
    assert all("2×3" in label for label in labels["LR"])
    assert labels["TB"] == ['""', '""']
    assert "2×3" in graph.to_dot(direction="TB")


def test_a_mask_is_drawn_with_its_cells():
    query = leaf(1, 3, 2)
    with tt.record() as graph:
        F.scaled_dot_product_attention(query, query, query, is_causal=True)
    (line,) = [line for line in graph.to_dot().splitlines() if "class=mask" in line]
    colours = re.findall(r'BGCOLOR="(#\w+)"', line)
    assert len(colours) == 9
    forbidden = colours[1]
    assert [c == forbidden for c in colours] == [False, True, True, False, False, True, False, False, False]


def test_the_failed_op_is_red():
    graph = head()
    graph._failed = graph._nodes[4]
    assert [line.split()[0] for line in graph.to_dot().splitlines() if "failed" in line] == ["o5"]
    assert "!! " in graph.to_text()


def test_every_kind_has_a_shape_and_style_of_its_own():
    looks = [style[:2] for style in STYLES.values()]
    assert len(set(looks)) == len(looks)


# ---- SVG


def test_svg_without_the_dot_program(no_dot, tmp_path):
    head().save(tmp_path / "head.svg")
    root = ElementTree.parse(tmp_path / "head.svg").getroot()
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert [root[0].tag, root[0].text] == [f"{SVG}title", "A head"]
    assert [root[1].tag, root[1].text] == [f"{SVG}desc", "10 ops; 3 parameters (96 numbers)"]
    assert "prefers-color-scheme: dark" in root.find(f"{SVG}style").text
    assert [path.name for path in tmp_path.iterdir()] == ["head.svg"]


def titles_of(svg):
    """The words that parts of an SVG show when pointed at, by class."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        title = group.find(f"{SVG}title")
        if title is not None:
            found.setdefault(group.get("class"), []).append(title.text)
    return found


def test_parts_of_the_svg_say_what_they_are(no_dot):
    titles = titles_of(head().to_svg())
    assert titles["cluster"] == ["head (stage)", "head.softmax (stage)"]
    assert titles["node input"] == ["input x, 5×8 float64"]
    assert "parameter w_q, 8×4 float64" in titles["node parameter"]
    assert any(t.startswith("sum; axis=1, keepdims; 5×1 float64; heads.py:") for t in titles["node op"])
    assert "weights, 5×5" in titles["edge data"]


def test_parts_of_a_picture_with_gradients(no_dot):
    titles = titles_of(encoder_layer().to_svg(backward=True, saved=True))
    assert "goes around: src, 2×3×4" in titles["edge residual"]
    assert any(t.startswith("gradient: ") for t in titles["edge gradient"])
    assert any(t.startswith("kept for: ") for t in titles["edge uses"])
    assert all(t for found in titles.values() for t in found)


def test_the_legend_gives_numbers(no_dot):
    svg = encoder_layer().to_svg(heat="bytes")
    titles = titles_of(svg)
    assert titles["node scale"][0].startswith("colours: memory of the result from ")
    assert "memory of the result" in "".join(
        "".join(t.itertext()) for t in ElementTree.fromstring(svg).iter(f"{SVG}text")
    )


def test_names_of_boxes_stand_above_the_edges_that_cross_them(no_dot):
    (whole,) = [g for g in ElementTree.fromstring(encoder_layer().to_svg()).iter(f"{SVG}g") if g.get("id") == "graph0"]
    kinds = [group.get("class").split() for group in whole.findall(f"{SVG}g")]
    last_edge = max(i for i, kind in enumerate(kinds) if kind[0] == "edge")
    boxes = [group for group in whole.findall(f"{SVG}g") if (group.get("id") or "").startswith("clust")]
    names = [i for i, kind in enumerate(kinds) if kind == ["cluster", "name"]]
    assert len(names) == len(boxes) > 1
    assert min(names) > last_edge
    assert not any(box.findall(f"{SVG}text") for box in boxes)
    assert all(whole.findall(f"{SVG}g")[i].find(f"{SVG}rect").get("fill") == PALE for i in names)


def test_the_name_of_a_box_is_one_text():
    """In a font wider than Helvetica, a separate "× 4" would overlap the name in front of it."""
    names = [g for g in ElementTree.fromstring(loop().to_svg()).iter(f"{SVG}g") if g.get("class") == "cluster name"]
    texts = [["".join(text.itertext()) for text in name.iter(f"{SVG}text")] for name in names]
    assert ["step 1 … step 4 \xa0× 4"] in texts
    assert all(len(each) == 1 for each in texts)


def test_the_legend_of_colours_has_room_for_wide_fonts():
    dot = loop().to_dot(heat="grad")
    width = text_width("norm of the gradient (logarithmic)", 13)
    assert f'COLSPAN="8" WIDTH="{width:.0f}" ALIGN="LEFT">norm of the gradient (logarithmic)<' in dot


def test_the_outer_line_of_a_result_stays_a_line_in_the_dark(no_dot):
    rules = re.findall(r"\.node\.output[^{]*\{[^}]*\}", head().to_svg().replace("\n", " "))
    filling = [rule for rule in rules if "fill:" in rule.partition("{")[2]]
    assert filling
    assert all(
        part.strip().endswith(':not([fill="none"])') for rule in filling for part in rule.partition(" {")[0].split(",")
    )


def test_every_kind_has_dark_colours(no_dot):
    svg = encoder_layer().to_svg(backward=True, depth=9, fused="formula")
    for kind in STYLES:
        assert f".tinytensor .node.{kind}:not(" in svg
    for kind in ("op", "parameter", "input", "output", "gradient", "mask"):
        assert f'class="node {kind}"' in svg


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_are_escaped(no_dot, hostile):
    x, c = tt.tensor([1.0], requires_grad=True), tt.tensor([2.0])
    with tt.record(), tt.named_scope(hostile):
        hidden = tt.exp(x * c)
        y = tt.sin(hidden)
    shown = "".join(ch if ch.isprintable() else " " for ch in hostile)
    for names in ({hostile: x}, {hostile: hidden}, {hostile: y}, {hostile: c}):
        root = ElementTree.fromstring(tt.draw(y, names=names, title=hostile).to_svg())
        assert not list(root.iter(f"{SVG}script"))
        words = "".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
        plain = words.replace("\xa0", "").replace("\u200b", "").replace(" ", "")
        assert shown.replace(" ", "") in plain


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_of_modules_are_escaped(no_dot, hostile):
    x = leaf(2, 3)
    with tt.record() as graph, tt.named_scope(hostile):
        tt.exp(tt.sin(x))
    for depth in (0, 2):
        ElementTree.fromstring(graph.to_svg(depth=depth))


def test_png(no_dot, tmp_path):
    head().save(tmp_path / "head.png")
    assert (tmp_path / "head.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def commands(monkeypatch):
    """Find all programs, and run none: the commands."""
    asked = []

    def run(command, input, **_):
        asked.append((*command, input.decode()))
        return subprocess.CompletedProcess(command, 0, b"<?xml?><svg><g><title>o1</title></g></svg>")

    monkeypatch.setattr(svg.subprocess, "run", run)
    monkeypatch.setattr(svg, "find_program", lambda name: f"/bin/{name}")
    return asked


@pytest.mark.parametrize("kind", ["svg", "png", "json"])
def test_graphviz_pure_is_the_first_engine(commands, kind):
    dot = head().to_dot()
    svg.render(dot, kind)
    assert commands == [("/bin/graphviz-pure", "-q1", f"-T{kind}", dot)]


def test_pygraphviz_is_the_second_engine_and_writes_pdf(monkeypatch):
    pytest.importorskip("pygraphviz")
    assert svg.render(head().to_dot(), "pdf").startswith(b"%PDF")
    monkeypatch.setattr(svg, "find_program", lambda name: "/bin/dot" if name == "dot" else None)
    assert "weights" in head().to_svg()


def test_dot_is_the_third_engine(commands, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    graph = head()
    svg.render(graph.to_dot(), "pdf")
    monkeypatch.setattr(svg, "find_program", lambda name: "/bin/dot" if name == "dot" else None)
    assert graph.to_svg().startswith('<svg role="img"')
    assert commands == [("/bin/dot", "-q1", f"-T{kind}", graph.to_dot()) for kind in ("pdf", "svg")]


@pytest.mark.parametrize(("program", "message"), [(sys.executable, "Unknown option: -1"), ("/absent", "No such file")])
def test_a_failing_engine_is_an_error(monkeypatch, program, message):
    monkeypatch.setattr(svg, "find_program", lambda name: program)
    with pytest.raises(DrawingError, match=f"draw: {re.escape(program)} failed: .*{message}"):
        head().to_svg()


@pytest.mark.skipif(not svg.find_program("graphviz-pure"), reason="graphviz-pure is not installed")
def test_an_error_inside_a_label_is_an_error():
    with pytest.raises(DrawingError, match="syntax error"):
        svg.render("graph { a [label=<<B></B>>] }", "svg")


@pytest.mark.parametrize("title", ["", " ", "\x00", "\u200b", "\u0301", "·", "<B></B>", "\\N"])
def test_titles_without_letters(title):
    x = tt.tensor([1.0], requires_grad=True)
    with tt.record() as graph, tt.named_scope(title):
        y = tt.exp(x)
    graph.title = title
    ElementTree.fromstring(graph.to_svg())
    ElementTree.fromstring(tt.draw(y, names={title: y}, title=title).to_svg())


# ---- notebooks


def test_a_notebook_shows_the_svg_itself():
    graph = head()
    shown = graph._repr_mimebundle_()
    assert set(shown) == {"text/html", "image/png", "text/plain"}
    frame, _, image = shown["text/html"].partition("</iframe>")
    assert html.escape("<title>input x, 5×8 float64</title>") in frame  # a tooltip
    assert (
        "<style>.tt-instead{display:none!important}</style>" in frame
    )  # dropped with the frame where neither is trusted
    svg = base64.b64decode(
        re.search(r'<img class="tt-instead" .*src="data:image/svg\+xml;base64,([^"]*)">', image)[1]
    ).decode()
    assert svg == graph.to_svg()  # for who trusts no frame
    assert base64.b64decode(shown["image/png"]).startswith(b"\x89PNG")
    assert shown["text/plain"] == graph.to_text()
    assert "max-" not in graph.to_svg().partition(">")[0]  # a file can be enlarged


def test_pictures_on_one_page_share_no_id():
    for graph in (head(), encoder_layer()):
        assert not re.findall(r' id="', graph._repr_mimebundle_()["text/html"])  # those in a frame are its own


def test_a_notebook_without_graphviz_gets_a_warning(no_graphviz):
    with pytest.warns(UserWarning, match="pip install"):
        assert head()._repr_mimebundle_() == {"text/plain": repr(head())}


def test_a_notebook_gets_a_warning_where_nothing_was_recorded():
    with tt.record() as graph:
        pass
    with pytest.warns(UserWarning, match="nothing was computed"):
        assert set(graph._repr_mimebundle_()) == {"text/plain"}


# ---- Mermaid


def test_mermaid():
    x = leaf(2, 3)
    with tt.record() as graph, tt.named_scope("stage"):
        y = tt.sum(tt.exp(x), axis=0)
        y + tt.sin(y)
    assert graph.to_mermaid(direction="LR", fold=False) == (
        '---\ntitle: "Computation graph"\n---\nflowchart LR\n'
        "  accTitle: Computation graph\n"
        "  accDescr: 4 ops#59; residual from y#59; 1 parameter (6 numbers)\n"
        '  subgraph s1["stage"]\n'
        '    v1[("x")]\n'
        '    o1["exp"]\n'
        '    o2["y = sum<br>over axis 0"]\n'
        '    o3["sin"]\n'
        '    o4["add<br>residual"]\n'
        "  end\n"
        '  r1{{"output"}}\n'
        '  v1 -->|"2×3"| o1\n'
        '  o1 -->|"2×3"| o2\n'
        '  o2 -->|"3"| o3\n'
        '  o2 ==>|"3"| o4\n'
        '  o3 -->|"3"| o4\n'
        '  o4 -->|"3"| r1\n'
        "  classDef op fill:#e3f0f9,stroke:#0072b2,color:#1a1a1a\n"
        "  class o1,o2,o3,o4 op\n"
        "  classDef parameter fill:#fdf1d8,stroke:#b87400,color:#1a1a1a\n"
        "  class v1 parameter\n"
        "  classDef output fill:#f8e8f1,stroke:#a3487b,color:#1a1a1a\n"
        "  class r1 output\n"
    )


def test_mermaid_of_gradients_and_modules():
    text = encoder_layer().to_mermaid(backward=True, saved=True)
    assert ' -.->|"2×3×4"| ' in text
    assert " -.- g" in text
    assert '[["Add & Norm<br>norm1<br>' in text


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_in_mermaid_are_escaped(hostile):
    x = tt.tensor([1.0], requires_grad=True)
    with tt.record(), tt.named_scope(hostile):
        y = tt.exp(x)
    text = tt.draw(y, names={hostile: x}, title=hostile).to_mermaid()
    lines = text.splitlines()
    title = "".join(c if c.isprintable() else " " for c in hostile)
    assert json.loads(lines[1].removeprefix("title: ")) == (title or "Computation graph")
    assert lines[0] == lines[2] == "---"
    for line in lines[3:]:
        inner = line.partition('"')[2].rpartition('"')[0].replace("<br>", "").replace('"| ', "")
        assert not set(inner) & set('"<>`{}'), line
    assert text.count("\n  end\n") == 1 or not hostile
    text.encode()


# ---- text


def test_text_of_an_attention_head():
    assert head().to_text() == (
        "A head\n"
        "10 ops; 3 parameters (96 numbers)\n"
        "x                     5×8  input\n"
        "head stage\n"
        "  w_q                 8×4  parameter\n"
        "  query = x w_q       5×4  from x, w_q\n"
        "  w_k                 8×4  parameter\n"
        "  key = x w_k         5×4  from x, w_k\n"
        "  w_v                 8×4  parameter\n"
        "  value = x w_v       5×4  from x, w_v\n"
        "  query keyᵀ          5×5  from query, key\n"
        "  scores: ÷ √dₖ = 2   5×5  from query keyᵀ\n"
        "  softmax stage\n"
        "    e = exp           5×5  from scores\n"
        "    sum               5×1  from e  (over the last axis)\n"
        "    weights = e ÷ Σe  5×5  from e, sum\n"
        "  weights value       5×4  from weights, value\n"
        "out                   5×4  from weights value\n"
    )


def test_text_has_the_notes_and_the_scale():
    text = encoder_layer().to_text(saved=True, heat="bytes")
    assert "kept until the backward pass: " in text
    assert "memory of the result: from " in text


@pytest.mark.parametrize("hostile", HOSTILE)
def test_text_keeps_to_its_lines(hostile):
    x = tt.tensor([1.0], requires_grad=True)
    with tt.record(), tt.named_scope(hostile):
        y = tt.exp(x)
    text = tt.draw(y, names={hostile: x}, title=hostile).to_text()
    assert len(text.split("\n")) == 7
    text.encode()


# ---- files


FACES = {
    ".dot": lambda graph: graph.to_dot(),
    ".gv": lambda graph: graph.to_dot(),
    ".mmd": lambda graph: graph.to_mermaid(),
    ".txt": lambda graph: graph.to_text(),
    ".json": lambda graph: graph.to_json(),
}


@pytest.mark.parametrize("suffix", FACES)
@pytest.mark.parametrize("kind", [str, Path])
def test_files_of_text(no_graphviz, tmp_path, suffix, kind):
    graph = head()
    graph.save(kind(tmp_path / f"head{suffix}"))
    assert (tmp_path / f"head{suffix}").read_text(encoding="utf-8") == FACES[suffix](graph)


def test_the_case_of_an_ending_does_not_matter(tmp_path):
    head().save(tmp_path / "head.DOT")
    assert (tmp_path / "head.DOT").read_text(encoding="utf-8") == head().to_dot()


def test_files_with_options(tmp_path):
    graph = encoder_layer()
    graph.save(tmp_path / "layer.txt", depth=0)
    assert (tmp_path / "layer.txt").read_text(encoding="utf-8") == graph.to_text(depth=0) != graph.to_text()


def test_draw_saves(tmp_path):
    _, out = attention_head()
    graph = tt.draw(out, tmp_path / "head.mmd", title="Saved", depth=1)
    assert (tmp_path / "head.mmd").read_text(encoding="utf-8") == graph.to_mermaid()
    assert "Saved" in graph.to_mermaid()


def test_unknown_endings_are_errors(tmp_path):
    expected = r"'.jpeg'; expected one of \.svg, \.png, \.pdf, \.dot"
    with pytest.raises(ValueError, match=expected):
        head().save(tmp_path / "head.jpeg")
    with pytest.raises(ValueError, match="ends in ''"):
        head().save(tmp_path / "head")
    with pytest.raises(ValueError, match=expected):
        tt.draw(attention_head()[1], tmp_path / "head.jpeg")
    assert list(tmp_path.iterdir()) == []


def test_text_of_a_pdf_can_be_searched(tmp_path, pdf_here):
    """It is text, with a table from its glyphs to letters, and no outlines."""
    head().save(tmp_path / "head.pdf")
    parts = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", (tmp_path / "head.pdf").read_bytes(), re.DOTALL)
    streams = []
    for part in parts:
        with contextlib.suppress(zlib.error):
            streams.append(zlib.decompress(part))
    (page,) = [stream for stream in streams if b" Tf" in stream]
    shown = b"".join(re.findall(rb"\(((?:[^()\\\\]|\\\\.)*)\)", page))
    assert all(word in shown for word in (b"A head", b"weights", b"softmax", b"exp"))
    letters = [stream for stream in streams if b"beginbfchar" in stream or b"beginbfrange" in stream]
    assert letters
    assert any(b"<221a>" in table.lower() for table in letters)  # the root of dₖ


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        head().save(tmp_path / "missing" / "head.dot")


def test_unknown_options_write_nothing(tmp_path):
    with pytest.raises(ValueError, match="no option 'dept'"):
        head().save(tmp_path / "head.dot", dept=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("suffix", "message"),
    [
        *((suffix, r"drawing needs `pip install -e '\.\[viz\]'`") for suffix in ("svg", "png", "tex")),
        ("pdf", r"drawing a PDF needs `pip install -e '\.\[pdf\]'`"),
    ],
)
def test_without_graphviz_the_dot_file_is_written_and_the_error_says_what_to_install(
    no_graphviz, tmp_path, suffix, message
):
    graph = head()
    with pytest.raises(DrawingError, match=rf"^{message} \(the graph is in head\.dot\)$"):
        graph.save(tmp_path / f"head.{suffix}")
    assert [path.name for path in tmp_path.iterdir()] == ["head.dot"]
    assert (tmp_path / "head.dot").read_text(encoding="utf-8") == graph.to_dot()


def test_without_graphviz_a_comparison_is_written_as_dot_too(no_graphviz, tmp_path):
    comparison = tt.compare(head(), head())
    with pytest.raises(DrawingError, match=r"\(the graph is in both\.dot\)$"):
        comparison.save(tmp_path / "both.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["both.dot"]


def test_a_failed_picture_leaves_the_old_file(no_graphviz, tmp_path):
    (tmp_path / "head.svg").write_text("old")
    with pytest.raises(DrawingError):
        head().save(tmp_path / "head.svg")
    assert (tmp_path / "head.svg").read_text() == "old"


# ---- size


@pytest.mark.slow
def test_long_chains_are_written_without_recursion():
    y = leaf(1)
    with tt.record() as graph:
        for i in range(1200):
            y = [tt.sin, tt.exp][i % 2](y * 0.1)
    for face in (graph.to_dot, graph.to_mermaid, graph.to_text):
        assert len(face(fold=False, large=True).splitlines()) > 2400
    assert len(json.loads(graph.to_json())["ops"]) == 2400


def test_numbers_that_are_not_finite_are_written():
    x = leaf(2)
    with tt.record() as graph:
        y = x * 2.0
    y.backward(tt.tensor([math.inf, math.nan], dtype=tt.float64))
    for face in (graph.to_dot, graph.to_mermaid, graph.to_text):
        assert "nan" in face(backward=True)
        assert "norm of the gradient" in face(heat="grad") or face == graph.to_mermaid


# ---- layout


def test_the_size_of_everything_is_told():
    text = encoder_layer().to_dot(backward=True)
    nodes = [line for line in text.splitlines() if re.match(r"\t+\w+ \[label=", line)]
    assert nodes
    assert all("width=" in line and "height=" in line for line in nodes)
    assert "fixedsize=true" in text
    labels = re.findall(r"-> \w+ \[label=(.*?) class", text)
    assert all(label.startswith('""') or "FIXEDSIZE" in label for label in labels)


def test_lines_of_a_vertex_stand_around_its_middle():
    root = ElementTree.fromstring(head().to_svg())
    for group in root.iter(f"{SVG}g"):
        if (group.get("class") or "").startswith("node"):
            (ellipse,) = group.findall(f"{SVG}ellipse") or [None]
            for text in group.findall(f"{SVG}text"):
                assert text.get("text-anchor") == "middle"
                if ellipse is not None:
                    assert abs(float(text.get("x")) - float(ellipse.get("cx"))) < 0.01
    bold = [span.text for span in root.iter(f"{SVG}tspan") if span.get("font-weight") == "bold"]
    assert "x w_q" in bold


def test_long_bold_text_and_numbers_are_as_long_in_every_font():
    """Graphviz gave them room for Helvetica; other fonts, such as DejaVu Sans, are wider by up to a fifth."""
    d_model, branch = 32, leaf(1, 4)
    with tt.record() as graph:
        tt.exp(branch) * math.sqrt(d_model)
    graph.title = "a heading that is as wide as the picture below it, which a wider font would cut on both sides"
    texts = list(ElementTree.fromstring(graph.to_svg(fold=False)).iter(f"{SVG}text"))
    wide = {"".join(text.itertext()): text for text in texts if text.get("lengthAdjust") == "spacingAndGlyphs"}
    for text, element in wide.items():
        width = text_width(text, float(element.get("font-size")))
        assert abs(float(element.get("textLength")) - width) < 0.1
    assert {text for text in wide if text.startswith("a heading")}
    assert {text for text in wide if text.startswith("= [[")}
    assert not {"exp", "4"} & set(wide)  # short text has room for any font


def test_nothing_is_written_to_stderr(tmp_path, graphviz_here):
    code = "import tinytensor as tt; x = tt.ones(3).requires_grad_(); tt.draw(tt.exp(x * 2), 'x.svg')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True)
    assert done.stderr == b""
    assert (tmp_path / "x.svg").exists()


def test_a_legend_names_the_kinds_that_occur():
    def legend(graph, **options):
        root = ElementTree.fromstring(graph.to_svg(**options))
        return [t.text for g in root.iter(f"{SVG}g") if g.get("class") == "legend" for t in g.iter(f"{SVG}text")]

    assert legend(encoder_layer()) == [
        "op", "module", "parameter", "input", "mask, hidden cells dark", "result", "goes around (residual)",
    ]  # fmt: skip
    assert legend(encoder_layer(), backward=True)[-2:] == ["gradients flow", "kept for"]
    assert legend(encoder_layer(), legend=False) == []
    x = leaf(2)
    with tt.record() as small:
        pass
    small = tt.draw(tt.exp(x), names={"x": x})
    assert legend(small, legend=True) == ["op", "parameter", "result"]


def test_inputs_that_begin_stand_side_by_side_and_late_ones_do_not():
    a, b, target = leaf(2, 3), leaf(3, 2), leaf(2, 2)
    with tt.record() as graph:
        product = tt.exp(tt.asarray(a.numpy())) @ tt.sin(tt.asarray(b.numpy()))
        product - tt.asarray(target.numpy())
    picture = graph.picture(constants=True)
    names = {v.id: v.title for v in picture.vertices}
    assert all("target" not in [names[place] for place in level] for level in picture.levels)


def test_labels_of_arrows_stand_beside_their_lines():
    x, y = tt.ones((2, 3)).requires_grad_(), tt.ones((2, 3)).requires_grad_()
    with tt.record() as graph:
        tt.atan2(tt.exp(x), tt.exp(y))
    met = []
    for edge in re.findall(r'<g id="edge.*?</g>', graph.to_svg(direction="TB"), re.S):
        text = re.search(r'<text[^>]* x="([^"]*)" y="([^"]*)"[^>]*>(left|right)<', edge)
        if text is not None:
            points = re.findall(r"([-\d.]+),([-\d.]+)", re.search(r'<path[^>]* d="([^"]*)"', edge)[1])
            heights, places = [float(y) for _, y in points], [float(x) for x, _ in points]
            met.append(text[3])
            assert float(text[1]) > np.interp(float(text[2]), heights, places) + 2  # the line at the text's height
    assert met == ["left", "right"]
