"""What the lessons claim: the value and the tolerance of each number, and changes that must make a claim fail.

A number of a lesson that has no claim here fails the tests. Tolerances are wide enough for any machine and narrow
enough to fail where the claim is false: `MUTATIONS` are pieces of a lesson's text and what stands in their place.
"""

CLAIMS = {
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
