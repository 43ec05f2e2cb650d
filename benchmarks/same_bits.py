"""Compare bits with another checkout: a hash of the parameters after some steps of training, with dropout.

    python benchmarks/same_bits.py --against FOLDER [--steps 200] [--works translation,gpt2,llama]

It trains each work twice, plain and with `tt.speed_up()`, each in a process of its own, from one seed: losses,
gradients, clipping, dropout and the optimiser's step all affect the hash. Exit code 1 if the two checkouts differ.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkout import Checkout, module
from command_line import Parser, count, some_of, write_json
from interleaved import Side

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"d_model": 32, "num_heads": 4, "d_ff": 64, "dropout": 0.1}
WORKS = ("translation", "gpt2", "llama")
IDS = 40


def model_of(work: str, checkout: Checkout) -> Any:
    if work == "translation":
        return checkout.models.Transformer(IDS, num_layers=2, **SIZES)
    language_model = module("models.language_model")
    kind = {"gpt2": language_model.GPT2, "llama": language_model.LLAMA}[work]
    return language_model.LanguageModel(IDS, **{**kind, **SIZES, "num_layers": 3, "max_length": 40})


def trained(work: str, folder: Path, steps: int, is_fast: bool) -> tuple[Callable[[], None], str]:
    """A side that is asked nothing, whose greeting is the hash of a model's parameters after a number of steps."""
    import numpy as np

    checkout = Checkout(folder)
    tt, nn = checkout.tt, checkout.nn
    if is_fast:
        checkout.speed_up()
    tt.manual_seed(1)
    model, rng = model_of(work, checkout), np.random.default_rng(0)
    optimizer = nn.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        source, target = rng.integers(3, IDS, (24, 20)), rng.integers(3, IDS, (24, 33))
        source[:5, 15:] = 0  # padding
        seen = target[:, :-1]
        logits = model(source, seen) if work == "translation" else model(seen)
        labels = tt.asarray(target[:, 1:].reshape(-1))
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits.reshape(-1, IDS), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return lambda: None, hashlib.sha256(b"".join(p.numpy().tobytes() for p in model.parameters())).hexdigest()[:16]


def hash_of(*arguments: Any) -> str:
    """The greeting of `trained`, from a process of its own."""
    side = Side(trained, {}, *arguments)
    found: str = side.greeting
    side.close()
    return found


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("--steps", type=count, default=200, help="of each training (default 200)")
    parser.add_argument("--works", type=some_of(*WORKS), default=list(WORKS), help="some of the works (all)")
    parser.add_against()
    parser.add_json()
    arguments = parser.parse_args()
    sides = {"ours": ROOT} | ({} if arguments.against is None else {"other": arguments.against})
    found: dict[str, dict[str, str]] = {}
    for work in arguments.works:
        for how in ("plain", "switched on"):
            name = f"{work}, {how}"
            found[name] = {
                side: hash_of(work, folder, arguments.steps, how != "plain") for side, folder in sides.items()
            }
            same = "the same" if len(set(found[name].values())) == 1 else "ANOTHER"
            print(f"{name:26} " + "  ".join(found[name].values()) + (f"  {same}" if len(sides) > 1 else ""), flush=True)
    write_json(arguments.json, found)
    return int(any(len(set(hashes.values())) > 1 for hashes in found.values()))


if __name__ == "__main__":
    sys.exit(main())
