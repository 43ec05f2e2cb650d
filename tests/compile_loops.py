"""Compile the loops that many tests use, for a dtype, and keep them on disk.

    python -m tests.compile_loops float32

Without this, the first test that uses a loop in a fresh clone takes seconds longer than it does later.
"""

import sys

import numpy as np

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import LanguageModel
from tinytensor.models.language_model import GPT2, LLAMA
from tinytensor.nn import functional as F


def main(dtype):
    if not tt.compile_loops():
        return
    ids = 1 + np.arange(12).reshape(2, 6)
    for style in (GPT2, LLAMA):
        model = LanguageModel(20, d_model=16, num_heads=2, num_layers=1, max_length=8, **style).to(dtype)
        train(model, ids, nn.optim.Adam)
        model.eval().generate(ids[:, :3], max_length=6)
    x = tt.random.normal((2, 6, 16), dtype=dtype)
    for activation in ("relu", "gelu"):
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.1, activation, batch_first=True, dtype=dtype)
        train(layer, x, nn.optim.AdamW)
    images = tt.random.normal((2, 1, 8, 8), dtype=dtype)
    train(nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)).to(dtype), images, nn.optim.SGD)
    query = tt.tensor(tt.random.normal((1, 2, 300, 8), dtype=dtype), requires_grad=True)
    F.scaled_dot_product_attention(query, query, query).sum().backward()


def train(model, x, optimizer):
    """One step."""
    out = model(x if isinstance(x, tt.Tensor) else tt.asarray(x))
    F.cross_entropy(out.reshape(-1, out.shape[-1]), tt.zeros(out.size // out.shape[-1], dtype=tt.int64)).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer(model.parameters(), lr=0.1).step()


if __name__ == "__main__":
    main(getattr(tt, sys.argv[1]))
