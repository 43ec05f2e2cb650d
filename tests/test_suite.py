"""The tests themselves: the same ones are found anywhere, and those that lack a program are skipped."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .marks import REPETITIONS, SLOW

ROOT = Path(__file__).parents[1]
DRAWN = (
    "tests/tinytensor/graph/test_compare.py", "tests/tinytensor/graph/test_faces.py", "tests/tinytensor/test_film.py",
    "tests/tinytensor/test_explaining.py", "tests/examples/test_render_attention_graph.py", "tests/test_readme.py",
)  # fmt: skip


def pytest_elsewhere(*arguments, cwd, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml", *arguments]
    path = os.pathsep.join([environment.pop("PYTHONPATH", ""), str(ROOT)])
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_two_processes_find_the_same_tests(tmp_path):
    """As with `pytest -n 2`, whose workers must agree, whatever the second, the hash seed, the place and the folder."""
    places = [
        (ROOT, {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "LC_ALL": "C"}),
        (tmp_path, {"PYTHONHASHSEED": "2", "TZ": "Pacific/Pago_Pago", "LC_ALL": "C.UTF-8"}),
    ]
    first, second = (
        [
            line.strip()
            for line in pytest_elsewhere(
                "--collect-only", "--all", "-m", "", ROOT / "tests", cwd=cwd, **environment
            ).splitlines()
            if "tests collected" not in line and not line.startswith(("rootdir", "configfile", "cachedir"))
        ]
        for cwd, environment in places
    )
    assert len(first) > 10_000
    assert first == second
    assert [pattern for pattern in [*REPETITIONS, *SLOW] if not any(re.search(pattern, test) for test in first)] == []


@pytest.mark.slow
def test_without_graphviz_nothing_fails(tmp_path):
    hidden = "import sys, sysconfig; sys.modules['pygraphviz'] = None; sysconfig.get_path = lambda *_, **__: ''"
    (tmp_path / "sitecustomize.py").write_text(hidden)
    told = pytest_elsewhere(
        "--device", "cpu", "-rs", *DRAWN, cwd=ROOT, PATH=str(tmp_path), PYTHONPATH=str(tmp_path), COLUMNS="200"
    )
    assert told.count("Graphviz is not installed") > 0
