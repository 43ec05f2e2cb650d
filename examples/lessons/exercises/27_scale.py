"""Exercises of lesson 27: the exponent of a power law, and the best size of a model for a budget."""

import numpy as np

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise


def between(low, high):
    return float(low + (high - low) * tt.random.rand(1, dtype=tt.float64)[0])


@exercise(
    "def power_law(sizes, losses, entropy):",
    "ln(loss − entropy) = ln A − a · ln N: a line. `np.polyfit(x, y, 1)` gives its slope, then its intercept.",
    "a is the slope with its sign changed, and A is e to the power of the intercept: `np.exp`.",
)
def check_power_law(power_law):
    """The pair (A, a) of the power law loss = entropy + A / N^a that fits best: by least squares, in logarithms (base
    e) of N and of the loss without its entropy. sizes, the N, and losses are NumPy arrays (runs,), entropy is a
    number."""
    for runs in (4, 7, 11):
        a, scale, entropy = between(0.3, 0.8), between(20, 60), between(1.2, 2.5)
        sizes = np.sort(1000 * np.exp(5 * tt.random.rand(runs, dtype=tt.float64).numpy()))
        noise = 0.2 * tt.random.randn(runs, dtype=tt.float64).numpy()
        losses = entropy + scale / sizes**a * np.exp(noise)
        x, y = np.log(sizes), np.log(losses - entropy)
        slope, intercept = np.polyfit(x, y, 1)
        raw_slope, raw_intercept = np.polyfit(x, np.log(losses), 1)
        ten_slope, ten_intercept = np.polyfit(np.log10(sizes), np.log10(losses - entropy), 1)
        plain_slope, plain_intercept = np.polyfit(x, losses - entropy, 1)
        turned_slope, turned_intercept = np.polyfit(y, x, 1)
        end_slope = (y[-1] - y[0]) / (x[-1] - x[0])
        right = [np.exp(intercept), -slope]
        mistakes = {
            "the entropy was left in: take it from each loss before the logarithm": [np.exp(raw_intercept), -raw_slope],
            "a has the wrong sign: A / N^a falls, so a is minus the slope": [np.exp(intercept), slope],
            "A is still a logarithm: np.exp takes it back": [intercept, -slope],
            "these are slope and intercept of the line; expected A = e^intercept and a = −slope": [slope, intercept],
            "these are slope and intercept of the line; expected A = e^intercept and a = −slope ": [intercept, slope],
            "a comes first; expected the pair (A, a)": right[::-1],
            "the logarithm was to base 10, and A to base e: take one of the two": [np.exp(ten_intercept), -ten_slope],
            "the losses have no logarithm: it is taken of both": [np.exp(plain_intercept), -plain_slope],
            "the losses have no logarithm: it is taken of both ": [plain_intercept, -plain_slope],
            "the axes are exchanged: ln N is x, the loss is y": [np.exp(turned_intercept), -turned_slope],
            "the line goes through the first and the last run; all of them count": [
                np.exp(y[0] - end_slope * x[0]),
                -end_slope,
            ],
            "this is a alone; expected the pair (A, a)": -slope,
            "this is A alone; expected the pair (A, a)": np.exp(intercept),
        }
        agree(power_law(sizes.copy(), losses.copy(), entropy), right, f"fit to {runs} runs", mistakes=mistakes)


@exercise(
    "def best_size(budget, A, a, B, b):",
    "Put D = budget / (6 N) into the law: one variable is left. In the lowest point its derivative by N is 0.",
    "The derivative says a A / N^a = b B / D^b: not the two errors are equal, but the errors times their exponents.",
    "So N^(a + b) = (a A / (b B)) · (budget / 6)^b.",
)
def check_best_size(best_size):
    """The number of parameters N (it need not be whole) with which excess = A / N^a + B / D^b is smallest, if 6 N D is
    the budget. budget is a NumPy array (budgets,), and so is the result; A, a, B and b are numbers."""
    for count in (3, 5, 2):
        a, b = between(0.3, 0.5), between(0.6, 0.9)
        A, B = between(20, 60), between(300, 900)
        budget = 1e9 * np.exp(6 * tt.random.rand(count, dtype=tt.float64).numpy())

        def size(ratio, products=budget / 6, a=a, b=b):
            return (ratio * products**b) ** (1 / (a + b))

        right = size(a * A / (b * B))
        mistakes = {
            "the 6 is missing: D is budget / (6 N)": size(a * A / (b * B), budget),
            "2 N D is forward alone; with backward it is 6 N D": size(a * A / (b * B), budget / 2),
            "6 multiplies the budget; D is budget / (6 N)": size(a * A / (b * B), budget * 6),
            "there both errors are equal; in the lowest point it is the errors times their exponents": size(A / B),
            "A and B are exchanged, or a and b in front of them: more of A asks for more parameters": size(
                b * B / (a * A)
            ),
            "a and b in front of A and B are exchanged: the derivative of N^(−a) has the factor a": size(
                b * A / (a * B)
            ),
            "this is the text D; expected the parameters N": budget / 6 / right,
            "the exponent of the budget is a / (a + b), which is that of the text; of the parameters b / (a + b)": (
                (a * A / (b * B)) ** (1 / (a + b)) * (budget / 6) ** (a / (a + b))
            ),
            "parameters and text were taken to grow alike: √(budget / 6)": np.sqrt(budget / 6),
            "the root is missing: N^(a + b) was found, take 1 / (a + b) of it": right ** (a + b),
            "this is the smallest excess; expected the N that has it": A / right**a + B / (budget / 6 / right) ** b,
            "this is ln N; np.exp takes it back": np.log(right),
        }
        agree(best_size(budget.copy(), A, a, B, b), right, f"size for {count} budgets", 1e-3, mistakes)
