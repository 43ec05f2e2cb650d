"""The budget of lines: no wing of the house grows unless an issue grants it. `python benchmarks/house.py` prints them.

When a budget is exceeded, the code is to change. What adds 300 lines says in its commit what that buys.
"""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import house  # noqa: E402

from . import mutants  # noqa: E402

LINES = {
    "room of PyTorch's names": 996,
    "course": 955,
    "framework to build": 1251,
    "core and ops": 9050,
    "layers": 10826,
    "models": 4725,
    "engine room": 8749,
    "pictures": 18175,
    "files in ONNX": 712,
    "data": 4021,
    "training": 14908,
}
REPLACED = {"speed.switches", "Replaceable._tell"}  # by which the textbook is told that there is an engine room


@pytest.mark.parametrize("wing", LINES)
def test_a_wing_is_no_larger_than_its_budget(wing):
    lines = sum(house.wings(ROOT)[wing].values())
    assert lines <= LINES[wing], f"{wing}: {lines} lines; the budget is {LINES[wing]}"


def test_a_folder_shows_what_a_reader_looks_for():
    """`ls tinytensor` and `ls nn`: what few readers look for has folders of its own."""
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


def test_every_file_is_in_a_wing():
    counted = sum(len(files) for files in house.wings(ROOT).values())
    assert counted == len(list(house.files(ROOT))) > 300


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
