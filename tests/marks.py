"""Marks for some of a test's parameters, so that the README's command runs a few of many similar cases."""

import re
from pathlib import Path

import pytest


def patterns(file):
    lines = Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


REPETITIONS, SLOW = patterns("repetitions.txt"), patterns("slow.txt")
is_repetition, is_slow = re.compile("|".join(REPETITIONS)).search, re.compile("|".join(SLOW)).search


def slow_after(count, values):
    """Parameters of which all but the first `count` are slow."""
    return [each if i < count else marked(each, pytest.mark.slow) for i, each in enumerate(values)]


def marked(value, mark):
    """One parameter, or a tuple of several, with one more mark."""
    if isinstance(value, type(pytest.param())):
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, mark])
    return pytest.param(*(value if isinstance(value, tuple) else [value]), marks=mark)
