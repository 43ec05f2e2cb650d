"""Recurrence: gated recurrent units, long short-term memory, and the simple recurrent network before them.

Each is one op over a whole sequence, one layer and one direction. What depends on the inputs alone, W_i x + b_i, is
computed for all steps in one matrix product before it; the op does the rest, step after step.

A batch of sequences of different lengths has padding. Where `present` is False a step leaves the state as it is, so
the state after the last step is the one after the last step of the sequence itself, in either direction.
"""

from __future__ import annotations

from typing import Any

import tinytensor as tt
from tinytensor import Tensor

from .linear import FLOPS, linear

WORK = 8  # element-wise operations for each gate and step, beside its share of the product


def _order(length: int, reverse: bool) -> range:
    """The places of a sequence in the order in which they are read."""
    return range(length - 1, -1, -1) if reverse else range(length)


def _held(present: Any, t: int, new: Any, former: Any) -> Any:
    """The new state where step t is part of the sequence, else the former one."""
    return new if present is None else tt.where(present[t], new, former)


def _sigmoid_in_place(xp: Any, x: Any) -> None:
    """1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2, which does not overflow and needs no second array."""
    x *= 0.5
    xp.tanh(x, out=x)
    x *= 0.5
    x += 0.5


def _slope_of_sigmoid(y: Any) -> Any:
    return y * (1 - y)


def _rows(xp: Any, initial: Any, length: int, reverse: bool) -> Any:
    """Room for the states (length + 1, batch, hidden), the initial one where reading begins.

    The state before step t is in row t + reverse, the one after it in row t + 1 - reverse.
    """
    rows = xp.empty((length + 1, *initial.shape), dtype=initial.dtype)
    rows[length if reverse else 0] = initial
    return rows


def _before(rows: Any, reverse: bool) -> Any:
    """The states before each step."""
    return rows[1:] if reverse else rows[:-1]


def _after(rows: Any, reverse: bool) -> Any:
    """The states after each step."""
    return rows[:-1] if reverse else rows[1:]


def _weight_gradient(xp: Any, g_product: Any, before: Any) -> Any:
    """The gradient of a weight that every step's state was multiplied by: one matrix product for all steps."""
    length, batch, width = g_product.shape
    columns = xp.reshape(g_product, (length * batch, width))
    states = xp.reshape(before, (length * batch, before.shape[-1]))
    out = xp.empty((width, states.shape[1]), dtype=states.dtype)

    def part(i: slice) -> None:
        xp.matmul(columns[:, i].T, states, out=out[i])

    xp.in_parts(part, width, columns.size * states.shape[1] // FLOPS, product=True)
    return out


def _work(gates: Any, hidden: int) -> int:
    return gates.size * (hidden // FLOPS + WORK)


# ---- GRU (Cho et al. 2014)


@tt.op
def _gru(x, initial, weight, bias, present, *, reverse):
    """r = σ(x_r + W_r h + b_r), z = σ(x_z + W_z h + b_z), n = tanh(x_n + r (W_n h + b_n)), h' = (1 - z) n + z h."""
    h, states = initial, {}
    for t in _order(len(x), reverse):
        x_r, x_z, x_n = tt.split(x[t], 3, axis=-1)
        h_r, h_z, h_n = tt.split(linear(h, weight, bias), 3, axis=-1)
        r = tt.sigmoid(x_r + h_r)
        z = tt.sigmoid(x_z + h_z)
        n = tt.tanh(x_n + r * h_n)
        h = states[t] = _held(present, t, (1 - z) * n + z * h, h)
    return tt.stack([states[t] for t in range(len(x))])


@_gru.forward
def _(xp, x, initial, weight, bias, present, *, reverse):
    length, batch, hidden = len(x), len(initial), weight.shape[1]
    transposed = xp.copy(weight.T)  # every step reads it
    gates = xp.copy(x)  # in each step they become r, z and n
    from_state = xp.empty((length, batch, hidden), dtype=x.dtype)  # W_n h + b_n
    rows = _rows(xp, initial, length, reverse)
    if bias is not None:
        gates[..., : 2 * hidden] += bias[: 2 * hidden]

    def part(i: slice) -> None:
        for t in _order(length, reverse):
            h, new = rows[t + reverse, i], rows[t + 1 - reverse, i]
            product = xp.matmul(h, transposed)
            r_z, n, h_n = gates[t, i, : 2 * hidden], gates[t, i, 2 * hidden :], from_state[t, i]
            r_z += product[:, : 2 * hidden]
            _sigmoid_in_place(xp, r_z)
            h_n[...] = product[:, 2 * hidden :]
            if bias is not None:
                h_n += bias[2 * hidden :]
            n += r_z[:, :hidden] * h_n
            xp.tanh(n, out=n)
            xp.subtract(h, n, out=new)  # n + z (h - n)
            new *= r_z[:, hidden:]
            new += n
            if present is not None:
                new[...] = xp.where(present[t, i], new, h)

    xp.in_parts(part, batch, _work(gates, hidden), product=True)
    return _after(rows, reverse), (gates, from_state, rows, weight, present)


@_gru.backward
def _(xp, g, kept, needs, *, reverse):
    gates, from_state, rows, weight, present = kept
    length, batch, hidden = from_state.shape
    g_x, g_product = xp.empty_like(gates), xp.empty_like(gates)
    g_initial = xp.zeros((batch, hidden), dtype=gates.dtype)

    def part(i: slice) -> None:
        g_h = g_initial[i]
        for t in _order(length, not reverse):
            r, z, n = (gates[t, i, k * hidden : (k + 1) * hidden] for k in range(3))
            g_r, g_z, g_n = (g_x[t, i, k * hidden : (k + 1) * hidden] for k in range(3))
            g_h += g[t, i]
            g_new = g_h if present is None else g_h * present[t, i]
            xp.multiply(g_new * (1 - z), 1 - n * n, out=g_n)
            xp.multiply(g_new * (rows[t + reverse, i] - n), _slope_of_sigmoid(z), out=g_z)
            xp.multiply(g_n * from_state[t, i], _slope_of_sigmoid(r), out=g_r)
            step = g_product[t, i]
            step[...] = g_x[t, i]
            n_part = step[:, 2 * hidden :]
            n_part *= r
            former = xp.matmul(step, weight)
            former += g_new * z
            if present is not None:
                former += xp.where(present[t, i], 0, g_h)
            g_h[...] = former

    xp.in_parts(part, batch, _work(gates, hidden), product=True)
    g_weight = _weight_gradient(xp, g_product, _before(rows, reverse)) if needs[2] else None
    g_bias = xp.sum(g_product, axis=(0, 1)) if needs[3] else None
    return g_x, g_initial, g_weight, g_bias, None


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
        initial: the state to begin with, (batch, hidden_size).
        weight_ih, weight_hh: (3 * hidden_size, input_size) and (3 * hidden_size, hidden_size), rows of r, z and n.
        bias_ih, bias_hh: (3 * hidden_size,) or None.
        present: (length, batch, 1) booleans, False at padding; None where there is none.
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
    """i, f, o = σ(x + W h), g = tanh(x_g + W_g h), c' = f c + i g, h' = o tanh(c'); the last row holds the last c."""
    h, c, states = initial, cell, {}
    for t in _order(len(x), reverse):
        i, f, g, o = tt.split(x[t] + linear(h, weight), 4, axis=-1)
        new = tt.sigmoid(f) * c + tt.sigmoid(i) * tt.tanh(g)
        c = _held(present, t, new, c)
        h = states[t] = _held(present, t, tt.sigmoid(o) * tt.tanh(new), h)
    return tt.stack([*(states[t] for t in range(len(x))), c])


@_lstm.forward
def _(xp, x, initial, cell, weight, present, *, reverse):
    length, batch, hidden = len(x), len(initial), weight.shape[1]
    transposed = xp.copy(weight.T)  # every step reads it
    gates = xp.copy(x)  # in each step they become i, f, g and o
    rows, cells = (_rows(xp, first, length, reverse) for first in (initial, cell))
    squashed = xp.empty((length, batch, hidden), dtype=x.dtype)  # tanh(c')
    out = xp.empty((length + 1, batch, hidden), dtype=x.dtype)

    def part(k: slice) -> None:
        for t in _order(length, reverse):
            h, new_h, c, new_c = (a[row, k] for a in (rows, cells) for row in (t + reverse, t + 1 - reverse))
            gate = gates[t, k]
            gate += xp.matmul(h, transposed)
            i_f, g, o = gate[:, : 2 * hidden], gate[:, 2 * hidden : 3 * hidden], gate[:, 3 * hidden :]
            _sigmoid_in_place(xp, i_f)
            _sigmoid_in_place(xp, o)
            xp.tanh(g, out=g)
            xp.multiply(i_f[:, hidden:], c, out=new_c)
            new_c += i_f[:, :hidden] * g
            xp.tanh(new_c, out=squashed[t, k])
            xp.multiply(o, squashed[t, k], out=new_h)
            if present is not None:
                new_h[...] = xp.where(present[t, k], new_h, h)
                new_c[...] = xp.where(present[t, k], new_c, c)

    xp.in_parts(part, batch, _work(gates, hidden), product=True)
    out[:length] = _after(rows, reverse)
    out[length] = cells[0 if reverse else length]
    return out, (gates, squashed, rows, cells, weight, present)


@_lstm.backward
def _(xp, g, kept, needs, *, reverse):
    gates, squashed, rows, cells, weight, present = kept
    length, batch, hidden = squashed.shape
    g_x = xp.empty_like(gates)
    g_initial, g_cell = xp.zeros((batch, hidden), dtype=gates.dtype), xp.copy(g[length])

    def part(k: slice) -> None:
        g_h, g_c = g_initial[k], g_cell[k]
        for t in _order(length, not reverse):
            i, f, content, o = (gates[t, k, j * hidden : (j + 1) * hidden] for j in range(4))
            g_i, g_f, g_content, g_o = (g_x[t, k, j * hidden : (j + 1) * hidden] for j in range(4))
            g_h += g[t, k]
            new_h, new_c = (g_h, g_c) if present is None else (g_h * present[t, k], g_c * present[t, k])
            xp.multiply(new_h * squashed[t, k], _slope_of_sigmoid(o), out=g_o)
            new_c = new_c + new_h * o * (1 - squashed[t, k] * squashed[t, k])
            xp.multiply(new_c * content, _slope_of_sigmoid(i), out=g_i)
            xp.multiply(new_c * cells[t + reverse, k], _slope_of_sigmoid(f), out=g_f)
            xp.multiply(new_c * i, 1 - content * content, out=g_content)
            former_h, former_c = xp.matmul(g_x[t, k], weight), new_c * f
            if present is not None:
                former_h += xp.where(present[t, k], 0, g_h)
                former_c += xp.where(present[t, k], 0, g_c)
            g_h[...] = former_h
            g_c[...] = former_c

    xp.in_parts(part, batch, _work(gates, hidden), product=True)
    g_weight = _weight_gradient(xp, g_x, _before(rows, reverse)) if needs[3] else None
    return g_x, g_initial, g_cell, g_weight, None


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
        initial: the state h and the cell c to begin with, (batch, hidden_size) each.
        weight_ih, weight_hh: (4 * hidden_size, input_size) and (4 * hidden_size, hidden_size), rows of i, f, g and o.
        bias_ih, bias_hh: (4 * hidden_size,) or None.
        present: (length, batch, 1) booleans, False at padding; None where there is none.
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
    """h' = tanh(x + W h), or max(x + W h, 0)."""
    h, states = initial, {}
    for t in _order(len(x), reverse):
        inner = x[t] + linear(h, weight)
        new = tt.tanh(inner) if nonlinearity == "tanh" else tt.where(inner <= 0, 0.0, inner)
        h = states[t] = _held(present, t, new, h)
    return tt.stack([states[t] for t in range(len(x))])


@_rnn.forward
def _(xp, x, initial, weight, present, *, nonlinearity, reverse):
    length, batch, hidden = len(x), len(initial), weight.shape[1]
    transposed = xp.copy(weight.T)  # every step reads it
    rows = _rows(xp, initial, length, reverse)

    def part(i: slice) -> None:
        for t in _order(length, reverse):
            h, new = rows[t + reverse, i], rows[t + 1 - reverse, i]
            xp.matmul(h, transposed, out=new)
            new += x[t, i]
            if nonlinearity == "tanh":
                xp.tanh(new, out=new)
            else:
                xp.maximum(new, 0, out=new)
            if present is not None:
                new[...] = xp.where(present[t, i], new, h)

    xp.in_parts(part, batch, _work(x, hidden), product=True)
    return _after(rows, reverse), (rows, weight, present)


@_rnn.backward
def _(xp, g, kept, needs, *, nonlinearity, reverse):
    rows, weight, present = kept
    after = _after(rows, reverse)
    length, batch, hidden = after.shape
    g_x = xp.empty((length, batch, hidden), dtype=rows.dtype)
    g_initial = xp.zeros((batch, hidden), dtype=rows.dtype)

    def part(i: slice) -> None:
        g_h = g_initial[i]
        for t in _order(length, not reverse):
            g_h += g[t, i]
            new = after[t, i]
            slope = 1 - new * new if nonlinearity == "tanh" else new > 0
            xp.multiply(g_h, slope, out=g_x[t, i])
            if present is not None:
                g_x[t, i] *= present[t, i]
            former = xp.matmul(g_x[t, i], weight)
            if present is not None:
                former += xp.where(present[t, i], 0, g_h)
            g_h[...] = former

    xp.in_parts(part, batch, _work(g_x, hidden), product=True)
    g_weight = _weight_gradient(xp, g_x, _before(rows, reverse)) if needs[2] else None
    return g_x, g_initial, g_weight, None


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
        initial: the state to begin with, (batch, hidden_size).
        weight_ih, weight_hh: (hidden_size, input_size) and (hidden_size, hidden_size).
        bias_ih, bias_hh: (hidden_size,) or None.
        nonlinearity: "tanh", or "relu" for max(x, 0) in its place.
        present: (length, batch, 1) booleans, False at padding; None where there is none.
        reverse: read from the end.

    Returns the states after each step, (length, batch, hidden_size), zeros at padding, and the final state
    (batch, hidden_size).
    """
    x = linear(input, weight_ih, _sum_of(bias_ih, bias_hh))
    states = _rnn(x, initial, weight_hh, present, nonlinearity=nonlinearity, reverse=reverse)
    return _without_padding(states, present), states[0 if reverse else -1]
