# %% [markdown]
# # 23. Tokens
#
# A model reads numbers, so a text is cut into pieces, and each kind of piece has a number. Lessons before this one took
# words or letters. No large model does either. It takes *subwords*, and finds them by counting: byte-pair encoding
# (Sennrich et al. 2016, section 3.2). What do words and letters lack, how are subwords found, and what does a model see
# of a rare word, or of a number?

# %%
import re
from collections import Counter
from itertools import pairwise
from pydoc_data.topics import topics

import numpy as np

from tinytensor.models.scripts.lesson import Lesson
from tinytensor.nn import visualize

lesson = Lesson("23_tokens")

# %% [markdown]
# ## Words, or letters?
#
# Our text is one that every Python brings along: the handbook that `help("LOOPING")` shows. Every second topic is read,
# the others are unseen. In small letters, words and numbers alone, each with a sign in front for its space.


# %%
def words_of(names):
    text = " ".join(topics[name] for name in names).lower()
    return ["▁" + word for word in re.findall(r"[a-z]+|\d+", text)]


read, unseen = words_of(sorted(topics)[0::2]), words_of(sorted(topics)[1::2])
vocabulary, letters = set(read), set("".join(read))
lesson.number("unseen words that were never read", np.mean([word not in vocabulary for word in unseen]), ".1%")
lesson.number("unseen letters that were never read", np.mean([c not in letters for c in "".join(unseen)]), ".1%")
lesson.number("letters of a word", np.mean([len(word) for word in unseen]), ".2f")

# %% [markdown]
# With words as tokens, one word in twenty has no number: all a model gets is "unknown", and it can never say one of
# them. With letters nothing is unknown, and the text becomes nearly six times as long, which costs attention some
# thirty times as many scores. Is there something between?
#
# ## Byte pairs by hand
#
# Begin with letters. Count which two pieces stand side by side most often, make one piece of them, and count again. A
# small text, with the number of times that each word is in it:


# %%
def pairs_of(words):
    counts = Counter()
    for pieces, times in words.items():
        for pair in pairwise(pieces):
            counts[pair] += times
    return counts


small = {tuple(word): times for word, times in {"▁old": 5, "▁older": 3, "▁cold": 6, "▁slower": 2}.items()}
counts = pairs_of(small)
signs = sorted({sign for word in small for sign in word})
table = np.array([[counts[first, second] for second in signs] for first in signs], dtype=float)
lesson.show(
    "pairs", visualize.matrix(table, rows=signs, columns=signs, title="How often: first (row), second (column)")
)

# %% [markdown]
# "old" is 5 + 3 + 6 times in the text, so "l d" counts 14, and so does "o l". Of equals we take the first in the
# alphabet. Then "o ld" counts 14, and so on. What is learned is the list of merges, in their order.


# %%
def merged(pieces, pair):
    found = []
    for piece in pieces:
        if found and (found[-1], piece) == pair:
            found[-1] += piece
        else:
            found.append(piece)
    return tuple(found)


def learn(words, count):
    merges, often = [], []
    for _ in range(count):
        counts = pairs_of(words)
        pair = max(sorted(counts), key=counts.get)
        merges.append(pair)
        often.append(counts[pair])
        words = {merged(pieces, pair): times for pieces, times in words.items()}
    return merges, often


def cut(word, merges):
    pieces = tuple(word)
    for pair in merges:
        pieces = merged(pieces, pair)
    return pieces


by_hand, often = learn(small, 6)
for place, (first, second) in enumerate(by_hand):
    print(f"{first} + {second} = {first + second}")
    lesson.number(f"how often there is the pair of merge {place + 1}", often[place], ".0f")
for word in ("cold", "colder", "slow"):
    print(*cut(f"▁{word}", by_hand))
    lesson.number(f"pieces of {word}", len(cut(f"▁{word}", by_hand)), ".0f")

# %% [markdown]
# "colder" was never in the text. It has two pieces, and both were: "▁cold" in "cold", "er" in "older" and "slower". So
# a model knows something about it before it meets it. "slow" is still cut into letters, as is all that is rare.
#
# ## Length against vocabulary
#
# The same on the handbook, with 600 merges. Each merge adds a row to the table of embeddings and makes the text
# shorter; the first ones by much.

# %%
merges, _ = learn({tuple(word): times for word, times in Counter(read).items()}, 600)
steps, lengths, bits = [0, 10, 30, 100, 300, 600], {"read": [], "unseen": []}, []
for count in steps:
    for name, text in {"read": read, "unseen": unseen}.items():
        pieces_of = {word: cut(word, merges[:count]) for word in set(text)}
        pieces = Counter(piece for word in text for piece in pieces_of[word])
        lengths[name].append(pieces.total() / len(text))
    bits.append(-sum(n * np.log2(n / pieces.total()) for n in pieces.values()) / pieces.total())
for count in (100, 600):
    lesson.number(f"tokens of an unseen word, {count} merges", lengths["unseen"][steps.index(count)], ".2f")
lesson.number("letters and merges: the vocabulary", len(letters) + len(merges), ".0f")
shorter = lengths["unseen"][0] / lengths["unseen"][-1]
lesson.number("as many scores of attention with letters: times", shorter**2, ".1f")
curves = {name: (np.array(steps) + len(letters), length) for name, length in lengths.items()}
lesson.show("length", visualize.curves(curves, title="Tokens of a word", x_label="vocabulary", log_x=True))

# %% [markdown]
# Beware of comparing losses. Whoever guesses the next token by its frequency alone needs more bits with longer tokens,
# since there are more to choose from, and fewer for a letter, since each says more. Between two tokenizers only the
# loss for a letter (or a byte) tells which model is better.

# %%
lesson.number("bits for a letter, which is a token", bits[0], ".2f")
lesson.number("bits for a token of 600 merges", bits[-1], ".2f")
lesson.number("bits for a letter of it", bits[-1] / shorter, ".2f")

# %% [markdown]
# ## A rare word
#
# Frequent words are one token. A rare one is several, although it may be short, and one that was never read some more.

# %%
frequency = Counter(read)
kinds = {"a hundred times and more": [word for word in vocabulary if frequency[word] >= 100]}
kinds |= {"once": [word for word in vocabulary if frequency[word] == 1], "never": set(unseen) - vocabulary}
for name, words in kinds.items():
    lesson.number(f"tokens of words read {name}", np.mean([len(cut(word, merges)) for word in words]), ".2f")

# %% [markdown]
# And letters are gone: a piece is a number, and nothing in it says how it is spelt. Ask a model how many r are in
# "strawberry", and it has to know by heart which of the tokens it reads have one, for each of those that there are:

# %%
tokens = letters | {first + second for first, second in merges}
print(*cut("▁strawberry", merges))
lesson.number("tokens with an r in them", sum("r" in token for token in tokens), ".0f")

# %% [markdown]
# ## A number
#
# Numbers are cut like words, by how often they were read:

# %%
for number in (3, 10, 255, 2017):
    print(number, *cut(f"▁{number}", merges))
lengths_of = [len(cut(f"▁{number}", merges)) for number in range(1000)]
lesson.number("numbers below 1000 that are one token", lengths_of.count(1), ".0f")
for which, tokens in (("least", min(lengths_of[100:])), ("most", max(lengths_of[100:]))):
    lesson.number(f"tokens of a number of three digits, at {which}", tokens, ".0f")

# %% [markdown]
# Two numbers of three digits may have another number of tokens, as this text has read some beginnings often, and not
# others. Then the hundreds are not at the same place, and who adds has to find them first. Many models cut every digit
# alone, for that reason: Llama's do (Touvron et al. 2023).
#
# ## What it means
#
# A tokenizer is a list of merges, found by counting, before any training. It weighs a longer table against a longer
# text; nothing is unknown as long as its letters are known, and GPT-2 takes bytes instead of letters, of which there
# are 256 and no others (Radford et al. 2019). What it does not do is to care about meaning: "er" is a piece because it
# is frequent.
#
# `byte_pairs` in [folder_tokenizer.py](../../models/folder_tokenizer.py) is that of GPT-2, with `digits`;
# [tokenizer.py](../../models/data/tokenizer.py) trains one for translation, by sentencepiece.
#
# ## Try
#
# Which merges come first in a text of another language, or in code? Leave out `.lower()`, and see what a capital at the
# beginning costs. Then the exercises: `python examples/lessons/23_tokens.py --exercises > mine.py`, fill the holes,
# then `--check mine.py`.
