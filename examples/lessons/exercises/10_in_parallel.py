"""Exercises of lesson 10: the longest path of a graph, and a sum that does not wait."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise, expect


@exercise(
    "def longest_path(inputs):",
    "A name that was computed from nothing has path 0; any other is one further than the furthest of its inputs.",
    "Go through the dictionary in its order and keep each name's path in another one.",
)
def check_longest_path(longest_path):
    """How many operations have to run one after the other. `inputs` is a dictionary from each operation's name to the
    names that it reads, in the order in which they ran; what is read and was not computed is given from the start."""
    head = {"q": ["x"], "k": ["x"], "v": ["x"], "kT": ["k"], "scores": ["q", "kT"], "p": ["scores"], "out": ["p", "v"]}
    agree(longest_path(head), 5, "the longest path of a head of attention")
    steps = {f"h{t + 1}": [f"x{t}", f"h{t}"] for t in range(7)}
    agree(longest_path(steps), 7, "the longest path of a recurrence over 7 words")
    agree(longest_path({"a": ["x"], "b": ["x"]}), 1, "the longest path of two operations on the same input")


@exercise(
    "def running_sums(x):",
    "Add to every row the one before it; then the one two before, four before, ... until all were reached.",
    "One round: `tt.concat([x[:step], x[step:] + x[:-step]])`. Start with step = 1 and double it.",
)
def check_running_sums(running_sums):
    """The sums of the first 1, 2, ..., n rows of x (n, d), with a longest path that grows as log n and not as n, and
    without `tt.cumulative_sum`."""
    x = tt.tensor(tt.random.randn(64, 3), requires_grad=True)
    with tt.record() as graph:
        sums = running_sums(x)
    agree(sums, tt.cumulative_sum(x, axis=0), "the sums of 64 rows", tolerance=1e-4)
    expect(graph.depth < 40, f"the longest path for 64 rows is {graph.depth}; below 40 can be done")
    ops = {op.name for op in graph.ops}
    expect("cumulative_sum" not in ops, "write it without `tt.cumulative_sum`")
