# %% [markdown]
# # 6. Masks
#
# In training a decoder is given the whole answer at once, so that all of its positions learn in one step. Then what
# keeps it from reading the next word instead of finding it? A mask: "we implement this inside of scaled dot-product
# attention by masking out (setting to −∞) all values in the input of the softmax which correspond to illegal
# connections" (Vaswani et al. 2017, section 3.2.3). How does one know that nothing leaks?

# %%
import math

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.data.sequences import SequenceTask
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("06_masks")

# %% [markdown]
# ## a b c
#
# Three words, and a mask that is True where a key lies in the future of a query. Hatched scores are −∞, and e to the
# power of −∞ is 0:

# %%
tt.speed_up()
tt.manual_seed(0)
words = ["a", "b", "c"]
query, key, value = tt.random.randn(3, 3, 2)
future = F.causal_mask(3)
print(future)
lesson.show("matrices", visualize.attention_matrices(query, key, value, future, source=words))

# %% [markdown]
# Why −∞ in the scores, and not simply 0 somewhere? A score of 0 is a score like any other, and gets a weight. Zeros in
# place of the weights come too late, for softmax has already shared 1 among all words:

# %%
scores = query @ key.mT / math.sqrt(2)
kinds = {
    "−∞ before softmax": F.softmax(scores.masked_fill(future, -math.inf), dim=-1),
    "0 before softmax": F.softmax(scores.masked_fill(future, 0.0), dim=-1),
    "0 after softmax": F.softmax(scores, dim=-1).masked_fill(future, 0.0),
}
for name, weights in kinds.items():
    lesson.number(f"largest weight on the future, {name}", weights[future].max())
    lesson.number(f"weights of a add up to, {name}", weights[0].sum())

# %% [markdown]
# ## A test for leaks
#
# Change c, and compare what comes out at a and b. Not nearly equal: equal, bit for bit.

# %%
layer = nn.MultiheadAttention(8, num_heads=2)
x = tt.random.randn(3, 8)
other = tt.concat([x[:2], tt.random.randn(1, 8)])


def attend(x, mask):
    return layer(x, x, x, attn_mask=mask)[0]


for name, mask in {"with mask": future, "without": None}.items():
    change = abs(attend(other, mask) - attend(x, mask)).max(axis=-1)
    lesson.number(f"c is changed, outputs at a and b change by, {name}", change[:2].max())

# %% [markdown]
# So nothing is lost by computing all positions at once. Word by word, as when a decoder writes and the future is not
# there yet, gives the same:

# %%
word_by_word = tt.stack([attend(x[: i + 1], F.causal_mask(i + 1))[i] for i in range(3)])
lesson.number("all at once and word by word: largest difference", abs(attend(x, future) - word_by_word).max(), ".0e")

# %% [markdown]
# One changed word is one sample. The Jacobian asks for all at once: how much does each output depend on each input?
# With the mask, everything above the diagonal is 0.


# %%
def influence(mask):
    jacobian = tt.jacobian(lambda x: attend(x, mask), x)  # (output, feature, input, feature)
    return tt.linalg.vector_norm(jacobian, axis=(1, 3))


influences = {"with the mask": influence(future), "without": influence(None)}
lesson.number("largest influence of the future, with mask", influences["with the mask"][future].max())
lesson.show(
    "influence", visualize.matrix(influences, rows=words, columns=words, title="Output (row) depends on input (column)")
)

# %% [markdown]
# ## The mask is half of it
#
# The diagonal is not hidden: the row of a sees a. An article says that "when predicting 'a', attention is not given to
# 'b' and 'c'", which is not enough: it must not be given to 'a' either. So the answer is shifted by one. What the
# decoder reads begins with a mark, and each position says the word that comes next:

# %%
batch = SequenceTask("copy").make_batch([SequenceTask.to_ids("abc")])
print("reads", batch.target_in, "says", batch.target_out)
seen, said = ["<begin>", *words], [*words, "<end>"]
lesson.show(
    "shifted", visualize.attention_mask(F.causal_mask(4), source=seen, target=said, title="Says (row), sees (column)")
)

# %% [markdown]
# Does it show in training? Random letters cannot be predicted. Whoever guesses the next of 26 has a loss of log 26 =
# 3.258 at best; a lower one is a leak, and proves it. One layer, with the mask and the shift, and with either left out:


# %%
def learn(mask, shift, length=8, steps=200):
    tt.manual_seed(0)
    model = nn.ModuleList([nn.Embedding(27, 32), nn.LearnedPositionalEncoding(32, 0.0, length, batch_first=True)])
    model.extend([nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), nn.Linear(32, 27)])
    embedding, positions, layer, projection = model
    optimizer, losses = nn.optim.Adam(model.parameters(), lr=3e-3), []
    for _ in range(steps):
        letters = tt.random.integers(1, 27, (64, length))
        seen = tt.concat([tt.zeros_like(letters[:, :1]), letters[:, :-1]], axis=1) if shift else letters
        hidden = layer(positions(embedding(seen)), src_mask=F.causal_mask(length) if mask else None)
        loss = F.cross_entropy(projection(hidden).reshape(-1, 27), letters.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


lesson.number("log 26", math.log(26))
losses = {}
for name, mask, shift in (("mask and shift", 1, 1), ("no mask", 0, 1), ("no shift", 1, 0)):
    losses[name] = learn(mask, shift)
    lesson.number(f"loss on random letters, {name}", sum(losses[name][-20:]) / 20)
lesson.show("losses", visualize.curves(losses, title="Predicting random letters", x_label="step", y_label="loss"))

# %% [markdown]
# Without the mask one letter of eight remains to be guessed, the last one: 3.258 / 8 = 0.407.
#
# ## Padding
#
# Sentences of a batch differ in length, so shorter ones are filled up. `key_padding_mask` hides what was filled in,
# and a sentence gets the same result, up to rounding, as if it were alone:

# %%
padding = tt.asarray([False, False, True])
alone = layer(x[:2], x[:2], x[:2])[0]
for name, mask in {"hidden": padding, "seen": None}.items():
    padded = layer(x, x, x, key_padding_mask=mask)[0]
    lesson.number(f"padding {name}, outputs at a and b change by", abs(padded[:2] - alone).max(), ".1g")
lesson.show("both", visualize.attention_mask(future, padding, source=["a", "b", "<pad>"], title="Future and padding"))

# %% [markdown]
# ## The mask as a lever
#
# A trained model, which writes words backwards. Choose "decoder" as the attention and clear the box "mask":
# the triangle of zeros fills up. Each letter that is written also changes what earlier positions say, and they learned
# to answer without it. Try "encoder", "position" and words of your own: how many come out wrong?

# %%
lesson.show("live.html", visualize.live(*lesson.letters_backwards(), text="transformer", title="The mask as a lever"))

# %% [markdown]
# ## What it means
#
# The mask says who may see whom, the shift says what is asked, and only both together make training honest: a loss that
# is too good is the first sign that one of them is missing, and changing the future is the test. `causal_mask` and what
# merges it with padding are in [nn/functional/masks.py](../../nn/functional/masks.py); the shift is `Batch.of` in
# [models/data/batch.py](../../models/data/batch.py). Beware: in `MultiheadAttention` True hides, in
# `F.scaled_dot_product_attention` True shows, here as in PyTorch.
#
# ## Try
#
# `python examples/lessons/06_masks.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
