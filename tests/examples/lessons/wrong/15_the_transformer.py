"""Wrong answers, as `<exercise>__<mistake>`; the docstring is a part of what the check says."""

from tinytensor.nn import functional as F


def look(layer, h):
    return layer.self_attn(h, h, h)[0]


def forward(layer, h, bend=F.relu):
    return layer.linear2(bend(layer.linear1(h)))


def encoder_layer__norms_behind(layer, x):
    """the norms come after the sums"""
    x = layer.norm1(x + look(layer, x))
    return layer.norm2(x + forward(layer, x))


def encoder_layer__without_the_first_sum(layer, x):
    """x is not added to what attention gives"""
    x = look(layer, layer.norm1(x))
    return x + forward(layer, layer.norm2(x))


def encoder_layer__without_the_second_sum(layer, x):
    """is not added to what the feed forward gives"""
    x = x + look(layer, layer.norm1(x))
    return forward(layer, layer.norm2(x))


def encoder_layer__norm_is_added(layer, x):
    """norm1(x) is added; x itself is added"""
    x = layer.norm1(x)
    x = x + look(layer, x)
    return x + forward(layer, layer.norm2(x))


def encoder_layer__second_norm_is_added(layer, x):
    """norm2 of the first sum is added"""
    x = layer.norm2(x + look(layer, layer.norm1(x)))
    return x + forward(layer, x)


def encoder_layer__without_relu(layer, x):
    """ReLU is missing"""
    x = x + look(layer, layer.norm1(x))
    return x + layer.linear2(layer.linear1(layer.norm2(x)))


def encoder_layer__gelu(layer, x):
    """GELU stands where ReLU has to"""
    x = x + look(layer, layer.norm1(x))
    return x + forward(layer, layer.norm2(x), F.gelu)


def encoder_layer__one_norm_twice(layer, x):
    """norm1 stands where norm2 has to"""
    x = x + look(layer, layer.norm1(x))
    return x + forward(layer, layer.norm1(x))


def encoder_layer__norm_of_queries(layer, x):
    """norm1 is of the queries alone"""
    x = x + layer.self_attn(layer.norm1(x), x, x)[0]
    return x + forward(layer, layer.norm2(x))


def encoder_layer__without_norms(layer, x):
    """both norms are missing"""
    x = x + look(layer, x)
    return x + forward(layer, x)


def encoder_layer__attention_alone(layer, x):
    """the feed forward is missing"""
    return x + look(layer, layer.norm1(x))


def encoder_layer__both_results_of_attention(layer, x):
    """It raised"""
    h = layer.norm1(x)
    x = x + layer.self_attn(h, h, h)
    return x + forward(layer, layer.norm2(x))


def count(d_model, d_ff, layers, words, attentions=3, bias=1, forwards=2, norms=5, ends=2, embeddings=1, matrices=4):
    attention = matrices * d_model * (d_model + bias)
    feed_forward = 2 * d_model * d_ff + d_ff + d_model
    tower = layers * (attentions * attention + forwards * feed_forward + norms * 2 * d_model)
    return tower + ends * 2 * d_model + embeddings * words * d_model


def parameters__encoder(d_model, d_ff, layers, words):
    """this is the encoder alone"""
    return count(d_model, d_ff, layers, words, attentions=1, forwards=1, norms=2, ends=1)


def parameters__one_attention_each(d_model, d_ff, layers, words):
    """a decoder layer has two attentions"""
    return count(d_model, d_ff, layers, words, attentions=2)


def parameters__two_equal_towers(d_model, d_ff, layers, words):
    """a decoder layer has two attentions, and a third norm"""
    return count(d_model, d_ff, layers, words, attentions=2, norms=4)


def parameters__two_norms_each(d_model, d_ff, layers, words):
    """a decoder layer has a third norm"""
    return count(d_model, d_ff, layers, words, norms=4)


def parameters__without_last_norms(d_model, d_ff, layers, words):
    """the two norms at the ends of the towers are missing"""
    return count(d_model, d_ff, layers, words, ends=0)


def parameters__without_biases(d_model, d_ff, layers, words):
    """the matrices of attention have biases"""
    return count(d_model, d_ff, layers, words, bias=0)


def parameters__without_w_o(d_model, d_ff, layers, words):
    """W^O is missing"""
    return count(d_model, d_ff, layers, words, matrices=3)


def parameters__three_embeddings(d_model, d_ff, layers, words):
    """here it counts three times"""
    return count(d_model, d_ff, layers, words, embeddings=3)


def parameters__without_embedding(d_model, d_ff, layers, words):
    """the embedding is missing"""
    return count(d_model, d_ff, layers, words, embeddings=0)


def parameters__one_feed_forward(d_model, d_ff, layers, words):
    """a decoder layer has a feed forward, too"""
    return count(d_model, d_ff, layers, words, forwards=1)
