"""Exercises of lesson 13: layer norm, and the two places for it."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect


@exercise(
    "def layer_norm(x, weight, bias, eps=1e-5):",
    "Mean and variance are those of each position: over `axis=-1`, with `keepdims=True`.",
    "The variance is divided by n, not by n − 1: the mean of (x − μ)². eps is added to it, within the root.",
)
def check_layer_norm(layer_norm):
    """(x − μ) / √(σ² + eps) * weight + bias of x, (length, d_model), with a μ and a σ² for each position. Do it without
    `F.layer_norm`."""
    for scales, d_model, options in (([0.01, 1.0, 100.0], 4, ()), ([1.0, 3.0, 0.1, 2.0], 6, (0.25,))):
        x = tt.random.randn(len(scales), d_model) * tt.asarray(scales)[:, None] + 2.0
        weight, bias = tt.random.randn(d_model), tt.random.randn(d_model)
        eps = options[0] if options else 1e-5
        if options:
            watched = layer_norm.watched(x, weight, bias, *options)
            given = watched.result
            expect("layer_norm" not in watched.called, "do it without `F.layer_norm`")
        else:
            given = layer_norm(x, weight, bias)

        def norm(axis=-1, correction=0, inside=eps, outside=0.0, weight=weight, bias=bias, centre=1.0, power=0.5):
            apart = x - x.mean(axis=axis, keepdims=True)
            count = apart.size if axis is None else x.shape[axis]
            variance = (apart**2).sum(axis=axis, keepdims=True) / (count - correction)
            return (x - centre * x.mean(axis=axis, keepdims=True)) / (
                (variance + inside) ** power + outside
            ) * weight + bias

        mean_square = (x**2).mean(axis=-1, keepdims=True)
        mistakes = {
            "the variance is divided by n − 1; here it is the mean, by n": norm(correction=1),
            "eps is outside of the root": norm(inside=0.0, outside=eps),
            "eps is 1e-5, whatever is given": norm(inside=1e-5),
            "eps is missing": norm(inside=0.0),
            "the mean and the variance are over the positions; each position has its own": norm(axis=0),
            "one mean and variance for all positions; each position has its own": norm(axis=None),
            "it is divided by the variance; the root is missing": norm(power=1.0),
            "the mean is not taken away": norm(centre=0.0),
            "it is the RMS norm: the mean has to go first": x / (mean_square + eps) ** 0.5 * weight + bias,
            "weight and bias are missing": norm(weight=1.0, bias=0.0),
            "the bias is missing": norm(bias=0.0),
            "the weight is missing": norm(weight=1.0),
            "the weight multiplies the bias, too": (norm(weight=1.0, bias=0.0) + bias) * weight,
        }
        small = "" if options else ", one of them small"
        what = f"the norm of {len(scales)} positions{small}, with eps = {eps:g}"
        agree(given, norm(), what, 1e-4, mistakes)


@exercise(
    "def sublayer(x, f, norm, norm_first):",
    "In the paper the norm is the last thing that happens: `norm(x + f(x))`.",
    "With norm_first the x that is added is the one that was not normalised.",
)
def check_sublayer(sublayer):
    """The result of a sub-layer f with its residual connection: with norm_first=False as in section 3.1 of the paper,
    or else with the norm before the sub-layer. f and norm are functions."""
    for length, size in ((3, 4), (5, 3)):
        x, weight = tt.random.randn(length, size) + 1.0, tt.random.randn(size, size)

        def f(x):
            return tt.tanh(x @ weight) + 0.5

        def norm(x):
            apart = x - x.mean(axis=-1, keepdims=True)
            return apart / (apart**2).mean(axis=-1, keepdims=True) ** 0.5

        after, before = norm(x + f(x)), x + f(norm(x))
        both = {
            "the norm is missing": x + f(x),
            "x is not added": norm(f(x)),
            "x is not added: the norm alone comes before f": f(norm(x)),
            "the norm is of f's result alone": x + norm(f(x)),
            "what is added is x, not norm(x)": norm(x) + f(norm(x)),
            "the norm comes before f and after the sum; once is enough": norm(x + f(norm(x))),
            "f is missing": norm(x),
            "the sum is missing: f is of x alone": f(x),
        }
        turned = "this is what the other norm_first gives"
        what = f"the result at {length} positions"
        agree(sublayer(x, f, norm, False), after, f"with norm_first=False, {what}", mistakes={**both, turned: before})
        agree(sublayer(x, f, norm, True), before, f"with norm_first=True, {what}", mistakes={**both, turned: after})
