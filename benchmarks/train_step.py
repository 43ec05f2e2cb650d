"""The time of a training step of `models.Transformer`, ours against PyTorch, as ratios from one interleaved run.

    python benchmarks/train_step.py [--workloads copy,toy,m30k,base] [--dropout 0.1] [--peers eager,hand]
    python benchmarks/train_step.py --against FOLDER    # another checkout of tinytensor in PyTorch's place
    python benchmarks/train_step.py --plain             # nothing switched on, nothing set: what a newcomer has

    python benchmarks/train_step.py --device gpu --half --peers hand,graphed
    python benchmarks/train_step.py --workloads m30k,base --peers eager,bf16 --medium

A step is forward, cross-entropy, backward and Adam, in float32, with causal and padding masks. Each side runs in a
process of its own and starts from the same weights; without dropout, the losses of the first three steps are compared.
Ours uses the speed-ups of the scripts in `examples/`, and works like the training loop of `models`: on the CPU, it
computes large batches in two halves side by side (`nn.parallel`), on a GPU, it launches a step's kernels at once
(`nn.compile_step`). With --plain it does none of this, and every side takes the threads it likes. With --half, products
are in float16 under autocast and a GradScaler scales the loss, on every side. With --medium, the inputs of products are
rounded (`set_float32_matmul_precision`): on the CPU to bfloat16 by ours, on a GPU to TF32 by ours and by PyTorch.
A round times several steps of each side in turn, after some untimed ones; a ratio (below 1: ours is faster) is the
median over rounds. Peers:

    eager     PyTorch as users write it, with nn.Transformer
    kept      the same, but its allocator keeps freed memory, as ours does
    hand      written by hand for speed: one product for Q, K and V, fused attention and Adam; memory kept
    bf16      hand under torch.autocast("cpu", torch.bfloat16)
    compile   eager through torch.compile, which needs a C++ compiler; memory kept. On a GPU mode="reduce-overhead"
    graphed   hand through torch.cuda.make_graphed_callables: its forward and its backward pass are CUDA graphs
    floor     only the step's matrix products, by NumPy, with results allocated before
    whole     ours, with the whole step given to `tt.compile` instead of the fast paths for known layers; CPU
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import interleaved
from busy import Elsewhere, is_quiet
from checkout import Checkout
from command_line import Parser, count, probability, refuse, require_torch, script, some_of, write_json
from gpu import count_memory, torch_device
from interleaved import Side, SideEnded, multiply_alone, print_blas, ratio, take_turns

ROOT = Path(__file__).resolve().parents[1]


class Workload(NamedTuple):
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int
    batch: int
    length: int
    vocabulary: int
    steps: int  # in a round


WORKLOADS = {
    "copy": Workload(64, 4, 2, 256, 64, 16, 32, 20),
    "toy": Workload(128, 8, 2, 512, 64, 20, 2000, 8),
    "m30k": Workload(256, 8, 3, 1024, 128, 16, 8000, 2),
    "base": Workload(512, 8, 6, 2048, 16, 32, 8000, 2),
}
PEERS = ("eager", "kept", "hand", "bf16", "compile", "graphed", "floor", "whole")
APART, HALF_APART = 1e-3, 2e-2  # the largest difference of the losses, in float32 and in float16
SETTLED = 1.5  # seconds of steps before the timed ones: ours only takes cores that were free for a second
SETTLED_ON_GPU, MORE_ON_GPU = 0.3, 5  # the same on a GPU; and the factor for the steps of a round, which are shorter


def batch(w: Workload):
    """Source, target input and target output ids; a tenth of the positions, at the ends, are padding."""
    import numpy as np

    rng = np.random.default_rng(0)
    shape = (w.batch, w.length)
    source, target_in, target_out = (rng.integers(3, w.vocabulary, shape) for _ in range(3))
    lengths = rng.integers(math.ceil(w.length * 0.8), w.length + 1, w.batch)
    for row, length in enumerate(lengths):
        source[row, length:] = target_in[row, length:] = target_out[row, length:] = 0
    return source, target_in, target_out


# ---- the sides: each gives a function that makes so many steps and returns their losses


def ours(
    folder: Path,
    w: Workload,
    dropout: float,
    device: str = "cpu",
    plain: bool = False,
    half: bool = False,
    medium: bool = False,
    state: Any = None,
    whole: bool = False,
) -> tuple[Callable[[int], list[float]], Any]:
    checkout = Checkout(folder)
    tt, nn, F = checkout.tt, checkout.nn, checkout.nn.functional
    if not plain:
        checkout.speed_up()
    if medium:
        tt.set_float32_matmul_precision("medium")
    tt.manual_seed(0)
    model = checkout.models.Transformer(
        w.vocabulary, d_model=w.d_model, num_heads=w.num_heads, num_layers=w.num_layers, d_ff=w.d_ff, dropout=dropout,
        max_length=w.length,
    )  # fmt: skip
    if state is not None:
        model.load_state_dict({name: tt.asarray(value) for name, value in state.items()})
    state = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    model.to(device)
    optimizer = nn.optim.Adam(model.parameters(), lr=1e-4)
    source, target_in, target_out = (tt.asarray(x, device=device) for x in batch(w))

    tokens = int((target_out != 0).sum().item())
    rows = [slice(None)]
    if not plain and not whole and nn.parallel.worth_splitting(model.parameters(), tokens):
        rows = [slice(None, w.batch // 2), slice(w.batch // 2, None)]
    halves = [(source[part], target_in[part], target_out[part].reshape(-1)) for part in rows]

    def share(source, target_in, target_out):
        logits = model(source, target_in).reshape(-1, w.vocabulary)
        return F.cross_entropy(logits, target_out, ignore_index=0, reduction="sum") / tokens

    def scaled_share(source, target_in, target_out, scale):
        with nn.amp.autocast(device):
            loss = share(source, target_in, target_out)
        return loss * scale, loss

    compiled = device == "gpu" and not plain and hasattr(nn, "compile_step")
    at_once = nn.compile_step(share, model) if compiled else None
    scaled_at_once = nn.compile_step(scaled_share, model) if compiled else None
    scaler = nn.amp.GradScaler(device)

    def half_step():
        optimizer.zero_grad()
        if scaled_at_once is not None:
            _, loss = scaled_at_once(*halves[0], scaler.get_scale())
        else:
            scaled, loss = scaled_share(*halves[0], scaler.get_scale())
            scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    def written(*ids):
        optimizer.zero_grad()
        loss = share(*ids)
        loss.backward()
        optimizer.step()
        return loss

    written = tt.compile(written) if whole else written

    def step():
        if half:
            return half_step()
        if plain or whole:
            return written(*halves[0]).detach()
        optimizer.zero_grad()
        if at_once is not None:
            loss = at_once(*halves[0])
        else:
            loss = nn.parallel.backward_of_sum([partial(share, *half) for half in halves], model.parameters())
        optimizer.step()
        return loss.detach()

    def steps(number: int) -> list[float]:
        return [loss.item() for loss in [step() for _ in range(number)]]

    return count_memory(steps, device, "cupy"), state


def theirs(
    name: str, w: Workload, dropout: float, where: str, threads: int | None, half: bool, medium: bool, state: Any
):  # fmt: skip
    import torch
    from torch import nn
    from torch.nn import functional as F

    if threads is not None:
        torch.set_num_threads(threads)
    device = torch_device(where)
    if medium and device == "cuda":
        torch.set_float32_matmul_precision("high")

    class Twin(nn.Module):
        """The same model as users write it."""

        def __init__(self) -> None:
            super().__init__()
            self.source_embedding = nn.Embedding(w.vocabulary, w.d_model, padding_idx=0)
            self.target_embedding = nn.Embedding(w.vocabulary, w.d_model, padding_idx=0)
            self.transformer = nn.Transformer(
                w.d_model, w.num_heads, w.num_layers, w.num_layers, w.d_ff, dropout, batch_first=True
            )
            self.projection = nn.Linear(w.d_model, w.vocabulary)
            self.register_buffer("encoding", torch.tensor(sinusoids(w.length, w.d_model), dtype=torch.float32))

        def embed(self, embedding, ids):
            embedded = embedding(ids) * math.sqrt(w.d_model) + self.encoding[: ids.shape[1]]
            return F.dropout(embedded, dropout, self.training) if dropout else embedded

        def forward(self, source, target):
            causal = torch.triu(torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device=device), 1)
            padding = source == 0
            hidden = self.transformer(
                self.embed(self.source_embedding, source),
                self.embed(self.target_embedding, target),
                tgt_mask=causal,
                src_key_padding_mask=padding,
                tgt_key_padding_mask=target == 0,
                memory_key_padding_mask=padding,
                tgt_is_causal=True,  # else torch.compile stops where PyTorch looks at the mask
            )
            return self.projection(hidden)

    class ByHand(Twin):
        """The same weights, in the fewest and largest operations that PyTorch has."""

        def forward(self, source, target):
            seen = (source != 0)[:, None, None]
            causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device=device).tril()
            causal = causal & (target != 0)[:, None, None]
            x = self.embed(self.source_embedding, source)
            for layer in self.transformer.encoder.layers:
                x = layer.norm1(x + self.drop(self.attend(layer.self_attn, x, x, seen)))
                x = layer.norm2(x + self.drop(self.feed_forward(layer, x)))
            memory = self.transformer.encoder.norm(x)
            x = self.embed(self.target_embedding, target)
            for layer in self.transformer.decoder.layers:
                x = layer.norm1(x + self.drop(self.attend(layer.self_attn, x, x, causal)))
                x = layer.norm2(x + self.drop(self.attend(layer.multihead_attn, x, memory, seen)))
                x = layer.norm3(x + self.drop(self.feed_forward(layer, x)))
            return self.projection(self.transformer.decoder.norm(x))

        def drop(self, x):
            return F.dropout(x, dropout, self.training) if dropout else x

        def feed_forward(self, layer, x):
            return layer.linear2(self.drop(F.relu(layer.linear1(x), inplace=True)))

        def attend(self, attention, x, memory, seen):
            weight, bias = attention.in_proj_weight, attention.in_proj_bias
            if x is memory:
                parts = F.linear(x, weight, bias).chunk(3, dim=-1)
            else:
                query = F.linear(x, weight[: w.d_model], bias[: w.d_model])
                parts = query, *F.linear(memory, weight[w.d_model :], bias[w.d_model :]).chunk(2, dim=-1)
            query, key, value = (part.unflatten(-1, (w.num_heads, -1)).transpose(1, 2) for part in parts)
            out = F.scaled_dot_product_attention(query, key, value, seen, dropout_p=dropout if self.training else 0.0)
            return attention.out_proj(out.transpose(1, 2).flatten(2))

    by_hand = name in ("hand", "graphed", "bf16")
    model = ByHand() if by_hand else Twin()
    known = {key: torch.tensor(value) for key, value in state.items() if not key.startswith("positions")}
    missing = model.load_state_dict(known, strict=False)
    if missing.unexpected_keys or set(missing.missing_keys) - {"encoding"}:
        raise SystemExit(f"{script()}: the two models differ: {missing}")
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True if by_hand else None)
    source, target_in, target_out = (torch.tensor(x, device=device) for x in batch(w))
    # A graph records its casts with the rest, so it must not use casts cached outside.
    kind = torch.bfloat16 if name == "bf16" else torch.float16
    autocast = torch.autocast(device, kind, enabled=half or name == "bf16", cache_enabled=name != "graphed")
    scaler = torch.amp.GradScaler(device, enabled=half)
    call = model
    if name == "compile":
        call = torch.compile(model, mode="reduce-overhead" if device == "cuda" else None)
    elif name == "graphed":
        with autocast:
            call = torch.cuda.make_graphed_callables(model, (source, target_in))

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        with autocast:
            logits = call(source, target_in)
            loss = F.cross_entropy(logits.reshape(-1, w.vocabulary), target_out.reshape(-1), ignore_index=0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    def steps(number: int) -> list[float]:
        return [loss.item() for loss in [step() for _ in range(number)]]

    return count_memory(steps, where, "torch"), None


def sinusoids(length: int, d_model: int):
    return Checkout(ROOT).nn.sinusoidal_encoding(length, d_model).numpy()


def products(w: Workload) -> list[tuple[int, int, int, int, int]]:
    """The matrix products of a forward pass, (m, k) @ (k, n): how many, pairs in each, m, k, n."""
    tokens, pairs, head_dim = w.batch * w.length, w.batch * w.num_heads, w.d_model // w.num_heads
    layers = w.num_layers
    return [
        (2 * layers, 1, tokens, w.d_model, 3 * w.d_model),  # Q, K and V of self-attention
        (layers, 1, tokens, w.d_model, w.d_model),  # Q of the cross-attention
        (layers, 1, tokens, w.d_model, 2 * w.d_model),  # its K and V
        (3 * layers, pairs, w.length, head_dim, w.length),  # scores
        (3 * layers, pairs, w.length, w.length, head_dim),  # weights times values
        (3 * layers, 1, tokens, w.d_model, w.d_model),  # the projection of attention's result
        (2 * layers, 1, tokens, w.d_model, w.d_ff),
        (2 * layers, 1, tokens, w.d_ff, w.d_model),
        (1, 1, tokens, w.d_model, w.vocabulary),
    ]


def floor(w: Workload) -> tuple[Callable[[int], list[float]], Any]:
    """The products of forward and backward, with results allocated before."""
    import numpy as np

    rng = np.random.default_rng(0)
    calls = []
    for times, pairs, m, k, n in products(w):
        batched = (pairs,) if pairs > 1 else ()
        x, y, g = (rng.standard_normal((*batched, *s), dtype=np.float32) for s in ((m, k), (k, n), (m, n)))
        three = ((x, y), (g, y.swapaxes(-1, -2)), (x.swapaxes(-1, -2), g))
        calls += [(a, b, np.empty((*batched, a.shape[-2], b.shape[-1]), np.float32)) for a, b in three] * times

    return multiply_alone(calls), None


def start(name: str, w: Workload, arguments: argparse.Namespace, state: Any = None) -> Side:
    """The process of a side, which starts from the given weights."""
    threads = arguments.threads
    if name in ("ours", "other", "whole"):
        folder = arguments.against if name == "other" else ROOT
        environment = {} if arguments.plain else interleaved.ours(threads)
        given = folder, w, arguments.dropout, arguments.device, arguments.plain, arguments.half
        given += (arguments.medium and name != "other",)
        return Side(ours, environment, *given, state, name == "whole")
    if name == "floor":
        return Side(floor, {} if arguments.plain else interleaved.numpy(threads), w)
    environment = {} if arguments.plain else interleaved.torch(threads)
    if name != "eager":
        environment |= interleaved.KEPT
    given = name, w, arguments.dropout, arguments.device, threads, arguments.half, arguments.medium
    return Side(theirs, environment, *given, state)


def compare(name: str, arguments: argparse.Namespace, peers: list[str]) -> dict[str, Any]:
    """Time one workload on all sides, print a line for each and return its figures. A peer that ends is left out."""
    w = WORKLOADS[name]
    if arguments.shape:
        w = w._replace(batch=arguments.shape[0], length=arguments.shape[1])
    sides = {"ours": start("ours", w, arguments)}
    for peer in peers:
        sides[peer] = start(peer, w, arguments, sides["ours"].greeting)
    losses, ended = {"ours": sides["ours"].ask(3)}, []
    for peer in peers:
        try:
            losses[peer] = sides[peer].ask(3)
        except SideEnded as end:
            print(f"{name}: {peer} ended: {end}", file=sys.stderr, flush=True)
            ended.append(peer)
            del sides[peer]
    apart = max((abs(a - b) for found in losses.values() for a, b in zip(losses["ours"], found)), default=0.0)
    rounded = arguments.half or arguments.medium or "bf16" in peers
    if apart > (HALF_APART if rounded else APART) and not arguments.dropout:
        raise SystemExit(f"{script()}: the losses of {name} are {apart:.2g} apart: {losses}")
    elsewhere = Elsewhere(sides.values())
    number = w.steps * MORE_ON_GPU if arguments.device == "gpu" else w.steps
    settled = SETTLED_ON_GPU if arguments.device == "gpu" else SETTLED
    take_turns(sides, arguments.rounds, number, settled=settled)
    used = elsewhere.cores()
    peaks = {side: sides[side].close() for side in sides}
    results: dict[str, Any] = {"losses_apart": None if arguments.dropout else apart, "cores_used_by_others": used}
    results["ended"] = ended
    results["blas"] = {side: process.blas for side, process in sides.items()}
    for side, process in sides.items() if is_quiet(name, used, arguments.anyway) else ():
        milliseconds = 1e3 * statistics.median(process.seconds) / number
        of_it = ratio(sides["ours"].seconds, process.seconds)
        print(f"{name:6} {side:8} {milliseconds:9.1f}   {of_it!s:22} {peaks[side] / 2**20:8.0f}", flush=True)
        results[side] = {"ms": milliseconds, "ours_takes": of_it._asdict(), "peak_bytes": peaks[side]}
    return results


def shape(text: str) -> tuple[int, int]:
    sizes = text.split("x")
    if len(sizes) != 2 or not all(size.isdigit() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"expected sentences x length, for example 128x64, got {text!r}")
    return int(sizes[0]), int(sizes[1])


def main() -> None:
    parser = Parser(__doc__)
    workloads, peers = some_of(*WORKLOADS), some_of(*PEERS)
    parser.add_argument("--workloads", type=workloads, default=["toy"], help=f"some of {','.join(WORKLOADS)} (toy)")
    parser.add_argument("--peers", type=peers, help=f"some of {','.join(PEERS)} (default eager)")
    parser.add_argument("--rounds", type=count, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--dropout", type=probability, default=0.0, help="in all the paper's places (default 0)")
    parser.add_argument("--shape", type=shape, metavar="BxL", help="other sentences x length than the workload's")
    parser.add_argument("--threads", type=count, help="threads of each side (default 2; with --plain each side's own)")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--half", action="store_true", help="products in float16, on a GPU")
    parser.add_argument(
        "--medium", action="store_true", help="products round float32: to bfloat16 (ours), on a GPU to TF32"
    )
    parser.add_argument("--plain", action="store_true", help="switch nothing on and set nothing")
    parser.add_against()
    parser.add_anyway()
    parser.add_json()
    arguments = parser.parse_args()
    if arguments.plain and arguments.threads:
        refuse("--plain sets nothing, so it takes no --threads")
    if arguments.half and arguments.device != "gpu":
        refuse("--half is for --device gpu: processors multiply float16 slowly")
    if "graphed" in (arguments.peers or ()) and torch_device(arguments.device) != "cuda":
        refuse("--peers graphed is for --device gpu: it records CUDA graphs")
    if "whole" in (arguments.peers or ()) and arguments.device == "gpu":
        refuse("--peers whole is for the CPU, where tt.compile runs programs")
    if arguments.against and arguments.peers:
        refuse("--against compares with that checkout alone, so it takes no --peers")
    if not arguments.plain and not arguments.threads:
        arguments.threads = 2
    chosen = ["other"] if arguments.against else arguments.peers or ["eager"]
    if set(chosen) - {"other", "floor", "whole"}:
        require_torch()
    print(f"{'':6} {'side':8} {'ms a step':>9}   {'ours takes, of it':22} {'peak MiB':>8}")
    results = {name: compare(name, arguments, chosen) for name in arguments.workloads}
    print_blas(next(iter(results.values()))["blas"])
    write_json(arguments.json, results)
    if any(figures["ended"] for figures in results.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
