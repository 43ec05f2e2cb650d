# %% [markdown]
# # NAME: weights of attention
#
# How much does a word look at another one? Write the two functions that say so; section 3.2.1 of "Attention Is All You
# Need" has both. Replace each `...` by your answer.

# %%
import tinytensor as tt
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import visualize

lesson = Lesson("NAME")

# %% [markdown]
# ## 1. Scores
#
# The score of a query and a key is their dot product, divided by √dₖ.


# %%
def scores(query, key):
    """Scores of n queries (n, d_k) and m keys (m, d_k): a Tensor (n, m)."""
    ### BEGIN SOLUTION
    return query @ key.mT / key.shape[-1] ** 0.5
    ### END SOLUTION


# %% [markdown]
# ## 2. Weights
#
# Each row of scores becomes a row of weights above 0 that add up to 1.


# %%
def weights(scores):
    """softmax of every row of scores (n, m): a Tensor of the same shape."""
    ### BEGIN SOLUTION
    e = tt.exp(scores - tt.max(scores, axis=-1, keepdims=True))
    return e / tt.sum(e, axis=-1, keepdims=True)
    ### END SOLUTION


# %% [markdown]
# ## What it looks like
#
# Six queries and six keys at random. Which word looks at which?

# %%
tt.manual_seed(0)
query, key = tt.random.randn(6, 16), tt.random.randn(6, 16)
lesson.show("weights", visualize.attention_grid(weights(scores(query, key))))
