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
        for value in self.parameters.values():
            value.grad = None

    def step(self):
        """One step of Algorithm 1; parameters whose `grad` is None stay as they are."""
        self.steps += 1
        first, second = self.betas
        for name, value in self.parameters.items():
            if value.grad is None:
                continue
            self.m[name] = first * self.m[name] + (1 - first) * value.grad
            self.v[name] = second * self.v[name] + (1 - second) * value.grad**2
            m, v = self.m[name] / (1 - first**self.steps), self.v[name] / (1 - second**self.steps)
            value.data = value.data - self.lr * m / (np.sqrt(v) + self.epsilon)
