"""Exercises of lesson 10: the longest path of a graph, and a sum that does not wait."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect

HEAD = {"q": ["x"], "k": ["x"], "v": ["x"], "kT": ["k"], "scores": ["q", "kT"], "p": ["scores"], "out": ["p", "v"]}
SIDE = {"a": ["x"], "b": ["a", "y"], "c": ["b", "a"], "side": ["y"], "last": ["side", "x"]}


def _paths(inputs, combine=max, start=0):
    """The path of each name: 1 + what `combine` makes of the paths of its inputs."""
    path = {}
    for name, read in inputs.items():
        path[name] = 1 + combine([path.get(other, start) for other in read])
    return list(path.values())


@exercise(
    "def longest_path(inputs):",
    "A name that was computed from nothing has path 0; any other is one further than the furthest of its inputs.",
    "Go through the dictionary in its order and keep each name's path in another one.",
)
def check_longest_path(longest_path):
    """How many operations have to run one after the other. `inputs` is a dictionary from each operation's name to the
    names that it reads, in the order in which they ran; what is read and was not computed is given from the start."""
    words = 6 + int(tt.random.integers(0, 4))
    steps = {f"h{t + 1}": [f"x{t}", f"h{t}"] for t in range(words)}
    pair = {"a": ["x"], "b": ["x"]}
    graphs = (HEAD, steps, SIDE, pair)
    mistakes = {
        "these count all operations; those that do not wait for each other run at once": [len(g) for g in graphs],
        "these are the paths of the last operations; another may be longer": [_paths(g)[-1] for g in graphs],
        "these count the steps between operations; expected the operations, one more": [
            max(_paths(g)) - 1 for g in graphs
        ],
        "what is given from the start is no operation: its path is 0": [max(_paths(g, start=1)) for g in graphs],
        "an operation waits for the last of its inputs, and not for the first: max, not min": [
            max(_paths(g, min)) for g in graphs
        ],
        "only the first input of each is followed": [max(_paths(g, lambda read: read[0])) for g in graphs],
        "only the last input of each is followed": [max(_paths(g, lambda read: read[-1])) for g in graphs],
        "paths of several inputs are added; the longest one counts": [max(_paths(g, sum)) for g in graphs],
    }
    told = f"a head of attention, a recurrence over {words} words, a side path, and two on the same input"
    expected = [max(_paths(g)) for g in graphs]
    agree([longest_path(g) for g in graphs], expected, f"the longest paths of {told}", mistakes=mistakes)


@exercise(
    "def running_sums(x):",
    "Add to every row the one before it; then the one two before, four before, ... until all were reached.",
    "One round: `tt.concat([x[:step], x[step:] + x[:-step]])`. Start with step = 1 and double it.",
)
def check_running_sums(running_sums):
    """The sums of the first 1, 2, ..., n rows of x (n, d), with a longest path that grows as log n and not as n, and
    without `tt.cumulative_sum`."""
    for n, d in ((64, 3), (37, 2)):
        x = tt.random.randn(n, d)
        expected = tt.cumulative_sum(x, axis=0)
        mistakes = {
            "these are the rows before each one; the row itself is missing": expected - x,
            "these are sums from the end": x.sum(axis=0) - expected + x,
            "these are sums over the features; expected those over rows": tt.cumulative_sum(x, axis=1),
            "it is the sum of all rows; expected one for each row": x.sum(axis=0),
            "it is one round: each row and the one before it": tt.concat([x[:1], x[1:] + x[:-1]]),
            "these are means": expected / tt.arange(1, n + 1)[:, None],
            "the last round is missing: rows far apart were never added": expected
            - tt.concat([tt.zeros((32, d)), expected[:-32]]),
        }
        watched = running_sums.watched(x)
        agree(watched.result, expected, f"the sums of {n} rows", 1e-4, mistakes)
        expect(not watched.called & {"cumulative_sum", "cumsum"}, "write it without `tt.cumulative_sum`")
        expect(watched.depth > 0, "no operation of tinytensor computes it: add Tensors")
        expect(watched.depth < 45, f"the longest path for {n} rows is {watched.depth}; below 45 can be done")
