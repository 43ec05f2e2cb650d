"""The time of one recorded op on 4 x 4 arrays, ours against PyTorch's, as ratios from one interleaved run.

    python benchmarks/op_overhead.py [--rounds 15] [--json FILE]
    python benchmarks/op_overhead.py --against FOLDER    # another checkout of tinytensor in PyTorch's place

A ratio below 1 means that ours is faster. Each op runs on float32 arrays, one of them with a gradient: first forward
only, recorded, then forward and backward. The last lines are chains of multiplications. Each side runs in a process of
its own, as imported: nothing is switched on.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from busy import Elsewhere, is_quiet
from checkout import Checkout
from command_line import Parser, count, require_torch, write_json
from interleaved import Side, print_blas, ratio

ROOT = Path(__file__).resolve().parents[1]
NUMBER = 2000
CHAINS = {1000: 3, 100_000: 1}  # ops in a chain: the number of chains timed at once

OPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "multiply by 2.0": lambda x, y: x * 2.0,
    "exp": lambda x, y: x.exp(),
    "tanh": lambda x, y: x.tanh(),
    "matmul": lambda x, y: x @ y,
    "sum": lambda x, y: x.sum(),
    "reshape": lambda x, y: x.reshape(2, 8),
}


# ---- the sides: each gives a function that runs a case so many times, and tells the cases' names and numbers


def ours(folder: Path) -> tuple[Callable[[str, int], None], dict[str, int]]:
    tt = Checkout(folder).tt
    return cases(tt.tensor, tt.ones)


def theirs() -> tuple[Callable[[str, int], None], dict[str, int]]:
    import torch

    return cases(torch.tensor, torch.ones)


def cases(tensor: Callable[..., Any], ones: Callable[..., Any]) -> tuple[Callable[[str, int], None], dict[str, int]]:
    import numpy as np

    rng = np.random.default_rng(0)
    a, b = (rng.random((4, 4)).astype(np.float32) + 0.5 for _ in range(2))
    x, y = tensor(a, requires_grad=True), tensor(b)
    functions: dict[str, Callable[[], object]] = {}
    numbers: dict[str, int] = {}
    for name, op in OPS.items():
        functions[name] = lambda op=op: op(x, y)
        numbers[name] = NUMBER
    for name, op in OPS.items():
        g = ones(op(x, y).shape)
        functions[f"{name}: forward and backward"] = lambda op=op, g=g: op(x, y).backward(g)
        numbers[f"{name}: forward and backward"] = NUMBER // 2

    def chain(length: int) -> Any:
        value = x
        for _ in range(length):
            value = value * 1.0
        return value

    for length, number in CHAINS.items():
        functions[f"chain of {length:,}"] = lambda n=length: chain(n)
        functions[f"chain of {length:,}: forward and backward"] = lambda n=length: chain(n).sum().backward()
        numbers |= dict.fromkeys(list(functions)[-2:], number)

    def repeat(name: str, number: int) -> None:
        function = functions[name]
        for _ in range(number):
            function()

    return repeat, numbers


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--rounds", type=count, default=15, help="interleaved rounds (default 15)")
    parser.add_against()
    parser.add_anyway()
    parser.add_json()
    arguments = parser.parse_args()
    if not arguments.against:
        require_torch()
    mine = Side(ours, {}, ROOT)
    peer, its = ("other", Side(ours, {}, arguments.against)) if arguments.against else ("torch", Side(theirs, {}))
    print_blas(used := {"ours": mine.blas, peer: its.blas})
    print(f"{'op on 4 x 4 float32':40} {'ours us':>10} {f'{peer} us':>10}   ours takes, of it")
    results: dict[str, Any] = {"blas": used}
    for name, number in mine.greeting.items():
        for side in (mine, its):
            side.ask(name, number)
            side.seconds.clear()
        elsewhere = Elsewhere((mine, its))
        for _ in range(arguments.rounds):
            mine.ask(name, number)
            its.ask(name, number)
        if not is_quiet(name, elsewhere.cores(), arguments.anyway):
            continue
        of_it = ratio(mine.seconds, its.seconds)
        medians = [1e6 * statistics.median(side.seconds) / number for side in (mine, its)]
        print(f"{name:40} {medians[0]:10.2f} {medians[1]:10.2f}   {of_it}", flush=True)
        results[name] = {"ours_us": medians[0], f"{peer}_us": medians[1], "ours_takes": of_it._asdict()}
    for side in (mine, its):
        side.close()
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
