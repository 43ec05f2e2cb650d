"""An optimiser's step, and the clipping of gradients, over all parameters of a Transformer, beside PyTorch's.

    python benchmarks/optimizer_step.py [--workloads copy,base] [--kinds adam,sgd,clip] [--rounds 5] [--threads 2]
    python benchmarks/optimizer_step.py --plain             # after a plain import, without tt.speed_up()
    python benchmarks/optimizer_step.py --against FOLDER    # another checkout of tinytensor in PyTorch's place

The parameters are those of train_step.py's models, the same on both sides, with gradients that do not change. Kinds:

    adam    Adam with its defaults, as are adadelta, adagrad, adamax, nadam, radam and rmsprop
    muon    Muon with its defaults, for the matrices alone
    sgd     SGD with momentum 0.9
    clip    clip_grad_norm_, with a norm just small enough that it scales

The other sides: `fused`, PyTorch's loops over the elements of one parameter after the other (Adam and SGD), and
`default`, each operation for all parameters. A ratio (below 1: ours is faster) is the median over interleaved rounds;
the parameters after the first steps are compared. Lion has no peer there.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import interleaved
import numpy as np
from busy import Elsewhere, is_quiet
from checkout import Checkout
from command_line import Parser, count, require_torch, script, some_of, write_json
from interleaved import Side, print_blas, ratio, take_turns
from train_step import SETTLED, WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "adam": ("Adam", {}),
    "sgd": ("SGD", {"lr": 1e-3, "momentum": 0.9}),
    "adadelta": ("Adadelta", {}),
    "adagrad": ("Adagrad", {}),
    "adamax": ("Adamax", {}),
    "muon": ("Muon", {}),
    "nadam": ("NAdam", {}),
    "radam": ("RAdam", {}),
    "rmsprop": ("RMSprop", {}),
}
KINDS = (*OPTIMIZERS, "clip")
FUSED = ("adam", "sgd")
ELEMENTS = 5 * 10**7  # the least that a round updates
FIRST = 3  # the parameters, or the clipped gradients, are compared after this many steps
APART = 1e-5
SHARE = 1 - 1e-6  # gradients are clipped to this share of their norm, so that they stay large for thousands of steps


def arrays(shapes: list[tuple[int, ...]]) -> list[tuple[Any, Any]]:
    """Values and a gradient for each parameter."""
    rng = np.random.default_rng(0)
    return [tuple(rng.standard_normal((2, *shape), dtype=np.float32) * 0.02) for shape in shapes]


def ours(
    folder: Path, workload: str, kind: str, is_plain: bool
) -> tuple[Callable[[int], float], list[tuple[int, ...]]]:
    """The result of `taking`, and the parameters' shapes."""
    checkout = Checkout(folder)
    tt, nn, w = checkout.tt, checkout.nn, WORKLOADS[workload]
    if not is_plain:
        checkout.speed_up()
    model = checkout.models.Transformer(
        w.vocabulary, d_model=w.d_model, num_heads=w.num_heads, num_layers=w.num_layers, d_ff=w.d_ff
    )
    shapes = [tuple(p.shape) for p in model.parameters() if kind != "muon" or p.ndim == 2]
    given = [(nn.Parameter(tt.asarray(values)), tt.asarray(gradient)) for values, gradient in arrays(shapes)]
    return taking(kind, given, nn, {}), shapes


def theirs(name: str, threads: int, kind: str, shapes: list[tuple[int, ...]]) -> tuple[Callable[[int], float], None]:
    """The same in PyTorch."""
    import torch

    torch.set_num_threads(threads)
    given = [(torch.nn.Parameter(torch.tensor(values)), torch.tensor(gradient)) for values, gradient in arrays(shapes)]
    torch.nn.optim = torch.optim  # type: ignore[attr-defined]
    return taking(kind, given, torch.nn, {"fused": True} if name == "fused" else {}), None


def taking(kind: str, given: list[tuple[Any, Any]], nn: Any, how: dict[str, Any]) -> Callable[[int], float]:
    """A function that takes a number of steps; after FIRST steps it returns the sum of magnitudes of the results."""
    parameters = [parameter for parameter, _ in given]
    for parameter, gradient in given:
        parameter.grad = gradient
    if kind in OPTIMIZERS:
        name, settings = OPTIMIZERS[kind]
        step = getattr(nn.optim, name)(parameters, **settings, **how).step
    else:
        norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters]).item()

        def step() -> None:
            nonlocal norm
            norm *= SHARE
            nn.utils.clip_grad_norm_(parameters, norm)

    def steps(number: int) -> float:
        for _ in range(number):
            step()
        changed = [gradient if kind == "clip" else parameter.detach() for parameter, gradient in given]
        return float(sum(abs(x.numpy()).sum(dtype=np.float64) for x in changed)) if number == FIRST else 0.0

    return steps


def compare(workload: str, kind: str, arguments: Any) -> dict[str, Any]:
    """Time one kind of step on all sides, print a line for each and return the figures."""
    sides = {"ours": Side(ours, interleaved.ours(arguments.threads), ROOT, workload, kind, arguments.plain)}
    shapes = sides["ours"].greeting
    if arguments.against:
        sides["other"] = Side(
            ours, interleaved.ours(arguments.threads), arguments.against, workload, kind, arguments.plain
        )
    else:
        environment = interleaved.torch(arguments.threads)
        peers = ("fused", "default") if kind in FUSED else ("default",)
        sides |= {name: Side(theirs, environment, name, arguments.threads, kind, shapes) for name in peers}
    sizes = {name: side.ask(FIRST) for name, side in sides.items()}
    apart = max(abs(size / sizes["ours"] - 1) for size in sizes.values())
    if apart > APART:
        raise SystemExit(f"{script()}: after {FIRST} steps of {kind} on {workload} the sides differ: {sizes}")
    number = max(FIRST + 1, ELEMENTS // sum(int(np.prod(shape)) for shape in shapes))
    elsewhere = Elsewhere(sides.values())
    take_turns(sides, arguments.rounds, number, settled=SETTLED)
    used = elsewhere.cores()
    for side in sides.values():
        side.close()
    results: dict[str, Any] = {"apart": apart, "blas": {name: side.blas for name, side in sides.items()}}
    for name, side in sides.items() if is_quiet(f"{workload}, {kind}", used, arguments.anyway) else ():
        milliseconds = 1e3 * statistics.median(side.seconds) / number
        of_it = ratio(sides["ours"].seconds, side.seconds)
        print(f"{workload:6} {kind:8} {name:8} {milliseconds:9.3f}   {of_it!s:22}", flush=True)
        results[name] = {"ms": milliseconds, "ours_takes": of_it._asdict()}
    return results


def main() -> None:
    parser = Parser(__doc__)
    workloads, kinds = some_of(*WORKLOADS), some_of(*KINDS)
    parser.add_argument("--workloads", type=workloads, default=["copy", "base"], help=f"some of {','.join(WORKLOADS)}")
    parser.add_argument("--kinds", type=kinds, default=list(KINDS), help=f"some of {','.join(KINDS)} (all)")
    parser.add_argument("--plain", action="store_true", help="our side does not call tt.speed_up()")
    parser.add_argument("--rounds", type=count, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--threads", type=count, default=2, help="threads of each side (default 2)")
    parser.add_against()
    parser.add_anyway()
    parser.add_json()
    arguments = parser.parse_args()
    if not arguments.against:
        require_torch()
    print(f"{'':6} {'':8} {'side':8} {'ms a step':>9}   {'ours takes, of it':22}")
    results = {f"{w}, {kind}": compare(w, kind, arguments) for w in arguments.workloads for kind in arguments.kinds}
    print_blas(next(iter(results.values()))["blas"])
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
