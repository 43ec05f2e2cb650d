"""Exercises of lesson 15: a layer by hand, and a model's parameters on paper."""

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer
from tinytensor.models.scripts.exercises import agree, exercise
from tinytensor.nn import functional as F


@exercise(
    "def encoder_layer(layer, x):",
    "With `norm_first`, x + SelfAttention(norm1(x)) comes first: the norm is of what is read, not of the sum.",
    "`layer.self_attn(h, h, h)[0]`, where h is `layer.norm1(x)`; then `linear1`, ReLU, `linear2` of `layer.norm2(x)`.",
)
def check_encoder_layer(encoder_layer):
    """The result of an `nn.TransformerEncoderLayer` with `norm_first=True` for x (batch, length, d_model), computed
    with its parts `self_attn`, `norm1`, `norm2`, `linear1` and `linear2`."""
    for d_model, heads, d_ff, batch, length in ((8, 2, 16, 2, 5), (6, 3, 10, 3, 4)):
        layer = nn.TransformerEncoderLayer(d_model, heads, d_ff, dropout=0.0, batch_first=True, norm_first=True)
        for norm in (layer.norm1, layer.norm2):
            nn.init.uniform_(norm.weight, 0.5, 2.0)
            nn.init.uniform_(norm.bias, -1.0, 1.0)
        x = 2 * tt.random.randn(batch, length, d_model)

        def look(q, k=None):
            return layer.self_attn(q, q if k is None else k, q if k is None else k)[0]

        def forward(h, bend=F.relu):
            return layer.linear2(bend(layer.linear1(h)))

        one, two = layer.norm1, layer.norm2
        h = x + look(one(x))
        expected = h + forward(two(h))
        middle = one(x + look(x))
        mistakes = {
            "the norms come after the sums; with norm_first they come before": two(middle + forward(middle)),
            "x is not added to what attention gives": look(one(x)) + forward(two(look(one(x)))),
            "what attention gave is not added to what the feed forward gives": forward(two(h)),
            "x is added to both; the second sum adds what came out of the first": x + forward(two(h)),
            "norm1(x) is added; x itself is added": one(x) + look(one(x)) + forward(two(one(x) + look(one(x)))),
            "norm2 of the first sum is added; the sum itself is added": two(h) + forward(two(h)),
            "ReLU is missing": h + forward(two(h), lambda x: x),
            "GELU stands where ReLU has to": h + forward(two(h), F.gelu),
            "norm1 stands where norm2 has to": h + forward(one(h)),
            "norm1 is missing": x + look(x) + forward(two(x + look(x))),
            "norm2 is missing": h + forward(h),
            "both norms are missing": x + look(x) + forward(x + look(x)),
            "norm1 is of the queries alone": x + look(one(x), x) + forward(two(x + look(one(x), x))),
            "the feed forward is missing": h,
            "the feed forward is of x; it is of what came out of the first sum": h + forward(two(x)),
            "norm1 and norm2 are exchanged": x + look(two(x)) + forward(one(x + look(two(x)))),
        }
        what = f"a layer of d_model {d_model} with {heads} heads"
        agree(encoder_layer(layer, x), expected, what, 1e-4, mistakes)


@exercise(
    "def parameters(d_model, d_ff, layers, words):",
    "The lesson has all of it: an encoder layer has an attention, a feed forward and two norms.",
    "A decoder layer has one attention and one norm more. Then two norms at the ends, and one embedding of all words.",
)
def check_parameters(parameters):
    """How many parameters a Transformer has with so many layers in each tower, and one embedding for `words` words,
    which is its last matrix too."""
    sizes = [(8, 18, 1, 11), (12, 20, 3, 7), (6, 5, 2, 31 + int(tt.random.integers(0, 9)))]

    def counts(attentions=3, bias=1, w_o=1, forwards=2, norms=5, ends=2, norm_vectors=2, embeddings=1, forward_bias=1):
        found = []
        for d_model, d_ff, layers, words in sizes:
            attention = (3 + w_o) * d_model * (d_model + bias)
            forward = 2 * d_model * d_ff + forward_bias * (d_ff + d_model)
            norm = norm_vectors * d_model
            tower = layers * (attentions * attention + forwards * forward + norms * norm)
            found.append(tower + ends * norm + embeddings * words * d_model)
        return found

    expected = []
    for d_model, d_ff, layers, words in sizes:
        options = {"d_model": d_model, "num_heads": 2, "num_layers": layers, "d_ff": d_ff}
        model = Transformer(words, tie_weights=True, share_embeddings=True, **options)
        expected.append(sum(parameter.size for parameter in model.parameters()))
    mistakes = {
        "a decoder layer has two attentions": counts(attentions=2),
        "a decoder layer has two attentions, and a third norm": counts(attentions=2, norms=4),
        "a decoder layer has a third norm": counts(norms=4),
        "the two norms at the ends of the towers are missing": counts(ends=0),
        "there is a norm at the end of each tower: two, not one": counts(ends=1),
        "the matrices of attention have biases": counts(bias=0),
        "the feed forward has two biases": counts(forward_bias=0),
        "matrices have biases": counts(bias=0, forward_bias=0),
        "W^O is missing": counts(w_o=0),
        "a norm has a weight and a bias": counts(norm_vectors=1),
        "there are no norms in it": counts(norm_vectors=0),
        "the embedding is missing": counts(embeddings=0),
        "there is one embedding for the source, the target and the last matrix; here it counts twice": counts(
            embeddings=2
        ),
        "there is one embedding for the source, the target and the last matrix; here it counts three times": counts(
            embeddings=3
        ),
        "there are two towers; this is the encoder alone": counts(attentions=1, forwards=1, norms=2, ends=1),
        "a decoder layer has a feed forward, too": counts(forwards=1),
    }
    given = [parameters(*size) for size in sizes]
    agree(given, expected, f"the counts for (d_model, d_ff, layers, words) in {sizes}", 1e-9, mistakes)
