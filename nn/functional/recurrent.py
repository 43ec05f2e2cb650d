"""Recurrence: gated recurrent units, long short-term memory, and the simple recurrent network before them.

Each is one op over a whole sequence, one layer and one direction. One matrix product before it computes the part that
depends on the inputs alone, W_i x + b_i, for all steps; the op does the rest, step after step.

A batch of sequences of different lengths has padding. Where `present` is False, a step keeps the state, so the final
state is the one after the last step of the sequence itself, in either direction.
"""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from .linear import linear


def _order(length: int, reverse: bool) -> range:
    """The places of a sequence in reading order."""
    return range(length - 1, -1, -1) if reverse else range(length)


def _held(present: Any, t: int, new: Any, former: Any) -> Any:
    """The new state if step t is part of the sequence, else the former one."""
    return new if present is None else tt.where(present[t], new, former)


# ---- GRU (Cho et al. 2014)


@tt.op
def _gru(x, initial, weight, bias, present, *, reverse):
    """r = σ(x_r + W_r h + b_r), z = σ(x_z + W_z h + b_z), n = tanh(x_n + r (W_n h + b_n)), h' = (1 - z) n + z h.

    ∂L/∂x = (e_n ⊙ q ⊙ r (1 − r), e_h ⊙ (h − n) ⊙ z (1 − z), e_n), e_n = e_h ⊙ (1 − z) ⊙ (1 − n²), q = W_n h + b_n
    ∂L/∂initial = e_h ⊙ z + (∂L/∂x with e_n ⊙ r for e_n) W of the first step; e_h is this of the next step, plus g
    ∂L/∂weight = Σ (∂L/∂x with e_n ⊙ r for e_n)ᵀ h, over the steps
    ∂L/∂bias = Σ (∂L/∂x with e_n ⊙ r for e_n), over the steps
    """
    h, states = initial, {}
    for t in _order(len(x), reverse):
        x_r, x_z, x_n = tt.split(x[t], 3, axis=-1)
        h_r, h_z, h_n = tt.split(linear(h, weight, bias), 3, axis=-1)
        r = tt.sigmoid(x_r + h_r)
        z = tt.sigmoid(x_z + h_z)
        n = tt.tanh(x_n + r * h_n)
        h = states[t] = _held(present, t, (1 - z) * n + z * h, h)
    return tt.stack([states[t] for t in range(len(x))])


def gru(
    input: Any,
    initial: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any = None,
    bias_hh: Any = None,
    *,
    present: Any = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """One layer of gated recurrent units (Cho et al. 2014) in one direction, with PyTorch's equations:

        r = σ(W_ir x + b_ir + W_hr h + b_hr)            how much of the past the new content sees
        z = σ(W_iz x + b_iz + W_hz h + b_hz)            how much of the state stays
        n = tanh(W_in x + b_in + r (W_hn h + b_hn))     the new content
        h' = (1 - z) n + z h

    Cho et al. (equation 8) multiply by r before the matrix product, W_hn (r h); r after it, as here and in cuDNN, lets
    one product serve all three gates.

    Args:
        input: (length, batch, input_size).
        initial: the initial state, (batch, hidden_size).
        weight_ih, weight_hh: (3 * hidden_size, input_size) and (3 * hidden_size, hidden_size), rows of r, z and n.
        bias_ih, bias_hh: (3 * hidden_size,) or None.
        present: (length, batch, 1) booleans, False at padding; None without padding.
        reverse: read from the end.

    Returns the states after each step, (length, batch, hidden_size), zeros at padding, and the final state
    (batch, hidden_size).
    """
    states = _gru(linear(input, weight_ih, bias_ih), initial, weight_hh, bias_hh, present, reverse=reverse)
    return _without_padding(states, present), states[0 if reverse else -1]


def _without_padding(states: Tensor, present: Any) -> Tensor:
    return states if present is None else tt.where(present, states, 0.0)


def _sum_of(bias_ih: Any, bias_hh: Any) -> Any:
    return bias_hh if bias_ih is None else bias_ih if bias_hh is None else bias_ih + bias_hh


# ---- LSTM (Hochreiter and Schmidhuber 1997; Gers et al. 2000)


@tt.op
def _lstm(x, initial, cell, weight, present, *, reverse):
    """i, f, o = σ(x + W h), g = tanh(x_g + W_g h), c' = f c + i g, h' = o tanh(c'); the last row holds the last c.

    ∂L/∂x = (e_c ⊙ u ⊙ i (1 − i), e_c ⊙ c ⊙ f (1 − f), e_c ⊙ i ⊙ (1 − u²), e_h ⊙ tanh(c') ⊙ o (1 − o)), u being the tanh
    ∂L/∂initial = ∂L/∂x W of the first step; e_h is this of the next step, plus its own g
    ∂L/∂cell = e_c ⊙ f of the first step; e_c is this of the next step, plus e_h ⊙ o ⊙ (1 − tanh²(c'))
    ∂L/∂weight = Σ (∂L/∂x)ᵀ h, over the steps
    """
    h, c, states = initial, cell, {}
    for t in _order(len(x), reverse):
        i, f, g, o = tt.split(x[t] + linear(h, weight), 4, axis=-1)
        new = tt.sigmoid(f) * c + tt.sigmoid(i) * tt.tanh(g)
        c = _held(present, t, new, c)
        h = states[t] = _held(present, t, tt.sigmoid(o) * tt.tanh(new), h)
    return tt.stack([*(states[t] for t in range(len(x))), c])


def lstm(
    input: Any,
    initial: tuple[Any, Any],
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any = None,
    bias_hh: Any = None,
    *,
    present: Any = None,
    reverse: bool = False,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """One layer of long short-term memory (Hochreiter and Schmidhuber 1997) in one direction:

        i = σ(W_ii x + b_ii + W_hi h + b_hi)        what enters the cell
        f = σ(W_if x + b_if + W_hf h + b_hf)        what stays in it (the forget gate of Gers et al. 2000)
        g = tanh(W_ig x + b_ig + W_hg h + b_hg)     the new content
        o = σ(W_io x + b_io + W_ho h + b_ho)        what is shown of it
        c' = f c + i g
        h' = o tanh(c')

    Args:
        input: (length, batch, input_size).
        initial: the initial state h and cell c, (batch, hidden_size) each.
        weight_ih, weight_hh: (4 * hidden_size, input_size) and (4 * hidden_size, hidden_size), rows of i, f, g and o.
        bias_ih, bias_hh: (4 * hidden_size,) or None.
        present: (length, batch, 1) booleans, False at padding; None without padding.
        reverse: read from the end.

    Returns the states h after each step, (length, batch, hidden_size), zeros at padding, and the final h and c
    (batch, hidden_size).
    """
    x = linear(input, weight_ih, _sum_of(bias_ih, bias_hh))
    rows = _lstm(x, *initial, weight_hh, present, reverse=reverse)
    states, last = rows[:-1], 0 if reverse else -2
    return _without_padding(states, present), (rows[last], rows[-1])


# ---- the simple recurrent network (Elman 1990)


@tt.op
def _rnn(x, initial, weight, present, *, nonlinearity, reverse):
    """h' = tanh(x + W h), or max(x + W h, 0).

    ∂L/∂x = e_h ⊙ (1 − h'²), or e_h where h' > 0
    ∂L/∂initial = ∂L/∂x W of the first step; e_h is this of the next step, plus its own g
    ∂L/∂weight = Σ (∂L/∂x)ᵀ h, over the steps
    """
    h, states = initial, {}
    for t in _order(len(x), reverse):
        inner = x[t] + linear(h, weight)
        new = tt.tanh(inner) if nonlinearity == "tanh" else tt.where(inner <= 0, 0.0, inner)
        h = states[t] = _held(present, t, new, h)
    return tt.stack([states[t] for t in range(len(x))])


def rnn(
    input: Any,
    initial: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any = None,
    bias_hh: Any = None,
    *,
    nonlinearity: str = "tanh",
    present: Any = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """One layer of the simple recurrent network (Elman 1990), h' = tanh(W_ih x + b_ih + W_hh h + b_hh).

    Args:
        input: (length, batch, input_size).
        initial: the initial state, (batch, hidden_size).
        weight_ih, weight_hh: (hidden_size, input_size) and (hidden_size, hidden_size).
        bias_ih, bias_hh: (hidden_size,) or None.
        nonlinearity: "tanh", or "relu" for max(x, 0) instead.
        present: (length, batch, 1) booleans, False at padding; None without padding.
        reverse: read from the end.

    Returns the states after each step, (length, batch, hidden_size), zeros at padding, and the final state
    (batch, hidden_size).
    """
    x = linear(input, weight_ih, _sum_of(bias_ih, bias_hh))
    states = _rnn(x, initial, weight_hh, present, nonlinearity=nonlinearity, reverse=reverse)
    return _without_padding(states, present), states[0 if reverse else -1]
