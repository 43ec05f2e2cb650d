"""What a lesson's exercises say of an answer, and what a lesson keeps."""

import sys
import types

import numpy as np
import pytest

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.scripts.command_line import UsageError
from tinytensor.models.scripts.exercises import Wrong, agree, exercise, expect, give_hint, read
from tinytensor.models.scripts.judging import check_file
from tinytensor.models.scripts.lesson import Lesson, Shown
from tinytensor.nn import visualize


@pytest.mark.parametrize(
    ("got", "expected", "words"),
    [
        (None, 1.0, "is None: is a `return` missing?"),
        (..., 1.0, "the hole is still there"),
        ("text", 1.0, "has type str; expected real numbers"),
        (np.array([1j]), [1.0], "has type ndarray; expected real numbers"),
        ([[1.0, 2.0, 3.0]], [[1.0], [2.0], [3.0]], r"has shape \(1, 3\); expected \(3, 1\); it looks transposed"),
        ([1.0, 2.0], [1.0], r"has shape \(2,\); expected \(1,\)$"),
        ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 3.0], [2.0, 4.0]], r"is 2 at \[0, 1\]; expected 3; it looks transposed"),
        ([4.0, 8.0, -12.0], [1.0, 2.0, -3.0], r"every number is 4 times what it should be"),
        ([1.0, np.nan], [1.0, 2.0], r"is nan at \[1\]; expected 2; it is not finite"),
        ([1.0, 2.0, 5.0], [1.0, 3.0, 4.0], r"is 2 at \[1\]; expected 3 \(2 of 3 numbers differ\)"),
        (2.0, 1.0, r"^what is 2; expected 1$"),
        ([[1, 1]], [[True, False]], r"^what is True at \[0, 1\]; expected False \(1 of 2 numbers differ\)$"),
    ],
)
def test_agree_says_how_an_answer_is_wrong(got, expected, words):
    with pytest.raises(Wrong, match=words):
        agree(got, expected, "what")


@pytest.mark.parametrize("got", [tt.tensor([1.0, -np.inf]), np.array([1.0 + 1e-7, -np.inf]), [1, -np.inf]])
def test_agree_takes_what_is_near_enough(got):
    agree(got, [1.0, -np.inf], "what")
    agree([np.nan], [np.nan], "what")
    agree(np.zeros((0, 2)), np.zeros((0, 2)), "what")


EXERCISES = '''
from tinytensor.models.scripts.exercises import agree, exercise

@exercise("def double(x):", "Add it to itself.", "Or multiply.")
def check_double(double):
    """Twice x."""
    agree(double(2.0), 4.0, "twice 2")

@exercise("def half(x):", "Divide.", "By two.")
def check_half(half):
    """Half of x."""
    agree(half(2.0), 1.0, "half of 2")
'''


@pytest.fixture
def two(tmp_path):
    path = tmp_path / "exercises" / "99_two.py"
    path.parent.mkdir()
    path.write_text(EXERCISES)
    return path


@pytest.mark.parametrize(
    ("answers", "code", "lines"),
    [
        ("def double(x): return 2 * x\ndef half(x): return x / 2\n", 0, ["double: right", "half: right"]),
        (
            "def double(x):\n    return 3 * x\n",
            1,
            [
                "double: wrong. twice 2 is 6; expected 4 (--hint double gives a hint)",
                "half: there is no function of this name in {path} (--hint half gives a hint)",
            ],
        ),
        (
            "def double(x):\n    return x.twice()\ndef half(x): return x / 2\n",
            1,
            [
                "double: wrong. It raised AttributeError in line 2: 'float' object has no attribute 'twice' "
                "(--hint double gives a hint)",
                "half: right",
            ],
        ),
    ],
)
def test_a_file_of_answers_is_told_line_by_line_what_is_wrong(two, tmp_path, capsys, answers, code, lines):
    path = tmp_path / "mine.py"
    path.write_text(answers)
    assert check_file(two, path) == code
    assert capsys.readouterr().out.splitlines() == [line.format(path=path) for line in lines]


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot read"), ("def (", "line 1: "), ("\n1 / 0", "raised ZeroDivisionError in line 2")],
)
def test_a_file_that_does_not_run_is_a_mistake_of_one_line(two, tmp_path, content, words):
    path = tmp_path / "mine.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=words) as raised:
        check_file(two, path)
    assert "\n" not in str(raised.value)


def test_hints_come_one_at_a_time_and_mistakes_say_what_there_is(two, capsys):
    assert give_hint(read(two), "double") == give_hint(read(two), "double", "2") == 0
    assert capsys.readouterr().out == "hint 1 of 2: Add it to itself.\nhint 2 of 2: Or multiply.\n"
    with pytest.raises(UsageError, match="there are double, half"):
        give_hint(read(two), "triple")
    for number in ("0", "3", "two"):
        with pytest.raises(UsageError, match="hints 1 to 2"):
            give_hint(read(two), "half", number)


def test_expect_and_a_name_of_the_check():
    with pytest.raises(Wrong, match="as it is said"):
        expect(False, "as it is said")
    expect(True, "")

    @exercise("def f(x):", "A hint.")
    def check_f(f):
        """What f
        is to do."""

    assert (check_f.name, check_f.task, check_f.hints) == ("f", "What f is to do.", ("A hint.",))


def test_a_notebook_checks_functions_and_shows_what_was_saved(two, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lesson = Lesson("99_two")

    def double(x):
        return x + x

    lesson.check(double)
    assert capsys.readouterr().out == "double: right\n"
    with pytest.raises(ValueError, match="triple is no exercise of 99_two; there are double, half"):
        lesson.check(type("F", (), {"__name__": "triple"})())
    displayed = notebook(monkeypatch)
    assert lesson.show("loss", visualize.attention_mask(np.eye(2, dtype=bool))) is None  # a last line shows its value
    (shown,) = displayed
    assert shown._repr_mimebundle_()["image/svg+xml"] == (tmp_path / "runs/lessons/99_two/loss.svg").read_text()
    assert lesson.number("a third", tt.tensor(1 / 3), ".2f") is None
    assert capsys.readouterr().out == "a third: 0.33\n"
    assert not (tmp_path / "runs/lessons/99_two/lesson.json").exists()


def notebook(monkeypatch):
    """Code runs as in a notebook from now on; the list of what it displays."""
    shell, displayed = types.ModuleType("IPython"), []
    shell.get_ipython = lambda: types.SimpleNamespace(kernel=None)
    shell.display = types.ModuleType("IPython.display")
    shell.display.display = displayed.append
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", shell.display)
    return displayed


def linear(seed, size=2):
    tt.manual_seed(seed)
    return nn.Linear(size, 1)


def test_what_was_trained_is_trained_once_until_its_text_or_seed_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    times = []

    def train(model):
        times.append(1)
        model.weight.data = model.weight.detach() + 1.0

    first = Lesson("99_two").trained(linear(0), train)
    second = Lesson("99_two").trained(linear(0), train)
    assert len(times) == 1
    other = Lesson("99_two").trained(linear(1), train)
    assert times == [1, 1]
    assert abs(other.weight - first.weight).max() > 0.01
    np.testing.assert_array_equal(first.weight.numpy(), second.weight.numpy())
    assert not second.training

    def train(model):
        times.append(2)

    Lesson("99_two").trained(linear(0), train)
    Lesson("99_two").trained(linear(0, size=3), train)
    assert times == [1, 1, 2, 2]


def test_a_page_is_shown_within_a_page(tmp_path):
    (tmp_path / "film.html").write_text('<p class="a">film</p>')
    bundle = Shown(tmp_path / "film.html")._repr_mimebundle_()
    assert 'srcdoc="&lt;p class=&quot;a&quot;&gt;film&lt;/p&gt;"' in bundle["text/html"]
