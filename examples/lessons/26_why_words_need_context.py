# %% [markdown]
# # 26. Why words need context
#
# An embedding is a table of vectors with one row for "mouse". The mouse that eats cheese and the mouse beside a screen
# get the same vector. How far does a reader get with it, and what has to come from the words around?

# %%
from itertools import product

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import visualize

lesson = Lesson("26_why_words_need_context")

# %% [markdown]
# ## Which mouse?
#
# Three nouns mean an animal or a thing. Each has two hints for the animal, then two for the thing. A sentence is a noun
# and a hint for each of the three, such as "mouse cave screen lake". Only its own hint counts: this mouse is a thing.

# %%
HINTS = {"bat": "cave wings ball glove", "mouse": "cheese cat screen desk", "crane": "lake nest steel roof"}
words = [*HINTS, *" ".join(HINTS.values()).split()]
sentences = [[noun, *hints] for noun in HINTS for hints in product(*map(str.split, HINTS.values()))]
ids = tt.asarray([[words.index(word) for word in sentence] for sentence in sentences])
is_animal = tt.asarray([any(word in HINTS[noun].split()[:2] for word in hints) for noun, *hints in sentences])

# %% [markdown]
# ## Three readers
#
# Each reads a sentence as one vector, a weighted mean of its four. The first gives all weight to the noun itself, the
# second a quarter to each word. With the third the noun chooses: its dot product with a word
# ([lesson 1](01_dot_product.py)) says how well the two fit, and softmax makes positive weights with sum 1.
#
# One more dot product, with a learned vector, answers: above 0 is an animal. All vectors are learned from half of the
# sentences; then the readers answer all.


# %%
def chosen(vectors):
    return nn.functional.softmax(vectors @ vectors[:, 0, :, None], dim=1)


readers = {"own vector": lambda _: tt.eye(4)[:, :1], "mean": lambda _: tt.ones((4, 1)) / 4, "chosen weights": chosen}
tt.manual_seed(0)
half = tt.random.permutation(len(sentences))[::2]
for name, weights in readers.items():
    embedding, answer = nn.Embedding(len(words), 8), nn.Linear(8, 1, bias=False)
    nn.init.normal_(embedding.weight, std=0.3)
    optimiser = nn.optim.Adam([*embedding.parameters(), *answer.parameters()], lr=0.05)
    for _ in range(300):
        read = (weights(embedding(ids)) * embedding(ids)).sum(axis=1)
        logits = answer(read)[:, 0]
        optimiser.zero_grad()
        nn.BCEWithLogitsLoss()(logits[half], is_animal[half].float()).backward()
        optimiser.step()
    lesson.number(f"{name}: right", ((logits > 0) == is_animal).float().mean(), ".1%")

# %% [markdown]
# Alone, a mouse always gets the same answer, and half of all mice are animals: a coin does as well. In the mean each
# hint has a vote. Two of three are about other nouns, and outvote the right one in a quarter of the sentences.
#
# Chosen weights find the hint that counts. Here three nouns ask the same words:

# %%
hints = ["cave", "cheese", "steel"]
asked = chosen(embedding(ids[[sentences.index([noun, *hints]) for noun in HINTS]]))[:, :, 0]
lesson.number("weight of cheese for the mouse", asked[1, 2])
lesson.show("weights", visualize.matrix(asked, rows=list(HINTS), columns=["itself", *hints], title="Who asks whom"))

# %% [markdown]
# So one mouse becomes two. To the right are animals, above what is like "mouse"; the sentences differ in one hint:

# %%
axes = nn.functional.normalize(tt.stack([answer.weight[0], embedding.weight[1]]), dim=1)
before, after = embedding.weight @ axes.mT, read @ axes.mT
mice = {f"mouse+{hint}": after[sentences.index(["mouse", "cave", hint, "steel"])] for hint in ("cheese", "screen")}
look = {"arrows": False, "ways": [("mouse", name) for name in mice], "x_label": "thing | animal", "y_label": "mouse"}
lesson.show("plane", visualize.vectors(dict(zip(words, before)) | mice, **look, title="One mouse, two meanings"))

# %% [markdown]
# ## What it means
#
# A mean is the same for every word of a sentence; with chosen weights each takes what it needs. That is self-attention,
# `attention` in [nn/functional/attention.py](../../nn/functional/attention.py). Here one vector asks, is asked, and is
# averaged. [Lesson 3](03_one_query_by_hand.py) makes three of it, query, key and value, number by number.
#
# ## Try
#
# Can a network behind the mean, `nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))`, sort the votes out? And
# with two numbers a word? Then the exercises:
# `python examples/lessons/26_why_words_need_context.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
