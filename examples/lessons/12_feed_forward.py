# %% [markdown]
# # 12. Feed-forward
#
# Two thirds of the weights of a layer are not attention. They are
#
# $$\operatorname{FFN}(x) = \max(0, \, x W_1 + b_1) \, W_2 + b_2,$$
#
# "applied to each position separately and identically", and "another way of describing this is as two convolutions with
# kernel size 1" (Vaswani et al. 2017, section 3.3). What is it that they do not do, and is the other description right?

# %%
import tinytensor as tt
from tinytensor import nn
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import visualize

lesson = Lesson("12_feed_forward")
tt.manual_seed(0)
d_model, d_ff, length = 16, 64, 6

# %% [markdown]
# ## The formula
#
# Wider, a bend at 0, and back again. In `nn` that is three modules, the same for all positions:

# %%
feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
widen, bend, narrow = feed_forward
x = tt.random.randn(length, d_model)
by_hand = tt.maximum(x @ widen.weight.T + widen.bias, 0.0) @ narrow.weight.T + narrow.bias
lesson.number("formula and modules: largest difference", abs(feed_forward(x) - by_hand).max(), ".0e")

# %% [markdown]
# ## Two convolutions
#
# A convolution slides a window along the sequence and applies one linear map to what is in it. A window of one position
# holds one vector: its 16 numbers are what a convolution calls channels. So the same weights, with an axis of length 1
# for the window, make two convolutions. Their sequences are (channels, length), so x is transposed on the way in and
# out:


# %%
def as_convolution(linear):
    convolution = nn.Conv1d(linear.in_features, linear.out_features, kernel_size=1)
    convolution.load_state_dict({"weight": linear.weight.unsqueeze(-1), "bias": linear.bias})
    return convolution


convolutions = nn.Sequential(as_convolution(widen), nn.ReLU(), as_convolution(narrow))
channels = tt.tensor(x, requires_grad=True).T  # pictures leave out how constants are rearranged
with tt.record() as linear:
    result = feed_forward(x)
with tt.record() as convolution:
    same = convolutions(channels)
lesson.number("convolutions and modules: largest difference", abs(result - same.T).max(), ".0e")
linear.title, convolution.title = "Two linear maps", "Two convolutions of kernel size 1"
lesson.show("linear", linear, collapse=("Linear", "Conv1d"), direction="LR")

# %%
lesson.show("convolution", convolution, collapse=("Linear", "Conv1d"), direction="LR")

# %% [markdown]
# Within each box is one matrix product, x Wᵀ in the one, W xᵀ in the other.
#
# ## Positions do not mix
#
# Change the vector at position 2, and see what changes in the result. In the feed-forward network: position 2, and
# nothing else, not by a bit. With attention before it: everything.

# %%
other = tt.concat([x[:2], tt.random.randn(1, d_model), x[3:]])
attention = nn.MultiheadAttention(d_model, 4)
wide = nn.Conv1d(d_model, d_model, kernel_size=3, padding=1)
functions = {
    "feed-forward": feed_forward,
    "a convolution of kernel size 3": lambda x: wide(x.T).T,
    "attention": lambda x: attention(x, x, x)[0],
}
for name, function in functions.items():
    changed = abs(function(other) - function(x)).max(axis=-1)
    lesson.number(f"positions that change with position 2, {name}", (changed > 0).sum(), ".0f")

# %% [markdown]
# The Jacobian shows it for all positions: a diagonal, a band, a square.

# %%
influences = {
    name: tt.linalg.vector_norm(tt.jacobian(function, x), axis=(1, 3))  # (output, feature, input, feature)
    for name, function in functions.items()
}
lesson.show("influence", visualize.matrix(influences, title="Output (row) depends on input (column)", numbers=False))

# %% [markdown]
# An article says that heads stand side by side "just like a convolution layer" has several convolutions. The likeness
# goes further. A convolution of kernel size 3 is three heads, whose weights are fixed: one looks at the position
# before, one at the position itself, one at the next, and W^V W^O of each is a slice of the kernel. What attention adds
# is that its weights depend on what stands there:

# %%
slices = [wide.weight[:, :, i].T for i in range(3)]
looks = [tt.eye(length, k=i - 1) for i in range(3)]  # a row of weights for each position
as_heads = sum(look @ x @ kernel for look, kernel in zip(looks, slices)) + wide.bias
lesson.number("a convolution and three heads: largest difference", abs(as_heads - wide(x.T).T).max(), ".0e")

# %% [markdown]
# To the feed-forward network the order of positions is nothing: of shuffled positions it makes the shuffled result.

# %%
order = tt.random.permutation(length)
lesson.number("shuffled before, after: difference", abs(feed_forward(x[order]) - feed_forward(x)[order]).max(), ".0e")

# %% [markdown]
# ## What the bend is for
#
# Without max(0, ·) two linear maps are one, with weight W₁ W₂ and bias b₁ W₂ + b₂, and all the width is for nothing:

# %%
straight = narrow(widen(x))
as_one = x @ (narrow.weight @ widen.weight).T + narrow(widen.bias)
lesson.number("two linear maps and one: largest difference", abs(straight - as_one).max(), ".0e")
lesson.number("with the bend between them: largest difference", abs(feed_forward(x) - as_one).max(), ".1g")

# %% [markdown]
# ## Where the weights are
#
# Attention has four matrices of d_model × d_model, the feed-forward network two of d_model × 4 d_model:

# %%
layer = nn.TransformerEncoderLayer(512, 8, 2048)
sizes = {name: p.size for name, p in layer.named_parameters()}
share = sum(n for name, n in sizes.items() if name.startswith("linear")) / sum(sizes.values())
lesson.number("share of the feed-forward network in a layer's parameters", share, ".1%")

# %% [markdown]
# ## What it means
#
# Attention moves information between positions and is, but for its weights, linear in the values. The feed-forward
# network computes with what has arrived, at each position alone. The description as convolutions is exact; linear maps
# say the same without transposing. Each layer has weights of its own, and all positions share them.
#
# Where it happens: `Feed` in [nn/transformer.py](../../nn/transformer.py), and `Conv1d` in
# [nn/convolution.py](../../nn/convolution.py).
#
# ## Try
#
# `python examples/lessons/12_feed_forward.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
