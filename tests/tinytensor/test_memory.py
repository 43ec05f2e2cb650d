"""Keeping freed memory: the system is not asked again for pages that were freed, unless that is switched off."""

import os
import subprocess
import sys

import pytest

COUNT = """
import resource
import numpy as np
import tinytensor as tt
kept = tt.keep_memory()
def step():
    for size in (1 << 20, 40 << 20):  # the larger one is beyond what glibc keeps by itself
        np.ones(size, np.uint8)
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(setting):
    environment = os.environ | {"TINYTENSOR_KEEP_MEMORY": setting}
    result = subprocess.run([sys.executable, "-c", COUNT], env=environment, capture_output=True, text=True, check=True)
    kept, count = result.stdout.split()
    return kept, int(count)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_freed_memory_is_kept_unless_switched_off():
    kept, few = faults("1")
    if kept == "False":
        pytest.skip("this C library is not glibc")
    off, many = faults("0")
    assert off == "False"
    assert many > 5 * (40 << 20) / 4096 / 600  # at least one fault for each of the largest pages there are
    assert few < 200
