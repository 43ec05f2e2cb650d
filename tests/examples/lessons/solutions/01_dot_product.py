"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import math

import numpy as np

import tinytensor as tt


def angle(a, b):
    lengths = tt.linalg.vector_norm(a) * tt.linalg.vector_norm(b)
    return math.degrees(math.acos((a @ b / lengths).item()))


def project(a, b):
    return b * (a @ b) / (b @ b)


def angle__by_numpy(a, b):
    a, b = a.numpy(), b.numpy()
    return np.rad2deg(np.arccos(np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b)))


def angle__of_unit_vectors(a, b):
    a, b = a / tt.linalg.vector_norm(a), b / tt.linalg.vector_norm(b)
    return tt.acos((a * b).sum()) * 180 / math.pi


def angle__by_sides(a, b):
    aa, bb, cc = (sum(float(i) ** 2 for i in v) for v in (a, b, a - b))
    return math.degrees(math.acos((aa + bb - cc) / (2 * math.sqrt(aa * bb))))


def project__by_the_unit_vector(a, b):
    unit = b / tt.linalg.vector_norm(b)
    return (a @ unit) * unit


def project__by_the_matrix(a, b):
    return (b[:, None] * b[None]) @ a / (b * b).sum()


def project__list(a, b):
    factor = sum(x * y for x, y in zip(a.tolist(), b.tolist())) / sum(y * y for y in b.tolist())
    return [factor * y for y in b.tolist()]
