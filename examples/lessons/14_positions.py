# %% [markdown]
# # 14. Positions
#
# A weighted sum does not care about the order of its terms. So attention reads a sentence as a bag of words, unless the
# words themselves say where they stand. The Transformer adds to each word a vector for its position (Vaswani et al.
# 2017, section 3.5):
#
# $$PE_{pos, \, 2i} = \sin \frac{pos}{10000^{2i / d_{model}}}$$
#
# $$PE_{pos, \, 2i + 1} = \cos \frac{pos}{10000^{2i / d_{model}}}$$
#
# Why these, why not learned ones, and what happens without any?

# %%
import math

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer
from tinytensor.models.data.batch import PAD
from tinytensor.models.data.sequences import LETTERS, SequenceTask
from tinytensor.models.data.units import Characters
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("14_positions")

# %% [markdown]
# ## The formula
#
# Two columns for each i, a sine and a cosine of the same angle. From position to position it grows by 1 for i = 0, and
# of 32 dimensions the last two turn 10000^(30/32) = 5,623 times more slowly.

# %%
tt.speed_up()
tt.manual_seed(0)
length, d_model = 64, 32
speeds = 10000.0 ** (-tt.arange(0, d_model, 2, dtype=tt.float64) / d_model)  # 1 / 10000^(2i / d_model)
angles = tt.arange(length, dtype=tt.float64)[:, None] * speeds
PE = tt.stack([tt.sin(angles), tt.cos(angles)], axis=-1).reshape(length, d_model)
lesson.number("formula and nn.PositionalEncoding: difference", abs(PE - nn.PositionalEncoding(32).encoding[:64]).max())
lesson.show("encoding", visualize.positional_encoding(PE))

# %%
columns = {f"dimension {j}": PE[:, j] for j in (0, 8, 16)}
lesson.show("columns", visualize.curves(columns, title="Columns of the encoding", x_label="position"))

# %% [markdown]
# ## A shift is a rotation
#
# The paper chose sines because "for any fixed offset k, PE(pos+k) can be represented as a linear function of PE(pos)".
# By the rules for sin(a + b) and cos(a + b), a pair of columns turns by the angle k / 10000^(2i / d_model), at every
# position alike. So there is one matrix Mₖ for "k further on":

# %%
k = 3
M = tt.zeros((d_model, d_model), dtype=tt.float64)
for i, angle in enumerate((k * speeds).tolist()):
    c, s = math.cos(angle), math.sin(angle)
    M[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = tt.asarray([[c, s], [-s, c]], dtype=tt.float64)
lesson.number("PE(pos + 3) and M PE(pos): largest difference", abs(PE[k:] - PE[:-k] @ M.T).max(), ".0e")
lesson.show("rotation", visualize.matrix(M, title="Mₖ for k = 3: each pair of dimensions turns", numbers=False))

# %% [markdown]
# What is a linear function good for? Attention has matrices. A head with W^Q = Mₖᵀ and W^K = 1 asks at each position
# for what stands k further on. For the positions alone, without words added to them; a W^Q ten times as large decides
# more sharply, since √dₖ divides its scores ([lesson 5](05_scaling.py)):

# %%
weights = {}
for times in (1, 10):
    scores = (times * PE @ M.T) @ PE.T / math.sqrt(d_model)
    weights[f"Mₖᵀ times {times}"] = w = F.softmax(scores, dim=-1)
    found = w[:-k].argmax(axis=-1) == tt.arange(k, length)
    lesson.number(f"positions that look 3 further on, W^Q times {times}", found.astype(tt.float64).mean(), ".0%")
    lesson.number(f"their weight on that, W^Q times {times}", tt.linalg.diagonal(w, offset=k).mean(), ".2f")
first = {name: w[:13, :16] for name, w in weights.items()}
lesson.show("head", visualize.matrix(first, title="A head that looks 3 further on: the first 13 of 64", numbers=False))

# %% [markdown]
# ## Near and far
#
# The product of two positions, PE(pos) · PE(pos + k) = Σᵢ cos(k / 10000^(2i / d_model)), depends on how far apart they
# are, and not on where: along each diagonal of PE PEᵀ is one number.

# %%
products = PE @ PE.T
spread = max((d.max() - d.min()).item() for d in (tt.linalg.diagonal(products, offset=k) for k in range(length)))
lesson.number("differences along a diagonal of PE PEᵀ", spread, ".0e")
lesson.show("products", visualize.matrix(products, title="PE PEᵀ", numbers=False))

# %% [markdown]
# An article says that another position has another value "even if it is the same column". By a hair: the first column
# is sin(pos), which is 0 at 0 and nearly 0 at 355. What tells positions apart is the whole row. Rotations keep
# distances, so it is enough to compare all rows with the first:

# %%
rows = nn.PositionalEncoding(512).encoding[:1000]
lesson.number("first column at position 355", rows[355, 0], ".0e")
lesson.number("smallest distance of two of 1,000 rows", tt.linalg.vector_norm(rows[1:] - rows[0], axis=1).min())

# %% [markdown]
# ## Without positions
#
# Now leave them out. A Transformer encodes a word, and the same word backwards: what does the encoder say of each
# letter?

# %%
task = SequenceTask("reverse", min_length=4, max_length=6)
word = tt.asarray([task.to_ids("tensor")])


def transformer(positions):
    tt.manual_seed(0)
    sizes = {"d_model": 64, "num_heads": 4, "num_layers": 1, "max_length": 8}
    return Transformer(task.vocabulary, **sizes, dropout=0.0, positions=positions)


for positions in ("sinusoidal", None):
    model = transformer(positions)
    forwards, backwards = model.encode(word)[0], model.encode(word.flip(1))[0].flip(1)
    lesson.number(f"a letter's vector changes when the word is turned, {positions}", abs(forwards - backwards).max())

# %% [markdown]
# Without positions, nothing but rounding: the encoder cannot know where a letter stood. So a model that is to write
# words backwards has the letters, and must guess their order. There are n! orders of n different letters. The paper
# also tried learned vectors, one for each position, and found "nearly identical results". All three:

# %%
unseen = task.test_sequences(200)
orders = [math.factorial(len(w)) / math.prod(math.factorial(w.count(i)) for i in set(w)) for w in unseen]
lesson.number("right by guessing the order", sum(1 / n for n in orders) / len(orders), ".1%")


def learn(positions, steps=300):
    model = transformer(positions)
    optimizer = nn.optim.Adam(model.parameters(), lr=3e-3)
    schedule = nn.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 50, 1 - step / steps))
    losses = []
    for step in range(steps):
        batch = task.training_batch(step, 48)
        logits = model(batch.source, batch.target_in).reshape(-1, task.vocabulary)
        loss = F.cross_entropy(logits, tt.asarray(batch.target_out).reshape(-1), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    ids = model.eval().generate(task.make_batch(unseen).source).numpy()
    return losses, [task.to_text(row) for row in ids], model


# %%
losses, models, expected = {}, {}, [task.to_text(task.answer(w)) for w in unseen]
for name, positions in {"sinusoidal": "sinusoidal", "learned": "learned", "none": None}.items():
    losses[name], answers, models[name] = learn(positions)
    exact = [answer == word for answer, word in zip(answers, expected)]
    letters = [sorted(answer) == sorted(word) for answer, word in zip(answers, expected)]
    lesson.number(f"words turned round, positions: {name}", sum(exact) / len(exact), ".1%")
    lesson.number(f"right letters in any order, positions: {name}", sum(letters) / len(letters), ".1%")
lesson.show("losses", visualize.curves(losses, title="Learning to turn words round", x_label="step", y_label="loss"))

# %% [markdown]
# ## Positions as a lever
#
# The model with sines, as a page. It turns "tensor" round. Clear the box "positions", then type "rotsen" and "sorent":
# the answer is wrong, and the same for all three, since nothing is left of their order.

# %%
page = visualize.live(models["sinusoidal"], Characters(LETTERS), text="tensor", title="Positions as a lever")
lesson.show("live.html", page)

# %% [markdown]
# ## What it means
#
# Attention is about sets, and order is something that is added to it. Sines are one way: nothing to learn, any length,
# and a shift is a matrix that a head can have as its W^Q. Learned positions do as well, up to the longest sequence
# seen. Without either, the model still finds out which letters there are, and no more. (A decoder with a causal mask is
# not quite without order: its first position sees one word, its second two.)
#
# `PositionalEncoding`, `LearnedPositionalEncoding` and the formula are in
# [nn/positional.py](../../nn/positional.py); where they are added is `embed` in
# [models/transformer.py](../../models/transformer.py).
#
# ## Try
#
# `python examples/lessons/14_positions.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
