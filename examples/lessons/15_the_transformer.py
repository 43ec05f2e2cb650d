# %% [markdown]
# # 15. The whole Transformer
#
# Figure 1 of Vaswani et al. 2017 has two towers with a dozen kinds of boxes. By now each of them is known. Do they make
# the model, and nothing else? Then it must be possible to compute what the model computes from the boxes alone, and to
# count its parameters on paper.

# %%
import math

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer
from tinytensor.models.scripts.attention_graphs import multihead
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F

lesson = Lesson("15_the_transformer")

# %% [markdown]
# ## Drawn from its computation
#
# A small model, so that there is something to see: two layers in each tower, and one embedding for both sides and for
# the end (section 3.4), which is why three boxes name `target_embedding`. What it computes for one sentence is recorded
# and drawn; of layers that are alike, one:

# %%
tt.manual_seed(0)
sizes = {"d_model": 16, "num_heads": 2, "num_layers": 2, "d_ff": 64, "dropout": 0.0}
model = Transformer(12, tie_weights=True, share_embeddings=True, **sizes)
source, target = tt.asarray([[5, 6, 7, 8, 2]]), tt.asarray([[1, 8, 7, 6]])
with tt.record() as graph:
    probabilities = F.softmax(model(source, target), dim=-1)
graph.title = "The Transformer (Vaswani et al. 2017, Figure 1)"
lesson.number("probabilities of the next word add up to", probabilities[0, -1].sum())
lesson.show("transformer", graph)

# %% [markdown]
# ## Box by box
#
# | box of Figure 1 | what it does | lesson | its lines |
# |---|---|---|---|
# | Input Embedding, Output Embedding | an id becomes a vector, times √d_model | [2] | [models/transformer.py][model] |
# | Positional Encoding | says where a word stands | [14] | [nn/positional.py][positions] |
# | Multi-Head Attention | a word reads the others | [1], [3], [4], [5], [7], [8], [17] | [attention.py][heads] |
# | what is in it | softmax(Q Kᵀ / √dₖ) V | [3], [4], [5] | [nn/functional/attention.py][attention] |
# | Masked Multi-Head Attention | the same, without a look ahead | [6], [18] | [nn/functional/masks.py][masks] |
# | the arrow between the towers | decoder asks, encoder answers | [0] draws it | [nn/transformer.py][towers] |
# | Add & Norm | keeps what was there; mean 0, variance 1 | [13] | [nn/layers.py][norm] |
# | Feed Forward | each position for itself | [12] | [nn/transformer.py][towers] |
# | Linear, Softmax | a vector becomes probabilities of words | [18] | [activations.py][softmax] |
#
# Why it is built so, and not as a chain of words: lessons [9], [10] and [11]. How it is trained: [16]. What trains it:
# [19].
#
# [0]: 00_first_transformer.py
# [1]: 01_dot_product.py
# [2]: 02_words_as_vectors.py
# [3]: 03_one_query_by_hand.py
# [4]: 04_tokens_to_matrices.py
# [5]: 05_scaling.py
# [6]: 06_masks.py
# [7]: 07_many_heads.py
# [8]: 08_context.py
# [9]: 09_far_away.py
# [10]: 10_in_parallel.py
# [11]: 11_before_the_transformer.py
# [12]: 12_feed_forward.py
# [13]: 13_residual_and_norm.py
# [14]: 14_positions.py
# [16]: 16_training.py
# [17]: 17_gradient_of_attention.py
# [18]: 18_bert_and_gpt.py
# [19]: 19_a_framework.py
# [model]: ../../models/transformer.py
# [positions]: ../../nn/positional.py
# [heads]: ../../nn/attention.py
# [attention]: ../../nn/functional/attention.py
# [masks]: ../../nn/functional/masks.py
# [towers]: ../../nn/transformer.py
# [norm]: ../../nn/layers.py
# [softmax]: ../../nn/functional/activations.py
#
# ## From the boxes alone
#
# The same model once more, each box a line, and nothing else of the model runs:

# %%
core = model.transformer


def embed(ids):
    return model.positions(model.source_embedding(ids) * math.sqrt(16))


def feed_forward(layer, x):
    return layer.linear2(F.relu(layer.linear1(x)))


x = embed(source)
for layer in core.encoder.layers:
    x = layer.norm1(x + layer.self_attn(x, x, x)[0])
    x = layer.norm2(x + feed_forward(layer, x))
memory = core.encoder.norm(x)

y = embed(target)
for layer in core.decoder.layers:
    y = layer.norm1(y + layer.self_attn(y, y, y, attn_mask=F.causal_mask(4))[0])
    y = layer.norm2(y + layer.multihead_attn(y, memory, memory)[0])
    y = layer.norm3(y + feed_forward(layer, y))
logits = core.decoder.norm(y) @ model.source_embedding.weight.mT

difference = abs(F.softmax(logits, dim=-1) - probabilities).max()
lesson.number("largest difference between the boxes and the model", difference, ".0e")

# %% [markdown]
# ## How many parameters?
#
# The base model of the paper has d_model = 512, d_ff = 2048, 6 + 6 layers and about 37,000 subwords that both languages
# share; table 3 gives it 65 million parameters. All layers of a tower are alike, so one of each is enough to count:

# %%
d_model, d_ff, layers, subwords = 512, 2048, 6, 37_000


def count(module):
    return sum(parameter.size for parameter in module.parameters())


pieces = {
    "attention": nn.MultiheadAttention(d_model, 8),
    "encoder layer": nn.TransformerEncoderLayer(d_model, 8, d_ff),
    "decoder layer": nn.TransformerDecoderLayer(d_model, 8, d_ff),
    "norm": nn.LayerNorm(d_model),
}
counts = {name: count(piece) for name, piece in pieces.items()}
for name, number in counts.items():
    print(f"{name:14} {number:>10,}")
total = layers * (counts["encoder layer"] + counts["decoder layer"]) + 2 * counts["norm"]
lesson.number("base, without embeddings", total, ",.0f")
lesson.number("base, with one embedding of 37,000 subwords", total + subwords * d_model, ",.0f")

# %% [markdown]
# On paper: attention has four matrices of d² with biases of d, and does not depend on the number of heads
# (512 = 8 · 64). Feed forward has 2 d d_ff weights and d_ff + d biases, which is twice as much. A norm has 2 d. An
# encoder layer has one attention, a decoder layer two:

# %%
attention, forward, norm = 4 * d_model**2 + 4 * d_model, 2 * d_model * d_ff + d_ff + d_model, 2 * d_model
by_hand = layers * ((attention + forward + 2 * norm) + (2 * attention + forward + 3 * norm)) + 2 * norm
lesson.number("difference from the count on paper", total - by_hand, ".0f")
lesson.number("share of the feed-forward networks", layers * 2 * forward / total, ".0%")

# %% [markdown]
# 63.1 million against the paper's 65: the rest depends on how many subwords there were exactly, each of which has 512
# numbers. The last 2 · 1,024 are in no box of Figure 1: PyTorch's towers, and ours with them, end in one more norm. And
# though attention is all you need, more than half of the weights in the towers are feed forward.
#
# ## One step of training
#
# Forward, backward, update, as a film that the arrow keys step through. The next film opens a box of attention:

# %%
optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
answer = tt.asarray([8, 7, 6, 2])
with tt.record() as graph:
    loss = F.cross_entropy(model(source, target)[0], answer)
loss.backward()
graph.title = "One step of training a Transformer"
lesson.show("film.html", graph)

# %%
lesson.show("attention.html", multihead())

# %%
optimizer.step()
after = F.cross_entropy(model(source, target)[0], answer)
lesson.number("loss", loss)
lesson.number("of it after the step", after / loss, ".0%")

# %% [markdown]
# ## What it means
#
# There is nothing in the model but its boxes: embeddings, positions, attention three times, feed forward, sums, norms
# and a product at the end. [models/transformer.py](../../models/transformer.py) is a page and a half of them;
# [nn/transformer.py](../../nn/transformer.py) is the towers.
#
# `python examples/render_attention_graph.py transformer --out transformer.svg` draws 6 + 6 layers.
#
# ## Try
#
# Count the big model of table 3: d_model = 1024, d_ff = 4096, 16 heads. The paper says 213 million. Then the exercises:
# `python examples/lessons/15_the_transformer.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
