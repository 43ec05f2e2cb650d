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
