# %% [markdown]
# # 5. Why √dₖ?
#
# Attention divides its scores by the square root of dₖ, the length of a query (equation 1 of Vaswani et al. 2017):
# softmax(Q Kᵀ / √dₖ) V. The paper suspects that without it "the dot products grow large in magnitude, pushing the
# softmax function into regions where it has extremely small gradients". How large, how small, and does it matter?

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

lesson = Lesson("05_scaling")

# %% [markdown]
# ## Scores grow with dₖ
#
# Let all numbers of q and k be independent, with mean 0 and variance 1. A score q·k is a sum of dₖ products, each of
# variance 1, so its variance is dₖ. Ten thousand pairs of each length say so too:

# %%
tt.speed_up()
tt.manual_seed(0)
sizes = [4, 16, 64, 256, 512]
pairs = {d_k: tt.random.randn(2, 10_000, d_k) for d_k in sizes}
scores = {d_k: (q * k).sum(axis=-1) for d_k, (q, k) in pairs.items()}
variances = [tt.var(scores[d_k]).item() for d_k in sizes]
lesson.number("variance of q·k, d_k = 4", variances[0])
lesson.number("variance of q·k, d_k = 512", variances[-1])
lesson.number("variance of q·k / √d_k, d_k = 512", tt.var(scores[512] / math.sqrt(512)))
curves = {"q·k": (sizes, variances), "q·k / √dₖ": (sizes, [v / d for v, d in zip(variances, sizes)])}
lesson.show(
    "variance",
    visualize.curves(curves, title="Variance of a score", x_label="dₖ", y_label="variance", log_x=True, log_y=True),
)

# %% [markdown]
# ## Softmax of large scores is nearly constant
#
# Ten times the scores, and softmax puts everything on one of them:

# %%
small = tt.tensor([1.0, 2.0, 3.0, 4.0], dtype=tt.float64)
for name, s in {"s": small, "10 s": small * 10}.items():
    weights = F.softmax(s, dim=0)
    print(weights.numpy())
    lesson.number(f"largest weight of softmax({name})", weights.max(), ".8f")

# %% [markdown]
# How much can a score still change the weights? That is the Jacobian of softmax:
#
# $$\frac{\partial p_i}{\partial s_j} = p_i \, (\delta_{ij} - p_j), \qquad
# \delta_{ij} = 1 \text{ if } i = j, \text{ else } 0$$
#
# Every entry has a factor that is nearly 0. Backward passes multiply by it, so nothing of the loss reaches Q and K.

# %%
jacobians = {
    name: tt.jacobian(lambda s: F.softmax(s, dim=0), s) for name, s in {"s": small, "10 s": small * 10}.items()
}
lesson.number("largest entry of the Jacobian at s", abs(jacobians["s"]).max())
lesson.number("largest entry of the Jacobian at 10 s", abs(jacobians["10 s"]).max(), ".1e")
lesson.show("jacobians", visualize.matrix(jacobians, title="Jacobian of softmax"))

# %% [markdown]
# ## Does it matter for training?
#
# A Transformer with one head learns to copy words, once with 1/√dₖ and once without, at dₖ = 192 and at dₖ = 16.

# %%
task = SequenceTask("copy", max_length=8)
unseen = task.test_sequences(200)


def learn(d_k, steps, rate, scale):
    tt.manual_seed(0)
    model = Transformer(task.vocabulary, d_model=d_k, num_heads=1, num_layers=1, d_ff=128, dropout=0.0, scale=scale)
    optimizer = nn.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for step in range(steps):
        batch = task.training_batch(step, 32)
        logits = model(batch.source, batch.target_in).reshape(-1, task.vocabulary)
        loss = F.cross_entropy(logits, tt.asarray(batch.target_out).reshape(-1), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    answers = model.eval().generate(task.make_batch(unseen).source).numpy()
    exact = sum(task.to_text(ids) == task.to_text(word) for ids, word in zip(answers, unseen)) / len(unseen)
    return losses, exact, model


# %%
losses, models = {}, {}
for d_k, steps, rate in ((192, 300, 1e-3), (16, 600, 5e-3)):
    for name, scale in {"q·k / √dₖ": None, "q·k": 1.0}.items():
        print(f"training {len(models) + 1}/4: {steps} steps with dₖ = {d_k}, {name}", flush=True)
        losses[f"dₖ = {d_k}, {name}"], exact, models[d_k, name] = learn(d_k, steps, rate, scale)
        lesson.number(f"words copied, d_k = {d_k}, {name}", exact, ".1%")
lesson.show("losses", visualize.curves(losses, title="Learning to copy", x_label="step", y_label="loss"))

# %% [markdown]
# ## The scale as a lever
#
# The small model with the scale, as a page. Move "scores ×" to 0: all weights of a row are equal, and the copy is lost.
# The button "without 1/√dₖ" multiplies by √16 = 4: most rows of the maps put nearly all on one letter, as softmax did
# above. The word comes out wrong, though a model that learned without the scale copies: this one learned with it.

# %%
page = visualize.live(models[16, "q·k / √dₖ"], Characters(LETTERS), text="softmax", title="The scale as a lever")
lesson.show("live.html", page)

# %% [markdown]
# ## What it means
#
# Scaling keeps the variance of scores at 1 whatever dₖ is, so that softmax starts where it has gradients. With dₖ = 192
# nothing is learned without it. With dₖ = 16, where scores deviate by 4, the model without it learns a little later
# and just as well, which no article says: "without scaling, no learning" holds for large dₖ. Dividing by dₖ itself
# ("the length", as one article has it) would be too much: the variance would be 1/dₖ, and every word would get nearly
# the same weight.
#
# `attention` in [nn/functional/attention.py](../../nn/functional/attention.py) is equation 1, with `scale` in it.
#
# ## Try
#
# Which dₖ is the first to suffer? Change the loop above. Then the exercises:
# `python examples/lessons/05_scaling.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
