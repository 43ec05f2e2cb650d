# %% [markdown]
# # 9. Far away
#
# "I majored in linguistics ..., so I became especially interested in natural ___": what decides the last word stands at
# the beginning. A recurrent network hands it on from word to word, attention looks at it. Articles say that RNNs have
# "diminishing gradients that even LSTMs can not eliminate". How far does a gradient get? And does it matter?

# %%
import tinytensor as tt
from tinytensor import nn
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("09_far_away")
tt.speed_up()
tt.manual_seed(0)
d_model = 32


# %% [markdown]
# ## Five ways to read a sequence
#
# Each is a layer of this library with its usual initial weights. Only the last is not: an LSTM multiplies its cell by
# the forget gate f = σ(...) in every step, c' = f c + i g, and one of its two biases of f is set to 5, so that f is
# about 0.99 and not 0.5.


# %%
class SelfAttention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x)


def forgetting_little():
    lstm = nn.LSTM(d_model, d_model, batch_first=True)
    with tt.no_grad():
        lstm.bias_ih_l0[d_model : 2 * d_model] = 5.0  # the rows are those of i, f, g, o
    return lstm


readers = {
    "RNN": lambda: nn.RNN(d_model, d_model, batch_first=True),
    "GRU": lambda: nn.GRU(d_model, d_model, batch_first=True),
    "LSTM": lambda: nn.LSTM(d_model, d_model, batch_first=True),
    "LSTM, f ≈ 0.99": forgetting_little,
    "attention": lambda: SelfAttention(d_model, num_heads=1, batch_first=True),
}

# %% [markdown]
# ## How much of the gradient arrives
#
# 51 random words, a random gradient at the last output, and the size of what arrives at the word d places before it,
# as a share of what arrives at its neighbour. In float64, for float32 ends at 1e-45.

# %%
x = tt.random.randn(32, 51, d_model, dtype=tt.float64)
g = tt.random.randn(32, d_model, dtype=tt.float64)
curves = {}
for name, make in readers.items():
    reader, words = make().double(), tt.tensor(x, requires_grad=True)
    last = reader(words)[0][:, -1]
    (gradient,) = tt.grad(last, [words], grad_outputs=[g])
    size = tt.linalg.vector_norm(gradient, axis=-1).mean(axis=0)[::-1]  # by distance
    curves[name] = size[1:] / size[1]
    lesson.number(f"{name}: gradient at distance 50, relative to distance 1", curves[name][-1], ".1e")
curves = {name: (range(1, 51), curve) for name, curve in curves.items()}
title = "What is left of the gradient"
lesson.show("gradients", visualize.curves(curves, title=title, x_label="distance", y_label="share", log_y=True))

# %% [markdown]
# An RNN multiplies by the same matrix, and by a slope of tanh, at every step: what is below 1 becomes nothing, a
# straight line on this axis. Attention has one step for every distance. So far the articles are right. Where they are
# not is the last LSTM: with a forget gate near 1 its gradient gets there as well. It is the usual initial gate, 0.5 a
# step, that forgets.
#
# ## Which word was it?
#
# Twenty words out of eight, and the reader is asked which one stood d places before the last. Attention needs to be
# told the positions ([lesson 14](14_positions.py)), a recurrent network knows them from its order.


# %%
class Recall(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.embedding = nn.Embedding(8, d_model)
        positions = nn.PositionalEncoding(d_model, dropout=0.0, batch_first=True)
        self.positions = positions if name == "attention" else nn.Identity()
        self.reader, self.answer = readers[name](), nn.Linear(d_model, 8)

    def forward(self, ids):
        return self.answer(self.reader(self.positions(self.embedding(ids)))[0][:, -1])


def recalled(name, distance, steps=200):
    print(f"training: {name}, distance {distance}", flush=True)
    tt.manual_seed(0)
    model = Recall(name)
    optimizer = nn.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        ids = tt.random.integers(0, 8, (64, 20))
        loss = F.cross_entropy(model(ids), ids[:, 19 - distance])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ids = tt.random.integers(0, 8, (1000, 20))
    return (model(ids).argmax(axis=-1) == ids[:, 19 - distance]).float().mean().item()


# %%
distances = [1, 5, 10, 19]
found = {name: [recalled(name, d) for d in distances] for name in readers if name != "GRU"}
for name, shares in found.items():
    lesson.number(f"{name}: recalled at distance 10", shares[2], ".1%")
    lesson.number(f"{name}: recalled at distance 19", shares[3], ".1%")
recall = {name: (distances, shares) for name, shares in found.items()}
title = "Words recalled after 200 steps of training (chance: 0.125)"
lesson.show("recall", visualize.curves(recall, title=title, x_label="distance", y_label="share", markers=True))

# %% [markdown]
# ## What it means
#
# Where no gradient arrives nothing is learned: RNN and LSTM guess beyond a few words, attention finds every one. The
# LSTM whose gate is near 1 is the one to look at. It finds the very first word, at distance 19, which nothing stood
# before, and hardly any at distance 10: it forgets nothing, so what it holds is all words at once, and which of them to
# keep it would still have to learn. A gradient that arrives is needed, and is not enough. Attention needs neither to
# carry nor to forget.
#
# Its price: it keeps all words instead of one state, and compares each with each ([lesson 10](10_in_parallel.py)). And
# it has no straight line down, but the gradient is shared out: of n words each gets about 1/n of the weight at first. A
# convolution is between the two: one layer sees its kernel and nothing else, as the articles say, but layers above each
# other see further, and a gradient from far away has as many of them to pass.
#
# The steps that multiply stand in [nn/functional/recurrent.py](../../nn/functional/recurrent.py), a line each; there
# is none in [nn/functional/attention.py](../../nn/functional/attention.py).
#
# ## Try
#
# More `steps` for the LSTMs: when is distance 10 learned? A forget bias of 1? Then the exercises:
# `python examples/lessons/09_far_away.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
