CLAIMS = {
    "cosine of x and its layer norm": (0.7, 0.05),
    "cosine of x and its RMSNorm": (1, 1e-5),
    "without a mean: RMSNorm and layer norm differ by": (0, 1e-3),
    "weights: gated / plain": (1, 0),
    "plain, q and k times 1: largest score": (1.4, 1),
    "plain, q and k times 10: largest score": (140, 100),
    "QK-norm, q and k times 1: largest score": (2.8, 1.2),
    "QK-norm, q and k times 10: largest score": (2.8, 1.2),
    "tied: words whose embedding has a gradient": (1000, 0),
    "tied: weights": (229632, 0),
    "each its own: words whose embedding has a gradient": (3, 0),
    "each its own: weights": (293632, 0),
}

MUTATIONS = [
    ("qk_norm=eps", "qk_norm=None"),
    ("tie_weights=tied", "tie_weights=True"),
    ("nn.FeedForward(96, 256,", "nn.FeedForward(96, 384,"),
    ("- x.mean(axis=-1, keepdims=True)", "- 0 * x.mean(axis=-1, keepdims=True)"),
]
