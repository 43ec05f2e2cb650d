"""`tt.speed_up`: what it does to a process, what its report says, and that nothing is lost without `fast/`."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tinytensor as tt
from tinytensor.machine import cores, speed

needs_fast = pytest.mark.skipif(
    importlib.util.find_spec("tinytensor.fast") is None, reason="tinytensor/fast is missing"
)

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TINYTENSOR_COMPILE_LOOPS",
    "TINYTENSOR_KEEP_MEMORY",
    "TINYTENSOR_NUM_THREADS",
    "TINYTENSOR_POOL",
    "TINYTENSOR_TEXTBOOK",
)

PROGRAM = """
import tinytensor as tt
from tinytensor.fast import numpy as backend
try:
    from threadpoolctl import threadpool_info
except ImportError:
    threadpool_info = list
def blas():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"} or {0}
before = tt.get_num_threads()
report = tt.speed_up()
print(before, tt.get_num_threads(), *blas(), backend.loops is not None)
print(report == tt.speed_up())
print(report)
"""

WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {names}:
            raise ModuleNotFoundError(name)
import importlib.util
known = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {names} else known(name, package)
sys.meta_path.insert(0, Missing())
"""

TEXTBOOK = """
import tinytensor as tt
print(tt.speed_up())
print(tt.keep_memory(), tt.compile_loops(), tt.get_num_threads())
tt.set_num_threads(2)
print(tt.get_num_threads())
x = tt.random.randn(300, 300).requires_grad_()
tt.sum(tt.tanh(x @ x)).backward()
print(x.grad.shape)
"""


def output(program, **environment):
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    result = subprocess.run([sys.executable, "-c", program], env=kept | environment, capture_output=True, text=True)
    assert result.stderr == ""
    return result.stdout.splitlines()


def rows(lines):
    return dict(line.split(":", 1) for line in lines)


@needs_fast
def test_our_own_threads_take_the_cores():
    pytest.importorskip("threadpoolctl")
    state, again, *report = output(PROGRAM)
    count = cores.count()
    assert state.split()[:3] == [str(count), str(count), "1"]
    assert again == "True"
    assert list(rows(report)) == ["pool", "threads", "memory", "loops"]
    assert (
        rows(report)["threads"].strip()
        == f"on by default: {count} of tinytensor share large work; from now on, 1 of BLAS"
    )


@needs_fast
@pytest.mark.parametrize(
    ("variable", "subject"),
    [
        ("TINYTENSOR_POOL", "pool"),
        ("TINYTENSOR_KEEP_MEMORY", "memory"),
        ("TINYTENSOR_COMPILE_LOOPS", "loops"),
    ],
)
def test_each_switch_can_be_left_out(variable, subject):
    state, _, *report = output(PROGRAM, **{variable: "0"})
    assert f"no: switched off by {variable}=0 in the environment; leave {variable}=0 away" in rows(report)[subject]
    if subject == "loops":
        assert state.endswith("False")


@pytest.mark.slow
@needs_fast
def test_threads_that_were_chosen_stay():
    pytest.importorskip("threadpoolctl")
    state, _, *report = output(PROGRAM, TINYTENSOR_NUM_THREADS="1")
    assert state.split()[:3] == ["1", "1", "1"]
    assert ("would use all" in rows(report)["threads"]) == (cores.count() > 1)
    state, *_ = output(PROGRAM.replace("\nreport =", "\ntt.set_num_threads(3); report ="))
    assert state.split()[1:3] == ["3", "1"]


@needs_fast
def test_threads_of_blas_that_the_environment_asks_for_stay():
    info = pytest.importorskip("threadpoolctl").threadpool_info()
    if not any(library["internal_api"] == "openblas" for library in info):
        pytest.skip("NumPy's BLAS is another")
    state, _, *report = output(PROGRAM, OPENBLAS_NUM_THREADS="2")
    assert state.split()[:3] == ["1", "1", str(min(2, len(cores._allowed())))]
    assert "OPENBLAS_NUM_THREADS=2 in the environment" in rows(report)["threads"]


@needs_fast
def test_what_is_not_installed_is_named():
    state, _, *report = output(WITHOUT.format(names=["threadpoolctl", "numba"]) + PROGRAM)
    assert state.split() == ["1", "1", "0", "False"]  # the work is left to the threads of BLAS
    assert rows(report)["threads"].endswith("threadpoolctl is not installed; pip install -e '.[fast]'")
    assert rows(report)["loops"].endswith("Numba is not installed; pip install -e '.[fast]'")


@needs_fast
def test_without_threadpoolctl_the_environment_may_do_it():
    state, _, *report = output(WITHOUT.format(names=["threadpoolctl"]) + PROGRAM, OPENBLAS_NUM_THREADS="1")
    assert state.split()[:2] == [str(cores.count())] * 2
    assert "no: " not in rows(report)["threads"]


def test_left_out():
    text, switches, threads, shape = output(TEXTBOOK, TINYTENSOR_TEXTBOOK="1")
    assert text.startswith("TINYTENSOR_TEXTBOOK=1 in the environment leaves tinytensor/fast out")
    assert (switches, threads, shape) == ("False False 1", "1", "(300, 300)")


def test_the_folder_is_missing(monkeypatch):
    monkeypatch.setattr(speed, "switches", None)
    monkeypatch.delenv("TINYTENSOR_TEXTBOOK", raising=False)
    monkeypatch.setattr(speed.importlib.util, "find_spec", lambda name: None)
    report = tt.speed_up()
    assert report.outcomes == ()
    assert str(report) == "The folder tinytensor/fast is missing: all is computed by the formulas."
    assert [tt.keep_memory(), tt.compile_loops()] == [False] * 2


@pytest.mark.parametrize("count", [0, -1, 1.5, "2"])
def test_no_number_of_threads(count):
    with pytest.raises(ValueError, match="expected an integer of at least 1"):
        tt.set_num_threads(count)


BY_DEFAULT = """
import numpy as np
try:
    from threadpoolctl import threadpool_info
except ImportError:
    threadpool_info = list
def settings():
    return {(info["filepath"], info["num_threads"]) for info in threadpool_info()}
before = settings()
import tinytensor as tt
from tinytensor.fast import numpy, pool
result = tt.ones(1 << 20) + 1
pooled = len(pool._loans) > 0
large, small = (numpy.kernel("gelu", np.ones(size, np.float32)) for size in (numpy.LARGE, numpy.LARGE - 1))
threads = tt.get_num_threads()
print(numpy.loops, threads, before <= settings())
on = {"pool": pooled, "threads": threads > 1, "loops": large is not None, "small": small is not None}
print(*[name for name in on if on[name]])
print(tt.speed_up())
"""


@needs_fast
def test_an_import_switches_on_what_the_report_calls_default():
    """And changes no setting of the process."""
    from tinytensor.fast.numpy import LARGE

    state, used, *report = output(BY_DEFAULT)
    threads = cores.count() if importlib.util.find_spec("threadpoolctl") else 1
    assert state == f"None {threads} True"
    default = {subject: text for subject, text in rows(report).items() if "on by default" in text}
    assert used.split() == list(default)
    if "loops" in default:
        assert f"on by default for arrays of {LARGE:,} elements and more" in default["loops"]
    page = (Path(__file__).parents[2] / "docs" / "performance.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## On by default\n(.*?)^## ", page, flags=re.M | re.S)
    assert set(re.findall(r"^- \*\*(\w+)\*\*", section, flags=re.M)) == {"pool", "threads", "loops"}
    assert f"{LARGE:,} elements" in section
