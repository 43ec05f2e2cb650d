"""Do the means that make a step faster make it slower when other programs compute? Ratios of one interleaved run.

    python benchmarks/busy_machine.py [--busy 0,1,2] [--rounds 5] [--steps 40]

The step is that of `examples/train_copy_task.py`. Three sides, each in a process of its own, take turns:

    off       nothing: no pool (TINYTENSOR_POOL=0), no compiled loops (TINYTENSOR_COMPILE_LOOPS=0), no call
    plain     `import tinytensor` and no call: the pool, and compiled loops for large arrays
    one       `tt.speed_up()`: BLAS has one thread

Beside them run `--busy` processes that only count. A ratio (below 1: faster than with everything off) is the median
over rounds, with the least and the largest in brackets. Other programs on the machine count, too: for each case it
prints how many cores they used.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from command_line import Parser, count, some_of
from interleaved import Side, ratio

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

SIDES = {
    "off": {"TINYTENSOR_POOL": "0", "TINYTENSOR_COMPILE_LOOPS": "0"},
    "plain": {},
    "one": {},
}
COPY_TASK = {
    "task": "copy", "seed": 0, "d_model": 64, "num_heads": 4, "num_layers": 2, "max_length": 12, "dropout": 0.0,
    "device": "cpu",
}  # fmt: skip


def training(name: str) -> tuple[Callable[[int], list[float]], Any]:
    """A function that makes a number of training steps and returns their losses."""
    import tinytensor as tt
    from tinytensor import nn
    from tinytensor.models.scripts import copy_task
    from tinytensor.nn import functional as F

    report = tt.speed_up() if name not in ("off", "plain") else ""
    model, task = copy_task.build(COPY_TASK)
    optimizer = nn.optim.Adam(model.parameters(), lr=1e-3)
    batches = [task.training_batch(step, 64) for step in range(8)]

    def step(batch: Any) -> float:
        def loss() -> tt.Tensor:
            logits = model(batch.source, batch.target_in)
            return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch.target_out.reshape(-1), ignore_index=0)

        optimizer.zero_grad()
        total = nn.parallel.backward_of_sum([loss], model.parameters())
        optimizer.step()
        return total.item()

    return lambda count: [step(batches[i % len(batches)]) for i in range(count)], str(report)


def count_for_ever() -> None:
    while True:
        pass


def main() -> int:
    p = Parser(__doc__)
    most = some_of(*map(str, range(65)))
    p.add_argument("--busy", type=most, default="0,1,2", help="how many processes compute beside, one case each")
    p.add_argument("--rounds", type=count, default=5, help="how often each side is asked in each case")
    p.add_argument("--steps", type=count, default=40, help="training steps in a round")
    arguments = p.parse_args()
    cases = [int(text) for text in arguments.busy]
    from tinytensor.machine import cores

    print(f"{cores.count()} cores")
    sides = {name: Side(training, environment, name) for name, environment in SIDES.items()}
    print(sides["one"].greeting)
    for side in sides.values():
        side.ask(arguments.steps)  # compiles loops, and lets BLAS find its threads
    for busy in cases:
        elsewhere = cores.used_by_others(1.0)
        others = [multiprocessing.Process(target=count_for_ever, daemon=True) for _ in range(busy)]
        for other in others:
            other.start()
        for side in sides.values():
            side.seconds.clear()
        for _ in range(arguments.rounds):
            for side in sides.values():
                side.ask(arguments.steps)
        for other in others:
            other.terminate()
            other.join()
        step = 1e3 * statistics.median(sides["off"].seconds) / arguments.steps
        ratios = [f"{name} {ratio(side.seconds, sides['off'].seconds)}" for name, side in sides.items()][1:]
        beside = f"{busy} busy beside" + ("" if elsewhere is None else f" and {elsewhere:.1f} cores used elsewhere")
        print(f"{beside}: {step:.1f} ms a step with all off; {'   '.join(ratios)}", flush=True)
    for side in sides.values():
        side.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
