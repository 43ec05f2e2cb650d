CLAIMS = {
    "loss, small framework": (2.7286, 0.001),
    "loss, tinytensor": (2.7286, 0.001),
    "largest difference of a gradient": (0, 1e-12),
    "operations, small framework": (10, 0),
    "operations, tinytensor": (10, 0),
    "right word found": (1, 0),
}

MUTATIONS = [
    ("-g * out / other.data", "g * out / other.data"),
    ("parent.grad + unbroadcast", "unbroadcast"),
    ("for value in reversed(order)", "for value in order"),
]
