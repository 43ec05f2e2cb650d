"""Training steps of models that are written by hand in PyTorch's style, the same text on both sides.

    python benchmarks/by_hand.py [--programs gpt,cnn] [--threads 2] [--rounds 5] [--compiled] [--switched-on]

Our side computes them through `tinytensor.torch`, after a plain import, with `tt.speed_up()`, or with the step given to
`tt.compile`. A ratio (below 1: ours is faster) is the median over interleaved rounds of wall-clock time; both sides
begin with the same weights, and the losses of the first steps are compared. A third side computes a step's matrix
products alone, with NumPy.

- `mlp`, `cnn`: 784-256-256-10 with batch 64, and two convolutions with batch norm, on images of 28 x 28.
- `char lstm`: a letter at a time through `nn.LSTMCell`; `lstm`: 40 steps of `nn.LSTM`.
- `gpt`, `large gpt`: nanoGPT's model, 4 layers of 128 over 64 positions, 6 layers of 384 over 256.
- `translator`: an encoder and a decoder in the style of the Annotated Transformer.
- `vae`: 784-400-20-400-784; `embeddings`: skip-gram with negative samples and SGD.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from checkout import enter
from command_line import Parser, count, require_torch, some_of, write_json
from interleaved import Side, compare_steps, print_blas, torch

ROOT = Path(__file__).resolve().parents[1]
FIRST = 3  # steps whose losses are compared
APART = 2e-3
SECONDS = 0.5  # of a round


def draw(torch: Any, kind: str, *shape: int, end: int = 0) -> Any:
    """Numbers that the name `kind` seeds: normal, or whole ones below `end`."""
    rng = np.random.default_rng([ord(letter) for letter in kind])
    return torch.tensor(rng.integers(0, end, shape) if end else rng.standard_normal(shape).astype(np.float32))


def mlp(torch: Any) -> Any:
    nn, F = torch.nn, torch.nn.functional
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    x, y = draw(torch, "x", 64, 784), draw(torch, "y", 64, end=10)
    return model, lambda: F.cross_entropy(model(x), y)


def cnn(torch: Any) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
            self.norm1, self.norm2 = nn.BatchNorm2d(16), nn.BatchNorm2d(32)
            self.out = nn.Linear(32 * 49, 10)

        def forward(self, x: Any) -> Any:
            x = F.max_pool2d(F.relu(self.norm1(self.first(x))), 2)
            x = F.max_pool2d(F.relu(self.norm2(self.second(x))), 2)
            return self.out(x.view(x.size(0), -1))

    model = Net()
    x, y = draw(torch, "x", 64, 1, 28, 28), draw(torch, "y", 64, end=10)
    return model, lambda: F.cross_entropy(model(x), y)


def char_lstm(torch: Any) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.cell, self.out = nn.Embedding(65, 64), nn.LSTMCell(64, 256), nn.Linear(256, 65)

        def forward(self, x: Any) -> Any:
            h, c = torch.zeros(x.size(0), 256), torch.zeros(x.size(0), 256)
            found = []
            for t in range(x.size(1)):
                h, c = self.cell(self.embed(x[:, t]), (h, c))
                found.append(self.out(h))
            return torch.stack(found, 1)

    model = Net()
    x, y = draw(torch, "x", 32, 40, end=65), draw(torch, "y", 32, 40, end=65)
    return model, lambda: F.cross_entropy(model(x).view(-1, 65), y.view(-1))


def lstm(torch: Any) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.lstm, self.out = (
                nn.Embedding(65, 64),
                nn.LSTM(64, 256, batch_first=True),
                nn.Linear(256, 65),
            )

        def forward(self, x: Any) -> Any:
            return self.out(self.lstm(self.embed(x))[0])

    model = Net()
    x, y = draw(torch, "x", 32, 40, end=65), draw(torch, "y", 32, 40, end=65)
    return model, lambda: F.cross_entropy(model(x).view(-1, 65), y.view(-1))


def gpt(torch: Any, layers: int = 4, heads: int = 4, width: int = 128, length: int = 64, batch: int = 12) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

        def forward(self, x: Any) -> Any:
            b, t, c = x.size()
            q, k, v = self.qkv(x).split(width, dim=2)
            q, k, v = (p.view(b, t, heads, c // heads).transpose(1, 2) for p in (q, k, v))
            weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            weights = weights.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
            weights = F.softmax(weights, dim=-1)
            return self.proj((weights @ v).transpose(1, 2).contiguous().view(b, t, c))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.attn, self.ln2 = nn.LayerNorm(width), Attention(), nn.LayerNorm(width)
            self.fc, self.act, self.out = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            x = x + self.attn(self.ln1(x))
            return x + self.out(self.act(self.fc(self.ln2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = nn.Embedding(65, width), nn.Embedding(length, width)
            self.h = nn.ModuleList([Block() for _ in range(layers)])
            self.lnf, self.head = nn.LayerNorm(width), nn.Linear(width, 65, bias=False)

        def forward(self, ids: Any) -> Any:
            x = self.wte(ids) + self.wpe(torch.arange(ids.size(1)))
            for block in self.h:
                x = block(x)
            return self.head(self.lnf(x))

    model = GPT()
    x, y = draw(torch, "x", batch, length, end=65), draw(torch, "y", batch, length, end=65)
    return model, lambda: F.cross_entropy(model(x).view(-1, 65), y.view(-1))


def large_gpt(torch: Any) -> Any:
    return gpt(torch, 6, 6, 384, 256, 4)


def translator(torch: Any, width: int = 128, heads: int = 4, length: int = 24, batch: int = 32) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

        def forward(self, x: Any) -> Any:
            mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
            return self.scale * (x - mean) / (std + 1e-6) + self.shift

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.maps = nn.ModuleList([nn.Linear(width, width) for _ in range(4)])

        def forward(self, query: Any, source: Any, mask: Any = None) -> Any:
            split = (len(query), -1, heads, width // heads)
            q, k, v = (f(x).view(*split).transpose(1, 2) for f, x in zip(self.maps, (query, source, source)))
            scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(width // heads)
            if mask is not None:
                scores = scores.masked_fill(mask == 0, -1e9)
            x = torch.matmul(F.softmax(scores, dim=-1), v).transpose(1, 2).contiguous()
            return self.maps[-1](x.view(len(query), -1, width))

    class Layer(nn.Module):
        def __init__(self, sources: int) -> None:
            super().__init__()
            self.attend = nn.ModuleList([Attention() for _ in range(sources)])
            self.norms = nn.ModuleList([Norm() for _ in range(sources + 1)])
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, memory: Any = None, mask: Any = None) -> Any:
            y = self.norms[0](x)
            x = x + self.attend[0](y, y, mask)
            if memory is not None:
                x = x + self.attend[1](self.norms[1](x), memory)
            return x + self.down(F.relu(self.up(self.norms[-1](x))))

    class Translator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(500, width), nn.Embedding(500, width)
            self.encoder = nn.ModuleList([Layer(1) for _ in range(2)])
            self.decoder = nn.ModuleList([Layer(2) for _ in range(2)])
            self.norm, self.out = Norm(), nn.Linear(width, 500)
            self.register_buffer("mask", torch.tril(torch.ones(length, length)))

        def forward(self, source: Any, target: Any) -> Any:
            memory, x = self.source(source) * math.sqrt(width), self.target(target) * math.sqrt(width)
            for layer in self.encoder:
                memory = layer(memory)
            for layer in self.decoder:
                x = layer(x, memory, self.mask)
            return F.log_softmax(self.out(self.norm(x)), dim=-1)

    model = Translator()
    x, y, z = (draw(torch, name, batch, length, end=500) for name in "xyz")
    return model, lambda: F.nll_loss(model(x, y).view(-1, 500), z.view(-1))


def vae(torch: Any) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.mean, self.spread = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
            self.back, self.out = nn.Linear(20, 400), nn.Linear(400, 784)

        def forward(self, x: Any, noise: Any) -> Any:
            h = F.relu(self.up(x))
            mean, spread = self.mean(h), self.spread(h)
            z = mean + noise * torch.exp(0.5 * spread)
            return torch.sigmoid(self.out(F.relu(self.back(z)))), mean, spread

    model = VAE()
    x, noise = torch.sigmoid(draw(torch, "x", 128, 784)), draw(torch, "n", 128, 20)

    def loss() -> Any:
        found, mean, spread = model(x, noise)
        distance = -0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())
        return (F.binary_cross_entropy(found, x, reduction="sum") + distance) / len(x)

    return model, loss


def embeddings(torch: Any) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class SkipGram(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = nn.Embedding(10_000, 100), nn.Embedding(10_000, 100)

        def forward(self, word: Any, near: Any, far: Any) -> Any:
            v = self.inner(word)
            good = F.logsigmoid((v * self.outer(near)).sum(1))
            bad = F.logsigmoid(-(self.outer(far) @ v.unsqueeze(2)).squeeze(2)).sum(1)
            return -(good + bad).mean()

    model = SkipGram()
    word, near = draw(torch, "w", 512, end=10_000), draw(torch, "o", 512, end=10_000)
    far = draw(torch, "f", 512, 5, end=10_000)
    return model, lambda: model(word, near, far)


PROGRAMS = {
    "mlp": mlp, "cnn": cnn, "char lstm": char_lstm, "lstm": lstm, "gpt": gpt, "large gpt": large_gpt,
    "translator": translator, "vae": vae, "embeddings": embeddings,
}  # fmt: skip


def steps_of(torch: Any, program: str, is_compiled: bool = False) -> Callable[[int], tuple[list[float], float]]:
    """A function that makes some steps, and gives their losses and the seconds that they took."""
    model, loss_of = PROGRAMS[program](torch)
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.tensor((rng.standard_normal(tuple(p.shape)) * 0.05).astype(np.float32)))
    kind = torch.optim.SGD if program == "embeddings" else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=1e-3)

    def step() -> Any:
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if is_compiled else step

    def steps(number: int) -> tuple[list[float], float]:
        start = time.perf_counter()
        losses = [step().item() for _ in range(number)]
        return losses, time.perf_counter() - start

    return steps


def tinytensor_side(program: str, is_compiled: bool, is_switched_on: bool) -> tuple[Callable[..., Any], Any]:
    enter(ROOT)
    import tinytensor as tt
    from tinytensor import torch as room

    room.install()  # for the modules of this file, which name neither library
    import torch

    if is_switched_on:
        tt.speed_up()
    return steps_of(torch, program, is_compiled), None


def torch_side(program: str, threads: int) -> tuple[Callable[..., Any], Any]:
    import torch

    torch.set_num_threads(threads)
    return steps_of(torch, program), None


def products_side(program: str) -> tuple[Callable[..., Any], Any]:
    """The products of a step alone: those that the formulas compute, with random numbers."""
    enter(ROOT)
    import tinytensor as tt
    from tinytensor import torch as room
    from tinytensor.backend import numpy as arrays

    room.install()
    import torch

    steps, shapes, matmul = steps_of(torch, program), list[Any](), arrays.matmul

    def noted(a: Any, b: Any, out: Any = None) -> Any:
        shapes.append((a.shape, b.shape))
        return matmul(a, b, out)

    arrays.matmul = noted
    with tt.textbook():
        steps(1)
    arrays.matmul = matmul
    rng = np.random.default_rng(0)
    given = {shape: rng.standard_normal(shape, dtype=np.float32) for pair in shapes for shape in pair}

    def products(number: int) -> tuple[list[float], float]:
        start = time.perf_counter()
        for _ in range(number):
            for a, b in shapes:
                np.matmul(given[a], given[b])
        return [], time.perf_counter() - start

    return products, None


def compare(program: str, arguments: Any) -> dict[str, Any]:
    """Time one program on both sides, print a line and return the figures."""
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "TINYTENSOR_NUM_THREADS"), "1") if arguments.threads == 1 else {}
    sides = {
        "ours": Side(tinytensor_side, one, program, arguments.compiled, arguments.switched_on),
        "PyTorch": Side(torch_side, torch(arguments.threads), program, arguments.threads),
        "products": Side(products_side, one, program),
    }
    line, figures = compare_steps(sides, arguments.rounds, first=FIRST, apart=APART, seconds=SECONDS)
    print(f"{program:12} {line}", flush=True)
    return figures


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--programs", type=some_of(*PROGRAMS), default=list(PROGRAMS), help="default: all")
    parser.add_argument("--threads", type=count, default=2, help="of either side (default 2)")
    parser.add_argument("--rounds", type=count, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--compiled", action="store_true", help="our side compiles the step with tt.compile")
    parser.add_argument("--switched-on", action="store_true", help="our side calls tt.speed_up()")
    parser.add_json()
    arguments = parser.parse_args()
    require_torch()
    print(f"{'program':12} {'ours, ms':>9} {'its, ms':>9} {'products':>9}   ours takes, of PyTorch's time")
    results = {program: compare(program, arguments) for program in arguments.programs}
    print(f"median {statistics.median(row['ours_takes']['median'] for row in results.values()):.2f}")
    print_blas(next(iter(results.values()))["blas"])
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
