"""The environment that scripts set before NumPy is loaded: only where it helps, never over what is set already."""

import os
import subprocess
import sys

import pytest

import before_numpy

NAMES = ("OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "TINYTENSOR_PREPARE")
ALL = "fpu sse2 avx2 avx512f avx512dq avx512ifma avx512cd avx512bw avx512vl"


def cpuinfo(vendor, flags):
    return f"processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: A processor\nflags\t\t: {flags}\n\nprocessor\t: 1\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (cpuinfo("AuthenticAMD", ALL), True),
        (cpuinfo("GenuineIntel", ALL), False),  # OpenBLAS finds out by itself
        (cpuinfo("AuthenticAMD", "fpu sse2 avx2"), False),
        (cpuinfo("AuthenticAMD", ALL.replace("avx512dq", "")), False),  # it would crash
        ("processor : 0\nFeatures : fp asimd\n", False),
        ("", False),
    ],
)
def test_where_openblas_overlooks_avx512(text, found):
    assert before_numpy.overlooks_avx512(text) is found


@pytest.fixture
def fresh(monkeypatch):
    """A process without NumPy, on an AMD processor with AVX-512."""
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.delitem(sys.modules, "numpy")
    monkeypatch.setattr(before_numpy, "cpuinfo", lambda: cpuinfo("AuthenticAMD", ALL))
    return environment


def test_what_is_set(fresh):
    assert before_numpy.prepare() == {"OPENBLAS_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "SkylakeX"}
    assert fresh["OPENBLAS_CORETYPE"] == "SkylakeX"
    assert before_numpy.prepare() == {}


def test_nothing_is_set_over_what_is_set(fresh):
    fresh |= {"OPENBLAS_NUM_THREADS": "4", "OPENBLAS_CORETYPE": "Haswell"}
    assert before_numpy.prepare() == {}
    assert fresh["OPENBLAS_CORETYPE"] == "Haswell"


def test_it_can_be_switched_off(fresh):
    fresh["TINYTENSOR_PREPARE"] = "0"
    assert before_numpy.prepare() == {}
    assert "OPENBLAS_NUM_THREADS" not in fresh


def test_nothing_is_forced_on_a_process_that_has_numpy():
    assert "numpy" in sys.modules
    assert before_numpy.prepare() == {}


PROGRAM = """
import sys
from before_numpy import prepare
set_now = prepare()
assert "numpy" not in sys.modules
import tinytensor as tt
print(set_now.get("OPENBLAS_NUM_THREADS"), tt.get_num_threads())
"""


def test_the_librarys_own_threads_share_the_work():
    names = (*NAMES, "TINYTENSOR_NUM_THREADS", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    result = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert result.stderr == ""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert result.stdout.split() == ["1", str(cores)]
