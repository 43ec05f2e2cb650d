import math

import tinytensor as tt


def angle(a, b):
    lengths = tt.linalg.vector_norm(a) * tt.linalg.vector_norm(b)
    return math.degrees(math.acos((a @ b / lengths).item()))


def project(a, b):
    return b * (a @ b) / (b @ b)
