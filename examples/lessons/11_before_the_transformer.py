# %% [markdown]
# # 11. Before the Transformer
#
# Attention is three years older than the Transformer. Bahdanau et al. (2014) and Luong et al. (2015) let the decoder
# of a recurrent translator look back at the source, with other scores. What of them is in equation 1, why were
# products chosen and not Bahdanau's sum, and what did looking back cost before 2017?

# %%
import timeit

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer
from tinytensor.models.recurrent import AdditiveAttention, GeneralAttention
from tinytensor.models.scripts.attention_graphs import bahdanau, luong
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F

lesson = Lesson("11_before_the_transformer")

# %% [markdown]
# ## Four scores
#
# How well does a state h of the decoder fit the state s of each word of the source? Luong et al. compare three scores,
# and Bahdanau et al. have their own:
#
# | score | formula | by |
# |---|---|---|
# | dot | hᵀ s | Luong |
# | general | hᵀ Wₐ s | Luong |
# | concat | vᵀ tanh(Wₐ [h; s]) | Luong |
# | additive | vᵀ tanh(W h + U s) | Bahdanau |
#
# Whichever it is, softmax turns scores into weights, and the context is the weighted sum of the states. In a
# Transformer's words, h is the query and s is both key and value. Here are 128 of each, of 64 numbers, in 4 sentences:

# %%
tt.speed_up()
tt.manual_seed(0)
d_model = 64
h, s = tt.random.randn(2, 4, 128, d_model, dtype=tt.float64)
W, U, W_Q, W_K = tt.random.randn(4, d_model, d_model, dtype=tt.float64) / 8
v = tt.random.randn(d_model, dtype=tt.float64) / 8


def dot(h, s):
    return h @ s.mT


def additive(h, s):
    return tt.tanh((h @ W.mT)[:, :, None] + (s @ U.mT)[:, None]) @ v


def difference(a, b):
    return abs(a - b).max()


# %% [markdown]
# **Dot** is equation 1 of the Transformer without 1/√dₖ, as the paper says:

# %%
context = F.softmax(dot(h, s), dim=-1) @ s
attended = F.scaled_dot_product_attention(h, s, s, scale=1.0)
lesson.number("dot and scaled dot-product attention with scale 1: difference", difference(context, attended), ".0e")

# %% [markdown]
# **General** is closer still. A head compares h W^Q with s W^K, and (h W^Q)(s W^K)ᵀ = h (W^Q W^Kᵀ) sᵀ: the two
# projections are Luong's Wₐ in two factors, which makes it smaller where dₖ < d_model.

# %%
general = GeneralAttention(d_model).double()
with tt.no_grad():
    general.memory.weight[:] = W_Q @ W_K.mT
    scores = general.scores(h, general.keys(s))
lesson.number("general and projected queries and keys: difference", difference(scores, dot(h @ W_Q, s @ W_K)), ".0e")

# %% [markdown]
# **Concat** is **additive**, written with one matrix: Wₐ = [W U]. As a sum of two products it is less work, for U s is
# computed once for all queries. The library has one class for both:

# %%
layer = AdditiveAttention(d_model).double()
with tt.no_grad():
    layer.query.weight[:], layer.memory.weight[:], layer.energy.weight[:] = W, U, v[None]
    pair = tt.concat([h[0, 5], s[0, 7]])
    concat = tt.tanh(tt.concat([W, U], axis=1) @ pair) @ v
    scores = layer.scores(h, layer.keys(s))
lesson.number("additive, here and in the library: difference", difference(additive(h, s), scores), ".0e")
lesson.number("additive and concat: difference", difference(additive(h, s)[0, 5, 7], concat), ".0e")

# %% [markdown]
# ## Why products
#
# "Dot-product attention is much faster and more space-efficient in practice, since it can be implemented using highly
# optimized matrix multiplication code" (section 3.2.1). An additive score has a tanh for each number of each pair of
# words, and all of them have to be somewhere:

# %%
h, s, W, U, v = (x.float() for x in (h, s, W, U, v))
time_of_dot = min(timeit.repeat(lambda: dot(h, s), number=1, repeat=20))
time_of_additive = min(timeit.repeat(lambda: additive(h, s), number=1, repeat=20))
lesson.number("time of additive / of dot", time_of_additive / time_of_dot, ".0f")
queries = tt.tensor(h, requires_grad=True)
largest = []
for score in (dot, additive):
    with tt.record() as graph:
        score(queries, s)
    largest.append(max(value.nbytes for value in graph.values if value.kind == "result"))
lesson.number("memory of additive / of dot: the largest array", largest[1] / largest[0], ".0f")

# %% [markdown]
# So the paper is right by a wide margin. What speaks for additive scores is [lesson 5](05_scaling.py): products grow
# with dₖ, and what has gone through a tanh does not, so for large dₖ they did better. The division by √dₖ settled that.
#
# ## What looking back cost
#
# Bahdanau's decoder looks, then steps: its query is the state before. Here are two words of it, from the program that
# computes them, attention closed to a box; whatever is in "step 2" waits for "step 1":

# %%
closed = {"collapse": ("GRU", "GRUCell", "AdditiveAttention", "GeneralAttention")}
lesson.show("bahdanau", bahdanau(steps=2), **closed)

# %% [markdown]
# Luong's steps, then looks, and tells the next step what it found:

# %%
for graph in (bahdanau, luong):
    more = (graph(steps=4).depth - graph(steps=2).depth) / 2
    lesson.number(f"{graph.__name__}: operations by which each word is later", more, ".0f")
lesson.show("luong", luong(steps=2), **closed)

# %% [markdown]
# In training, the words of a Transformer wait for none of those before them. Within a layer no query depends on what
# was looked up for another word, so all of them are one product ([lesson 10](10_in_parallel.py)). Layers do wait: from
# the third on a query depends on what the first has looked up for other words. The path grows with the layers, and
# with words not at all:


# %%
def depth(words, layers):
    model = Transformer(20, d_model=32, num_heads=4, num_layers=layers, dropout=0.0)
    with tt.record() as graph:
        model([[3, 4, 5, 6]], [[1] * words])
    return graph.depth


lesson.number("transformer: operations by which each word is later", (depth(4, 1) - depth(2, 1)) / 2, ".0f")
lesson.number("transformer: operations by which a layer of each tower is later", depth(2, 2) - depth(2, 1), ".0f")

# %% [markdown]
# ## Whose queries, keys and values?
#
# One article says that "the query, keys and values ... are different projections of the same input sentence". In
# self-attention they are. A translator has the older kind as well: queries of one sentence, keys and values of the
# other, as in Bahdanau's. Change the source, and see what changes in the first layer of each kind:

# %%
model = Transformer(20, d_model=32, num_heads=4, num_layers=1, dropout=0.0).eval()
target = [[1, 7, 8, 9, 10]]
calls = []
for source in ([[3, 4, 5, 6]], [[6, 5, 4, 3]]):
    with tt.no_grad(), nn.record_attention() as attention:
        model(source, target)
    calls.append({call.kind: call for call in attention.layers})
for kind in ("decoder", "cross"):
    for name in ("query", "key", "value"):
        before, after = (getattr(call[kind], name) for call in calls)
        lesson.number(f"another source: {name} of kind {kind!r} differs by", difference(before, after), ".2g")

# %% [markdown]
# Another article calls the value the "weight on impact". It has no part in the weights: values are what is weighted.
# Twice the values, and the weights are the same, the context twice as large:

# %%
call = calls[0]["cross"]
context = [F.scaled_dot_product_attention(*map(tt.asarray, (call.query, call.key, n * call.value))) for n in (1, 2)]
weights = F.softmax(tt.asarray(call.query) @ tt.asarray(call.key).mT * call.scale, dim=-1)
lesson.number("weights, from query and key alone: difference", difference(weights, call.weights), ".0e")
lesson.number("context with twice the values / context", abs(context[1]).max() / abs(context[0]).max())

# %% [markdown]
# ## What it means
#
# Equation 1 is Luong's "general" in two factors, scaled. New in the Transformer is not the score, it is that nothing
# else is left: no state is handed on, so that a sentence can look at itself, all words at once.
#
# The older decoders are in [models/recurrent.py](../../models/recurrent.py), each with its equations; which translates
# better, and at what speed, [compare_translators.py](../compare_translators.py) measures for all of them, in minutes.
#
# ## Try
#
# How do the times compare for `d_model = 8`? For 16 words instead of 128? Then the exercises:
# `python examples/lessons/11_before_the_transformer.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
