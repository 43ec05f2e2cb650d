"""Exercises of lesson 7: cutting heads apart, and putting them together."""

import tinytensor as tt
from tinytensor.models.scripts.exercises import agree, exercise
from tinytensor.nn import functional as F


@exercise(
    "def split_heads(x, num_heads):",
    "Head i has the features from i d_k to (i + 1) d_k of every position, where d_k = d_model / num_heads.",
    "`x.reshape(length, num_heads, d_k)` cuts the features; then the heads go in front: `permute(1, 0, 2)`.",
)
def check_split_heads(split_heads):
    """x, (length, d_model), cut into heads: (num_heads, length, d_model / num_heads)."""
    for length, d_model, heads in ((5, 6, 3), (4, 10, 2)):
        x, d_k = tt.random.randn(length, d_model), d_model // heads
        cut = x.reshape(length, heads, d_k)
        expected = cut.permute(1, 0, 2)
        mistakes = {
            "it cuts positions apart and not features: head 0 has the first positions whole": x.reshape(
                heads, length, d_k
            ),
            "the heads are in the middle; they go in front": cut,
            f"the features of the heads alternate; head 0 has the first {d_k}": x.reshape(length, d_k, heads).permute(
                2, 0, 1
            ),
            f"every head has {heads} features; expected d_model / num_heads = {d_k}": x.reshape(
                length, d_k, heads
            ).permute(1, 0, 2),
            "positions and features of each head are exchanged": cut.permute(1, 2, 0),
            "each head is transposed and read on, which mixes positions": cut.permute(1, 2, 0).reshape(
                heads, length, d_k
            ),
            "the heads come in the reverse order": expected[::-1],
            "only one head came out": expected[0],
        }
        what = f"{length} positions of {d_model} features in {heads} heads"
        agree(split_heads(x, heads), expected, what, mistakes=mistakes)


@exercise(
    "def multi_head(x, heads, w_o):",
    "headᵢ is `F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)`, with the matrices of this head.",
    "`tt.concat([...], axis=-1)` puts the heads side by side; W^O comes last.",
)
def check_multi_head(multi_head):
    """Multi-head self-attention of x, (length, d_model): `heads` is a list of triples W^Q, W^K, W^V, each (d_model,
    d_k), and w_o is W^O, (len(heads) d_k, d_model)."""
    for length, d_model, d_k, many in ((5, 8, 3, 2), (4, 7, 2, 3)):
        x, w_o = tt.random.randn(length, d_model), tt.random.randn(many * d_k, d_model)
        heads = [tuple(tt.random.randn(3, d_model, d_k)) for _ in range(many)]

        def attention(w_q, w_k, w_v, scale=d_k**-0.5, dim=-1, soft=F.softmax):
            scores = (x @ w_q) @ (x @ w_k).mT * scale
            return soft(scores, dim=dim) @ (x @ w_v)

        def together(found):
            return tt.concat(found, axis=-1) @ w_o

        found = [attention(*head) for head in heads]
        mistakes = {
            "W^O is missing": tt.concat(found, axis=-1),
            "the scores are not scaled: divide them by √d_k": together([attention(*h, scale=1.0) for h in heads]),
            "the scores are divided by d_k, not by its square root": together(
                [attention(*h, scale=1 / d_k) for h in heads]
            ),
            "the scores are divided by √d_model; a head's queries have d_k numbers": together(
                [attention(*h, scale=d_model**-0.5) for h in heads]
            ),
            "the scores are divided by the root of all heads' d_k together": together(
                [attention(*h, scale=(many * d_k) ** -0.5) for h in heads]
            ),
            "every head has the matrices of the first": together([attention(*heads[0])] * many),
            "every head has the matrices of the last": together([attention(*heads[-1])] * many),
            "the heads come in the reverse order": together(found[::-1]),
            "the heads are added; put them side by side": together([sum(found)] * many),
            "keys are weighed; weigh the values": together([attention(q, k, k) for q, k, _ in heads]),
            "queries and keys are exchanged": together([attention(k, q, v) for q, k, v in heads]),
            "softmax is over the queries; it is over the keys": together([attention(*h, dim=0) for h in heads]),
            "softmax is missing": together([attention(*h, soft=lambda s, dim: s) for h in heads]),
            "the numbers of the heads alternate; put head beside head": tt.stack(found, axis=-1).reshape(length, -1)
            @ w_o,
        }
        what = f"the result of {many} heads with d_k = {d_k}"
        agree(multi_head(x, heads, w_o), together(found), what, mistakes=mistakes)
