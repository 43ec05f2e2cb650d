"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

import numpy as np


def cut(picture, size, *axes):
    height, width = picture.shape
    four = picture.reshape(height // size, size, width // size, size)
    return four.transpose(*axes).reshape(-1, size * size)


def patches__reshaped(picture, size):
    """reshaping alone does not cut"""
    return picture.reshape(-1, size * size)


def patches__not_exchanged(picture, size):
    """reshaping alone does not cut"""
    return cut(picture, size, 0, 1, 2, 3)


def patches__column_by_column(picture, size):
    """patches are in the order of columns"""
    return cut(picture, size, 2, 0, 1, 3)


def patches__transposed_within(picture, size):
    """the numbers within a patch are in the order of its columns"""
    return cut(picture, size, 0, 2, 3, 1)


def patches__of_the_transposed(picture, size):
    """the picture is transposed"""
    return cut(picture.T, size, 0, 2, 1, 3)


def patches__squares(picture, size):
    """each patch is still a square"""
    return cut(picture, size, 0, 2, 1, 3).reshape(-1, size, size)


def patches__in_a_grid(picture, size):
    """patches are still in rows and columns"""
    return cut(picture, size, 0, 2, 1, 3).reshape(len(picture) // size, -1, size * size)


def patches__far_apart(picture, size):
    """a patch has every so many pixels"""
    rows, columns = (side // size for side in picture.shape)
    return [picture[i::rows, j::columns].ravel() for i in range(rows) for j in range(columns)]


def patches__at_every_pixel(picture, size):
    """patches do not overlap"""
    height, width = picture.shape
    places = [(i, j) for i in range(height - size + 1) for j in range(width - size + 1)]
    return [picture[i : i + size, j : j + size].ravel() for i, j in places]


def patches__sides_exchanged(picture, size):
    """height and width of the picture are exchanged"""
    height, width = picture.shape
    four = picture.reshape(width // size, size, height // size, size)
    return four.transpose(0, 2, 1, 3).reshape(-1, size * size)


def patches__of_four_by_four(picture, size):
    """It raised"""
    return cut(picture, 4, 0, 2, 1, 3)


def on_the_grid(numbers, rows, columns):
    return (numbers / numbers.sum()).reshape(rows, columns)


def looks__not_divided(weights, rows, columns):
    """it does not add up to 1"""
    return weights[:, 0, 1:].mean(axis=0).reshape(rows, columns)


def looks__keys_and_queries(weights, rows, columns):
    """a row is a query"""
    return on_the_grid(weights[:, 1:, 0].mean(axis=0), rows, columns)


def looks__with_itself(weights, rows, columns):
    """patches begin at 1"""
    return on_the_grid(weights[:, 0, :-1].mean(axis=0), rows, columns)


def looks__one_head(weights, rows, columns):
    """it is one head's"""
    return on_the_grid(weights[0, 0, 1:], rows, columns)


def looks__largest(weights, rows, columns):
    """it is the largest of the heads"""
    return on_the_grid(weights[:, 0, 1:].max(axis=0), rows, columns)


def looks__column_by_column(weights, rows, columns):
    """they do row by row"""
    return on_the_grid(weights[:, 0, 1:].mean(axis=0), columns, rows).T


def looks__transposed(weights, rows, columns):
    """it has rows and columns exchanged"""
    return on_the_grid(weights[:, 0, 1:].mean(axis=0), rows, columns).T


def looks__all_queries(weights, rows, columns):
    """these are the weights of all queries"""
    return on_the_grid(weights.mean(axis=(0, 1))[1:], rows, columns)


def looks__first_patch(weights, rows, columns):
    """the vector in front is number 0"""
    return on_the_grid(weights[:, 1, 1:].mean(axis=0), rows, columns)


def looks__a_row(weights, rows, columns):
    """it is still a row"""
    return on_the_grid(weights[:, 0, 1:].mean(axis=0), 1, -1)[0]


def looks__by_the_largest(weights, rows, columns):
    """it is divided by its largest"""
    seen = weights[:, 0, 1:].mean(axis=0).reshape(rows, columns)
    return seen / seen.max()


def looks__softmax(weights, rows, columns):
    """softmax was taken of weights"""
    return on_the_grid(np.exp(weights[:, 0, 1:].mean(axis=0)), rows, columns)


def looks__all_of_them(weights, rows, columns):
    """It raised"""
    return on_the_grid(weights[:, 0].mean(axis=0), rows, columns)
