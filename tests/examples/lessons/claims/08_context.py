CLAIMS = {
    "exact match on unseen sentences": (0.93, 0.1),
    "translated as the context asks, of 6": (6, 0),
    "it, of a box: the noun's weight in the best head": (0.85, 0.15),
    "sold, of a house: the noun's weight in the best head": (0.75, 0.25),
    "her, of what is hers: the noun's weight in the best head": (0.75, 0.25),
    "three seeds: translated as the context asks, of 18": (18, 1),
    "three seeds: the noun of a pair that is looked at more, least weight": (0.8, 0.2),
    "three seeds: the noun that is looked at less, least weight": (0.25, 0.25),
}

RELATIONS = {
    "a noun that is hardly looked at is translated rightly": lambda n: (
        n["three seeds: the noun that is looked at less, least weight"]
        < n["three seeds: the noun of a pair that is looked at more, least weight"] - 0.15
    ),
}

MUTATIONS = [
    # after the training, in whose place the trained weights are read: whether the noun looked at the word
    ('find("encoder", word), seen[name].source.index(noun)]', "source.index(noun), seen[name].source.index(word)]"),
    ("        loss = loss + cross_entropy(model.projection(memory), words_of(pairs, task, batch.source.shape))\n", ""),
    ("tie_weights=True,", "tie_weights=True, positions=None,"),
    (
        "        loss = cross_entropy(model.decode(batch.target_in, memory, padding), batch.target_out)\n",
        "        loss = 0\n",
    ),
]
