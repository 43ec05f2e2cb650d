"""The time of one recorded op on 4 x 4 arrays, ours against PyTorch's, as ratios from one interleaved run.

    python benchmarks/op_overhead.py [--rounds 15] [--json FILE]

A ratio below 1 means that ours is faster. The first lines are forward alone with recording on, of float32 arrays of
which one requires a gradient; the last two are a chain of 1,000 multiplications, forward and backward.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import tinytensor as tt

NUMBER = 2000
CHAIN = 1000


def seconds(function: Callable[[], object], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        function()
    return (time.perf_counter() - start) / number


def cases() -> dict[str, tuple[Callable[[], object], Callable[[], object], int]]:
    rng = np.random.default_rng(0)
    a, b = (rng.random((4, 4)).astype(np.float32) + 0.5 for _ in range(2))
    x, y = tt.tensor(a, requires_grad=True), tt.tensor(b)
    u, v = torch.tensor(a, requires_grad=True), torch.tensor(b)
    found: dict[str, tuple[Callable[[], object], Callable[[], object], int]] = {
        "add": (lambda: x + y, lambda: u + v, NUMBER),
        "multiply": (lambda: x * y, lambda: u * v, NUMBER),
        "multiply by 2.0": (lambda: x * 2.0, lambda: u * 2.0, NUMBER),
        "exp": (lambda: x.exp(), lambda: u.exp(), NUMBER),
        "tanh": (lambda: x.tanh(), lambda: u.tanh(), NUMBER),
        "matmul": (lambda: x @ y, lambda: u @ v, NUMBER),
        "sum": (lambda: x.sum(), lambda: u.sum(), NUMBER),
        "reshape": (lambda: x.reshape(2, 8), lambda: u.reshape(2, 8), NUMBER),
    }

    def chain(start, factor):
        value = start
        for _ in range(CHAIN):
            value = value * factor
        return value

    found[f"chain of {CHAIN}: forward"] = (lambda: chain(x, 1.0), lambda: chain(u, 1.0), 3)
    found[f"chain of {CHAIN}: forward and backward"] = (
        lambda: chain(x, 1.0).sum().backward(),
        lambda: chain(u, 1.0).sum().backward(),
        3,
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds (default 15)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    results = {}
    print(f"{'op on 4 x 4 float32':36} {'ours us':>8} {'torch us':>9} {'ratio':>6} {'min':>6} {'max':>6}")
    for name, (ours, theirs, number) in cases().items():
        seconds(ours, number), seconds(theirs, number)
        pairs = [(seconds(ours, number), seconds(theirs, number)) for _ in range(arguments.rounds)]
        ratios = sorted(a / b for a, b in pairs)
        median = statistics.median(ratios)
        microseconds = [1e6 * statistics.median(column) for column in zip(*pairs)]
        print(
            f"{name:36} {microseconds[0]:8.2f} {microseconds[1]:9.2f} {median:6.2f} {ratios[0]:6.2f} {ratios[-1]:6.2f}"
        )
        results[name] = {"ours_us": microseconds[0], "torch_us": microseconds[1], "ratio": median}
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
