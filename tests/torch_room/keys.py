"""Reads and writes at keys drawn at random, by the module that is named: PyTorch, or the room of its names."""

import importlib
import random
import sys

torch = importlib.import_module(sys.argv[1])
rng = random.Random(0)


def drawn(shape):
    """A key: integers, slices, lists, Tensors, masks, None and an ellipsis, in any order."""
    key, axis, length = [], 0, rng.choice([1, 2])
    while axis < len(shape):
        n, kind = shape[axis], rng.choice("iiissslltnm.")
        if kind == "n":
            key.append(None)
            continue
        if kind == "." and Ellipsis not in [part for part in key if not hasattr(part, "shape")]:
            key.append(Ellipsis)
            axis += rng.randrange(2)
            continue
        key.append(
            {
                "i": lambda: rng.choice([rng.randrange(-n, n), torch.tensor(rng.randrange(n))]),
                "s": lambda: slice(rng.choice([None, 0, 1]), None, rng.choice([None, 2])),
                "l": lambda: [rng.randrange(n) for _ in range(length)],
                "t": lambda: torch.tensor([rng.randrange(n) for _ in range(length)]),
                "m": lambda: torch.tensor([i < length for i in range(n)]),
                ".": lambda: slice(None),
            }[kind]()
        )
        axis += 1
    return tuple(key)


for case in range(600):
    shape = (2, 3, 4, 2)[: rng.choice([2, 3, 4])]
    x = torch.arange(1.0, 1 + torch.zeros(shape).numel()).reshape(shape)
    key = drawn(shape)
    try:
        part = x[key]
    except IndexError:
        print(case, "none")
        continue
    print(case, tuple(part.shape), part.flatten().tolist())
    if part.numel():
        y = x.clone()
        y[key] = torch.arange(part.numel() * 1.0).reshape(part.shape) if rng.random() < 0.7 else 5.0
        print(y.flatten().tolist())
        w = x.clone().requires_grad_()
        (w[key] * torch.arange(part.numel() * 1.0).reshape(part.shape)).sum().backward()
        print(w.grad.flatten().tolist())
