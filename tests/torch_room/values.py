"""One-line programs for PyTorch and for `tinytensor.torch`: `python values.py MODULE` prints their values."""

import importlib
import sys

torch = importlib.import_module(sys.argv[1])
inf, nan, wide = float("inf"), float("nan"), torch.float64

# ---- floats keep their digits in a wider dtype

print(torch.tensor([0.1, 1e17], dtype=wide).tolist(), torch.as_tensor([0.1], dtype=wide).tolist())
print(torch.full((1,), 0.1, dtype=wide).tolist(), torch.arange(0, 0.5, 0.1, dtype=wide).tolist())
print(torch.tensor([1e17], dtype=torch.int64).tolist(), torch.tensor(0.1 + 0.2j, dtype=torch.complex128).tolist())
print(torch.ones(1, dtype=wide).new_full((1,), 0.1).tolist(), torch.full_like(torch.ones(1, dtype=wide), 0.1).tolist())
print(torch.tensor([1, 2], dtype=torch.float32).tolist(), torch.as_tensor([1.5], dtype=torch.int64).tolist())

# ---- close to infinity, and remainders

x, y = torch.tensor([1.0, inf, -inf, nan, inf]), torch.tensor([inf, 1.0, inf, nan, inf])
print(torch.isclose(x, y).tolist(), torch.isclose(x, y, equal_nan=True).tolist())
print(torch.allclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, inf])), x.allclose(x))
print(torch.fmod(torch.tensor([1.0, -2.5, 0.0]), torch.tensor([inf, inf, inf])).tolist())
print(torch.fmod(torch.tensor([5, -5, 7]), -3).tolist(), torch.fmod(torch.tensor([123456789]), 1000).tolist())
print(torch.fmod(torch.tensor([1e17], dtype=wide), torch.tensor([7.0], dtype=wide)).tolist())
leaf = torch.tensor([5.5, -5.5, 0.0], requires_grad=True)
torch.fmod(leaf, 2.0).sum().backward()
print(leaf.grad.tolist())


# ---- recording, and streams


@torch.set_grad_enabled(False)
def double(x):
    return x * 2


print(double(leaf).requires_grad, (leaf * 2).requires_grad, torch.is_grad_enabled())


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(5))


class Sized(Stream):
    def __len__(self):
        return 5


print([len(torch.utils.data.DataLoader(Sized(), batch_size=2, drop_last=drop)) for drop in (False, True)])
print(list(torch.utils.data.DataLoader(Stream(), batch_size=None)))
try:
    len(torch.utils.data.DataLoader(Stream(), batch_size=2))
except TypeError as error:
    print(error)
