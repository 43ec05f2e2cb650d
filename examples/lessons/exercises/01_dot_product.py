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
    for size, low in ((3, 20.0), (5, 100.0), (2, 20.0)):
        degrees = low + 60.0 * float(tt.random.rand())
        a, other = tt.random.randn(2, size)
        a = 2.5 * a / tt.linalg.vector_norm(a)
        across = other - a * (a @ other) / (a @ a)
        across /= tt.linalg.vector_norm(across)
        cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        b = 1.4 * (cos * a / 2.5 + sin * across)
        mistakes = {
            "it is in radians; `math.degrees` turns them": math.radians(degrees),
            "it is the cosine of the angle: the inverse of the cosine is missing": cos,
            "it is the cosine in degrees: the inverse of the cosine is missing": math.degrees(cos),
            "it is the dot product": 3.5 * cos,
            "it is the sine's inverse and not the cosine's": 90 - degrees,
            "the sign of a·b is lost: an angle may be more than 90 degrees": min(degrees, 180 - degrees),
            "it is the angle to −b": 180 - degrees,
            "it is degrees turned into radians; `acos` gives radians, and `math.degrees` turns them": math.radians(
                math.radians(degrees)
            ),
        }
        if abs(cos) * 1.4 < 1:
            mistakes["only one length divides; both have to"] = math.degrees(math.acos(cos * 1.4))
        if abs(cos) * 2.5 < 1:
            mistakes["only one length divides; both have to "] = math.degrees(math.acos(cos * 2.5))
        if abs(cos) * 3.5 < 1:
            mistakes["the lengths are missing: the cosine is a·b / (|a| |b|)"] = math.degrees(math.acos(cos * 3.5))
        mistakes["it is squared lengths that divide; the cosine is a·b / (|a| |b|)"] = math.degrees(
            math.acos(cos / 3.5)
        )
        agree(angle(a, b), degrees, f"the angle of two vectors of {size} numbers", 1e-4, mistakes)


@exercise(
    "def project(a, b):",
    "The result points as b does: it is a number times b.",
    "a reaches a·b / |b| along b, and b / |b| has length 1: their product is b (a·b) / (b·b).",
)
def check_project(project):
    """The projection of vector a on vector b: the vector along b that a casts its shadow on."""
    for size in (2, 5):
        a, b = tt.random.randn(2, size)
        ab, bb, aa = a @ b, b @ b, a @ a
        mistakes = {
            "it is the projection of b on a": a * ab / aa,
            "it is a number, the length of the shadow; the projection is a vector along b": ab / bb**0.5,
            "it is the factor of b; the projection is b times it": ab / bb,
            "it is divided by |b| once; b itself has this length, too": b * ab / bb**0.5,
            "it is not divided: b (a·b) has to be divided by b·b": b * ab,
            "it is what is left of a, across b": a - b * ab / bb,
            "it is divided by |a| |b| and not by b·b": b * ab / (aa * bb) ** 0.5,
            "it is divided by a·a and not by b·b": b * ab / aa,
            "it multiplies element by element; the dot product is the sum": a * b * b / bb,
            "it is b with length 1": b / bb**0.5,
            "it points the other way": -b * ab / bb,
        }
        agree(project(a, b), b * ab / bb, f"the projection of a on b, {size} numbers each", mistakes=mistakes)
