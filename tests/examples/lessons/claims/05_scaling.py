CLAIMS = {
    "variance of q·k, d_k = 4": (4, 0.5),
    "variance of q·k, d_k = 512": (512, 30),
    "variance of q·k / √d_k, d_k = 512": (1, 0.06),
    "largest weight of softmax(s)": (0.64391426, 5e-9),
    "largest weight of softmax(10 s)": (0.99995460, 5e-9),
    "largest entry of the Jacobian at s": (0.22929, 0.0001),
    "largest entry of the Jacobian at 10 s": (4.5396e-05, 1e-07),
    "words copied, d_k = 192, q·k / √dₖ": (1, 0.15),
    "words copied, d_k = 192, q·k": (0, 0.2),
    "words copied, d_k = 16, q·k / √dₖ": (1, 0.15),
    "words copied, d_k = 16, q·k": (1, 0.15),
}

MUTATIONS = [
    ("dropout=0.0, scale=scale)", "dropout=0.0)"),
    ("scores[512] / math.sqrt(512)", "scores[512] / 512"),
    ("small * 10}.items():", "small * 9}.items():"),
    ("small * 10}.items()\n}", "small * 9}.items()\n}"),
]
