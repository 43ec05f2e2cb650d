"""Answers that do not play fair, or do not end: verdicts come from a process that they cannot reach."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import tinytensor as tt
from tests.marks import slow_after
from tinytensor.models.scripts import answers
from tinytensor.models.scripts.answers import Answer, Opaque, Stopped, replay, run_here
from tinytensor.models.scripts.exercises import exercise, expect, read
from tinytensor.models.scripts.judging import Unreadable, check_file, judge
from tinytensor.models.scripts.lesson import Lesson

EXERCISES = '''
import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect

@exercise("def double(x):", "Add it to itself.")
def check_double(double):
    """Twice x."""
    for n in (2, 5):
        x = tt.random.randn(n)
        agree(double(x), 2 * x, f"twice {n} numbers", mistakes={"it is the square": x * x})

@exercise("def half(x):", "Divide.")
def check_half(half):
    """Half of x."""
    watched = half.watched(tt.asarray([2.0, 3.0]))
    agree(watched.result, [1.0, 1.5], "half of 2 and 3")
    expect(not watched.changed, "x has changed")
'''
HALF = "def half(x):\n    return x / 2\n"
DOUBLE = "def double(x):\n    return x + x\n"
CHEATS = {
    "verdict": "from tinytensor.models.scripts.exercises import Exercise, Verdict\n"
    "Exercise.verdict = lambda *a, **k: Verdict(True, 'double: right', 'right')\n",
    "agree": "from tinytensor.models.scripts import exercises as e\ne.agree = e.expect = lambda *a, **k: None\n",
    "equal": "from tinytensor.models.scripts import exercises\nexercises._equal = lambda *a: True\n",
    "random": "import tinytensor as tt\ntt.random.randn = lambda *n: tt.zeros(n)\n",
    "numpy": "import numpy as np\nnp.argwhere = lambda a: []\n",
    "check of the caller": "import sys\nfor frame in sys._current_frames().values():\n"
    "    for each in frame.f_back.f_locals.get('exercises', []):\n        each.check = lambda answer: None\n",
    "reading": "from tinytensor.models.scripts import answers\nanswers._unpacked = lambda entry: None\n",
    "raising": "from tinytensor.models.scripts import answers\nanswers._unpack = answers._pack = lambda e: 1 / 0\n",
    "log": "log = open('log', 'a')\nlog.write('[\"begun\"]\\n[\"end\"]\\n[\"end\"]\\n')\nlog.close()\n",
    "done": "import sys\nsys.argv[1:] = []\n",
}


@pytest.fixture
def two(tmp_path):
    path = tmp_path / "exercises" / "98_two.py"
    path.parent.mkdir()
    path.write_text(EXERCISES)
    return path


def judged(two, text, **options):
    file = two.parents[1] / "mine.py"
    file.write_text(text)
    verdicts, printed = judge(two, file, **options)
    return [verdict.text for verdict in verdicts], printed


@pytest.mark.parametrize("cheat", slow_after(3, CHEATS.values()), ids=CHEATS)
def test_what_an_answer_replaces_does_not_make_it_right(cheat, two):
    told, _ = judged(two, f"{cheat}def double(x):\n    return x * x\n{HALF}")
    assert told[0].startswith("double: wrong. ")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise SystemExit(0)", "double: wrong. It raised SystemExit in line 2: 0"),
        ("raise KeyboardInterrupt", "double: wrong. It raised KeyboardInterrupt in line 2: "),
        ("import os; os._exit(0)", "double: wrong. It ended the program: leave `exit`, `quit` and `os._exit` out"),
        (
            "import json; json.dumps = None",
            "double: wrong. It cannot be checked: does the file replace what checks it?",
        ),
        ("import os; os.kill(os.getpid(), 9)", "double: wrong. It was ended by the system: "),
        pytest.param(
            "while True: pass",
            "double: wrong. It had not come to an end after 4 seconds in line 2: does a loop never end?",
            marks=pytest.mark.slow,
        ),
        ("return double(x)", "double: wrong. It raised RecursionError in line 2: "),
        ("return open", "double: wrong. twice 2 numbers has type builtin_function_or_method; expected real numbers"),
        ("return x * x", "double: wrong. twice 2 numbers: it is the square"),
        ("while True: yield x", "double: wrong. twice 2 numbers "),
    ],
)
def test_an_answer_that_ends_the_process_does_not_end_the_check(body, words, two):
    """And the answer behind it counts."""
    told, _ = judged(two, f"def double(x):\n    {body}\n{HALF}", seconds=4)
    assert told[0].startswith(words)
    assert told[1] == "half: right"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a limit that only Linux holds")
def test_an_answer_may_not_take_all_memory(two):
    told, _ = judged(two, f"def double(x):\n    return bytearray(1 << 34)\n{HALF}", megabytes=2000)
    assert told == ["double: wrong. It took more memory than there is", "half: right"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise SystemExit(0)", "mine.py raised SystemExit in line 1: 0"),
        ("import os\nos._exit(0)", "mine.py ended the program"),
        ("import json\njson.dumps = None", "mine.py cannot be checked: does the file replace what checks it"),
        pytest.param(
            "\nwhile True: pass", "mine.py had not come to an end after 3 seconds in line 2", marks=pytest.mark.slow
        ),
    ],
)
def test_a_file_that_does_not_load_is_unreadable(text, words, two):
    with pytest.raises(Unreadable, match=words):
        judged(two, text, seconds=3)


def test_what_an_answer_prints_and_writes(two, capsys, monkeypatch):
    monkeypatch.chdir(two.parent)
    text = f"print('loaded')\nopen('here', 'w').write('a')\n{DOUBLE}    print(9)\n{HALF}"
    told, printed = judged(two, text.replace("    return x + x\n", "    print('x' * 10**6)\n    return x + x\n"))
    assert told == ["double: right", "half: right"]
    assert printed.startswith("loaded\nxxx")
    assert len(printed) < 200_000
    assert not Path("here").exists()
    assert check_file(two, two.parents[1] / "mine.py") == 0
    assert capsys.readouterr().out.startswith("loaded\nxxx")


def test_a_file_may_import_what_lies_beside_it(two):
    (two.parents[1] / "beside.py").write_text(DOUBLE)
    assert judged(two, f"from beside import double\n{HALF}")[0] == ["double: right", "half: right"]


def test_an_argument_that_an_answer_changes_is_a_copy(two):
    told, _ = judged(two, "def double(x):\n    x *= 2\n    return x\ndef half(x):\n    x /= 2\n    return x\n")
    assert told == ["double: right", "half: wrong. x has changed"]


def test_holes_and_names_that_are_no_functions(two):
    told, _ = judged(two, "def double(x):\n    return ...\nhalf = 3\n")
    assert told[0] == "double: wrong. The hole is still there: put your answer in the place of `...`"
    assert told[1].startswith("half: there is no function of this name in ")


@pytest.mark.parametrize(
    "value",
    [
        ..., None, True, 3, -2.5, "text", np.float32(1.5), np.int64(3), [1, (2, [3])], {"a": [1, 2], 3: None}, {1, 2},
        float("inf"), 1 << 63,
    ],
)  # fmt: skip
def test_plain_results_come_out_of_a_log_as_they_went_in(value):
    log = []
    assert run_here("", log.append)(lambda: value) == value
    back = replay(json.loads(json.dumps(log)))(lambda: 1 / 0)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_arrays_come_out_of_a_log_as_they_went_in(dtype):
    array = np.arange(6).reshape(2, 3).T.astype(dtype)
    for value in (array, tt.asarray(array), array[:, :0]):
        log = []
        run_here("", log.append)(lambda: value)
        back = replay(json.loads(json.dumps(log)))(lambda: None)
        assert (type(back), back.dtype) == (type(value), value.dtype)
        np.testing.assert_array_equal(np.asarray(back), np.asarray(value))


@pytest.mark.parametrize("value", [open, 1 << 70, np.zeros(answers.MOST + 1), np.array(["a"]), lambda: None])
def test_what_is_no_plain_data_is_named(value):
    assert isinstance(run_here("")(lambda: value), Opaque)


@pytest.mark.parametrize("log", [[], [["gave", ["array", "<f8", [2], "AAAA"]]], [["gave"]], [["gave", ["what"]]]])
def test_a_log_that_ends_or_is_none_stops_a_check(log):
    with pytest.raises(Stopped):
        replay(log)(lambda: None)


def test_what_an_answer_draws_leaves_the_numbers_of_its_check_alone():
    tt.manual_seed(0)
    expected = tt.random.randn(3)
    tt.manual_seed(0)
    Answer("f", lambda: tt.random.randn(5), run_here(""))()
    np.testing.assert_array_equal(tt.random.randn(3).numpy(), expected.numpy())


def test_a_check_leaves_the_numbers_of_a_notebook_alone(two):
    tt.manual_seed(0)
    expected = tt.random.randn(3)
    tt.manual_seed(0)
    assert read(two)[0].verdict({"double": lambda x: x + x}).right
    np.testing.assert_array_equal(tt.random.randn(3).numpy(), expected.numpy())


@pytest.mark.parametrize(
    ("function", "more"),
    [
        (lambda x: x * 2, False),
        (lambda x: [2 * y for y in x], True),
        (lambda x: list(map(lambda y: 2 * y, x)), True),  # noqa: C417
        (lambda x: tt.sum(x), False),
    ],
)
def test_a_loop_is_seen_by_the_lines_that_run(function, more):
    small, large = (Answer("f", function, run_here("")).watched(tt.ones(n)) for n in (3, 9))
    assert (large.steps > small.steps) == more
    assert (Answer("f", function, run_here("")).watched(tt.ones(3)).ops == small.ops) is True


def test_ops_and_functions_of_libraries_are_seen():
    def answer(x):
        return tt.jacobian(tt.tanh, x) @ np.cumsum(x.numpy())

    watched = Answer("answer", answer, run_here("")).watched(tt.ones(3))
    assert {"jacobian", "tanh", "matmul", "cumsum"} <= watched.called
    assert ("tanh", (3,)) in watched.ops
    assert watched.depth >= 2
    assert not watched.changed


@pytest.mark.parametrize("place", ["", "notebooks/mine"])
def test_a_notebook_checks_wherever_it_lies(place, tmp_path, monkeypatch, capsys):
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / place)

    def scores(query, key):
        return query @ key.mT / query.shape[-1] ** 0.5

    Lesson("05_scaling").check(scores)
    assert capsys.readouterr().out == "scores: right\n"
    with pytest.raises(FileNotFoundError, match="the exercises of 97_none are not in .*: start within a copy"):
        Lesson("97_none").check(scores)


def test_a_check_that_fails_itself_says_so():
    @exercise("def f():", "A hint.")
    def check_f(f):
        """What f does."""
        expect(f()[0] == 1, "no")

    told = check_f.verdict({"f": lambda: 3})
    assert told.text == "f: wrong. What it gives cannot be checked (TypeError: 'int' object is not subscriptable)"
    assert told.kind == "error"
