"""Wherever an axis can be named, a wrong one gives an error with the function, the argument, its value and the shape.

The calls are made from the signatures of all public functions, so that a new one cannot be left out.
"""

import inspect
import re

import pytest

import tinytensor as tt
import tinytensor.nn.functional as F

SHAPE = (2, 3)
ARGUMENTS = ("axis", "axes", "axis1", "axis2", "dim", "source", "destination")
OTHERS = {  # what the other required arguments are in these calls
    **dict.fromkeys(("x", "x1", "x2", "input"), tt.ones(SHAPE)),
    "arrays": [tt.ones(SHAPE), tt.ones(SHAPE)],
    "indices": tt.zeros(SHAPE, dtype=tt.int64),
    **dict.fromkeys(("k", "sections", "shift", "repeats", "values", "q"), 1),
    **dict.fromkeys(("axis1", "axis2", "source", "destination"), 0),
}


def callables():
    for prefix, holder in (("", tt), ("linalg.", tt.linalg), ("fft.", tt.fft), ("F.", F)):
        for name in holder.__all__:
            if inspect.isfunction(getattr(holder, name)) and name != "causal_mask":  # its `source` is a length
                yield prefix + name, getattr(holder, name)
    for name, method in inspect.getmembers(tt.Tensor, inspect.isfunction):
        if not name.startswith("_"):
            yield f"Tensor.{name}", method


CALLS = [
    pytest.param(function, argument, id=f"{name}-{argument}")
    for name, function in callables()
    for argument in inspect.signature(function).parameters
    if argument in ARGUMENTS
]


def call(function, argument, value):
    """Call a function with one argument chosen, and the others as they may be."""
    positional, named, skipped = [], {}, False
    for name, parameter in inspect.signature(function).parameters.items():
        if name == argument and function is tt.Tensor.permute:  # its axes are arguments of their own
            positional += value
        elif name == argument or parameter.default is parameter.empty:
            chosen = value if name == argument else OTHERS["x" if name == "self" else name]
            if parameter.kind is parameter.KEYWORD_ONLY or skipped:
                named[name] = chosen
            else:
                positional.append(chosen)
        else:
            skipped = True
    return function(*positional, **named)


def values_for(function, argument, wrong):
    """An argument in which an axis is wrong: as it is, but for the few functions that take several at once."""
    if function is tt.tensordot:
        return ((wrong,), (0,))
    return (0, wrong) if argument == "axes" else wrong


def several(function, argument):
    """Whether the argument may name several axes."""
    annotation = inspect.signature(function).parameters[argument].annotation
    return annotation == "Axis" or "Sequence" in annotation or "tuple" in annotation or function is tt.Tensor.permute


def test_there_are_many_of_them():
    assert len(CALLS) > 60


@pytest.mark.parametrize(("function", "argument"), CALLS)
@pytest.mark.parametrize("wrong", [5, -6])
def test_an_axis_out_of_range(function, argument, wrong):
    with pytest.raises((IndexError, ValueError)) as caught:
        call(function, argument, values_for(function, argument, wrong))
    name = "permute_dims" if function is tt.Tensor.permute else function.__name__
    assert re.match(rf"{name}: {argument} .*{wrong}\b.*\(2, 3\)", str(caught.value)), str(caught.value)


@pytest.mark.parametrize(("function", "argument"), CALLS)
def test_an_axis_named_twice(function, argument):
    """A function of one axis says that it takes no more."""
    twice = {tt.tensordot: ((0, 0), (0, 1)), tt.expand_dims: (0, -4)}.get(function, (0, -2))
    with pytest.raises(ValueError if several(function, argument) else TypeError) as caught:
        call(function, argument, twice)
    name = "permute_dims" if function is tt.Tensor.permute else function.__name__
    met = re.escape(str(twice[0] if function is tt.tensordot else twice))
    end = rf"{met}.*\(2, 3\)" if several(function, argument) else f"must be an integer, got {met}"
    assert re.match(rf"{name}: {argument} {end}", str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    "wrong_axis", [lambda x: tt.mean(x, axis="rows"), lambda x: x.sum(1.5), lambda x: tt.flip(x, axis=(0, None))]
)
def test_an_axis_that_is_no_integer(wrong_axis):
    with pytest.raises(TypeError, match=r"^(mean|sum|flip): axis must be an integer, got ('rows'|1\.5|None)"):
        wrong_axis(tt.ones(SHAPE))


def test_an_array_without_dimensions_has_no_axis():
    with pytest.raises(IndexError, match=r"^max: axis 0 is out of range for a Tensor of shape \(\); it has none"):
        tt.max(1.0, axis=0)
