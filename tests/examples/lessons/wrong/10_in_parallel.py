"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import numpy as np

import tinytensor as tt


def paths(inputs, combine=max, start=0):
    path = {}
    for name, read in inputs.items():
        path[name] = 1 + combine([path.get(other, start) for other in read])
    return path


def longest_path__number_of_operations(inputs):
    """these count all operations"""
    return len(inputs)


def longest_path__of_the_last(inputs):
    """these are the paths of the last operations"""
    return list(paths(inputs).values())[-1]


def longest_path__edges(inputs):
    """these count the steps between operations"""
    return max(paths(inputs).values()) - 1


def longest_path__with_inputs(inputs):
    """what is given from the start is no operation"""
    return max(paths(inputs, start=1).values())


def longest_path__shortest(inputs):
    """max, not min"""
    return max(paths(inputs, min).values())


def longest_path__first_input(inputs):
    """only the first input of each is followed"""
    return max(paths(inputs, lambda read: read[0]).values())


def longest_path__added(inputs):
    """paths of several inputs are added"""
    return max(paths(inputs, sum).values())


def longest_path__of_numbers_only(inputs):
    """It raised KeyError"""
    path = {}
    for name, read in inputs.items():
        path[name] = 1 + max(path[other] for other in read)
    return max(path.values())


def rounds(x, most):
    step = 1
    while step < most:
        x = tt.concat([x[:step], x[step:] + x[:-step]])
        step *= 2
    return x


def running_sums__by_the_library(x):
    """write it without `tt.cumulative_sum`"""
    return tt.cumulative_sum(x, axis=0)


def running_sums__by_numpy(x):
    """write it without `tt.cumulative_sum`"""
    return np.cumsum(x.numpy(), axis=0)


def running_sums__outside(x):
    """no operation of tinytensor computes it"""
    return tt.asarray(np.add.accumulate(x.numpy()))


def running_sums__one_after_the_other(x):
    """the longest path for 64 rows is"""
    rows = [x[0]]
    for row in x[1:]:
        rows.append(rows[-1] + row)
    return tt.stack(rows)


def running_sums__one_round(x):
    """it is one round"""
    return rounds(x, 2)


def running_sums__a_round_too_few(x):
    """the last round is missing"""
    return rounds(x, 32)


def running_sums__without_itself(x):
    """the row itself is missing"""
    return rounds(x, len(x)) - x


def running_sums__from_the_end(x):
    """these are sums from the end"""
    return rounds(x[::-1], len(x))[::-1]


def running_sums__total(x):
    """it is the sum of all rows"""
    return x.sum(axis=0)


def running_sums__over_features(x):
    """these are sums over the features"""
    return rounds(x.mT, x.shape[1]).mT
