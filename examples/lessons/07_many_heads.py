# %% [markdown]
# # 7. Many heads
#
# $$\operatorname{MultiHead}(Q, K, V) = \operatorname{Concat}(head_1, \ldots, head_h) \, W^O$$
#
# $$head_i = \operatorname{Attention}(Q W_i^Q, \, K W_i^K, \, V W_i^V)$$
#
# So Vaswani et al. (2017, section 3.2.2). In articles the heads stand side by side, in libraries there is one matrix
# and a reshape. Are they the same? What do eight heads cost, and what can two of them do that one cannot?

# %%
import math
import timeit

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.scripts import attention_graphs
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("07_many_heads")

# %% [markdown]
# ## Head by head
#
# As it is written in the paper: a list of heads, each with three matrices of its own. The weights are those of an
# `nn.MultiheadAttention`, cut into pieces, so that the numbers can be compared. It keeps W^Q, W^K and W^V of all heads
# one under the other, in `in_proj_weight`, and each of them as PyTorch does, output × input.

# %%
tt.speed_up()
tt.manual_seed(0)
d_model, h, n = 64, 4, 6
d_k = d_model // h
layer = nn.MultiheadAttention(d_model, h, bias=False)
W_Q, W_K, W_V = (W.T for W in tt.split(layer.in_proj_weight, 3))
W_O = layer.out_proj.weight.T
x = tt.random.randn(n, d_model)


def attention(Q, K, V):
    return F.softmax(Q @ K.mT / math.sqrt(d_k), dim=-1) @ V


shares = [[W[:, i * d_k : (i + 1) * d_k] for W in (W_Q, W_K, W_V)] for i in range(h)]
heads = []
with tt.record() as graph:
    for i in range(h):
        with tt.named_scope(f"head {i + 1}"):
            heads.append(attention(*(x @ W for W in shares[i])))
    joined = tt.concat(heads, axis=-1)
    result = joined @ W_O
graph.title = "Multi-head attention, head by head"
lesson.show("heads", graph, fold=False, direction="TB", collapse=[f"head {i + 1}" for i in range(h)])

# %% [markdown]
# One of these boxes, opened; this one also has a mask, as in [lesson 6](06_masks.py):

# %%
lesson.show("head", attention_graphs.head(d_model, d_k))

# %% [markdown]
# Which matrix has which shape:

# %%
rows = {"x": x, "Wᵢ^Q, Wᵢ^K, Wᵢ^V": W_Q[:, :d_k], "x Wᵢ^Q, x Wᵢ^K, x Wᵢ^V": x @ W_Q[:, :d_k]}
rows |= {
    "scores": (x @ shares[0][0]) @ (x @ shares[0][1]).T,
    "headᵢ": heads[0],
    "Concat": tt.concat(heads, axis=-1),
    "W^O": W_O,
    "result": result,
}
for name, matrix in rows.items():
    print(f"{name:24} {matrix.shape[0]:3} × {matrix.shape[1]}")

# %% [markdown]
# ## All heads at once
#
# A column of a product needs that column of the matrix only, so all heads can be projected by one product, and cut
# apart afterwards: (6, 64) as (6, 4, 16), and the heads in front, (4, 6, 16). A matrix product with a batch of heads
# does the rest. It is the same as the list, and as the layer; and no head waits for another:


# %%
def as_a_list(x):
    return tt.concat([attention(*(x @ W for W in share)) for share in shares], axis=-1) @ W_O


def as_a_stack(x):
    Q, K, V = ((x @ W).reshape(n, h, d_k).permute(1, 0, 2) for W in (W_Q, W_K, W_V))
    return attention(Q, K, V).permute(1, 0, 2).reshape(n, d_model) @ W_O


lesson.number("list and stack: largest difference", abs(result - as_a_stack(x)).max(), ".0e")
lesson.number("list and module: largest difference", abs(result - layer(x, x, x)[0]).max(), ".0e")
time_of_list = min(timeit.repeat(lambda: as_a_list(x), number=20, repeat=10))
time_of_stack = min(timeit.repeat(lambda: as_a_stack(x), number=20, repeat=10))
lesson.number("time of the list / of the stack", time_of_list / time_of_stack, ".1f")

# %% [markdown]
# ## What is W^O for?
#
# d_v = d_model / h is a habit, not a need: a value may have any length. Let those of each head have 24 numbers, not 16.
# The results side by side are then 4 · 24 = 96 numbers, and cannot be added to x, which has 64. W^O, 96 × 64, brings
# them back. And it mixes heads: without it, what head 1 found could reach the first numbers of the result only.

# %%
d_v = 24
wide_V, wide_O = tt.random.randn(h, d_model, d_v) / 8, tt.random.randn(h * d_v, d_model) / 10
heads = [attention(x @ share[0], x @ share[1], x @ V) for share, V in zip(shares, wide_V)]
joined = tt.concat(heads, axis=-1)
lesson.number("numbers of a position before W^O", joined.shape[-1], ".0f")
lesson.number("numbers of a position behind W^O", (joined @ wide_O).shape[-1], ".0f")
only_first = tt.concat([heads[0], *(0 * z for z in heads[1:])], axis=-1)
lesson.number("numbers that head 1 alone reaches, before W^O", (only_first[0] != 0).sum(), ".0f")
lesson.number("numbers that head 1 alone reaches, behind W^O", (only_first[0] @ wide_O != 0).sum(), ".0f")

# %% [markdown]
# ## What do eight heads cost?
#
# As much as one: each has an eighth of the dimensions. At the size of the paper, 512 dimensions:

# %%
x = tt.random.randn(32, 1, 512)
cost = {}
for h in (1, 8):
    layer = nn.MultiheadAttention(512, h)
    with tt.textbook(), tt.record() as graph:
        layer(x, x, x, need_weights=False)
    parameters = sum(p.size for p in layer.parameters())
    cost[h] = graph.flops
    print(f"{h} × {512 // h} dimensions: {parameters} parameters, {graph.flops} floating-point operations")
lesson.number("parameters", parameters, ",.0f")
lesson.number("operations of 8 heads / operations of 1", cost[8] / cost[1], ".4f")

# %% [markdown]
# The 0.0006 above 1 are softmax, which has eight times as many weights to compute. An article gives as the reason for
# many heads that they "reduce the size of vectors and make parallelization possible". But the sum of the sizes is what
# it was, and one large product runs in parallel just as well. The paper's reason is another: "with a single attention
# head, averaging inhibits this".
#
# ## What one head cannot do
#
# Each position is to tell two letters: the one before it and the one after it. A head has one set of weights, which add
# up to 1, so a single head can look at one letter, or mix the two; the mixture does not say which came first.


# %%
def learn(num_heads, letters=16, length=8, steps=300):
    tt.manual_seed(0)
    embedding, positions = nn.Embedding(letters, 32), nn.LearnedPositionalEncoding(32, 0.0, length, batch_first=True)
    attention, projection = nn.MultiheadAttention(32, num_heads, batch_first=True), nn.Linear(32, 2 * letters)
    model = nn.ModuleList([embedding, positions, attention, projection])
    optimizer = nn.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        ids = tt.random.integers(0, letters, (64, length))
        x = positions(embedding(ids))
        found, weights = attention(x, x, x, average_attn_weights=False)
        logits = projection(found)[:, 1:-1].reshape(64, length - 2, 2, letters)
        neighbours = tt.stack([ids[:, :-2], ids[:, 2:]], axis=2)
        loss = F.cross_entropy(logits.reshape(-1, letters), neighbours.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (logits.argmax(axis=-1) == neighbours).float().mean(), weights[0]


looked = {}
for h in (1, 2):
    found, weights = learn(h)
    lesson.number(f"neighbours found, {h} × {32 // h} dimensions", found, ".0%")
    looked |= {f"{h} × {32 // h}, head {i + 1}": w for i, w in enumerate(weights)}
lesson.show("neighbours", visualize.matrix(looked, title="Where each position looks", numbers=False))

# %% [markdown]
# The single head looks half at one neighbour and half at the other, knows which two letters there are, and guesses
# their order: a little more than half. (The first and the last position are not asked, and look anywhere.) Two heads of
# half the size take one neighbour each.
#
# ## Without a head
#
# This model writes words backwards with 24 heads: four in each of two encoder layers, and eight in each of two decoder
# layers. The box of a map leaves its head out. Begin with "encoder" as the attention: the word survives the loss of any
# one head. Then take "cross". Without which heads does it come out wrong?

# %%
lesson.show("live.html", visualize.live(*lesson.letters_backwards(), text="transformer", title="A head left out"))

# %% [markdown]
# ## What it means
#
# Heads are a way to look at several places at once and to keep apart what was found there. They cost nothing, as long
# as each has its share of the dimensions. Head by head is how to think of it; one product is how it is computed:
# `multi_head`, `split_heads` and `join_heads` in
# [nn/functional/attention.py](../../nn/functional/attention.py), and the layer in
# [nn/attention.py](../../nn/attention.py).
#
# ## Try
#
# Ask for three letters: do two heads suffice? Then the exercises:
# `python examples/lessons/07_many_heads.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
