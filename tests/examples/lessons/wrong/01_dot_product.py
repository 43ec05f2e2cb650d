"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import math

import tinytensor as tt


def cosine(a, b):
    return (a @ b / (tt.linalg.vector_norm(a) * tt.linalg.vector_norm(b))).item()


def angle__in_radians(a, b):
    """it is in radians"""
    return math.acos(cosine(a, b))


def angle__cosine(a, b):
    """it is the cosine of the angle"""
    return cosine(a, b)


def angle__cosine_in_degrees(a, b):
    """the inverse of the cosine is missing"""
    return math.degrees(cosine(a, b))


def angle__by_sine(a, b):
    """the sine's inverse and not the cosine's"""
    return math.degrees(math.asin(cosine(a, b)))


def angle__without_the_sign(a, b):
    """the sign of a·b is lost"""
    return math.degrees(math.acos(abs(cosine(a, b))))


def angle__of_squared_lengths(a, b):
    """it is squared lengths that divide"""
    return math.degrees(math.acos((a @ b / ((a @ a) * (b @ b))).item()))


def angle__to_the_opposite(a, b):
    """it is the angle to −b"""
    return 180 - math.degrees(math.acos(cosine(a, b)))


def angle__turned_the_wrong_way(a, b):
    """it is degrees turned into radians"""
    return math.radians(math.acos(cosine(a, b)))


def angle__dot_product(a, b):
    """it is the dot product"""
    return a @ b


def angle__between_numbers(a, b):
    """It raised"""
    return math.degrees(math.acos(a * b))


def project__of_b_on_a(a, b):
    """it is the projection of b on a"""
    return a * (a @ b) / (a @ a)


def project__length_of_the_shadow(a, b):
    """it is a number, the length of the shadow"""
    return a @ b / tt.linalg.vector_norm(b)


def project__factor(a, b):
    """it is the factor of b"""
    return a @ b / (b @ b)


def project__divided_once(a, b):
    """it is divided by |b| once"""
    return b * (a @ b) / tt.linalg.vector_norm(b)


def project__not_divided(a, b):
    """it is not divided"""
    return b * (a @ b)


def project__what_is_left(a, b):
    """it is what is left of a"""
    return a - b * (a @ b) / (b @ b)


def project__by_both_lengths(a, b):
    """it is divided by |a| |b|"""
    return b * (a @ b) / (tt.linalg.vector_norm(a) * tt.linalg.vector_norm(b))


def project__element_by_element(a, b):
    """it multiplies element by element"""
    return (a * b) * b / (b @ b)
