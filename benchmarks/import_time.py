"""What `import tinytensor` adds to `import numpy`, in milliseconds, from interleaved fresh interpreters.

python benchmarks/import_time.py [--rounds 15]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

CODE = """
import time
import numpy
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


def milliseconds(module: str) -> float:
    """The time that importing a module takes after NumPy, in an interpreter of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # as installed: compiled
    command = [sys.executable, "-c", CODE.format(module=module)]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return 1e3 * float(out.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="fresh interpreters for each module (default 15)")
    rounds = parser.parse_args().rounds
    modules = ("tinytensor", "tinytensor.nn")
    times = {module: [] for module in modules}
    for _ in range(rounds + 1):  # the first writes the byte code
        for module in modules:
            times[module].append(milliseconds(module))
    for module, found in times.items():
        found = sorted(found[1:])
        print(f"import {module:10} after numpy: {statistics.median(found):6.1f} ms (min {found[0]:.1f})")


if __name__ == "__main__":
    main()
