"""`python -m tinytensor`: what it finds is what is there, and its advice fits the machine."""

import os
import platform
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tinytensor import doctor

FAST = doctor.Machine("A processor", 4, ("avx2", "avx512f"), "OpenBLAS 0.3.31", "SkylakeX", 1, 4, "none")


def test_what_it_prints():
    threads = {"OPENBLAS_NUM_THREADS": "1", "TINYTENSOR_NUM_THREADS": "3"}
    result = subprocess.run(
        [sys.executable, "-m", "tinytensor"], env=os.environ | threads, capture_output=True, text=True, check=True
    )
    rows = dict(line.split(":", 1) for line in result.stdout.partition("\n\n")[0].splitlines())
    assert list(rows) == ["versions", "processor", "BLAS", "threads", "memory", "GPU"]
    assert f"NumPy {np.__version__}," in rows["versions"]
    assert f"Python {platform.python_version()}," in rows["versions"]
    assert rows["threads"].strip() == "3 for tinytensor's own work"
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
    ],
)
def test_advice(monkeypatch, change, words):
    monkeypatch.delenv("TINYTENSOR_KEEP_MEMORY", raising=False)
    found = doctor.advice(replace(FAST, **change))
    assert len(found) == len(words)
    for line, word in zip(found, words):
        assert word in line
    assert ("Nothing here would make it faster" in doctor.describe(replace(FAST, **change))) == (not words)


def test_memory_that_is_not_kept(monkeypatch):
    monkeypatch.setenv("TINYTENSOR_KEEP_MEMORY", "0")
    assert "Leave TINYTENSOR_KEEP_MEMORY=0 away" in doctor.advice(FAST)[0]
    assert "switched off by TINYTENSOR_KEEP_MEMORY=0" in doctor.describe(FAST)
