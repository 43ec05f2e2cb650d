"""A training step of the network of examples/classify_images.py, beside PyTorch's, in float32.

    python benchmarks/classify_step.py [--sizes 20,28] [--batch 64] [--rounds 7] [--threads 2]

Both sides start from the same weights and see the same images; the losses of the first steps are compared. A ratio
(below 1: ours is faster) is the median over interleaved rounds. The last line of a size is ours without its fast pairs
for windows, by the formulas: it shows the gain of `nn/fast/windows.py`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from busy import Elsewhere, is_quiet
from checkout import enter
from command_line import Parser, count, counts, require_torch, script, write_json
from interleaved import Side, ours, print_blas, ratio, torch

ROOT = Path(__file__).resolve().parents[1]
STEPS = 10  # in a round
FIRST = 5  # steps whose losses are compared
APART = 1e-4


def tinytensor_side(size: int, batch: int, formulas: bool) -> tuple[Callable[[int], list[float]], Any]:
    """A function that makes a number of steps and returns their losses; its initial weights, and the images."""
    enter(ROOT)
    import tinytensor as tt
    from tinytensor import nn
    from tinytensor.models.data.images import digits
    from tinytensor.models.image_classifier import ImageClassifier
    from tinytensor.nn import functional as F

    tt.speed_up()
    if formulas:
        for op in (F.convolution._convolution.op, F.pooling._max_pool.op):
            op.fast_forward = op.fast_backward = None
    tt.manual_seed(0)
    model = ImageClassifier(size)
    optimizer = nn.optim.Adam(model.parameters(), lr=1e-3)
    images, labels = digits(STEPS * batch, 0, size)
    weights = {name: value.numpy().copy() for name, value in model.state_dict().items()}

    def step(i: int) -> float:
        rows = slice(i % STEPS * batch, (i % STEPS + 1) * batch)
        loss = F.cross_entropy(model(tt.asarray(images[rows])), tt.asarray(labels[rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return lambda steps: [step(i) for i in range(steps)], (weights, images, labels)


def torch_side(size: int, batch: int, given: Any) -> tuple[Callable[[int], list[float]], None]:
    """The same in PyTorch, eager."""
    import torch
    from torch import nn

    weights, images, labels = given
    first, second = len(weights["0.weight"]), len(weights["3.weight"])
    model = nn.Sequential(
        nn.Conv2d(1, first, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(first, second, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(*weights["7.weight"].shape[::-1]),
    )  # fmt: skip
    model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(i: int) -> float:
        rows = slice(i % STEPS * batch, (i % STEPS + 1) * batch)
        x, y = torch.from_numpy(images[rows]), torch.from_numpy(labels[rows])
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return lambda steps: [step(i) for i in range(steps)], None


def compare(size: int, arguments: Any) -> dict[str, Any]:
    """Time one size on all sides, print a line for each and return the figures."""
    batch, threads = arguments.batch, arguments.threads
    sides = {"ours": Side(tinytensor_side, ours(threads), size, batch, False)}
    sides["torch"] = Side(torch_side, torch(threads), size, batch, sides["ours"].greeting)
    sides["formulas"] = Side(tinytensor_side, ours(threads), size, batch, True)
    losses = {name: side.ask(FIRST) for name, side in sides.items()}
    apart = max(abs(a - b) for name in ("torch", "formulas") for a, b in zip(losses["ours"], losses[name]))
    if apart > APART:
        raise SystemExit(f"{script()}: the losses of size {size} are {apart:.2g} apart: {losses}")
    for side in sides.values():
        side.ask(STEPS)
        side.seconds.clear()
    elsewhere = Elsewhere(sides.values())
    for _ in range(arguments.rounds):
        for side in sides.values():
            side.ask(STEPS)
    used = elsewhere.cores()
    results: dict[str, Any] = {"losses_apart": apart, "blas": {name: side.blas for name, side in sides.items()}}
    for side in sides.values():
        side.close()
    for name, side in sides.items() if is_quiet(f"size {size}", used, arguments.anyway) else ():
        milliseconds = 1e3 * statistics.median(side.seconds) / STEPS
        of_it = ratio(sides["ours"].seconds, side.seconds)
        print(f"{size:4}   {name:9} {milliseconds:9.1f}   {of_it!s:22}", flush=True)
        results[name] = {"ms": milliseconds, "ours_takes": of_it._asdict()}
    return results


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--sizes", type=counts, default=[20, 28], help="sizes of the images, which 4 divides")
    parser.add_argument("--batch", type=count, default=64, help="images of a step (default 64)")
    parser.add_argument("--rounds", type=count, default=7, help="interleaved rounds (default 7)")
    parser.add_argument("--threads", type=count, default=2, help="threads of either side (default 2)")
    parser.add_anyway()
    parser.add_json()
    arguments = parser.parse_args()
    require_torch()
    print(f"{'size':4}   {'side':9} {'ms a step':>9}   {'ours takes, of it':22}")
    results = {size: compare(size, arguments) for size in arguments.sizes}
    print_blas(next(iter(results.values()))["blas"])
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
