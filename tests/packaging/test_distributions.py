"""What is built from this tree: a wheel with one package, and a source distribution that passes its own tests."""

import os
import re
import sys
import tomllib
import zipfile

import pytest

from ..test_readme import snippets
from .conftest import ROOT, run


def files_below(folder):
    """The files of a folder as paths from beside it, links followed."""
    paths = [os.path.join(place, file) for place, _, files in os.walk(folder, followlinks=True) for file in files]
    return {os.path.relpath(path, folder.parent).replace(os.sep, "/") for path in paths}


def files_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}


def test_the_wheel_holds_one_package_and_all_of_it(wheel, copy_of_tree):
    names = files_in(wheel)
    assert {name.split("/")[0] for name in names} == {"tinytensor"}
    assert names == files_below(copy_of_tree() / "tinytensor")
    for name in ("py.typed", "nn/__init__.py", "models/py.typed", "fast/kernels.cu", "nn/visualize/explorer.js"):
        assert f"tinytensor/{name}" in names


@pytest.mark.parametrize("text", [True, False], ids=["text in their place", "nothing in their place"])
def test_a_wheel_without_the_links_is_the_same(wheel, copy_of_tree, tmp_path, text):
    checkout = copy_of_tree()
    for name in ("nn", "models"):
        (checkout / "tinytensor" / name).unlink()
        if text:
            (checkout / "tinytensor" / name).write_text(f"../{name}")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", tmp_path / "built", ".", cwd=checkout)
    (built,) = (tmp_path / "built").iterdir()
    assert files_in(built) == files_in(wheel)


def test_the_readme_beside_a_users_own_modules(wheel, new_environment, tmp_path):
    """Every snippet, from the wheel, beside a `models.py` and an `nn.py`, which stay what the user wrote.

    Snippets draw, so the wheel comes with the extra that brings Graphviz.
    """
    python = new_environment(f"tinytensor-textbook[viz] @ {wheel.as_uri()}", cwd=tmp_path)
    folder = tmp_path / "a course"
    folder.mkdir()
    for name in ("models", "nn"):
        (folder / f"{name}.py").write_text(f"whose = 'the {name}.py of a user'\n")
    code = "\n".join(snippets("README.md"))
    before = "import models as mine, nn as too\nprint(mine.whose, too.whose, sep='\\n')\n"
    after = (
        "\nimport models as mine, nn as too, tinytensor.models, tinytensor.nn\n"
        "print(mine.whose, too.whose, sep='\\n')\n"
        "print(tinytensor.__file__, tinytensor.nn.__file__, tinytensor.models.__file__, sep='\\n')\n"
    )
    (folder / "script.py").write_text(before + code + after, encoding="utf-8")
    quick = {"PYTHONUTF8": "1", "TINYTENSOR_COMPILE_LOOPS": "0"}  # nothing of the loops is on disk there
    printed = run(python, "-W", "error", "script.py", cwd=folder, **quick).splitlines()

    users = ["the models.py of a user", "the nn.py of a user"]
    assert printed[:2] == printed[-5:-3] == users
    package = next((tmp_path / "venv").rglob("site-packages")) / "tinytensor"
    assert printed[-3:] == [str(folder / "__init__.py") for folder in (package, package / "nn", package / "models")]
    promised = re.findall(r"print\(.*\)  # (.*)", code)
    assert promised == ["tensor([2., 4., 6.])"]
    assert [line for line in printed if line in promised] == promised
    assert (folder / "head.svg").read_text(encoding="utf-8").count("w_q") >= 1
    assert "tinytensor" in run(python, "-m", "tinytensor", cwd=folder)


def test_the_oldest_versions_that_it_allows_are_enough(new_environment, tmp_path):
    """Of what it always needs; checkpoints are where their ages differ."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = [f"{name}=={version}.*" for name, _, version in (each.partition(">=") for each in project["dependencies"])]
    assert len(oldest) == 4
    python = new_environment(*oldest, "pytest", "pytest-xdist", cwd=tmp_path)
    tests = ["tests/nn/test_checkpoint.py", "tests/tinytensor/test_creation.py", "tests/tinytensor/test_linalg.py"]
    run(python, "-m", "pytest", "-p", "no:cacheprovider", "--device", "cpu", *tests, cwd=ROOT)


def test_the_source_distribution_holds_what_a_reader_wants(sdist, copy_of_tree):
    tree = copy_of_tree()
    for folder in ("tests", "examples", "benchmarks", "docs", "tinytensor"):
        assert files_below(sdist / folder) == files_below(tree / folder)
    for name in ("README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "pyproject.toml"):
        assert (sdist / name).read_text(encoding="utf-8") == (ROOT / name).read_text(encoding="utf-8")
    links = [path for path in sdist.rglob("*") if path.is_symlink()]
    assert links == []
    assert not (sdist / "nn").exists()


def test_the_source_distribution_passes_its_own_tests(sdist, wheel, new_environment):
    python = new_environment(".[test]", cwd=sdist)
    tests = ["tests/tinytensor/test_ops.py", "tests/nn/test_ops.py", "tests/test_readme.py"]
    printed = run(python, "-m", "pytest", "-p", "no:cacheprovider", "--device", "cpu", *tests, cwd=sdist)
    assert "failed" not in printed
    run(python, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", sdist.parent / "built", ".", cwd=sdist)
    (built,) = (sdist.parent / "built").iterdir()
    assert files_in(built) == files_in(wheel)
