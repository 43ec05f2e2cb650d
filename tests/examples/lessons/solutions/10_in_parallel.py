"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import tinytensor as tt


def longest_path(inputs):
    path = {}
    for name, read in inputs.items():
        path[name] = 1 + max(path.get(other, 0) for other in read)
    return max(path.values())


def running_sums(x):
    step = 1
    while step < len(x):
        x = tt.concat([x[:step], x[step:] + x[:-step]])
        step *= 2
    return x


def longest_path__recursive(inputs):
    def path(name):
        return 1 + max(map(path, inputs[name])) if name in inputs else 0

    return max(map(path, inputs))


def longest_path__level_by_level(inputs):
    done, levels = set(), 0
    while len(done) < len(inputs):
        done |= {name for name, read in inputs.items() if all(r in done or r not in inputs for r in read)}
        levels += 1
    return levels


def running_sums__recursive(x):
    if len(x) == 1:
        return x
    half = len(x) // 2
    left, right = running_sums__recursive(x[:half]), running_sums__recursive(x[half:])
    return tt.concat([left, right + left[-1]])


def running_sums__product(x):
    return tt.tril(tt.ones((len(x), len(x)))) @ x
