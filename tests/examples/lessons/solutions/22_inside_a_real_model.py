from tinytensor import nn


def lens(model, ids, layer):
    with nn.cache(model, f"layers.{layer}") as values:
        model(ids)
    return model.projection(model.norm(values[f"layers.{layer}"]))


def comes_back(model, clean, corrupted, layer, position, score):
    name = f"layers.{layer}"
    with nn.cache(model, name) as values:
        best = score(model(clean))
    worst = score(model(corrupted))
    with nn.intervene(model, {name: {position: values[name][:, position]}}):
        patched = score(model(corrupted))
    return (patched - worst) / (best - worst)
