# %% [markdown]
# # 4. Token by token, then matrices
#
# Lesson 3 followed one query. A sentence has many, and in self-attention every word asks all words, itself among them.
# The obvious program is a loop in a loop. Nobody runs it. What is the other one, does it really compute the same, and
# what does it gain?

# %%
import math
from time import perf_counter

import tinytensor as tt
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("04_tokens_to_matrices")
tt.manual_seed(0)
size, d_k, d_v = 6, 3, 2
words = ["I", "came", "second", "."]
X = tt.random.randn(4, size)
W = [tt.random.randn(size, n) / math.sqrt(size) for n in (d_k, d_k, d_v)]

# %% [markdown]
# ## Token by token
#
# The loop as one would explain it. A key and a value of each word; then, for each word, its query, a score with each
# key, weights by softmax, and the values by these weights, added up. `named_scope` gives the stages names in pictures.


# %%
def by_token(X, W_q, W_k, W_v):
    keys, values, outputs = [], [], []
    for i in range(len(X)):
        with tt.named_scope("key and value"):
            keys.append(X[i] @ W_k)
            values.append(X[i] @ W_v)
    for i in range(len(X)):
        with tt.named_scope("query"):
            q, scores, parts = X[i] @ W_q, [], []
            for k in keys:
                with tt.named_scope("score"):
                    scores.append((q * k).sum() / math.sqrt(len(q)))
            weights = F.softmax(tt.stack(scores), dim=0)
            for j, v in enumerate(values):
                with tt.named_scope("weigh"):
                    parts.append(weights[j] * v)
            outputs.append(tt.stack(parts).sum(axis=0))
    return tt.stack(outputs)


# %% [markdown]
# ## Matrices
#
# Put the words into the rows of X. Then a row of X W^Q is a query, and all rows are computed by one product. Row i of Q
# times column j of Kᵀ is the score of query i and key j, so Q Kᵀ has all scores. Softmax goes row by row. And a row of
# weights times V is a weighted sum of values.


# %%
def by_matrices(X, W_q, W_k, W_v):
    Q, K, V = X @ W_q, X @ W_k, X @ W_v
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    return F.softmax(scores, dim=-1) @ V


lesson.number("largest difference of the two", abs(by_token(X, *W) - by_matrices(X, *W)).max(), ".0e")
Q, K, V = (X @ w for w in W)
lesson.show("matrices", visualize.attention_matrices(Q, K, V, source=words))

# %% [markdown]
# The same numbers. Entry (i, j) of the weights is how much word j counts in the output of word i: each row adds up to
# 1, and columns need not. One of the articles has it the other way round, and in a formula also a bracket that takes V
# into the softmax, softmax(Q Kᵀ / √dₖ V). Then no values are averaged any more:

# %%
scores = Q @ K.mT / math.sqrt(d_k)
weights = F.softmax(scores, dim=-1)
lesson.number("largest sum of a row, less the smallest", weights.sum(axis=1).max() - weights.sum(axis=1).min())
lesson.number("largest sum of a column, less the smallest", weights.sum(axis=0).max() - weights.sum(axis=0).min())
lesson.number("with the bracket misplaced: largest difference", abs(F.softmax(scores @ V, dim=-1) - weights @ V).max())

# %% [markdown]
# ## Two graphs
#
# `tt.record` remembers every operation. Here is the loop's graph, in which what happens in the same way four times
# stands once, with "×4":


# %%
def rows(n):
    return tt.random.randn(n, size)


def graph_of(program, n, title):
    X, W_Q, W_K, W_V = (tt.tensor(x, requires_grad=True) for x in (rows(n), *W))
    with tt.record() as graph:
        program(X, W_Q, W_K, W_V)
    graph.title = title
    return graph


loop, product = graph_of(by_token, 4, "Token by token"), graph_of(by_matrices, 4, "Matrices")
lesson.number("operations for 4 tokens, token by token", len(loop.ops), ".0f")
lesson.number("operations for 4 tokens, matrices", len(product.ops), ".0f")
lesson.show("loop", loop)

# %% [markdown]
# And that of the matrices, which has the same steps and nothing to fold:

# %%
lesson.show("head", product)
lesson.number("sums and products, loop over matrices", loop.flops / product.flops)

# %% [markdown]
# So the sums and products of numbers are as many. What differs is how many operations they come in. With matrices that
# does not grow with the sentence; in the loop it grows with the square of its length, as the number of scores does:

# %%
lengths = [2, 4, 8, 16, 32]
counts = {
    name: (lengths, [len(graph_of(program, n, name).ops) for n in lengths])
    for name, program in {"token by token": by_token, "matrices": by_matrices}.items()
}
labels = {"x_label": "tokens", "y_label": "operations", "log_x": True, "log_y": True, "markers": True}
lesson.show("operations", visualize.curves(counts, title="Operations over the length", **labels))
lesson.number("operations for 32 tokens, token by token", counts["token by token"][1][-1], ".0f")
lesson.number("operations for 32 tokens, matrices", counts["matrices"][1][-1], ".0f")


# %% [markdown]
# ## What it gains
#
# Each operation costs the same small time to call, whether it adds two numbers or two million, and a large product
# keeps all of a processor busy. So count seconds, for 32 tokens:


# %%
def seconds(program, times):
    start = perf_counter()
    for _ in range(times):
        program(X, *W)
    return (perf_counter() - start) / times


X = rows(32)
for program in (by_token, by_matrices):
    seconds(program, 1)
ratio = min(seconds(by_token, 1) for _ in range(5)) / min(seconds(by_matrices, 20) for _ in range(5))
lesson.number("times faster with matrices, 32 tokens", ratio, ".0f")

# %% [markdown]
# ## What it means
#
# Matrices change nothing in what is computed: a loop for the idea, matrices for the work. No word waits for the result
# of another, so all go at once. That is what a recurrent network cannot do, and [lesson 10](10_in_parallel.py) measures
# it. On a GPU, where thousands of products run side by side, there is more to gain still.
#
# `attention` in [nn/functional/attention.py](../../nn/functional/attention.py) is `by_matrices`, with a mask; more
# dimensions in front are sentences and heads, which are no loop either.
#
# ## Try
#
# Which part of the loop costs most? Make it a matrix product alone, and measure again. Then the exercises:
# `python examples/lessons/04_tokens_to_matrices.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
