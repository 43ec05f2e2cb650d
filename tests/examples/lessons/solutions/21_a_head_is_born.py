"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

from itertools import pairwise

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


def guess__backwards(ids):
    for i in reversed(range(len(ids) - 1)):
        if ids[i] == ids[-1]:
            return ids[i + 1]
    return -1


def guess__dictionary(ids):
    behind = dict(pairwise(ids))
    return behind.get(ids[-1], -1)


def induction__one_pass(weights, ids):
    last, total, count = {}, 0.0, 0
    for i, word in enumerate(ids):
        if word in last:
            total, count = total + weights[i, last[word] + 1], count + 1
        last[word] = i
    return total / count


def without__named(model, layer, head, ids):
    name = f"layers.{layer}.self_attn.z"
    with nn.intervene(model, {name: {head: 0.0}}):
        logits = model(ids)
    return logits


def without__weights(model, layer, head, ids):
    weight = model.layers[layer].self_attn.out_proj.weight
    kept, size = weight.numpy().copy(), len(weight) // 3
    weight[:, size * head : size * (head + 1)] = 0.0
    logits = model(ids)
    weight[:] = kept
    return logits
