"""How time and memory of a training step grow with length, batch, width, depth and vocabulary, compared with theory.

    python benchmarks/scale.py [--knobs length,batch,width,depth,vocabulary] [--rounds 3] [--pictures FOLDER]
    python benchmarks/scale.py --fits 24                # where each stops fitting into so many GB, by the formulas
    python benchmarks/scale.py --fits 24 --check 1024   # and a step of a model of this width, as its memory is measured

It doubles one size again and again, and keeps the others. Each point is a process of its own; they run in turn, and a
time is the median over rounds. A slope is the exponent of growth, log(b / a) / log(2), over the last doubling: 1 if
twice the size takes twice as much. Theory is `operations` for a step's matrix products, and `memory` for the arrays
kept for the backward pass; `models.Transformer` without dropout, float32, Adam.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import interleaved
from busy import Elsewhere, is_quiet
from checkout import Checkout
from command_line import Parser, count, refuse, some_of, write_json
from interleaved import Side, print_blas
from train_step import ROOT, WORKLOADS, Workload, batch, products

MIB = 2**20
FLOAT = 4  # bytes
BLOCKS = 1 << 20
"""With this many weights in a head, attention goes in blocks and keeps none (`LONG` in nn/fast/attention_blocks.py)."""

MOST = 1 << 14
"""The search tries sizes up to this many times that of `base`."""

SMALL = Workload(d_model=128, num_heads=8, num_layers=2, d_ff=512, batch=16, length=32, vocabulary=1000, steps=1)
TINY = Workload(64, 1, 1, 64, 2, 1200, 10, 1)  # long enough for attention in blocks


class Knob(NamedTuple):
    """A size to double."""

    start: Workload
    doublings: int
    turn: Callable[[Workload, int], Workload]  # the workload with this size times a factor


KNOBS = {
    "length": Knob(SMALL._replace(batch=4), 6, lambda w, n: w._replace(length=w.length * n)),
    "batch": Knob(SMALL, 5, lambda w, n: w._replace(batch=w.batch * n)),
    "width": Knob(SMALL, 3, lambda w, n: w._replace(d_model=w.d_model * n, d_ff=w.d_ff * n)),
    "depth": Knob(SMALL, 4, lambda w, n: w._replace(num_layers=w.num_layers * n)),
    "vocabulary": Knob(SMALL, 5, lambda w, n: w._replace(vocabulary=w.vocabulary * n)),
}

# ---- theory


def operations(w: Workload) -> int:
    """Multiplications and additions of a step: each forward product leads to two of its size in the backward pass."""
    return 3 * sum(times * pairs * 2 * m * k * n for times, pairs, m, k, n in products(w))


def parameters(w: Workload) -> int:
    """An encoder layer has 4 d² + 2 d f weights, a decoder layer 8 d² + 2 d f; three matrices span the vocabulary."""
    d, f = w.d_model, w.d_ff
    biases = (4 * d + d + f + 4 * d) + (8 * d + d + f + 6 * d)  # including the norms
    return w.num_layers * (12 * d * d + 4 * d * f + biases) + 3 * w.vocabulary * d + w.vocabulary + 4 * d


class Memory(NamedTuple):
    """Bytes of a step.

    Attributes:
        state: parameters, their gradients, and the two moments of Adam.
        kept: the arrays kept for the backward pass.
        logits: the logits and their gradient.
    """

    state: int
    kept: int
    logits: int

    @property
    def total(self) -> int:
        return sum(self)


def memory(w: Workload, checkpointed: bool = False) -> Memory:
    """The memory of a step when the backward pass begins.

    For each token, an encoder layer keeps 8 d + f numbers (Q, K and V, the heads' results, twice a norm's normalised
    rows and its result, the inner layer), a decoder layer 14 d + f; and both the attention weights. With
    `nn.utils.checkpoint` around each layer, each only keeps its input, and one at a time also its contents.
    """
    tokens = w.batch * w.length
    weights = w.batch * w.num_heads * w.length**2 if w.length**2 < BLOCKS else 0
    encoder = tokens * (8 * w.d_model + w.d_ff) + weights
    decoder = tokens * (14 * w.d_model + w.d_ff) + 2 * weights
    layers = w.num_layers * (encoder + decoder)
    if checkpointed:
        layers = w.num_layers * 2 * tokens * w.d_model + decoder
    ends = 6 * tokens * w.d_model  # the inputs of the stacks, and their last norms
    return Memory(4 * FLOAT * parameters(w), FLOAT * (layers + ends), 2 * FLOAT * tokens * w.vocabulary)


def largest(name: str, room: int) -> int:
    """The largest value of one size of the workload `base` for a step that fits into `room` bytes."""
    turned = [KNOBS[name].turn(WORKLOADS["base"], size) for size in range(1, MOST)]
    return max(value(name, w) for w in turned if memory(w).total <= room)  # longer ones may need less: see BLOCKS


def value(name: str, w: Workload) -> int:
    return getattr(w, {"width": "d_model", "depth": "num_layers"}.get(name, name))


# ---- measuring


def steps_of(w: Workload, checkpointed: bool = False) -> tuple[Callable[[int], Any], int]:
    """The side: a function that makes a number of steps, as one batch; and the peak memory of the process before."""
    checkout = Checkout(ROOT)
    tt, nn, F = checkout.tt, checkout.nn, checkout.nn.functional
    checkout.speed_up()
    if w != TINY:  # load compiled loops and modules before counting memory
        steps_of(TINY)[0](1)
    before = interleaved.peak_memory()
    tt.manual_seed(0)
    model = checkout.models.Transformer(
        w.vocabulary, d_model=w.d_model, num_heads=w.num_heads, num_layers=w.num_layers, d_ff=w.d_ff, dropout=0.0,
        max_length=w.length,
    )  # fmt: skip
    if checkpointed:
        for stack in (model.transformer.encoder, model.transformer.decoder):
            for layer in stack.layers:
                layer.forward = _recomputed(nn, layer.forward)
    optimizer = nn.optim.Adam(model.parameters(), lr=1e-4)
    source, target_in, target_out = (tt.asarray(x) for x in batch(w))

    def steps(number: int) -> None:
        for _ in range(number):
            optimizer.zero_grad()
            logits = model(source, target_in).reshape(-1, w.vocabulary)
            F.cross_entropy(logits, target_out.reshape(-1), ignore_index=0).backward()
            del logits  # else they would still exist when the next ones are made
            optimizer.step()

    return steps, int(before)


def _recomputed(nn: Any, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: nn.utils.checkpoint(forward, *args, **kwargs)


def measured(points: list[Workload], rounds: int, threads: int) -> tuple[list[float], list[float], Any]:
    """Seconds of a step and bytes that it adds to a process, for each workload; and cores used by other programs."""
    sides = [Side(steps_of, interleaved.ours(threads), w) for w in points]
    for side in sides:
        side.ask(2)
        side.seconds.clear()
    elsewhere = Elsewhere(sides)
    for _ in range(rounds):
        for side in sides:
            side.ask(1)
    used = elsewhere.cores()
    seconds = [statistics.median(side.seconds) for side in sides]
    print_blas({"ours": sides[0].blas})
    return seconds, [side.close() - side.greeting for side in sides], used


def slope(smaller: float, larger: float) -> float:
    return math.log2(larger / smaller)


def grow(name: str, arguments: Any) -> dict[str, Any]:
    """Double one size, print a line for each point and return the figures."""
    knob = KNOBS[name]
    points = [knob.turn(knob.start, 2**i) for i in range(knob.doublings + 1)]
    seconds, added, used = measured(points, arguments.rounds, arguments.threads)
    if not is_quiet(name, used, arguments.anyway):
        return {}
    rows = []
    for i, (w, time, size) in enumerate(zip(points, seconds, added)):
        row = {
            "size": value(name, w), "ms": 1e3 * time, "operations": operations(w), "bytes": size,
            "bytes_by_formula": memory(w).total,
        }  # fmt: skip
        line = f"{name:10} {row['size']:6} {row['ms']:9.1f} {operations(w) / time / 1e9:8.0f}"
        line += f" {size / MIB:9.0f} {memory(w).total / MIB:9.0f}"
        if i:
            before = rows[-1]
            for what in ("ms", "operations", "bytes", "bytes_by_formula"):
                row[f"slope_of_{what}"] = slope(before[what], row[what])
            line += f"   {row['slope_of_ms']:5.2f} {row['slope_of_operations']:6.2f}"
            line += f"   {row['slope_of_bytes']:5.2f} {row['slope_of_bytes_by_formula']:6.2f}"
        print(line, flush=True)
        rows.append(row)
    return {"points": rows, "cores_used_by_others": used}


def draw(results: dict[str, Any], folder: Path) -> None:
    """Draw time and memory over size, each relative to the smallest."""
    from tinytensor.nn import visualize

    for what, title in (("ms", "Time of a training step"), ("bytes", "Memory of a training step")):
        lines = {}
        for name, found in results.items():
            points = found["points"]
            sizes = [point["size"] / points[0]["size"] for point in points]
            lines[name] = (sizes, [point[what] / points[0][what] for point in points])
        picture = visualize.curves(
            lines, title=title, x_label="size, of the smallest", y_label="of the smallest", log_x=True, log_y=True,
            markers=True,
        )  # fmt: skip
        picture.save(folder / f"scale-{'time' if what == 'ms' else 'memory'}.svg")


def fits(gigabytes: int, check: int | None, threads: int) -> dict[str, Any]:
    """Print the largest sizes of `base` that fit, and the widest 6 + 6 layers that train on 4,096 tokens at a time."""
    room = gigabytes * 10**9
    found: dict[str, Any] = {name: largest(name, room) for name in KNOBS}
    base = WORKLOADS["base"]
    for name, size in found.items():
        print(f"base with {name} {value(name, base):6,} fits into {gigabytes} GB up to {name} {size:,}")

    def wide(d: int) -> Workload:
        return Workload(d, max(1, d // 64), 6, 4 * d, 128, 32, 32_000, 1)

    for checkpointed in (False, True):
        width = 64
        while memory(wide(width + 64), checkpointed).total <= room:
            width += 64
        told = "with nn.utils.checkpoint" if checkpointed else "without"
        millions = parameters(wide(width)) / 1e6
        print(f"the widest 6 + 6 layers, {told}: d_model {width:,}, {millions:,.0f} million parameters")
        found[f"widest, {told}"] = {"d_model": width, "parameters": parameters(wide(width))}
        if check:
            side = Side(steps_of, interleaved.ours(threads), wide(check), checkpointed)
            side.ask(1)
            added = side.close() - side.greeting
            formula = memory(wide(check), checkpointed).total
            print(
                f"  d_model {check:,}: measured {added / 1e9:.2f} GB, by the formula {formula / 1e9:.2f} GB", flush=True
            )
            found[f"check, {told}"] = {"d_model": check, "bytes": added, "bytes_by_formula": formula}
    return found


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--knobs", type=some_of(*KNOBS), default=list(KNOBS), help=f"some of {','.join(KNOBS)} (all)")
    parser.add_argument("--rounds", type=count, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--threads", type=count, default=2, help="threads (default 2)")
    parser.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="draw scale-time.svg and scale-memory.svg there"
    )
    parser.add_argument("--fits", type=count, metavar="GB", help="only say what fits into so many GB")
    parser.add_argument("--check", type=count, metavar="WIDTH", help="with --fits: measure the memory of this d_model")
    parser.add_anyway()
    parser.add_json()
    arguments = parser.parse_args()
    if arguments.check and not arguments.fits:
        refuse("--check goes with --fits")
    if arguments.check and arguments.check % 64:
        refuse(f"--check takes a multiple of 64, the size of a head; got {arguments.check}")
    if arguments.pictures and not arguments.pictures.is_dir():
        refuse(f"--pictures takes an existing folder, got {arguments.pictures}")
    if arguments.fits:
        write_json(arguments.json, fits(arguments.fits, arguments.check, arguments.threads))
        return
    print(f"{'':10} {'size':>6} {'ms':>9} {'Gflop/s':>8} {'MiB':>9} {'formula':>9}   slope of")
    print(f"{'':54}   {'time':>5} {'theory':>6}   {'mem.':>5} {'theory':>6}")
    results = {name: grow(name, arguments) for name in arguments.knobs}
    if arguments.pictures and all(results.values()):
        draw(results, arguments.pictures)
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
