"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import numpy as np

from tinytensor import nn


def guess__of_the_first_copy(ids):
    """whose last copy counts is 7; expected 8"""
    return ids[ids[:-1].index(ids[-1]) + 1] if ids[-1] in ids[:-1] else -1


def guess__of_the_copy_itself(ids):
    """4 7 2 9 4 is 4; expected 7"""
    return ids[-1] if ids[-1] in ids[:-1] else -1


def guess__without_a_copy(ids):
    """where nothing was there before is None: is a `return` missing?"""
    places = [i for i in range(len(ids) - 1) if ids[i] == ids[-1]]
    return ids[places[-1] + 1] if places else None


def guess__that_fails(ids):
    """It raised IndexError"""
    return ids[[i for i in range(len(ids) - 1) if ids[i] == ids[-1]][-1] + 1]


def aims(ids, pick=-1, behind=1):
    places = [(i, [j for j in range(i) if ids[j] == word]) for i, word in enumerate(ids)]
    return [(i, found[pick] + behind) for i, found in places if found]


def induction__of_the_previous(weights, ids):
    """the score on the text [4, 7, 2, 4, 7, 2, 4]"""
    return np.diagonal(weights, -1).mean()


def induction__at_the_copy_itself(weights, ids):
    """the score on the text [4, 7, 2, 4, 7, 2, 4]"""
    return np.mean([weights[i, j] for i, j in aims(ids, behind=0)])


def induction__of_the_first_copy(weights, ids):
    """the score on the text"""
    return np.mean([weights[i, j] for i, j in aims(ids, pick=0)])


def induction__over_all_queries(weights, ids):
    """the score on the text"""
    return sum(weights[i, j] for i, j in aims(ids)) / len(ids)


def without__anything_left_out(model, layer, head, ids):
    """the logits without head 0 of layer 1"""
    return model(ids)


def without__all_heads(model, layer, head, ids):
    """the logits without head 0 of layer 1"""
    with nn.intervene(model, {f"layers.{layer}.self_attn.z": 0.0}):
        return model(ids)


def without__numbers_mixed_up(model, layer, head, ids):
    """the logits without head 0 of layer 1"""
    with nn.intervene(model, {f"layers.{head}.self_attn.z": {layer: 0.0}}):
        return model(ids)


def without__for_ever(model, layer, head, ids):
    """the logits of the model afterwards"""
    model.layers[layer].self_attn.out_proj.weight[:, 4 * head : 4 * head + 4] = 0.0
    return model(ids)
