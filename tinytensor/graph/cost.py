"""The cost of an op: an estimate of its floating-point operations, from shapes alone."""

from __future__ import annotations

import math

Shape = tuple[int, ...]

MOVEMENT = frozenset({
    "astype", "broadcast_to", "concat", "embedding", "expand_dims", "flip", "getitem", "index_set", "matrix_transpose",
    "permute_dims", "positive", "repeat", "reshape", "roll", "scatter", "squeeze", "tile", "to_device", "tril", "triu",
})  # fmt: skip
"""Ops that only move numbers: they cost no arithmetic."""

REDUCTIONS = frozenset({"sum", "mean", "max", "min", "prod", "std", "cumulative_sum", "cumulative_prod", "logsumexp"})


def flops(name: str, inputs: list[Shape | None], output: Shape) -> int:
    """Multiplications and additions of an op, a multiply-add being two; one per element of element-wise ops.

    Args:
        inputs: shapes of the inputs, None for numbers and inputs that were not given.
    """
    if name in MOVEMENT or not inputs or inputs[0] is None:
        return 0 if name in MOVEMENT else math.prod(output)
    first = inputs[0]
    if name in ("linear", "matmul"):
        return 2 * math.prod(output) * first[-1]
    if name == "einsum" and len(inputs) == 2 and inputs[1] is not None:
        # Summed axes are in both operands but not in the result; batched axes are in all three.
        summed = math.prod(first) * math.prod(inputs[1]) / max(math.prod(output), 1)
        return round(2 * math.prod(output) * math.sqrt(summed))
    if name == "attention":
        keys = inputs[1] or first
        return 2 * math.prod(first) * keys[-2] + 2 * math.prod(output) * keys[-2]
    if name in ("gru", "lstm", "rnn"):  # the inputs have gone through their product before
        return 2 * math.prod(first) * (inputs[1] or first)[-1]
    if name == "multi_head":
        memory = (inputs[1] if len(inputs) > 1 else None) or first
        return 4 * math.prod(output) * memory[1]
    if name in REDUCTIONS:
        return math.prod(first)
    return math.prod(output)
