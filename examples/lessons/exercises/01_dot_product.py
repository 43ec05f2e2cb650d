"""Exercises of lesson 1: an angle, and a projection."""

import math

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def angle(a, b):",
    "a·b = |a| |b| cos θ: divide by both lengths, which `tt.linalg.vector_norm` gives.",
    "The inverse of the cosine is `tt.acos` or `math.acos`, and gives radians; `math.degrees` turns them.",
)
def check_angle(angle):
    """The angle between two vectors of the same length, in degrees."""
    a, b = tt.tensor([1.0, 2.0, 3.0]), tt.tensor([4.0, 5.0, 6.0])
    agree(angle(a, b), math.degrees(math.acos(32 / math.sqrt(14 * 77))), "the angle of [1, 2, 3] and [4, 5, 6]", 1e-4)
    agree(angle(tt.tensor([0.0, 2.0]), tt.tensor([-3.0, 0.0])), 90.0, "the angle of [0, 2] and [-3, 0]", 1e-4)


@exercise(
    "def project(a, b):",
    "The result points as b does: it is a number times b.",
    "a reaches a·b / |b| along b, and b / |b| has length 1: their product is b (a·b) / (b·b).",
)
def check_project(project):
    """The projection of vector a on vector b: the vector along b that a casts its shadow on."""
    agree(project(tt.tensor([2.0, 3.0]), tt.tensor([4.0, 0.0])), [2.0, 0.0], "the projection of [2, 3] on [4, 0]")
    a, b = tt.random.randn(2, 5)
    agree(project(a, b), b * (a @ b) / (b @ b), "the projection of a on b, five numbers each")
