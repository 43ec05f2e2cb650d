"""Build the framework: right files pass, holes and mistakes are refused in words, all twelve train a Transformer."""

import difflib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tinytensor as tt
from tinytensor.course import build, drawing, trying
from tinytensor.models.scripts.command_line import UsageError

from .wrong import WRONG

ROOT = Path(__file__).parents[2]
SOLUTIONS = Path(__file__).parent / "solutions"
ENDLESS = {
    "step03_walk": ("        value, parents_done = waiting.pop()\n", "        value, parents_done = waiting[-1]\n")
}


def changed(folder, step, old, new):
    """The solutions, in a folder of their own, with a piece of one file replaced."""
    shutil.copytree(SOLUTIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / f"{step}.py").read_text(encoding="utf-8")
    assert text.count(old) == 1
    (folder / f"{step}.py").write_text(text.replace(old, new), encoding="utf-8")
    return folder


def python(*arguments, cwd):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True)


@pytest.fixture
def tried(monkeypatch):
    """The verdicts on a step, found in this process, which forgets the step's modules."""

    def forget():
        for name in [name for name in sys.modules if name.startswith("step")]:
            del sys.modules[name]

    forget()
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield trying.verdicts
    forget()


def test_a_step_is_its_solution_but_for_the_holes():
    assert len(build.STEPS) == 12
    assert sorted(path.stem for path in SOLUTIONS.glob("*.py")) == list(build.STEPS)
    for step in build.STEPS:
        holes, filled = (
            (folder / f"{step}.py").read_text(encoding="utf-8").splitlines() for folder in (build.HOLES, SOLUTIONS)
        )
        removed = [line[2:] for line in difflib.ndiff(holes, filled) if line.startswith("- ")]
        assert removed
        assert [line for line in removed if "..." not in line] == []
        assert not re.search(r"return \.\.\.|: \.\.\.|= \.\.\.", "\n".join(filled))


@pytest.mark.parametrize("step", build.STEPS)
def test_the_solution_is_right_and_the_hole_is_named(step, tmp_path, tried):
    found = tried(SOLUTIONS, step)
    assert [words for right, words in found if not right] == []
    for name in [name for name in sys.modules if name.startswith("step")]:
        del sys.modules[name]
    folder = tmp_path / "mine"
    shutil.copytree(SOLUTIONS, folder)
    shutil.copy(build.HOLES / f"{step}.py", folder)
    holes = trying.verdicts(folder, step)
    assert len(holes) == len(found)
    for right, words in holes:
        assert not right
        assert "the hole is still there" in words


@pytest.mark.parametrize(("step", "number"), [(step, i) for step in WRONG for i in range(len(WRONG[step]))])
def test_a_mistake_is_refused_in_words(step, number, tmp_path, tried):
    old, new, words = WRONG[step][number]
    found = tried(changed(tmp_path / "mine", step, old, new), step)
    assert [said for right, said in found if not right and words in said] != []


def test_an_engine_that_adds_in_place_is_refused_where_it_walks_by_age(tmp_path, tried):
    add = "            arrived[parent] = arrived[parent] + gradient if parent in arrived else gradient\n"
    in_place = "np.add(arrived[parent], gradient, out=arrived[parent])"
    new = f"            arrived[parent] = {in_place} if parent in arrived else gradient\n"
    walk = changed(tmp_path / "mine", "step03_walk", add, new) / "step03_walk.py"
    text = walk.read_text(encoding="utf-8")
    assert text.count("return found\n") == 1
    walk.write_text(text.replace("return found\n", "return sorted(found, key=lambda v: v.age)\n"), encoding="utf-8")
    node = walk.with_name("step02_node.py")
    text, begun, rest = node.read_text(encoding="utf-8").partition("        self.data, self.wants")
    assert begun
    age = "        self.age = Value.count = getattr(Value, 'count', 0) + 1\n"
    node.write_text(text + age + begun + rest, encoding="utf-8")
    order, (right, words) = tried(walk.parent, "step03_walk")
    assert order[0]
    assert not right
    assert "which `+=` would change" in words


def test_a_rule_may_make_its_own_ones(tmp_path, tried):
    folder = changed(tmp_path / "ones", "step04_broadcast", "xp.broadcast_to(g, shape)", "g * xp.ones(shape)")
    assert all(right for right, _ in tried(folder, "step04_broadcast"))


def test_every_step_has_mistakes():
    assert list(WRONG) == list(build.STEPS)
    assert min(map(len, WRONG.values())) >= 8


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param(
            *ENDLESS["step03_walk"], "it took longer than 3 s: is there an endless loop?", marks=pytest.mark.slow
        ),
        ('"""3. Walk', 'raise SystemExit(0)\n"""3. Walk', "it ended early"),
        ("import numpy as np\n", "import os\n\nos._exit(0)\n", "it ended early"),
        ("import numpy as np\n", "import numpy as np\nimport nowhere\n", "ModuleNotFoundError, line 4 of step03_walk"),
        ("import numpy as np\n", "import numpy as np (\n", "SyntaxError, line 3"),
    ],
    ids=["endless", "SystemExit", "exit", "import", "syntax"],
)  # fmt: skip
def test_a_file_that_does_not_come_to_its_end_is_told(old, new, words, tmp_path):
    seconds = 3.0 if "longer" in words else build.SECONDS
    folder = changed(tmp_path / "mine", "step03_walk", old, new)
    (right, said), *others = build.verdicts(folder, "step03_walk", seconds)
    assert not right
    assert words in said
    assert others == []


def test_an_error_has_the_shapes_that_met(tmp_path, tried):
    wrong = "    arrived = {result: np.ones_like(result.data) @ np.ones((7, 2))}\n"
    folder = changed(tmp_path / "mine", "step03_walk", "    arrived = {result: np.ones_like(result.data)}\n", wrong)
    _, (right, said) = tried(folder, "step03_walk")
    assert not right
    assert "it raised ValueError, line 32 of step03_walk.py, where result has shape (3,): matmul: " in said


def test_build_writes_the_files_and_replaces_none(tmp_path, capsys):
    folder = tmp_path / "a" / "framework"
    assert build.build(folder) == 0
    assert sorted(path.stem for path in folder.iterdir()) == list(build.STEPS)
    assert "12 new files" in capsys.readouterr().out
    (folder / "step05_products.py").write_text("mine")
    with pytest.raises(UsageError, match=r"has all files; try: python -m tinytensor"):
        build.build(folder)
    (folder / "step07_norm.py").unlink()
    assert build.build(folder) == 0
    assert "1 new file;" in capsys.readouterr().out
    assert (folder / "step07_norm.py").read_bytes() == (build.HOLES / "step07_norm.py").read_bytes()
    assert (folder / "step05_products.py").read_text() == "mine"


def test_check_goes_on_to_the_first_mistake(tmp_path, capsys):
    shutil.copytree(SOLUTIONS, tmp_path / "mine")
    shutil.copy(build.HOLES / "step02_node.py", tmp_path / "mine")
    assert build.check(tmp_path / "mine") == 1
    told = capsys.readouterr().out
    assert "step01_op.py\n  ok    Op: right\n" in told
    assert "  WRONG apply: the hole is still there\n" in told
    assert told.endswith("\n--hint behind this command adds a hint\n")
    assert "step03_walk.py" not in told
    assert build.check(tmp_path / "mine", 2, hint=True) == 1
    assert "  WRONG apply: the hole is still there (a hint: " in (told := capsys.readouterr().out)
    assert "--hint" not in told
    assert build.check(tmp_path / "mine", 1) == 0
    (tmp_path / "mine" / "step02_node.py").unlink()
    with pytest.raises(UsageError, match="has no step02_node.py"):
        build.check(tmp_path / "mine")


def test_a_step_after_holes_names_the_steps_to_fill_first(tmp_path, capsys):
    build.build(tmp_path / "holes")
    expected = {2: "step 1", 3: "steps 1 and 2", 7: "steps 1, 2, 3 and 4", 10: None}
    for number, steps in expected.items():
        capsys.readouterr()
        assert build.check(tmp_path / "holes", number) == 1
        printed = capsys.readouterr().out
        assert ("the hole is still there" in printed) == (steps is None)
        assert steps is None or f"WRONG fill {steps} first\n" in printed
        assert "ellipsis" not in printed


def test_the_command_line_tells_mistakes_in_one_line(tmp_path):
    def told(*arguments):
        done = python("-m", "tinytensor.course", *arguments, cwd=tmp_path)
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        return done.returncode, done.stderr

    code, words = told("check", "nowhere")
    assert (code, words) == (2, words)
    assert words.startswith("course: nowhere has no step01_op.py; python -m tinytensor.course build nowhere ")
    code, words = told("check", "nowhere", "13")
    assert code == 2
    assert "must be at most 12, got 13" in words
    assert told()[0] == 2


@pytest.mark.slow
def test_the_student_s_engine_trains_a_transformer_and_draws_it(tmp_path, graphviz_here):
    shutil.copytree(SOLUTIONS, tmp_path / "mine")
    done = python("mine/step12_generate.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"exact match: ([\d.]+)%", done.stdout)[1]) > 90
    picture = (tmp_path / "transformer.svg").read_text(encoding="utf-8")
    for word in ("Your Transformer", "encoder", "decoder", "attention", "feed-forward", "decoder.0.cross.q"):
        assert f">{word}<" in picture or word in picture


def test_the_graph_of_the_student_s_engine_is_computed_anew(tried, monkeypatch):
    monkeypatch.syspath_prepend(str(SOLUTIONS))
    import step01_op
    import step02_node

    before = dict(tt.ops)
    x, w = step02_node.Value([[1.0, 2.0]], wants=True), step02_node.Value([[3.0], [4.0]], wants=True)
    with step02_node.part("first"), step02_node.part("inner"):
        y = step01_op.exp(x * w)
    with step02_node.part("first"):
        z = y + 1.0
    graph = drawing.graph_of(z, {"x": x, "weight": w})
    assert [op.name for op in graph.ops] == ["multiply", "exp", "add"]
    assert [scope.name for scope in graph.scopes] == ["first", "inner"]
    assert {"x", "weight"} <= {value.name for value in graph.values}
    assert tt.ops == before
    with pytest.raises(ValueError, match="that an op has made"):
        drawing.graph_of(x)


def test_the_package_is_loaded_by_nobody_else(tmp_path):
    code = "import sys, tinytensor, tinytensor.models, tinytensor.nn; print([n for n in sys.modules if '.course' in n])"
    done = python("-c", code, cwd=tmp_path)
    assert done.stdout == "[]\n"
