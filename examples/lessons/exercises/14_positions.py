"""Exercises of lesson 14: the encoding, and the matrix of a shift."""

import tinytensor as tt
from tinytensor import nn
from tinytensor.models.scripts.exercises import agree, exercise, expect


@exercise(
    "def positional_encoding(length, d_model):",
    "Angles are pos / 10000^(2i / d_model): `tt.arange(length)[:, None]` times a row of speeds, one for each i.",
    "Sines and cosines alternate: `tt.stack([tt.sin(angles), tt.cos(angles)], axis=-1)`, reshaped.",
)
def check_positional_encoding(positional_encoding):
    """The sinusoidal encoding of positions 0, 1, ... (section 3.5), (length, d_model), for an even d_model: sines in
    dimensions 0, 2, ..., cosines in 1, 3, ..."""
    expected = nn.PositionalEncoding(8).encoding[:5]
    encoding = positional_encoding(5, 8)
    if getattr(encoding, "shape", None) == (5, 8):
        halves = tt.concat([expected[:, 0::2], expected[:, 1::2]], axis=1)
        apart = abs(encoding - halves).max() > 1e-4
        expect(apart, "all sines come first and all cosines after them; in the paper they alternate")
    agree(encoding, expected, "the encoding of 5 positions in 8 dimensions")


@exercise(
    "def shift_matrix(k, d_model):",
    "Dimensions 2i and 2i + 1 turn by the angle k / 10000^(2i / d_model), and are mixed with no others.",
    "sin(a + b) = sin a cos b + cos a sin b is the first row of a block, cos(a + b) = cos a cos b − sin a sin b the "
    "second.",
)
def check_shift_matrix(shift_matrix):
    """The matrix M, (d_model, d_model), with PE(pos + k) = M PE(pos) at every position."""
    encoding = nn.PositionalEncoding(8).encoding
    M = tt.asarray(shift_matrix(3, 8), dtype=tt.float32)
    expect(M.shape == (8, 8), f"M has shape {M.shape}; expected (8, 8)")
    back = float(abs(encoding[3:9] @ M.T - encoding[:6]).max())
    expect(back > 1e-4, "it goes back: M PE(pos + 3) is PE(pos); the angle has the wrong sign, or M is transposed")
    agree(encoding[:6] @ M.T, encoding[3:9], "M PE(pos), for positions 0 to 5 and k = 3,", tolerance=1e-4)
