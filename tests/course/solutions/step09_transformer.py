"""9. The Transformer: Figure 1 of the paper, with an encoder that reads and a decoder that writes."""

import numpy as np
from step01_op import relu
from step02_node import Value, part
from step06_softmax import one_hot
from step07_norm import layer_norm
from step08_attention import causal_mask, multi_head, padding_mask


def positions(length, d_model):
    """Section 3.5: an array (length, d_model), column 2i: sin(pos / 10000^(2i / d_model)), column 2i + 1: cosine."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, d_model)


class Transformer:
    """Ids of a source (batch, n) and of a target (batch, m) to logits (batch, m, vocabulary), a Value.

    `parameters` is a dictionary from names to Values that want a gradient.
    """

    def __init__(self, vocabulary, d_model=32, heads=2, layers=1, pad=0, seed=0):
        self.d_model, self.heads, self.layers, self.pad = d_model, heads, layers, pad
        self.parameters, draw = {}, np.random.default_rng(seed)
        shapes = {"embedding": (vocabulary, d_model), "logits": (d_model, vocabulary)}
        for stack, parts in (("encoder", ["self"]), ("decoder", ["self", "cross"])):
            for name in [f"{stack}.{i}" for i in range(layers)]:
                shapes |= {f"{name}.{which}.{w}": (d_model, d_model) for which in parts for w in "qkvo"}
                shapes |= {f"{name}.forward.in": (d_model, 4 * d_model), f"{name}.forward.out": (4 * d_model, d_model)}
                for which in [*parts, "forward"]:
                    self.parameters[f"{name}.{which}.gain"] = Value(np.ones(d_model), wants=True)
                    self.parameters[f"{name}.{which}.bias"] = Value(np.zeros(d_model), wants=True)
        for name, shape in shapes.items():
            self.parameters[name] = Value(draw.normal(size=shape) * d_model**-0.5, wants=True)

    def embed(self, ids):
        """Section 3.4: rows of the embedding times sqrt(d_model), plus positions; a row is one_hot(ids) @ embedding."""
        table = self.parameters["embedding"]
        vectors = one_hot(ids, table.data.shape[0]) @ table
        return vectors * self.d_model**0.5 + positions(ids.shape[1], self.d_model)

    def attend(self, name, x, source, mask):
        """Multi-head attention from x to source with the weights called `name`, then Add & Norm."""
        weights = [self.parameters[f"{name}.{w}"] for w in "qkvo"]
        return self.add_and_norm(name, x, multi_head(x, source, weights, self.heads, mask))

    def feed_forward(self, name, x):
        """Section 3.3: relu(x W_in) W_out with the weights `name`.in and `name`.out, then Add & Norm.

        `with part("feed-forward"):` around the two products puts them into a box of the picture.
        """
        with part("feed-forward"):
            result = relu(x @ self.parameters[f"{name}.in"]) @ self.parameters[f"{name}.out"]
        return self.add_and_norm(name, x, result)

    def add_and_norm(self, name, x, result):
        with part("add & norm"):
            return layer_norm(x + result, self.parameters[f"{name}.gain"], self.parameters[f"{name}.bias"])

    def encode(self, source):
        """The encoder's vector for each position of the source: (batch, n, d_model)."""
        with part("encoder"):
            x = self.embed(source)
            for i in range(self.layers):
                x = self.attend(f"encoder.{i}.self", x, x, padding_mask(source, self.pad))
                x = self.feed_forward(f"encoder.{i}.forward", x)
        return x

    def decode(self, target, memory, source):
        """Logits from the target so far and `memory`, the encoder's result; a position sees none behind it.

        In each layer: `decoder.{i}.self`, `decoder.{i}.cross` with the memory, `decoder.{i}.forward`.
        """
        with part("decoder"):
            x = self.embed(target)
            for i in range(self.layers):
                x = self.attend(f"decoder.{i}.self", x, x, causal_mask(target.shape[1]))
                x = self.attend(f"decoder.{i}.cross", x, memory, padding_mask(source, self.pad))
                x = self.feed_forward(f"decoder.{i}.forward", x)
            return x @ self.parameters["logits"]

    def __call__(self, source, target):
        return self.decode(target, self.encode(source), source)
