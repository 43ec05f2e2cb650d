# %% [markdown]
# # 17. The gradient of attention
#
# Articles stop at the forward pass. Training needs the other direction: how much does the loss change with each query,
# key and value? Equation 1 is two matrix products and a softmax between them, so it takes two rules. Here is softmax
# as an operation of your own, its rule derived by hand, wrong at first and caught, and the backward pass as a program
# and as a film.

# %%
import math

import tinytensor as tt
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.testing import check_op, report

lesson = Lesson("17_gradient_of_attention")

# %% [markdown]
# ## A rule
#
# With p = softmax(s), [lesson 5](05_scaling.py) found ∂pᵢ/∂sⱼ = pᵢ (δᵢⱼ − pⱼ). The gradient that arrives is gᵢ =
# ∂L/∂pᵢ, and the chain rule sums over all pᵢ that sⱼ has a part in:
#
# $$\frac{\partial L}{\partial s_j} = \sum_i g_i \, p_i \, (\delta_{ij} - p_j) = p_j \, (g_j - \sum_i g_i \, p_i)$$
#
# No Jacobian has to be built: a product, a sum, a difference, a product. `@tt.op` takes the rule as it stands. It reads
# `out`, which is p, so that is what is kept until the backward pass, and the scores are not.


# %%
tt.manual_seed(0)


def softmax_of(xp, s):
    e = xp.exp(s - xp.max(s, axis=s.ndim - 1, keepdims=True))
    return e / xp.sum(e, axis=s.ndim - 1, keepdims=True)


def rule(xp, g, out):
    return out * (g - xp.sum(g * out, axis=out.ndim - 1, keepdims=True))


@tt.op(s=rule)
def my_softmax(xp, s):
    """softmax over the last dimension."""
    return softmax_of(xp, s)


# %% [markdown]
# ## Caught
#
# A common mistake: only the diagonal of the Jacobian, as if each weight depended on its own score alone. `check_op`
# compares rules with differences of the forward function, to first and to second order:


# %%
@tt.op(s=lambda xp, g, out: g * out * (1 - out))
def diagonal_softmax(xp, s):
    """softmax over the last dimension, with half of its rule."""
    return softmax_of(xp, s)


scores = tt.random.randn(3, 4, dtype=tt.float64)
caught = 0
for candidate in (my_softmax, diagonal_softmax):
    try:
        check_op(candidate, scores)
        print(candidate.__name__, "passes")
    except AssertionError as error:
        caught += candidate is diagonal_softmax
        print(candidate.__name__, "fails:", str(error).splitlines()[0])
lesson.number("wrong rules caught", caught, ".0f")

# %% [markdown]
# `check_op` stops at the first mistake. The [report card](../../docs/your-own-op.md) tries more, and says of each thing
# that it tried what came out:

# %%
card = report(my_softmax)
print(card.verdict)
print(card["saved"].found)
lesson.number("mistakes on the report card of my_softmax", len(card.failed), ".0f")
lesson.number("mistakes on that of diagonal_softmax", len(report(diagonal_softmax).failed), ".0f")

# %% [markdown]
# ## The whole of attention
#
# The other rule is that of a product: of O = P V, ∂L/∂V = Pᵀ g and ∂L/∂P = g Vᵀ. Four lines by hand give the gradients
# of a head; tinytensor gets them from the same rules:

# %%
n, d_k = 5, 4
draws = [tt.random.randn(n, d_k, dtype=tt.float64) for _ in range(3)]
query, key, value = (tt.tensor(x, requires_grad=True) for x in draws)
with tt.record() as graph:
    weights = my_softmax(query @ key.mT / math.sqrt(d_k))
    output = weights @ value
    loss = (output**2).sum()
program = tt.backward_program(loss)
loss.backward()

g = 2 * output.detach()
g_weights = g @ draws[2].mT
p = weights.detach()
g_scores = p * (g_weights - (g_weights * p).sum(axis=-1, keepdims=True)) / math.sqrt(d_k)
by_hand = {"query": g_scores @ draws[1], "key": g_scores.mT @ draws[0], "value": p.mT @ g}
for name, tensor in {"query": query, "key": key, "value": value}.items():
    lesson.number(f"gradient of the {name}: largest difference", abs(tensor.grad - by_hand[name]).max(), ".0e")
lesson.show("graph", graph)

# %% [markdown]
# The same backward pass as a program that needs NumPy and nothing else. Compare it with the four lines above:

# %%
print(str(program).partition("if __name__")[0])

# %% [markdown]
# And as a film, gradient by gradient; the arrow keys step through it:

# %%
lesson.show("film.html", graph)

# %% [markdown]
# ## Gradients of gradients
#
# The rule is written with `xp`, so it runs on Tensors as well as on arrays, and its own gradient follows. The second
# derivative of the loss along the gradient, by our operation and by the library's:

# %%
curvatures = []
for softmax in (my_softmax, lambda s: F.softmax(s, dim=-1)):
    q = tt.tensor(draws[0], requires_grad=True)
    loss = ((softmax(q @ draws[1].mT / math.sqrt(d_k)) @ draws[2]) ** 2).sum()
    (slope,) = tt.grad(loss, [q], create_graph=True)
    (curvature,) = tt.grad((slope**2).sum(), [q])
    curvatures.append(curvature)
lesson.number("second derivatives: largest difference", abs(curvatures[0] - curvatures[1]).max(), ".0e")

# %% [markdown]
# ## What it means
#
# A weight near 0 or 1 makes its factor p (g − Σ g p) nearly 0: this is where [lesson 5](05_scaling.py)'s small
# gradients come from. The library's softmax is a formula in [activations.py](../../nn/functional/activations.py), from
# whose rules the same gradient follows, and beside it a fast pair in
# [fast/activations.py](../../nn/fast/activations.py), which is `rule` once more. How an op is declared:
# [primitive.py](../../tinytensor/primitive.py).
#
# ## Try
#
# `python examples/lessons/17_gradient_of_attention.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
