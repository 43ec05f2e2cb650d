"""The time of one recorded op on 4 x 4 arrays, ours against PyTorch's, as ratios from one interleaved run.

    python benchmarks/op_overhead.py [--rounds 15] [--json FILE]

A ratio below 1 means that ours is faster. Each op runs on float32 arrays of which one requires a gradient: forward
alone with recording on, then forward and backward. The last lines are chains of multiplications.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from interleaved import ratio, write_json

import tinytensor as tt

NUMBER = 2000
CHAINS = {1000: 3, 100_000: 1}  # ops of a chain, and how many chains are timed at once


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
    ops: dict[str, Callable] = {
        "add": lambda x, y: x + y,
        "multiply": lambda x, y: x * y,
        "multiply by 2.0": lambda x, y: x * 2.0,
        "exp": lambda x, y: x.exp(),
        "tanh": lambda x, y: x.tanh(),
        "matmul": lambda x, y: x @ y,
        "sum": lambda x, y: x.sum(),
        "reshape": lambda x, y: x.reshape(2, 8),
    }
    found: dict[str, tuple[Callable[[], object], Callable[[], object], int]] = {}
    for name, op in ops.items():
        found[name] = (lambda op=op: op(x, y)), (lambda op=op: op(u, v)), NUMBER
    for name, op in ops.items():
        g, h = tt.ones(op(x, y).shape), torch.ones(op(u, v).shape)
        found[f"{name}: forward and backward"] = (
            lambda op=op, g=g: op(x, y).backward(g),
            lambda op=op, h=h: op(u, v).backward(h),
            NUMBER // 2,
        )

    def chain(start, length: int):
        value = start
        for _ in range(length):
            value = value * 1.0
        return value

    for length, number in CHAINS.items():
        found[f"chain of {length:,}"] = (lambda n=length: chain(x, n)), (lambda n=length: chain(u, n)), number
        found[f"chain of {length:,}: forward and backward"] = (
            lambda n=length: chain(x, n).sum().backward(),
            lambda n=length: chain(u, n).sum().backward(),
            number,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds (default 15)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    results = {}
    print(f"{'op on 4 x 4 float32':40} {'ours us':>10} {'torch us':>10}   ours takes, of it")
    for name, (ours, theirs, number) in cases().items():
        seconds(ours, number), seconds(theirs, number)
        mine, its = zip(*((seconds(ours, number), seconds(theirs, number)) for _ in range(arguments.rounds)))
        of_it, medians = ratio(mine, its), [1e6 * statistics.median(times) for times in (mine, its)]
        print(f"{name:40} {medians[0]:10.2f} {medians[1]:10.2f}   {of_it}", flush=True)
        results[name] = {"ours_us": medians[0], "torch_us": medians[1], "ours_takes": of_it._asdict()}
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
