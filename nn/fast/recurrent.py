"""Fast pairs of the recurrences: step after step in place, each core a share of the batch.

The weight's gradient does not wait for the steps: it is one matrix product over all of them.
"""

from __future__ import annotations

from typing import Any

from ..functional.recurrent import _gru, _lstm, _order, _rnn
from .tuning import FLOPS, PRODUCTS, SEQUENCES, STEP_WORK

# ---- GRU


@_gru.forward
def gru_forward(xp, x, initial, weight, bias, present, *, reverse):
    length, batch, hidden = len(x), len(initial), weight.shape[1]
    transposed = xp.copy(weight.T)  # every step reads it
    gates = xp.copy(x)  # in each step they become r, z and n
    from_state = xp.fresh((length, batch, hidden), dtype=x.dtype)  # W_n h + b_n
    rows = _rows(xp, initial, length, reverse)
    if bias is not None:
        gates[..., : 2 * hidden] += bias[: 2 * hidden]

    def step(t: int, i: slice, h: Any, new: Any) -> None:
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

    _read(xp, step, gates, [rows], present, reverse)
    return _after(rows, reverse), (gates, from_state, rows, weight, present)


@_gru.backward
def gru_backward(xp, g, saved, needs, *, reverse):
    gates, from_state, rows, weight, present = saved
    _, batch, hidden = from_state.shape
    g_x, g_product = xp.fresh_like(gates), xp.fresh_like(gates)
    g_initial = xp.zeros((batch, hidden), dtype=gates.dtype)

    def step(t: int, i: slice, g_new: Any) -> tuple[Any, ...]:
        r, z, n = (gates[t, i, k * hidden : (k + 1) * hidden] for k in range(3))
        g_r, g_z, g_n = (g_x[t, i, k * hidden : (k + 1) * hidden] for k in range(3))
        xp.multiply(g_new * (1 - z), 1 - n * n, out=g_n)
        xp.multiply(g_new * (rows[t + reverse, i] - n), _slope_of_sigmoid(z), out=g_z)
        xp.multiply(g_n * from_state[t, i], _slope_of_sigmoid(r), out=g_r)
        given = g_product[t, i]
        given[...] = g_x[t, i]
        n_part = given[:, 2 * hidden :]
        n_part *= r
        former = xp.matmul(given, weight)
        former += g_new * z
        return (former,)

    _read_back(xp, step, gates, g, [g_initial], present, reverse)
    g_weight = _weight_gradient(xp, g_product, _before(rows, reverse)) if needs[2] else None
    g_bias = xp.sum(g_product, axis=(0, 1)) if needs[3] else None
    return g_x, g_initial, g_weight, g_bias, None


# ---- LSTM


@_lstm.forward
def lstm_forward(xp, x, initial, cell, weight, present, *, reverse):
    length, batch, hidden = len(x), len(initial), weight.shape[1]
    transposed = xp.copy(weight.T)  # every step reads it
    gates = xp.copy(x)  # in each step they become i, f, g and o
    rows, cells = (_rows(xp, first, length, reverse) for first in (initial, cell))
    squashed = xp.fresh((length, batch, hidden), dtype=x.dtype)  # tanh(c')
    out = xp.fresh((length + 1, batch, hidden), dtype=x.dtype)

    def step(t: int, k: slice, h: Any, c: Any, new_h: Any, new_c: Any) -> None:
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

    _read(xp, step, gates, [rows, cells], present, reverse)
    out[:length] = _after(rows, reverse)
    out[length] = cells[0 if reverse else length]
    return out, (gates, squashed, rows, cells, weight, present)


@_lstm.backward
def lstm_backward(xp, g, saved, needs, *, reverse):
    gates, squashed, rows, cells, weight, present = saved
    length, batch, hidden = squashed.shape
    g_x = xp.fresh_like(gates)
    g_initial, g_cell = xp.zeros((batch, hidden), dtype=gates.dtype), xp.copy(g[length])

    def step(t: int, k: slice, new_h: Any, new_c: Any) -> tuple[Any, ...]:
        i, f, content, o = (gates[t, k, j * hidden : (j + 1) * hidden] for j in range(4))
        g_i, g_f, g_content, g_o = (g_x[t, k, j * hidden : (j + 1) * hidden] for j in range(4))
        xp.multiply(new_h * squashed[t, k], _slope_of_sigmoid(o), out=g_o)
        new_c = new_c + new_h * o * (1 - squashed[t, k] * squashed[t, k])
        xp.multiply(new_c * content, _slope_of_sigmoid(i), out=g_i)
        xp.multiply(new_c * cells[t + reverse, k], _slope_of_sigmoid(f), out=g_f)
        xp.multiply(new_c * i, 1 - content * content, out=g_content)
        return xp.matmul(g_x[t, k], weight), new_c * f

    _read_back(xp, step, gates, g, [g_initial, g_cell], present, reverse)
    g_weight = _weight_gradient(xp, g_x, _before(rows, reverse)) if needs[3] else None
    return g_x, g_initial, g_cell, g_weight, None


# ---- the simple recurrent network


@_rnn.forward
def rnn_forward(xp, x, initial, weight, present, *, nonlinearity, reverse):
    transposed = xp.copy(weight.T)  # every step reads it
    rows = _rows(xp, initial, len(x), reverse)

    def step(t: int, i: slice, h: Any, new: Any) -> None:
        xp.matmul(h, transposed, out=new)
        new += x[t, i]
        if nonlinearity == "tanh":
            xp.tanh(new, out=new)
        else:
            xp.maximum(new, 0, out=new)

    _read(xp, step, x, [rows], present, reverse)
    return _after(rows, reverse), (rows, weight, present)


@_rnn.backward
def rnn_backward(xp, g, saved, needs, *, nonlinearity, reverse):
    rows, weight, present = saved
    after = _after(rows, reverse)
    g_x = xp.fresh(after.shape, dtype=rows.dtype)
    g_initial = xp.zeros(after.shape[1:], dtype=rows.dtype)

    def step(t: int, i: slice, g_new: Any) -> tuple[Any, ...]:
        new = after[t, i]
        xp.multiply(g_new, 1 - new * new if nonlinearity == "tanh" else new > 0, out=g_x[t, i])
        return (xp.matmul(g_x[t, i], weight),)

    _read_back(xp, step, g_x, g, [g_initial], present, reverse)
    g_weight = _weight_gradient(xp, g_x, _before(rows, reverse)) if needs[2] else None
    return g_x, g_initial, g_weight, None


# ---- what they share


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
    rows = xp.fresh((length + 1, *initial.shape), dtype=initial.dtype)
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
    out = xp.fresh((width, states.shape[1]), dtype=states.dtype)

    def multiply_columns(i: slice) -> None:
        xp.product(columns[:, i].T, states, out=out[i])

    xp.in_parts(multiply_columns, width, columns.size * states.shape[1] // FLOPS, product=True, most=PRODUCTS)
    return out


def _read(xp: Any, step: Any, gates: Any, states: list[Any], present: Any, reverse: bool) -> None:
    """Call `step(t, some, *before, *after)` for each step of some sequences; those that are absent keep a state."""

    def read_sequences(some: slice) -> None:
        for t in _order(len(gates), reverse):
            before, after = [[rows[place, some] for rows in states] for place in (t + reverse, t + 1 - reverse)]
            step(t, some, *before, *after)
            if present is not None:
                for old, new in zip(before, after):
                    new[...] = xp.where(present[t, some], new, old)

    _share_out(xp, read_sequences, gates, states[0].shape[2])


def _read_back(xp: Any, step: Any, gates: Any, g: Any, g_states: list[Any], present: Any, reverse: bool) -> None:
    """Call `step(t, some, *g_after)` from the last step on, which returns the gradients for the states before it."""

    def read_sequences(some: slice) -> None:
        carried = [g_state[some] for g_state in g_states]
        for t in _order(len(gates), not reverse):
            carried[0] += g[t, some]
            g_after = carried if present is None else [g_state * present[t, some] for g_state in carried]
            for after, before in zip(carried, step(t, some, *g_after)):
                if present is not None:
                    before += xp.where(present[t, some], 0, after)
                after[...] = before

    _share_out(xp, read_sequences, gates, g_states[0].shape[1])


def _share_out(xp: Any, read: Any, gates: Any, hidden: int) -> None:
    """Have slices of the batch read, all steps of each: on every core where there is enough to do."""
    work, batch = gates.size * (hidden // FLOPS + STEP_WORK), gates.shape[1]
    xp.in_parts(read, batch, work, product=True, most=batch // SEQUENCES)
