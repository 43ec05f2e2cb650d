"""The time of a training step of `models.Transformer`, ours against PyTorch eager, as ratios from one interleaved run.

    python benchmarks/train_step.py [--workloads toy,copy,m30k,base] [--rounds 5] [--threads 2] [--json FILE]
    python benchmarks/train_step.py --against FOLDER    # another checkout of tinytensor in PyTorch's place

A step is forward, cross-entropy, backward and Adam, in float32, with causal and padding masks and dropout 0. Each side
runs in a process of its own: PyTorch as installed, ours as the examples set it up (freed memory kept, products split
over our threads). Both start from the same weights, and the losses of the first three steps are compared. A round times
several steps of ours, then as many of PyTorch's; the ratio (below 1: ours is faster) is the median over rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


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


def batch(workload: Workload):
    """Source, target input and target output ids; a tenth of the positions, at the ends, is padding."""
    import numpy as np

    rng = np.random.default_rng(0)
    shape = (workload.batch, workload.length)
    source, target_in, target_out = (rng.integers(3, workload.vocabulary, shape) for _ in range(3))
    lengths = rng.integers(math.ceil(workload.length * 0.8), workload.length + 1, workload.batch)
    for row, length in enumerate(lengths):
        source[row, length:] = target_in[row, length:] = target_out[row, length:] = 0
    return source, target_in, target_out


def ours(workload: Workload, ids) -> tuple[Callable[[], float], dict]:
    import nn
    import tinytensor as tt
    from models import Transformer
    from nn import functional as F

    tt.manual_seed(0)
    w = workload
    model = Transformer(
        w.vocabulary, d_model=w.d_model, num_heads=w.num_heads, num_layers=w.num_layers, d_ff=w.d_ff, dropout=0.0,
        max_length=w.length,
    )  # fmt: skip
    optimizer = nn.optim.Adam(model.parameters(), lr=1e-4)
    source, target_in, target_out = (tt.asarray(x) for x in ids)
    state = {name: value.numpy().copy() for name, value in model.state_dict().items()}

    def step() -> float:
        optimizer.zero_grad()
        logits = model(source, target_in)
        loss = F.cross_entropy(logits.reshape(-1, w.vocabulary), target_out.reshape(-1), ignore_index=0)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, state


def theirs(workload: Workload, ids, state: dict) -> Callable[[], float]:
    import torch
    from torch import nn

    w = workload

    class Twin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source_embedding = nn.Embedding(w.vocabulary, w.d_model, padding_idx=0)
            self.target_embedding = nn.Embedding(w.vocabulary, w.d_model, padding_idx=0)
            self.transformer = nn.Transformer(
                w.d_model, w.num_heads, w.num_layers, w.num_layers, w.d_ff, dropout=0.0, batch_first=True
            )
            self.projection = nn.Linear(w.d_model, w.vocabulary)
            self.register_buffer("encoding", torch.tensor(sinusoids(w.length, w.d_model), dtype=torch.float32))

        def forward(self, source, target):
            scale = math.sqrt(w.d_model)
            causal = torch.triu(torch.ones(target.shape[1], target.shape[1], dtype=torch.bool), 1)
            padding = source == 0
            hidden = self.transformer(
                self.source_embedding(source) * scale + self.encoding[: source.shape[1]],
                self.target_embedding(target) * scale + self.encoding[: target.shape[1]],
                tgt_mask=causal,
                src_key_padding_mask=padding,
                tgt_key_padding_mask=target == 0,
                memory_key_padding_mask=padding,
            )
            return self.projection(hidden)

    model = Twin()
    known = {name: torch.tensor(value) for name, value in state.items() if not name.startswith("positions")}
    missing = model.load_state_dict(known, strict=False)
    if missing.unexpected_keys or set(missing.missing_keys) - {"encoding"}:
        raise SystemExit(f"train_step.py: the two models differ: {missing}")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    source, target_in, target_out = (torch.tensor(x) for x in ids)

    def step() -> float:
        optimizer.zero_grad()
        logits = model(source, target_in)
        loss = nn.functional.cross_entropy(logits.reshape(-1, w.vocabulary), target_out.reshape(-1), ignore_index=0)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def sinusoids(length: int, d_model: int):
    from nn import sinusoidal_encoding

    return sinusoidal_encoding(length, d_model).numpy()


def side(pipe, name: str, workload: Workload, threads: int, environment: dict[str, str], state: dict) -> None:
    """A process that makes the steps of one side: told a number of steps, it answers with their losses and seconds.

    The name is "torch", or the folder that tinytensor is taken from.
    """
    os.environ.update(environment)
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]) if name == "torch" else name)
    if name != "torch":
        import tinytensor as tt

        tt.keep_memory()
        step, state = ours(workload, batch(workload))
        pipe.send(state)
    else:
        import torch

        torch.set_num_threads(threads)
        step = theirs(workload, batch(workload), state)
    while steps := pipe.recv():
        start = time.perf_counter()
        losses = [step() for _ in range(steps)]
        pipe.send((losses, time.perf_counter() - start))


def start(name: str, workload: Workload, threads: int, state: dict):
    """The pipe to a new process for one side, with as many threads in all."""
    count = str(threads)
    environment = {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
    if name != "torch":
        environment = {"TINYTENSOR_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": "1"}
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    former = {key: os.environ.get(key) for key in environment}
    os.environ.update(environment)  # a spawned process reads it before it loads NumPy
    context.Process(target=side, args=(there, name, workload, threads, environment, state), daemon=True).start()
    for key, value in former.items():
        os.environ.pop(key) if value is None else os.environ.update({key: value})
    return here


def ask(pipe, steps: int) -> tuple[list[float], float]:
    pipe.send(steps)
    return pipe.recv()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="toy", help="comma-separated names (default toy)")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each side (default 2)")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout to compare with, not PyTorch")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    unknown = set(arguments.workloads.split(",")) - set(WORKLOADS)
    if unknown:
        print(f"train_step.py: unknown workloads {sorted(unknown)}; known: {', '.join(WORKLOADS)}", file=sys.stderr)
        raise SystemExit(2)
    if arguments.against is not None and not (arguments.against / "tinytensor").is_dir():
        print(f"train_step.py: --against {arguments.against} is no checkout of tinytensor", file=sys.stderr)
        raise SystemExit(2)
    here = str(Path(__file__).resolve().parents[1])
    there = "torch" if arguments.against is None else str(arguments.against.resolve())
    results = {}
    second = "torch ms" if there == "torch" else "other ms"
    print(f"{'workload':8} {'ours ms':>9} {second:>9} {'ratio':>6} {'min':>6} {'max':>6}  losses apart")
    for name in arguments.workloads.split(","):
        workload = WORKLOADS[name]
        mine = start(here, workload, arguments.threads, {})
        state = mine.recv()
        opposite = start(there, workload, arguments.threads, state)
        if there != "torch":
            opposite.recv()
        losses = [ask(pipe, 3)[0] for pipe in (mine, opposite)]
        apart = max(abs(x - y) for x, y in zip(*losses))
        if apart > 1e-3:
            raise SystemExit(f"train_step.py: the losses of {name} are {apart:.2g} apart")
        rounds = [
            [ask(pipe, workload.steps)[1] / workload.steps for pipe in (mine, opposite)]
            for _ in range(arguments.rounds)
        ]
        for pipe in (mine, opposite):
            pipe.send(0)
        ratios = sorted(x / y for x, y in rounds)
        medians = [1e3 * statistics.median(column) for column in zip(*rounds)]
        ratio = statistics.median(ratios)
        figures = f"{medians[0]:9.1f} {medians[1]:9.1f} {ratio:6.2f} {ratios[0]:6.2f} {ratios[-1]:6.2f}"
        print(f"{name:8} {figures}  {apart:.1e}", flush=True)
        results[name] = {"ours_ms": medians[0], "other_ms": medians[1], "ratio": ratio, "losses_apart": apart}
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
