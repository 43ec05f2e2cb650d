# %% [markdown]
# # 19. How a framework works
#
# What happens in `loss.backward()`? Three ideas: an operation remembers its inputs; a rule turns the gradient of its
# result into the gradients of its inputs; and one walk from the result back to the inputs applies all rules. Here they
# are in 43 lines of code, enough to train attention, and then the same three in tinytensor's own source.

# %%
from pathlib import Path

import numpy as np

import tinytensor as tt
from tinytensor.graph import render
from tinytensor.models.scripts.lesson import Lesson

lesson = Lesson("19_a_framework")

# %% [markdown]
# ## First idea: a result remembers where it came from
#
# A `Value` is an array, its gradient, and `parents`: pairs of an input and the rule that gives its gradient from `g`,
# the gradient of the result. Each rule stands beside its operation, as in a table of derivatives:


# %%
class Value:
    def __init__(self, data, name="", *parents):
        self.data, self.name, self.parents, self.grad = np.asarray(data, float), name, parents, 0.0

    def __add__(self, other):
        return Value(self.data + other.data, "+", (self, lambda g: g), (other, lambda g: g))

    def __mul__(self, other):
        return Value(self.data * other.data, "×", (self, lambda g: g * other.data), (other, lambda g: g * self.data))

    def __matmul__(self, other):
        rules = (self, lambda g: g @ other.data.T), (other, lambda g: self.data.T @ g)
        return Value(self.data @ other.data, "@", *rules)

    def __truediv__(self, other):
        out = self.data / other.data
        return Value(out, "÷", (self, lambda g: g / other.data), (other, lambda g: -g * out / other.data))

    def transposed(self):
        return Value(self.data.T, "T", (self, lambda g: g.T))

    def exp(self):
        out = np.exp(self.data)
        return Value(out, "exp", (self, lambda g: g * out))

    def log(self):
        return Value(np.log(self.data), "log", (self, lambda g: g / self.data))

    def sum(self, axis=None, keepdims=False):
        out = self.data.sum(axis=axis, keepdims=keepdims)
        return Value(out, "sum", (self, lambda g: np.broadcast_to(g, self.data.shape)))

    def backward(self):
        order, seen = [], set()

        def visit(value):
            if value not in seen:
                seen.add(value)
                for parent, _ in value.parents:
                    visit(parent)
                order.append(value)

        visit(self)
        self.grad = np.ones_like(self.data)
        for value in reversed(order):  # the result first: whoever used a value has had its turn before it
            for parent, rule in value.parents:
                parent.grad = parent.grad + unbroadcast(rule(value.grad), parent.data.shape)
        return order


# %% [markdown]
# ## Second idea: the chain rule; third idea: one walk back
#
# `rule(value.grad)` is the chain rule: a vector-Jacobian product, and never a Jacobian. `backward` calls each rule
# once, the latest result first, and what was used twice adds up both gradients (`parent.grad + ...`). One thing is
# left: an input that NumPy repeated to fit gets the sum over its copies.


# %%
def unbroadcast(g, shape):
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)


def softmax(s):
    e = s.exp()
    return e / e.sum(axis=1, keepdims=True)


# %% [markdown]
# ## The same numbers
#
# One head of attention, softmax(Q Kᵀ / √dₖ) V, and a loss behind it: in the small framework, and in tinytensor, which
# has the same methods.

# %%
arrays = [np.random.default_rng(seed).normal(size=(4, 3)) for seed in range(3)]
q, k, v = (Value(a) for a in arrays)
loss = (softmax((q @ k.transposed()) * Value(3**-0.5)) @ v).exp().sum().log()
small_graph = loss.backward()

Q, K, V = (tt.tensor(a, requires_grad=True) for a in arrays)
with tt.record() as graph:
    result = (softmax((Q @ K.mT) * 3**-0.5) @ V).exp().sum().log()
result.backward()
lesson.number("loss, small framework", loss.data)
lesson.number("loss, tinytensor", result)
differences = [abs(small.grad - large.grad.numpy()).max() for small, large in zip((q, k, v), (Q, K, V))]
lesson.number("largest difference of a gradient", max(differences), ".0e")
lesson.number("operations, small framework", sum(bool(value.parents) for value in small_graph), ".0f")
lesson.number("operations, tinytensor", len(graph.ops), ".0f")


# %% [markdown]
# The two graphs are the same, operation by operation. Ours is drawn by Graphviz from the pairs in `parents`:


# %%
class Drawing:
    def save(self, path):
        lines = [f'{id(v)} [label="{v.name} {v.data.shape}", style=filled, shape=box]' for v in small_graph]
        lines += [f"{id(parent)} -> {id(v)}" for v in small_graph for parent, _ in v.parents]
        text = f'digraph "The small graph" {{ edge [color=gray]; {"; ".join(lines)} }}'
        Path(path).write_bytes(render(text, "svg"))


lesson.show("small", Drawing())

# %%
lesson.show("tinytensor", graph)

# %% [markdown]
# ## It learns
#
# A query that looks for a key: 4 words, each with a key and a value; the query names one of them. The network has to
# find the matrix that turns queries into keys. All it needs is `backward()`, and a step against the gradient.

# %%
draw = np.random.default_rng(0)
keys, secret = draw.normal(size=(4, 4)), draw.normal(size=(4, 4))
values, asked = np.eye(4), draw.integers(4, size=32)
queries = keys[asked] @ np.linalg.inv(secret)
weight = Value(np.zeros((4, 4)))
for step in range(301):
    weights = softmax(Value(queries) @ weight @ Value(keys.T))
    loss = (Value(values[asked]) * weights.log()).sum() * Value(-1 / len(asked))
    weight.grad = 0.0
    loss.backward()
    weight.data = weight.data - 0.5 * weight.grad
    if step % 100 == 0:
        print(f"step {step}: loss {loss.data:.3f}")
lesson.number("right word found", (weights.data.argmax(axis=1) == asked).mean(), ".0%")

# %% [markdown]
# ## The same three ideas in tinytensor
#
# | idea | here | there |
# |---|---|---|
# | a result remembers | `Value(out, "exp", (self, rule))` | a `Node` has `parents` and what is saved: [node.py] |
# | rules in a table | `lambda g: g * out` | `@op(x=lambda xp, g, out: g * out)`: [elementwise.py] |
# | one walk back | `backward`, ten lines | `_carry_back`, by a clock and not by recursion: [engine.py] |
#
# What the small one lacks: graphs deeper than Python's recursion (each `visit` is a call), memory that is freed on the
# way, gradients of gradients (its rules run on arrays; tinytensor's run on Tensors as well), dtypes, devices, changes
# in place, and errors that say what was met. [docs/reading.md](../../docs/reading.md) is the way through the rest.
#
# [node.py]: ../../tinytensor/node.py
# [elementwise.py]: ../../tinytensor/functions/elementwise.py
# [engine.py]: ../../tinytensor/engine.py
#
# ## Try
#
# Build a larger one yourself: `python -m tinytensor.course build` writes twelve files with holes, from an op to a
# trained Transformer ([Teaching](../../docs/teaching.md)). Or do the exercises:
# `python examples/lessons/19_a_framework.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
