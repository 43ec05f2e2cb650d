"""The names of the array API and of PyTorch: each is there, or says what to write, or is left out for a reason.

Of layers and the functions behind them each is there or left out for a reason, and may say what to write as well.

The lists are written by `python benchmarks/names.py --write`; `docs/names.md` has the rule.
"""

import sys
from pathlib import Path

import pytest

import tinytensor as tt

FOLDER = Path(__file__).parent / "names"
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from names import SPACES, find, left_out, public_names  # noqa: E402

REASONS = left_out()
LISTS = {file: (FOLDER / f"{file}.txt").read_text(encoding="utf-8").split() for file in SPACES}
WITH_A_REASON = ("torch_nn", "torch_nn_functional")  # where a hint alone is not enough
NAMES = [(file, name) for file, names in LISTS.items() for name in names]


def has_hint(ours, name):
    """Whether the error about the name says what to write."""
    holder = tt.ones(1) if ours.endswith(".Tensor") else find(ours)
    try:
        getattr(holder, name)
    except AttributeError as error:
        return f"has no attribute {name!r}: " in str(error)
    return False


def test_the_lists_are_long():
    assert len(NAMES) > 1000
    assert all(REASONS.values())


@pytest.mark.parametrize("file", SPACES)
def test_each_name_is_one_of_three(file):
    ours = SPACES[file][1]
    lost = []
    for name in LISTS[file]:
        ways = [hasattr(find(ours), name) or hasattr(tt.ones(1), name) * ours.endswith(".Tensor")]
        ways += [has_hint(ours, name) and file not in WITH_A_REASON, f"{file}.{name}" in REASONS]
        if sum(ways) != 1:
            lost.append((name, dict(zip(("there", "hint", "left out"), ways))))
    assert not lost


def test_only_names_of_the_lists_are_left_out():
    assert set(REASONS) <= {f"{file}.{name}" for file, name in NAMES}


def test_the_documents_give_the_reasons():
    page = (FOLDER.parents[1] / "docs" / "left-out.md").read_text(encoding="utf-8")
    internal = "base classes, options and helpers of PyTorch's own"
    for reason in {REASONS[f"{file}.{n}"] for file, n in NAMES if file in WITH_A_REASON and f"{file}.{n}" in REASONS}:
        subject, _, why = reason.partition(": ")
        assert reason.startswith(internal) or f"| {subject} | {why} |" in page, reason


def test_a_name_without_a_place_is_found(monkeypatch):
    monkeypatch.setitem(LISTS, "torch_nn", ["Linear", "Conv9d"])
    with pytest.raises(AssertionError, match="Conv9d"):
        test_each_name_is_one_of_three("torch_nn")
    monkeypatch.setitem(LISTS, "torch_nn", ["Linear"])
    monkeypatch.setitem(REASONS, "torch_nn.Linear", "it is there")
    with pytest.raises(AssertionError, match="Linear"):
        test_each_name_is_one_of_three("torch_nn")


def test_the_lists_are_of_what_is_installed():
    """Of another version they may differ a little; a name that it does not have at all was made up."""
    pytest.importorskip("torch")
    for file, (theirs, _) in SPACES.items():
        listed = set(LISTS[file])
        assert len(listed & set(public_names(theirs))) >= 0.9 * len(listed), file
