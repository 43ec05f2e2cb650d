"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import numpy as np

from tinytensor import nn


def guess__of_the_first_copy(ids):
    """it is the word behind the first copy; the last one counts"""
    return ids[ids[:-1].index(ids[-1]) + 1] if ids[-1] in ids[:-1] else -1


def guess__of_the_copy_itself(ids):
    """it is the word itself; expected the one behind its copy"""
    return ids[-1] if ids[-1] in ids[:-1] else -1


def guess__without_a_copy(ids):
    """It gives None: is a `return` missing?"""
    places = [i for i in range(len(ids) - 1) if ids[i] == ids[-1]]
    return ids[places[-1] + 1] if places else None


def guess__that_fails(ids):
    """It raised IndexError"""
    return ids[[i for i in range(len(ids) - 1) if ids[i] == ids[-1]][-1] + 1]


def guess__0_without_a_copy(ids):
    """without an earlier copy it is −1"""
    places = [i for i in range(len(ids) - 1) if ids[i] == ids[-1]]
    return ids[places[-1] + 1] if places else 0


def guess__place(ids):
    """it is a place; expected the id there"""
    places = [i for i in range(len(ids) - 1) if ids[i] == ids[-1]]
    return places[-1] + 1 if places else -1


def guess__in_front(ids):
    """it is the word in front of the copy"""
    places = [i for i in range(len(ids) - 1) if ids[i] == ids[-1]]
    return ids[places[-1] - 1] if places else -1


def guess__never(ids):
    """there is an earlier copy"""
    return -1


def aims(ids, pick=-1, behind=1):
    places = [(i, [j for j in range(i) if ids[j] == word]) for i, word in enumerate(ids)]
    return [(i, found[pick] + behind) for i, found in places if found]


def induction__of_the_previous(weights, ids):
    """it is the weight of the word before"""
    return np.diagonal(weights, -1).mean()


def induction__at_the_copy_itself(weights, ids):
    """it is the weight of the copy itself"""
    return np.mean([weights[i, j] for i, j in aims(ids, behind=0)])


def induction__of_the_first_copy(weights, ids):
    """it is the place behind the first copy"""
    return np.mean([weights[i, j] for i, j in aims(ids, pick=0)])


def induction__over_all_queries(weights, ids):
    """it is the mean over all queries"""
    return sum(weights[i, j] for i, j in aims(ids)) / len(ids)


def induction__sum(weights, ids):
    """it is the sum; expected the mean"""
    return sum(weights[i, j] for i, j in aims(ids))


def induction__exchanged(weights, ids):
    """query and key are exchanged"""
    return np.mean([weights[j, i] for i, j in aims(ids)])


def induction__all_copies(weights, ids):
    """all copies count; only the last one of each does"""
    return np.mean([weights[i, j + 1] for i in range(len(ids)) for j in range(i) if ids[j] == ids[i]])


def without__anything_left_out(model, layer, head, ids):
    """nothing was left out"""
    return model(ids)


def without__all_heads(model, layer, head, ids):
    """all heads of the layer were left out"""
    with nn.intervene(model, {f"layers.{layer}.self_attn.z": 0.0}):
        return model(ids)


def without__numbers_mixed_up(model, layer, head, ids):
    """the numbers of the layer and the head are exchanged"""
    with nn.intervene(model, {f"layers.{head}.self_attn.z": {layer: 0.0}}):
        return model(ids)


def without__another_head(model, layer, head, ids):
    """another head was left out"""
    with nn.intervene(model, {f"layers.{layer}.self_attn.z": {(head + 1) % 3: 0.0}}):
        return model(ids)


def without__another_layer(model, layer, head, ids):
    """the other layer's head was left out"""
    with nn.intervene(model, {f"layers.{1 - layer}.self_attn.z": {head: 0.0}}):
        return model(ids)


def without__other_heads(model, layer, head, ids):
    """all heads but this one were left out"""
    with nn.intervene(model, {f"layers.{layer}.self_attn.z": {i: 0.0 for i in range(3) if i != head}}):
        return model(ids)


def without__for_ever(model, layer, head, ids):
    """afterwards the model has changed"""
    model.layers[layer].self_attn.out_proj.weight[:, 4 * head : 4 * head + 4] = 0.0
    return model(ids)
