"""Fast pairs of the recurrences: step after step in place, each core a share of the batch.

The weight's gradient does not wait for the steps: it is one matrix product over all of them.
"""

from __future__ import annotations

from typing import Any

from tinytensor.fast.compiler.jit import LARGE, can_compile

from ..functional.recurrent import _gru, _lstm, _order, _rnn
from .tuning import FLOPS, PRODUCTS, SEQUENCES, STEP_WORK

# ---- GRU


def _gru_cell(xp, r, z, n, h_r, h_z, h_n, h):
    r, z = _sigmoid(xp, r + h_r), _sigmoid(xp, z + h_z)
    n = xp.tanh(n + r * h_n)
    return r, z, n, n + z * (h - n)


def _gru_cell_back(xp, r, z, n, h_n, h, g):
    g_n = g * (1 - z) * (1 - n * n)
    return g_n * h_n * _slope_of_sigmoid(r), g * (h - n) * _slope_of_sigmoid(z), g_n, g_n * r, g * z


@_gru.forward
def gru_forward(xp, x, initial, weight, bias, present, *, reverse):
    length, batch, hidden = len(x), len(initial), weight.shape[1]
    transposed = xp.copy(weight.T)  # every step reads it
    gates = xp.copy(x)  # in each step they become r, z and n
    from_state = xp.fresh((length, batch, hidden), dtype=x.dtype)  # W_n h + b_n
    rows = _rows(xp, initial, length, reverse)
    if bias is not None:
        gates[..., : 2 * hidden] += bias[: 2 * hidden]
    cell = _written(xp, _gru_cell, {0: 0, 1: 1, 2: 2}, gates)

    def step(t: int, i: slice, h: Any, new: Any) -> None:
        h_r, h_z, product = _split(xp.matmul(h, transposed), hidden)
        h_n, (r, z, n) = from_state[t, i], _split(gates[t, i], hidden)
        h_n[...] = product
        if bias is not None:
            h_n += bias[2 * hidden :]
        cell([r, z, n, h_r, h_z, h_n, h], [r, z, n, new])

    _read(xp, step, gates, [rows], present, reverse)
    return _after(rows, reverse), (gates, from_state, rows, weight, present)


@_gru.backward
def gru_backward(xp, g, saved, needs, *, reverse):
    gates, from_state, rows, weight, present = saved
    _, batch, hidden = from_state.shape
    g_x, g_product = xp.fresh_like(gates), xp.fresh_like(gates)
    g_initial = xp.zeros((batch, hidden), dtype=gates.dtype)
    cell = _written(xp, _gru_cell_back, {4: 5}, gates)

    def step(t: int, i: slice, g_new: Any) -> tuple[Any, ...]:
        given, before = g_product[t, i], [from_state[t, i], rows[t + reverse, i], g_new]
        n_part = given[:, 2 * hidden :]
        cell([*_split(gates[t, i], hidden), *before], [*_split(g_x[t, i], hidden), n_part, g_new])
        given[:, : 2 * hidden] = g_x[t, i, : 2 * hidden]
        return (xp.matmul(given, weight) + g_new,)

    _read_back(xp, step, gates, g, [g_initial], present, reverse)
    g_weight = _weight_gradient(xp, g_product, _before(rows, reverse)) if needs[2] else None
    g_bias = xp.sum(g_product, axis=(0, 1)) if needs[3] else None
    return g_x, g_initial, g_weight, g_bias, None


# ---- LSTM


def _lstm_cell(xp, i, f, g, o, h_i, h_f, h_g, h_o, c):
    i, f, g, o = _sigmoid(xp, i + h_i), _sigmoid(xp, f + h_f), xp.tanh(g + h_g), _sigmoid(xp, o + h_o)
    c = f * c
    c += i * g
    squashed = xp.tanh(c)
    return i, f, g, o, c, squashed, o * squashed


def _lstm_cell_back(xp, i, f, g, o, squashed, c, g_h, g_c):
    g_c = g_c + g_h * o * (1 - squashed * squashed)
    g_i, g_f = g_c * g * _slope_of_sigmoid(i), g_c * c * _slope_of_sigmoid(f)
    return g_i, g_f, g_c * i * (1 - g * g), g_h * squashed * _slope_of_sigmoid(o), g_c * f


@_lstm.forward
def lstm_forward(xp, x, initial, cell, weight, present, *, reverse):
    length, batch, hidden = len(x), len(initial), weight.shape[1]
    transposed = xp.copy(weight.T)  # every step reads it
    gates = xp.copy(x)  # in each step they become i, f, g and o
    rows, cells = (_rows(xp, first, length, reverse) for first in (initial, cell))
    squashed = xp.fresh((length, batch, hidden), dtype=x.dtype)  # tanh(c')
    out = xp.fresh((length + 1, batch, hidden), dtype=x.dtype)
    compute = _written(xp, _lstm_cell, {0: 0, 1: 1, 2: 2, 3: 3}, gates)

    def step(t: int, k: slice, h: Any, c: Any, new_h: Any, new_c: Any) -> None:
        gate, product = _split(gates[t, k], hidden), _split(xp.matmul(h, transposed), hidden)
        compute([*gate, *product, c], [*gate, new_c, squashed[t, k], new_h])

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
    compute = _written(xp, _lstm_cell_back, {4: 7}, gates)

    def step(t: int, k: slice, new_h: Any, new_c: Any) -> tuple[Any, ...]:
        there = [*_split(gates[t, k], hidden), squashed[t, k], cells[t + reverse, k], new_h, new_c]
        compute(there, [*_split(g_x[t, k], hidden), new_c])
        return xp.matmul(g_x[t, k], weight), new_c

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


def _written(xp: Any, function: Any, over: dict[int, int], like: Any) -> Any:
    """A function (arguments, results) that writes what `function(xp, *arguments)` returns into the results.

    It is compiled where that is possible. `over` names the results that take the place of an argument.
    """

    def write(arguments: list[Any], results: list[Any]) -> None:
        for result, value in zip(results, function(xp, *arguments)):
            result[...] = value

    if xp.device != "cpu" or like.size < LARGE or not can_compile():
        return write
    from tinytensor.fast.compiler.rows import rows  # now: llvmlite may be missing

    return rows(function, over, like.dtype) or write


def _split(x: Any, width: int) -> list[Any]:
    """The columns of each gate."""
    return [x[:, start : start + width] for start in range(0, x.shape[1], width)]


def _sigmoid(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2, which does not overflow, in the place of x."""
    x *= 0.5
    x = xp.tanh(x)
    x *= 0.5
    x += 0.5
    return x


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
