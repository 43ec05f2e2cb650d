# %% [markdown]
# # 27. Scale
#
# You may compute for twice as long. Twice the model, or twice the text? Large models cost too much to try both. So
# people train small ones, draw a line through their losses, and go on along it ([Kaplan et al.
# 2020](https://arxiv.org/abs/2001.08361), [Hoffmann et al. 2022](https://arxiv.org/abs/2203.15556)). Here the small
# ones take a few seconds each. Does their line tell the loss of one that costs nine times as much?

# %%
import numpy as np

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import visualize

lesson = Lesson("27_scale")

# %% [markdown]
# ## A text whose entropy we know
#
# A sentence has three words out of 128. The first two are drawn: word k with a probability that goes as 1/k^1.5, so a
# few are frequent and most are rare (Zipf's law, of real texts, has 1/k). The third follows from the two, by a table of
# 16,384 random facts. Who knows the whole table still cannot guess the first two words. That is the *entropy*, and no
# model comes below it. Nobody knows it for English; here it is a sum.

# %%
WORDS, BATCH = 128, 128
p = np.arange(1, WORDS + 1) ** -1.5
p /= p.sum()
table = np.random.default_rng(0).integers(0, WORDS, (WORDS, WORDS))


def sentences(first, second):
    return np.stack([np.full(len(first), WORDS), first, second, table[first, second]], axis=1)  # WORDS is the begin


every = sentences(*np.divmod(np.arange(WORDS**2), WORDS))
frequency = np.outer(p, p).reshape(-1)
entropy = -2 * p @ np.log(p) / 3
lesson.number("entropy of a word", entropy)

# %% [markdown]
# ## A trial and its cost
#
# [`models.LanguageModel`](../../models/language_model.py) with one layer; its width gives the number of parameters N. A
# trial reads D tokens, in sentences newly drawn for each step. Its result is the loss minus the entropy, the *excess*.
# It is exact: the mean over all 16,384 sentences, weighted with their frequencies.

# %%


def build(width):
    model = models.LanguageModel(WORDS + 1, d_model=width, num_heads=2, num_layers=1, max_length=3, pad_id=None)
    for weights in filter(lambda weights: weights.ndim > 1, model.parameters()):
        nn.init.normal_(weights, std=0.1)  # GPT-2's 0.02 suits wider models; these would begin slowly
    return model


def losses(model, ids):
    return nn.functional.cross_entropy(model(ids[:, :-1]).mT, tt.asarray(ids[:, 1:]), reduction="none")


def trial(width, tokens, seed=0):
    tt.manual_seed(seed)
    random, model, steps = np.random.default_rng(seed), build(width), round(tokens / BATCH / 3)
    optimiser = nn.optim.Adam(model.parameters(), lr=0.1 / width**0.5, betas=(0.9, 0.98))
    schedule = nn.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(4 * (step + 1) / steps, 1 - step / steps))
    for _ in range(steps):
        loss = losses(model, sentences(*random.choice(WORDS, (2, BATCH), p=p))).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    with tt.no_grad():
        excess = frequency @ losses(model, every).numpy().mean(axis=1) - entropy
    print(f"N = {sizes[width]:6,}   D = {tokens:9,.0f}   excess {excess:.3f}", flush=True)
    return excess


tt.speed_up()
sizes = {width: sum(weights.size for weights in build(width).parameters()) for width in (4, 6, 8, 12, 16, 24, 32, 48)}

# %% [markdown]
# For each token, a parameter takes part in one multiplication and one addition, and backward costs twice what forward
# does: 6 N D operations (Kaplan et al. 2020, section 2.1). Counted, forward alone:

# %%
with tt.textbook(), tt.record() as graph:
    build(32)(every[:BATCH, :-1])
lesson.number("operations of forward / 2 N D", graph.flops / (2 * sizes[32] * BATCH * 3), ".2f")

# %% [markdown]
# ## More parameters
#
# The same text for all, 768,000 tokens. With two logarithmic axes a line is a power law: excess ∝ N^(−a), and its slope
# is −a.

# %%


def exponent(x, y):
    return -np.polyfit(np.log(x), np.log(y), 1)[0]


size = np.array([sizes[width] for width in (4, 8, 16, 24)])
excess = np.array([trial(width, 768_000) for width in (4, 8, 16, 24)])
lines = {"loss − entropy": (size, excess), "loss": (size, excess + entropy)}
look = {"log_x": True, "log_y": True, "markers": True}
lesson.show("parameters", visualize.curves(lines, title="More parameters", x_label="parameters", **look))
lesson.number("exponent of parameters", exponent(size, excess), ".2f")
lesson.number("exponent of parameters, entropy left in", exponent(size, excess + entropy), ".2f")

# %% [markdown]
# With the entropy left in, as in Kaplan et al. 2020 (who find 0.076), the loss hardly falls, and its line must bend
# before it reaches the entropy. Hoffmann et al. 2022 have to guess the entropy, as one more number of the fit.
#
# ## More text
#
# One model, of width 32. Beside it a *perfect memory*: it knows a fact for ever once it has met it, and guesses among
# 128 words before. After n sentences, one of frequency f is still new with probability (1 − f)ⁿ.

# %%
text = np.array([48_000, 96_000, 192_000, 384_000])
excess = np.array([trial(32, tokens) for tokens in text])
perfect = np.log(WORDS) / 3 * frequency @ (1 - frequency[:, None]) ** (text / 3)
lines = {"model": (text / 1000, excess), "perfect memory": (text / 1000, perfect)}
lesson.show("text", visualize.curves(lines, title="More text: the excess", x_label="thousands of tokens", **look))
lesson.number("exponent of text", exponent(text, excess), ".2f")
lesson.number("exponent of text, perfect memory", exponent(text, perfect), ".2f")
lesson.number("excess / that of a perfect memory, most text", excess[-1] / perfect[-1], ".1f")

# %% [markdown]
# Two lines with about the same slope. So here the power law comes from the text: frequent facts are met soon, rare ones
# late ([Hutter 2021](https://arxiv.org/abs/2102.04074)). The model is above, because it has to meet a fact again and
# again.
#
# ## One budget
#
# Now C = 6 N D is given. A small model reads much text, a large one little. Three budgets, five sizes each:

# %%
budgets = {3e9: (4, 6, 8, 12, 16), 9e9: (8, 12, 16, 24, 32), 2.7e10: (12, 16, 24, 32, 48)}
runs, valleys = [], {}
for budget, widths in budgets.items():
    runs += (found := [(sizes[w], (tokens := budget / 6 / sizes[w]), trial(w, tokens)) for w in widths])
    valleys[f"C = {budget:.1e}"] = tuple(np.array(found)[:, [0, 2]].T)
lesson.show("budgets", visualize.curves(valleys, title="One budget: the excess", x_label="parameters", **look))

# %% [markdown]
# Valleys: too small a model cannot hold the facts, too large a one has not met them. With more to spend, the lowest
# point moves to the right. Hoffmann et al. 2022 have this picture as Figure 3, with budgets from 6e18 to 3e21.
#
# ## The law, and what it foretells
#
# Both errors add up: excess = A / N^a + B / D^b. Four numbers, fitted to these fifteen runs alone by gradient descent,
# on logarithms from which the means are taken away.

# %%
n, d, found = (tt.asarray(np.log(column)) for column in zip(*runs))
fit = nn.Parameter(tt.asarray([float(found.mean()), 0.5, float(found.mean()), 0.5], dtype=n.dtype))
optimiser = nn.optim.Adam([fit], lr=0.02)


def law(log_n, log_d):
    return tt.logaddexp(fit[0] - fit[1] * (log_n - n.mean()), fit[2] - fit[3] * (log_d - d.mean()))


for _ in range(1000):
    error = ((law(n, d) - found) ** 2).mean()
    optimiser.zero_grad()
    error.backward()
    optimiser.step()
a, b = float(fit[1]), float(fit[3])
lesson.number("a", a, ".2f")
lesson.number("b", b, ".2f")
lesson.number("the law misses a run by", error**0.5, ".1%")

# %% [markdown]
# Now nine times the largest budget. The law says which size is best, and which excess a model of about that size will
# have. Then we look.

# %%
budget = 9 * 2.7e10
candidates = tt.linspace(np.log(1e3), np.log(1e6), 1000, dtype=n.dtype)
best = float(tt.exp(candidates[law(candidates, np.log(budget / 6) - candidates).argmin()]))
width = min(sizes, key=lambda width: abs(np.log(sizes[width] / best)))
tokens = budget / 6 / sizes[width]
lesson.number("best size, predicted", best, ",.0f")
lesson.number("excess, best of the fifteen", np.exp(float(found.min())), ".3f")
lesson.number("excess, predicted", tt.exp(law(np.log(sizes[width]), np.log(tokens))), ".3f")
lesson.number("excess, found", trial(width, tokens), ".3f")
lesson.number("twice the budget: times the parameters", 2 ** (b / (a + b)), ".2f")

# %% [markdown]
# ## What it means
#
# Twice the model or twice the text? A bit of both: twice the budget buys about √2 times the parameters and √2 times the
# text, as Hoffmann et al. 2022 found for large models. Kaplan et al. 2020 had found 2^0.73 for the parameters. Hoffmann
# et al. blame one schedule for runs of any length; here it is as long as the run. [Porian et al.
# 2024](https://arxiv.org/abs/2406.19146) find other reasons: the cost of the last layer, the warm-up, and rates that
# were not tuned for each size.
#
# Not all of it holds. The large model is worse than foretold, 0.068 for 0.058. The lines of the first two pictures are
# flatter than a and b say, because each has some of the other error in it. Hoffmann et al. have 0.34 and 0.28; ours are
# the exponents of this text, and of no other. And it ends: who knows all facts has excess 0, where no power law leads.
#
# The optimiser is in [adam.py](../../nn/optim/adam.py), the count of operations in
# [cost.py](../../tinytensor/graph/cost.py).
#
# ## Try
#
# Draw words with 1/k². What happens to the exponent of text, and to that of the perfect memory? Then the exercises:
# `python examples/lessons/27_scale.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
