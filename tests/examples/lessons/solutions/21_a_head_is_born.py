import numpy as np

from tinytensor import nn


def guess(ids):
    places = [i for i in range(len(ids) - 1) if ids[i] == ids[-1]]
    return ids[places[-1] + 1] if places else -1


def induction(weights, ids):
    found = []
    for i, word in enumerate(ids):
        places = [j for j in range(i) if ids[j] == word]
        if places:
            found.append(weights[i, places[-1] + 1])
    return np.mean(found)


def without(model, layer, head, ids):
    with nn.intervene(model, {f"layers.{layer}.self_attn.z": {head: 0.0}}):
        return model(ids)
