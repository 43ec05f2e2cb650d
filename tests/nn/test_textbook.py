"""With `TINYTENSOR_TEXTBOOK=1` nothing fast is registered, and every function works by its formula."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FORMULAS_ALONE = """
import sys
import pytest
import tinytensor as tt
from tinytensor.nn.functional import attention, topk
from tinytensor.nn.optim import Optimizer

assert not [name for name in sys.modules if name.startswith("tinytensor.nn.fast")]
fused = [op for op in tt.ops.values() if not op.pure]
assert len(fused) >= 14 and all(op.fast_forward is None and op.fast_backward is None for op in fused)
doors = topk.likeliest, attention.multi_head, Optimizer._step_by_formula
assert all(door.faster is None for door in doors)
sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--device", "cpu", *sys.argv[1:]]))
"""


@pytest.mark.skipif(os.environ.get("TINYTENSOR_TEXTBOOK") == "1", reason="this process is one")
@pytest.mark.slow
def test_the_formulas_alone_pass_the_tests():
    names = ["fast", "test_ops.py", "test_functional.py", "test_losses.py", "test_optim.py", "test_recurrent.py"]
    process = subprocess.run(
        [sys.executable, "-c", FORMULAS_ALONE, *(str(HERE / name) for name in names)],
        env={**os.environ, "TINYTENSOR_TEXTBOOK": "1"},
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout[-4000:] + process.stderr[-4000:]
