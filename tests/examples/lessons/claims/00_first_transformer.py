CLAIMS = {
    "loss of the first step": (3.5, 0.5),
    "loss of the last step": (0, 0.1),
    "exact match on unseen words": (1, 0.05),
    "letters read from their mirror image, or beside it": (1, 0.3),
}

MUTATIONS = [
    ('SequenceTask("reverse"', 'SequenceTask("copy"'),  # learned as well, but not from the mirror image
    ("    optimizer.step()\n", ""),
    ("    loss.backward()\n", ""),
]
