"""Checks of step 10: Adam against `nn.optim.Adam`, step by step."""

import numpy as np
from step02_node import Value

import tinytensor as tt
from tinytensor import nn
from tinytensor.course.cards import numbers
from tinytensor.models.scripts.exercises import agree, expect


def first_steps(w, g):
    """Where a first step with lr 0.1, betas 0.8 and 0.95 and epsilon 1e-3 goes by mistake."""
    size, root = np.abs(g), np.abs(g) + 1e-3
    steps = {
        "m is not divided by 1 - β₁ᵗ": 0.2 * g / root,
        "v is not divided by 1 - β₂ᵗ": g / (0.05**0.5 * size + 1e-3),
        "epsilon is under the root; it is added to it": g / np.sqrt(g**2 + 1e-3),
        "the root of v is missing": g / (g**2 + 1e-3),
        "m takes (1 - β₁) of the gradient": 5 * g / root,
        "it goes with the gradient; the loss falls against it": -g / root,
        "a step is counted once, not once for each parameter": g * 0.2 / 0.36 / (np.sqrt(0.05 * g**2 / 0.0975) + 1e-3),
        "it does not move": 0 * g,
    }
    found = {sentence: w - 0.1 * step for sentence, step in steps.items()}
    return {**found, "t is 1 in the first step, or v takes g and not g²": np.full_like(w, np.nan)}


def check_Adam(Adam):
    """m = β₁ m + (1 - β₁) g, and v = β₂ v + (1 - β₂) g². Subtract lr · (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε); t
    counts the calls of `step`, from 1."""
    ours = {"w": Value(numbers(3, 2), wants=True), "b": Value(numbers(4), wants=True), "idle": Value(1.0, wants=True)}
    optimizer = Adam(ours, lr=0.1, betas=(0.8, 0.95), epsilon=1e-3)
    for value in ours.values():
        value.grad = np.ones_like(value.data)
    expect(optimizer.zero_grad() is not ..., "zero_grad: the hole is still there")
    kept = [name for name, value in ours.items() if value.grad is not None]
    expect(not kept, f"zero_grad: the gradient of {', '.join(kept)} is not None")
    theirs = {name: tt.tensor(value.data, requires_grad=True) for name, value in ours.items()}
    reference = nn.optim.Adam(list(theirs.values()), lr=0.1, betas=(0.8, 0.95), eps=1e-3)
    starts, mistakes = {name: value.data.copy() for name, value in ours.items()}, {}
    for step in range(1, 5):
        for name in ("w", "b"):
            g = numbers(*ours[name].data.shape) * (1.5 - step)
            ours[name].grad, theirs[name].grad = g, tt.asarray(g)
            mistakes.setdefault(name, first_steps(starts[name], g))
        expect(optimizer.step() is not ..., "step: the hole is still there")
        reference.step()
        for name in ("w", "b"):
            agree(ours[name].data, theirs[name].detach(), f"{name} after step {step}", mistakes=mistakes[name])
        agree(ours["idle"].data, 1.0, "a parameter without a gradient")
    optimizer.lr = 0.0
    still = ours["w"].data.copy()
    optimizer.step()
    agree(ours["w"].data, still, "w after a step with the learning rate 0: `self.lr` may change between steps;")
