"""What recording costs: a training step of the Transformer within `tt.record()` against the same step without.

    python benchmarks/recording.py [--layers 6] [--steps 15] [--json FILE]

Steps with and without a recording alternate, in one process; the ratio is the median of the pairs.
"""

from __future__ import annotations

import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from command_line import Parser, count, write_json

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--layers", type=count, default=6, help="of the encoder, and of the decoder")
    parser.add_argument("--d-model", type=count, default=256)
    parser.add_argument("--batch", type=count, default=32)
    parser.add_argument("--length", type=count, default=24)
    parser.add_argument("--steps", type=count, default=15)
    parser.add_json()
    arguments = parser.parse_args()
    tt.manual_seed(0)
    model = Transformer(1000, d_model=arguments.d_model, num_heads=8, num_layers=arguments.layers, dropout=0.0)
    optimizer = nn.optim.Adam(model.parameters(), lr=1e-4)
    ids = tt.random.integers(3, 1000, (arguments.batch, arguments.length))

    def step(within: AbstractContextManager[Any]) -> float:
        began = time.perf_counter()
        with within:
            logits = model(ids, ids)
            loss = nn.functional.cross_entropy(logits.reshape(-1, 1000), ids.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        return time.perf_counter() - began

    for _ in range(2):
        step(nullcontext())
        step(tt.record())
    pairs = [(step(nullcontext()), step(tt.record())) for _ in range(arguments.steps)]
    ratio = statistics.median(recorded / plain for plain, recorded in pairs)
    layers = f"{arguments.layers} + {arguments.layers} layers of {arguments.d_model}"
    print(
        f"a step within tt.record(), {layers}, {arguments.batch} x {arguments.length} ids: {ratio:.2f} of one without"
    )
    if arguments.json:
        write_json(arguments.json, {"ratio": ratio, "pairs": pairs})


if __name__ == "__main__":
    main()
