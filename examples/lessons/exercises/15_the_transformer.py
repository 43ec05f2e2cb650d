"""Exercises of lesson 15: a layer by hand, and a model's parameters on paper."""

import tinytensor as tt
from tinytensor import nn
from tinytensor.models import Transformer
from tinytensor.models.scripts.exercises import agree, exercise


@exercise(
    "def encoder_layer(layer, x):",
    "With `norm_first`, x + SelfAttention(norm1(x)) comes first: the norm is of what is read, not of the sum.",
    "`layer.self_attn(h, h, h)[0]`, where h is `layer.norm1(x)`; then `linear1`, ReLU, `linear2` of `layer.norm2(x)`.",
)
def check_encoder_layer(encoder_layer):
    """What an `nn.TransformerEncoderLayer` with `norm_first=True` makes of x (batch, length, d_model), from its pieces
    `self_attn`, `norm1`, `norm2`, `linear1` and `linear2`."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
    for norm in (layer.norm1, layer.norm2):
        nn.init.uniform_(norm.weight, 0.5, 2.0)
    x = 2 * tt.random.randn(2, 5, 8)
    agree(encoder_layer(layer, x), layer(x), "a layer of d_model 8")


@exercise(
    "def parameters(d_model, d_ff, layers, words):",
    "The lesson has all of it: an encoder layer has an attention, a feed forward and two norms.",
    "A decoder layer has one attention and one norm more. Then two norms at the ends, and one embedding of all words.",
)
def check_parameters(parameters):
    """How many parameters a Transformer has with so many layers in each tower, and one embedding for `words` words,
    which is its last matrix too."""
    for d_model, d_ff, layers, words in ((8, 16, 1, 10), (12, 20, 3, 7)):
        sizes = {"d_model": d_model, "num_heads": 2, "num_layers": layers, "d_ff": d_ff}
        model = Transformer(words, tie_weights=True, share_embeddings=True, **sizes)
        expected = sum(parameter.size for parameter in model.parameters())
        what = f"the count for d_model {d_model}, d_ff {d_ff}, {layers} layers and {words} words"
        agree(parameters(d_model, d_ff, layers, words), expected, what, 1e-9)
