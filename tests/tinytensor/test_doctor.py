"""`python -m tinytensor`: what it finds is what is there, and its advice fits the machine."""

import importlib.util
import os
import platform
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tinytensor import doctor
from tinytensor.machine.speed import Outcome, Report

MACHINE = doctor.Machine("A processor", 4, 0.0, ("avx2", "avx512f"), "OpenBLAS 0.3.31", "SkylakeX", 4, "none")

FAST = Report((Outcome("threads", True, "four"), Outcome("memory", True, "is kept")))


def output(**environment):
    result = subprocess.run(
        [sys.executable, "-m", "tinytensor"], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    assert result.stderr == ""
    return result.stdout.split("\n\n")


def rows(lines):
    return dict(line.split(":", 1) for line in lines.splitlines())


@pytest.mark.skipif(importlib.util.find_spec("tinytensor.fast") is None, reason="tinytensor/fast is missing")
def test_what_it_prints():
    found, switched, _ = output(TINYTENSOR_TEXTBOOK="0", OPENBLAS_NUM_THREADS="1", TINYTENSOR_NUM_THREADS="3")
    assert list(rows(found)) == ["versions", "processor", "BLAS", "GPU"]
    assert f"NumPy {np.__version__}," in rows(found)["versions"]
    assert f"Python {platform.python_version()}," in rows(found)["versions"]
    title, switched = switched.split("\n", 1)
    assert title.startswith("After tt.speed_up() a script here has the following; ")
    assert list(rows(switched)) == ["pool", "threads", "memory", "loops", "medium"]
    assert rows(switched)["threads"].strip().startswith("on by default: 3 of tinytensor share large work")
    assert "4 threads," in doctor.describe(MACHINE, FAST)
    assert "1 thread," in doctor.describe(replace(MACHINE, blas_threads=1), FAST)


def test_without_the_engine_room():
    found, text = output(TINYTENSOR_TEXTBOOK="1")
    assert list(rows(found)) == ["versions", "processor", "BLAS", "GPU"]
    assert text.startswith("tt.speed_up() has nothing to switch on. TINYTENSOR_TEXTBOOK=1 in the environment leaves")


@pytest.mark.parametrize(
    ("outcomes", "advice"),
    [
        ([], []),
        ([Outcome("loops", False, "Numba is not installed", "install it")], ["- install it (loops)"]),
        (
            [Outcome("threads", False, "no", "install it"), Outcome("loops", False, "no", "install it")],
            ["- install it (threads, loops)"],
        ),
        ([Outcome("threads", True, "one", "use more")], ["- use more (threads)"]),
        ([Outcome("memory", False, "only glibc")], []),  # nothing to be done about it
    ],
)
def test_advice(outcomes, advice):
    report = Report((*FAST.outcomes, *outcomes))
    assert doctor.advice(report) == advice
    text = doctor.describe(MACHINE, report)
    assert text.endswith("\n".join(["What would make it faster:", *advice]) if advice else "would make it faster.")
    assert all(outcome.text in text for outcome in outcomes)


@pytest.mark.parametrize(("busy", "words"), [(None, ""), (0.1, ""), (1.26, " (other programs use 1.3 now)")])
def test_other_programs(busy, words):
    processor = doctor.describe(replace(MACHINE, busy=busy), FAST).splitlines()[1]
    assert processor == f"processor: A processor, 4 cores{words}, avx2 and avx512f"
