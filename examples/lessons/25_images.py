# %% [markdown]
# # 25. Images
#
# Attention takes a sequence of vectors. A picture has rows and columns. The Vision Transformer (ViT, Dosovitskiy et al.
# 2020) cuts it into squares and reads them like words. A convolutional network is built for pictures; what does a
# Transformer lose, or win, that does not even know which squares are neighbours?

# %%
import numpy as np

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.data.images import SIZE, digits
from tinytensor.models.image_classifier import ImageClassifier
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("25_images")

# %% [markdown]
# ## A picture is worth 25 words
#
# Our pictures are handwritten digits of 20 x 20 pixels. Squares of 4 x 4 pixels make 25 patches, row by row, of 16
# numbers each.

# %%
tt.speed_up()
images, labels = digits(12_000, seed=1)
unseen, answers = digits(1000, seed=2)
PATCH, SIDE = 4, SIZE // 4


def patches(images):
    rows = tt.asarray(images).reshape(len(images), SIDE, PATCH, SIDE, PATCH)
    return rows.permute(0, 1, 3, 2, 4).reshape(len(images), SIDE * SIDE, PATCH * PATCH)


def pictures(patches):
    rows = tt.asarray(patches).reshape(len(patches), SIDE, SIDE, PATCH, PATCH)
    return rows.permute(0, 1, 3, 2, 4).reshape(len(patches), 1, SIZE, SIZE).numpy()


one = {"a digit": images[0, 0], "its 25 patches, one a row": patches(images[:1])[0]}
lesson.show("patches", visualize.matrix(one, numbers=False, title="A picture as 25 words"))
lesson.number("scores of a head with patches of 4 x 4", (1 + SIDE * SIDE) ** 2, ".0f")
lesson.number("scores of a head with pixels", (1 + SIZE * SIZE) ** 2, ",.0f")

# %% [markdown]
# Why not a word for each pixel? The scores of attention grow with the square of the length: 160,801 for a head, where
# patches take 676.
#
# ## The model
#
# A linear map makes a vector of each patch, as an embedding does of a word; [lesson 18](18_bert_and_gpt.py) shows that
# this is a convolution. A learned vector for each position is added. In front stands one vector more that belongs to no
# patch: what the encoder makes of it says the digit. The encoder is that of the Transformer, without a change.


# %%
class VisionTransformer(nn.Module):
    def __init__(self, d_model=48):
        super().__init__()
        self.embedding = nn.Linear(PATCH * PATCH, d_model)
        self.start = nn.Parameter(tt.random.randn(1, d_model) * 0.1)
        self.positions = nn.Parameter(tt.random.randn(SIDE * SIDE, d_model) * 0.1)
        layer = nn.TransformerEncoderLayer(d_model, 4, 2 * d_model, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(d_model))
        self.head = nn.Linear(d_model, 10)

    def forward(self, images):
        x = self.embedding(patches(images)) + self.positions
        start = tt.broadcast_to(self.start, (len(x), *self.start.shape))
        return self.head(self.encoder(tt.concat([start, x], axis=1))[:, 0])


# %% [markdown]
# ## How many pictures?
#
# The Vision Transformer, and the convolutional network of
# [classify_images.py](../../examples/classify_images.py), with a third of the weights. Each takes 480 steps of 50
# pictures; once they are a thousand pictures, seen again and again, and once twelve thousand.


# %%
def train(model, images, labels):
    optimiser = nn.optim.Adam(model.parameters(), lr=2e-3)
    schedule = nn.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=480)
    random = np.random.default_rng(0)
    for _ in range(24_000 // len(images)):
        for rows in random.permutation(len(images)).reshape(-1, 50):
            loss = F.cross_entropy(model(tt.asarray(images[rows])), tt.asarray(labels[rows]))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return model.eval()


def mistakes(model, images):
    with tt.no_grad():
        return np.mean(model(tt.asarray(images)).argmax(axis=1).numpy() != answers)


KINDS = {"Transformer": VisionTransformer, "convolutions": lambda: ImageClassifier(SIZE)}
trained = {}
for name, make in KINDS.items():
    for count in (1000, 12_000):
        tt.manual_seed(0)
        trained[name] = train(make(), images[:count], labels[:count])
        lesson.number(f"{name}, {count:,} pictures: mistakes", mistakes(trained[name], unseen), ".1%")
    lesson.number(f"{name}: weights", sum(each.size for each in trained[name].parameters()), ",.0f")

# %% [markdown]
# The convolutional network needs a thousand pictures. It is built so that a stroke is a stroke wherever it is, and that
# pixels side by side belong together. The Transformer has to find that out, and gets better with more pictures. The
# paper has the same at another scale: with a million pictures convolutions are better, with 300 million the
# Transformer.
#
# ## Who knows its neighbours?
#
# Put the patches into another order, always the same one. To us nothing is left of a digit. Move the Transformer's
# vectors of positions along, and it does not notice: it is the same sum, in another order. The convolutional network
# has no such vectors; it can only learn anew, and does worse.

# %%
order = np.random.default_rng(3).permutation(SIDE * SIDE)
moved, moved_unseen = (pictures(patches(each)[:, order]) for each in (images, unseen))
vit = trained["Transformer"]
with tt.no_grad():
    plain = vit(unseen)
    vit.positions[:] = vit.positions[order]
    lesson.number("Transformer, patches and positions moved: difference", abs(vit(moved_unseen) - plain).max(), ".0e")
    vit.positions[:] = vit.positions[np.argsort(order)]
tt.manual_seed(0)
anew = train(ImageClassifier(SIZE), moved, labels)
lesson.number("convolutions, patches moved, learned anew: mistakes", mistakes(anew, moved_unseen), ".1%")
two = {"a digit": images[0, 0], "the same for the Transformer": moved[0, 0]}
lesson.show("moved", visualize.matrix(two, numbers=False, title="Patches in another order"))

# %% [markdown]
# ## Where does it look?
#
# The vector in front looks at all patches, and its weights are a map over the picture. Here is the mean of the heads,
# in the first layer, number 0, and in the last, number 1; each map has its largest weight as 1.

# %%
with tt.no_grad(), nn.cache(vit, "*.weights") as values:
    vit(unseen)
looks = [weights.numpy()[:, :, 0, 1:].mean(axis=1) for weights in values.values()]
shown = [int(np.argmax(answers == digit)) for digit in (2, 4, 5, 8)]
maps = {f"a {answers[i]}": unseen[i, 0] for i in shown}
for name, look in zip(("first", "last"), looks):
    squares = pictures((look / look.max(axis=1, keepdims=True))[:, :, None].repeat(PATCH**2, axis=2))
    maps |= {f"{answers[i]}: {name} layer": squares[i, 0] for i in shown}
lesson.show("looks", visualize.matrix(maps, numbers=False, title="Four digits, and where the Transformer looks"))

# %% [markdown]
# A weight is no proof. So make five of the 25 patches white: those that it looks at most, or those it looks at least.


# %%
def without(places):
    left = patches(unseen).numpy().copy()
    np.put_along_axis(left, places[:, :, None], 0.0, axis=1)
    return mistakes(vit, pictures(left))


measures = {"ink": patches(unseen).numpy().mean(axis=2), "weight of layer 0": looks[0], "weight of layer 1": looks[1]}
for name, measure in measures.items():
    order = np.argsort(-measure, axis=1)
    lesson.number(f"without five patches with most {name}: mistakes", without(order[:, :5]), ".1%")
    lesson.number(f"without five patches with least {name}: mistakes", without(order[:, -5:]), ".1%")

# %% [markdown]
# Patches without ink do no harm, as it should be. The first layer's weights are nearly as good a measure: it is lost
# without the patches it looks at most, and does far better without the others. The last layer's are hardly one. There
# a patch's vector holds much that came from other patches, so where the last layer looks is not where it is from. Maps
# of last layers are often printed as what a model sees.
#
# ## What it means
#
# A Transformer takes whatever can be cut into pieces, and knows nothing about how they lie but what it has learned.
# That costs pictures, and it buys one model for text, pictures and sound.
#
# The convolutional network is in [image_classifier.py](../../models/image_classifier.py), the digits in
# [images.py](../../models/data/images.py), the encoder in [transformer.py](../../nn/transformer.py).
#
# ## Try
#
# Leave the positions out, and it still reads far more than one digit of ten: from what? Then the exercises:
# `python examples/lessons/25_images.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
