CLAIMS = {
    "wrong rules caught": (1, 0),
    "mistakes on the report card of my_softmax": (0, 0),
    "mistakes on that of diagonal_softmax": (1, 0),
    "gradient of the query: largest difference": (0, 1e-12),
    "gradient of the key: largest difference": (0, 1e-12),
    "gradient of the value: largest difference": (0, 1e-12),
    "second derivatives: largest difference": (0, 1e-11),
}

MUTATIONS = [
    ("return out * (g - xp.sum(g * out, axis=out.ndim - 1, keepdims=True))", "return out * g * (1 - out)"),
    ("g_scores = p * (g_weights - (g_weights * p)", "g_scores = p * (g_weights - (g_weights)"),
    ("s=lambda xp, g, out: g * out * (1 - out)", "s=rule"),
    ("xp.max(s, axis=s.ndim - 1, keepdims=True)", "xp.max(s)"),
]
