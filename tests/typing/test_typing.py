"""Type checkers on a user's script, with the wheel installed as a user has it: they find its mistakes and no others."""

import importlib.util
import json
import os
import re
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("user_script.py")
MISTAKES = [number for number, line in enumerate(SCRIPT.read_text().splitlines(), 1) if line.endswith("# error")]


def missing(what):
    """Skip, or fail where CI says that everything is there."""
    (pytest.fail if os.environ.get("REQUIRE_TYPING") else pytest.skip)(f"{what} is not installed")


@pytest.fixture(scope="module")
def checkers():
    found = [name for name in ("mypy", "pyright") if importlib.util.find_spec(name)]
    return found or missing("neither mypy nor pyright")


@pytest.fixture(scope="module")
def wheel(checkers, tmp_path_factory):
    """The wheel, built from a copy, so that nothing is left in the checkout."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("tinytensor", "nn", "models"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        missing(f"what builds a wheel (pip says: {result.stderr.strip()[-300:]})")
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of an environment that has the wheel, and its dependencies from the one that runs this."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    packages = next(folder.glob("lib/python*/site-packages"), folder / "Lib" / "site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    return next(p for p in (folder / "bin" / "python", folder / "Scripts" / "python.exe") if p.exists())


def run(folder, *command):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MYPYPATH")}
    environment["PYRIGHT_PYTHON_IGNORE_WARNINGS"] = "1"  # that there is a newer one
    shutil.copy(SCRIPT, folder)
    return subprocess.run(
        [sys.executable, "-m", *command, SCRIPT.name], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
def test_mypy_finds_the_mistakes(checkers, python, tmp_path):
    if "mypy" not in checkers:
        missing("mypy")
    result = run(tmp_path, "mypy", "--strict", "--config-file=", "--no-incremental", f"--python-executable={python}")
    lines = [int(number) for number in re.findall(rf"^{SCRIPT.name}:(\d+): error", result.stdout, flags=re.M)]
    assert lines == MISTAKES, result.stdout + result.stderr
    assert f"Found {len(MISTAKES)} errors in 1 file" in result.stdout


def test_pyright_finds_the_mistakes(checkers, python, tmp_path):
    if "pyright" not in checkers:
        missing("pyright")
    result = run(tmp_path, "pyright", "--outputjson", f"--pythonpath={python}")
    found = [d for d in json.loads(result.stdout)["generalDiagnostics"] if d["severity"] == "error"]
    assert [d["range"]["start"]["line"] + 1 for d in found] == MISTAKES, result.stdout + result.stderr


def test_without_its_mistakes_the_script_runs(tmp_path):
    text = "\n".join(line for line in SCRIPT.read_text().splitlines() if not line.endswith("# error"))
    (tmp_path / "script.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    result = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
