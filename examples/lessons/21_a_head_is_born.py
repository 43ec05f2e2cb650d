# %% [markdown]
# # 21. A head is born
#
# A model that reads "Mr Dursley ... Mr Durs" goes on with "ley", although it never met that name before. The part that
# does so is known: an *induction head*, which looks for the last place where its own word stood, and says what came
# next there (Elhage et al. 2021). Nobody builds it in. Large models learn it all at once, and the loss makes a step
# when they do (Olsson et al. 2022). Here a small one does, in seconds, and we watch: when does it come, what must be
# there before it, and what happens if that is not?

# %%
import numpy as np

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models.inside import heads_left_out
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("21_a_head_is_born")

# %% [markdown]
# ## Texts that repeat themselves
#
# 32 words in any order, 40 to a text. After 10 to 20 of them the text begins again, and each text after another
# stretch: so no fixed distance leads to the answer. Before that nothing can be known, and a guess costs ln 32 = 3.47.
# Who remembers which words the text has had guesses among those.

# %%
tt.speed_up()
WORDS, LENGTH = 32, 40


def texts(count, seed):
    random = np.random.default_rng(seed)
    ids, stretch = random.integers(0, WORDS, (count, LENGTH)), random.integers(10, 21, (count, 1))
    return np.take_along_axis(ids, np.arange(LENGTH) % stretch, axis=1), stretch


ids, stretch = texts(64, seed=1)
lesson.number("a guess among all words costs", np.log(WORDS))
lesson.number("a guess among the words of the text", np.mean([np.log(len(set(text))) for text in ids]))
repeats = np.arange(1, LENGTH) > stretch  # words that the text has told already, and the one before them as well

# %% [markdown]
# ## What to measure
#
# The loss on the repeated words, and what each head looks at: how much of its weight goes to the word before
# (*previous*), and how much to the word behind the earlier copy of its own (*induction*). `nn.cache` gives the weights
# by their names.

# %%
query, key = np.arange(LENGTH)[:, None], np.arange(LENGTH)
goals = {"previous": (key == query - 1) & (stretch[:, None] > 0)}
goals["induction"] = (key == query - stretch[:, None] + 1) & (key > 0)


def loss_on_repeats(model):
    losses = F.cross_entropy(model(ids)[:, :-1].mT, tt.asarray(ids[:, 1:]), reduction="none")
    return float(losses[repeats].mean())


def measure(model):
    with tt.no_grad(), nn.cache(model, "*.weights") as values:
        found = {"loss": loss_on_repeats(model)}
    for name, goal in goals.items():
        first_or_last = [*values.values()][0 if name == "previous" else -1]
        found[name] = max((first_or_last.numpy() * goal[:, None]).sum((0, 2, 3))) / goal.sum()
    return found


# %% [markdown]
# ## The birth
#
# Two layers of attention with two heads each, and next to no feed-forward networks.

# %%


def grow(layers, changes=None, steps=260):
    tt.manual_seed(0)
    model = models.LanguageModel(
        WORDS, d_model=64, num_heads=2, num_layers=layers, d_ff=16, positions="rotary", tie_weights=False
    )
    optimiser = nn.optim.Adam(model.parameters(), lr=3e-3)
    seen = []
    with nn.intervene(model, changes or {}):
        for step in range(steps + 1):
            seen += [] if step % 10 else [measure(model)]
            batch, _ = texts(64, seed=100 + step)
            loss = F.cross_entropy(model(batch)[:, :-1].mT, tt.asarray(batch[:, 1:]))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model, {name: np.array([each[name] for each in seen]) for name in seen[0]}


model, birth = grow(layers=2)
at = np.arange(len(birth["loss"])) * 10
lines = {"loss on the repeat / ln 32": birth["loss"] / np.log(WORDS)}
lines |= {"previous, layer 0": birth["previous"], "induction, layer 1": birth["induction"]}
lesson.show("birth", visualize.curves({n: (at, y) for n, y in lines.items()}, title="A head is born", x_label="step"))

# %% [markdown]
# For a hundred steps the model only finds out which words a text has. Then, within some fifty, everything happens:
# layer 0 learns to look one word back, layer 1 to look behind the earlier copy, and the loss falls. Not before the
# scores rise, and not after: half of each is done at the same time.

# %%


def half_way(y):
    return 10 * float(np.argmax(abs(y - y[0]) >= abs(y[-1] - y[0]) / 2))


halves = {name: half_way(y) for name, y in birth.items()}
for name in birth:
    lesson.number(f"{name}, step 100", birth[name][10], ".2f")
    lesson.number(f"{name}, step {at[-1]}", birth[name][-1], ".2f")
    lesson.number(f"{name}: half of the way at step", halves[name], ".0f")
lesson.number("steps between them, at most", max(halves.values()) - min(halves.values()), ".0f")

# %% [markdown]
# Their attention, in one of the texts: a stripe next to the diagonal in layer 0, a stripe that is a stretch away in
# layer 1.

# %%
with tt.no_grad(), nn.cache(model, "*.weights") as values:
    model(ids[:1])
lesson.show("heads", visualize.attention_grid(list(values.values()), title="Two layers of two heads"))

# %% [markdown]
# ## One word back comes first
#
# Why two layers? The head of layer 1 stands at a word and looks for a place that *follows* the same word. What a place
# follows is not in its embedding. Layer 0 has to write it there: that is what looking one word back is for. Three
# experiments. With one layer there is nobody to write it. With two, `nn.intervene` takes the choice from layer 0, from
# the first step of training on: it looks at all words alike, and learns what it can from that. And last, it is given
# what it would have to learn.

# %%
alike, back = np.tri(LENGTH) / np.arange(1, LENGTH + 1)[:, None], np.eye(LENGTH, k=-1)
ways = {"two layers": birth, "one layer": grow(layers=1)[1]}
ways["layer 0 looks at all alike"] = grow(2, {"layers.0.self_attn.weights": alike})[1]
ways["layer 0 is told to look back"] = grow(2, {"layers.0.self_attn.weights": back})[1]
for name, seen in ways.items():
    lesson.number(f"{name}: loss on the repeat", seen["loss"][-1], ".2f")
    lesson.number(f"{name}: induction", seen["induction"][-1], ".2f")
told = half_way(ways["layer 0 is told to look back"]["induction"])
lesson.number("layer 0 is told to look back: half of the way at step", told, ".0f")
shown = {name: (at, seen["induction"]) for name, seen in ways.items()}
lesson.show("ways", visualize.curves(shown, title="Induction in the last layer", x_label="step"))

# %% [markdown]
# With one layer it never comes, nor where layer 0 cannot look back; where that is a gift, it comes in half the time. So
# much of the wait was for the other head: only together do the two lower the loss, and neither has much of a gradient
# before the other is there.
#
# ## Is it these heads?
#
# A score says where a head looks, not what for. So leave each out, and see what the loss on the repeat does.

# %%
left_out = heads_left_out(model, lambda: loss_on_repeats(model))
lesson.number("a head of layer 0 left out: the loss rises by", left_out[0].max(), ".1f")
lesson.number("a head of layer 1 left out: the loss rises by", left_out[1].max(), ".1f")
lesson.show("left-out", visualize.layer_map(left_out, ends=("", "worse without it"), title="Loss without each head"))

# %% [markdown]
# ## What it means
#
# A circuit of two parts, in two layers, each of no use alone: that is why it comes late and at once. The same happens
# in models of every size, and the step in the loss is where they begin to learn from their context.
#
# How it is done: [cache.py](../../nn/inside/cache.py), [intervene.py](../../nn/inside/intervene.py), and
# [inside.py](../../models/inside.py) on top of them; [Looking inside](../../docs/looking-inside.md) has all the names.
#
# ## Try
#
# Give `positions="learned"` to the model: the loss falls, and no head is born. What did it find instead? Then the
# exercises: `python examples/lessons/21_a_head_is_born.py --exercises > mine.py`, fill the holes, then
# `--check mine.py`.
