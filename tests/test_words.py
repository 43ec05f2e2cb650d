"""No file has more hits of the lint for prose than tests/words.txt allows; `python -m tests.words` lists them all."""

import pytest

from . import words

PYTHON = '''
"""A layer that is told its size.

It can go

on, or go
on.
"""
def f(x):
    # Loops stand alike,
    # in place
    # of a copy.
    value = "beside"  # so
    raise ValueError(
        f"{x} is no "
        f"{x!r} number, in"
        " silence"
    )
'''
MARKDOWN = """
Sums are made beside
- the turn, where there
  is none

```
beside
```
Who knows PyTorch reads on.
"""
SCRIPT = """
x = "beside" // so
// many words
/* in
 * silence */ y
"""


PACKAGES = sorted({words.package(name) for name in words.files()})


@pytest.mark.parametrize("package", PACKAGES)
def test_prose_is_natural(package):
    allowed = words.budgets()
    over = [
        f"{name}:{line}: {phrase} -> {natural}"
        for name in words.files()
        if words.package(name) == package and len(hits := words.hits(words.ROOT / name)) > allowed.get(name, 0)
        for line, phrase, natural in hits
    ]
    assert not over, "more hits than tests/words.txt allows in these files:\n" + "\n".join(over)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("it.py", PYTHON, ["2 is told", "6 go on", "10 alike", "11 in place of", "15 is no X", "16 in silence"]),
        ("it.md", MARKDOWN, ["2 beside", "3 the turn", "3 where there is none", "9 Who knows"]),
        ("it.cu", SCRIPT, ["2 so many", "4 in silence"]),
    ],
)
def test_a_hit_is_reported_at_its_first_line(name, text, expected, tmp_path):
    (tmp_path / name).write_text(text)
    assert [f"{line} {phrase}" for line, phrase, _ in words.hits(tmp_path / name)] == expected


def test_budgets_only_fall(tmp_path, monkeypatch):
    monkeypatch.setattr(words, "BUDGETS", tmp_path / "words.txt")
    words.BUDGETS.write_text("2 docs/a.md\n5 docs/a.md\n3 nn/gone.py\n1 nn/more.py\n4 nn/less.py\n")
    words.lower({"docs/a.md": 2, "nn/gone.py": 0, "nn/more.py": 7, "nn/less.py": 1, "nn/new.py": 1})
    assert words.BUDGETS.read_text() == "2 docs/a.md\n1 nn/less.py\n1 nn/more.py\n"
