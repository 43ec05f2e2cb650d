"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import numpy as np

import tinytensor as tt


def power_law(sizes, losses, entropy):
    slope, intercept = np.polyfit(np.log(sizes), np.log(losses - entropy), 1)
    return np.exp(intercept), -slope


def power_law__by_covariance(sizes, losses, entropy):
    x, y = np.log(sizes), np.log(losses - entropy)
    a = -((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    return [np.exp(y.mean() + a * x.mean()), a]


def power_law__by_lstsq(sizes, losses, entropy):
    columns = np.stack([np.ones(len(sizes)), -np.log(sizes)], axis=1)
    (log_scale, a), *_ = np.linalg.lstsq(columns, np.log(losses - entropy), rcond=None)
    return tt.asarray([np.exp(log_scale), a])


def power_law__to_base_ten(sizes, losses, entropy):
    slope, intercept = np.polyfit(np.log10(sizes), np.log10(losses - entropy), 1)
    return np.array([10**intercept, -slope])


def best_size(budget, A, a, B, b):
    return (a * A / (b * B) * (budget / 6) ** b) ** (1 / (a + b))


def best_size__in_logarithms(budget, A, a, B, b):
    return np.exp((np.log(a * A) - np.log(b * B) + b * np.log(budget / 6)) / (a + b))


def best_size__by_search(budget, A, a, B, b):
    sizes = np.exp(np.linspace(0, 25, 200_001))[:, None]
    return sizes[(A / sizes**a + B / (budget / 6 / sizes) ** b).argmin(axis=0), 0]


def best_size__by_bisection(budget, A, a, B, b):
    found = []
    for each in budget:
        low, high = 0.0, 50.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            too_small = a * A * np.exp(-a * middle) > b * B * (6 * np.exp(middle) / each) ** b
            low, high = (middle, high) if too_small else (low, middle)
        found.append(np.exp(low))
    return found
