CLAIMS = {
    "longest path for 64 words, recurrence": (193, 0),
    "longest path for 64 words, convolutions": (130, 16),
    "longest path for 64 words, dilated": (18, 3),
    "longest path for 64 words, attention": (6, 0),
    "gradient at the first word, 0 layers less": (1, 0.99999),
    "gradient at the first word, 1 layers less": (0, 0),
    "flops of attention / of recurrence, 16 words": (0.25, 0.03),
    "flops of attention with W^Q, W^K, W^V / of recurrence, 16 words": (1.75, 0.1),
    "flops of attention / of recurrence, 64 words": (1, 0.03),
    "flops of attention with W^Q, W^K, W^V / of recurrence, 64 words": (2.5, 0.05),
    "flops of attention / of recurrence, 256 words": (4, 0.1),
    "flops of attention with W^Q, W^K, W^V / of recurrence, 256 words": (5.5, 0.1),
    "time of recurrence / of attention, 256 words": (51, 50),
    "flops of recurrence / of attention, 256 words": (0.182, 0.02),
}

RELATIONS = {
    "attention has more to compute, and is done sooner": lambda n: (
        n["flops of recurrence / of attention, 256 words"] < 1 < n["time of recurrence / of attention, 256 words"]
    ),
}

MUTATIONS = [
    ("[3**i for i in", "[1 for i in"),
    ("+ states[-1] @ U", "+ inputs[:1] @ U"),  # no state is handed on
    ("n, d_model), requires_grad=True)", "n, d_model // 2).repeat(2, axis=-1), requires_grad=True)[: n // 2]"),
]
