"""The README's Python snippets run, one after the other, as a reader would run them.

Its first program, which takes longer, is examples/first_transformer.py: tests/examples/test_first_transformer.py.
"""

import code
import importlib.util
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.marks import slow_after
from tinytensor.derivatives import complex_gradients
from tinytensor.nn import visualize

from . import processes

ROOT = Path(__file__).parent.parent


def snippets(name):
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / name).read_text(encoding="utf-8"), flags=re.M | re.S)


def test_readme_snippets_run_and_print_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    others = snippets("README.md")
    assert others.pop(1).startswith("# examples/first_transformer.py\n")
    assert len(others) == 2
    namespace = {}
    for text in others:
        exec(compile(text, "README.md", "exec"), namespace)
        printed = capsys.readouterr().out.splitlines()
        promised = re.findall(r"print\(.*\)  # (.*)", text)
        assert printed == promised
    assert (tmp_path / "head.svg").read_text(encoding="utf-8").count("w_q") >= 1


class Prompt(code.InteractiveConsole):
    """The plain Python prompt, into which lines are pasted. Keeps what it complains of."""

    def __init__(self, runs):
        super().__init__()
        self.runs, self.complaints = runs, ""

    def runcode(self, code):
        if self.runs:
            super().runcode(code)

    def write(self, data):
        self.complaints += data

    def paste(self, text):
        """Every line as if it were typed; a block ends at a blank line, so it must have none, and one behind it."""
        unfinished = [self.push(line) for line in [*text.splitlines(), ""]][-1]
        assert (unfinished, self.complaints) == (False, "")


def test_readme_snippets_can_be_pasted_into_the_plain_prompt(tmp_path, monkeypatch, graphviz_here):
    monkeypatch.chdir(tmp_path)
    others = snippets("README.md")
    Prompt(runs=False).paste(others.pop(1))
    prompt = Prompt(runs=True)
    for text in others:
        prompt.paste(text)
    assert (tmp_path / "head.svg").exists()


FOR_FILES = {"your-own-module.md"}  # classes of several methods, which the plain prompt ends at a blank line


@pytest.mark.parametrize("name", sorted({path.name for path in (ROOT / "docs").glob("*.md")} - FOR_FILES))
def test_snippets_of_the_documents_can_be_pasted_too(name):
    for text in snippets(f"docs/{name}"):
        Prompt(runs=False).paste(text)


ALONE = ("speed", "performance", "many-machines", "coming-from-pytorch")  # they change what follows in the process
TOGETHER = ("pictures",)  # its snippets go on from each other
PAGES = sorted(
    {path.stem for path in (ROOT / "docs").glob("*.md") if snippets(f"docs/{path.name}")} - {*ALONE, *TOGETHER}
)
DIFFERS = ("print(writer.write(", "print(tt.speed_up())")  # from run to run, or from machine to machine


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # NumPy's, beside our error
@pytest.mark.parametrize("page", [f"docs/{name}.md" for name in PAGES])
def test_snippets_of_a_page_print_what_they_say(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(complex_gradients, "HOLOMORPHIC", {*complex_gradients.HOLOMORPHIC})  # a page adds its op
    for text in snippets(page):
        if "runs/language-model" in text:
            train_a_writer(tmp_path)
        if "onnxruntime" in text and importlib.util.find_spec("onnxruntime") is None:
            continue  # .ci/run installs it later
        exec(compile(text, page, "exec"), {})
        assert_promised(text, capsys.readouterr().out)


def assert_promised(text, printed):
    promised = re.findall(r"print\(.*\)  # (.*)", text)
    differ = sum(map(text.count, DIFFERS))
    assert len(promised) + differ == text.count("print(")
    assert printed.splitlines() == promised or (differ and printed)


def train_a_writer(folder):
    """The run that a page goes on from, with smaller sizes."""
    script = ROOT / "examples" / "train_language_model.py"
    sizes = ["--steps", 1, "--batch-size", 2, "--lines", 100, "--length", 16]
    done = processes.run([sys.executable, script, *sizes], cwd=folder, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["docs/optimisers.md", "docs/compile.md"])
def test_pages_show_what_their_snippets_draw(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "compile" in page:
        pytest.importorskip("llvmlite")
    for text in snippets(page):
        if ".save(" in text:
            exec(compile(text, page, "exec"), {})
    shown = re.findall(r"\]\(([\w-]+)\.svg\)", (ROOT / page).read_text(encoding="utf-8"))
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(shown)
    for name in shown:
        now, then = (ElementTree.parse(folder / f"{name}.svg") for folder in (tmp_path, ROOT / "docs"))
        assert words(now) == words(then), f"docs/{name}.svg shows something else: draw it again"


@pytest.mark.parametrize("page", slow_after(1, ALONE))
def test_snippets_in_processes_of_their_own_do_too(page, tmp_path, graphviz_here):
    for text in snippets(f"docs/{page}.md"):
        command = [sys.executable, "-c", text]
        result = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
        assert result.returncode == 0, result.stderr
        assert_promised(text, result.stdout.decode())


@pytest.mark.slow
def test_the_gallery_shows_every_kind_of_picture(tmp_path, graphviz_here):
    """Each is drawn by the page of the site, which is a script as well; the film and the explorer are pages in it."""
    gallery = ROOT / "docs" / "gallery.py"
    command = [sys.executable, "-W", "error", str(gallery), "--out", str(tmp_path / "drawn")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    text = gallery.read_text(encoding="utf-8")
    assert [name for name in visualize.__all__ if f"visualize.{name}(" not in text] == []
    drawn = {path.name for path in (tmp_path / "drawn").iterdir()}
    assert drawn >= {"film.html", "explorer.html", "card.html", "graph.svg", "heat.svg"}
    assert (tmp_path / "error.svg").exists()


def test_the_page_of_pictures_shows_what_its_snippets_draw(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8")
    namespace = {}
    for text in snippets("docs/pictures.md"):
        exec(compile(text, "docs/pictures.md", "exec"), namespace)
        assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", text)
    shown = re.findall(r"\]\(pictures/(\w+)\.svg\)", page)
    assert sorted(path.stem for path in (ROOT / "docs" / "pictures").iterdir()) == sorted(shown)
    drawn = [name for name in shown if (tmp_path / f"{name}.svg").exists()]
    assert len(drawn) == len(shown) - 4  # the others are of trained models
    for name in drawn:
        now, then = (ElementTree.parse(folder / f"{name}.svg") for folder in (tmp_path, ROOT / "docs" / "pictures"))
        assert words(now) == words(then), f"docs/pictures/{name}.svg shows something else: draw it again"


def words(picture):
    """What a picture says without its numbers, which may differ in their last digit from machine to machine."""
    return [re.sub(r"[-\d.e\N{MINUS SIGN}]+", "0", text) for text in picture.getroot().itertext()]


def test_the_snippets_of_your_own_op_are_files_for_the_command(tmp_path, capsys):
    from tinytensor.testing.__main__ import main

    first, second, third, *_ = snippets("docs/your-own-op.md")
    for text, exit_code in ((first, 1), (second, 1), (third, 0)):
        (tmp_path / "my_ops.py").write_text(text, encoding="utf-8")
        assert main([str(tmp_path / "my_ops.py")]) == exit_code
        assert "\n1 op, " in capsys.readouterr().out


@pytest.mark.slow
def test_the_files_of_your_own_exercise_make_an_assignment(tmp_path):
    for text in snippets("docs/your-own-exercise.md"):
        path = tmp_path / re.match(r"# (\S+)\n", text)[1]
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    script, answers = tmp_path / "softmax.py", tmp_path / "mine.py"

    def run(*arguments):
        done = processes.run([sys.executable, "-W", "error", script, *arguments], cwd=tmp_path, text=True)
        assert done.stderr == ""
        return done.stdout

    assert f"`python {script.as_posix()} --check <this file>`" in run("--exercises")
    assert run("--hint", "softmax", "2").startswith("hint 2 of 2: ")
    powers = "import numpy as np\nimport tinytensor as tt\ndef softmax(x):\n    y = tt.exp(x - x.max())\n    return "
    for result, told in (
        ("...", "wrong. The hole is still there: "),
        ("y", "wrong. the softmax of 3 rows"),
        ("y / y.sum(axis=0)", "wrong. the softmax of 3 rows: each column adds up to 1; each row has to"),
        ("tt.nn.functional.softmax(x, dim=1)", "wrong. do it without `F.softmax`"),
        (
            "tt.exp(x) / tt.exp(x).sum(axis=1, keepdims=True)",
            "wrong. the softmax of 1000 and 0: exp(1000) is ",
        ),
        ("y / y.sum(axis=1, keepdims=True)", "right"),
    ):
        answers.write_text(powers + result + "\n", encoding="utf-8")
        assert run("--check", answers).startswith(f"softmax: {told}")


def test_your_own_op_tells_of_every_line_of_a_card():
    from tinytensor.testing.report_card import LINES

    text = (ROOT / "docs" / "your-own-op.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| ([a-z ,]+) \| ", text, flags=re.M)
    assert sorted(name for row in table for name in row.split(", ")) == sorted([*LINES, "line"])


@pytest.mark.parametrize("command", ["pip install -e '.[examples]' && python", "pip install -e '.[test]' && pytest"])
def test_readme_has_its_two_commands(command):
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_links_lead_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target


def test_every_page_can_be_reached_from_the_readme():
    reached, open_pages = set(), [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop()
        if page in reached:
            continue
        reached.add(page)
        links = re.findall(r"\]\(([^)#:\s]+\.md)", page.read_text(encoding="utf-8"))
        open_pages += [(page.parent / link).resolve() for link in links if not link.startswith("api/")]
    pages = {*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "lessons").glob("*.md")}
    assert sorted(page.name for page in pages - reached) == ["playground.md"]  # the site links it if it can run


def test_every_promise_names_a_test_that_is_there():
    text = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    promises = [row for row in rows if row[0] != "promise"]
    assert len(promises) > 30
    for promise, holders in promises:
        files = re.findall(r"`(.*?)`", holders)
        assert files, promise
        for file in files:
            assert (ROOT / "tests" / file).exists(), f"{file}, which is to hold: {promise}"


def test_one_version_is_told_everywhere():
    version = re.compile(r"""^(?:__)?version(?:__)?(?:: | = )"?([\d.]+)"?$""", re.M)
    files = ("pyproject.toml", "CITATION.cff", "tinytensor/__init__.py")
    told = {version.search((ROOT / file).read_text(encoding="utf-8")).group(1) for file in files}
    assert len(told) == 1
