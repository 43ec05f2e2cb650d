"""Training in small steps, one word or one number at a time, beside PyTorch's time, and beside micrograd's.

    python benchmarks/small_loops.py [--loops char_rnn,lstm,gru_cell,seq2seq,embedding,scalars] [--rounds 7]

Every side begins with the same weights and sees the same data; the losses of the first steps are compared. A ratio
(below 1: ours is faster) is the median over interleaved rounds, of processor time with one thread a side. `scalars`
wants `pip install micrograd`.

- `char_rnn`: a name letter by letter through a cell of linear maps; a step by hand, `p.data -= rate * p.grad`.
- `lstm`, `gru_cell`: a sentence of 10 words, a word a call, through `nn.LSTM` and `nn.GRUCell`, with batch 1.
- `seq2seq`: 10 words through a GRU, and 10 steps of a decoder with additive attention; two SGDs.
- `embedding`: 32 words out of a table of 20,000 x 128, and SGD over all of it.
- `scalars`: a network 2-16-16-1 of single numbers, 20 points, as in micrograd's demo.
"""

from __future__ import annotations

import importlib.util
import random
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from checkout import enter
from command_line import Parser, count, refuse, require_torch, some_of, write_json
from interleaved import Side, compare_steps, ours, print_blas, torch

ROOT = Path(__file__).resolve().parents[1]
FIRST = 3  # steps whose losses are compared
APART = 1e-4
SECONDS = 0.4  # of a round
HIDDEN, WORDS, LENGTH = 128, 3000, 10


def char_rnn(lib: Any) -> tuple[list[Any], Callable[[int], Any]]:
    nn, F = lib.nn, lib.F
    to_hidden, to_out = nn.Linear(57 + HIDDEN, HIDDEN), nn.Linear(57 + HIDDEN, 18)
    parameters = [*to_hidden.parameters(), *to_out.parameters()]
    names = [lib.asarray(rows) for rows in np.eye(57, dtype=np.float32)[numbers(57, (20, LENGTH))][:, :, None]]
    languages = [lib.asarray(kind) for kind in numbers(18, (20, 1))]

    def step(i: int) -> float:
        hidden = lib.zeros(1, HIDDEN)
        for p in parameters:
            p.grad = None
        for letter in names[i % 20]:
            seen = lib.concat([letter, hidden], 1)
            out, hidden = to_out(seen), lib.tanh(to_hidden(seen))
        loss = F.nll_loss(F.log_softmax(out, dim=1), languages[i % 20])
        loss.backward()
        for p in parameters:
            p.data -= 0.005 * p.grad
        return loss.item()

    return parameters, step


def lstm(lib: Any) -> tuple[list[Any], Callable[[int], Any]]:
    layer = lib.nn.LSTM(HIDDEN, HIDDEN)
    return word_by_word(lib, layer, lambda x, state: layer(x.view(1, 1, -1), state))


def gru_cell(lib: Any) -> tuple[list[Any], Callable[[int], Any]]:
    cell = lib.nn.GRUCell(HIDDEN, HIDDEN)

    def called(x: Any, state: Any) -> tuple[Any, Any]:
        state = cell(x.view(1, -1), state)
        return state, state

    return word_by_word(lib, cell, called)


def word_by_word(lib: Any, layer: Any, called: Callable[..., Any]) -> tuple[list[Any], Callable[[int], Any]]:
    embed, to_out = lib.nn.Embedding(WORDS, HIDDEN), lib.nn.Linear(HIDDEN, 100)
    parameters = [*embed.parameters(), *layer.parameters(), *to_out.parameters()]
    optimizer = lib.optim.SGD(parameters, lr=0.01)
    sentences, targets = numbers(WORDS, (20, LENGTH)), numbers(100, (20, LENGTH, 1))

    def step(i: int) -> float:
        state, loss = None, 0.0
        for word, target in zip(lib.asarray(sentences[i % 20]), lib.asarray(targets[i % 20])):
            out, state = called(embed(word), state)
            loss = loss + lib.F.cross_entropy(to_out(out.view(1, -1)), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return parameters, step


def seq2seq(lib: Any) -> tuple[list[Any], Callable[[int], Any]]:
    nn, F = lib.nn, lib.F
    encoder = nn.ModuleList([nn.Embedding(WORDS, HIDDEN), nn.GRU(HIDDEN, HIDDEN)])
    decoder = nn.ModuleList([
        nn.Embedding(WORDS, HIDDEN), nn.GRU(2 * HIDDEN, HIDDEN), nn.Linear(HIDDEN, WORDS),
        nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1),
    ])  # fmt: skip
    optimizers = [lib.optim.SGD(half.parameters(), lr=0.01) for half in (encoder, decoder)]
    sources, targets = numbers(WORDS, (20, LENGTH)), numbers(WORDS, (20, LENGTH, 1))

    def step(i: int) -> float:
        embed, recur = encoder
        hidden, outputs = lib.zeros(1, 1, HIDDEN), []
        for word in lib.asarray(sources[i % 20]):
            out, hidden = recur(embed(word).view(1, 1, -1), hidden)
            outputs.append(out[0])
        keys = lib.concat(outputs, 0)
        embed, recur, to_words, of_query, of_keys, score = decoder
        loss, word = 0.0, lib.asarray(np.array([0]))
        for target in lib.asarray(targets[i % 20]):
            weights = F.softmax(score(F.tanh(of_query(hidden[0]) + of_keys(keys))), dim=0)
            context = weights.T @ keys
            out, hidden = recur(lib.concat([embed(word), context], 1).view(1, 1, -1), hidden)
            loss = loss + F.cross_entropy(to_words(out[0]), target)
            word = target
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss.item()

    return [*encoder.parameters(), *decoder.parameters()], step


def embedding(lib: Any) -> tuple[list[Any], Callable[[int], Any]]:
    table, to_out = lib.nn.Embedding(20_000, HIDDEN), lib.nn.Linear(HIDDEN, 100)
    parameters = [*table.parameters(), *to_out.parameters()]
    optimizer = lib.optim.SGD(parameters, lr=0.1)
    words, targets = numbers(20_000, (20, 32)), numbers(100, (20, 32))

    def step(i: int) -> float:
        loss = lib.F.cross_entropy(to_out(table(lib.asarray(words[i % 20]))), lib.asarray(targets[i % 20]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return parameters, step


def scalars(number: Callable[[float], Any], relu: Callable[[Any], Any], none: Any) -> Callable[[int], float]:
    """Steps of micrograd's demo in numbers of one library: a hinge loss, and weights that decay.

    Args:
        none: the gradient that a number begins a step with.
    """
    draw = random.Random(0)
    sizes = [(2, 16), (16, 16), (16, 1)]
    layers = [
        [([number(draw.uniform(-1, 1)) for _ in range(given)], number(0.0)) for _ in range(neurons)]
        for given, neurons in sizes
    ]
    weights = [w for layer in layers for row, bias in layer for w in (*row, bias)]
    points = [([draw.uniform(-1, 1), draw.uniform(-1, 1)], draw.choice([-1.0, 1.0])) for _ in range(20)]

    def through(x: Any) -> Any:
        for layer in layers:
            x = [sum((w * of for w, of in zip(row, x)), bias) for row, bias in layer]
            x = [relu(value) for value in x] if layer is not layers[-1] else x
        return x[0]

    def step(i: int) -> float:
        misses = [relu(1 + -side * through(x)) for x, side in points]
        loss = sum(misses) * (1.0 / len(misses)) + 1e-4 * sum(w * w for w in weights)
        for w in weights:
            w.grad = none
        loss.backward()
        for w in weights:
            w.data -= 0.05 * w.grad
        return float(loss.data)

    return step


LOOPS = {"char_rnn": char_rnn, "lstm": lstm, "gru_cell": gru_cell, "seq2seq": seq2seq, "embedding": embedding}


def numbers(end: int, shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(1).integers(0, end, shape)


def tinytensor_side(loop: str) -> tuple[Callable[..., Any], Any]:
    """A function that makes steps and returns their losses; None."""
    enter(ROOT)
    import tinytensor as tt
    from tinytensor import nn

    if loop == "scalars":
        return steps_of(scalars(lambda value: tt.tensor(value, requires_grad=True), nn.functional.relu, None)), None
    lib = SimpleNamespace(
        nn=nn, F=nn.functional, optim=nn.optim, asarray=tt.asarray, tanh=tt.tanh, concat=tt.concat,
        zeros=lambda *shape: tt.zeros(shape),
    )  # fmt: skip
    parameters, step = LOOPS[loop](lib)
    for p, values in zip(parameters, initial([tuple(p.shape) for p in parameters])):
        p.data = values
    return steps_of(step), None


def other_side(loop: str) -> tuple[Callable[..., Any], Any]:
    """The same in PyTorch, or in micrograd."""
    if loop == "scalars":
        from micrograd.engine import Value

        return steps_of(scalars(Value, Value.relu, 0)), None
    import torch

    lib = SimpleNamespace(
        nn=torch.nn, F=torch.nn.functional, optim=torch.optim, asarray=torch.from_numpy, tanh=torch.tanh,
        concat=torch.cat, zeros=torch.zeros,
    )  # fmt: skip
    parameters, step = LOOPS[loop](lib)
    for p, values in zip(parameters, initial([tuple(p.shape) for p in parameters])):
        p.data = torch.from_numpy(values)
    return steps_of(step), None


def initial(shapes: list[tuple[int, ...]]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [(rng.standard_normal(shape) * 0.1).astype(np.float32) for shape in shapes]


def steps_of(step: Callable[[int], float]) -> Callable[[int], tuple[list[float], float]]:
    """A function that makes steps, and returns their losses and the processor's seconds."""

    def steps(number: int) -> tuple[list[float], float]:
        start = time.process_time()
        losses = [step(i) for i in range(number)]
        return losses, time.process_time() - start

    return steps


def compare(loop: str, arguments: Any) -> dict[str, Any]:
    """Time one loop on both sides, print a line and return the figures."""
    peer = "micrograd" if loop == "scalars" else "PyTorch"
    sides = {"ours": Side(tinytensor_side, ours(1), loop), peer: Side(other_side, torch(1), loop)}
    line, figures = compare_steps(sides, arguments.rounds, first=FIRST, apart=APART, seconds=SECONDS)
    print(f"{loop:10} {peer:10} {line}", flush=True)
    return figures


def main() -> None:
    parser = Parser(__doc__)
    every = (*LOOPS, "scalars")
    parser.add_argument("--loops", type=some_of(*every), default=every, help=f"of {', '.join(every)}; default: all")
    parser.add_argument("--rounds", type=count, default=7, help="interleaved rounds (default 7)")
    parser.add_json()
    arguments = parser.parse_args()
    require_torch()
    if "scalars" in arguments.loops and importlib.util.find_spec("micrograd") is None:
        refuse("micrograd is not installed; pip install micrograd, or leave scalars out of --loops")
    print(f"{'loop':10} {'beside':10} {'ours, ms':>9} {'its, ms':>9}   ours takes, of it")
    results = {loop: compare(loop, arguments) for loop in arguments.loops}
    print_blas(next(iter(results.values()))["blas"])
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
