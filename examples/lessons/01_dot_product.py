# %% [markdown]
# # 1. The dot product
#
# Attention compares words. All that it compares them with is one operation, which takes two vectors of the same length
# and gives one number: a·b = a₁b₁ + a₂b₂ + ... + aₙbₙ. Why does this number say how alike two vectors are?

# %%
import math

import tinytensor as tt
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("01_dot_product")

# %% [markdown]
# ## A sum of products, a matrix product
#
# First as it is defined. Then as a matrix product: a row times a column is a 1 x 1 matrix, which holds the same sum.
# For two vectors `@` leaves both 1s out, as in NumPy and PyTorch.

# %%
a = tt.tensor([1.0, 2.0, 3.0], dtype=tt.float64)
b = tt.tensor([4.0, 5.0, 6.0], dtype=tt.float64)
lesson.number("a·b, a sum of products", (a * b).sum())
lesson.number("a·b, a row times a column", (a[None, :] @ b[:, None]).item())
print((a[None, :] @ b[:, None]).shape, (a @ b).shape)

# %% [markdown]
# ## Geometry
#
# The third way knows nothing of coordinates: a·b = |a| |b| cos θ, where θ is the angle between them. To see that it
# is the same number, θ must be measured without a dot product. The tips of a and b and the origin are a triangle, with
# sides |a|, |b| and |a − b|, and three sides tell the angle: |a − b|² = |a|² + |b|² − 2 |a| |b| cos θ.

# %%
length_a, length_b, side = (tt.linalg.vector_norm(v).item() for v in (a, b, a - b))
angle = math.acos((length_a**2 + length_b**2 - side**2) / (2 * length_a * length_b))
lesson.number("|a|", length_a)
lesson.number("|b|", length_b)
lesson.number("the angle in degrees", math.degrees(angle))
lesson.number("|a| |b| cos θ", length_a * length_b * math.cos(angle))

# %% [markdown]
# So 32 = 3.742 × 8.775 × cos 12.93°. Where the formula comes from: |a − b|² is also (a − b)·(a − b) =
# |a|² + |b|² − 2 a·b. Compare the two.
#
# ## A projection
#
# |a| cos θ is how far a reaches in the direction of b: its shadow on b, where the light falls at right angles to b. The
# dot product is the length of this shadow times |b|. In a plane, where it can be drawn:

# %%
p, q = tt.tensor([2.0, 3.0]), tt.tensor([4.0, 1.0])
unit = q / tt.linalg.vector_norm(q)
shadow = (p @ unit).item()
lesson.number("how far p reaches along q", shadow)
lesson.number("that, times |q|", shadow * tt.linalg.vector_norm(q).item())
lesson.number("p·q", p @ q)
plane = {"p": p.tolist(), "q": q.tolist()}
lesson.show("projection", visualize.vectors(plane, angle=("p", "q"), projection=("p", "q"), title="p on q"))

# %% [markdown]
# What p has across q counts for nothing. The dot product asks one question of p: how much of q is in you? That is what
# a query will do with a key.
#
# ## Over the angle
#
# Let an arrow of length 2 turn once around, and another, of length 3, stay where it is. Only the angle changes:

# %%
turns = tt.linspace(0.0, 2 * math.pi, 361)
turned = 2 * tt.stack([tt.cos(turns), tt.sin(turns)], axis=1)
products = turned @ tt.tensor([3.0, 0.0])
lesson.number("largest dot product", products.max())
lesson.number("smallest dot product", products.min())
lesson.number("the angle where it is smallest, over π", turns[products.argmin()].item() / math.pi)
lesson.number("dot product at 2 π", products[-1])
labels = {"x_label": "angle in radians", "y_label": "dot product"}
lesson.show("angle", visualize.curves((turns, products), title="Lengths 3 and 2, over the angle", **labels))

# %% [markdown]
# It is largest where both point the same way, 0 where they are at right angles, and smallest at π, where they point
# opposite ways. One reads that it is smallest at 2 π, and one of the articles behind these lessons has it so. But 2 π
# is once around: the same direction, and the largest value again.
#
# ## Cosine
#
# Lengths count as well. Who wants the angle alone divides by them: cosine similarity, a·b / (|a| |b|), between −1 and
# 1. The two need not agree about who is more alike:

# %%
query = tt.tensor([2.0, 1.0])
keys = {"near": tt.tensor([0.9, 0.8]), "long": tt.tensor([1.0, 4.0])}
table = tt.stack(list(keys.values()))
dots, cosines = table @ query, F.cosine_similarity(table, query, dim=1)
for name, dot, cosine in zip(keys, dots, cosines):
    lesson.number(f"query · {name}", dot)
    lesson.number(f"cosine of query and {name}", cosine)
print("by dot product:", list(keys)[dots.argmax().item()], "by cosine:", list(keys)[cosines.argmax().item()])
arrows = {"query": query.tolist(), **{name: key.tolist() for name, key in keys.items()}}
lesson.show("cosine", visualize.vectors(arrows, title="Nearer in angle, or longer?"))

# %% [markdown]
# ## What it means
#
# The Transformer takes the dot product. A model that is trained can then make a key important by making it long, and
# all dot products of many queries and many keys are one matrix product, the fastest thing that a computer does ([lesson
# 4](04_tokens_to_matrices.py)). What lengths do to the softmax behind it is [lesson 5](05_scaling.py).
#
# Equation 1 has its dot products in one line, `tt.matmul(query, tt.matrix_transpose(key)) * scale`, in
# [nn/functional/attention.py](../../nn/functional/attention.py). Cosine similarity is in
# [nn/functional/similarity.py](../../nn/functional/similarity.py).
#
# ## Try
#
# Take `query` twice as long: which of the numbers above change? Then the exercises:
# `python examples/lessons/01_dot_product.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
