# %% [markdown]
# # 29. Long texts
#
# The Transformer of 2017 read sentences; models of today read books. Three things are in the way. A position that
# was not trained has no vector, or one that no layer has seen. Each word looks at all before it, so twice the text
# takes four times as many scores. And whoever writes keeps the keys and values of all that was read. What did papers
# change for each, and what does it cost?

# %%
import numpy as np

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("29_long_texts")

# %% [markdown]
# ## Rotary positions: turn, don't add
#
# The sinusoids of lesson [14] are added to the words once. Rotary positions turn each query and key, at every layer:
# pair i of its elements by the angle pos / 10000^(2i / d) (Su et al. 2021,
# [`F.rotate`](../../nn/functional/relative_positions.py)). A query turned for position m and a key turned for n
# have the same product as if the query alone were turned, for m − n: the score depends on how far apart they are, not
# on where they are. The same query and key at all pairs of 64 positions:

# %%
tt.manual_seed(0)
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
decay = {"rotary": (ones @ ones[0]) / 32} | {f"ALiBi, head {i}": tt.exp(-slopes[i - 1] * place) for i in (2, 4, 6)}
lesson.number("distance at which ALiBi halves a weight, first head", np.log(2) / slopes[0].item(), ".1f")
lesson.number("distance at which ALiBi halves a weight, last head", np.log(2) / slopes[7].item(), ".0f")
lesson.show("decay", visualize.curves(decay, title="What is left over a distance", x_label="distance"))

# %% [markdown]
# ## A window
#
# Position i may see only the last w, i − w < j ≤ i (Beltagy et al. 2020). A head then needs fewer than n · w scores
# instead of n (n + 1) / 2, and a model that writes needs the keys of the last w alone. What is further away still
# comes, through the layers: after N of them a position knows of 1 + N · (w − 1), as with stacked convolutions.

# %%
seen = {"causal": ~F.causal_mask(12), "window of 4": ~F.sliding_window_mask(12, 4)}
lesson.show("window", visualize.matrix(seen, numbers=False, title="Who sees whom"))
for name, hidden in {"all before": F.causal_mask(4096), "window of 512": F.sliding_window_mask(4096, 512)}.items():
    lesson.number(f"4,096 words, {name}: scores of a head", (~hidden).sum(), ",.0f")

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
# and g of keys, head i, counted from 1, is softmax(qᵢ kⱼᵀ / √d) vⱼ with j = ⌈i g / h⌉
# (counted from 0: j = i // (h // g)).

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
# ## What it means
#
# Positions moved from the words into the scores, where a distance is all that counts. A window makes the number of
# scores grow with the length and not with its square, and layers carry further what it hides. Shared keys shrink what
# is kept. None of it changes what attention is: softmax(q kᵀ / √d) v, with q and k turned, another mask, or fewer heads
# of k and v.
#
# The parts: [relative_positions.py](../../nn/functional/relative_positions.py),
# [masks.py](../../nn/functional/masks.py), [self_attention.py](../../nn/self_attention.py). Mistral has a window, and
# Llama 2 70B shares keys; both have rotary positions. BLOOM has ALiBi.
#
# ## Try
#
# Give `F.rotary_angles` another base, and draw `decay` again. Then the exercises:
# `python examples/lessons/29_long_texts.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
#
# [14]: 14_positions.py
