"""Checks of step 9: positions against the formula, the rest against a Transformer of tinytensor's functions."""

import numpy as np
from step02_node import Value
from step04_broadcast import backward
from step06_softmax import cross_entropy

import tinytensor as tt
from tinytensor import nn
from tinytensor.course.cards import expect_type, numbers
from tinytensor.models.scripts.exercises import agree, expect
from tinytensor.nn import functional as F

SOURCE = np.array([[3, 4, 5, 2], [6, 2, 0, 0], [5, 5, 2, 0]])
TARGET = np.array([[1, 5, 4, 3, 6], [1, 6, 3, 0, 0], [1, 5, 5, 0, 0]])


class Reference:
    """The same model by tinytensor's functions, with copies of the weights."""

    def __init__(self, model):
        self.weights = {name: tt.tensor(value.data, requires_grad=True) for name, value in model.parameters.items()}
        self.heads, self.layers, self.d_model = model.heads, model.layers, model.d_model

    def embed(self, ids):
        places = nn.PositionalEncoding(self.d_model, dropout=0.0, batch_first=True)
        return places(self.weights["embedding"][tt.asarray(ids)] * self.d_model**0.5)

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.weights[f"{name}.gain"], self.weights[f"{name}.bias"])

    def attend(self, name, x, source, mask):
        w_q, w_k, w_v, w_o = (self.weights[f"{name}.{w}"] for w in "qkvo")
        split = [
            y.reshape(*y.shape[:2], self.heads, -1).permute(0, 2, 1, 3) for y in (x @ w_q, source @ w_k, source @ w_v)
        ]
        heads = F.scaled_dot_product_attention(*split, attn_mask=tt.asarray(mask))
        return self.norm(name, x + tt.concat([heads[:, i] for i in range(self.heads)], axis=-1) @ w_o)

    def feed_forward(self, name, x):
        return self.norm(name, x + F.relu(x @ self.weights[f"{name}.in"]) @ self.weights[f"{name}.out"])

    def decode(self, target, memory, seen):
        x = self.embed(target)
        for name in [f"decoder.{i}" for i in range(self.layers)]:
            x = self.attend(f"{name}.self", x, x, np.tri(target.shape[1], dtype=bool))
            x = self.feed_forward(f"{name}.forward", self.attend(f"{name}.cross", x, memory, seen))
        return x @ self.weights["logits"]


def check_positions(positions):
    """The sine in even columns, the cosine in odd ones, at the frequency 10000^(-2i / d_model)."""
    for length, d_model in ((5, 6), (7, 10)):
        got = positions(length, d_model)
        expected = nn.PositionalEncoding(d_model, dropout=0.0, batch_first=True)(tt.zeros((1, length, d_model)))[0]
        places, i = np.arange(length)[:, None], np.arange(0, d_model, 2)

        def waves(angles):
            return np.stack([np.sin(angles), np.cos(angles)], axis=-1)

        angles = places / 10000 ** (i / d_model)
        mistakes = {
            "sines and cosines take turns: sine in column 2i, cosine in 2i + 1": waves(angles)
            .swapaxes(1, 2)
            .reshape(length, -1),
            "sine and cosine have changed places": waves(angles)[..., ::-1].reshape(length, -1),
            "the exponent is 2i / d_model, for the pair of columns i": waves(
                places / 10000 ** (i / 2 / d_model)
            ).reshape(length, -1),
            "the first position is 0": waves((places + 1) / 10000 ** (i / d_model)).reshape(length, -1),
        }
        agree(got, expected, f"{length} positions of {d_model} numbers", 1e-4, mistakes)


def check_Transformer(Transformer):
    """In `decode`: self-attention of x to x with the causal mask, then attention from x to the memory with the padding
    mask of the source, then feed-forward. `attend` and `feed_forward` add and normalise."""
    model = Transformer(7, d_model=6, heads=3, layers=2, seed=5)
    for value in model.parameters.values():  # gains and biases other than 1 and 0
        value.data = value.data + numbers(*value.data.shape) * (0.2 if value.data.ndim == 1 else 0.0)
    theirs = Reference(model)
    result = model.embed(SOURCE)
    expect_type(result, Value, "embed: ", "use one_hot(ids) @ embedding, not its .data")
    rows = model.parameters["embedding"].data[SOURCE]
    places = theirs.embed(SOURCE).numpy() - rows * 6**0.5
    mistakes = {"rows are not multiplied by √d_model": rows + places, "positions are missing": rows * 6**0.5}
    agree(result.data, theirs.embed(SOURCE), "what `embed` gives", 1e-4, mistakes)
    x = Value(numbers(2, 3, 6), wants=True)
    result = model.feed_forward("encoder.1.forward", x)
    expect(result is not ..., "feed_forward: the hole is still there")
    name, given = "encoder.1.forward", tt.asarray(x.data)
    w_in, w_out = theirs.weights[f"{name}.in"], theirs.weights[f"{name}.out"]
    mistakes = {
        "relu is missing: two products in a row are one": theirs.norm(name, given + given @ w_in @ w_out),
        "Add & Norm is missing": F.relu(given @ w_in) @ w_out,
        "x itself is not added": theirs.norm(name, F.relu(given @ w_in) @ w_out),
    }
    agree(result.data, theirs.feed_forward(name, given), "what `feed_forward` gives", mistakes=mistakes)
    memory, seen = Value(numbers(3, 4, 6), wants=True), (SOURCE != 0)[:, None, None, :]
    try:
        result = model.decode(TARGET, memory, SOURCE)
    except TypeError as error:
        expect("ellipsis" not in str(error), "decode: the hole is still there")
        raise
    changed = TARGET.copy()
    changed[:, 3:] = 4
    ahead = abs(model.decode(changed, memory, SOURCE).data - result.data)[:, :3].max()
    expect(ahead < 1e-9, "decode: a position sees those behind it; self-attention takes the causal mask")
    other = Value(np.where((SOURCE == 0)[..., None], 9.0, memory.data))
    padded = abs(model.decode(TARGET, other, SOURCE).data - result.data).max()
    expect(padded < 1e-9, "decode: it looks at the source's padding; attention to the memory takes the padding mask")
    moved = abs(model.decode(TARGET, Value(memory.data + numbers(3, 4, 6)), SOURCE).data - result.data).max()
    expect(moved > 1e-9, "decode: the memory changes nothing; in `cross`, keys and values come from the memory")
    logits = theirs.decode(TARGET, tt.asarray(memory.data), seen)
    agree(result.data, logits, "what `decode` gives (in each layer self, cross, forward, in this order)", 1e-4)
    backward(cross_entropy(result, TARGET, 0))
    F.cross_entropy(logits.reshape(-1, 7), tt.asarray(TARGET).reshape(-1), ignore_index=0).backward()
    for weight in ("embedding", "decoder.0.self.q", "decoder.1.cross.v", "decoder.1.forward.in", "logits"):
        agree(model.parameters[weight].grad, theirs.weights[weight].grad, f"the gradient of {weight}", 1e-4)
