"""The time of a step of `models.LanguageModel` in training, ours against PyTorch eager, from one interleaved run.

    python benchmarks/language_model.py [--kinds gpt2,llama] [--size tiny] [--peers eager,floor] [--dropout 0.1]
        [--rounds 5]
    python benchmarks/language_model.py --against FOLDER    # another checkout of tinytensor in PyTorch's place

The model of nanoGPT for 65 characters: 6 layers, d_model 384, 6 heads, 256 positions, 12 sequences; or of `tiny` size,
as examples/train_language_model.py trains it: 4 layers, d_model 128, 4 heads, 64 positions, 16 sequences. A step is
forward, cross-entropy, backward, clipping and AdamW, in float32. On PyTorch's side the model is written like nanoGPT:
one product for Q, K and V, causal `scaled_dot_product_attention`, exact GELU, no biases; `llama` has rotary positions,
RMSNorm and SwiGLU instead. Each side runs in a process of its own and starts from the same weights; without dropout,
the losses of the first three steps are compared. A round times several steps of each side in turn, after some untimed
ones; a ratio (below 1: ours is faster) is the median over rounds. The peers:

    eager     PyTorch
    floor     only the products of the linear maps, without attention, by NumPy, with results allocated before
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import interleaved
from busy import Elsewhere, is_quiet
from checkout import Checkout, module
from command_line import Parser, count, probability, refuse, require_torch, script, some_of, write_json
from interleaved import Side, multiply_alone, print_blas, ratio, take_turns

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("gpt2", "llama")
PEERS = ("eager", "floor")
VOCABULARY = 65
OPTIMISER: dict[str, Any] = {"lr": 1e-3, "betas": (0.9, 0.99), "weight_decay": 0.1}
APART = 1e-3  # the largest difference of the losses
SETTLED = 1.5  # seconds of steps before the timed ones


class Size(NamedTuple):
    layers: int
    d_model: int
    heads: int
    length: int
    batch: int

    def inner(self, kind: str) -> int:
        return {"gpt2": 4 * self.d_model, "llama": 8 * self.d_model // 3}[kind]


SIZES = {"nano": Size(6, 384, 6, 256, 12), "tiny": Size(4, 128, 4, 64, 16)}


def batch(size: Size):
    """Ids, and the ids that follow them."""
    import numpy as np

    ids = np.random.default_rng(0).integers(0, VOCABULARY, (size.batch, size.length + 1))
    return ids[:, :-1], ids[:, 1:]


def ours(folder: Path, kind: str, size: Size, dropout: float) -> tuple[Callable[[int], list[float]], Any]:
    checkout = Checkout(folder)
    tt, nn, F = checkout.tt, checkout.nn, checkout.nn.functional
    checkout.speed_up()
    tt.manual_seed(0)
    options = dict(getattr(module("models.language_model"), {"gpt2": "GPT2", "llama": "LLAMA"}[kind]))
    if kind == "gpt2":
        options |= {"bias": False, "activation": "gelu"}
    model = checkout.models.LanguageModel(
        VOCABULARY, d_model=size.d_model, num_heads=size.heads, num_layers=size.layers, d_ff=size.inner(kind),
        max_length=size.length, dropout=dropout, **options,
    )  # fmt: skip
    state = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    optimizer = nn.optim.AdamW(model.parameters(), **OPTIMISER)
    ids, following = (tt.asarray(x) for x in batch(size))
    rows, ids_in_all = [slice(None)], ids.size
    if nn.parallel.worth_splitting(model.parameters(), ids.size):
        rows = [slice(None, size.batch // 2), slice(size.batch // 2, None)]
    halves = [(ids[part], following[part].reshape(-1)) for part in rows]

    def share(ids, following):
        logits = model(ids).reshape(-1, VOCABULARY)
        return F.cross_entropy(logits, following, reduction="sum") / ids_in_all

    def step():
        optimizer.zero_grad()
        loss = nn.parallel.backward_of_sum([partial(share, *half) for half in halves], model.parameters())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    def steps(number: int) -> list[float]:
        return [loss.item() for loss in [step() for _ in range(number)]]

    return steps, state


def theirs(kind: str, size: Size, dropout: float, threads: int, state: Any) -> tuple[Callable[[int], list[float]], Any]:
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    is_llama, (layers, d_model, heads, length, count) = kind == "llama", size

    def normalisation():
        return nn.RMSNorm(d_model, 1e-5) if is_llama else nn.LayerNorm(d_model, bias=False)

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.in_proj = nn.Linear(d_model, 3 * d_model, bias=False)
            self.out_proj = nn.Linear(d_model, d_model, bias=False)

        def forward(self, x, rotation):
            parts = self.in_proj(x).split(d_model, dim=2)
            q, k, v = (part.view(count, length, heads, d_model // heads).transpose(1, 2) for part in parts)
            if rotation is not None:
                q, k = turned(q, *rotation), turned(k, *rotation)
            p = dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
            return self.out_proj(y.transpose(1, 2).contiguous().view(count, length, d_model))

    class FeedForward(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(d_model, size.inner(kind), bias=False) if is_llama else None
            self.up = nn.Linear(d_model, size.inner(kind), bias=False)
            self.down = nn.Linear(size.inner(kind), d_model, bias=False)

        def forward(self, x):
            return self.down(F.silu(self.gate(x)) * self.up(x) if is_llama else F.gelu(self.up(x)))

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.self_attn, self.norm2, self.feed_forward = (
                normalisation(), Attention(), normalisation(), FeedForward(),
            )  # fmt: skip
            self.dropout = nn.Dropout(dropout)

        def forward(self, x, rotation):
            x = x + self.dropout(self.self_attn(self.norm1(x), rotation))
            return x + self.dropout(self.feed_forward(self.norm2(x)))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, d_model)
            self.positions = None if is_llama else nn.Embedding(length, d_model)
            self.dropout = nn.Dropout(dropout)
            self.layers = nn.ModuleList([Layer() for _ in range(layers)])
            self.norm = normalisation()
            self.projection = nn.Linear(d_model, VOCABULARY, bias=False)
            self.projection.weight = self.embedding.weight

        def forward(self, ids):
            places = torch.arange(ids.shape[1])
            x = self.embedding(ids)
            rotation = None
            if is_llama:
                angles = places[:, None] * 10000.0 ** (-torch.arange(0, d_model // heads, 2) / (d_model // heads))
                angles = torch.cat([angles, angles], dim=-1)
                rotation = angles.cos(), angles.sin()
            else:
                x = x + self.positions(places)
            x = self.dropout(x)
            for layer in self.layers:
                x = layer(x, rotation)
            return self.projection(self.norm(x))

    def turned(x, cos, sin):
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-second, first], dim=-1) * sin

    model = Model()
    model.load_state_dict({name: torch.tensor(value) for name, value in state.items()})
    optimizer = torch.optim.AdamW(model.parameters(), **OPTIMISER)
    ids, following = (torch.tensor(x) for x in batch(size))

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(ids).view(-1, VOCABULARY), following.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    def steps(number: int) -> list[float]:
        return [loss.item() for loss in [step() for _ in range(number)]]

    return steps, None


def floor(kind: str, size: Size) -> tuple[Callable[[int], list[float]], Any]:
    import numpy as np

    rng, calls, inner, d_model = np.random.default_rng(0), [], size.inner(kind), size.d_model
    rows = size.batch * size.length
    up = 2 * inner if kind == "llama" else inner  # with the gate
    layer = (d_model, 3 * d_model), (d_model, d_model), (d_model, up), (inner, d_model)
    for k, n in (*layer * size.layers, (d_model, VOCABULARY)):
        x, weight, g = (rng.standard_normal(shape, dtype=np.float32) for shape in ((rows, k), (n, k), (rows, n)))
        for a, b in ((x, weight.T), (g, weight), (g.T, x)):
            calls.append((a, b, np.empty((len(a), b.shape[1]), np.float32)))

    return multiply_alone(calls), None


def compare(kind: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Time one kind on both sides, print a line for each and return its figures."""
    size = SIZES[arguments.size]
    ours_too = interleaved.ours(arguments.threads)
    sides = {"ours": Side(ours, ours_too, ROOT, kind, size, arguments.dropout)}
    if arguments.against is not None:
        sides["other"] = Side(ours, ours_too, arguments.against, kind, size, arguments.dropout)
    given = (kind, size, arguments.dropout, arguments.threads, sides["ours"].greeting)
    if "eager" in arguments.peers:
        sides["eager"] = Side(theirs, interleaved.torch(arguments.threads), *given)
    if "floor" in arguments.peers:
        sides["floor"] = Side(floor, interleaved.numpy(arguments.threads), kind, size)
    losses = {name: side.ask(3) for name, side in sides.items()}
    apart = max((abs(a - b) for found in losses.values() for a, b in zip(losses["ours"], found)), default=0.0)
    if apart > APART and not arguments.dropout:
        raise SystemExit(f"{script()}: the losses of {kind} are {apart:.2g} apart: {losses}")
    elsewhere = Elsewhere(sides.values())
    take_turns(sides, arguments.rounds, arguments.steps, untimed=(1,), settled=SETTLED)
    used = elsewhere.cores()
    peaks = {name: side.close() for name, side in sides.items()}
    results: dict[str, Any] = {"losses_apart": None if arguments.dropout else apart, "cores_used_by_others": used}
    results["blas"] = {name: side.blas for name, side in sides.items()}
    for name, side in sides.items() if is_quiet(kind, used, arguments.anyway) else ():
        milliseconds = 1e3 * statistics.median(side.seconds) / arguments.steps
        of_it = ratio(sides["ours"].seconds, side.seconds)
        print(f"{kind:6} {name:8} {milliseconds:9.1f}   {of_it!s:22} {peaks[name] / 2**20:8.0f}", flush=True)
        results[name] = {"ms": milliseconds, "ours_takes": of_it._asdict(), "peak_bytes": peaks[name]}
    return results


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--kinds", type=some_of(*KINDS), default=["gpt2"], help="some of gpt2,llama (default gpt2)")
    peers = f"some of {','.join(PEERS)} (default eager)"
    parser.add_argument("--peers", type=some_of(*PEERS), help=peers)
    parser.add_argument("--size", choices=SIZES, default="nano", help="default nano")
    parser.add_argument("--dropout", type=probability, default=0.0, help="default 0")
    parser.add_argument("--steps", type=count, default=2, help="of a round that are timed (default 2)")
    parser.add_argument("--rounds", type=count, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--threads", type=count, default=2, help="threads of each side (default 2)")
    parser.add_against()
    parser.add_anyway()
    parser.add_json()
    arguments = parser.parse_args()
    if arguments.against and arguments.peers:
        refuse("--against compares with that checkout alone, so it takes no --peers")
    arguments.peers = arguments.peers or ([] if arguments.against else ["eager"])
    if "eager" in arguments.peers:
        require_torch()
    print(f"{'':6} {'side':8} {'ms a step':>9}   {'ours takes, of it':22} {'peak MiB':>8}")
    results = {kind: compare(kind, arguments) for kind in arguments.kinds}
    print_blas(next(iter(results.values()))["blas"])
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
