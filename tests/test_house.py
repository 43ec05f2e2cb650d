"""Budgets of code lines: no part of the code grows by accident. `python benchmarks/house.py --code` prints the counts.

If a budget is exceeded, make the code shorter. A change that is worth its lines raises the number here, and its commit
says what they buy; a change that removes lines lowers it.
"""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import house  # noqa: E402

from . import mutants  # noqa: E402

CODE = {  # the rows of `python benchmarks/house.py --code`
    "PyTorch's names": 873,
    "framework to build": 828,
    "course": 630,
    "engine room": 8609,
    "pictures": 10815,
    "tools": 3392,
    "ONNX export": 547,
    "data": 2677,
    "training": 3317,
    "models": 3295,
    "layers": 6619,
    "core and ops": 6094,
    "library": 47696,
    "tests": 57127,
    "examples": 5826,
    "benchmarks": 5111,
    "JavaScript, CSS, CUDA": 3021,
    "recognisers of layers": 588,
}
REPLACED = {"speed.switches", "Replaceable._tell", "Fuser.whole"}  # with these the engine room registers itself


@pytest.fixture(scope="module")
def counts():
    return house.code(ROOT)


@pytest.mark.slow
@pytest.mark.parametrize("part", CODE)
def test_code_lines_are_within_the_budget(part, counts):
    assert counts[part] <= CODE[part], f"{part}: {counts[part]} code lines; the budget is {CODE[part]}"


@pytest.mark.slow
def test_each_part_has_a_budget(counts):
    assert list(counts) == list(CODE)


def test_code_lines_are_counted_without_comments_docstrings_and_blank_lines(tmp_path):
    source = [
        '"""A module,', 'documented."""', "", "# comment", "x = (", "    # comment", '    """a', "", 'b"""', ")", "",
        "class C:", '    """A class."""', "", "    y: int = 1", '    """An attribute."""',
    ]  # fmt: skip
    (tmp_path / "it.py").write_text("\n".join(source))
    (tmp_path / "it.js").write_text("// comment\n\nx\n")
    assert house.lines(tmp_path / "it.py") == 7
    assert house.lines(tmp_path / "it.js") == 3


def test_a_folder_shows_what_a_reader_looks_for():
    """`ls tinytensor` and `ls nn`: less common subjects are in subfolders."""
    assert len(list((ROOT / "tinytensor").glob("*.py"))) <= 19
    assert len(list((ROOT / "nn").glob("*.py"))) <= 28


def test_the_files_that_mutants_break_and_their_tests_are_there():
    for subject in mutants.SUBJECTS.values():
        for names in subject:
            assert [path for path in mutants.paths(names) if not (ROOT / path).exists()] == []


def test_mutants_are_made_of_a_checkout_that_git_does_not_know(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    copy = mutants.copy(tmp_path / "copy")
    assert (copy / "tinytensor" / "nn").is_symlink()
    assert (copy / "tests" / "mutants.py").exists()
    assert not any((copy / name).exists() for name in (".git", "tests/__pycache__", "tinytensor/fast/texts.txt"))


@pytest.mark.parametrize("code", ["import not_there", "def test_it():\n    import not_there.x"], ids=["file", "test"])
def test_mutants_name_a_package_that_their_tests_lack(code, tmp_path):
    (tmp_path / "test_it.py").write_text(code)
    told = mutants.pytest(tmp_path, ["test_it.py"], None)
    assert told.endswith(": not_there is not installed; run: pip install -e '.[test]'")
    assert told.startswith(("ERROR test_it.py", "FAILED test_it.py::test_it"))


def test_all_files_are_counted():
    assert len(list(house.files(ROOT, house.LIBRARY + house.OTHERS))) > 900


def test_the_engine_room_replaces_nothing():
    """A faster way goes through a door that the textbook names: `@may_be_faster`, or `.forward` of an op."""
    assert {place.split(": ")[-1] for place in house.replaced(ROOT)} == REPLACED
    assert 10 <= len(house.doors(ROOT)) <= 20


def test_what_is_replaced_is_seen(tmp_path):
    (tmp_path / "nn" / "fast").mkdir(parents=True)
    (tmp_path / "nn" / "fast" / "it.py").write_text(
        "from ..layers import Linear\nfrom ..functional import topk\nfrom .other import Own\n"
        "Linear.forward = 1\ntopk._scale, x = 2, 3\nLinear.table[4] = 5\nOwn.forward = 6\nLinear.forward.faster = 7\n"
    )
    found = [place.split(": ")[1] for place in house.replaced(tmp_path)]
    assert found == ["Linear.forward", "topk._scale", "Linear.table"]
