"""Keeping freed memory: the system is not asked again for pages that were freed, unless that is switched off."""

import os
import subprocess
import sys

import pytest

COUNT = """
import resource
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import tinytensor as tt
def step():  # the larger ones are beyond what glibc keeps by itself, and both of them beyond a thread's own heap
    arrays = [np.ones(size, np.uint8) for size in (1 << 20, 40 << 20, 40 << 20)]
def faults(run):
    run(step)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        run(step)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
kept = tt.keep_memory()
with ThreadPoolExecutor(1) as other:
    print(kept, faults(lambda f: f()), faults(lambda f: other.submit(f).result()))
"""
LARGEST_PAGES = 5 * (40 << 20) / 4096 / 600  # of one of the large arrays in all steps


def faults(setting):
    environment = os.environ | {"TINYTENSOR_KEEP_MEMORY": setting}
    result = subprocess.run([sys.executable, "-c", COUNT], env=environment, capture_output=True, text=True, check=True)
    kept, *counts = result.stdout.split()
    return kept, [int(count) for count in counts]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_freed_memory_is_kept_unless_switched_off():
    kept, few = faults("1")
    if kept == "False":
        pytest.skip("this C library is not glibc, or tinytensor/fast is left out")
    off, many = faults("0")
    assert off == "False"
    assert min(many) > LARGEST_PAGES  # at least one fault for each of the largest pages there are
    assert max(few) < LARGEST_PAGES / 2  # on a thread of its own as well
