"""10. Adam (Kingma and Ba 2015, Algorithm 1): steps against the gradient, each number at a pace of its own."""

import numpy as np


class Adam:
    """Changes the `data` of parameters, a dictionary from names to Values, by their `grad`."""

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.98), epsilon=1e-9):
        self.parameters, self.lr, self.betas, self.epsilon = parameters, lr, betas, epsilon
        self.steps = 0
        self.m = {name: np.zeros_like(value.data) for name, value in parameters.items()}
        self.v = {name: np.zeros_like(value.data) for name, value in parameters.items()}

    def zero_grad(self):
        """Set the `grad` of every parameter to None: backward adds to what is there."""
        return ...

    def step(self):
        """One step of Algorithm 1; parameters whose `grad` is None stay as they are."""
        return ...
