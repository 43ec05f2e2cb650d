"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

from tinytensor import nn
from tinytensor.models import inside


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


def lens__by_the_library(model, ids, layer):
    return inside.logit_lens(model, ids)[layer + 1]


def lens__all_layers(model, ids, layer):
    with nn.cache(model, [f"layers.{i}" for i in range(3)]) as values:
        model(ids)
    return model.projection(model.norm(values[f"layers.{layer}"]))


def comes_back__in_small_steps(model, clean, corrupted, layer, position, score):
    name = f"layers.{layer}"
    runs = {}
    for which, ids in (("clean", clean), ("corrupted", corrupted)):
        with nn.cache(model, name) as values:
            runs[which] = float(score(model(ids)))
        if which == "clean":
            vector = values[name][:, position]
    with nn.intervene(model, {name: {position: vector}}):
        patched = float(score(model(corrupted)))
    return (patched - runs["corrupted"]) / (runs["clean"] - runs["corrupted"])
