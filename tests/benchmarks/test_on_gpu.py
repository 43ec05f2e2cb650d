"""`benchmarks/on_gpu.py`, which has one chance on a bare machine: the whole of it on the stand-in, and its limits."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import on_gpu
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "on_gpu.py"
HIDDEN = "array_api_strict einops graphviz pygraphviz sacrebleu sentencepiece threadpoolctl xdist"
BARE = f"""
import sys
from importlib.machinery import PathFinder

class Bare(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.partition(".")[0] in {HIDDEN.split()}
        return None if hidden else super().find_spec(name, path, target)

sys.meta_path[:] = [Bare if finder is PathFinder else finder for finder in sys.meta_path]
"""
LINE = re.compile(r"(PASS|FAIL|SKIP|TIMEOUT) +([0-9.]+) s  (\S+) *(.*)")


def summary(folder):
    """Status and remark of each step, by its name."""
    _, *lines = (folder / "summary.txt").read_text(encoding="utf-8").splitlines()
    found = [LINE.fullmatch(line).groups() for line in lines]
    return {name: (status, about) for status, _, name, about in found}


@pytest.mark.again
@pytest.mark.slow
def test_all_of_it_on_the_stand_in_where_little_is_installed(tmp_path):
    """Nothing of what a bare machine lacks is found: no plugin of pytest, nothing that draws."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "sitecustomize.py").write_text(BARE, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "bare"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, SCRIPT, "--stand-in", "--out", tmp_path / "out"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    log = (tmp_path / "out" / "log.txt").read_text(encoding="utf-8")
    assert (done.stderr, done.returncode) == ("", 0), log[-3000:]
    found = summary(tmp_path / "out")
    assert list(found) == [step.name for step in on_gpu.steps(True, tmp_path)]
    for step in on_gpu.steps(True, tmp_path):
        missing = [name for name in step.needs if importlib.util.find_spec(name) is None]
        if missing:
            assert found[step.name] == ("SKIP", f"{', '.join(missing)} is not installed")
        else:
            assert found[step.name][0] == "PASS"
    assert re.search("skipped .*attention-head.svg: drawing needs .*the package graphviz is missing", log)
    figures = json.loads((tmp_path / "out" / "figures.json").read_text(encoding="utf-8"))
    assert (list(figures["steps"]), figures["device"]) == (list(found), "the stand-in for CuPy")
    for name, step in figures["steps"].items():
        measured = name.startswith(("train-", "decode-", "attention")) and step["status"] == "PASS"
        assert (step["figures"] is not None) == measured


def test_a_gpu_is_asked_for_all_that_the_issue_of_speed_compares():
    steps = {step.name: step for step in on_gpu.steps(False, Path("scratch"))}
    assert next(iter(steps)) == "doctor"
    assert list(steps)[-1] == "rest"
    for workload in ("copy", "m30k", "base"):
        assert "eager,hand,graphed" in steps[f"train-{workload}-float16"].command
        assert "--half" in steps[f"train-{workload}-float16"].command
        assert "--half" not in steps[f"train-{workload}-float32"].command
    for step in steps.values():
        files = [part for part in step.command if part.startswith(str(ROOT))]
        assert all(Path(file).exists() for file in files)


@pytest.fixture
def report(tmp_path):
    with on_gpu.Report(tmp_path / "out", {"date": "today"}) as report:
        yield report


def run(report, tmp_path, code, limit=60.0, left=60.0, needs=(), least=1.0):
    step = on_gpu.Step("it", limit, ["-c", code], needs, least)
    on_gpu.run(step, report, time.monotonic() + left, dict(os.environ), tmp_path)
    return summary(tmp_path / "out")["it"]


def test_what_a_step_came_to(report, tmp_path):
    assert run(report, tmp_path, "print('well'); print('12 passed'); print()") == ("PASS", "12 passed")
    assert not report.failed
    assert run(report, tmp_path, "raise SystemExit('gone')") == ("FAIL", "gone")
    assert report.failed


def test_a_step_that_takes_too_long_is_ended_with_all_that_it_started(report, tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid, flush=True)\n"
        "try: time.sleep(60)\n"
        "except KeyboardInterrupt: print('so far 3 failed')"
    )
    assert run(report, tmp_path, code, limit=2.0) == ("TIMEOUT", "so far 3 failed")
    log = (tmp_path / "out" / "log.txt").read_text(encoding="utf-8")
    child = int(re.findall(r"^\d+$", log, flags=re.M)[-1])
    time.sleep(0.1)
    status = Path(f"/proc/{child}/stat")
    assert not status.exists() or status.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"


def test_what_cannot_be_done_is_left_out_by_name(report, tmp_path):
    assert run(report, tmp_path, "", needs=("json", "no_such_module")) == ("SKIP", "no_such_module is not installed")
    assert run(report, tmp_path, "", left=5.0, least=20.0) == ("SKIP", "5 s are left, too few to begin it")
    assert run(report, tmp_path, "import time; time.sleep(60)", left=2.0)[0] == "TIMEOUT"


def test_what_is_done_is_there_after_a_kill(tmp_path):
    code = (
        "import os, sys, pathlib, time, signal, on_gpu\n"
        "report = on_gpu.Report(pathlib.Path(sys.argv[1]), {'date': 'today'})\n"
        "report.add('PASS', 1.0, 'first', figures={'ms': 2})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")}
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "out"], env=environment, stdout=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGKILL
    assert summary(tmp_path / "out") == {"first": ("PASS", "")}
    figures = json.loads((tmp_path / "out" / "figures.json").read_text(encoding="utf-8"))
    assert figures["steps"]["first"]["figures"] == {"ms": 2}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--minutes", "0"], "expected a number of minutes above 0, got '0'"),
        (["--stand-in", "--only", "doctor,x"], "--only: expected some of doctor,"),
        (["--stand-in", "--out", __file__], "is a file"),
    ],
)
def test_a_mistake_is_one_line(arguments, told):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("on_gpu.py: ")
    assert told in done.stderr
