"""What the lessons claim: the value and the tolerance of each number, and changes that must make a claim fail.

A number of a lesson that has no claim here fails the tests. Tolerances are wide enough for any machine and narrow
enough to fail where the claim is false: `MUTATIONS` are pieces of a lesson's text and what stands in their place.
"""

CLAIMS = {
    "05_scaling": {
        "variance of q·k, d_k = 4": (4, 0.5),
        "variance of q·k, d_k = 512": (512, 30),
        "variance of q·k / √d_k, d_k = 512": (1, 0.06),
        "largest entry of the Jacobian at s": (0.22929, 1e-4),
        "largest entry of the Jacobian at 10 s": (4.5396e-5, 1e-7),
        "words copied, d_k = 192, q·k / √dₖ": (1, 0.15),
        "words copied, d_k = 192, q·k": (0, 0.2),
        "words copied, d_k = 16, q·k / √dₖ": (1, 0.15),
        "words copied, d_k = 16, q·k": (1, 0.15),
    },
    "17_gradient_of_attention": {
        "wrong rules caught": (1, 0),
        "gradient of the query: largest difference": (0, 1e-12),
        "gradient of the key: largest difference": (0, 1e-12),
        "gradient of the value: largest difference": (0, 1e-12),
        "second derivatives: largest difference": (0, 1e-11),
    },
    "19_a_framework": {
        "loss, small framework": (2.7286, 1e-3),
        "loss, tinytensor": (2.7286, 1e-3),
        "largest difference of a gradient": (0, 1e-12),
        "operations, small framework": (10, 0),
        "operations, tinytensor": (10, 0),
        "right word found": (1, 0),
    },
}

MUTATIONS = {
    "05_scaling": [
        ("dropout=0.0, scale=scale)", "dropout=0.0)"),
        ("scores[512] / math.sqrt(512)", "scores[512] / 512"),
        ("small * 10}.items", "small}.items"),
    ],
    "17_gradient_of_attention": [
        ("return out * (g - xp.sum(g * out, axis=out.ndim - 1, keepdims=True))", "return out * g * (1 - out)"),
        ("g_scores = p * (g_weights - (g_weights * p)", "g_scores = p * (g_weights - (g_weights)"),
        ("s=lambda xp, g, out: g * out * (1 - out)", "s=rule"),
    ],
    "19_a_framework": [
        ("-g * out / other.data", "g * out / other.data"),
        ("parent.grad + unbroadcast", "unbroadcast"),  # what is used twice
        ("for value in reversed(order)", "for value in order"),
    ],
}
