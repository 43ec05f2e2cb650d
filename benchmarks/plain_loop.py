"""A newcomer's script, for tinytensor and for PyTorch: byte for byte the same except for the names that it imports.

    python benchmarks/plain_loop.py [--workloads copy,toy,m30k,base] [--rounds 5] [--show]
    python benchmarks/plain_loop.py --against FOLDER    # another checkout of tinytensor in PyTorch's place

Nothing is switched on and nothing is set: no `tt.speed_up()`, no number of threads, no environment. The sizes are those
of train_step.py, and both sides start from the same weights; the losses of the first three steps are compared. A ratio
(below 1: ours is faster) is the median over interleaved rounds. `--show` prints the script.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from busy import Elsewhere, is_quiet
from checkout import enter
from command_line import Parser, count, require_torch, script, some_of, write_json
from interleaved import Side, print_blas, ratio
from train_step import APART, SETTLED, WORKLOADS, Workload, batch

ROOT = Path(__file__).resolve().parents[1]

IMPORTS = {
    "ours": "import tinytensor as library\nfrom tinytensor import nn\nfrom tinytensor.nn import functional as F, optim",
    "torch": "import torch as library\nfrom torch import nn, optim\nfrom torch.nn import functional as F",
}

SCRIPT = """

class Model(nn.Module):
    def __init__(self, vocabulary, d_model, num_heads, num_layers, d_ff):
        super().__init__()
        self.source_embedding = nn.Embedding(vocabulary, d_model)
        self.target_embedding = nn.Embedding(vocabulary, d_model)
        self.transformer = nn.Transformer(
            d_model, num_heads, num_layers, num_layers, d_ff, dropout=0.0, batch_first=True
        )
        self.projection = nn.Linear(d_model, vocabulary)

    def forward(self, source, target):
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        source, target = self.source_embedding(source), self.target_embedding(target)
        return self.projection(self.transformer(source, target, tgt_mask=causal))


library.manual_seed(0)
model = Model(vocabulary, d_model, num_heads, num_layers, d_ff)
optimizer = optim.Adam(model.parameters(), lr=1e-4)


def step(source, target_in, target_out):
    optimizer.zero_grad()
    logits = model(source, target_in)
    loss = F.cross_entropy(logits.reshape(-1, vocabulary), target_out.reshape(-1), ignore_index=0)
    loss.backward()
    optimizer.step()
    return loss.item()
"""


def side(name: str, folder: Path, w: Workload, state: Any = None) -> tuple[Callable[[int], list[float]], Any]:
    """A function that makes a number of steps of the script and returns their losses, and the initial weights."""
    enter(folder)
    sizes = {size: getattr(w, size) for size in ("vocabulary", "d_model", "num_heads", "num_layers", "d_ff")}
    found: dict[str, Any] = dict(sizes)
    exec(compile(IMPORTS["torch" if name == "torch" else "ours"] + SCRIPT, f"<plain loop: {name}>", "exec"), found)
    library, model = found["library"], found["model"]
    if state is not None:
        model.load_state_dict({key: library.asarray(value) for key, value in state.items()})
    state = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    ids = [library.asarray(x) for x in batch(w)]
    return lambda number: [found["step"](*ids) for _ in range(number)], state


def compare(name: str, arguments: Any) -> dict[str, Any]:
    """Time one workload on both sides, print a line for each and return the figures."""
    w = WORKLOADS[name]
    sides = {"ours": Side(side, {}, "ours", ROOT, w)}
    other = "torch" if arguments.against is None else "other"
    sides[other] = Side(side, {}, other, arguments.against or ROOT, w, sides["ours"].greeting)
    losses = {name: each.ask(3) for name, each in sides.items()}
    apart = max(abs(a - b) for a, b in zip(losses["ours"], losses[other]))
    if apart > APART:
        raise SystemExit(f"{script()}: the losses of {name} are {apart:.2g} apart: {losses}")
    for each in sides.values():
        each.seconds.clear()
    elsewhere = Elsewhere(sides.values())
    for _ in range(arguments.rounds):
        for each in sides.values():
            untimed = 0.0
            while untimed < SETTLED:
                each.ask(w.steps)
                untimed += each.seconds.pop()
            each.ask(w.steps)
    used = elsewhere.cores()
    peaks = {name: each.close() for name, each in sides.items()}
    results: dict[str, Any] = {
        "losses_apart": apart,
        "cores_used_by_others": used,
        "blas": {name: each.blas for name, each in sides.items()},
    }
    for key, each in sides.items() if is_quiet(name, used, arguments.anyway) else ():
        milliseconds = 1e3 * statistics.median(each.seconds) / w.steps
        of_it = ratio(sides["ours"].seconds, each.seconds)
        print(f"{name:6} {key:8} {milliseconds:9.1f}   {of_it!s:22} {peaks[key] / 2**20:8.0f}", flush=True)
        results[key] = {"ms": milliseconds, "ours_takes": of_it._asdict(), "peak_bytes": peaks[key]}
    return results


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--workloads", type=some_of(*WORKLOADS), default=["toy"], help=f"some of {','.join(WORKLOADS)}")
    parser.add_argument("--rounds", type=count, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--show", action="store_true", help="print the script of either side, and time nothing")
    parser.add_against()
    parser.add_anyway()
    parser.add_json()
    arguments = parser.parse_args()
    if arguments.show:
        for imports in IMPORTS.values():
            print(imports)
        print(SCRIPT)
        return
    if arguments.against is None:
        require_torch()
    print(f"{'':6} {'side':8} {'ms a step':>9}   {'ours takes, of it':22} {'peak MiB':>8}")
    results = {name: compare(name, arguments) for name in arguments.workloads}
    print_blas(next(iter(results.values()))["blas"])
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
