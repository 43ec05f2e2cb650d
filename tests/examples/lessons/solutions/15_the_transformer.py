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
