CLAIMS = {
    "position 0: mean afterwards": (0, 1e-5),
    "position 0: standard deviation afterwards": (1, 0.001),
    "position 1: mean afterwards": (0, 1e-5),
    "position 1: standard deviation afterwards": (1, 0.001),
    "gradient of the small position / of the large one": (105, 40),
    "an RNN with the norm, weights times 10: state changes by": (0, 1e-3),
    "an RNN with the norm, weights times 10: mean slope of tanh": (0.55, 0.15),
    "an RNN without, weights times 10: state changes by": (2, 1.5),
    "an RNN without, weights times 10: mean slope of tanh": (0, 0.1),
    "gradient below 30 layers, F(x)": (0, 1e-20),
    "standard deviation above 30 layers, F(x)": (0.07, 0.06),
    "gradient below 30 layers, x + F(x)": (27, 15),
    "standard deviation above 30 layers, x + F(x)": (10, 6),
    "gradient below 30 layers, norm(x + F(x))": (1.2, 0.9),
    "standard deviation above 30 layers, norm(x + F(x))": (1, 0.01),
    "gradient below 30 layers, x + F(norm(x))": (2.3, 1.1),
    "standard deviation above 30 layers, x + F(norm(x))": (2.3, 1),
    "loss after 60 steps, F(x)": (2.78, 0.07),
    "loss after 60 steps, x + F(x)": (2.78, 0.1),
    "loss after 60 steps, norm(x + F(x))": (2.73, 0.13),
    "loss after 60 steps, x + F(norm(x))": (2.3, 0.2),
}

ARRIVES = "gradient below 30 layers, {}"

RELATIONS = {
    "a residual connection lets the gradient past, a norm keeps its size": lambda n: (
        n[ARRIVES.format("F(x)")]
        < n[ARRIVES.format("norm(x + F(x))")]
        < n[ARRIVES.format("x + F(norm(x))")]
        < n[ARRIVES.format("x + F(x)")]
    ),
    "only the norm before the sub-layer learns at once": lambda n: (
        n["loss after 60 steps, x + F(norm(x))"] < n["loss after 60 steps, norm(x + F(x))"] - 0.2
    ),
}

MUTATIONS = [
    ("for times in (1, 10):", "for times in (1, 1):"),
    ("lambda: Bare(0.0)", "lambda: Bare(1.0)"),
    ("norm_first=norm_first", "norm_first=False"),
    ("norm(x).backward(", "x.sum(axis=0, keepdims=True).expand(2, 32).backward("),
    ("self.keep * x + self.feed_forward(x)", "self.feed_forward(x)"),
]
