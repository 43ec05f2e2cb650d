"""Marks for some of a test's parameters, so that the README's command runs a few of many similar cases."""

import re
from pathlib import Path

import pytest

REPETITIONS = [
    line
    for line in Path(__file__).with_name("repetitions.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
is_repetition = re.compile("|".join(REPETITIONS)).search


def slow_after(count, values):
    """Parameters of which all but the first `count` are slow."""
    return [each if i < count else marked(each, pytest.mark.slow) for i, each in enumerate(values)]


def marked(value, mark):
    """One parameter, or a tuple of several, with one more mark."""
    if isinstance(value, type(pytest.param())):
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, mark])
    return pytest.param(*(value if isinstance(value, tuple) else [value]), marks=mark)
