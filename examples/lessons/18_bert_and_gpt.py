# %% [markdown]
# # 18. From here to BERT and GPT
#
# The Transformer has an encoder, in which every word sees every other, and a decoder, in which a word sees those before
# it. Two models of 2018 took one of the two each and left the other out: BERT (Devlin et al. 2018) the encoder, GPT
# (Radford et al. 2018) the decoder, without its look at another sentence. Articles on attention end with a promise to
# come to them. With the same layers, what is left of the difference? A mask, and what is asked.

# %%
from itertools import islice

import numpy as np

import tinytensor as tt
from tinytensor import models, nn
from tinytensor.models.data.batch import BOS, PAD, padded
from tinytensor.models.data.languages import TranslationTask, context_pairs, written
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("18_bert_and_gpt")

# %% [markdown]
# ## Who sees whom
#
# A row is a word that looks, a column a word that is looked at; dark is seen. The Transformer of [lesson
# 15](15_the_transformer.py) is the third: English sees all of the English, French sees that as well, and the French
# before it. Its encoder, its cross-attention and its decoder are three corners of one mask.

# %%
tt.speed_up()
tt.manual_seed(0)
words = ["the", "cat", "eats", ".", "le", "chat", "mange", "."]
seen = {"BERT": tt.ones((8, 8)), "GPT": tt.tril(tt.ones((8, 8)))}
seen["Transformer"] = tt.concat([tt.concat([tt.ones((8, 4)), tt.zeros((8, 4))], axis=1)[:4], seen["GPT"][4:]])
lesson.show("masks", visualize.matrix(seen, rows=words, columns=words, numbers=False, title="Who sees whom"))

# %% [markdown]
# ## Two models of the same layers
#
# [`models.Encoder`](../../models/encoder.py) is BERT, [`models.LanguageModel`](../../models/language_model.py) is GPT.
# Both have embeddings, a vector for each position, here two layers of self-attention and feed-forward, and the
# embeddings once more as the final projection: the score of a word is a dot product with its own vector (Press and Wolf
# 2017, *tied embeddings*). A layer of GPT is a decoder layer of the Transformer with cross-attention taken out, and
# what remains is an encoder layer with a causal mask. Does that hold to the number? Here both get the same weights, and
# the same GELU:

# %%
task = TranslationTask("en-fr")
MASK = len(task.source)  # one more id, behind all words
bert = models.Encoder(MASK + 1, d_model=64, num_heads=4, num_layers=2, dropout=0.0, max_length=32, norm_first=True)
END = task.source.ids(["."])[0]
gpt = models.LanguageModel(MASK, d_model=64, num_heads=4, num_layers=2, max_length=32, eos_id=END)


def in_gpts_words(path):
    """The name in GPT's model of a weight of BERT's encoder, whose names are PyTorch's."""
    for theirs, ours in {"in_proj_": "in_proj.", "linear1": "feed_forward.up", "linear2": "feed_forward.down"}.items():
        path = path.replace(theirs, ours)
    return path


of_bert = bert.encoder.layers[0]
of_gpt = models.LanguageModel(9, d_model=64, num_heads=4, num_layers=1, activation="gelu").layers[0]
of_gpt.load_state_dict({in_gpts_words(path): weight for path, weight in of_bert.state_dict().items()})
x, mask = tt.random.randn(1, 8, 64), F.causal_mask(8)
apart = abs(of_bert(x, src_mask=mask) - of_gpt(x, mask, None)).max()
lesson.number("a layer of BERT with a causal mask and one of GPT: difference", apart, ".0e")

# %% [markdown]
# ## What is asked
#
# The text is the English of [lesson 8](08_context.py), without its translation. BERT is given a sentence in which
# 15 % of the words are hidden, and says those (the paper hides eight of ten so, swaps one for another word, and leaves
# one). GPT says of each word which comes next. Nobody has to write the answers: any text has them, and that is why both
# grew.


# %%
rng = np.random.default_rng(0)


def hide(ids):
    hidden = (rng.random(ids.shape) < 0.15) & (ids > BOS)
    return np.where(hidden, MASK, ids), np.where(hidden, ids, PAD)


def next_words(ids):
    return ids[:, :-1], ids[:, 1:]


def learn(model, question):
    optimizer = nn.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for batch in batches:
        ids, target = question(batch)
        logits = model(ids)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def batch_of(pairs):
    return padded([[BOS, *task.source.ids(pair.source)] for pair in pairs])


training = context_pairs("en-fr", "training", held_out=False)
batches = [batch_of(islice(training, 64)) for _ in range(300)]
losses = {"BERT, hidden words": learn(bert, hide), "GPT, next words": learn(gpt, next_words)}
lesson.show("losses", visualize.curves(losses, title="Two questions, the same layers", x_label="step", y_label="loss"))

# %% [markdown]
# ## What they learned
#
# Sentences of the test have combinations of words that training never shows. Somebody who knows nothing but how often
# each word occurs would always say the most frequent one. Nobody finds all of them: which name was hidden?

# %%
test = batch_of(islice(context_pairs("en-fr", "test", held_out=True), 500))


@tt.no_grad()
def weights_of(model, ids):
    return F.softmax(model(ids), dim=-1).numpy()


for name, model, question in (("hidden words", bert, hide), ("next words", gpt, next_words)):
    ids, target = question(test)
    said, asked = weights_of(model, ids).argmax(axis=-1)[target != PAD], target[target != PAD]
    lesson.number(f"{name}: found", (said == asked).mean(), ".1%")
    lesson.number(f"{name}: the most frequent word", (asked == np.bincount(asked).argmax()).mean(), ".1%")

# %% [markdown]
# BERT fills gaps. It knows what kind of word is missing, from the words on both sides:

# %%
for line in ("Paul gave ? a book .", "Emma opens a bag ? closes it .", "Emma bought the carrot and ? it ."):
    ids = [[BOS, *(MASK if word == "?" else task.source.ids([word])[0] for word in line.split())]]
    weights = weights_of(bert, ids)[0, ids[0].index(MASK)]
    print(line, " ? is", ", ".join(f"{task.source.words[i]} {weights[i]:.0%}" for i in weights.argsort()[:-5:-1]))

# %% [markdown]
# GPT continues a text. `generate` draws each word from what the model says comes next, and reads it with the others.
# Keys and values of words that were read are kept: the mask says that no later word can change them.

# %%
for ids in gpt.generate([[BOS]] * 6, 20, temperature=1.0).tolist():
    print(written(task.source.tokens(ids), "en"))

# %% [markdown]
# ## A word that comes later
#
# Two sentences that differ in their last noun. Does anything change in what a model says of the words before it? Two
# rows of one product may be rounded differently, so a change is what is far above the rounding of 32 bits.

# %%
both = [[BOS, *task.source.ids(f"the woman opened the {noun} .".split())] for noun in ("box", "bag")]
for name, model in {"BERT": bert, "GPT": gpt}.items():
    first, second = weights_of(model, both)[:, :5]
    lesson.number(
        f"{name}: words before the noun whose answer changes", (abs(first - second).max(axis=-1) > 1e-5).sum(), ".0f"
    )

# %% [markdown]
# ## The mask as a lever
#
# A Transformer that writes words backwards has both: an encoder that reads like BERT, and a decoder that writes like
# GPT, one letter after another. Choose "decoder" as the attention and clear the box "mask": every letter sees every
# other, as in the maps of "encoder". But the decoder learned to write with the mask. Type "encoder", "position" and
# "attention": not all come out right now.

# %%
lesson.show("live.html", visualize.live(*lesson.letters_backwards(), text="transformer", title="GPT's mask as a lever"))

# %% [markdown]
# ## What it means
#
# A causal mask makes of the encoder something that can write. Without one it knows both sides of a gap, and cannot
# write: what follows would have to be known first. The two questions differ, so the two shares above are not a contest.
#
# It does not have to be words. A vision transformer (ViT, Dosovitskiy et al. 2020) cuts a picture into squares and
# reads them as BERT reads words: instead of the look-up, one matrix for all squares, which is a convolution whose
# kernel is as large as its step. Of 224 × 224 pixels in three colours it makes 196 positions:

# %%
picture, side = tt.random.randn(1, 3, 224, 224), 16
look_up = nn.Conv2d(3, 64, kernel_size=side, stride=side, bias=False)
squares = picture.reshape(3, 14, side, 14, side).permute(1, 3, 0, 2, 4).reshape(196, 3 * side * side)
positions = look_up(picture)[0].reshape(64, 196).T
apart = abs(squares @ look_up.weight.reshape(64, -1).T - positions).max()
lesson.number("squares times a matrix, and a convolution: largest difference", apart, ".0e")
lesson.number("positions of a picture", len(positions), ".0f")

# %% [markdown]
# Not all of the rest is size. BERT and the first GPT have the norm behind the sum, as the Transformer; the two models
# here have it before ([lesson 13](13_residual_and_norm.py)). BERT reads two sentences at once: [CLS] is in front of
# them, a vector of its segment is added to each word, and a second question is asked, whether the second sentence
# follows the first. Both learn their positions, where the Transformer computes them, and have GELU for ReLU. BERT-base,
# like the first GPT, has 12 layers, 12 heads and d_model 768, where this has 2, 4 and 64. What came after them is
# [lesson 20](20_since_2017.py).
#
# `causal_mask` is in [masks.py](../../nn/functional/masks.py). Both models, trained longer and with more to look at,
# are `examples/train_masked_words.py` and `examples/train_language_model.py` ([Language
# models](../../docs/language-models.md)).
#
# ## Try
#
# Hide half of the words instead of 15 %. Then the exercises:
# `python examples/lessons/18_bert_and_gpt.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
