"""Right answers: one under each name, and `<exercise>__<how>` for other spellings that are right, too."""

import tinytensor as tt
from tinytensor import nn
from tinytensor.nn import functional as F


def encoder_layer(layer, x):
    h = layer.norm1(x)
    x = x + layer.self_attn(h, h, h)[0]
    return x + layer.linear2(F.relu(layer.linear1(layer.norm2(x))))


def parameters(d_model, d_ff, layers, words):
    attention = 4 * d_model * (d_model + 1)
    forward = 2 * d_model * d_ff + d_ff + d_model
    norm = 2 * d_model
    return layers * (3 * attention + 2 * forward + 5 * norm) + 2 * norm + words * d_model


def encoder_layer__by_the_layer(layer, x):
    return layer(x)


def encoder_layer__in_steps(layer, x):
    normed = layer.norm1(x)
    attended, _ = layer.self_attn(normed, normed, normed, need_weights=False)
    between = attended + x
    hidden = tt.maximum(layer.linear1(layer.norm2(between)), 0.0)
    return layer.linear2(hidden) + between


def parameters__by_counting(d_model, d_ff, layers, words):
    encoder = nn.TransformerEncoderLayer(d_model, 1, d_ff)
    decoder = nn.TransformerDecoderLayer(d_model, 1, d_ff)
    each = sum(p.size for layer in (encoder, decoder) for p in layer.parameters())
    return layers * each + 4 * d_model + words * d_model


def parameters__multiplied_out(d_model, d_ff, layers, words):
    d = d_model
    return float(layers * (12 * d * d + 12 * d + 4 * d * d_ff + 2 * d_ff + 2 * d + 10 * d) + 4 * d + words * d)
