"""What the lessons claim: the value and the tolerance of each number, and changes that must make a claim fail.

A number of a lesson that has no claim here fails the tests. Tolerances are wide enough for any machine and narrow
enough to fail where the claim is false: `MUTATIONS` are pieces of a lesson's text and what stands in their place.
"""

CLAIMS = {
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
    "19_a_framework": [
        ("-g * out / other.data", "g * out / other.data"),
        ("parent.grad + unbroadcast", "unbroadcast"),  # what is used twice
        ("for value in reversed(order)", "for value in order"),
    ],
}
