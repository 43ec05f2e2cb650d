"""What a user writes. Type checkers must find the mistakes in the lines marked `# error`, and no others."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

import tinytensor as tt
import tinytensor.nn.functional as F
from tinytensor import nn
from tinytensor.models import data
from tinytensor.typing import ArrayLike, Axis, Device, DType


@tt.op(x=lambda xp, g, out, scale: g * (scale - out * out / scale))
def squash(xp: Any, x: ArrayLike, *, scale: float = 1.0) -> Any:
    return scale * xp.tanh(x)


@tt.op
def swish(x: tt.Tensor, *, beta: float) -> tt.Tensor:
    return x * tt.sigmoid(beta * x)


def centred(x: ArrayLike, axis: Axis = None) -> tt.Tensor:
    return tt.asarray(x) - tt.mean(x, axis=axis, keepdims=True)


class Block(nn.Module):
    def __init__(self, width: int, *, dtype: DType = None, device: Device = None) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True, dtype=dtype, device=device)
        self.norm = nn.LayerNorm(width, dtype=dtype, device=device)
        self.gain = nn.Parameter(tt.ones(width, dtype=dtype, device=device))
        self.register_buffer("mask", nn.functional.causal_mask(5))

    def forward(self, x: tt.Tensor, mask: tt.Tensor | None = None) -> tt.Tensor:
        attended, _ = self.attention(x, x, x, attn_mask=mask, need_weights=False)
        return self.norm(x + F.dropout(attended, 0.1, self.training)) * self.gain


class Classifier(nn.Module):
    def __init__(self, words: int, width: int = 8) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.blocks = nn.ModuleList([Block(width) for _ in range(2)])
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, 3))

    def forward(self, ids: tt.Tensor) -> tt.Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(swish(x, beta=1.0).mean(axis=1))


def batches(count: int) -> Iterator[tuple[tt.Tensor, tt.Tensor]]:
    for _ in range(count):
        yield tt.random.integers(1, 9, (4, 5)), tt.asarray(np.zeros(4), dtype=tt.int64)


def train(model: Classifier, data: Iterable[tuple[tt.Tensor, tt.Tensor]]) -> float:
    optimizer = nn.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    schedule = nn.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    total = 0.0
    for ids, labels in data:
        optimizer.zero_grad()
        loss = criterion(model(ids), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        schedule.step()
        total += loss.item()
    return total


@tt.no_grad()
def predict(model: nn.Module, ids: tt.Tensor) -> list[int]:
    return [int(label) for label in model.eval()(ids).argmax(axis=-1)]


tt.manual_seed(0)
model = Classifier(words=9).to("cpu", dtype="float32").train()
print(train(model, batches(3)), predict(model, tt.ones((2, 5), dtype=tt.int64)))
nn.save(model.state_dict(), "model.safetensors")
model.load_state_dict(nn.load("model.safetensors"))

x = tt.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=tt.float64, requires_grad=True)
y = tt.where(x > 2, 2 * x @ x.mT - x**2 / np.float64(3), 0.0)[:, None, 0].reshape(-1)
(gradient,) = tt.grad(tt.sum(y), [x])
squash(centred(x, axis=0), scale=2.0).sum(axis=(0, 1), keepdims=True).backward()
if x.grad is not None:
    print(x.grad.numpy().mean(), float(gradient[0, 0]), tt.concat([x, x.T], axis=-1).shape[0])
rows = data.TensorDataset(np.zeros((9, 5), dtype=np.int64), np.zeros(9, dtype=np.int64))
train(model, data.DataLoader(rows, batch_size=4, shuffle=True, generator=tt.random.Generator(0)))
average = nn.optim.swa_utils.AveragedModel(model, avg_fn=nn.optim.swa_utils.get_ema_avg_fn(0.9))
muon = nn.optim.Muon([p for p in model.parameters() if p.ndim == 2], lr=0.02)
schedule = nn.optim.lr_scheduler.SequentialLR(
    muon, [nn.optim.lr_scheduler.LinearLR(muon), nn.optim.lr_scheduler.ExponentialLR(muon, 0.9)], milestones=[5]
)
with average.swapped_into(model):
    print(predict(model, tt.ones((2, 5), dtype=tt.int64)), schedule.get_last_lr()[0])
with tt.record() as graph, tt.no_grad():
    values, places = tt.topk(tt.linalg.inv(x).astype(tt.float32), 1)
    values += tt.einsum("ij,jk->ik", x, x).astype("float32").max()
graph.save("graph.svg")

print(tt.mean(x, axes=0))  # error
print(tt.sum("text"))  # error
print(squash(x, factor=2.0))  # error
nn.optim.Lion(model.parameters(), eps=1e-8)  # error
print(x.softmax(0))  # error
print(model(x, x))  # error
print(tt.topk(x, 1).values)  # error
length: int = tt.linalg.vector_norm(x)  # error
layer = nn.Linear(2, "3")  # error
zeros = tt.zeros((2, 3), dtype=32)  # error
words = "text" + x  # error
