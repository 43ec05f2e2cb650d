"""How files of the repository become pages: where links lead, and what makes a lesson run again."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from tinytensor.models.scripts import exercises

ROOT = Path(__file__).parents[2]


@pytest.fixture
def module(monkeypatch):
    """A module of those that build the site."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))
    yield importlib.import_module
    for name in ("links", "notebooks"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("written", "page"),
    [
        ("[x](../tinytensor/engine.py)", "[x](/source/tinytensor/engine.py.md)"),
        ("[x](../examples/lessons/05_scaling.py)", "[x](/lessons/05_scaling.ipynb)"),
        (
            "[x](../examples/lessons/exercises/05_scaling.py)",
            "[x](/source/examples/lessons/exercises/05_scaling.py.md)",
        ),
        ("[x](promises.md#gradients)", "[x](/promises.md#gradients)"),
        ("[x](lessons/index.md)", "[x](/lessons/index.md)"),
        ("[x](../README.md)", "[x](/readme.md)"),
        ("![x](pictures/lines.svg)", "![x](/pictures/lines.svg)"),
        ("[x]: ../nn/module.py", "[x]: /source/nn/module.py.md"),
        ("[x](../nn/functional)", "[x](/source/nn/functional/index.md)"),
        ("[x](#here), [y](https://example.org/z.py)", "[x](#here), [y](https://example.org/z.py)"),
        ("`[x](../nn/module.py)`", "`[x](../nn/module.py)`"),
        ("```\n[x](../nn/module.py)\n```", "```\n[x](../nn/module.py)\n```"),
    ],
)
def test_links_lead_to_pages(module, written, page):
    assert module("links").Links().in_text(written, ROOT / "docs" / "reading.md") == page


def test_a_link_to_nothing_is_an_error(module):
    with pytest.raises(FileNotFoundError, match=r"docs/reading\.md: a link to \.\./nothing\.py"):
        module("links").Links().in_text("[x](../nothing.py)", ROOT / "docs" / "reading.md")


def test_a_lesson_runs_when_it_or_the_code_of_the_library_changed(module, tmp_path, monkeypatch):
    pytest.importorskip("nbclient")
    notebooks = module("notebooks")
    runs = []
    monkeypatch.setattr(notebooks, "_run", lambda notebook, path, work: runs.append(path.name))
    library = ["one"]
    monkeypatch.setattr(notebooks, "code_of_the_library", lambda: library[0])
    lesson = tmp_path / "01_lesson.py"
    for text, code in (("x = 1", "one"), ("x = 1", "one"), ("x = 2", "one"), ("x = 2", "two")):
        lesson.write_text(f"# %%\n{text}\n", encoding="utf-8")
        library[0] = code
        notebooks.executed(lesson, tmp_path, run=True)
    assert len(runs) == 3
    assert len(list(tmp_path.glob("*.ipynb"))) == 1


def test_prose_is_no_code(module, tmp_path):
    pytest.importorskip("nbclient")
    import ast

    dumps = set()
    for text in ("def f():\n    '''One.'''\n    return 1\n", "def f():\n    '''Two.'''\n    # why\n    return 1\n"):
        (tmp_path / "a.py").write_text(text, encoding="utf-8")
        dumps.add(ast.dump(module("notebooks")._without_docstrings(tmp_path / "a.py")))
    assert len(dumps) == 1


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "lessons").glob("[0-9]*.py")), ids=lambda path: path.stem)
def test_a_notebook_to_download_has_the_exercises_and_what_checks_them(module, path):
    pytest.importorskip("jupytext")
    cells = json.loads(module("notebooks").to_download(path))["cells"]
    assert "".join(cells[0]["source"]).startswith("# ")
    assert not any(cell.get("outputs") for cell in cells)
    for each in exercises.read(path.parent / "exercises" / path.name):
        (hole,) = [i for i, cell in enumerate(cells) if f"lesson.check({each.name})" in "".join(cell["source"])]
        compile("".join(cells[hole]["source"]), path.stem, "exec")
        told = "".join(cells[hole - 1]["source"])
        assert all(words in told for words in (each.task, *each.hints))
