"""Checks of step 3: the order of a walk, and the sums that it makes."""

import numpy as np
from step01_op import Op, multiply
from step02_node import Value

from tinytensor.course.cards import numbers
from tinytensor.models.scripts.exercises import Wrong, agree, expect

CALLS = []
COUNTED = Op(lambda xp, x: 2 * x, {"x": lambda xp, g: (CALLS.append(1), 2 * g)[1]})


def leaf(*shape):
    return Value(numbers(*shape), wants=True)


def check_order(order):
    """Keep a list of pairs (value, are its parents done?). Take the last. If they are not, put it back as done, then
    its parents behind it; if they are, append the value to the result."""
    x, y, constant = leaf(3), leaf(3), Value(numbers(3))
    a = x * y
    b = a + x
    loss = a * b + constant
    beside = a * 2.0
    found = order(loss)
    expect(found is not ..., "the hole is still there")
    found = list(found)
    names = {x: "x", y: "y", a: "a", b: "b", loss: "loss", constant: "a constant", beside: "a value beside"}
    told = "for loss = a * b + constant, a = x * y, b = a + x: "
    expect(beside not in found, f"{told}a value that leads to no loss is in the list")
    expect(constant not in found, f"{told}the constant wants no gradient, and is in the list")
    expect(len(set(found)) == len(found), f"{told}a value comes twice")
    missing = [name for value, name in names.items() if value not in (*found, constant, beside)]
    expect(not missing, f"{told}{', '.join(missing)} missing")
    for value in found:
        late = [names.get(p, "a product") for p in value.parents if p.wants and found.index(p) > found.index(value)]
        expect(not late, f"{told}{names.get(value, 'a product')} comes before its parent {', '.join(late)}")
    deep = x
    for _ in range(20_000):
        deep = deep + 1.0
    try:
        found = order(deep)
    except RecursionError:
        raise Wrong(
            "a chain of 20,000 sums is too deep for a function that calls itself: keep a list of what waits"
        ) from None
    expect(len(found) == 20_001, f"a chain of 20,000 sums: {len(found)} values; expected 20,001")


def check_backward(backward):
    """Go through order(result) from its end; a dictionary holds what has arrived for each value. `a = a + b` makes a
    new array, `a += b` changes the old one."""
    x, y, c, constant = leaf(3), leaf(3), leaf(3), Value(numbers(3))
    expect(backward(x * y) is not ..., "the hole is still there")
    begun = {"the walk begins with ones, and not with the result's data": x.data * y.data**2}
    agree(x.grad, y.data, "x.grad of x * y", mistakes=begun)
    backward(x * y)
    agree(x.grad, 2 * y.data, "x.grad after a second backward", mistakes={"it adds to what is there": y.data})
    x.grad = y.grad = None
    backward(x * x * x)
    lost = {"all ways to x count: what arrives there later is added": x.data**2}
    agree(x.grad, 3 * x.data**2, "x.grad of x * x * x", mistakes=lost)
    for i in range(4):  # in whatever order they are made or read, one meets the array that is already y's
        x.grad = y.grad = c.grad = None
        a, b = (x + y, x * c) if i < 2 else (x * c, x + y)
        backward(b + a if i % 2 else a + b)
        agree(x.grad, 1 + c.data, "x.grad of (x + y) + (x * c)")
        agree(y.grad, np.ones(3), "y.grad of (x + y) + (x * c): a rule may return g itself, which `+=` would change")
    inner = x * constant
    backward(inner * 2.0)
    expect(constant.grad is None, "a Value that wants no gradient got one")
    expect(inner.grad is None, "a Value that was computed got one; expected leaves alone")
    shapes = []
    backward(multiply(leaf(2, 3), leaf(3)), lambda g, shape: shapes.append(shape) or g.sum(axis=0) * np.ones(shape))
    expect(sorted(shapes) == [(2, 3), (3,)], f"fit was called with shapes {shapes}; parents have (2, 3) and (3,)")
    doubled = COUNTED(leaf(1))
    for _ in range(12):
        doubled = doubled + doubled
    backward(doubled)
    expect(len(CALLS) == 1, f"a rule was called {len(CALLS)} times; each value has its turn once, when all has arrived")
