"""Time and memory of attention between long sequences, forward and backward: ours against PyTorch's fused attention.

    python benchmarks/attention.py [--lengths 1024,4096,16384] [--heads 8] [--causal] [--dropout 0.1] [--rounds 3]
    python benchmarks/attention.py --device gpu

One sequence of each length attends to itself, in float32. Each side runs in a process of its own; the table shows its
peak memory, on a GPU that of its arrays. Without dropout, results and gradients are compared. The peers:

    torch     torch.nn.functional.scaled_dot_product_attention
    whole     ours with the whole matrix of weights in memory, as for short sequences
    floor     the matrix products alone, by NumPy: two forward and, since no weights are kept, five backward
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import interleaved
from busy import Elsewhere, is_quiet
from checkout import Checkout, module
from command_line import Parser, count, counts, probability, refuse, require_torch, script, some_of, write_json
from gpu import count_memory, torch_device
from interleaved import Side, print_blas, ratio

ROOT = Path(__file__).resolve().parents[1]
LENGTHS = [1024, 4096, 16384]
PEERS = ("torch", "whole", "floor")
BLOCK = 512  # queries and keys in a product of the floor: more than in ours, with results that fit into a cache
APART = 1e-3  # the largest difference of results and gradients, relative to the largest of each


def arrays(length: int, heads: int, head_dim: int) -> list[Any]:
    """Query, key, value and the gradient of the result."""
    import numpy as np

    rng = np.random.default_rng(0)
    return [rng.standard_normal((1, heads, length, head_dim), dtype=np.float32) for _ in range(4)]


def sample(found: list[Any]) -> list[Any]:
    """Some rows of each array, enough to compare."""
    return [x[:, :, :: max(1, x.shape[2] // 64)].copy() for x in found]


def ours(sizes: tuple[int, int, int], causal: bool, dropout: float, device: str, whole: bool):
    checkout = Checkout(ROOT)
    tt, F = checkout.tt, checkout.nn.functional
    checkout.speed_up()
    if whole:
        module("nn.fast.attention_blocks").LONG[device] = sys.maxsize
        module("nn.fast.attention").LOOPS_FROM = sys.maxsize
    *leaves, g = (tt.tensor(x, device=device, requires_grad=i < 3) for i, x in enumerate(arrays(*sizes)))

    def step():
        out = F.scaled_dot_product_attention(*leaves, dropout_p=dropout, is_causal=causal)
        return sample([x.detach().numpy() for x in (out, *tt.grad(out, leaves, g))])

    return count_memory(step, device, "cupy"), None


def theirs(sizes: tuple[int, int, int], causal: bool, dropout: float, where: str, threads: int):
    import torch

    torch.set_num_threads(threads)
    device = torch_device(where)
    *leaves, g = (torch.tensor(x, device=device, requires_grad=i < 3) for i, x in enumerate(arrays(*sizes)))

    def step():
        out = torch.nn.functional.scaled_dot_product_attention(*leaves, dropout_p=dropout, is_causal=causal)
        return sample([x.detach().cpu().numpy() for x in (out, *torch.autograd.grad(out, leaves, g))])

    return count_memory(step, where, "torch"), None


def floor(sizes: tuple[int, int, int], causal: bool, threads: int):
    from concurrent.futures import ThreadPoolExecutor

    heads = list(zip(*(x[0] for x in arrays(*sizes))))
    length = sizes[0]

    def multiply(head: tuple[Any, ...]) -> None:
        for first in range(0, length, BLOCK):
            for start in range(0, min(first + BLOCK, length) if causal else length, BLOCK):
                (q, _, _, g), (_, k, v, _) = (tuple(x[begin : begin + BLOCK] for x in head) for begin in (first, start))
                weights = q @ k.T
                weights @ v  # with the line above, the whole forward pass
                weights = q @ k.T
                gradient = g @ v.T
                weights.T @ g, gradient @ k, gradient.T @ q

    def step():
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(multiply, heads))
        return []

    return step, None


def start(name: str, length: int, arguments: argparse.Namespace) -> Side:
    """The process of a side."""
    given = ((length, arguments.heads, arguments.head_dim), arguments.causal)
    if name == "torch":
        of_torch = arguments.dropout, arguments.device, arguments.threads
        return Side(theirs, interleaved.torch(arguments.threads), *given, *of_torch)
    if name == "floor":
        return Side(floor, interleaved.ours(1), *given, arguments.threads)
    of_ours = arguments.dropout, arguments.device, name == "whole"
    return Side(ours, interleaved.ours(arguments.threads), *given, *of_ours)


def compare(length: int, arguments: argparse.Namespace, peers: list[str]) -> dict[str, Any]:
    """Time one length on all sides, print a line for each and return its figures."""
    sides = {name: start(name, length, arguments) for name in ("ours", *peers)}
    found = {name: side.ask() for name, side in sides.items()}
    for name, others in found.items():
        apart = max((float(abs(a - b).max() / abs(b).max()) for a, b in zip(found["ours"], others)), default=0.0)
        if apart > APART and not arguments.dropout:
            raise SystemExit(f"{script()}: {length} positions: ours and {name} are {apart:.2g} apart")
    if arguments.device == "gpu":  # a GPU compiles in the first call, and its clock rises
        for side in sides.values():
            side.ask()
    for side in sides.values():
        side.seconds.clear()
    elsewhere = Elsewhere(sides.values())
    for _ in range(arguments.rounds):
        for side in sides.values():
            side.ask()
    used = elsewhere.cores()
    results: dict[str, Any] = {
        "blas": {name: side.blas for name, side in sides.items()},
        "cores_used_by_others": used,
    }
    for name, side in sides.items() if is_quiet(f"{length:,}", used, arguments.anyway) else ():
        of_it, median, peak = ratio(sides["ours"].seconds, side.seconds), statistics.median(side.seconds), side.close()
        print(f"{length:9,} {name:8} {1e3 * median:9.0f}   {of_it!s:22} {peak / 2**20:8.0f}", flush=True)
        results[name] = {"ms": 1e3 * median, "ours_takes": of_it._asdict(), "peak_bytes": peak}
    return results


def main() -> None:
    parser = Parser(__doc__)
    peers = some_of(*PEERS)
    parser.add_argument("--lengths", type=counts, default=LENGTHS, help=f"positions (default {str(LENGTHS)[1:-1]})")
    parser.add_argument("--peers", type=peers, default=["torch"], help=f"some of {','.join(PEERS)} (default torch)")
    parser.add_argument("--heads", type=count, default=8, help="default 8")
    parser.add_argument("--head-dim", type=count, default=64, help="size of each head (default 64)")
    parser.add_argument("--causal", action="store_true", help="each position sees those before it only")
    parser.add_argument("--dropout", type=probability, default=0.0, help="of the weights (default 0)")
    parser.add_argument("--rounds", type=count, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--threads", type=count, default=2, help="threads of each side (default 2)")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_anyway()
    parser.add_json()
    arguments = parser.parse_args()
    if arguments.device == "gpu" and "floor" in arguments.peers:
        refuse("--peers floor is NumPy's, so it goes with --device cpu")
    if "torch" in arguments.peers:
        require_torch()
    print(f"{'positions':>9} {'side':8} {'ms':>9}   {'ours takes, of it':22} {'peak MiB':>8}")
    results = {length: compare(length, arguments, arguments.peers) for length in arguments.lengths}
    print_blas(next(iter(results.values()))["blas"])
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
