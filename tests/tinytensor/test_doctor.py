"""`python -m tinytensor`: what it finds is what is there, and its advice fits the machine."""

import os
import platform
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tinytensor import doctor

FAST = doctor.Machine(
    "A processor", 4, ("avx2", "avx512f"), "OpenBLAS 0.3.31", "SkylakeX", 1, 4, "Numba 0.68.1", "none"
)

SWITCHES = ["TINYTENSOR_KEEP_MEMORY", "TINYTENSOR_BLAS_THREADS", "TINYTENSOR_COMPILE_LOOPS"]


def test_what_it_prints():
    threads = {"OPENBLAS_NUM_THREADS": "1", "TINYTENSOR_NUM_THREADS": "3"}
    result = subprocess.run(
        [sys.executable, "-m", "tinytensor"], env=os.environ | threads, capture_output=True, text=True, check=True
    )
    rows = dict(line.split(":", 1) for line in result.stdout.partition("\n\n")[0].splitlines())
    assert list(rows) == ["versions", "processor", "BLAS", "threads", "memory", "loops", "GPU"]
    assert f"NumPy {np.__version__}," in rows["versions"]
    assert f"Python {platform.python_version()}," in rows["versions"]
    assert rows["threads"].strip().startswith("3 for tinytensor's own work; BLAS has as many for small products")
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, []),
        ({"kernels": "Haswell"}, ["OPENBLAS_CORETYPE=SkylakeX"]),
        ({"kernels": "Haswell", "flags": ("avx2",)}, []),
        ({"blas_threads": 4, "threads": 1}, ["OPENBLAS_NUM_THREADS=1"]),
        ({"blas_threads": 1, "threads": 1, "cores": 1}, []),
        ({"threads": 2}, ["TINYTENSOR_NUM_THREADS=4"]),
        ({"kernels": ""}, ["pip install threadpoolctl"]),
        ({"numba": ""}, ["pip install -e '.[fast]'"]),
    ],
)
def test_advice(monkeypatch, change, words):
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)
    found = doctor.advice(replace(FAST, **change))
    assert len(found) == len(words)
    for line, word in zip(found, words):
        assert word in line
    assert ("Nothing here would make it faster" in doctor.describe(replace(FAST, **change))) == (not words)


@pytest.mark.parametrize("name", SWITCHES)
def test_what_is_switched_off(monkeypatch, name):
    monkeypatch.setenv(name, "0")
    assert f"Leave {name}=0 away" in doctor.advice(FAST)[0]
    assert f"switched off by {name}=0" in doctor.describe(FAST)
