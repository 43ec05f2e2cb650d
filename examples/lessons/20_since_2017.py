# %% [markdown]
# # 20. Since 2017
#
# A model of today has the layers of the Transformer, and differs from it in a handful of places. Each is a paper, most
# are a line or two of code, and nearly all follow from one question: what of the layer was needed? Four of them change
# a layer, or what is around it. Four more, in lesson [29], are for long texts. All are arguments of
# [`models.LanguageModel`](../../models/language_model.py). What does each do?

# %%
import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("20_since_2017")

# %% [markdown]
# ## RMSNorm: only the length
#
# Layer norm takes the mean away and divides by the spread (lesson [13]). RMSNorm leaves the mean, divides by the length
# and multiplies by √d: x / √(mean(x²) + ε) ⊙ w (Zhang and Sennrich 2019). Before w, a vector keeps its direction, and
# for a vector without a mean both norms give the same, up to ε. That training goes as well without, and faster, is the
# paper's finding: it was the length that mattered.

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
# size is 2/3 of the plain one's, and there are as many weights. The paper does not say why models get better; it
# credits "divine benevolence".

# %%
plain, gated = nn.FeedForward(96, 384, "relu", bias=False), nn.FeedForward(96, 256, "swiglu", bias=False)
counts = [sum(w.size for w in network.parameters()) for network in (plain, gated)]
lesson.number("weights: gated / plain", counts[1] / counts[0])
at = tt.linspace(-6.0, 6.0, 121)
gates = {"relu": F.relu(at), "gelu": F.gelu(at), "silu": F.silu(at)}
lesson.show("gates", visualize.curves({name: (at, y) for name, y in gates.items()}, title="Three ways to let through"))

# %% [markdown]
# ## QK-norm: scores that do not grow with W^Q and W^K
#
# Large models sometimes fail because W^Q and W^K grow, scores with them, and softmax puts all weight on one word, where
# it has no gradient (lesson [5](05_scaling.py)). With each head's q and k divided by their own lengths (Henry et al.
# 2020; here an RMSNorm each), q · k / √d is √d times a cosine: 4 at most for heads of 16, however large W^Q and W^K, as
# long as the norms' own weights are 1.

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
# comes before each sub-layer (lesson [13]), as in GPT-2. The larger models of Llama 2 share keys, and Mistral has
# a window as well.

# %%
llama = models.LanguageModel(1000, d_model=64, num_heads=4, num_layers=2, num_kv_heads=2, **models.language_model.LLAMA)
with tt.record() as graph:
    llama([[1, 17, 5]])
lesson.show("llama", graph)

# %% [markdown]
# ## What it means
#
# What has stayed is the whole of the other lessons: queries, keys, values, √dₖ, heads, masks, residual connections.
# Gone is all that proved not to be needed: the mean in layer norm, biases, the length of a query.
#
# The parts: [layers.py](../../nn/layers.py), [feed_forward.py](../../nn/feed_forward.py),
# [self_attention.py](../../nn/self_attention.py). Models to train and weights of others to read:
# [Language models](../../docs/language-models.md).
#
# ## Try
#
# Give the gated network the inner size of the plain one. How many more weights does it have? Then the exercises:
# `python examples/lessons/20_since_2017.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
#
# [12]: 12_feed_forward.py
# [13]: 13_residual_and_norm.py
# [29]: 29_long_texts.py
