# %% [markdown]
# # Gallery
#
# Every kind of picture, with the lines that drew it. They follow the light or dark of the reader, are described for
# those who cannot see them, and need no other library; `save` writes them, a notebook shows them. Here `gallery.show`
# does both. The pages to play with, such as the film and the model at work, are live.

# %%
import math

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models import Transformer, inside
from tinytensor.models.attribution import integrated_gradients
from tinytensor.models.data.sequences import LETTERS
from tinytensor.models.data.units import Characters
from tinytensor.models.scripts import copy_task
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.models.training.page import write_page
from tinytensor.models.training.run_folder import RunFolder
from tinytensor.models.training.schedules import adam
from tinytensor.models.training.trainer import Trainer
from tinytensor.nn import functional as F
from tinytensor.nn import visualize
from tinytensor.testing import report

gallery = Lesson("gallery")
tt.manual_seed(0)
words = ["the", "cat", "sat", "down", "."]

# %% [markdown]
# ## Attention
#
# A layer is asked what it attended to with `nn.record_attention()`. This one is not trained, and looks anywhere;
# the lessons show trained ones.

# %%
encoder = nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16, dropout=0.0, batch_first=True)
x = 3 * tt.random.randn(1, 5, 8)
with tt.no_grad(), nn.record_attention() as attention:
    encoder(x, src_mask=F.causal_mask(5))

gallery.show("lines", visualize.attention_lines(attention.encoder, words))

# %%
gallery.show("grid", visualize.attention_grid(attention.encoder, words))

# %% [markdown]
# Another layer, and what it attends to otherwise:

# %%
another = nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16, dropout=0.0, batch_first=True)
with tt.no_grad(), nn.record_attention() as later:
    another(x, src_mask=F.causal_mask(5))

difference = visualize.attention_difference(attention.encoder, later.encoder, words, names=("one", "another"))
gallery.show("difference", difference)

# %% [markdown]
# All heads, sorted by what they do, on a text that is repeated:

# %%
with tt.no_grad(), nn.record_attention() as repeated:
    encoder(tt.concat([x, x], axis=1), src_mask=F.causal_mask(10))

print("induction:", visualize.head_scores(repeated.encoder, [*words, *words])["induction"])
gallery.show("heads", visualize.attention_heads(repeated.encoder, [*words, *words]))

# %% [markdown]
# The share of each token in an output, here a number of the last position, above the attention of a head to it:

# %%
(shares,) = integrated_gradients(lambda e: encoder(e, src_mask=F.causal_mask(5))[0, -1, 0], x)
gallery.show("attribution", visualize.attribution(shares, words, attention.encoder[0].weights[0, 0, -1]))

# %%
gallery.show("steps", visualize.attention_steps(attention.encoder[0], source=words, token=2))

# %%
Q, K, V = (tt.random.randn(4, 3) for _ in range(3))
gallery.show("matrices", visualize.attention_matrices(Q, K, V, F.causal_mask(4), source=words[:4]))

# %% [markdown]
# Point at a word, or walk with the keyboard:

# %%
gallery.show("explorer.html", visualize.attention_explorer(attention, words))

# %% [markdown]
# ## A model at work
#
# This one has learned to write words backwards. Type, and it answers; pull a lever, and see what it was good for:

# %%
sizes = {"d_model": 64, "num_heads": 4, "num_layers": 2, "dropout": 0.0, "max_length": 12}
backwards, task = copy_task.build({**sizes, "task": "reverse", "seed": 0, "device": "cpu"})


def train(model):
    optimizer, schedule = adam(model, "cosine", 2e-3, 50, 500)
    Trainer(model, optimizer, schedule, task, [], batch_size=64).run(500)


gallery.trained(backwards, train)
gallery.show("live.html", visualize.live(backwards, Characters(LETTERS), text="transformer"))

# %% [markdown]
# ## Layers
#
# The words that a model would say after each layer, the change of its loss without each head, and the position of one
# text that brings its answer back in another. This one is not trained, either.

# %%
speaker = models.LanguageModel(5, d_model=32, num_heads=4, num_layers=4)
text, other = [[0, 1, 2, 3]], [[0, 4, 2, 3]]
gallery.show("lens", visualize.logit_lens(inside.logit_lens(speaker, text)[:, 0], words, words[:4]))

# %%
left_out = inside.heads_left_out(speaker, lambda: F.cross_entropy(speaker(text)[0, :-1], tt.asarray(text[0][1:])))
gallery.show(
    "left-out", visualize.layer_map(left_out, ends=("better without", "worse"), title="Loss without each head")
)

# %%
back = inside.patched(speaker, text, other, lambda logits: logits[0, -1, 4])
gallery.show("patched", visualize.layer_map(back, words[:4], axis="position", title="What comes back"))

# %% [markdown]
# ## Masks and positions

# %%
gallery.show("mask", visualize.attention_mask(F.causal_mask(5), source=words))

# %%
gallery.show("positions", visualize.positional_encoding(40, 64))

# %% [markdown]
# The same as curves, and how alike two positions are:

# %%
encoding = nn.PositionalEncoding(64).encoding[:40]
dimensions = {f"dimension {d}": encoding[:, d] for d in (0, 8, 16, 24)}
gallery.show("sinusoids", visualize.curves(dimensions, title="Sinusoids", x_label="position", y_label=""))

# %%
gallery.show("alike", visualize.matrix(encoding @ encoding.mT, title="p · p of any two positions"))

# %% [markdown]
# ## Training
#
# Training scripts write a page for each run while it trains, from its log. This log is made up:

# %%
run = RunFolder(gallery.folder / "run", resume=False)
for step in range(0, 401, 50):
    near = F.softmax((0.5 + step / 100) * tt.eye(5), dim=-1).numpy()
    run.log(event="attention", step=step, source=words, said=words, layers=[[near.round(3).tolist()]])
    accuracy = 1 - 0.8 * math.exp(-step / 90)
    run.log(event="step", step=step, loss=2.5 * math.exp(-step / 90), token_accuracy=accuracy, lr=1e-3)
    run.log(event="samples", step=step, lines=[" ".join(words[: 1 + step // 100])])
page = write_page(run.path, "400 steps, made up")
gallery.show("run.html", page, save=lambda path: path.write_bytes(page.read_bytes()))

# %%
losses = {"training": [2.5 * math.exp(-step / 30) + 0.2 for step in range(100)]}
gallery.show("loss", visualize.loss_curve(losses, log=True))

# %%
optimizer = nn.optim.SGD([nn.Parameter(tt.zeros(1))], lr=1.0)
schedule = nn.optim.lr_scheduler.TransformerLR(optimizer, d_model=512, warmup_steps=400)
gallery.show("schedule", visualize.learning_rate_schedule(schedule, 2000))

# %%
schedules = {
    "one cycle": nn.optim.lr_scheduler.OneCycleLR(nn.optim.SGD([nn.Parameter(tt.zeros(1))]), 1.0, total_steps=101),
    "warm restarts": nn.optim.lr_scheduler.CosineAnnealingWarmRestarts(
        nn.optim.SGD([nn.Parameter(tt.zeros(1))], lr=1.0), T_0=15, T_mult=2
    ),
}
gallery.show("schedules", visualize.learning_rate_schedule(schedules, 101))

# %% [markdown]
# ## Decoding
#
# What could have been said at each step, and what beam search followed. Here the numbers are made up;
# `translate.py --decoding` draws those of a trained model.

# %%
said = [[("le", 0.8), ("la", 0.1), ("un", 0.1)], [("chat", 0.7), ("chien", 0.3)], [("noir", 0.4), (".", 0.6)]]
gallery.show("choices", visualize.decoding_steps(said, chosen=[0, 0, 1]))

# %%
tree = [
    visualize.BeamNode(None, "<begin>", 0.0),
    visualize.BeamNode(0, "le", math.log(0.8)),
    visualize.BeamNode(0, "un", math.log(0.1)),
    visualize.BeamNode(1, "chat", math.log(0.7)),
    visualize.BeamNode(1, "chien", math.log(0.3)),
    visualize.BeamNode(3, "<end>", math.log(0.6), score=-0.36),
    visualize.BeamNode(4, "<end>", math.log(0.5), score=-0.71),
]
gallery.show("beam", visualize.beam_tree(tree))

# %% [markdown]
# ## Recurrence
#
# How far "Area" is from "zone": one step with attention, and without it as many as there are states between them.

# %%
read, written = ["European", "Economic", "Area"], ["zone", "économique", "européenne"]
looks = [[0.05, 0.05, 0.9], [0.1, 0.8, 0.1], [0.9, 0.05, 0.05]]
gallery.show("recurrence", visualize.recurrence(read, written, looks, bidirectional=True, path=(2, 0)))

# %%
gallery.show("recurrence alone", visualize.recurrence(read, written, path=(0, 2)))

# %% [markdown]
# ## Curves, matrices, vectors

# %%
angles = tt.linspace(0.0, 2 * math.pi, 200)
curves = {"cos": (angles, tt.cos(angles)), "sin": (angles, tt.sin(angles))}
gallery.show("curves", visualize.curves(curves, title="An angle", x_label="radians", y_label=""))

# %%
jacobian = tt.jacobian(lambda s: F.softmax(s, dim=0), tt.asarray([1.0, 2.0, 3.0, 4.0]))
gallery.show("jacobian", visualize.matrix(jacobian, title="The Jacobian of softmax"))

# %%
arrows = {"a": (1.0, 3.0), "b": (4.0, 1.0)}
gallery.show("arrows", visualize.vectors(arrows, angle=("a", "b"), projection=("a", "b"), title="a · b"))

# %% [markdown]
# The way from man to king, and the same from woman; the vectors are made up:

# %%
royals = {"man": (1.0, 1.0), "woman": (3.0, 0.5), "king": (1.5, 3.0), "queen": (3.6, 2.4), "sum": (3.5, 2.5)}
ways = [("man", "king"), ("woman", "sum")]
gallery.show("parallelogram", visualize.vectors(royals, arrows=False, ways=ways, title="King − man + woman"))

# %% [markdown]
# ## Layers
#
# A small network as neurons, and arrays on their way through an encoder layer:

# %%
network = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
gallery.show("neurons", visualize.neurons(network, [1.0, -2.0, 0.5]))

# %%
with tt.record() as of_layer:
    encoder(x)

gallery.show("blocks", visualize.blocks(of_layer))

# %% [markdown]
# ## Computations
#
# What ran, drawn from the computation itself: [Drawing a graph](drawing-a-graph.md) has all options.

# %%
model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
with tt.record() as graph:
    loss = (model(x) ** 2).mean()

gallery.show("graph", graph, depth=3)

# %% [markdown]
# Upward, as Figure 2 of Vaswani et al. 2017: one head, and several.

# %%
heads = nn.MultiheadAttention(8, 2, batch_first=True)
with tt.record() as figure:
    heads(x, x, x, attn_mask=F.causal_mask(5), need_weights=False)

gallery.show("figure 2", figure, direction="BT", apart=True, depth=3, fused="formula")

# %% [markdown]
# And Figure 1, the Transformer:

# %%
source, target = tt.random.integers(3, 11, (1, 4)), tt.random.integers(3, 11, (1, 3))
with tt.record() as figure:
    Transformer(11, d_model=8, num_heads=2, num_layers=6, dropout=0.0)(source, target)

gallery.show("figure 1", figure, direction="BT", apart=True)

# %% [markdown]
# Numbers and gradients stand in a small graph:

# %%
slope, offset = tt.tensor(2.0, requires_grad=True), tt.tensor(-1.0, requires_grad=True)
with tt.record() as line:
    y = slope * 3.0 + offset
    squared = y**2
squared.backward()
gallery.show("numbers", line)

# %% [markdown]
# A loop is drawn as one of its turns, or turn by turn:

# %%
steps, cell = tt.random.randn(1, 6, 4), nn.RNNCell(4, 4)
with tt.record() as recurrence:
    h = tt.zeros((1, 4))
    for t in range(6):
        h = cell(steps[:, t], h)
gallery.show("loop", recurrence, collapse="RNNCell")

# %%
gallery.show("unrolled", recurrence, unroll=True)

# %% [markdown]
# Two graphs side by side, with what only one has, and what moved:

# %%
layers = [nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=first) for first in (False, True)]
graphs = []
for layer, title in zip(layers, ("norms behind", "norms before")):
    with tt.record() as graph_of_layer:
        layer(x)
    graph_of_layer.title = title
    graphs.append(graph_of_layer)

gallery.show("compared", tt.compare(*graphs))

# %%
gallery.show("backward", tt.draw(loss), backward=True)

# %%
gallery.show("saved", graph, saved=True)

# %%
loss.backward()
gallery.show("heat", graph, heat="grad", depth=3)

# %% [markdown]
# What is in memory after each op, and what takes the time:

# %%
gallery.show("memory", graph.memory())

# %%
gallery.show("timeline", graph.timeline(repeat=3))

# %% [markdown]
# A page to look around in; click a module to open it:

# %%
gallery.show("explore.html", graph, save=graph.explore)

# %% [markdown]
# The backward pass as a film; the arrow keys step through it:

# %%
gallery.show("film.html", graph)

# %% [markdown]
# ## An error
#
# `tt.explain_errors` draws what led to it, the failing op in red:

# %%
try:
    with tt.explain_errors("error.svg") as graph:
        tt.exp(tt.ones((2, 3))) @ tt.ones((4, 5))
except ValueError as error:
    print(error)

# %% [markdown]
# ## The report card of an op
#
# [Your own op](your-own-op.md) tells of every line.


# %%
@tt.op(x=lambda xp, g, out: g * (1 - out * out))
def squash(xp, x):
    """The hyperbolic tangent."""
    return xp.tanh(x)


gallery.show("card.html", report(squash))
