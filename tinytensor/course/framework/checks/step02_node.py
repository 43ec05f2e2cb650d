"""Checks of step 2: what a value remembers, and what its rules give."""

from step01_op import Op

from tinytensor.course.cards import expect_type, numbers
from tinytensor.models.scripts.exercises import Wrong, agree, expect

SCALED = Op(
    lambda xp, x, y, *, k: k * x * y, {"x": lambda xp, g, x, out: g * out / x, "y": lambda xp, g, x, k: g * k * x}
)


def check_apply(apply):
    """The op's result, with op, parents, parameters, and whether a gradient is wanted."""
    Value = apply.__globals__["Value"]
    x, array = Value(numbers(2, 3), wants=True), numbers(3)
    result = apply(SCALED, x, array, k=3.0)
    expect_type(result, Value)
    agree(result.data, 3 * x.data * array, "the data of the result")
    expect(result.op is SCALED, f"the result remembers the op {result.op}; expected the very op")
    expect(len(result.parents) == 2, f"the result has {len(result.parents)} parents; the op had 2 inputs")
    expect(result.parents[0] is x, "the first parent is not the very Value that was given: a copy gets no gradient")
    expect(isinstance(result.parents[1], Value), "an input that is an array must become a Value")
    expect(not result.parents[1].wants, "an array became a Value that wants a gradient")
    expect(result.parameters == {"k": 3.0}, f"the result remembers the parameters {result.parameters}; given was k=3.0")
    expect(result.wants, "one of the parents wants a gradient, so the result must want one")
    expect(apply(SCALED, array, x, k=1.0).wants, "the second parent wants a gradient, so the result must want one")
    expect(not apply(SCALED, 2.0, array, k=1.0).wants, "no parent wants a gradient, but the result does")


def check_gradients(gradients):
    """One pair for each parent that wants a gradient."""
    Value, apply = gradients.__globals__["Value"], gradients.__globals__["apply"]
    x, y, g = Value(numbers(2, 3), wants=True), Value(numbers(2, 3) + 5, wants=True), numbers(2, 3)
    try:
        expect(gradients(x, g) is not ..., "the hole is still there")
        expect(list(gradients(x, g)) == [], "a leaf has no parents, so expected is an empty list")
    except AttributeError:
        raise Wrong("it fails for a leaf, whose op is None; expected is an empty list") from None
    for left, right, wanted in ((x, y, [x, y]), (x, Value(y.data), [x]), (Value(x.data), y, [y]), (x, x, [x, x])):
        pairs = list(gradients(apply(SCALED, left, right, k=3.0), g))
        case = f"for {'a Value twice' if left is right else f'parents that want {left.wants} and {right.wants}'}"
        expect(len(pairs) == len(wanted), f"{case}: {len(pairs)} pairs; expected one for each that wants it")
        for (parent, gradient), expected in zip(pairs, wanted):
            expect(parent is expected, f"{case}: a pair has another parent than expected; keep their order")
            other = right if parent is left else left
            turned = {
                "the arrays of the inputs come in another order than the inputs": g * 3 * parent.data,
                "the rule gets as `out` what is not the value's data": g * g / parent.data,
            }
            agree(gradient, g * 3 * other.data, f"{case}: a gradient", mistakes=turned)
