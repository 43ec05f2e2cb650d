# %% [markdown]
# # 8. Context
#
# "it" is one row of the embedding, whatever it stands for. French wants to know: "la" for a box, "le" for a drawer. And
# "her" is "sa" before a chair that is hers, and "lui" where she is shown one. A word's vector has to take in the words
# around it, which is what self-attention is for (Vaswani et al. 2017, section 3.2.3). Their Figures 3 to 5 show it at
# work in a large translator. Here are the same three figures from a model of our own.

# %%
from itertools import islice

import numpy as np

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer, Translator
from tinytensor.models.data.batch import PAD
from tinytensor.models.data.languages import ToyText, TranslationTask, context_pairs
from tinytensor.models.scripts.lesson import Lesson
from tinytensor.models.training.schedules import adam
from tinytensor.nn import functional as F
from tinytensor.nn import visualize

lesson = Lesson("08_context")

# %% [markdown]
# ## Sentences that need their context
#
# The toy languages have such sentences of four kinds: with "it", with a relative clause (French says "vendue" of a
# house and "vendu" of a phone that was sold), with "her" before what is hers, and with "her" as the one who is given
# it. Each is built from what it means, so that the French, and which word says what, is known
# ([context.py](../../models/data/languages/context.py)).

# %%
tt.speed_up()
for pair in islice(context_pairs("en-fr", "shown", held_out=False), 8):
    print(*pair.source, " -> ", *pair.target)

# %% [markdown]
# ## A translator
#
# One layer of encoder and one of decoder, so that there is a single look to be drawn and not a chain of them. Some
# pairs of a verb or an adjective and its noun are kept for testing, as everywhere in the toy languages.
#
# The loss has a second term. The first is the translator's usual one. Were it alone, the decoder could find the box for
# itself when it comes to "ouverte", in the French that it has written, and nobody would need the encoder's "it": in
# models trained that way, what "it" looks at differs from seed to seed. The second term asks the encoder alone for the
# French word that each English word is aligned with: "la" of "it", "vendue" of "sold", "sa" of "her". To know that, a
# word has to look around.


# %%
def words_of(pairs, task, shape):
    found = np.full(shape, PAD)
    for row, pair in enumerate(pairs):
        french = task.target.ids(pair.target)
        for english_at, french_at in sorted(pair.alignment):
            found[row, english_at] = french[french_at]
    return found


def cross_entropy(logits, target):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), tt.asarray(target).reshape(-1), ignore_index=PAD)


def train(model, steps=400, size=64):
    endless = context_pairs("en-fr", "training", held_out=False)
    optimizer, schedule = adam(model, "cosine", 4e-3, 60, steps)
    for step in range(1, steps + 1):
        pairs = list(islice(endless, size))
        batch = task.make_batch(pairs)
        memory, padding = model.encode(batch.source)
        loss = cross_entropy(model.decode(batch.target_in, memory, padding), batch.target_out)
        loss = loss + cross_entropy(model.projection(memory), words_of(pairs, task, batch.source.shape))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)


task = TranslationTask("en-fr")
sizes = {"d_model": 64, "num_heads": 4, "num_layers": 1, "d_ff": 256, "dropout": 0.0, "max_length": 32}


def translator_of(seed):
    tt.manual_seed(seed)
    model = Transformer(len(task.source), len(task.target), norm_first=True, tie_weights=True, **sizes)
    return Translator(lesson.trained(model, train), ToyText("en-fr"))


translator = translator_of(1)
unseen = list(islice(context_pairs("en-fr", "test", held_out=True), 300))
answers = translator.translate([" ".join(pair.source) for pair in unseen], num_beams=1)
exact = [tuple(task.target.tokens(best.ids)) == pair.target for (best,), pair in zip(answers, unseen)]
lesson.number("exact match on unseen sentences", np.mean(exact), ".1%")

# %% [markdown]
# ## One word, two translations
#
# Each of these pairs of sentences differs in a word, and French in another. How much did the word look at the noun?

# %%
questions = {
    "it, of a box": ("the woman finds a box in the garden and closes it.", "it", "box", "la ferme"),
    "it, of a bag": ("the woman finds a bag in the garden and closes it.", "it", "bag", "le ferme"),
    "sold, of a house": ("Marie watched the house that Paul sold.", "sold", "house", "vendue."),
    "sold, of a phone": ("Marie watched the phone that Paul sold.", "sold", "phone", "vendu."),
    "her, of what is hers": ("Paul sold her chair.", "her", "chair", "sa chaise"),
    "her, who is given": ("Paul gave her a chair.", "her", "chair", "lui a donné"),
}


def ask(translator):
    texts, seen, looks = {}, {}, {}
    for name, (line, word, noun, _) in questions.items():
        ((best,),) = translator.translate([line], num_beams=1)
        texts[name], seen[name] = best.text, translator.sentence_attention(line, best)
        weights = seen[name].layers["encoder"][0].weights[0]  # (head, query, key)
        looks[name] = weights[:, seen[name].find("encoder", word), seen[name].source.index(noun)]
    return texts, seen, looks


def right(texts):
    return sum(expected in texts[name] for name, (_, _, _, expected) in questions.items())


texts, seen, looks = ask(translator)
for name, (line, word, noun, _) in questions.items():
    print(f"{line} -> {texts[name]}   {word} to {noun}, by heads: {looks[name].round(2)}")
lesson.number("translated as the context asks, of 6", right(texts), ".0f")
for name in ("it, of a box", "sold, of a house", "her, of what is hers"):
    lesson.number(f"{name}: the noun's weight in the best head", looks[name].max())

# %% [markdown]
# Evenly shared, a weight would be one in thirteen words and marks, 0.08; in the shortest sentences 0.17. So "it" looked
# at the box. But look at the phone: "vendu" is right, and no head of "sold" has cared for it. Must a word be looked at?
# Two more translators, which differ from this one in their random weights alone:

# %%
nouns = {seed: {} for seed in (1, 2, 4)}
translated = 0
for seed in nouns:
    texts, _, weights = ask(translator if seed == 1 else translator_of(seed))
    translated += right(texts)
    for name in list(questions)[:4]:
        nouns[seed][questions[name][2]] = weights[name].max()
    print(f"seed {seed}, best head:", {noun: round(float(weight), 2) for noun, weight in nouns[seed].items()})
lesson.number("three seeds: translated as the context asks, of 18", translated, ".0f")
pairs = [(looked[a], looked[b]) for looked in nouns.values() for a, b in (("box", "bag"), ("house", "phone"))]
lesson.number("three seeds: the noun of a pair that is looked at more, least weight", min(map(max, pairs)))
lesson.number("three seeds: the noun that is looked at less, least weight", min(map(min, pairs)))

# %% [markdown]
# All are translated rightly, and it is not always both nouns of a pair that are looked at. A box must be told from a
# bag, so the weights have to differ somewhere, and of each pair at least one noun is looked at. The other need not be:
# where nothing feminine was seen, French says "le" and "vendu". So a weight that is there says what a word found; one
# that is not there does not say that the word knows nothing. Which head looks is chance as well.
#
# ## The paper's Figures 3 to 5
#
# Figure 3 shows all heads of one word, "making", with "more difficult" far from it. Ours is "sold", whose form depends
# on a noun on the other side of the relative clause. A line is a weight, a colour is a head:


# %%
def lines(name, word=None, heads=None):
    which, titles = seen[name], {"title": f"What “{word}” looked at" if word else f"Head {heads}, all words"}
    token = None if word is None else which.find("encoder", word)
    return visualize.attention_lines(which.layers["encoder"], which.source, token=token, heads=heads, **titles)


lesson.show("figure-3", lines("sold, of a house", "sold"))

# %% [markdown]
# Figure 4 shows what "its" refers to. Here is "it", which is a box, and "her", twice:

# %%
lesson.show("figure-4-it", lines("it, of a box", "it"))

# %%
lesson.show("figure-4-her-chair", lines("her, of what is hers", "her"))

# %%
lesson.show("figure-4-gave-her", lines("her, who is given", "her"))

# %% [markdown]
# Figure 5 shows two heads, each with a task of its own. Here are those that know best what "it" is, and what was sold:

# %%
lesson.show("figure-5-first", lines("it, of a box", heads=int(looks["it, of a box"].argmax())))

# %%
lesson.show("figure-5-second", lines("it, of a box", heads=int(looks["sold, of a house"].argmax())))

# %% [markdown]
# ## Your own sentences
#
# The translator answers while you type. Choose "encoder" as the attention and click "it": which head looks at "box"?
# Write "bag" for "box", and "la" becomes "le". Then try "Paul gave her a chair." and "Paul sold her chair."

# %%
text = questions["it, of a box"][0]
lesson.show("live.html", visualize.live(translator.model, ToyText("en-fr"), text=text, title="Your own sentences"))

# %% [markdown]
# ## What it means
#
# The article that says "a word can have a different meaning or function depending on the word itself and the words
# around it" is right, and this is how it comes about: one row of the embedding for "her", and two vectors behind the
# first layer, since what was added to it differs.
#
# What the pictures do not say: that a weight is the reason. The words of the paper are careful ("many of the heads
# exhibit behavior that seems related to the structure of the sentence"). We asked for context by the second term of
# the loss, and saw it in the weights. Without it the translations are as good, and the pictures are not.
#
# `SentenceAttention` in [sentence_attention.py](../../models/sentence_attention.py) has the weights with their words,
# of the decoder too. The translator of the whole toy language takes a few minutes to train and shows its own:
# `python examples/train_translation.py`, then `echo "Louis found a box and opened it." | python examples/translate.py
# runs/translation --attention it.svg --kind encoder --token it`.
#
# ## Try
#
# Leave the second term out (`loss = loss + ...`), and look at Figure 4 again. Then the exercises:
# `python examples/lessons/08_context.py --exercises > mine.py`, fill the holes, then `--check mine.py`.
