"""What the sides of a benchmark start from: their environment, and the packages of a checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from interleaved import Side

from tests import processes
from tests.marks import slow_after

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))


def environment_reader():
    return os.environ.get, "ready"


def test_a_side_has_no_forced_core_type_and_leaves_the_environment_as_it_was(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OPENBLAS_L2_SIZE", "262144")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    before = dict(os.environ)
    side = Side(environment_reader, {"OPENBLAS_NUM_THREADS": "1", "ONLY_THERE": "yes"})
    names = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS", "ONLY_THERE")
    assert [side.ask(name) for name in names] == [None, None, "1", "yes"]
    assert side.greeting == "ready"
    assert len(side.seconds) == 4
    assert side.close() > 0
    assert dict(os.environ) == before


def test_a_side_ends_in_silence_where_the_run_ends_early():
    code = "from test_sides import *; Side(environment_reader, {}); raise SystemExit('busy')"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "benchmarks"), str(Path(__file__).parent)])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.stderr, done.returncode) == ("busy\n", 1)


@pytest.mark.parametrize(("parts", "name"), [("tinytensor", "tinytensor.nn"), ("", "nn")], ids=["new", "old"])
def test_a_checkout_of_either_layout(tmp_path, parts, name):
    calls = "def {0}(): print('{0}')\n"
    speed = ["speed_up"] if parts else ["keep_memory", "compile_loops", "use_blas_threads"]
    files = {
        "tinytensor/__init__.py": "".join(map(calls.format, speed)),
        f"{parts}/nn/__init__.py": "",
        f"{parts}/models/__init__.py": "",
        f"{parts}/models/decoding.py": "",
    }
    for file, text in files.items():
        path = tmp_path / file.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    code = (
        "import pathlib, sys; sys.path.insert(0, sys.argv[1]); import checkout\n"
        "here = checkout.Checkout(pathlib.Path(sys.argv[2])); here.speed_up()\n"
        "print(here.nn.__name__, here.models.__name__, checkout.module('models.decoding').__file__)\n"
    )
    command = [sys.executable, "-c", code, ROOT / "benchmarks", tmp_path]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    decoding = tmp_path / parts / "models" / "decoding.py"
    assert printed == [*speed, name, name.replace("nn", "models"), str(decoding)]


def test_a_second_checkout_in_one_process_is_refused(tmp_path):
    from checkout import Checkout

    (tmp_path / "tinytensor").mkdir()
    path = list(sys.path)
    try:
        with pytest.raises(ImportError, match="loaded already; expected that of"):
            Checkout(tmp_path)
    finally:
        sys.path[:] = path


def test_there_are_benchmarks():
    assert len(SCRIPTS) >= 8


@pytest.mark.parametrize("script", slow_after(4, SCRIPTS), ids=lambda path: path.stem)
def test_a_mistake_on_the_command_line_is_one_line(script, tmp_path):
    for mistake in (["--no-such-option"], ["--json", str(tmp_path)]):
        done = processes.run([sys.executable, script, *mistake], cwd=tmp_path, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"{script.name}: ")
        assert done.stderr.count("\n") == 1


AGAINST = "decoding generation house import_time language_model op_overhead plain_loop reading train_step"


@pytest.mark.parametrize("script", [f"{name}.py" for name in AGAINST.split()])
def test_another_checkout_must_be_one(script, tmp_path):
    command = [sys.executable, ROOT / "benchmarks" / script, "--against", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"expected a checkout of tinytensor, but {tmp_path} holds no tinytensor/" in done.stderr


@pytest.mark.slow
def test_a_checkout_has_the_same_bits_as_itself():
    command = [
        sys.executable,
        ROOT / "benchmarks" / "same_bits.py",
        "--steps",
        "1",
        "--works",
        "gpt2",
        "--against",
        ROOT,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0].strip() for line in lines] == ["gpt2, plain", "gpt2, switched on"]
    assert all(line.endswith("the same") for line in lines)
