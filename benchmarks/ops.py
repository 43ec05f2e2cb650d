"""Each op forward and backward on arrays of the usual sizes, next to PyTorch, with the same text on both sides.

    python benchmarks/ops.py [--rows softmax,elu] [--threads 1] [--rounds 5]

A row is an expression in PyTorch's names, which `tinytensor.torch` computes on our side after a plain import. Printed
are PyTorch's microseconds and the ratios of our times to its (below 1: ours is faster), each the median of interleaved
rounds, then the median over all rows. The sums of both results are compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from checkout import enter
from command_line import Parser, count, require_torch, script, some_of, write_json
from interleaved import Side, print_blas, ratio, torch

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 0.05  # of a row in a round
APART = 2e-3

INPUTS = {  # name: shape of random normal numbers with a gradient
    "m": (2048, 256), "other": (2048, 256), "x": (64, 32, 256), "weight": (256, 256), "vector": (256,),
    "image": (32, 16, 28, 28), "narrow": (2048, 10), "few": (32, 10), "a4": (8, 8, 64, 64), "b4": (8, 8, 64, 64),
    "sequence": (16, 20, 64), "state": (16, 128), "step": (16, 64), "heads": (12, 4, 64, 32),
}  # fmt: skip

EACH = (  # functions of one array, element by element
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1",
    "floor", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin",
    "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
)  # fmt: skip
INSIDE = {"acos", "asin", "atanh"}  # whose argument has to be between -1 and 1
POSITIVE = {"acosh", "lgamma", "log", "log10", "log1p", "log2", "rsqrt", "sqrt"}
ACTIVATIONS = (
    "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish",
    "relu", "relu6", "selu", "silu", "softplus", "softshrink", "softsign", "tanhshrink",
)  # fmt: skip

ROWS = {
    **{name: f"torch.{name}({'inside' if name in INSIDE else 'pos' if name in POSITIVE else 'm'})" for name in EACH},
    **{name: f"F.{name}(m)" for name in ACTIVATIONS},
    "x ** 2": "m ** 2", "x ** 3": "m ** 3", "x ** -1": "pos ** -1", "x ** 0.5": "pos ** 0.5", "x ** y": "pos ** other",
    "add": "m + other", "multiply": "m * other", "divide": "m / pos", "scale": "m * 0.125", "bias add": "m + vector",
    "column times matrix": "m * m[:, :1]", "maximum": "torch.maximum(m, other)", "atan2": "torch.atan2(m, pos)",
    "logaddexp": "torch.logaddexp(m, other)", "clamp": "m.clamp(-1, 1)", "where": "torch.where(condition, m, other)",
    "masked_fill": "a4.masked_fill(mask, -1e9)", "lerp": "torch.lerp(m, other, 0.3)",
    "sum": "m.sum()", "sum axis 0": "m.sum(0)", "sum axis 1": "m.sum(1)", "sum middle axis": "x.sum(1)",
    "sum of a strided view": "m[:, ::2].sum()", "mean": "x.mean(-1, keepdim=True)", "amax": "m.amax(1)",
    "max axis 1": "m.max(1)[0]", "var": "m.var(-1, unbiased=False)", "std": "m.std(-1)", "norm": "m.norm()",
    "logsumexp": "torch.logsumexp(m, 1)", "softmax": "F.softmax(m, -1)", "softmax of heads": "F.softmax(a4, -1)",
    "softmax dim 1": "F.softmax(x, dim=1)", "log_softmax": "F.log_softmax(m, dim=-1)", "cumsum": "torch.cumsum(m, 1)",
    "cumprod": "torch.cumprod(m, 1)", "prod": "m.prod(1)",
    "layer_norm": "F.layer_norm(x, (256,), vector, vector)", "rms_norm": "F.rms_norm(x, (256,), vector)",
    "batch norm 1d": "F.batch_norm(m, None, None, vector, vector, True)",
    "batch norm 2d": "batch_norm(image)", "group norm": "F.group_norm(image, 4)",
    "cross_entropy 256": "F.cross_entropy(m, words)", "cross_entropy 10": "F.cross_entropy(few, digits)",
    "nll_loss": "F.nll_loss(m, words)", "mse": "F.mse_loss(m, other)", "l1": "F.l1_loss(m, other)",
    "smooth l1": "F.smooth_l1_loss(m, other)", "bce_with_logits": "F.binary_cross_entropy_with_logits(m, chances)",
    "kl_div": "F.kl_div(m, chances, reduction='batchmean')", "cosine": "F.cosine_similarity(m, other, dim=1)",
    "rows by index": "m[places]", "gather": "m.gather(1, columns)", "slice": "m[:, 10:200] * 1.0",
    "embedding": "F.embedding(places, m)", "index_select": "torch.index_select(m, 0, places)",
    "scatter_add": "m.scatter_add(1, columns, other[:, :8])", "topk": "m.topk(5, dim=1)[0]", "sort": "m.sort(1)[0]",
    "flip": "m.flip(1)", "roll": "torch.roll(m, 3, 1)", "tril": "torch.tril(a4)", "repeat": "m.repeat(2, 1)",
    "cat": "torch.cat([m, other], 0)", "stack": "torch.stack([m, other])", "contiguous": "m.t().contiguous()",
    "permute": "image.permute(0, 2, 3, 1).contiguous()", "split in three": "sum(t.sum() for t in x.split(100, dim=2))",
    "expand": "m.unsqueeze(1).expand(2048, 4, 256) * 2.0", "outer": "m[0][:, None] * m[1][None, :]",
    "matmul": "m @ weight", "matmul 4d": "a4 @ b4", "matmul 4d transposed": "a4 @ b4.transpose(-1, -2)",
    "einsum": "torch.einsum('bhqd,bhkd->bhqk', a4, b4)", "linear": "F.linear(x, weight, vector)",
    "attention": "F.scaled_dot_product_attention(heads, heads, heads)",
    "causal attention": "F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)",
    "mha": "mha(x, x, x, need_weights=False)[0]", "dropout": "F.dropout(m, 0.1, True)",
    "conv2d": "convolution(image)", "max pool": "F.max_pool2d(image, 2)", "average pool": "F.avg_pool2d(image, 2)",
    "lstm": "lstm(sequence)[0]", "gru cell": "gru_cell(step, state)", "lstm cell": "lstm_cell(step)[0]",
    "mlp": "F.cross_entropy(mlp(digits_seen), digits64)",
}  # fmt: skip
RANDOM = {"dropout", "mha", "conv2d", "lstm", "gru cell", "lstm cell", "mlp"}
"""Rows with numbers that each library draws: their sums are not compared."""

REASONS: dict[str, str] = {}
"""Why a row above 1.5 stays there."""


def names(torch: Any) -> dict[str, Any]:
    """What the expressions read, in one of the libraries."""
    draw, nn = np.random.default_rng(0), torch.nn
    there: dict[str, Any] = {"torch": torch, "F": nn.functional}

    def leaf(values: Any) -> Any:
        return torch.tensor(values.astype("f4")).requires_grad_(True)

    for name, shape in INPUTS.items():
        there[name] = leaf(draw.standard_normal(shape))
    there["pos"] = leaf(np.abs(draw.standard_normal((2048, 256))) + 1.1)
    there["inside"] = leaf(draw.random((2048, 256)) * 1.8 - 0.9)
    there["chances"] = torch.tensor(draw.random((2048, 256)).astype("f4") * 0.9 + 0.05)
    there["condition"] = torch.tensor(draw.random((2048, 256)) > 0.5)
    there["mask"] = torch.tensor(np.triu(np.ones((64, 64), bool), 1))
    there["words"], there["digits"] = (torch.tensor(draw.integers(0, n, k)) for n, k in ((256, 2048), (10, 32)))
    there["places"] = torch.tensor(draw.integers(0, 2048, 4096))
    there["columns"] = torch.tensor(draw.integers(0, 256, (2048, 8)))
    there["digits_seen"] = torch.tensor(draw.standard_normal((64, 784)).astype("f4"))
    there["digits64"] = torch.tensor(draw.integers(0, 10, 64))
    there["batch_norm"], there["mha"] = nn.BatchNorm2d(16), nn.MultiheadAttention(256, 8, batch_first=True)
    there["convolution"], there["lstm"] = nn.Conv2d(16, 32, 3, padding=1), nn.LSTM(64, 128, batch_first=True)
    there["gru_cell"], there["lstm_cell"] = nn.GRUCell(64, 128), nn.LSTMCell(64, 128)
    there["mlp"] = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return there


def timed(torch: Any) -> Callable[[str], Any]:
    """A function that gives, for a row, the least microseconds forward and backward, and what it computed."""
    there = names(torch)
    compiled = {name: eval(f"lambda: {text}", there) for name, text in ROWS.items()}
    leaves = [value for value in there.values() if getattr(value, "requires_grad", False)]
    leaves += [p for value in there.values() if hasattr(value, "parameters") for p in value.parameters()]

    def row(name: str) -> tuple[float, float, Any]:
        function, best, end = compiled[name], [1e9, 1e9], time.perf_counter() + SECONDS
        out = function()
        ones = torch.ones(*out.shape) if len(out.shape) else None
        while time.perf_counter() < end or best[0] > 1e8:
            for leaf in leaves:
                leaf.grad = None
            start = time.perf_counter()
            out = function()
            middle = time.perf_counter()
            best[0] = min(best[0], middle - start)
            if out.requires_grad:
                out.backward(ones)
                best[1] = min(best[1], time.perf_counter() - middle)
        return best[0] * 1e6, best[1] * 1e6 if out.requires_grad else 0.0, float(out.detach().sum().item())

    return row


def tinytensor_side() -> tuple[Callable[..., Any], Any]:
    enter(ROOT)
    import tinytensor.torch as torch

    return timed(torch), None


def torch_side(threads: int) -> tuple[Callable[..., Any], Any]:
    import torch

    torch.set_num_threads(threads)
    return timed(torch), None


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--rows", type=some_of(*ROWS), default=list(ROWS), help="default: all")
    parser.add_argument("--threads", type=count, default=2, help="of either side (default 2)")
    parser.add_argument("--rounds", type=count, default=5, help="interleaved rounds (default 5)")
    parser.add_json()
    arguments = parser.parse_args()
    require_torch()
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "TINYTENSOR_NUM_THREADS"), "1") if arguments.threads == 1 else {}
    sides = {
        "ours": Side(tinytensor_side, one),
        "PyTorch": Side(torch_side, torch(arguments.threads), arguments.threads),
    }
    print(f"{'':24} PyTorch, us: forward, backward   ours takes, of it: forward, backward", flush=True)
    results, all_ratios = {}, []
    for name in arguments.rows:
        found = [[side.ask(name) for side in sides.values()] for _ in range(arguments.rounds + 1)][1:]
        mine, theirs = zip(*found)
        values = mine[0][2], theirs[0][2]
        if name not in RANDOM and abs(values[0] - values[1]) > APART * max(1.0, abs(values[1])):
            raise SystemExit(f"{script()}: {name}: the sums of the results are {values[0]:.6g} and {values[1]:.6g}")
        halves = [h for h in (0, 1) if all(row[h] for row in theirs)]
        ratios = [ratio([row[h] for row in mine], [row[h] for row in theirs]).median for h in halves]
        all_ratios += ratios
        microseconds = [statistics.median(row[h] for row in theirs) for h in halves]
        times, takes = (" ".join(f"{n:9.{k}f}" for n in numbers) for numbers, k in ((microseconds, 0), (ratios, 2)))
        print(f"{name:24} {times:20}            {takes:20} {REASONS.get(name, '')}".rstrip(), flush=True)
        results[name] = {"us": microseconds, "ours_takes": ratios}
    slow = sum(r > 1.5 for r in all_ratios)
    print(f"median {statistics.median(all_ratios):.2f}; above 1.5: {slow} of {len(all_ratios)}")
    print_blas({name: side.blas for name, side in sides.items()})
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
