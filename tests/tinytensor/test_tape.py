"""The tape: what is written down is what computes."""

import numpy as np
import pytest

import tinytensor as tt
from tinytensor.backend import numpy as arrays
from tinytensor.record.tape import SCANS, Like, NotRecorded, Recorded, record
from tinytensor.tensor import wrap

from .op_samples import SAMPLES


def replay(tape, *inputs):
    """Compute the lines of a tape by NumPy, one after the other."""
    there = dict(zip(tape.inputs, inputs, strict=True))
    for line in tape.lines:
        values = [there[x] if isinstance(x, Recorded) else x for x in line.arguments]
        shape, dtype = line.result.shape, line.result.dtype
        extra = {"broadcast_to": {"shape": shape}, "astype": {"dtype": dtype}, "sum": {"dtype": dtype}}
        options = {**line.options, **extra.get(line.name, {})}
        if line.name in SCANS:
            options["axis"] = options["axis"][0]
        if line.name in ("sum", "prod", "max", "min"):
            options["keepdims"] = True
        found = np.full(shape, *values) if line.name == "full" else getattr(arrays, line.name)(*values, **options)
        there[line.result] = np.asarray(found)
        assert (there[line.result].shape, there[line.result].dtype) == (shape, dtype), line
    return [there[x] for x in tape.results]


def test_it_prints_as_its_page_says():
    tape = record(lambda xp, x: 1 / (1 + xp.exp(-x)), [Like((8,), "float32")])
    assert str(tape).splitlines() == ["v1 = negative(v0)", "v2 = exp(v1)", "v3 = add(1, v2)", "v4 = divide(1, v3)"]


@pytest.mark.parametrize("name", sorted(name for name in SAMPLES if tt.ops.get(name) and tt.ops[name].pure))
def test_what_is_written_down_is_what_the_function_computes(name):
    function = tt.ops[name].function
    for sample in SAMPLES[name]:
        inputs = [x for x in sample.inputs if isinstance(x, np.ndarray)]
        if len(inputs) < len(sample.inputs) or sample.function is not tt.ops[name].call:
            continue
        params = {**tt.ops[name].defaults, **sample.params}
        with np.errstate(all="ignore"):
            try:
                expected = function(arrays, *inputs, **params)
                tape = record(function, inputs, **params)
            except (NotRecorded, TypeError):
                continue
            (found,) = replay(tape, *inputs)
        assert (found.shape, found.dtype) == (np.shape(expected), np.asarray(expected).dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_the_engine_writes_down_gradients():
    def both(xp, x, g):
        leaf = wrap(x, None).requires_grad_()
        with tt.textbook():
            out = tt.sigmoid(leaf) * leaf
            return [out._data, tt.grad(out, [leaf], wrap(g, None))[0]._data]

    x, g = np.linspace(-3, 3, 24).reshape(2, 3, 4)
    out, gradient = replay(record(both, [x, g]), x, g)
    p = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(out, x * p)
    np.testing.assert_allclose(gradient, g * (p + x * p * (1 - p)))


def test_the_same_call_is_one_line():
    tape = record(lambda xp, x: xp.exp(x) * xp.exp(x) + 1.0 * xp.exp(x) + 1 * xp.exp(x), [Like((3,), "float64")])
    assert [line.name for line in tape.lines] == ["exp", "multiply", "multiply", "add", "multiply", "add"]


def test_lines_that_nobody_needs_are_left_out():
    tape = record(lambda xp, x, y: (xp.exp(x), xp.exp(x) * xp.log(y)), [Like((3,), "float64")] * 2)
    first, second = tape.results
    assert [line.name for line in tape.needed([first])] == ["exp"]
    assert [line.name for line in tape.needed([second], [first])] == ["log", "multiply"]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda xp, x: x if xp.sum(x) > 0 else -x, "asks for a number"),
        (lambda xp, x: x * float(xp.max(x)), "asks for a number"),
        (lambda xp, x: x[0], "asks for a number"),
        (lambda xp, x: [*x], "asks for a number"),
        (lambda xp, x: x + np.arange(3.0), "meets an array"),
        (lambda xp, x: xp.linalg.inv(x), "not in the tables"),
        (lambda xp, x: xp.sort(x), "not in the tables"),
    ],
)
def test_what_cannot_be_written_down_says_why(function, reason):
    with pytest.raises(NotRecorded, match=reason):
        record(function, [Like((3,), "float64")])


@pytest.mark.parametrize("other", [2, 2.5, True, np.float32(2), np.float64(2), np.int64(2)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_dtypes_are_numpys(dtype, other):
    tape = record(lambda xp, x: (x * other, x > other, xp.where(x > 0, x, other)), [Like((2, 3), dtype)])
    x = np.ones((2, 3), dtype)
    expected = [x * other, x > other, np.where(x > 0, x, other)]
    assert [found.dtype for found in tape.results] == [value.dtype for value in expected]


def test_the_package_leaves_the_name_to_the_function():
    assert isinstance(tt.record, type)
    with tt.record() as graph:
        tt.exp(tt.ones(3))
    assert len(graph.ops) == 1


def test_the_same_array_in_two_shapes_and_two_dtypes_is_two_lines():
    tape = record(
        lambda xp, x: [xp.broadcast_to(x, (2, 3)), xp.broadcast_to(x, (4, 3)), xp.astype(x, "f4"), xp.astype(x, "?")],
        [Like((3,), "float64")],
    )
    assert [(x.shape, x.dtype.char) for x in tape.results] == [((2, 3), "d"), ((4, 3), "d"), ((3,), "f"), ((3,), "?")]
    assert len(tape.lines) == 4
