"""Slides: every cell of a lesson is on one, with the pictures and numbers of its run."""

import json
import re
import sys
from pathlib import Path

import pytest

from tinytensor.course import handouts, slides
from tinytensor.models.scripts.command_line import UsageError

pytest.importorskip("jupytext")
pytest.importorskip("latex2mathml")
ROOT = Path(__file__).parents[2]
CELLS = """# %% [markdown]
# # 5. Why?
#
# Because $a < b$, says [lesson 4](04_tokens.py), and <b>so</b> does [a page](https://example.org).

# %%
print("a < b")

# %% [markdown]
# | a | b |
# |---|---|
# | 1 | 2 |

# %%
lesson.number("how much, <exactly>", 1.5)
lesson.number("many", n, ",.0f")
lesson.show("curve", picture)
lesson.show("film.html", film)
"""
PICTURE = "<svg><title>A curve &amp; more</title></svg>"


def of_run(folder):
    folder.mkdir(parents=True)
    (folder / "curve.svg").write_text(PICTURE)
    pictures = {"curve": "curve.svg", "film.html": "film.html"}
    (folder / "lesson.json").write_text(
        json.dumps({"pictures": pictures, "numbers": {"how much, <exactly>": 1.5, "many": 1234567.0}})
    )


def test_a_page_of_words_begins_a_slide_and_has_the_code_behind_it(tmp_path):
    of_run(tmp_path / "run")
    found = json.loads((tmp_path / "run" / "lesson.json").read_text())
    first, second = slides.slides(CELLS, tmp_path / "run", found)
    assert "<h1>5. Why?</h1>" in first
    assert "<math" in first
    assert "says lesson 4, and &lt;b&gt;so&lt;/b&gt; does" in first
    assert '<a href="https://example.org">' in first
    assert "print(&quot;a &lt; b&quot;)" in first
    assert "<table>" in second
    assert "how much, &lt;exactly&gt;: <b>1.5</b>" in second
    assert "many: <b>1,234,567</b>" in second
    assert '<img alt="A curve &amp; more" src="data:image/svg+xml;base64,' in second
    assert "film.html is a page of its own" in second


def test_slides_of_a_lesson_that_has_run_and_of_one_that_has_not(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "05_why.py").write_text(CELLS)
    assert slides.write_slides("05") == 0
    assert "2 slides with 0 pictures" in (told := capsys.readouterr().out)
    assert "the pictures come from a run of the lesson: python 05_why.py" in told
    of_run(tmp_path / "runs" / "lessons" / "05_why")
    assert slides.write_slides("05_why.py") == 0
    assert "2 slides with 2 pictures" in (told := capsys.readouterr().out)
    assert "come from a run" not in told
    page = (tmp_path / "slides" / "05_why.html").read_text(encoding="utf-8")
    assert page.count("<section") == 2
    assert "<title>5. Why?</title>" in page
    assert not re.findall(r'(?:src|href)="https?://(?!example)', page)


def test_a_name_that_is_none_or_several_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="got '05'; there is none here or in examples/lessons"):
        slides.write_slides("05")
    for name in ("05_a.py", "05_b.py"):
        (tmp_path / name).write_text(CELLS)
    with pytest.raises(UsageError, match=r"there are 05_a\.py, 05_b\.py"):
        slides.write_slides("05")


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "lessons").glob("[0-9]*.py")), ids=lambda path: path.stem)
def test_every_lesson_has_slides(path):
    pages = slides.slides(path.read_text(encoding="utf-8"), path.parent, {"pictures": {}, "numbers": {}})
    assert len(pages) >= 3
    assert pages[0].startswith("<div><h1>")


def test_missing_packages_are_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", None)
    with pytest.raises(UsageError, match=r"is not installed; run: pip install"):
        handouts.needed("latex2mathml.converter")
