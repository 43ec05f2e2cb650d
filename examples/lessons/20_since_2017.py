# %% [markdown]
# # 20. Since 2017
#
# A model of today has the layers of the Transformer, and differs from it in a handful of places. Each is a paper, most
# are a line or two of code, and nearly all follow from one question: what of the layer was needed? All of them are
# arguments of [`models.LanguageModel`](../../models/language_model.py). What does each do?

# %%
import numpy as np

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("20_since_2017")

# %% [markdown]
# ## RMSNorm: only the length
#
# Layer norm takes the mean away and divides by the spread (lesson [13]). RMSNorm divides by the length, up to √d, and
# leaves the mean: x / √(mean(x²) + ε) ⊙ w (Zhang and Sennrich 2019). So a vector keeps its direction, and of a vector
# without a mean both make the same, up to ε. That training goes as well without, and faster, is the paper's finding:
# it was the length that mattered.

# %%
tt.manual_seed(0)
x = tt.random.randn(1000, 64) + 1.0
layer_norm, rms_norm = nn.LayerNorm(64), nn.RMSNorm(64)
for name, norm in {"layer norm": layer_norm, "RMSNorm": rms_norm}.items():
    lesson.number(f"cosine of x and its {name}", F.cosine_similarity(x, norm(x)).mean(), ".2f")
centred = x - x.mean(axis=-1, keepdims=True)
apart = abs(rms_norm(centred) - layer_norm(centred)).max()
lesson.number("without a mean: RMSNorm and layer norm differ by", apart, ".0e")

# %% [markdown]
# Of two numbers layer norm leaves only which is the larger, as 1 and −1. RMSNorm leaves where the vector points.

# %%
of_two = {"x": tt.asarray([1.0, 2.0])}
of_two |= {type(norm).__name__: norm(of_two["x"]) for norm in (nn.LayerNorm(2), nn.RMSNorm(2))}
lesson.show("norms", visualize.vectors(of_two, title="A vector of two numbers, and what norms make of it"))

# %% [markdown]
# ## SwiGLU: a gate
#
# The feed-forward network of lesson [12] is relu(x W₁) W₂. A gated one has two maps, and one says how much of the other
# goes on: (silu(x W) ⊙ x V) W₂, where silu(x) = x · sigmoid(x) (Shazeer 2020). Three matrices for two, so the inner
# size is 2/3 of it, and the weights are as many. Why models get better so, the paper does not say: it owes that to
# "divine benevolence".

# %%
plain, gated = nn.FeedForward(96, 384, "relu", bias=False), nn.FeedForward(96, 256, "swiglu", bias=False)
counts = [sum(w.size for w in network.parameters()) for network in (plain, gated)]
lesson.number("weights: gated / plain", counts[1] / counts[0])
at = tt.linspace(-6.0, 6.0, 121)
gates = {"relu": F.relu(at), "gelu": F.gelu(at), "silu": F.silu(at)}
lesson.show("gates", visualize.curves({name: (at, y) for name, y in gates.items()}, title="Three ways to let through"))

# %% [markdown]
# ## Rotary positions: turn, don't add
#
# The sinusoids of lesson [14] are added to the words once. Rotary positions turn each query and key, at every layer:
# pair i of its elements by the angle pos / 10000^(2i / d) (Su et al. 2021,
# [`F.rotate`](../../nn/functional/relative_positions.py)). A query turned for position m and a key turned for n
# have the same product as if one of them alone were turned, for m − n: the score knows how far apart they are, not
# where they stand. The same query and key at all pairs of 64 positions:

# %%
place = tt.arange(64)
q, k = tt.random.randn(2, 1, 32, dtype=tt.float64)
angles = F.rotary_angles(place, 32, dtype=tt.float64)
turned = [F.rotate(tt.broadcast_to(each, (64, 32)), *angles) for each in (q, k)]
scores = turned[0] @ turned[1].T
apart = max(float(np.ptp(np.diagonal(scores.numpy(), offset))) for offset in range(-63, 64))
lesson.number("one distance: largest difference of a score", apart, ".0e")
lesson.number("all distances: difference of scores", scores.max() - scores.min(), ".1f")
lesson.show("rotary", visualize.matrix(scores, title="q · k, turned by their positions", numbers=False))

# %% [markdown]
# Along each diagonal is one number. For q = k, all ones, it is Σᵢ 2 cos(distance / 10000^(2i / d)): largest at distance
# 0, and smaller from there, in waves (the picture below).
#
# ## ALiBi: a slope
#
# Still simpler: no positions at all, and from each score something is taken for the distance, slope · distance, with
# another slope for each head (Press et al. 2022). Before softmax that is a factor e^(−slope · distance) on the weight,
# so steep heads look at what is near. Nothing is learned, and no length is the last one: the paper trains on short
# texts and reads longer ones.

# %%
slopes = F.alibi_slopes(8)
ones = F.rotate(tt.ones((64, 32)), *angles)
decay = {"rotary": (ones @ ones[0]) / 32} | {f"ALiBi, head {i}": tt.exp(-slopes[i] * place) for i in (1, 3, 5)}
lesson.number("distance at which ALiBi halves a weight, first head", np.log(2) / slopes[0].item(), ".1f")
lesson.number("distance at which ALiBi halves a weight, last head", np.log(2) / slopes[7].item(), ".0f")
lesson.show("decay", visualize.curves(decay, title="What is left over a distance", x_label="distance"))

# %% [markdown]
# ## A window
#
# Position i may also see the last w only, i − w < j ≤ i (Beltagy et al. 2020). A layer then needs n · w scores, not n²,
# and who writes needs the keys of the last w alone. What is further away still comes, through the layers: after N of
# them a position knows of 1 + N · (w − 1), as with stacked convolutions.

# %%
seen = {"causal": ~F.causal_mask(12), "window of 4": ~F.sliding_window_mask(12, 4)}
lesson.show("window", visualize.matrix(seen, numbers=False, title="Who sees whom"))

# %% [markdown]
# Counted: how many places are there whose word changes what the last position makes of the text?

# %%
same, other = np.ones((16, 16), int), np.ones((16, 16), int) + np.eye(16, dtype=int)  # row i: another word at place i
for layers in (1, 2, 3):
    model = models.LanguageModel(9, d_model=32, num_heads=4, num_layers=layers, positions="rotary", window=4).double()
    change = abs(model.hidden_states(other)[:, -1] - model.hidden_states(same)[:, -1]).max(axis=-1)
    lesson.number(f"window of 4, layers {layers}: words that the last position knows of", (change > 1e-9).sum(), ".0f")

# %% [markdown]
# ## Grouped queries: a smaller cache
#
# Who writes keeps the keys and values of all that was read, in every layer. For many long texts that is more than the
# weights. Queries are not kept, so their heads may stay as many, and share heads of keys and values: by twos, by
# fours, or all of them one (Ainslie et al. 2023; all, *multi-query attention*: Shazeer 2019): of h heads of queries
# and g of keys, head i is softmax(qᵢ kⱼᵀ / √d) vⱼ with j = ⌈i g / h⌉.

# %%
reads = {f"{g} of keys and values": tt.repeat(tt.eye(g), 8 // g, axis=0) for g in (8, 4, 2, 1)}
lesson.show("grouped", visualize.matrix(reads, numbers=False, title="Which heads 8 heads of queries read, a row each"))

# %% [markdown]
# It is attention whose heads of keys happen to be copies:

# %%
x = tt.random.randn(1, 10, 64)
shared, whole = nn.SelfAttention(64, 8, num_kv_heads=2, bias=False), nn.SelfAttention(64, 8, bias=False)
q, k, v = tt.split(shared.in_proj.weight.detach(), [64, 16, 16])  # heads of 8, one under the other
copied = [tt.repeat(w.reshape(2, 8, 64), 4, axis=0).reshape(64, 64) for w in (k, v)]
whole.load_state_dict({**shared.state_dict(), "in_proj.weight": tt.concat([q, *copied])})
lesson.number("shared keys, and copies of them: difference", abs(shared(x) - whole(x)).max(), ".0e")
lesson.number("numbers kept of a position, 8 heads of keys", whole.kv_size, ".0f")
lesson.number("numbers kept of a position, 2 heads of keys", shared.kv_size, ".0f")
for heads in (64, 8):  # 80 layers, heads of 128, 4,096 positions, 2 bytes a number: Llama 2 70B has 8 for 64
    lesson.number(f"Llama 2 70B, {heads} heads of keys: GB of cache", 80 * 2 * heads * 128 * 4096 * 2 / 1e9, ".1f")

# %% [markdown]
# ## QK-norm: scores that cannot run away
#
# Large models sometimes fail because W^Q and W^K grow, scores with them, and softmax puts all weight on one word, where
# it has no gradient (lesson [5](05_scaling.py)). With each head's q and k divided by their own lengths (Henry et al.
# 2020; here an RMSNorm each), q · k / √d is √d times a cosine: 4 at most for heads of 16, however large the weights.

# %%
x, weights = tt.random.randn(1, 12, 64), {}
for name, eps in {"plain": None, "QK-norm": 1e-6}.items():
    attention = nn.SelfAttention(64, 4, qk_norm=eps, bias=False)
    for size in (1, 10):
        q, k, _ = attention.heads(x * size)
        weights[f"{name}, times {size}"] = F.softmax(q @ k.mT / 4, dim=-1)[0, 0]
        lesson.number(f"{name}, q and k times {size}: largest score", abs(q @ k.mT / 4).max(), ".1f")
lesson.show("qk-norm", visualize.matrix(weights, numbers=False, title="What a head of 16 looks at"))

# %% [markdown]
# ## Tied embeddings: one matrix, learned from both ends
#
# The score of a word is the dot product of the last vector and that word's own embedding, logits = x Eᵀ (Press and Wolf
# 2017; the Transformer does so already). In GPT-2 it saves 39 of 163 million weights. And a word need not be read to be
# learned: of a thousand, which get a gradient from one text of four?

# %%
learned = {}
for name, tied in {"tied": True, "each its own": False}.items():
    model = models.LanguageModel(1000, d_model=64, num_heads=4, num_layers=2, tie_weights=tied)
    F.cross_entropy(model([[1, 17, 5]])[0], tt.asarray([17, 5, 40])).backward()
    learned[name] = abs(model.embedding.weight.grad).max(axis=-1) > 0
    lesson.number(f"{name}: words whose embedding has a gradient", learned[name].sum(), ".0f")
    lesson.number(f"{name}: weights", sum(w.size for w in model.parameters()), ",.0f")
first = tt.stack([*learned.values()])[:, :24]
lesson.show("tied", visualize.matrix(first, rows=learned, title="Of the first 24 words, which have a gradient"))

# %% [markdown]
# ## All together
#
# Llama (Touvron et al. 2023) is `norm="rms"`, `positions="rotary"`, `activation="swiglu"` and no biases; normalisation
# comes before each sub-layer (lesson [13]), as in GPT-2. Its larger models share keys, and Mistral has a window as
# well.

# %%
llama = models.LanguageModel(1000, d_model=64, num_heads=4, num_layers=2, num_kv_heads=2, **models.language_model.LLAMA)
with tt.record() as graph:
    llama([[1, 17, 5]])
lesson.show("llama", graph)

# %% [markdown]
# ## What it means
#
# What has stayed is the whole of the other lessons: queries, keys, values, √dₖ, heads, masks, residual connections.
# What went is what proved not to be needed: the mean in layer norm, biases, vectors for positions, most heads of keys.
#
# The parts: [self_attention.py](../../nn/self_attention.py), [feed_forward.py](../../nn/feed_forward.py),
# [relative_positions.py](../../nn/functional/relative_positions.py), [masks.py](../../nn/functional/masks.py). Models
# to train and weights of others to read: [Language models](../../docs/language-models.md).
#
# ## Try
#
# Give `F.rotary_angles` another base, and draw `decay` again. Then the exercises:
# `python examples/lessons/20_since_2017.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
#
# [12]: 12_feed_forward.py
# [13]: 13_residual_and_norm.py
# [14]: 14_positions.py
