# %% [markdown]
# # 10. In parallel
#
# "The recurrent model is slow because it has to be calculated in order", one article says, and attention "can run
# parallel". How much has to wait for something else? Table 1 of the paper answers with orders of growth. A recorded
# computation knows the answer exactly: `Graph.depth` is its longest path, `Graph.flops` how much there is to compute.

# %%
import math
import timeit

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("10_in_parallel")
tt.speed_up()
tt.manual_seed(0)
d_model = 64

# %% [markdown]
# ## Three layers
#
# Each takes n words and gives n vectors, the last of which depends on all of them. The recurrence is the simplest,
# hₜ = tanh(xₜ W + hₜ₋₁ U). A convolution with kernel size 3 sees a word and the two before it, so it takes (n − 1) / 2
# layers until the last word has heard of the first; if each looks three times as far as the one below it ("dilated"),
# log₃ n of them.

# %%
W, U, W_Q, W_K, W_V = (tt.tensor(tt.random.randn(d_model, d_model) / 8, requires_grad=True) for _ in range(5))


def recurrence(x):
    inputs = x @ W  # of all words at once
    states = [tt.tanh(inputs[:1])]
    for t in range(1, len(x)):
        with tt.named_scope(f"word {t + 1}"):
            states.append(tt.tanh(inputs[t : t + 1] + states[-1] @ U))
    return tt.concat(states)


def attention(q, k, v):
    return F.softmax(q @ k.mT / math.sqrt(d_model), dim=-1) @ v


def head(x):
    return attention(x @ W_Q, x @ W_K, x @ W_V)


def convolutions(x, dilations):
    y = x.mT  # channels come before positions
    for d in dilations:
        y = nn.Conv1d(d_model, d_model, 3, padding=2 * d, dilation=d)(y)[:, : len(x)]
    return y.mT


def contiguous(x):
    return convolutions(x, [1] * math.ceil((len(x) - 1) / 2))


def dilated(x, less=0):
    return convolutions(x, [3**i for i in range(math.ceil(math.log(len(x), 3)) - less)])


def record(layer, *inputs):
    with tt.record() as graph:
        layer(*inputs)
    return graph


def words(n):
    return tt.tensor(tt.random.randn(n, d_model), requires_grad=True)


# %% [markdown]
# The recurrence of four words: every state waits for the one before it.

# %%
drawing = {"fused": "folded", "direction": "LR", "fold": False}
x = words(4)
with tt.record() as graph:
    states = recurrence(x)
graph.title = "A recurrence over four words"
lesson.show("recurrence", graph, **drawing)

# %% [markdown]
# And a head of attention. It looks the same for four words as for four thousand:

# %%
with tt.record() as graph:
    context = head(x)
graph.title = "A head of attention over four words"
lesson.show("attention", graph, **drawing)

# %% [markdown]
# ## The longest path
#
# How many operations have to run one after the other, with as many cores as one likes?

# %%
sizes = [4, 8, 16, 32, 64]
layers = {"recurrence": recurrence, "convolutions": contiguous, "dilated": dilated, "attention": head}
depths = {name: [record(layer, words(n)).depth for n in sizes] for name, layer in layers.items()}
for name, depth in depths.items():
    lesson.number(f"longest path for 64 words, {name}", depth[-1], ".0f")
paths = {name: (sizes, depth) for name, depth in depths.items()}
looks = {"log_x": True, "log_y": True, "markers": True}
lesson.show("paths", visualize.curves(paths, title="Longest path", x_label="words", y_label="operations", **looks))

# %% [markdown]
# Do the dilated layers reach the first word? The gradient says so; with one layer less it is exactly 0. This is what an
# article means by "CNN can only associate data within the kernel size": one layer of it.

# %%
for less in (0, 1):
    x = words(64)
    (gradient,) = tt.grad(dilated(x, less)[-1].sum(), [x])
    lesson.number(f"gradient at the first word, {less} layers less", abs(gradient[0]).max(), ".1e")

# %% [markdown]
# ## How much to compute
#
# Paths are not work. Per layer, table 1 has n² d for attention, n d² for a recurrence and k n d² for a convolution, so
# attention is cheaper while n < d:

# %%
sizes = [16, 32, 64, 128, 256]
flops = {
    "recurrence": [record(recurrence, words(n)).flops for n in sizes],
    "convolution": [record(convolutions, words(n), [1]).flops for n in sizes],
    "attention": [record(attention, *(words(n) for _ in range(3))).flops for n in sizes],
    "attention with W^Q, W^K, W^V": [record(head, words(n)).flops for n in sizes],
}
work = {name: (sizes, numbers) for name, numbers in flops.items()}
lesson.show("flops", visualize.curves(work, title="Work of a layer, d = 64", x_label="words", y_label="flops", **looks))
for n in (16, 64, 256):
    for name in ("attention", "attention with W^Q, W^K, W^V"):
        i = sizes.index(n)
        lesson.number(f"flops of {name} / of recurrence, {n} words", flops[name][i] / flops["recurrence"][i])

# %% [markdown]
# At n = d they meet, as the table says. But it counts what is between the words only: with its three projections a
# head is more work than a recurrence at any length. It is not that attention computes less. It need not wait.
#
# ## Timed

# %%
x = words(256)
waiting = min(timeit.repeat(lambda: recurrence(x), number=1, repeat=20))
parallel = min(timeit.repeat(lambda: head(x), number=1, repeat=20))
lesson.number("time of recurrence / of attention, 256 words", waiting / parallel, ".1f")
lesson.number("flops of recurrence / of attention, 256 words", record(recurrence, x).flops / record(head, x).flops)

# %% [markdown]
# ## What it means
#
# | layer | the paper: work | longest path | here, n words | for 64 |
# |---|---|---|---|---|
# | attention | n² d | 1 | 6 | 6 |
# | recurrence | n d² | n | 3 n + 1 | 193 |
# | convolution | k n d² | log_k n, or n / k | 4 a layer, and 2 | 18, or 130 |
#
# With five times as much to compute, attention is done in a fraction of the time, on a few cores and in an interpreter,
# for which every operation costs something. But n² stays n²: for long enough sequences work outgrows waiting, and
# memory does as well. And what is true of training is not of writing: there a Transformer, too, says word after word,
# each waiting for the last.
#
# `nn.RNN` is one operation in such a graph, with the same loop inside of it:
# [recurrent.py](../../nn/functional/recurrent.py). How the path is found: `depth` in
# [graph.py](../../tinytensor/graph/graph.py), five lines. What an operation is counted as:
# [cost.py](../../tinytensor/graph/cost.py).
#
# ## Try
#
# From which n on is attention slower here? Let `words(256)` grow. Then the exercises:
# `python examples/lessons/10_in_parallel.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
