"""PyTorch's own samples of its operators and modules: none gives another number here, and few are refused."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")  # which PyTorch's samples need

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "samples.py"


@pytest.mark.slow
def test_samples():
    command = [sys.executable, str(SCRIPT), "--most", "3"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    operators, modules = told.splitlines()[-2:]
    for line, most in ((operators, 10), (modules, 0)):
        counts = {what: int(number) for number, what in re.findall(r"(\d+) (right|refused|wrong)", line)}
        assert counts.get("right", 0) > 600, told
        assert counts.get("wrong", 0) == 0, told
        assert counts.get("refused", 0) <= most, told
