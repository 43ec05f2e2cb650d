"""Copies of the tree, and what is built from them.

What installs packages takes minutes and the network: it is skipped, unless REQUIRE_PACKAGES is set in the environment
(`.ci/run` sets it); then all that is missing fails.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command, cwd, **environment):
    """What a command prints, in an environment without the paths of this process. A failure shows all it printed."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TINYTENSOR_TEXTBOOK")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=kept | environment, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def copy_of_tree(tmp_path_factory):
    """`copy_of_tree()` is a new copy of the tree, with its links, without anything that git ignores."""
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()]

    def copy_of_tree():
        copy = tmp_path_factory.mktemp("copy") / "tinytensor"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(".git", *ignored))
        return copy

    return copy_of_tree


@pytest.fixture(scope="session")
def building():
    """Skips or fails, see above."""
    if not os.environ.get("REQUIRE_PACKAGES"):
        pytest.skip("REQUIRE_PACKAGES is not set: packages are built and installed in CI")


@pytest.fixture(scope="session")
def wheel(building, copy_of_tree, tmp_path_factory):
    """The wheel of this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", folder, ".", cwd=copy_of_tree())
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="session")
def sdist(building, copy_of_tree, tmp_path_factory):
    """The source distribution of this tree, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder / "packed", ".", cwd=copy_of_tree())
    (path,) = (folder / "packed").iterdir()
    with tarfile.open(path) as packed:  # Python 3.11.4 began to ask for a filter
        packed.extractall(folder, **{"filter": "data"} if hasattr(tarfile, "data_filter") else {})
    return folder / path.name.removesuffix(".tar.gz")


@pytest.fixture
def new_environment(building, tmp_path):
    """`new_environment(what to install, ...)` is the Python of a new virtual environment."""

    def new_environment(*packages, cwd):
        run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
        python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages, cwd=cwd)
        return python

    return new_environment
