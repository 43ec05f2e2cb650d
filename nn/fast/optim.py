"""The optimisers' steps in place: no new arrays, pieces that stay in the cache, every core, few launches on a GPU."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import tinytensor as tt
from tinytensor.backend import for_array
from tinytensor.in_place import is_writable
from tinytensor.tensor import wrap

from ..optim.adam import Adam
from ..optim.optimizer import WIDER, Due, Optimizer
from ..optim.sgd import SGD
from .tuning import UPDATE_CHUNK, UPDATE_WORK


class Work:
    """What a step has to do, collected over all parameters so that the cores share it.

    Args:
        size: how many elements they have together.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.pieces: list[tuple[Any, Callable[[list[Any]], None], list[Any]]] = []
        self.launches: dict[tuple[Any, ...], list[tuple[Any, list[Any]]]] = {}

    def in_pieces(self, xp: Any, arrays: list[Any], update: Callable[[list[Any]], None]) -> None:
        """Have `update` called with the arrays flattened and cut alike, and two pieces of scratch memory at the end.

        On the CPU pieces stay in the cache through all operations of an update; on a GPU, where each call has its cost,
        there is one.
        """
        flat = [xp.reshape(array, (-1,)) for array in arrays]
        chunk = UPDATE_CHUNK if xp.device == "cpu" else max(flat[0].size, 1)
        self.pieces += [
            (xp, update, [array[start : start + chunk] for array in flat]) for start in range(0, flat[0].size, chunk)
        ]

    def in_one_launch(self, kernel: Any, arrays: list[Any], scalars: tuple[float, ...]) -> None:
        """Have the kernel called with the arrays of all parameters whose dtype and scalars are the same."""
        self.launches.setdefault((arrays[0].dtype, *scalars), []).append((kernel, arrays))

    def do(self) -> None:
        for (_, *scalars), launches in self.launches.items():
            kernel, _ = launches[0]
            kernel([arrays for _, arrays in launches], scalars)
        pieces = sorted(self.pieces, key=lambda piece: -piece[2][0].size)
        threads = tt.get_num_threads()
        shares = [pieces[i::threads] for i in range(threads)]  # of about the same size

        def update_share(some: slice) -> None:
            scratch: dict[Any, Any] = {}
            for xp, update, arrays in itertools.chain(*shares[some]):
                size, key = arrays[0].size, (xp, arrays[0].dtype)
                if key not in scratch or scratch[key].shape[1] < size:
                    scratch[key] = xp.empty((2, size), dtype=arrays[0].dtype)
                update([*arrays, *scratch[key][:, :size]])

        if pieces:
            elements = sum(arrays[0].size for _, _, arrays in pieces)
            pieces[0][0].in_parts(update_share, threads, UPDATE_WORK * elements)


def step_in_place(plan: Callable[..., dict[str, Any]], optimizer: Optimizer, due: list[Due]) -> None:
    """Take a step: `plan(work, xp, values, gradient, state, group)` says what to do and returns the new state."""
    work, planned = Work(sum(parameter.size for parameter, _, _ in due)), []
    for parameter, state, group in due:
        array = parameter._data
        xp, gradient = for_array(array), parameter.grad._data  # type: ignore[union-attr]
        if array.dtype in WIDER:
            values, gradient = array.astype(WIDER[array.dtype]), gradient.astype(WIDER[array.dtype])
        else:
            values = xp.contiguous(array) if is_writable(parameter) else xp.copy(array)
        planned.append((parameter, values, plan(work, xp, values, gradient, state, group)))
    try:
        work.do()
    finally:
        for parameter, values, state in planned:
            write_back(parameter, values)
            if state:
                optimizer.state[parameter] = state
                for value in state.values():
                    if isinstance(value, tt.Tensor):
                        tt.mark_written(value._data)


def write_back(parameter: tt.Tensor, values: Any) -> None:
    """Keep the new values of a parameter, where they are not its own memory."""
    array = parameter._data
    if not is_writable(parameter):
        parameter._data, parameter._memory = values.astype(array.dtype, copy=False), None
    elif values is not array:
        array[...] = values
    tt.mark_written(array)


def remembered(xp: Any, values: Any, state: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The Tensors of these names: those of the state, zeros in place of those that it lacks."""
    return {name: state[name] if name in state else wrap(xp.zeros_like(values), None) for name in names}


# ---- Adam


def plan_adam(
    work: Work, xp: Any, values: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]
) -> dict[str, Any]:
    """Algorithm 1 with the corrections taken out of the arrays (the paper, end of section 2)."""
    t = state.get("step", 0) + 1
    names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else [])]
    moments = remembered(xp, values, state, names)
    lr, weight_decay, sign = float(group["lr"]), float(group["weight_decay"]), -1.0 if group["maximize"] else 1.0
    beta1, beta2 = float(group["betas"][0]), float(group["betas"][1])
    correction = math.sqrt(1.0 - beta2**t)
    alpha = lr * correction / (1.0 - beta1**t)
    eps = float(group["eps"]) * correction
    shrink = 1.0 - lr * weight_decay if group["decoupled_weight_decay"] else 1.0
    penalty = 0.0 if group["decoupled_weight_decay"] else weight_decay
    arrays = [values, gradient, *(moment._data for moment in moments.values())]
    if not group["amsgrad"] and (adam := xp.kernel("adam", *arrays, size=work.size)):
        scalars = (alpha, beta1, 1.0 - beta1, beta2, 1.0 - beta2, eps, shrink, penalty, sign)
        work.in_one_launch(adam, arrays, scalars)
        return {"step": t, **moments}

    def update(pieces: list[Any]) -> None:
        theta, g, m, v, *largest, signed, scratch = pieces
        if sign < 0:
            g = xp.multiply(g, sign, out=signed)
        if penalty:
            xp.multiply(theta, penalty, out=scratch)
            g = xp.add(g, scratch, out=signed)
        xp.multiply(m, beta1, out=m)
        xp.multiply(g, 1.0 - beta1, out=scratch)
        xp.add(m, scratch, out=m)
        xp.multiply(v, beta2, out=v)
        xp.multiply(g, g, out=scratch)
        xp.multiply(scratch, 1.0 - beta2, out=scratch)
        xp.add(v, scratch, out=v)
        for maximum in largest:
            v = xp.maximum(maximum, v, out=maximum)
        xp.sqrt(v, out=scratch)
        xp.add(scratch, eps, out=scratch)
        xp.divide(m, scratch, out=scratch)
        xp.multiply(scratch, alpha, out=scratch)
        if shrink != 1.0:
            xp.multiply(theta, shrink, out=theta)
        xp.subtract(theta, scratch, out=theta)

    work.in_pieces(xp, arrays, update)
    return {"step": t, **moments}


# ---- SGD


def plan_sgd(
    work: Work, xp: Any, values: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]
) -> dict[str, Any]:
    lr, momentum, weight_decay = float(group["lr"]), float(group["momentum"]), float(group["weight_decay"])
    nesterov, sign = group["nesterov"], -1.0 if group["maximize"] else 1.0
    share = 1.0 - float(group["dampening"]) if "momentum_buffer" in state else 1.0
    buffers = remembered(xp, values, state, ["momentum_buffer"]) if momentum else {}

    def update(pieces: list[Any]) -> None:
        theta, g, *buffer, direction, scratch = pieces
        xp.multiply(g, sign, out=direction)
        if weight_decay:
            xp.multiply(theta, weight_decay, out=scratch)
            xp.add(direction, scratch, out=direction)
        for b in buffer:
            xp.multiply(b, momentum, out=b)
            xp.multiply(direction, share, out=scratch)
            xp.add(b, scratch, out=b)
            if nesterov:
                xp.multiply(b, momentum, out=scratch)
                xp.add(direction, scratch, out=direction)
            else:
                direction = b
        xp.multiply(direction, lr, out=scratch)
        xp.subtract(theta, scratch, out=theta)

    work.in_pieces(xp, [values, gradient, *(buffer._data for buffer in buffers.values())], update)
    return {**state, **buffers}


def adam_in_place(optimizer: Optimizer, due: list[Due]) -> None:
    step_in_place(plan_adam, optimizer, due)


def sgd_in_place(optimizer: Optimizer, due: list[Due]) -> None:
    step_in_place(plan_sgd, optimizer, due)


Optimizer.in_place[Adam.update] = adam_in_place
Optimizer.in_place[SGD.update] = sgd_in_place
