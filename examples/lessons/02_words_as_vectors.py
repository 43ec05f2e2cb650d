# %% [markdown]
# # 2. Words as vectors
#
# A dot product compares vectors. Words are not vectors. How does a word become one, and why should two words that mean
# something similar get similar vectors?

# %%
from itertools import islice

import numpy as np

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.data.languages import Vocabulary, pairs
from tinytensor.models.data.languages.lexicon import ADJECTIVES
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("02_words_as_vectors")
tt.speed_up()
french, english = Vocabulary("fr"), Vocabulary("en")

# %% [markdown]
# ## One-hot times W is a look-up
#
# Number the words. Word i as a vector is 0 everywhere except for a 1 at index i: one-hot. All such vectors are equally
# far apart, so no two words are similar. A matrix W with a row for each word makes short vectors of them, and since all
# other rows are multiplied by 0, x W is just row i. `nn.Embedding` keeps W and takes the rows:

# %%
tt.manual_seed(0)
table = nn.Embedding(len(french), 64)
sentence = french.ids(["le", "chat", "noir", "dort", "."])
product = tt.one_hot(tt.asarray(sentence), len(french)) @ table.weight
lesson.number("one-hot times W against the look-up: largest difference", abs(product - table(sentence)).max())
lesson.number("multiplications for a word, one-hot", len(french) * 64, ",.0f")

# %% [markdown]
# ## Known by its neighbours
#
# The rows of W begin as random numbers and are learned. From what? From text: words that occur next to the same words
# get similar vectors. Skip-gram, one of the two models of *word2vec* (Mikolov et al. 2013, equations 1 and 2), makes
# each word predict its neighbours:
#
# $$\text{maximise} \sum_{w,\, c} \log \, p(c \mid w), \qquad
# p(c \mid w) = \frac{e^{x_w \cdot y_c}}{\sum_k e^{x_w \cdot y_k}}$$
#
# It is dot products and a softmax, as attention will be. Our text is 10,000 toy sentences in French. A word's
# neighbours are the two before it and the two behind it; `translated` adds, for later, the English words that it
# translates.

# %%
text = list(islice(pairs("en-fr", "lesson 2", held_out=False), 10_000))


def count(translated):
    counts = np.zeros((len(french), len(french) + len(english)), np.float32)
    for pair in text:
        ids = np.array(french.ids(pair.target))
        for distance in (1, 2):
            np.add.at(counts, (ids[distance:], ids[:-distance]), 1)
            np.add.at(counts, (ids[:-distance], ids[distance:]), 1)
        if translated:
            source, target = np.array(sorted(pair.alignment)).T
            np.add.at(counts, (ids[target], len(french) + np.array(english.ids(pair.source))[source]), 1)
    return counts


# %% [markdown]
# The sum over all pairs needs to know only how often each pair occurs. So one product of two tables gives all x_w · y_c
# at once, and sixty steps over the whole text take a second:


# %%
def learn(counts):
    tt.manual_seed(0)
    words = nn.Embedding(len(french), 64)
    neighbours = nn.Linear(64, counts.shape[1], bias=False)
    nn.init.normal_(words.weight, std=0.1)
    optimizer = nn.optim.Adam([*words.parameters(), *neighbours.parameters()], lr=0.02)
    share = tt.asarray(counts / counts.sum())
    for _ in range(60):
        loss = -(share * F.log_softmax(neighbours(words.weight), dim=-1)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x = words.weight.detach()
    return x / tt.linalg.vector_norm(x, axis=1, keepdims=True), neighbours(x).detach().numpy()


def like(x, vector, *without):
    near = x @ vector
    near[french.ids(without)] = -tt.inf
    return [french.words[i] for i in tt.argsort(near, descending=True).tolist()]


counts = count(translated=False)
alone, products = learn(counts)
for word in ("noire", "chat", "mange"):
    print(word, "is like", ", ".join(like(alone, alone[french.ids([word])[0]], word)[:5]))

# %% [markdown]
# *GloVe* (Pennington et al. 2014) does not predict: it fits x_w · y_c, and a bias of each word, to the logarithm of how
# often w and c stand side by side, by least squares. Skip-gram ends near the same. Here are its products and those
# logarithms, for pairs that occur ten times and more, each less its mean over the word's neighbours:

# %%
often = counts >= 10


def apart(x):
    return (x - (x * often).sum(axis=1, keepdims=True) / np.maximum(often.sum(axis=1, keepdims=True), 1))[often]


alike = np.corrcoef(apart(products), apart(np.log(np.maximum(counts, 1))))[0, 1]
lesson.number("skip-gram's products and GloVe's logarithms: correlation", alike, ".2f")

# %% [markdown]
# Tables of vectors that others trained so on billions of words are text files, a word and its numbers in each line:
# `nn.Embedding.from_pretrained` takes the numbers.
#
# ## Analogies
#
# If the way from "noir" to "noire" is the way from masculine to feminine, then noire − noir + vert should be near
# "verte". 25 adjectives have two forms, which makes 600 such questions:

# %%
forms = [adjective.french[:2] for adjective in ADJECTIVES if len(set(adjective.french[:2])) == 2]
feminine = {she for _, she in forms}


def answer(x, plus, minus, other):
    a, b, c = (x[i] for i in french.ids([plus, minus, other]))
    return like(x, a - b + c, plus, minus, other)


def ask(name, x):
    given = [(answer(x, she, he, to)[0], asked) for he, she in forms for to, asked in forms if he != to]
    lesson.number(f"right answers, {name}", np.mean([a == b for a, b in given]), ".1%")
    lesson.number(f"some feminine adjective, {name}", np.mean([a in feminine for a, _ in given]), ".1%")


ask("French alone", alone)

# %% [markdown]
# Most answers are feminine adjectives, and few are the right one. That is not a failure of skip-gram: in this text
# whatever is green may be black, so nothing tells one colour from another but their form. The vectors know what the
# text knows. Now let each word predict its English word too, in which noir and noire are one, black:

# %%
both, _ = learn(count(translated=True))
ask("with translations", both)
lesson.number("noire − noir + vert: rank of verte", answer(both, "noire", "noir", "vert").index("verte") + 1, ".0f")

# %% [markdown]
# ## A probe for a meaning
#
# Does a vector have "feminine" in it? Take a direction, feminine minus masculine, from one half of the adjectives, and
# project the other half on it: a dot product each. That is what W^Q and W^K do in [lesson 3](03_one_query_by_hand.py),
# one such direction for each of their columns, and learned. A second direction, plural minus singular, and words stand
# in a plane:

# %%
known, unknown = forms[::2], forms[1::2]


def direction(x, ends):
    return sum(x[french.ids([b])[0]] - x[french.ids([a])[0]] for a, b in ends) / len(ends)


gender = both @ direction(both, known)
plural = both @ direction(both, [(he, he + "s") for he, _ in known if he + "s" in french.words])
he, she = (gender[french.ids(side)].numpy() for side in zip(*unknown))
lesson.number("pairs of the other half in which the feminine is more feminine", np.mean(she > he), ".0%")
shown = [w + s for pair in unknown if pair[0] in ("noir", "bleu", "petit") for w in pair for s in ("", "s")]
places = {word: (gender[i].item(), plural[i].item()) for word, i in zip(shown, french.ids(shown))}
labels = {"x_label": "feminine", "y_label": "plural"}
lesson.show("plane", visualize.vectors(places, arrows=False, title="Words in a plane", **labels))

# %% [markdown]
# Both directions were found in other words, and hold for these. But along "feminine" only singulars are apart. The
# direction was made of singulars, which follow "le" or "la", "un" or "une"; before a plural French says "les", "des"
# and "mes" to both. A probe finds what its examples had in common, and that need not be all of a meaning.
#
# ## And the queen?
#
# The famous example is king − man + woman = queen, and an article asks whether one could query a vector for "royal".
# In our French it seems to work. Then try it without a king:

# %%
for person in ("roi", "chanteur", "médecin"):
    rank = answer(alone, person, "homme", "femme").index("reine") + 1
    lesson.number(f"{person} − homme + femme: rank of reine", rank, ".0f")
royal = direction(alone, [("homme", "roi")])
lesson.number("projected on roi − homme: rank of reine", like(alone, royal, "roi").index("reine") + 1, ".0f")

# %% [markdown]
# A singer and a doctor lead to the queen as well as a king does: she is where any woman is of whom the same is said.
# And a probe for "royal" does not find her among 666 words, since in this text kings and queens do nothing that others
# do not. An analogy that comes out right is one example, and no proof: ask it where it should fail as well.
#
# ## What it means
#
# A word becomes a vector by training, and its vector holds what predicts its neighbours. A Transformer learns its W in
# the same way, by predicting words; the gradient of a look-up reaches only the rows that were looked up. But each word
# has one vector, whatever its sentence. That is what attention changes, from the next lesson on.
#
# `embedding` in [nn/functional/embedding.py](../../nn/functional/embedding.py) is the look-up and its gradient, and the
# toy sentences come from [models/data/languages](../../models/data/languages/pairs.py).
#
# ## Try
#
# `like(both, direction(both, [("mange", "mangé")]))[:9]`: what do the words on the way to a past have in common?
# And the parallelogram: `m, k, w, q = (alone[i] for i in french.ids(["homme", "roi", "femme", "reine"]))` in the plane
# of `axes = tt.linalg.qr(tt.stack([w - m, k - m], axis=1))[0]` are points for `visualize.vectors`, whose `ways` draw
# arrows between them. Its fourth corner, `(k - m + w) @ axes`, is empty: the queen is next to the woman. The exercises:
# `python examples/lessons/02_words_as_vectors.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
