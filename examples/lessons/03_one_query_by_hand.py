# %% [markdown]
# # 3. One query by hand
#
# A decoder has read "I love you" and is to begin its French sentence. It has written nothing yet but the mark for the
# beginning, `<bos>`. What does it take out of the three English words? ([Lesson 26](26_why_words_need_context.py) has
# the reason why a word looks at others at all.) This lesson follows that one query through equation 1 of Vaswani et al.
# (2017), with numbers small enough for paper.
#
# $$\operatorname{Attention}(Q, K, V) = \operatorname{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$

# %%
import math

import tinytensor as tt
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("03_one_query_by_hand")

# %% [markdown]
# ## A soft dictionary
#
# A Python dictionary compares a query with its keys, and gives the value of the one key that is equal. A soft one gives
# every key a weight, by how well it fits, and the average of all values by these weights. How well a key fits is a dot
# product ([lesson 1](01_dot_product.py)); softmax makes weights of it, positive, with sum 1.

# %%
tt.manual_seed(0)
keys = tt.tensor([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]])
prices = tt.tensor([3.0, 5.0, 40.0])
exact = {tuple(key.tolist()): price.item() for key, price in zip(keys, prices)}
query = keys[0]


def soft(query, keys, values, scale=1.0):
    return F.softmax(keys @ query * scale, dim=0) @ values


lesson.number("dictionary", exact[tuple(query.tolist())])
lesson.number("soft dictionary", soft(query, keys, prices))
lesson.number("soft dictionary, scores times 50", soft(query, keys, prices, 50.0))
between = (keys[0] + keys[1]) / 2
lesson.number("halfway between two keys, scores times 50", soft(between, keys, prices, 50.0))

# %% [markdown]
# With large scores it is the dictionary; and it has an answer where the dictionary has none. Above all it can be
# learned: a small change of a key changes the result a little, so there is a gradient.
#
# ## Queries, keys, values
#
# Where do they come from? Each word is a vector of 4 numbers here: y for `<bos>`, the rows of X for the English words.
# A matrix W^Q, 4 x 3, makes a query of y. W^K, 4 x 3, makes a key of each word, and W^V, 4 x 2, a value. In a trained
# model these three are learned. Here they are small whole numbers, so that you can follow:

# %%
words = ["I", "love", "you"]
y = tt.tensor([[1.0, 0.0, 1.0, 0.0]])
X = tt.tensor([[2.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 2.0]])
W_q = tt.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
W_k = tt.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
W_v = tt.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [0.0, 1.0]])
q, K, V = y @ W_q, X @ W_k, X @ W_v
print("q =", q.tolist(), "\nK =", K.tolist(), "\nV =", V.tolist())

# %% [markdown]
# q is row 1 of W^Q plus row 3, for that is where y has its 1s. It has 3 numbers, though y has 4: all that must fit is
# the length of queries and keys, dₖ = 3, because they meet in a dot product. Values may have any length.
#
# ## Scores, weights, average
#
# Each line is one step of equation 1, and the last is the check against the library:

# %%
scores = q @ K.mT
scaled = scores / math.sqrt(3)
weights = F.softmax(scaled, dim=-1)
output = weights @ V
for word, score, weight in zip(words, scores[0], weights[0]):
    print(f"{word:5} score {score.item():.0f}, weight {weight.item():.3f}")
lesson.number("score of 'I'", scores[0, 0])
lesson.number("weight of 'I'", weights[0, 0])
lesson.number("sum of the weights", weights.sum())
lesson.number("difference from the library", abs(output - F.scaled_dot_product_attention(q, K, V)).max(), ".0e")
lesson.show(
    "steps", visualize.attention_steps(x=(y, X), weights=(W_q, W_k, W_v), source=words, target=["<bos>"], token=0)
)

# %% [markdown]
# Read it from above: what `<bos>` (its x is our y) and the words are made into; then the scores, the weights, and the
# values that they weigh. Values have no part in the weights. They do not say how much impact a word has, as one article
# has it; they are what is averaged. With values twice as large the weights stay, and the output is twice as large:

# %%
lesson.number("output with values twice as large, over the output", (weights @ (2 * V) / output).max())
lesson.number("softmax of one score", F.softmax(scaled[0, :1], dim=0).item())

# %% [markdown]
# The second number is for a formula that one can find, softmax(q₁·k₁ / √dₖ), of a single score. That is 1 whatever the
# score is. Softmax takes the row of all scores of a query: a weight says how well a key fits compared with the others.
#
# ## The wrong dₖ
#
# Another article divides by the length of the vectors, where the paper divides by its square root. For dₖ = 3 that is a
# small matter. Take dₖ = 64, as the paper does, and queries and the keys of eight words as a model has them before
# training, numbers with variance 1:

# %%
d_k = 64
many_queries, many_keys = tt.random.randn(500, 1, d_k), tt.random.randn(500, 8, d_k)
raw = (many_queries @ many_keys.mT)[:, 0]
divisors = {"by nothing": 1.0, "by √dₖ": math.sqrt(d_k), "by dₖ": float(d_k)}
rows = []
for name, divisor in divisors.items():
    lesson.number(f"variance of scores divided {name}", tt.var(raw / divisor))
    shares = F.softmax(raw / divisor, dim=-1)
    lesson.number(f"largest of eight weights, scores divided {name}", shares.max(axis=-1).mean())
    rows.append(shares[0])
lesson.show("divisor", visualize.matrix(tt.stack(rows), rows=list(divisors), title="Eight weights of one query"))

# %% [markdown]
# Divided by nothing, one word takes nearly all. Divided by dₖ, all words get nearly 1/8, and the query has hardly a
# say. The square root keeps the variance at 1 and leaves a choice. Lesson 5 says why, and what it does to training.
#
# ## In a trained model
#
# Here a model has learned to write words backwards. Choose "cross" as the attention and click a letter of the target:
# the last table is the one above, with q, every k and v, the scores and the weights. Now drag a weight to 1. The others
# fall to 0, for a row adds up to 1. Sometimes the next letter becomes another one; mostly it stays, since this is one
# head of several.

# %%
model, letters = lesson.letters_backwards()
lesson.show("live.html", visualize.live(model, letters, text="transformer", title="One query in numbers"))

# %% [markdown]
# ## What it means
#
# Attention is a dictionary that answers with an average: which words, say q and K; what of them, says V. All three are
# made of the same words by matrices, and the matrices are what is learned. In self-attention y is one of the rows of X;
# between two languages, as here, queries come from one and keys and values from the other.
#
# `attention` in [nn/functional/attention.py](../../nn/functional/attention.py) is the four lines above, for any number
# of queries.
#
# ## Try
#
# Change W_q so that `<bos>` looks at "love". Which of its numbers matter? Then the exercises:
# `python examples/lessons/03_one_query_by_hand.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
