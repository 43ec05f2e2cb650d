"""Exercises of lesson 25: a picture as patches, and the map of what the vector in front looks at."""

import numpy as np

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def patches(picture, size):",
    "Patch (i, j) is `picture[i * size : (i + 1) * size, j * size : (j + 1) * size]`, and `.reshape(-1)` makes a row.",
    "Or `picture.reshape(rows, size, columns, size)`, whose axes 1 and 2 have to be exchanged.",
)
def check_patches(patches):
    """The patches of a picture (height, width), a NumPy array, row by row: (patches, size * size). `size` divides
    height and width; the numbers of a patch are in the order of its rows as well."""
    for rows, columns, size in ((2, 3, 4), (5, 2, 3), (1, 4, 2)):
        picture = tt.random.randn(rows * size, columns * size, dtype=tt.float64).numpy().copy()
        four = picture.reshape(rows, size, columns, size)
        right = four.transpose(0, 2, 1, 3).reshape(rows * columns, -1)
        mistakes = {
            "these are numbers in a row, not in a square: reshaping alone does not cut": picture.reshape(
                rows * columns, -1
            ),
            "patches are in the order of columns; expected row by row": four.transpose(2, 0, 1, 3).reshape(
                rows * columns, -1
            ),
            "the numbers within a patch are in the order of its columns": four.transpose(0, 2, 3, 1).reshape(
                rows * columns, -1
            ),
            "the picture is transposed": four.transpose(2, 0, 3, 1).reshape(rows * columns, -1),
            "height and width of the picture are exchanged": picture.reshape(columns, size, rows, size)
            .transpose(0, 2, 1, 3)
            .reshape(rows * columns, -1),
            "each patch is still a square; expected a row of numbers": right.reshape(-1, size, size),
            "patches are still in rows and columns; expected one after the other": right.reshape(rows, columns, -1),
            "a patch has every so many pixels; its pixels lie side by side": picture.reshape(size, rows, size, columns)
            .transpose(1, 3, 0, 2)
            .reshape(rows * columns, -1),
            "these are squares at every pixel; patches do not overlap": np.lib.stride_tricks.sliding_window_view(
                picture, (size, size)
            ).reshape(-1, size * size),
            "a patch is a column; expected a row for each": right.T,
        }
        what = f"the patches of {rows * size} x {columns * size} pixels, {size} x {size} each"
        agree(patches(picture.copy(), size), right, what, mistakes=mistakes)


@exercise(
    "def looks(weights, rows, columns):",
    "A row of weights is a query: `weights[:, 0, 1:]` are those of the vector in front, for the patches alone.",
    "Take the mean over heads, divide by the sum, and make rows and columns of it.",
)
def check_looks(looks):
    """The map of what the vector in front looks at. weights (heads, 1 + patches, 1 + patches), a NumPy array, have a
    row for each query; number 0 is the vector in front, the patches follow row by row. The mean of the heads, (rows,
    columns), divided by its sum: the vector's weight for itself is left out."""
    for heads, rows, columns in ((3, 2, 4), (2, 5, 3)):
        n = 1 + rows * columns
        weights = tt.random.rand(heads, n, n, dtype=tt.float64).numpy() ** 2
        weights = weights / weights.sum(axis=2, keepdims=True)
        seen = weights[:, 0, 1:]
        mean = seen.mean(axis=0)

        def of(numbers, rows=rows, columns=columns):
            return (numbers / numbers.sum()).reshape(rows, columns)

        mistakes = {
            "it does not add up to 1: divide by its sum": mean.reshape(rows, columns),
            "it does not add up to 1: these are sums over heads": seen.sum(axis=0).reshape(rows, columns),
            "row and column of the weights are exchanged: a row is a query": of(weights[:, 1:, 0].mean(axis=0)),
            "the weight for itself is in it: patches begin at 1": of(weights[:, 0, :-1].mean(axis=0)),
            "the weight for itself is in it: divide by the sum of the patches": weights[:, 0]
            .mean(axis=0)[:-1]
            .reshape(rows, columns),
            "it is one head's; expected the mean of all": of(seen[0]),
            "it is the last head's; expected the mean of all": of(seen[-1]),
            "it is the largest of the heads; expected the mean": of(seen.max(axis=0)),
            "patches follow column by column here; they do row by row": of(mean).reshape(-1).reshape(columns, rows).T,
            "it has rows and columns exchanged": of(mean).T,
            "it has rows and columns exchanged ": of(mean).reshape(columns, rows),
            "these are the weights of all queries; expected those of the vector in front": of(
                weights[:, :, 1:].mean(axis=(0, 1))
            ),
            "it is still a row; expected rows and columns": mean / mean.sum(),
            "it is the first patch's; the vector in front is number 0": of(weights[:, 1, 1:].mean(axis=0)),
            "it is divided by its largest; expected its sum": (mean / mean.max()).reshape(rows, columns),
            "softmax was taken of weights: divide by their sum": of(np.exp(mean)),
            "each head was divided before the mean; divide the mean": (seen / seen.sum(axis=1, keepdims=True))
            .mean(axis=0)
            .reshape(rows, columns),
        }
        what = f"the map of {heads} heads over {rows} x {columns} patches"
        agree(looks(weights.copy(), rows, columns), of(mean), what, mistakes=mistakes)
