"""The same seed gives the same bits on one thread, on two and on four: gradients and weights of every kind of model.

Each way to compute is a process of its own, since what `tt.speed_up()` switches on stays on. This file is its program.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest

WAYS = {
    "plain": {},
    "sped up": {},
    "without loops": {"TINYTENSOR_COMPILE_LOOPS": "0"},
    "sped up without loops": {"TINYTENSOR_COMPILE_LOOPS": "0"},
}
THREADS = (1, 2, 4)
STEPS = 2


def models(tt, large):
    """By name: a function that makes the model, and one that makes a batch's loss of it."""
    from tinytensor import models, nn
    from tinytensor.nn import functional as F

    times = 4 if large else 1
    batch, length, d = 16 * times, 24, 64

    def ids(*shape, high=50):
        return tt.random.integers(3, high, shape)

    def next_ids(model):
        given = ids(batch, length + 1)
        return F.cross_entropy(model(given[:, :-1]).reshape(-1, 50), given[:, 1:].reshape(-1))

    def language_model(options):
        return models.LanguageModel(
            50, d_model=d, num_heads=4, num_layers=2, d_ff=4 * d + 10, max_length=64, dropout=0.1, **options
        )

    def encoder(activation):
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4, 4 * d, 0.1, activation, batch_first=True), 2)

    def of_vectors(model):
        return (model(tt.random.randn(batch, length, d)) ** 2).mean()

    def translated(model):
        given = ids(batch, length + 1)
        logits = model(ids(batch, length), given[:, :-1])
        return F.cross_entropy(logits.reshape(-1, 50), given[:, 1:].reshape(-1), label_smoothing=0.1)

    def of_sequences(model):
        out, _ = model(tt.random.randn(length, batch, d), lengths=[length - i % 5 for i in range(batch)])
        return (out**2).mean()

    def long(model, hidden):
        x = tt.random.randn(1, 1040, d)
        out, _ = model(x, x, x, need_weights=False, attn_mask=hidden)
        return (out**2).mean()

    def of_images(model):
        return F.cross_entropy(model(tt.random.randn(4 * batch, 1, 20, 20)), tt.random.integers(0, 10, (4 * batch,)))

    def of_classes(model):
        x = tt.random.randn(4 * batch, d)
        return F.cross_entropy(model(x), ids(4 * batch, high=8000), label_smoothing=0.1)

    from functools import partial

    from tinytensor.models.image_classifier import ImageClassifier
    from tinytensor.models.language_model import GPT2, LLAMA

    return {
        "encoder": (partial(encoder, "relu"), of_vectors),
        "encoder with GELU": (partial(encoder, "gelu"), of_vectors),
        "translation": (lambda: models.Transformer(50, d_model=d, num_heads=4, num_layers=2, dropout=0.1), translated),
        "GPT-2": (lambda: language_model(GPT2), next_ids),
        "Llama": (lambda: language_model(LLAMA), next_ids),
        "LSTM": (lambda: nn.LSTM(d, 100, 2), of_sequences),
        "GRU": (lambda: nn.GRU(d, 100, 2), of_sequences),
        "RNN": (lambda: nn.RNN(d, 100, 2), of_sequences),
        "long attention": (lambda: nn.MultiheadAttention(d, 4, batch_first=True), partial(long, hidden=None)),
        "long masked attention": (
            lambda: nn.MultiheadAttention(d, 4, 0.1, batch_first=True),
            lambda model: long(model, F.causal_mask(1040)),
        ),
        "convolution": (lambda: ImageClassifier(20), of_images),
        "many classes": (lambda: nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.LayerNorm(d), nn.Linear(d, 8000)), of_classes),
    }


def trained(tt, make, loss_of):
    """The hash of all gradients and weights after some steps, by name."""
    from tinytensor import nn

    tt.manual_seed(0)
    model = make()
    optimizer = nn.optim.AdamW(model.parameters(), lr=1e-2)
    found = {}
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    for name, parameter in model.named_parameters():
        for kind, array in (("", parameter), (".grad", parameter.grad)):
            found[name + kind] = hashlib.sha256(array.numpy().tobytes()).hexdigest()
    return found


def main(way, dtype, large):
    import tinytensor as tt
    from tinytensor.fast import threads

    if way.startswith("sped up"):
        tt.speed_up()
    tt.set_default_dtype(getattr(tt, dtype))
    if not large:
        threads.GRAIN = threads.AWAKE = 1 << 12
    found = {}
    for name, (make, loss_of) in models(tt, large).items():
        import time
        t=time.time()
        each = []
        for count in THREADS:
            tt.set_num_threads(count)
            each.append(trained(tt, make, loss_of))
        found[name] = [key for key in each[0] if any(key_of[key] != each[0][key] for key_of in each)]
        print(name, time.time()-t, file=sys.stderr)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:3], large=len(sys.argv) > 3)
