"""The things that docs/teaching.md names are there: weeks, exercises, steps, marks, a cell for nbgrader."""

import re
from pathlib import Path

import pytest

from tinytensor.course import build, handouts
from tinytensor.models.scripts import exercises

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")


def test_the_weeks_have_all_lessons_and_their_exercises():
    weeks = re.findall(r"^\| (\d+) \| (\[.*?) \| (.*?) \| (.*?) \| (.*?) ?\|$", PAGE, flags=re.M)
    assert [int(week) for week, *_ in weeks] == list(range(1, 15))
    lessons = [path.name for path in sorted((ROOT / "examples" / "lessons").glob("[0-9]*.py"))]
    assert sorted(name for _, cell, *_ in weeks for name in re.findall(r"lessons/(\S+\.py)", cell)) == lessons
    for _, cell, _, homework, _ in weeks:
        there = [
            each.name
            for name in re.findall(r"lessons/(\S+\.py)", cell)
            for each in exercises.read(ROOT / "examples" / "lessons" / "exercises" / name)
        ]
        named = re.findall(r"`(\w+)`", homework)
        assert named
        assert [name for name in named if name not in there] == []
    assert [int(step) for *_, step in weeks if step for step in re.findall(r"\d+", step)] == list(range(1, 13))


def test_the_steps_are_those_of_the_framework():
    assert re.findall(r"^\| \d+ \| `(step\w+)\.py` \|", PAGE, flags=re.M) == list(build.STEPS)
    assert handouts.BEGIN in PAGE
    assert handouts.END in PAGE


def test_the_cell_for_nbgrader_raises_what_a_check_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    handouts.new("hw1")
    (cell,) = re.findall(r"```py\n(.*?)```", PAGE, flags=re.S)
    right = {}
    exec((tmp_path / "hw1.py").read_text().partition("# %% [markdown]\n# ## What it looks like")[0], right)
    exec(cell, right)
    with pytest.raises(AssertionError, match=r"scores: wrong\. .*expected"):
        exec(cell, {**right, "scores": lambda query, key: key @ query.mT})
