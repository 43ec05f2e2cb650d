CLAIMS = {
    "exact match on unseen sentences": (0.9, 0.15),
    "translated as the context asks, of 6": (6, 0),
    "it, of a box: the noun's weight in the best head": (0.85, 0.15),
    "sold, of a house: the noun's weight in the best head": (0.75, 0.25),
    "her, of what is hers: the noun's weight in the best head": (0.75, 0.25),
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
