"""Einstein's summation, made of sums, products and matrix products of two operands at a time."""

from __future__ import annotations

import itertools
import math
import string
from typing import Any

import tinytensor as tt

from ..primitive import op
from ..tensor import Tensor
from ..typing import ArrayLike

LETTERS = string.ascii_uppercase + string.ascii_lowercase


def _einsum_rule(xp, g, index, arrays, subscripts, shape):
    """The gradient of one operand: the same sum with the result in that operand's place."""
    inputs, output = subscripts.split("->")
    terms = inputs.split(",")
    mine = terms[index]
    others = [a for i, a in enumerate(arrays) if i != index]
    other_terms = [t for i, t in enumerate(terms) if i != index]
    present = set(output).union(*other_terms)
    found = "".join(c for c in mine if c in present)
    result = _contract(xp, [output, *other_terms], found, [g, *others])
    for axis, c in enumerate(mine):  # a letter of this operand alone was summed over
        if c not in present:
            result = xp.expand_dims(result, axis=axis)
    return xp.broadcast_to(result, shape)


@op(arrays=_einsum_rule)
def _einsum(xp, *arrays, subscripts):
    inputs, output = subscripts.split("->")
    return _contract(xp, inputs.split(","), output, arrays)


def _contract(xp, terms, output, arrays):
    """Einstein's summation of arrays whose terms repeat no letter; the result has memory of its own.

    It is made of sums, products and matrix products of two operands at a time, and as accurate and fast as these.
    """
    operands = list(zip(terms, arrays))
    if len(operands) == 1:
        operands = [_sum_out(xp, *operands[0], output)]
    while len(operands) > 1:
        i, j = _cheapest_pair(operands, output)
        second, first = operands.pop(j), operands.pop(i)
        operands.append(_multiply_pair(xp, *first, *second, _letters(operands, output)))
    term, x = operands[0]
    return xp.permute_dims(x, tuple(term.index(c) for c in output))


def _letters(operands, output):
    """The letters that the operands and the result name."""
    return set(output).union(*(term for term, _ in operands))


def _cheapest_pair(operands, output):
    """The two whose product takes the least memory beyond what they took themselves."""

    def growth(pair):
        kept = _letters([operand for k, operand in enumerate(operands) if k not in pair], output)
        lengths = {c: n for k in pair for c, n in zip(operands[k][0], operands[k][1].shape)}
        product = math.prod(n for c, n in lengths.items() if c in kept)
        return product - sum(math.prod(operands[k][1].shape) for k in pair)

    return min(itertools.combinations(range(len(operands)), 2), key=growth)


def _multiply_pair(xp, left, x, right, y, kept):
    """The product of two operands, summed over the letters that are not kept: its letters and the array."""
    left, x = _sum_out(xp, left, x, kept.union(right)) if set(left) - kept.union(right) else (left, x)
    right, y = _sum_out(xp, right, y, kept.union(left)) if set(right) - kept.union(left) else (right, y)
    batch = [c for c in left if c in right and c in kept]
    summed = [c for c in left if c in right and c not in kept]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    lengths = dict(zip(left + right, (*x.shape, *y.shape)))
    x = _grouped(xp, left, x, (*batch, rows, summed))
    y = _grouped(xp, right, y, (*batch, summed, columns))
    term = "".join(batch + rows + columns)
    return term, xp.reshape(xp.matmul(x, y) if summed else x * y, tuple(lengths[c] for c in term))


def _sum_out(xp, term, x, kept):
    """An operand summed over the letters that are not kept; a copy if all are kept."""
    axes = tuple(i for i, c in enumerate(term) if c not in kept)
    return "".join(c for c in term if c in kept), xp.sum(x, axis=axes, dtype=x.dtype)


def _grouped(xp, term, x, groups):
    """An operand with its letters in the order of the groups, and one dimension for each group."""
    lengths = dict(zip(term, x.shape))
    x = xp.permute_dims(x, tuple(term.index(c) for group in groups for c in group))
    return xp.reshape(x, tuple(math.prod(lengths[c] for c in group) for group in groups))


def einsum(subscripts: str | ArrayLike, /, *operands: Any) -> Tensor:
    """Einstein's summation: `einsum("bqd,bkd->bqk", query, key)`; `...` stands for leading dimensions.

    Letters that are missing on the right are summed over; without `->` those that appear once remain, in
    alphabetical order. A letter that one operand repeats takes its diagonal. One list of operands will do.
    Axes can also be numbers, as in NumPy and PyTorch: `einsum(query, [0, 1, 2], key, [0, 3, 2], [0, 1, 3])`.

        >>> query, key = tt.ones((2, 4, 8)), tt.ones((2, 5, 8))
        >>> tt.einsum("bqd,bkd->bqk", query, key).shape
        (2, 4, 5)
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _from_numbers(subscripts, *operands)
    given: Any = operands  # as in PyTorch, or one list of them
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)) and "," in subscripts:
        given = operands[0]
    tensors = [tt.asarray(x) for x in given]
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(tensors):
        raise ValueError(f"einsum: {subscripts!r} names {len(terms)} operands, got {len(tensors)}")
    terms, output = _without_ellipsis(subscripts, terms, output, bool(arrow), tensors)
    for i, (term, x) in enumerate(zip(terms, tensors)):
        if len(term) != x.ndim:
            raise ValueError(f"einsum: {terms[i]!r} names {len(term)} dimensions, operand {i} has shape {x.shape}")
    lengths: dict[str, int] = {}
    for term, x in zip(terms, tensors):
        for c, n in zip(term, x.shape):
            if lengths.get(c, 1) != 1 and n not in (1, lengths[c]):
                raise ValueError(f"einsum: {c!r} of {subscripts!r} has lengths {lengths[c]} and {n}")
            lengths[c] = max(n, lengths.get(c, 1)) if n else 0
    if unknown := set(output) - set(lengths):
        raise ValueError(f"einsum: {sorted(unknown)} of the result of {subscripts!r} stand in no operand")
    for i, x in enumerate(tensors):
        terms[i], tensors[i] = _without_repeats(terms[i], x, lengths)
    return _einsum(*tensors, subscripts=",".join(terms) + "->" + output)


def _from_numbers(*given: Any) -> tuple[str, tuple[Any, ...]]:
    """The subscripts and operands of a call with a list of axis numbers after each operand, and one for the result."""
    pairs, result = (given[:-1], given[-1:]) if len(given) % 2 else (given, ())
    for axes in (*pairs[1::2], *result):
        if not isinstance(axes, (list, tuple)) or not all(n is ... or (type(n) is int and 0 <= n < 52) for n in axes):
            raise TypeError(f"einsum: expected a list of axis numbers from 0 to 51 after each operand, got {axes!r}")
    terms, output = (
        ["".join("..." if n is ... else LETTERS[n] for n in axes) for axes in lists] for lists in (pairs[1::2], result)
    )
    return "->".join([",".join(terms), *output]), pairs[::2]


def _without_ellipsis(
    subscripts: str, terms: list[str], output: str, explicit: bool, tensors: list[Tensor]
) -> tuple[list[str], str]:
    """The terms with letters for `...`, and a result side if it was missing."""
    used = set("".join(terms) + output) - {"."}
    free = [c for c in LETTERS if c not in used]
    rank = max((x.ndim - len(t.replace("...", "")) for t, x in zip(terms, tensors) if "..." in t), default=0)
    letters = "".join(free[: max(rank, 0)])
    result = []
    for term, x in zip(terms, tensors):
        missing = x.ndim - len(term.replace("...", ""))
        result.append(term.replace("...", letters[len(letters) - missing :] if missing > 0 else ""))
    if explicit:
        output = output.replace("...", letters)
    else:
        everything = "".join(term.replace("...", "") for term in terms)
        output = letters + "".join(sorted(c for c in set(everything) if everything.count(c) == 1))
    if not all(c.isalpha() for c in "".join(result) + output):
        raise ValueError(f"einsum: {subscripts!r} may hold letters, commas, '->' and '...' only")
    return result, output


def _without_repeats(term: str, x: Tensor, lengths: dict[str, int]) -> tuple[str, Tensor]:
    """A term and x, with diagonals taken for repeated letters, and broadcast dimensions of length 1 stretched."""
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            first = term.index(c)
            second = term.index(c, first + 1)
            x = tt.linalg.diagonal(tt.moveaxis(x, (first, second), (-2, -1)))
            term = "".join(d for i, d in enumerate(term) if i not in (first, second)) + c
    shape = tuple(lengths[c] for c in term)
    return term, x if x.shape == shape else tt.broadcast_to(x, shape)
