"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

from tinytensor import nn
from tinytensor.nn import functional as F


def result_of(model, ids, name):
    with nn.cache(model, name) as values:
        model(ids)
    return values[name]


def lens__without_the_norm(model, ids, layer):
    """the norm is missing"""
    return model.projection(result_of(model, ids, f"layers.{layer}"))


def lens__below_the_layer(model, ids, layer):
    """it is what the layer reads"""
    return model.projection(model.norm(result_of(model, ids, f"layers.{layer}.x")))


def lens__of_the_last_layer(model, ids, layer):
    """these are the model's own logits"""
    return model(ids)


def lens__without_the_projection(model, ids, layer):
    """the projection is missing"""
    return model.norm(result_of(model, ids, f"layers.{layer}"))


def lens__result_alone(model, ids, layer):
    """the norm and the projection are missing"""
    return result_of(model, ids, f"layers.{layer}")


def lens__softmax(model, ids, layer):
    """softmax has been taken"""
    return F.softmax(model.projection(model.norm(result_of(model, ids, f"layers.{layer}"))), dim=-1)


def lens__last_position(model, ids, layer):
    """it is the last position alone"""
    return model.projection(model.norm(result_of(model, ids, f"layers.{layer}")))[:, -1]


def lens__of_the_next_layer(model, ids, layer):
    """it is the layer that comes next"""
    return model.projection(model.norm(result_of(model, ids, f"layers.{min(layer + 1, 2)}")))


def lens__counted_from_1(model, ids, layer):
    """it is the layer that comes next"""
    return model.projection(model.norm(result_of(model, ids, f"layers.{layer + 1}")))


def comes_back__nothing(model, clean, corrupted, layer, position, score):
    """nothing was put into the corrupted run"""
    return put(model, clean, corrupted, layer, {position}, score) * 0


def comes_back__the_other_way(model, clean, corrupted, layer, position, score):
    """the corrupted vector went into the clean run"""
    return put(model, corrupted, clean, layer, {position}, score)


def comes_back__at_all_positions(model, clean, corrupted, layer, position, score):
    """the vector went in at all positions"""
    return put(model, clean, corrupted, layer, range(len(clean[0])), score)


def comes_back__difference(model, clean, corrupted, layer, position, score):
    """divide by the whole way"""
    way = score(model(clean)) - score(model(corrupted))
    return put(model, clean, corrupted, layer, {position}, score) * way


def comes_back__whole_way(model, clean, corrupted, layer, position, score):
    """these are whole ways"""
    return score(model(clean)) - score(model(corrupted))


def comes_back__score(model, clean, corrupted, layer, position, score):
    """these are scores"""
    worst, way = score(model(corrupted)), score(model(clean)) - score(model(corrupted))
    return worst + put(model, clean, corrupted, layer, {position}, score) * way


def comes_back__what_does_not(model, clean, corrupted, layer, position, score):
    """the shares that do not come back"""
    return 1 - put(model, clean, corrupted, layer, {position}, score)


def comes_back__in_the_last_layer(model, clean, corrupted, layer, position, score):
    """the vector is always put into the last layer"""
    return put(model, clean, corrupted, 2, {position}, score)


def comes_back__in_the_layer_before(model, clean, corrupted, layer, position, score):
    """the vector is of the layer before"""
    return put(model, clean, corrupted, max(layer - 1, 0), {position}, score)


def comes_back__at_the_last_position(model, clean, corrupted, layer, position, score):
    """the vector is always put at the last position"""
    return put(model, clean, corrupted, layer, {len(clean[0]) - 1}, score)


def put(model, source, reader, layer, positions, score):
    """The share of the way to the source's run that comes back when the reader has the source's vectors in a layer."""
    name = f"layers.{layer}"
    value = result_of(model, source, name)
    worst = score(model(reader))
    with nn.intervene(model, {name: {i: value[:, i] for i in positions}}):
        return (score(model(reader)) - worst) / (score(model(source)) - worst)
