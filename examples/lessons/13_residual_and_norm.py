# %% [markdown]
# # 13. Residual connections and layer norm
#
# Around each sub-layer of the Transformer is a residual connection, "followed by layer normalization. That is, the
# output of each sub-layer is LayerNorm(x + Sublayer(x))" (Vaswani et al. 2017, section 3.1). Two small operations
# without which nothing deep would learn. What does each of them do, and does it matter in which order they come?

# %%
import tinytensor as tt
from tinytensor import nn
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("13_residual_and_norm")

# %% [markdown]
# ## Layer norm
#
# $$\operatorname{LayerNorm}(x) = \frac{x - \mu}{\sigma} \cdot g + b, \qquad
# \mu = \frac{1}{d} \sum_i x_i, \qquad \sigma = \sqrt{\frac{1}{d} \sum_i (x_i - \mu)^2}$$
#
# g and b are learned; μ and σ are the mean and the standard deviation of the d numbers of **one position**. An article
# writes that "all hidden units in the same layer share the same mu and sigma", and with it the formula for a recurrent
# network, which has one position at a time. Here each position has its own:

# %%
tt.speed_up()
tt.manual_seed(0)
x = tt.tensor(tt.random.randn(2, 32) * tt.asarray([[1.0], [100.0]]) + tt.asarray([[0.0], [5.0]]), requires_grad=True)
norm = nn.LayerNorm(32)
for i, row in enumerate(norm(x)):
    lesson.number(f"position {i}: mean afterwards", row.mean(), ".0e")
    lesson.number(f"position {i}: standard deviation afterwards", row.std(correction=0), ".4f")

# %% [markdown]
# The second position was a hundred times as large as the first, and is so no longer. Its gradient is a hundredth:

# %%
norm(x).backward(tt.random.randn(2, 32))
sizes = tt.linalg.vector_norm(x.grad, axis=1)
lesson.number("gradient of the small position / of the large one", sizes[0] / sizes[1], ".0f")

# %% [markdown]
# In a recurrent network, for which it was invented (Ba et al. 2016, equation 4), the norm stands inside: h' =
# tanh(norm(x W + h U)). Weights ten times as large then change nothing, while without it tanh is driven to ±1, where
# its slope, and with it the gradient, is nearly 0:

# %%
W, U, word = tt.random.randn(32, 32) / 6, tt.random.randn(32, 32) / 6, tt.random.randn(20, 32)
for name, inside in {"with the norm": nn.LayerNorm(32), "without": nn.Identity()}.items():
    ends = []
    for times in (1, 10):
        h = tt.zeros(32)
        for t in range(20):
            h = tt.tanh(inside(times * (word[t] @ W + h @ U)))
        ends.append(h)
    lesson.number(f"an RNN {name}, weights times 10: state changes by", abs(ends[1] - ends[0]).max(), ".1g")
    lesson.number(f"an RNN {name}, weights times 10: mean slope of tanh", (1 - ends[1] ** 2).mean(), ".2f")

# %% [markdown]
# ## Four stacks of 30 layers
#
# Each layer is self-attention and a feed-forward network ([lesson 12](12_feed_forward.py)). What stands around these
# differs: nothing, so that x becomes F(x); a residual connection, x + F(x); the paper's norm after the sum, norm(x +
# F(x)); or, as most models since have it, the norm before it, x + F(norm(x)), which is `norm_first=True`. The library
# has layers of the last two kinds; the first two are written here.


# %%
class Bare(nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.keep = keep
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.feed_forward = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 32))

    def forward(self, x):
        x = self.keep * x + self.attention(x, x, x, need_weights=False)[0]
        return self.keep * x + self.feed_forward(x)


def encoder_layer(norm_first):
    return nn.TransformerEncoderLayer(32, 4, 128, dropout=0.0, batch_first=True, norm_first=norm_first)


kinds = {
    "F(x)": lambda: Bare(0.0),
    "x + F(x)": lambda: Bare(1.0),
    "norm(x + F(x))": lambda: encoder_layer(False),
    "x + F(norm(x))": lambda: encoder_layer(True),
}

# %% [markdown]
# ## How much of the gradient arrives?
#
# The derivative of x + F(x) is 1 + F'(x): whatever F' is, the gradient also goes past it, and past 30 layers as well.
# Without the x it is a product of factors, one for each sub-layer. A gradient of norm 1 enters at the top; its norm at
# the input of each layer:


# %%
def gradient_norms(make):
    tt.manual_seed(0)
    states = [tt.tensor(tt.random.randn(1, 8, 32), requires_grad=True)]
    for _ in range(30):
        states.append(make()(states[-1]))
        states[-1].retain_grad()
    gradient = tt.random.randn(1, 8, 32)
    states[-1].backward(gradient / tt.linalg.vector_norm(gradient))
    return [tt.linalg.vector_norm(x.grad.double()).item() for x in states], states[-1].std(correction=0).item()


norms = {}
for name, make in kinds.items():
    norms[name], deviation = gradient_norms(make)
    lesson.number(f"gradient below 30 layers, {name}", norms[name][0], ".2g")
    lesson.number(f"standard deviation above 30 layers, {name}", deviation, ".2g")
lesson.show("gradients", visualize.curves(norms, title="Gradient norm below a layer", x_label="layer", log_y=True))

# %% [markdown]
# An article reads off the formula that the gradient "remains unchanged and is passed to the child layer". The 1 in
# 1 + F' does that; the sum need not. With residual connections alone the gradient grows to more than twenty times what
# it was, and the vectors themselves grow as well, layer by layer. The norm holds both.
#
# Six layers of the first kind and six of the last, coloured by the gradient. The scales differ: from 1 down to a
# ten-millionth there, between 1 and 1.3 here.


# %%
def draw(kind):
    layers = nn.Sequential(*[kinds[kind]() for _ in range(6)])
    x = tt.tensor(tt.random.randn(1, 8, 32), requires_grad=True)
    with tt.record() as graph:
        y = layers(x)
    gradient = tt.random.randn(1, 8, 32)
    y.backward(gradient / tt.linalg.vector_norm(gradient))
    graph.title = kind
    return graph


look = {"heat": "grad", "fold": False, "collapse": ("Bare", "TransformerEncoderLayer"), "direction": "LR"}
lesson.show("without", draw("F(x)"), **look)

# %%
lesson.show("with", draw("x + F(norm(x))"), **look)

# %% [markdown]
# ## Do they learn?
#
# 30 layers learn to say a word of eight letters backwards. Guessing among 16 letters has a loss of log 16 = 2.77.


# %%
def learn(make, letters=16, length=8, steps=60):
    tt.manual_seed(0)
    embedding, positions = nn.Embedding(letters, 32), nn.LearnedPositionalEncoding(32, 0.0, length, batch_first=True)
    layers = [make() for _ in range(30)]
    model = nn.Sequential(embedding, positions, *layers, nn.LayerNorm(32), nn.Linear(32, letters))
    optimizer, losses = nn.optim.Adam(model.parameters(), lr=1e-3), []
    for _ in range(steps):
        ids = tt.random.integers(0, letters, (32, length))
        loss = F.cross_entropy(model(ids).reshape(-1, letters), ids.flip(1).reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


losses = {}
for name, make in kinds.items():
    losses[name] = learn(make)
    lesson.number(f"loss after 60 steps, {name}", sum(losses[name][-10:]) / 10)
lesson.show("losses", visualize.curves(losses, title="30 layers learn", x_label="step", y_label="loss"))

# %% [markdown]
# ## What it means
#
# Residual connections let the gradient past a layer, and layer norm keeps the size of what passes: with the first alone
# the gradient arrives and still nothing is learned. With the norm before the sub-layer nothing stands in the way of the
# x, and training begins at once. With the norm after the sum, as in the paper, every x goes through every norm; so deep
# a model hardly moves in its first steps, and wants a learning rate that is warmed up ([lesson 16](16_training.py);
# Xiong et al. 2020).
#
# Both orders are three lines of `Sublayer` in [nn/transformer.py](../../nn/transformer.py); the norm's formula is in
# [nn/functional/normalization.py](../../nn/functional/normalization.py).
#
# ## Try
#
# The paper's Transformer has six layers. Does the order matter there? Change the 30 in `learn`. Then the exercises:
# `python examples/lessons/13_residual_and_norm.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
