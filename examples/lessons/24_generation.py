# %% [markdown]
# # 24. Generation
#
# A language model does not write. It gives a probability to each word that could come next, and something else has to
# choose. Take the most likely one? Look ahead? Draw? With the same weights one choice writes the same sentence for
# ever, another writes nonsense. Why, and what is to be done?

# %%
import re

import numpy as np

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models import decoding
from tinytensor.models.decoding_trace import trace_beam, trace_choices
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("24_generation")

# %% [markdown]
# ## A text whose rules we know
#
# Four sentences of ten say that it rains. The others begin with "the" and are about eight animals, and continue with
# "and" more often than not. One word in fifty is a slip: any word. So we can say of each sentence whether it is right,
# and how likely it is.

# %%
ANIMALS = ["cat", "dog", "hen", "fox", "owl", "pig", "cow", "bee"]
WORDS = ["(padding)", "(begin)", ".", "it", "rains", "today", "the", "sleeps", "sees", "likes", "and", *ANIMALS]
LONGEST = 24
clause = rf"the ({'|'.join(ANIMALS)}) (sleeps|(sees|likes) the ({'|'.join(ANIMALS)}))"
is_right = re.compile(rf"it rains( today)? \.|{clause}( and {clause})* \.").fullmatch


def sentence(random):
    words = ["it", "rains", *["today"] * (random.random() < 0.2)] if random.random() < 0.4 else []
    while not words or (words[0] == "the" and random.random() < 0.6):
        verb, one, other = random.choice(["sleeps", "sees", "likes"]), random.choice(ANIMALS), random.choice(ANIMALS)
        words += [*["and"] * bool(words), "the", one, verb, *["the", other] * (verb != "sleeps")]
    return [word if random.random() < 0.98 else random.choice(WORDS[3:]) for word in words] + ["."]


def batch(count, seed):
    random = np.random.default_rng(seed)
    rows = [[1, *map(WORDS.index, sentence(random))][:LONGEST] for _ in range(count)]
    return np.array([row + [0] * (LONGEST - len(row)) for row in rows])


tt.speed_up()
tt.manual_seed(0)
model = models.LanguageModel(len(WORDS), d_model=48, num_heads=2, num_layers=2, d_ff=96, max_length=LONGEST)
optimiser = nn.optim.Adam(model.parameters(), lr=5e-3)
schedule = nn.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=400)
for step in range(400):
    ids = batch(64, seed=step)
    loss = F.cross_entropy(model(ids)[:, :-1].mT, tt.asarray(ids[:, 1:]), ignore_index=0)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    schedule.step()
    if step % 100 == 99:
        print(f"step {step + 1} of 400: loss {loss.item():.3f}", flush=True)
model.eval()


def text(ids):
    return " ".join(WORDS[i] for i in ids if i > 1)


# %% [markdown]
# ## The likeliest word
#
# *Greedy*: always the most likely word. The picture has the words that it could choose from, and how likely each was.

# %%
begin = tt.asarray([[1]])
(greedy,) = decoding.greedy(model, begin, max_length=LONGEST - 1)
print(text(greedy.ids))
lesson.number("greedy: words", len(greedy.ids), ".0f")
lesson.number("greedy: different words", len(set(greedy.ids)), ".0f")
lesson.number("greedy: log-probability", sum(greedy.log_probabilities), ".1f")
choices = trace_choices(model, begin, greedy.ids[:8])
steps = [[(WORDS[i], p) for i, p in zip(each.ids, each.probabilities)] for each in choices]
lesson.show("greedy", visualize.decoding_steps(steps, [each.chosen for each in choices], title="Greedy, word by word"))

# %% [markdown]
# It finds no end. "and" is likelier than the end, and what is likeliest once is so again: large models that are decoded
# like this repeat themselves, too (Holtzman et al. 2020). And the sentence is an unlikely one. "the" is the most likely
# first word, but then come eight animals, each with an eighth. Greedy does not see that when it chooses.
#
# ## Looking ahead
#
# *Beam search* follows several beginnings at a time, here two, and keeps those whose product of probabilities (sum of
# logarithms) is largest.

# %%
branches, (found, *_) = trace_beam(model, begin, beam=2, length_penalty=0, max_length=LONGEST - 1)
nodes = [visualize.BeamNode(b.parent, WORDS[b.id], b.log_probability, b.score) for b in branches]
lesson.show("beam", visualize.beam_tree(nodes, title="Beam search, two wide"))
print(text(found.ids))
lesson.number("beam of two: log-probability", sum(found.log_probabilities), ".2f")
wider = decoding.beam_search(model, begin, beam=10, length_penalty=0, max_length=LONGEST - 1)[0][0]
lesson.number("beam of ten: log-probability", sum(wider.log_probabilities), ".2f")

# %% [markdown]
# That is the most likely sentence of all, and a wider beam finds no other. Beams suit translation, which needs one good
# answer. If you need varied text, they do not help: they return the same sentence each time. So draw.
#
# ## Temperature and top-p, by hand
#
# Four words, and what each way makes of their probabilities. *Temperature* T divides the logits: p becomes p^(1/T),
# divided by the sum. *Top-p* keeps the most likely words that together reach p, the nucleus, and leaves out the rest.

# %%
four = tt.asarray([0.5, 0.3, 0.15, 0.05])
for name, how in {"T = 0.5": {"temperature": 0.5}, "T = 2": {"temperature": 2}, "top-p 0.9": {"top_p": 0.9}}.items():
    drawn_from = decoding.next_probabilities(tt.log(four), **how)
    print(name, drawn_from.numpy().round(3))
    lesson.number(f"{name}: the likeliest", drawn_from[0], ".3f")
    lesson.number(f"{name}: the least likely", drawn_from[-1], ".3f")

# %% [markdown]
# ## Drawing
#
# 2,000 sentences each. How many are right, and at their end after 23 words? How many say that it rains, and no more, as
# three of ten do in the text? And how much does a word surprise the model: −ln p on average?

# %%
COUNT = 2000


def judge(name, sentences, log_probabilities):
    lesson.number(f"{name}: right", np.mean([bool(is_right(each)) for each in sentences]), ".1%")
    lesson.number(f"{name}: it rains", np.mean([each == "it rains ." for each in sentences]), ".1%")
    lesson.number(f"{name}: surprise of a word", -np.mean(log_probabilities), ".2f")


def draw(temperature=1.0, top_p=None):
    how = {"temperature": temperature, "top_p": top_p, "max_length": LONGEST - 1}
    return decoding.sample(model, tt.ones((COUNT, 1), dtype=tt.int64), **how)


ids = batch(COUNT, seed=10**6)
with tt.no_grad():
    log_p = F.log_softmax(model(ids)[:, :-1], dim=-1).numpy()
of_text = np.take_along_axis(log_p, ids[:, 1:, None], axis=-1)[ids[:, 1:] > 0]
judge("unseen text", [text(row) for row in ids], of_text)
for name, drawn in {"drawn": draw(), "top-p 0.9": draw(top_p=0.9), "T = 0.25": draw(0.25), "T = 2": draw(2)}.items():
    judge(name, [text(each.ids) for each in drawn], [p for each in drawn for p in each.log_probabilities])
judge("beam of two", [text(found.ids)], found.log_probabilities)

# %%
temperatures = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0]
lines = {"all words": None, "top-p 0.9": 0.9}
for name, top_p in lines.items():
    shares = [np.mean([bool(is_right(text(each.ids))) for each in draw(t, top_p)]) for t in temperatures]
    lines[name] = (temperatures, shares)
lesson.show("right", visualize.curves(lines, title="Share of right sentences", x_label="temperature"))

# %% [markdown]
# Drawn as they are, sentences are like the text in all three numbers, its slips included: each wrong word is unlikely,
# but there are many, and a sentence has many chances to meet one. Top-p cuts those off: more sentences are right than
# in the text that the model has learned from. A high temperature gives slips more weight, and one sentence in five
# stays right. A low one has no slips, and often no end, for it goes where greedy goes. The beam's sentence surprises by
# less than half of what the text does: people do not say the most likely thing all the time.
#
# ## What it means
#
# The model gives probabilities, and how to choose depends on what is wanted: beams where one answer is right, drawing
# where there are many. Temperature and top-p turn the same screw in two ways, how much of the tail may be drawn. No
# setting is right for all models, since a better model needs less of it: its tail has fewer slips.
#
# All of it is in [decoding.py](../../models/decoding.py), which only depends on the logits of a model;
# `model.generate` in [generation.py](../../models/generation.py) has the names that `transformers` has. In
# [a live page](../../docs/pictures.md) temperature and top-p are sliders.
#
# ## Try
#
# Draw with `top_k=3` or `min_p=0.1`. What do they do after "the", where eight words are right, and after "it", where
# one is? Then the exercises: `python examples/lessons/24_generation.py --exercises > mine.py`, fill the holes, then
# `--check mine.py`.
