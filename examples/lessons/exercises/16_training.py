"""Exercises of lesson 16: the learning rate of the paper, and smoothed targets."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def learning_rate(step, d_model, warm_up):",
    "Equation 3: d_model^(-0.5) min(step^(-0.5), step warm_up^(-1.5)).",
    "Both arms meet at step = warm_up; before it the second is the smaller one.",
)
def check_learning_rate(learning_rate):
    """The learning rate of step 1, 2, ... in equation 3 of the paper."""
    shift = int(tt.random.integers(0, 5))
    settings = [(3, 64, 10), (30 + shift, 64, 10), (20, 100, 20), (100, 32, 50 + shift), (900, 512, 4000)]

    def rates(rule, d_power=-0.5):
        return [d_model**d_power * rule(step, warm_up) for step, d_model, warm_up in settings]

    def arms(step, warm_up):
        return min(step**-0.5, step * warm_up**-1.5)

    mistakes = {
        "it is the larger of the two arms; expected the smaller one": rates(lambda s, w: max(s**-0.5, s * w**-1.5)),
        "d_model is missing": rates(arms, 0),
        "it is multiplied by √d_model; the power is −0.5": rates(arms, 0.5),
        "it is divided by d_model; the power is −0.5": rates(arms, -1),
        "there is no warm-up: it is step^(−0.5) alone": rates(lambda s, w: s**-0.5),
        "it grows for ever: it is step · warm_up^(−1.5) alone": rates(lambda s, w: s * w**-1.5),
        "the arms do not meet at warm_up: its power is −1.5": rates(lambda s, w: min(s**-0.5, s * w**-0.5)),
        "the arms do not meet at warm_up: its power is −1.5, and not −1": rates(lambda s, w: min(s**-0.5, s / w)),
        "the rate of step 1 is that of step 2: steps are counted from 1": rates(lambda s, w: arms(s + 1, w)),
        "warm_up is 4000 whatever is given": rates(lambda s, w: arms(s, 4000)),
        "d_model is 512 whatever is given": [512**-0.5 * arms(step, warm_up) for step, _, warm_up in settings],
        "d_model is 512 and warm_up 4000 whatever is given": [512**-0.5 * arms(step, 4000) for step, _, _ in settings],
        "after warm-up it stays as it is; it falls as 1/√step": rates(lambda s, w: arms(min(s, w), w)),
        "it falls as 1/step; the power is −0.5": rates(lambda s, w: min(1 / s, s * w**-1.5)),
    }
    given = [learning_rate(*setting) for setting in settings]
    agree(given, rates(arms), f"the rates for (step, d_model, warm_up) in {settings}", 1e-6, mistakes)


@exercise(
    "def smoothed(ids, classes, epsilon):",
    "`tt.one_hot(ids, classes).float()` has a 1 for the right class in each row.",
    "What is spread goes to all classes evenly, the right one among them: epsilon / classes each.",
)
def check_smoothed(smoothed):
    """The smoothed targets of ids (n,), as distributions over so many classes: (n, classes)."""
    for n, classes, epsilon in ((3, 4, 0.2), (5, 7, 0.35)):
        ids = tt.random.integers(0, classes, (n,))
        one = tt.one_hot(ids, classes).float()
        mistakes = {
            "they are not smoothed": one,
            "the right class gets its share of what is spread, too: 1 − epsilon + epsilon / classes": one
            * (1 - epsilon)
            + (1 - one) * epsilon / classes,
            "all classes share epsilon, the right one among them: epsilon / classes, not epsilon / (classes − 1)": one
            * (1 - epsilon)
            + (1 - one) * epsilon / (classes - 1),
            "the rows add up to more than 1: the right class gives epsilon away": one + epsilon / classes,
            "epsilon is not divided by the number of classes": one * (1 - epsilon) + epsilon,
            "what is spread is missing": one * (1 - epsilon),
            "1 − epsilon and epsilon are exchanged": one * epsilon + (1 - epsilon) / classes,
            "epsilon is 0.1 whatever is given": one * 0.9 + 0.1 / classes,
            "the rows do not add up to 1: wrong classes get epsilon each": one * (1 - epsilon) + (1 - one) * epsilon,
            "it is transposed: a row is an id": (one * (1 - epsilon) + epsilon / classes).mT,
        }
        what = f"the targets of {n} ids of {classes} classes with epsilon {epsilon}"
        agree(smoothed(ids, classes, epsilon), one * (1 - epsilon) + epsilon / classes, what, mistakes=mistakes)
