CLAIMS = {
    "largest weight on the future, −∞ before softmax": (0, 0),
    "weights of a add up to, −∞ before softmax": (1, 1e-6),
    "largest weight on the future, 0 before softmax": (0.39, 0.2),
    "weights of a add up to, 0 before softmax": (1, 1e-6),
    "largest weight on the future, 0 after softmax": (0, 0),
    "weights of a add up to, 0 after softmax": (0.13, 0.1),
    "c is changed, outputs at a and b change by, with mask": (0, 0),
    "c is changed, outputs at a and b change by, without": (0.5, 0.4),
    "all at once and word by word: largest difference": (0, 1e-6),
    "largest influence of the future, with mask": (0, 0),
    "log 26": (3.2581, 0.0001),
    "loss on random letters, mask and shift": (3.263, 0.02),
    "loss on random letters, no mask": (0.42, 0.06),
    "loss on random letters, no shift": (0, 0.05),
    "padding hidden, outputs at a and b change by": (0, 1e-6),
    "padding seen, outputs at a and b change by": (0.3, 0.25),
}

MUTATIONS = [
    ("layer(x, x, x, attn_mask=mask)", "layer(x, x, x)"),
    ("src_mask=F.causal_mask(length) if mask else None", "src_mask=None"),
    ("axis=1) if shift else letters", "axis=1)"),
    ("masked_fill(future, -math.inf)", "masked_fill(future, -1.0)"),
    ("key_padding_mask=mask", "key_padding_mask=None"),
]
