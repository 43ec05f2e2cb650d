"""Programs on several ranks. Without mpi4py and an `mpiexec` they are skipped; REQUIRE_MPI=1 makes that a failure."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "programs.py"


def launcher():
    """The `mpiexec` beside this Python, or the one of the system."""
    return shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")


@pytest.fixture(scope="session")
def mpiexec():
    """Run a command on so many ranks: `mpiexec(2, "script.py", "--steps", "3")`."""
    missing = "mpi4py" if importlib.util.find_spec("mpi4py") is None else None if launcher() else "mpiexec"
    if missing:
        if os.environ.get("REQUIRE_MPI") == "1":
            pytest.fail(f"{missing} is not installed: pip install -e '.[distributed]'")
        pytest.skip(f"{missing} is not installed")

    def run(size, *command, cwd=ROOT, **environment):
        ours = {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [launcher(), "-n", str(size), sys.executable, *map(str, command)],
            cwd=cwd, env={**os.environ, **ours, **environment}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    return run


@pytest.fixture(scope="session")
def on_ranks(mpiexec, tmp_path_factory):
    """What became of each check in `programs.py`, on so many ranks; all are run at once."""
    done = {}

    def results(size):
        if size not in done:
            folder = tmp_path_factory.mktemp("ranks")
            result = mpiexec(size, PROGRAM, folder)
            told = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)] or result
            done[size] = {check: "".join(each[check] for each in told) for check in told[0]}
        return done[size]

    return results
