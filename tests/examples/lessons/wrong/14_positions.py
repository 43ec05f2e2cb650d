"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import math

import tinytensor as tt


def angles(length, d_model, factor=2.0, base=10000.0, first=0):
    speeds = base ** (-factor * tt.arange(d_model // 2, dtype=tt.float64) / d_model)
    return tt.arange(first, length + first, dtype=tt.float64)[:, None] * speeds


def alternate(a, b):
    return tt.stack([a, b], axis=-1).reshape(len(a), -1)


def positional_encoding__in_halves(length, d_model):
    """all sines come first"""
    a = angles(length, d_model)
    return tt.concat([tt.sin(a), tt.cos(a)], axis=1)


def positional_encoding__cosines_first(length, d_model):
    """sines and cosines are exchanged"""
    a = angles(length, d_model)
    return alternate(tt.cos(a), tt.sin(a))


def positional_encoding__without_2(length, d_model):
    """the 2 is missing"""
    a = angles(length, d_model, 1.0)
    return alternate(tt.sin(a), tt.cos(a))


def positional_encoding__2_twice(length, d_model):
    """the 2 counts twice"""
    a = angles(length, d_model, 4.0)
    return alternate(tt.sin(a), tt.cos(a))


def positional_encoding__an_angle_for_each(length, d_model):
    """here each dimension has its own"""
    return tt.asarray(
        [
            [(math.cos if i % 2 else math.sin)(pos / 10000 ** (i / d_model)) for i in range(d_model)]
            for pos in range(length)
        ]
    )


def positional_encoding__from_1(length, d_model):
    """positions begin with 0"""
    a = angles(length, d_model, first=1)
    return alternate(tt.sin(a), tt.cos(a))


def positional_encoding__base_1000(length, d_model):
    """the base is 1000"""
    a = angles(length, d_model, base=1000.0)
    return alternate(tt.sin(a), tt.cos(a))


def positional_encoding__transposed(length, d_model):
    """it is transposed"""
    a = angles(length, d_model)
    return alternate(tt.sin(a), tt.cos(a)).mT


def positional_encoding__sines(length, d_model):
    """there are sines only"""
    a = angles(length, d_model)
    return alternate(tt.sin(a), tt.sin(a))


def positional_encoding__half(length, d_model):
    """has shape"""
    return tt.sin(angles(length, d_model))


def shift(d_model, angle, turn=((1, 1), (-1, 1))):
    M = tt.zeros((d_model, d_model))
    for i in range(d_model // 2):
        c, s = math.cos(angle(i)), math.sin(angle(i))
        M[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = tt.asarray([[c, s], [s, c]]) * tt.asarray(turn)
    return M


def shift_matrix__back(k, d_model):
    """it goes back"""
    return shift(d_model, lambda i: k / 10000 ** (2 * i / d_model)).mT


def shift_matrix__of_3_in_8(k, d_model):
    """has shape (8, 8); expected (6, 6)"""
    return shift(8, lambda i: 3 / 10000 ** (2 * i / 8))


def shift_matrix__without_minus(k, d_model):
    """a minus is missing"""
    return shift(d_model, lambda i: k / 10000 ** (2 * i / d_model), ((1, 1), (1, 1)))


def shift_matrix__one_angle(k, d_model):
    """every pair turns by the same angle"""
    return shift(d_model, lambda i: k)


def shift_matrix__one_step(k, d_model):
    """k is missing"""
    return shift(d_model, lambda i: 1 / 10000 ** (2 * i / d_model))


def shift_matrix__without_2(k, d_model):
    """the 2 is missing"""
    return shift(d_model, lambda i: k / 10000 ** (i / d_model))


def shift_matrix__2_twice(k, d_model):
    """the 2 counts twice"""
    return shift(d_model, lambda i: k / 10000 ** (4 * i / d_model))


def shift_matrix__nothing(k, d_model):
    """it moves nothing"""
    return tt.eye(d_model)


def shift_matrix__sine_for_cosine(k, d_model):
    """sin and cos are exchanged"""
    return shift(d_model, lambda i: math.pi / 2 - k / 10000 ** (2 * i / d_model))


def shift_matrix__first_pair(k, d_model):
    """0 for all others"""
    return shift(d_model, lambda i: k if i == 0 else 0)
