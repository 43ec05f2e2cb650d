"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

from tinytensor import nn


def lens__without_the_norm(model, ids, layer):
    """the logits of the last layer, which are the model's own"""
    with nn.cache(model, f"layers.{layer}") as values:
        model(ids)
    return model.projection(values[f"layers.{layer}"])


def lens__below_the_layer(model, ids, layer):
    """the logits of the last layer, which are the model's own"""
    with nn.cache(model, f"layers.{layer}.x") as values:
        model(ids)
    return model.projection(model.norm(values[f"layers.{layer}.x"]))


def lens__of_the_last_layer(model, ids, layer):
    """the logits of layer 0 of 3"""
    return model(ids)


def comes_back__of_another_run(model, clean, corrupted, layer, position, score):
    """the share at layer 2, position 3 is 0; expected 1"""
    return put(model, corrupted, clean, layer, {position}, score) * 0


def comes_back__at_all_positions(model, clean, corrupted, layer, position, score):
    """the share at layer 1, position 0 is 1; expected 0"""
    return put(model, clean, corrupted, layer, range(4), score)


def comes_back__without_the_way(model, clean, corrupted, layer, position, score):
    """the share at layer 2, position 3"""
    return score(model(clean)) - score(model(corrupted))


def comes_back__in_another_layer(model, clean, corrupted, layer, position, score):
    """the share at layer 0, position 1"""
    return put(model, clean, corrupted, max(layer, 1), {position}, score)


def put(model, clean, corrupted, layer, positions, score):
    name = f"layers.{layer}"
    with nn.cache(model, name) as values:
        best = score(model(clean))
    worst = score(model(corrupted))
    with nn.intervene(model, {name: {i: values[name][:, i] for i in positions}}):
        return (score(model(corrupted)) - worst) / (best - worst)
