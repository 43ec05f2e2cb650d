"""How files of the repository become pages: where links lead, and what makes a lesson run again."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

from tinytensor.models.scripts import exercises

ROOT = Path(__file__).parents[2]


@pytest.fixture
def results(module, monkeypatch):
    """The module that runs scripts, without seconds for a hash of the library."""
    results = module("results")
    monkeypatch.setattr(results, "code_of_the_library", lambda: "some")
    return results


@pytest.fixture
def module(monkeypatch):
    """A module of those that build the site."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))
    yield importlib.import_module
    for name in ("links", "notebooks", "results", "stage", "playground", "api", "source_pages"):
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


@pytest.mark.parametrize("address", ["", "https://example.org/pyodide"])
def test_the_page_with_an_editor_is_there_if_pyodide_has_an_address(module, address, monkeypatch):
    pytest.importorskip("nbclient")
    monkeypatch.setenv("TINYTENSOR_PYODIDE", address)
    stage = module("stage")
    pages = stage.written(module("links").Links())
    menu = stage.navigation(pages)
    named = [name for name, text in pages.items() if b"playground" in text]
    assert ("playground.md" in pages, "\nplayground\n" in menu) == (bool(address), bool(address))
    assert named == (["index.md", "playground.md"] if address else [])
    assert module("playground").address() == ("https://example.org/pyodide/" if address else "")
    assert menu.index("\nstart\n") < menu.index("\npromises\n") < menu.index("\ngood-to-know\n")


def test_a_link_to_nothing_is_an_error(module):
    with pytest.raises(FileNotFoundError, match=r"docs/reading\.md: a link to \.\./nothing\.py"):
        module("links").Links().in_text("[x](../nothing.py)", ROOT / "docs" / "reading.md")


def test_a_lesson_runs_when_it_or_the_code_of_the_library_changed(module, tmp_path, monkeypatch):
    results = module("results")
    runs = []
    monkeypatch.setattr(results, "_run", lambda path, work, target: (runs.append(path), target.write_text('["1"]')))
    library = ["one"]
    monkeypatch.setattr(results, "code_of_the_library", lambda: library[0])
    lesson = tmp_path / "01_lesson.py"
    for text, code in (("x = 1", "one"), ("x = 1", "one"), ("x = 2", "one"), ("x = 2", "two")):
        lesson.write_text(f"# %%\n{text}\n", encoding="utf-8")
        library[0] = code
        assert results.printed_by(lesson, tmp_path) == ["1"]
    assert len(runs) == 3
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_prose_is_no_code(module, tmp_path):
    import ast

    dumps = set()
    for text in ("def f():\n    '''One.'''\n    return 1\n", "def f():\n    '''Two.'''\n    # why\n    return 1\n"):
        (tmp_path / "a.py").write_text(text, encoding="utf-8")
        dumps.add(ast.dump(module("results")._without_docstrings(tmp_path / "a.py")))
    assert len(dumps) == 1


CELLS = """# %% [markdown]
# # A title

# %%
import inspect
print("one")


def twice(x):
    return 2 * x

# %% [markdown]
# Prose.

# %%
print(__name__, inspect.getsource(twice).strip().endswith("2 * x"))

# %%
{last}
"""


def test_a_script_runs_cell_by_cell_as_python_runs_it(results, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(CELLS.format(last="x = 1"), encoding="utf-8")
    assert results.printed_by(script, tmp_path / "kept") == ["one\n", "__main__ True\n", ""]


@pytest.mark.parametrize(
    ("last", "message"),
    [("1 / 0", 'script.py", line 19'), ("import warnings; warnings.warn('old')", "UserWarning: old")],
)
def test_a_script_that_fails_names_the_line(results, tmp_path, last, message):
    script = tmp_path / "script.py"
    script.write_text(CELLS.format(last=last), encoding="utf-8")
    with pytest.raises(RuntimeError, match=re.escape(message)):
        results.printed_by(script, tmp_path / "kept")
    assert not list((tmp_path / "kept").glob("*.json"))


def test_a_notebook_has_what_its_cells_print_and_draw_in_their_order(module, tmp_path, monkeypatch):
    pytest.importorskip("nbclient")
    notebooks = module("notebooks")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.svg").write_text("<svg/>")
    monkeypatch.setattr(notebooks, "printed_by", lambda path, results: ["1\npicture: a.svg\n2\n", "", "3\n"])
    script = tmp_path / "script.py"
    script.write_text(CELLS.format(last="x = 1"), encoding="utf-8")
    cells = [cell for cell in notebooks.with_results(script, tmp_path, run=True).cells if cell.cell_type == "code"]
    assert [[output.output_type for output in cell.outputs] for cell in cells] == [
        ["stream", "display_data", "stream"], [], ["stream"],
    ]  # fmt: skip
    assert cells[0].outputs[1].data == {"image/svg+xml": "<svg/>"}


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "lessons").glob("[0-9]*.py")), ids=lambda path: path.stem)
def test_the_code_cells_of_a_lesson_are_those_of_its_notebook(module, path):
    jupytext = pytest.importorskip("jupytext")
    text = path.read_text(encoding="utf-8")
    notebook = [cell.source for cell in jupytext.reads(text, fmt="py:percent").cells if cell.cell_type == "code"]
    found = [source for _, source in module("results").code_cells(text)]
    assert [source.strip() for source in found] == [source.strip() for source in notebook]


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
