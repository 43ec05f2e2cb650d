CLAIMS = {
    "probabilities of the next word add up to": (1, 1e-5),
    "largest difference between the boxes and the model": (0, 1e-5),
    "base, without embeddings": (44_140_544, 0),
    "base, with one embedding of 37,000 subwords": (63_084_544, 0),
    "difference from the count on paper": (0, 0),
    "share of the feed-forward networks": (0.571, 0.001),
    "loss": (3.2, 1.2),
    "of it after the step": (0.6, 0.35),
}

MUTATIONS = [
    ("layer.multihead_attn(y, memory, memory)", "layer.multihead_attn(y, y, y)"),
    (", attn_mask=F.causal_mask(4)", ""),
    ("model.source_embedding(ids) * math.sqrt(16)", "model.source_embedding(ids)"),
    ("(2 * attention + forward", "(attention + forward"),
    ("d_model, d_ff, layers, subwords = 512, 2048", "d_model, d_ff, layers, subwords = 512, 1024"),
]
