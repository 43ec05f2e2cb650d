"""The time of a model's training step, op by op, forward (f, fused ops) and backward (b).

    python benchmarks/profile_step.py [--workload toy] [--dropout 0.1] [--threads 1] [--steps 10]

The workloads are those of train_step.py, computed as one batch, and half a batch of language_model.py (gpt2, llama),
the share of one thread there. The first line is the whole step; for those of train_step.py, the second is the same step
on one sentence of two words, which mostly takes the interpreter's time.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import interleaved
import language_model
import train_step
from checkout import Checkout
from command_line import Parser, count, probability, script, write_json
from interleaved import Side, print_blas
from train_step import ROOT, WORKLOADS, Workload


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
    """Time every op from here on, and the optimiser.

    It wraps records of ops, and no function of the textbook: to replace one would turn fast ways off.
    """
    from tinytensor import nn, ops

    for name, op in ops.items():
        if op.fast_forward is not None:
            op.fast_forward = watch.around(f"{name} f", op.fast_forward)
            op.fast_backward = watch.around(f"{name} b", op.fast_backward)
        op.rules.update({x: (watch.around(f"{name} b", rule), reads) for x, (rule, reads) in op.rules.items()})
    step = nn.optim.Optimizer._step_by_formula
    step.faster = watch.around("Adam", step.faster)


def check_ways() -> None:
    """Exit with an error if a fast way steps aside: what was timed is not what users have."""
    from tinytensor.fast import texts

    if off := [name for name, way in texts.ways.items() if way._edited is not None and way.off]:
        raise SystemExit(f"{script()}: fast ways step aside for edited or replaced text: {', '.join(off)}")


def profile_language_model(kind: str, dropout: float, number: int) -> tuple[Callable[[], tuple[dict, dict]], None]:
    """The same as `profile`, for half a batch of a language model."""
    watch = Stopwatch()

    def measure() -> tuple[dict[str, float], dict[str, float]]:
        from tinytensor import nn

        nn.parallel.threads.WORTH_IT = sys.maxsize  # one batch, so that the times of ops do not overlap
        watch_ops(watch)
        size = language_model.SIZES["nano"]
        steps, _ = language_model.ours(ROOT, kind, size._replace(batch=size.batch // 2), dropout)
        steps(3)
        watch.seconds.clear()
        watch.calls.clear()
        start = time.perf_counter()
        steps(number)
        times = {"step": 1e3 * (time.perf_counter() - start) / number}
        check_ways()
        times |= {name: 1e3 * seconds / number for name, seconds in watch.seconds.most_common()}
        return times, dict.fromkeys(times, 1.0) | {name: calls / number for name, calls in watch.calls.items()}

    Checkout(ROOT)
    return measure, None


def profile(w: Workload, dropout: float, number: int) -> tuple[Callable[[], tuple[dict, dict]], None]:
    """The side: a function that returns milliseconds and calls in a step, by name."""
    watch = Stopwatch()

    def milliseconds(workload: Workload) -> float:
        steps, _ = train_step.ours(ROOT, workload, dropout)
        steps(3)
        watch.seconds.clear()
        watch.calls.clear()
        start = time.perf_counter()
        steps(number)
        return 1e3 * (time.perf_counter() - start) / number

    def measure() -> tuple[dict[str, float], dict[str, float]]:
        from tinytensor import nn

        nn.parallel.threads.WORTH_IT = sys.maxsize  # one batch, so that the times of ops do not overlap
        small = milliseconds(w._replace(batch=1, length=2, vocabulary=50))
        watch_ops(watch)
        times = {"step": milliseconds(w), "step on two words": small}
        check_ways()
        times |= {name: 1e3 * seconds / number for name, seconds in watch.seconds.most_common()}
        return times, dict.fromkeys(times, 1.0) | {name: calls / number for name, calls in watch.calls.items()}

    Checkout(ROOT)
    return measure, None


def main() -> None:
    parser = Parser(__doc__)
    kinds = [*WORKLOADS, *language_model.KINDS]
    parser.add_argument("--workload", choices=kinds, default="toy", help="default toy")
    parser.add_argument("--dropout", type=probability, default=0.0, help="in all the paper's places (default 0)")
    parser.add_argument("--threads", type=count, default=1, help="default 1")
    parser.add_argument("--steps", type=count, default=10, help="the mean is taken of (default 10)")
    parser.add_json()
    arguments = parser.parse_args()
    environment = interleaved.ours(arguments.threads)
    given, how = (arguments.dropout, arguments.steps), arguments.workload
    side = (
        Side(profile, environment, WORKLOADS[how], *given)
        if how in WORKLOADS
        else Side(profile_language_model, environment, how, *given)
    )
    times, calls = side.ask()
    side.close()
    for name, value in times.items():
        if value >= 0.1:
            print(f"{name:20} {value:8.2f} ms {calls[name]:5.0f} x", flush=True)
    print_blas(used := {"ours": side.blas})
    write_json(arguments.json, {"blas": used, "ms": times})


if __name__ == "__main__":
    main()
