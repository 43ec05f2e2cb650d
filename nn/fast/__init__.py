"""The engine room of `nn`: fast versions, on raw arrays, of the formulas of `nn.functional` and `nn.optim`.

To import it is to register them. It changes no number but by rounding, and everything works without it.
"""

from tinytensor.fast import guard_pairs

from . import (
    activations,
    attention,
    clip_grad,
    decoding,
    dropout,
    embedding,
    linear,
    losses,
    normalization,
    optim,
    recorded_step,
    recurrent,
    sublayers,
    topk,
    windows,
)

guard_pairs()
