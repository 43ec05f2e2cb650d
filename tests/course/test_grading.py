"""Grading: whatever a submission is or does, it gets its marks, the others get theirs, and nothing is left behind."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import run
from tinytensor.course import feedback, grading, handouts
from tinytensor.models.scripts.command_line import UsageError

from .submissions import RIGHT, SUBMISSIONS

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ["right_notebook", "broken_notebook"] if importlib.util.find_spec("nbformat") else []
LIMITS = grading.Limits(20.0, 2048, 1)
NOWHERE = {"json": None, "html": None, "gradescope": None}


def command(*arguments, cwd, **environment):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    words = [sys.executable, "-m", "tinytensor.course", *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


def notebook_of(*cells):
    nbformat = pytest.importorskip("nbformat")
    return nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells]))


@pytest.fixture
def homework(tmp_path, monkeypatch):
    """A folder with the homework of the template, and an empty one for submissions."""
    monkeypatch.chdir(tmp_path)
    handouts.new("hw1")
    (tmp_path / "hw1").mkdir()
    return tmp_path


def graded(path):
    return grading.grade_one(path.stem, path, Path("exercises/hw1.py"), {"scores": 2, "weights": 3}, LIMITS)


@pytest.mark.slow
def test_thirty_submissions(homework):
    folder, temporary, home = homework / "hw1", homework / "temporary", homework / "home"
    temporary.mkdir()
    home.mkdir()
    for name, (program, *_) in SUBMISSIONS.items():
        path = folder / f"{name}{'.ipynb' if name in NOTEBOOKS else '.py'}"
        content = notebook_of(*program.split("\n\n\n")) if name == "right_notebook" and NOTEBOOKS else program
        there = (homework / "survived").as_posix()
        path.write_bytes(content if isinstance(content, bytes) else content.replace("SURVIVED", there).encode())
    before = {path: path.read_bytes() for path in homework.rglob("*") if path.is_file()}
    started = time.monotonic()
    done = command(
        "grade", "hw1", "--json", "all.json", "--html", "pages", "--gradescope", "results", "--seconds", "4",
        cwd=homework, TMPDIR=str(temporary), HOME=str(home), SECRET="told to nobody",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - started < 300  # takes twenty seconds; one submission never ends
    assert len(SUBMISSIONS) == 30
    rows = {row["student"]: row for row in json.loads((homework / "all.json").read_text())["submissions"]}
    assert rows.keys() == SUBMISSIONS.keys()
    for name, (_, points, words) in SUBMISSIONS.items():
        row, page = rows[name], (homework / "pages" / f"{name}.html").read_text(encoding="utf-8")
        results = json.loads((homework / "results" / name / "results.json").read_text())
        assert tuple(mark["points"] for mark in row["marks"]) == points, row
        assert sum(points) == results["score"] == sum(test["score"] for test in results["tests"])
        assert f"{name}: {sum(points)} of 5 points" in done.stdout
        told = " ".join([results["output"], *(test["output"] for test in results["tests"])])
        assert words in told, told
        assert f"{sum(points)} of 5 points" in page
        assert "told to nobody" not in json.dumps(row) + page
        assert str(temporary) not in told.replace(results["output"], "")
        assert len(page) < 40_000
    after = {path: path.read_bytes() for path in before}
    assert after == before
    assert list(temporary.iterdir()) == list(home.iterdir()) == []
    assert not (homework / "survived").exists()


def test_the_template_is_right_and_a_hole_in_it_is_not(homework):
    shutil.copy("hw1.py", "hw1/ada.py")
    assert [mark.points for mark in graded(homework / "hw1" / "ada.py").marks] == [2, 3]
    hole = handouts.SOLUTION.sub(r"\1return ...", Path("hw1.py").read_text())
    (homework / "hw1" / "bob.py").write_text(hole)
    marks = graded(homework / "hw1" / "bob.py").marks
    assert [mark.points for mark in marks] == [0, 0]
    assert all("The hole is still there" in mark.words for mark in marks)


def test_other_numbers_for_another_seed_and_the_same_for_the_same(homework):
    text = f"{RIGHT}\nasked = scores\n\ndef scores(query, key):\n    print(query)\n    return asked(query, key)\n"
    (homework / "hw1" / "ada.py").write_text(text)
    first, second = graded(homework / "hw1" / "ada.py"), graded(homework / "hw1" / "ada.py")
    assert first.printed == second.printed
    points, limits = {"scores": 2, "weights": 3}, grading.Limits(20.0, 2048, 2)
    other = grading.grade_one("ada", homework / "hw1" / "ada.py", Path("exercises/hw1.py"), points, limits)
    assert other.printed != first.printed


def test_a_notebook_is_graded_cell_by_cell(homework):
    cells = ["%matplotlib inline\n!ls", "%%bash\nls", "def broken(:", *RIGHT.split("\n\n\n"), "lesson.check(scores)"]
    (homework / "hw1" / "ada.ipynb").write_text(notebook_of(*cells))
    result = graded(homework / "hw1" / "ada.ipynb")
    assert result.points == 5
    assert "line 3: SyntaxError" in result.printed


def test_two_submissions_of_one_name_and_other_files_are_told(homework, capsys):
    for name in ("ada.py", "ada.ipynb", "bob.py"):
        (homework / "hw1" / name).write_text(RIGHT if name.endswith(".py") else notebook_of(RIGHT))
    (homework / "hw1" / "notes.txt").write_text("none")
    (homework / "hw1" / "folder.py").mkdir()
    assert grading.grade(homework / "hw1", None, LIMITS, {**NOWHERE, "html": homework / "pages"}) == 0
    told = capsys.readouterr().out
    assert re.findall(r"^(\S+): 5 of 5", told, flags=re.M) == ["ada.ipynb", "ada.py", "bob"]
    assert "not graded: folder.py" in told
    assert "not graded: notes.txt" in told
    assert sorted(path.name for path in (homework / "pages").iterdir()) == ["ada.ipynb.html", "ada.py.html", "bob.html"]


def test_one_submission_is_graded_as_gradescope_wants_it(homework):
    (homework / "hw1" / "ada.py").write_text(RIGHT)
    grading.grade(homework / "hw1", None, LIMITS, {**NOWHERE, "gradescope": homework / "results"})
    results = json.loads((homework / "results" / "results.json").read_text())
    assert results.keys() == {"score", "execution_time", "output", "output_format", "stdout_visibility", "tests"}
    assert results["tests"][1] == {
        "name": "weights", "score": 3, "max_score": 3, "status": "passed", "output": "weights: right",
        "output_format": "text",
    }  # fmt: skip


def test_a_page_of_feedback_runs_nothing_of_the_student_s():
    mark = grading.Mark("scores", 0, 2, False, "<script>alert(1)</script>")
    text = feedback.page("hw1", grading.Graded("<b>ada", "ada.py", (mark,), "</pre><img src=x>", 1.0))
    assert "<script>alert" not in text
    assert "<b>ada" not in text
    assert "<img" not in text
    assert not re.findall(r"https?://(?!www\.w3\.org/)", text)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: Path("exercises/hw1.py").unlink(), "there is no exercises/hw1.py; name the file of exercises"),
        (lambda: Path("hw1").rmdir(), "is no folder of submissions"),
        (lambda: None, "hw1 has no submissions; they end in .py or .ipynb"),
        (lambda: Path("exercises/hw1.py").write_text("POINTS = {}"), "declares no exercise"),
    ],
)
def test_what_cannot_be_graded_is_told_in_one_line(homework, change, words):
    change()
    with pytest.raises(UsageError, match=re.escape(words)):
        grading.grade(Path("hw1"), None, LIMITS, NOWHERE)


def test_points_are_of_exercises(homework):
    text = Path("exercises/hw1.py").read_text()
    Path("exercises/hw1.py").write_text(text.replace('{"scores": 2, "weights": 3}', '{"score": 2}'))
    with pytest.raises(UsageError, match="POINTS in .* names score; there are scores, weights"):
        grading.points_of(Path("exercises/hw1.py"))
    Path("exercises/hw1.py").write_text(text.replace('{"scores": 2, "weights": 3}', '{"scores": 0.5}'))
    assert grading.points_of(Path("exercises/hw1.py")) == {"scores": 0.5, "weights": 1}
    Path("exercises/hw1.py").write_text(text.replace('{"scores": 2, "weights": 3}', '{"scores": "2"}'))
    with pytest.raises(UsageError, match="scores has '2'; expected a number from 0"):
        grading.points_of(Path("exercises/hw1.py"))


def test_new_writes_a_homework_that_runs_and_replaces_none(homework, capsys):
    assert run([sys.executable, "hw1.py"], cwd=homework, text=True).returncode == 0
    assert (homework / "runs" / "lessons" / "hw1" / "weights.svg").exists()
    with pytest.raises(UsageError, match=r"hw1\.py is there already"):
        handouts.new("hw1")
    with pytest.raises(UsageError, match="expected a name such as hw1"):
        handouts.new("../hw2")
    assert "NAME" not in Path("hw1.py").read_text() + Path("exercises/hw1.py").read_text()


def test_a_student_s_notebook_has_holes_and_no_answers(homework):
    nbformat = pytest.importorskip("nbformat")
    assert handouts.student("hw1") == 0
    notebook = nbformat.read("student/hw1.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert code.count("return ...") == 2
    assert "SOLUTION" not in code
    assert "key.mT" not in code
    assert notebook.cells[0].source.startswith("# hw1: ")
    assert handouts.student("hw1.py") == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (handouts.END, "", "line 37: ### BEGIN SOLUTION has no partner; no notebook was written"),
        (handouts.BEGIN, "", "### END SOLUTION has no partner"),
        ("SOLUTION", "ANSWER", "has no answer to leave out: put ### BEGIN SOLUTION"),
        ("def weights(", "def wheights(", "has the exercise weights, and hw1.py no such function"),
    ],
)
def test_a_homework_that_would_give_answers_away_is_refused(homework, old, new, words):
    pytest.importorskip("nbformat")
    text = Path("hw1.py").read_text()
    Path("hw1.py").write_text(
        text.replace(old, new) if old == "SOLUTION" else text[::-1].replace(old[::-1], new[::-1], 1)[::-1]
    )
    with pytest.raises(UsageError, match=re.escape(words)):
        handouts.student("hw1")
    assert not Path("student/hw1.ipynb").exists()


def test_missing_packages_are_told(homework, monkeypatch):
    monkeypatch.setitem(sys.modules, "jupytext", None)
    with pytest.raises(UsageError, match=r"jupytext is not installed; run: pip install"):
        handouts.student("hw1")
