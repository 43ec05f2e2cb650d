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
    for step, expected in ((1, 1.7469e-7), (4000, 6.9877e-4), (16000, 3.4939e-4)):
        agree(learning_rate(step, 512, 4000), expected, f"the rate of step {step} with warm_up 4000", tolerance=1e-3)


@exercise(
    "def smoothed(ids, classes, epsilon):",
    "`tt.one_hot(ids, classes).float()` has a 1 for the right class in each row.",
    "What is spread goes to all classes evenly, the right one among them: epsilon / classes each.",
)
def check_smoothed(smoothed):
    """The smoothed targets of ids (n,), as distributions over so many classes: (n, classes)."""
    ids = tt.asarray([2, 0, 3])
    expected = tt.full((3, 4), 0.05)
    expected[tt.arange(3), ids] = 0.85
    agree(smoothed(ids, 4, 0.2), expected, "the targets of 3 ids of 4 classes with epsilon 0.2")
