"""Checks of step 8: masks, attention and its heads against tinytensor's."""

import numpy as np
from step02_node import Value
from step04_broadcast import backward

import tinytensor as tt
from tinytensor.course.cards import expect_type, numbers
from tinytensor.models.scripts.exercises import agree, expect
from tinytensor.nn import functional as F


def check_causal_mask(causal_mask):
    """0 on and below the diagonal, -inf above it."""
    for length in (3, 5):
        mask = causal_mask(length)
        right = np.triu(np.full((length, length), -np.inf), 1)
        mistakes = {
            "no position sees itself; j <= i may be seen": np.where(np.tri(length, k=-1), 0.0, -np.inf),
            "it is turned round: a position must not see what comes behind it": right.T,
            "ones and zeros are added to scores, and hide nothing: 0 where it may look, -inf elsewhere": np.tri(length),
        }
        agree(mask, right, f"the mask of {length} positions", mistakes=mistakes)


def check_attention(attention):
    """softmax(Q Kᵀ / √d_k + mask) V, for one head and for a stack of heads."""
    for (n, m, d_k, d_v), stack in (((3, 4, 5, 2), ()), ((4, 6, 3, 7), (2, 3))):
        arrays = numbers(*stack, n, d_k), numbers(*stack, m, d_k) + 0.5, numbers(*stack, m, d_v)
        ours, theirs = [Value(a, wants=True) for a in arrays], [tt.tensor(a, requires_grad=True) for a in arrays]
        mask = np.where(np.tri(n, m, dtype=bool), 0.0, -np.inf)
        for name, given in (("no mask", 0.0), ("a mask", mask)):
            result = attention(*ours, given)
            expect_type(result, Value)
            case = f"with {name}, d_k = {d_k}, d_v = {d_v}"
            products, hidden = theirs[0] @ theirs[1].mT, tt.asarray(given)
            weights = {
                scale: F.softmax(products * scale + hidden, dim=-1) for scale in (d_k**-0.5, 1.0, d_v**-0.5, 1 / d_k)
            }
            free = F.softmax(products * d_k**-0.5, dim=-1)
            mistakes = {
                "it is not scaled by 1 / √d_k": weights[1.0] @ theirs[2],
                "it is scaled by 1 / √d_v": weights[d_v**-0.5] @ theirs[2],
                "it is scaled by 1 / d_k; the root is missing": weights[1 / d_k] @ theirs[2],
                "the mask hides nothing": free @ theirs[2],
                "the mask comes behind softmax, so weights do not add up to 1": free * tt.exp(hidden) @ theirs[2],
                "softmax is missing": (products * d_k**-0.5 + hidden) @ theirs[2],
            }
            agree(result.data, weights[d_k**-0.5] @ theirs[2], f"attention {case}", mistakes=mistakes)
        for value in (*ours, *theirs):
            value.grad = None
        backward(attention(*ours, mask))
        (F.softmax(theirs[0] @ theirs[1].mT / d_k**0.5 + tt.asarray(mask), dim=-1) @ theirs[2]).sum().backward()
        for name, mine, yours in zip(("query", "key", "value"), ours, theirs):
            agree(mine.grad, yours.grad, f"the gradient of {name} {case}")


def check_split_heads(split_heads):
    """Head h has features h * d / heads and on, of every position."""
    for batch, length, heads, width in ((2, 3, 4, 5), (3, 5, 2, 3)):
        x = Value(numbers(batch, length, heads * width), wants=True)
        result, expected = split_heads(x, heads), np.stack(np.split(x.data, heads, axis=-1), axis=1)
        expect_type(result, Value)
        cut = x.data.reshape(batch, heads, length, width)
        expect(
            not np.array_equal(result.data, cut), "it cuts positions apart and not features: split d, then change axes"
        )
        every = x.data.reshape(batch, length, width, heads).transpose(0, 3, 1, 2)
        mistakes = {"it takes every heads-th feature; a head has a piece in a row": every}
        agree(result.data, expected, f"{heads} heads of an array {x.data.shape}", mistakes=mistakes)
        backward(result * expected)
        agree(x.grad, x.data, f"the gradient of an array {x.data.shape} in {heads} heads")


def check_join_heads(join_heads):
    """The heads of a position side by side again."""
    for batch, heads, length, width in ((2, 4, 3, 5), (3, 2, 5, 3)):
        x = Value(numbers(batch, heads, length, width), wants=True)
        result = join_heads(x)
        expect_type(result, Value)
        mixed = x.data.reshape(batch, length, heads * width)
        mistakes = {"it mixes positions: first change the axes, as in split_heads": mixed}
        joined = np.concatenate([x.data[:, i] for i in range(heads)], axis=-1)
        agree(result.data, joined, f"{heads} heads joined", mistakes=mistakes)
        backward(result * joined)
        agree(x.grad, x.data, f"the gradient of {heads} heads that are joined")
