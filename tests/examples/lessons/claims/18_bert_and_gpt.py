CLAIMS = {
    "a layer of BERT with a causal mask and one of GPT: difference": (0, 1e-4),
    "hidden words: found": (0.46, 0.12),
    "hidden words: the most frequent word": (0.137, 0.03),
    "next words: found": (0.40, 0.12),
    "next words: the most frequent word": (0.141, 0.03),
    "BERT: words before the noun whose answer changes": (5, 0),
    "GPT: words before the noun whose answer changes": (0, 0),
    "squares times a matrix, and a convolution: largest difference": (0, 1e-4),
    "positions of a picture": (196, 0),
}

RELATIONS = {
    "both find far more than the most frequent word": lambda n: (
        min(
            n["hidden words: found"] / n["hidden words: the most frequent word"],
            n["next words: found"] / n["next words: the most frequent word"],
        )
        > 2
    ),
}

MUTATIONS = [
    (".permute(1, 3, 0, 2, 4)", ".permute(1, 3, 0, 4, 2)"),
    ("src_mask=mask", "src_mask=None"),
    ('{"BERT": bert, "GPT": gpt}', '{"BERT": gpt, "GPT": gpt}'),
    ("    return np.where(hidden, MASK, ids), ", "    return ids, "),
    ("return ids[:, :-1], ids[:, 1:]", "return ids, ids"),
]
