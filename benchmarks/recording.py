"""The cost of recording: a training step of the Transformer within `tt.record()` against the same step without.

    python benchmarks/recording.py [--layers 6] [--steps 15] [--json FILE]

And its cost when nothing is recorded: the step against one whose modules only call their `forward`, without any
recording, scopes and hooks. The three kinds of steps alternate, in one process; the ratios are medians over the
rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
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

    rounds = []
    for number in range(arguments.steps + 2):
        kinds = [bare, nullcontext] if number % 2 else [nullcontext, bare]  # neither always follows the other
        took = {kind: step(kind()) for kind in (*kinds, tt.record)}
        step(nullcontext())  # not counted: it finds memory as the recording left it
        rounds.append((took[bare], took[nullcontext], took[tt.record]))
    rounds = rounds[2:]
    ratio = statistics.median(recorded / plain for _, plain, recorded in rounds)
    off = statistics.median(plain / least for least, plain, _ in rounds)
    layers = f"{arguments.layers} + {arguments.layers} layers of {arguments.d_model}"
    print(
        f"a step within tt.record(), {layers}, {arguments.batch} x {arguments.length} ids: {ratio:.2f} of one without"
    )
    print(f"a step without: {off:.3f} of one whose modules know nothing of recordings, scopes and hooks")
    if arguments.json:
        write_json(arguments.json, {"ratio": ratio, "off": off, "rounds": rounds})


@contextmanager
def bare() -> Iterator[None]:
    """A context in which modules only call their `forward`."""
    call = nn.Module.__call__
    nn.Module.__call__ = lambda self, *args, **kwargs: self.forward(*args, **kwargs)  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        nn.Module.__call__ = call  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
