CLAIMS = {
    "formula and modules: largest difference": (0, 1e-6),
    "convolutions and modules: largest difference": (0, 1e-6),
    "positions that change with position 2, feed-forward": (1, 0),
    "positions that change with position 2, a convolution of kernel size 3": (3, 0),
    "positions that change with position 2, attention": (6, 0),
    "a convolution and three heads: largest difference": (0, 1e-5),
    "shuffled before, after: difference": (0, 1e-6),
    "two linear maps and one: largest difference": (0, 1e-6),
    "with the bend between them: largest difference": (0.5, 0.4),
    "share of the feed-forward network in a layer's parameters": (0.667, 0.005),
}

MUTATIONS = [
    ("tt.eye(length, k=i - 1)", "tt.eye(length, k=1 - i)"),
    ("kernel_size=1)", "kernel_size=1, bias=False)"),
    ("Sequential(as_convolution(widen), nn.ReLU(), ", "Sequential(as_convolution(widen), "),
    ('"feed-forward": feed_forward,', '"feed-forward": lambda x: feed_forward(wide(x.T).T),'),
    ("+ narrow(widen.bias)", "+ narrow.bias"),
    ("nn.TransformerEncoderLayer(512, 8, 2048)", "nn.TransformerEncoderLayer(512, 8, 1024)"),
]
