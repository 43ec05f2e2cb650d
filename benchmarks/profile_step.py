"""What a training step of `models.Transformer` spends its time on, op by op, forward (f, fused ops) and backward (b).

    python benchmarks/profile_step.py [--workload toy] [--dropout 0.1] [--threads 1] [--steps 10]

The workloads are those of train_step.py, computed as one batch. The first line is the whole step, the second the same
step on one sentence of two words, where little but the interpreter takes time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import interleaved
from train_step import ROOT, WORKLOADS, ours

sys.path.insert(0, str(ROOT))


class Stopwatch:
    """Seconds and calls by name."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - start
                self.calls[name] += 1

        return timed


def watch_ops(watch: Stopwatch) -> None:
    """Time every op from here on, and the optimiser."""
    import tinytensor as tt
    from tinytensor import engine, nn

    for name, op in tt.ops.items():
        if not op.pure:
            op.fast_forward = watch.around(f"{name} f", op.fast_forward)
            op.fast_backward = watch.around(f"{name} b", op.fast_backward)
    rules = engine._rule_gradients
    engine._rule_gradients = lambda node, op, *rest: watch.around(f"{op.name} b", rules)(node, op, *rest)
    nn.optim.Adam.step = watch.around("Adam", nn.optim.Adam.step)  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=list(WORKLOADS), default="toy", help="default toy")
    parser.add_argument("--dropout", type=float, default=0.0, help="in all the paper's places (default 0)")
    parser.add_argument("--threads", type=int, default=1, help="default 1")
    parser.add_argument("--steps", type=int, default=10, help="the mean is taken of (default 10)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    if arguments.threads < 1 or arguments.steps < 1 or not 0 <= arguments.dropout < 1:
        interleaved.refuse("--threads and --steps must be at least 1, --dropout in [0, 1)")
    os.environ.update(interleaved.ours(arguments.threads))  # NumPy is not loaded yet

    w = WORKLOADS[arguments.workload]

    def milliseconds(workload: Any) -> float:
        steps, _ = ours(str(ROOT), workload, arguments.dropout, "cpu")
        steps(3)
        watch.seconds.clear()
        watch.calls.clear()
        start = time.perf_counter()
        steps(arguments.steps)
        return 1e3 * (time.perf_counter() - start) / arguments.steps

    watch = Stopwatch()
    from tinytensor import nn

    nn.parallel.WORTH_IT = sys.maxsize  # one batch, so that the times of ops do not overlap
    small = milliseconds(w._replace(batch=1, length=2, vocabulary=50))
    watch_ops(watch)
    whole = milliseconds(w)
    results = {"step": whole, "step on two words": small}
    results |= {name: 1e3 * seconds / arguments.steps for name, seconds in watch.seconds.most_common()}
    watch.calls.update({"step": arguments.steps, "step on two words": arguments.steps})
    for name, value in results.items():
        if value >= 0.1:
            print(f"{name:20} {value:8.2f} ms {watch.calls[name] / arguments.steps:5.0f} x", flush=True)
    interleaved.write_json(arguments.json, results)


if __name__ == "__main__":
    main()
