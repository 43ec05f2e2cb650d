"""Exercises of lesson 14: the encoding, and the matrix of a shift."""

import numpy as np

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def positional_encoding(length, d_model):",
    "Angles are pos / 10000^(2i / d_model): `tt.arange(length)[:, None]` times a row of speeds, one for each i.",
    "Sines and cosines alternate: `tt.stack([tt.sin(angles), tt.cos(angles)], axis=-1)`, reshaped.",
)
def check_positional_encoding(positional_encoding):
    """The sinusoidal encoding of positions 0, 1, ... (section 3.5), (length, d_model), for an even d_model: sines in
    dimensions 0, 2, ..., cosines in 1, 3, ..."""
    for length, d_model in ((5, 8), (6 + int(tt.random.integers(0, 5)), 6)):
        i = np.arange(d_model // 2)
        places = np.arange(length)[:, None]

        def waves(speeds, places=places, first=np.sin, second=np.cos):
            return np.stack([first(places * speeds), second(places * speeds)], axis=-1).reshape(length, d_model)

        speeds = 10000.0 ** (-2 * i / d_model)
        expected = nn.PositionalEncoding(d_model).encoding[:length].numpy()
        each = 10000.0 ** (-np.arange(d_model) / d_model)
        mistakes = {
            "all sines come first and all cosines after them; in the paper they alternate": np.concatenate(
                [expected[:, 0::2], expected[:, 1::2]], axis=1
            ),
            "sines and cosines are exchanged": waves(speeds, first=np.cos, second=np.sin),
            "there are sines only": waves(speeds, second=np.sin),
            "there are cosines only": waves(speeds, first=np.cos),
            "the exponent is 2i / d_model; the 2 is missing": waves(10000.0 ** (-i / d_model)),
            "the 2 counts twice: if i goes 0, 2, 4, ..., the exponent is i / d_model": waves(
                10000.0 ** (-4 * i / d_model)
            ),
            "a sine and its cosine have one angle, that of 2i; here each dimension has its own": np.where(
                np.arange(d_model) % 2 == 0, np.sin(places * each), np.cos(places * each)
            ),
            "positions begin with 0": waves(speeds, places + 1),
            "the base is 1000; expected 10000": waves(1000.0 ** (-2 * i / d_model)),
            "all waves have one speed": waves(np.ones(len(i))),
            "it is transposed: a row is a position": expected.T,
            "the slow waves come first: the exponent's sign is turned round, or the order": waves(speeds[::-1]),
            "angles are multiplied by 10000^(2i / d_model); divide": waves(1 / speeds),
        }
        what = f"the encoding of {length} positions in {d_model} dimensions"
        agree(positional_encoding(length, d_model), expected, what, 1e-4, mistakes)


@exercise(
    "def shift_matrix(k, d_model):",
    "Dimensions 2i and 2i + 1 turn by the angle k / 10000^(2i / d_model), and are mixed with no others.",
    "sin(a + b) = sin a cos b + cos a sin b is the first row of a block, cos(a + b) = cos a cos b − sin a sin b the "
    "second.",
)
def check_shift_matrix(shift_matrix):
    """The matrix M, (d_model, d_model), with PE(pos + k) = M PE(pos) at every position."""
    for k, d_model in ((3, 8), (4 + int(tt.random.integers(0, 5)), 6)):
        i = np.arange(d_model // 2)
        speeds = 10000.0 ** (-2 * i / d_model)

        def blocks(angles, turn=((1, 1), (-1, 1))):
            M = np.zeros((d_model, d_model))
            for j, angle in enumerate(angles):
                c, s = np.cos(angle), np.sin(angle)
                M[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = np.array(turn) * np.array([[c, s], [s, c]])
            return M

        M = blocks(k * speeds)
        split = np.concatenate([np.arange(0, d_model, 2), np.arange(1, d_model, 2)])
        mistakes = {
            "it goes back: M PE(pos + k) is PE(pos); the angle has the wrong sign, or M is transposed": M.T,
            "a minus is missing: the second row of a block is −sin, cos": blocks(k * speeds, ((1, 1), (1, 1))),
            "the minus is at both sines": blocks(k * speeds, ((1, -1), (-1, 1))),
            "sin and cos are exchanged in the blocks": blocks(np.pi / 2 - k * speeds),
            "every pair turns by the same angle; pair i turns by k / 10000^(2i / d_model)": blocks(k + 0 * i),
            "the angle is that of one step: k is missing": blocks(speeds),
            "the exponent is 2i / d_model; the 2 is missing": blocks(k * 10000.0 ** (-i / d_model)),
            "the 2 counts twice: if i goes 0, 2, 4, ..., the exponent is i / d_model": blocks(
                k * 10000.0 ** (-4 * i / d_model)
            ),
            "it moves nothing": np.eye(d_model),
            "angles are multiplied by 10000^(2i / d_model); divide": blocks(k / speeds),
            "it is for sines first and cosines after them; in the paper they alternate": M[split][:, split],
            "the angle is k for the first pair and 0 for all others": blocks(k * (i == 0)),
        }
        agree(shift_matrix(k, d_model), M, f"M for k = {k} and d_model = {d_model}", 1e-4, mistakes)
